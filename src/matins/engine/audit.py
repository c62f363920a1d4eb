"""Whether the store agrees with the log of events. What was changed, deleted or invented does not agree.

`RecordCheck`: records outside the log. `RunCheck`: runs and attempts. `DefinitionCheck`: revisions of schedules, and
records of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import orjson

from matins.engine.erasure import ERASED, MARK
from matins.engine.transitions import ALL, CLAIM, INITIAL_STATES
from matins.model.access import Token, name_of
from matins.model.event import BoundRevision, BoundRun, CurrentRevision, SealRow, StoredEvent, Subscription, WriterRow
from matins.model.policies import Approval, Vote
from matins.model.rows import AttemptRow, NewSchedule, PolicyRow, ScheduleRow, ScopeRow
from matins.model.run import RunState

PRUNED = "history.pruned"
_NAMED = ("token.created", "token.renamed")


def token_digest(token: Token) -> str:
    """The digest of what a token is good for. Its use is not part of it."""
    fixed = token.id, token.hash, token.name, token.role, token.rights, token.created_at, token.created_by, token.person
    return _digest([*fixed, token.expires_at])


def approval_digest(approval: Approval) -> str:
    """The digest of a request, without its outcome."""
    fixed = approval._replace(id=0, schedule="", state="pending", decided_at=None, votes=())
    return _digest(list(fixed[:-1]))


def _digest(value: Any) -> str:
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Pruning(NamedTuple):
    """What the newest event about pruning says; nothing when nothing was pruned."""

    before: int = 0
    """Records that are older may have no event any more."""
    begins: Mapping[str, list[Any]] = {}
    tokens: Mapping[str, str] = {}
    revoked: tuple[str, ...] = ()
    approvals: Mapping[str, str] = {}
    seal: tuple[int, str] = (0, "00" * 32)
    """The last seal that was pruned."""
    definitions: Sequence[Any] = ()
    """What the pruned events said about definitions."""


def pruned_record(
    before: int, writers: Iterable[WriterRow], tokens: Iterable[Token], approvals: Iterable[Approval],
    definitions: Sequence[Any], seal: SealRow | None, earlier: Pruning,
) -> dict[str, Any]:  # fmt: skip
    """What an event about pruning says: where each chain begins, and the records whose own events may be gone."""
    last = earlier.seal if seal is None else (seal.id, bytes(seal.hash).hex())
    return {
        "before": max(before, earlier.before),  # the clock may have been set back
        "begins": {str(writer.id): [writer.pruned_seq, _hex(writer)] for writer in writers if writer.pruned_seq},
        "tokens": {token.id: token_digest(token) for token in tokens},
        "revoked": [token.id for token in tokens if token.revoked_at is not None],
        "approvals": {str(approval.id): approval_digest(approval) for approval in approvals},
        "seal": last,
        "definitions": [list(entry) for entry in definitions],
    }


def pruning_of(event: StoredEvent | None) -> Pruning:
    return Pruning() if event is None else Pruning(**orjson.loads(event.data or "{}"))


def writer_problems(writers: Iterable[WriterRow], pruning: Pruning) -> Iterator[str]:
    for writer in writers:
        if writer.pruned_seq and pruning.begins.get(str(writer.id)) != [writer.pruned_seq, _hex(writer)]:
            yield f"Writer {writer.id}: events up to number {writer.pruned_seq} are gone, and the log does not say so."


def _hex(writer: WriterRow) -> str:
    return bytes(writer.pruned_hash or b"").hex()


# -- approvals, votes and tokens


class RecordCheck:
    """Compares approvals, votes and tokens with their events. Events of several writers may come in any order."""

    def __init__(
        self,
        pruning: Pruning,
        approval: Callable[[int], Approval | None],
        run_is_there: Callable[[int], bool],
    ) -> None:
        self._approval = approval
        self._changed: dict[int, str] = {}
        self._states: dict[int, str] = {}
        self._agreed: set[int] = set()
        """Approvals whose state the log has said."""
        self._votes: dict[tuple[int, str], None] = {}
        self._run_is_there = run_is_there
        self._since = pruning.before
        self._tokens = dict(pruning.tokens)
        self._named: dict[str, int] = {}
        """When the log last said the name of a token."""
        self._revoked = set(pruning.revoked)
        for number, digest in pruning.approvals.items():
            self._compare(int(number), digest)

    def feed(self, event: StoredEvent) -> None:
        if not event.type.startswith(("approval.", "token.", ERASED)) or not event.data:
            return
        data: dict[str, Any] = orjson.loads(event.data)
        if event.type == ERASED:
            for number in data["approvals"]:
                self._changed.pop(number, None)
                self._votes = {key: None for key in self._votes if key[0] != number}
            return
        if event.type in _NAMED:
            if event.at >= self._named.get(data["token"], 0):  # events of several writers may come in any order
                self._tokens[data["token"]], self._named[data["token"]] = data["digest"], event.at
        elif event.type == "token.revoked":
            self._revoked.add(data["token"])
        elif event.type == "approval.voted":
            self._feed_vote(event, data)
        else:
            self._feed_approval(event, data)

    def _feed_vote(self, event: StoredEvent, data: dict[str, Any]) -> None:
        number = int(data["approval"])
        approval = self._approval(number)
        vote = Vote(data["who"], data["vote"], event.at, data["note"], data["digest"])
        if approval is None or vote in approval.votes:
            self._votes.pop((number, vote.voter), None)
        else:
            self._votes[number, vote.voter] = None

    def _feed_approval(self, event: StoredEvent, data: dict[str, Any]) -> None:
        number = int(data["approval"])
        if "record" in data:
            # A request is deleted with its run, or with events that are as old.
            run, missing = event.run_id, self._approval(number) is None
            if missing and (event.at >= self._since if run is None else self._run_is_there(run)):
                self._changed[number] = f"Approval {number} was deleted, and the log does not say so."
            self._compare(number, data["record"])
        if "instead_of" in data:
            self._compare_state(int(data["instead_of"]), event, "void")
        self._compare_state(number, event, None)

    def _compare(self, number: int, digest: str) -> None:
        approval = self._approval(number)
        if approval is not None and approval_digest(approval) != digest:
            self._changed[number] = f"Approval {number} was changed after it was requested."

    def _compare_state(self, number: int, event: StoredEvent, state: str | None) -> None:
        approval = self._approval(number)
        if approval is None:
            return
        state = state or _state_after(event.type, approval)
        undated = state in ("pending", "used") or approval.decided_at == event.at
        problem = f"Approval {number} is {approval.state}, which the log does not say."
        if _ORDER[state] > _ORDER[approval.state]:
            self._changed.setdefault(number, problem)
        elif approval.state == state and undated:
            self._agreed.add(number)
            self._states.pop(number, None)
        elif number not in self._agreed:
            self._states[number] = problem

    def problems(self, tokens: Sequence[Token]) -> Iterator[str]:
        """What does not agree after all events."""
        yield from self._changed.values()
        yield from self._states.values()
        for number, voter in self._votes:
            yield f"The vote of {name_of(voter)} on approval {number} was changed or deleted."
        for deleted in sorted(self._tokens.keys() - {token.id for token in tokens}):
            yield f"Token {deleted} was deleted."
        for token in tokens:
            if token.id not in self._tokens:
                yield f"Token {token.id} is not in the log."
            elif self._tokens[token.id] != token_digest(token):
                yield f"Token {token.id} was changed after it was created."
            elif token.id in self._revoked and token.revoked_at is None:
                yield f"Token {token.id} was revoked, and is valid again."


_ORDER = {"pending": 0, "approved": 1, "denied": 1, "expired": 1, "used": 2, "void": 3}
"""The states of a request, in the order in which they follow one another."""


def _state_after(event: str, approval: Approval) -> str:
    """The state of a request after an event of it."""
    if event == "approval.approved":  # only the start of a run uses an approval up later
        return "approved" if approval.kind == "run" else "used"
    if event == "approval.expired":
        return "approved" if approval.kind == "run" and approval.default == "approve" else "expired"
    return {"approval.voided": "void", "approval.denied": "denied", "approval.used": "used"}.get(event, "pending")


RUNS_PRUNED = "history.runs_pruned"
SHORTENED = "run.shortened"
WITHDRAWN = "run.withdrawn"


def _with_steps(events: Mapping[str, RunState]) -> dict[str, RunState]:
    return dict(events) | {event.replace("run.", "step.", 1): state for event, state in events.items()}


CREATED = _with_steps({event: state for state, event in INITIAL_STATES.items()}) | {
    "step.succeeded": RunState.SUCCEEDED
}
"""The types of events with which runs are created. Some are also written later: only the first ones have a slot."""
STARTED = _with_steps({CLAIM.event: CLAIM.target})
ENDS = _with_steps(
    {transition.event: transition.target for transition in ALL if transition.is_terminal}
    | {event: state for state, event in INITIAL_STATES.items() if state >= RunState.SUCCEEDED}
)
"""The state of a run by the event of its end."""
_OF_RUNS = {*CREATED, *STARTED, *ENDS, SHORTENED, WITHDRAWN}
_NOT_EVIDENCE = (
    "reason", "rev", "epoch", "digest", "slot", "slots", "first", "by", "who", "title", "step", "of", "started_at",
    "worker", "summary", "quote", "error", "deliver", "for_slot",
)  # fmt: skip
"""What else events of ends say."""
Attempts = Mapping[int, Mapping[int, AttemptRow]]
"""Attempts by run and epoch."""


def end_facts(rev: int, outcome: str | None) -> dict[str, Any]:
    """What the event of an end binds of a run: its settings, and its outcome as it is stored."""
    digest = _run_digest(outcome)
    return {"rev": rev} if digest is None else {"rev": rev, "digest": digest}


def _run_digest(outcome: str | None) -> str | None:
    return None if outcome is None else sha256(outcome.encode()).hexdigest()[:32]


def id_ranges(ids: Iterable[int]) -> list[list[int]]:
    """Ids as pairs of first and last."""
    found: list[list[int]] = []
    for one in sorted(ids):
        if found and one == found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return found


class IdSet:
    """A set of ids in a bit each: most ids of a range are in it, or none."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}

    def add(self, first: int, last: int | None = None) -> None:
        for one in range(first, (first if last is None else last) + 1):
            chunk = self._chunks.get(one >> 16)
            if chunk is None:
                chunk = self._chunks[one >> 16] = bytearray(8_192)
            chunk[(one & 0xFFFF) >> 3] |= 1 << (one & 7)

    def first_not_in(self, other: IdSet) -> int | None:
        for key in sorted(self._chunks):
            rest = self._bits(key) & ~other._bits(key)
            if rest:
                return (key << 16) + (rest & -rest).bit_length() - 1
        return None

    def _bits(self, key: int) -> int:
        return int.from_bytes(self._chunks.get(key, b""), "little")


class Covered(NamedTuple):
    """The slots that a run covers."""

    slot: int | None
    first: int | None
    slots: int | None

    @classmethod
    def of_run(cls, run: BoundRun) -> Covered:
        """A run without a slot has calls, whose number grows."""
        return cls(run.slot, run.first_slot, None if run.slot is None else run.slots)

    @classmethod
    def of_event(cls, data: Mapping[str, Any]) -> Covered:
        slot = data.get("slot")
        return cls(slot, data.get("first"), None if slot is None else data.get("slots", 1))


class RunCheck:
    """Compares runs and attempts with their events. Events of several writers may come in any order, so what another
    event may explain is judged after all of them."""

    def __init__(self, since: int) -> None:
        self._since = since
        self.counts = [0, 0, 0]
        """Runs that were created and that ended since then, and attempts: those that the log knows and that exist."""
        self._absent, self._gone = IdSet(), IdSet()
        self._wordless, self._erased = IdSet(), IdSet()
        """Ended runs without the outcome that the log has a digest of, and those of which it says so."""
        self._covered: dict[int, Covered] = {}
        """What runs cover, where it is not what it was at first."""
        self.problem: str | None = None

    @staticmethod
    def of_runs(events: Iterable[StoredEvent]) -> set[int]:
        """The runs whose rows are needed."""
        return {event.run_id for event in events if event.run_id is not None and event.type in _OF_RUNS}

    def feed(self, events: Iterable[StoredEvent], runs: Mapping[int, BoundRun], attempts: Attempts) -> None:
        for event in events:
            if event.type == RUNS_PRUNED:
                for first, last in orjson.loads(event.data or "{}")["runs"]:
                    self._gone.add(first, last)
            elif event.type == ERASED:
                for run_id in orjson.loads(event.data or "{}")["runs"]:
                    self._erased.add(run_id)
            elif event.run_id is None or event.type not in _OF_RUNS:
                continue
            elif event.type == WITHDRAWN:
                self._gone.add(event.run_id)
            elif (run := runs.get(event.run_id)) is None:
                self._absent.add(event.run_id)
            else:
                problem = self._problem(event, run, attempts.get(run.id, {}))
                self.problem = self.problem or problem

    def _problem(self, event: StoredEvent, run: BoundRun, attempts: Mapping[int, AttemptRow]) -> str | None:
        kind = event.type
        data: dict[str, Any] = orjson.loads(event.data) if event.data else {}
        if kind == SHORTENED:
            self._shortened(run.id, Covered.of_event(data))
            return None
        found: str | None = None
        if kind in CREATED and "epoch" not in data and ("slot" in data or "of" in data):
            found = self._created(event, run, data)
        if kind in STARTED and ("worker" in data or "round" in data):
            found = found or self._started(event, run, data, attempts)
        if kind in ENDS:
            self.counts[1] += (run.ended_at or 0) >= self._since
            if MARK in data:
                self._wordless.add(run.id)
            found = found or _end_problem(event, run, data, attempts)
        return found

    def _created(self, event: StoredEvent, run: BoundRun, data: dict[str, Any]) -> str | None:
        self.counts[0] += run.planned_at >= self._since
        covered, steps = Covered.of_event(data), (run.parent, run.step)
        if covered != Covered.of_run(run) and run.id not in self._covered:
            self._covered[run.id] = covered
        same = (
            (run.schedule_id, run.planned_at) == (event.schedule_id, event.at)
            and steps == ((int(data["of"]), data["step"]) if "of" in data else (None, 0))
            and (not data.get("by") or (data["by"], data.get("who")) == _requester(run))
        )
        return None if same else f"Run {run.id} was changed after it was created."

    def _shortened(self, run_id: int, covered: Covered) -> None:
        """The last slot of a run only ever becomes earlier."""
        before = self._covered.get(run_id)
        if before is None or (before.slot or 0) > (covered.slot or 0):
            self._covered[run_id] = covered

    def _started(
        self, event: StoredEvent, run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]
    ) -> str | None:
        changed = f"Run {run.id} was changed after it started."
        if "round" in data:
            same = run.attempt > data["round"] or (run.attempt, run.started_at) == (data["round"], event.at)
            return None if same else changed
        epoch, number = data.get("epoch", 1), data.get("attempt", 1)
        attempt = attempts.get(epoch)
        if attempt is None or (attempt.owner, attempt.started_at) != (data["worker"], event.at):
            return f"Attempt {epoch} of run {run.id} was changed or deleted."
        self.counts[2] += attempt.started_at >= self._since
        if epoch < max(attempts):
            return None
        same = run.started_at == event.at and run.epoch >= epoch and run.attempt in (number, number - 1)
        return None if same else changed  # an attempt that was released, or that its provider refused, does not count

    def changed_ranges(self) -> Sequence[int]:
        """The runs whose slots must be compared after all events."""
        return sorted(self._covered)

    def problem_at_end(self, runs: Iterable[BoundRun]) -> str | None:
        """The first problem after all events, with the runs of `changed_ranges` as they are now."""
        for run in runs:
            if self.problem is None and self._covered[run.id] != Covered.of_run(run):
                self.problem = f"Run {run.id} was changed after it was created."
        deleted = self._absent.first_not_in(self._gone)
        if self.problem is None and deleted is not None:
            self.problem = f"Run {deleted} was deleted, and the log does not say so."
        erased = self._wordless.first_not_in(self._erased)
        if self.problem is None and erased is not None:
            self.problem = f"Run {erased} was erased, and the log does not say so."
        return self.problem


def _requester(run: BoundRun) -> tuple[str | None, str | None]:
    """The name of who requested the run, and who it is. The sender of a call is no principal."""
    evidence: dict[str, Any] = orjson.loads(run.evidence or "{}")
    by: Any = evidence.get("by")
    return (by.get("name"), by.get("who")) if isinstance(by, dict) else (by, evidence.get("who"))  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _end_problem(
    event: StoredEvent, run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]
) -> str | None:
    """Why a run does not agree with the event of its end."""
    if run.state < RunState.SUCCEEDED:
        return f"Run {run.id} had ended, and is {RunState(run.state).label} again."
    evidence = {name: value for name, value in data.items() if name not in _NOT_EVIDENCE}
    same = (
        (run.state, run.ended_at, run.schedule_id) == (ENDS[event.type], event.at, event.schedule_id)
        and (run.rev, run.epoch, run.reason) == (data.get("rev"), data.get("epoch", 0), data.get("reason"))
        and ((MARK in data and run.outcome is None) or _run_digest(run.outcome) == data.get("digest"))
        and (MARK in data or not evidence or evidence == _evidence(run))
        and _started_as_told(run, data, attempts)
    )
    return None if same else f"Run {run.id} was changed after it ended."


def _started_as_told(run: BoundRun, data: dict[str, Any], attempts: Mapping[int, AttemptRow]) -> bool:
    """Whether a run started with its last attempt. A run of steps has none; a step that is carried over keeps its
    start."""
    if attempts:
        return run.started_at == attempts[max(attempts)].started_at
    return bool(run.unfolded) or run.started_at == data.get("started_at")


def _evidence(run: BoundRun) -> dict[str, Any]:
    stored: dict[str, Any] = orjson.loads(run.evidence) if run.evidence else {}
    return {name: value for name, value in stored.items() if name not in _NOT_EVIDENCE}


SCHEDULE = "schedule"
_STATE = "state"
_LIMIT = "limit"
_REVISED = ("schedule.created", "schedule.updated", "schedule.renamed", "approval.edited", "run.varied")
_SUBSCRIBED = ("subscription.created", "subscription.updated", "subscription.deleted")
_OF_PEOPLE = ("webhook", "function")
"""Kinds of subscriptions with events of their own. The others have nothing to define."""
_REV_BITS = 24
_STOPS = {
    "approval.requested": "waiting", "schedule.paused": "paused", "schedule.auto_paused": "paused",
    "schedule.resumed": None, "schedule.expired": None,
}  # fmt: skip
"""What events say about whether a schedule may run: it waits for a person's answer, or is paused, or neither."""
_RUNNING = {"waiting": ("active", "paused", "completed"), "paused": ("active",)}
"""States that a schedule does not get while it is stopped."""


def fingerprint(*parts: object) -> str:
    """The digest of a definition as it is stored."""
    return _definition_digest("\0".join(map(str, parts)))


def _definition_digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def schedule_fingerprint(row: NewSchedule) -> str:
    """The digest of a new schedule: everything that decides what runs, and who made it."""
    return _definition_digest(
        f"{row.agent}\0{row.name}\0{row.created_by}\0{row.creator_role}\0{row.creator_run}\0{row.parent}\0{row.depth}"
        f"\0None\0None\0{row.definition}"
    )


def revision_fingerprint(row: BoundRevision) -> str:
    """The fingerprint of a revision in the store, with its author."""
    return fingerprint(*row[2:])


def subscription_fingerprint(row: Subscription) -> str:
    target = orjson.dumps(row.target, option=orjson.OPT_SORT_KEYS).decode()
    return fingerprint(row.kind, target, orjson.dumps(row.types).decode())


class Entry(NamedTuple):
    """What an event says about a definition."""

    kind: str
    name: str
    """For a revision, the id of its schedule."""
    rev: int
    """0 for records, which have no revisions."""
    digest: str | None
    """None when it was deleted."""
    event: int
    current: bool = True
    """Whether the schedule has this revision. Otherwise a run has it."""


def entries_of(event: StoredEvent) -> Iterator[Entry]:
    """The definitions that an event names."""
    if event.type not in DEFINING or not event.data:
        return
    data: dict[str, Any] = orjson.loads(event.data)
    if event.type in _REVISED:
        current = event.type != "run.varied" and event.run_id is None
        yield Entry(SCHEDULE, str(event.schedule_id), data.get("rev", 1), data["fingerprint"], event.id, current)
    elif event.type in _STOPS:
        if event.type != "approval.requested" or data["kind"] == SCHEDULE:
            yield Entry(_STATE, str(event.schedule_id), 0, _STOPS[event.type], event.id)
    elif event.type in _SUBSCRIBED:
        if data["kind"] in _OF_PEOPLE:
            yield Entry("subscription", data["subscription"], 0, data.get("fingerprint"), event.id)
    elif event.type == "limit.set":
        yield Entry(_LIMIT, data["scope"], 0, str(data["size"]) if data["size"] else None, event.id)
    elif event.type == "history.pruned":
        yield from (Entry(*entry) for entry in data["definitions"])
    else:
        yield Entry(data["kind"], data["name"], 0, data.get("fingerprint"), event.id)


DEFINING = frozenset({*_REVISED, *_SUBSCRIBED, *_STOPS, "policy.set", "policy.deleted", "limit.set", "history.pruned"})
"""The types of events that bind definitions."""


def carried(events: Iterable[StoredEvent]) -> list[Entry]:
    """What events that are pruned say about definitions, which the event about the pruning says instead of them."""
    found: dict[tuple[str, str, int], Entry] = {}
    for event in events:
        for entry in entries_of(event):
            key = entry[:3]
            if key not in found or found[key].event < entry.event:
                found[key] = entry
    return list(found.values())


class Stored(NamedTuple):
    """The definitions that are in the store."""

    current: Sequence[CurrentRevision]
    """Schedules that were ever revised."""
    policies: Sequence[PolicyRow]
    limits: Sequence[ScopeRow]
    subscriptions: Sequence[Subscription]
    stopped: Sequence[ScheduleRow]
    """Schedules that must not run, by the log."""

    def records(self) -> dict[tuple[str, str], str]:
        """The digests of all records by kind and name."""
        found = {(row.kind, row.name): fingerprint(row.definition) for row in self.policies if row.kind != "file"}
        found |= {(_LIMIT, row.scope): str(row.size) for row in self.limits if row.size}
        subscribed = [row for row in self.subscriptions if row.kind in _OF_PEOPLE]
        return found | {("subscription", row.name): subscription_fingerprint(row) for row in subscribed}


class DefinitionCheck:
    """Compares definitions with their events. Revisions are compared as their events come: they never change."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        """The revisions in the log, by `revision_key`."""
        self._current: dict[str, Entry] = {}
        """The entry of the last revision of each schedule that was revised."""
        self._states: dict[str, Entry] = {}
        """What the log said last about each schedule that was ever stopped."""
        self._records: dict[tuple[str, str], Entry] = {}
        self._problems: list[str] = []

    def revised(self, page: Iterable[StoredEvent]) -> tuple[list[Entry], set[int]]:
        """The revisions that events name, and their schedules. Other definitions are noted."""
        revisions: list[Entry] = []
        for event in page:
            for entry in entries_of(event):
                if entry.kind == SCHEDULE:
                    revisions.append(entry)
                elif entry.kind == _STATE:
                    if entry.name not in self._states or self._states[entry.name].event < entry.event:
                        self._states[entry.name] = entry
                elif (known := self._records.get(entry[:2])) is None or known.event < entry.event:
                    self._records[entry[:2]] = entry
        return revisions, {int(entry.name) for entry in revisions}

    def compare(self, entries: Iterable[Entry], rows: Iterable[BoundRevision]) -> None:
        """Compare revisions with the rows of their schedules."""
        stored: Mapping[tuple[int, int], BoundRevision] = {row[:2]: row for row in rows}
        for entry in entries:
            row = stored.get((int(entry.name), entry.rev))
            self.seen.add(revision_key(int(entry.name), entry.rev))
            if entry.current and entry.rev > 1 and (
                entry.name not in self._current or self._current[entry.name].rev < entry.rev
            ):  # fmt: skip
                self._current[entry.name] = entry
            if row is None:
                self._problems.append(f"schedule {entry.name}: the definition of event {entry.event} was deleted.")
            elif revision_fingerprint(row) != entry.digest:
                self._problems.append(_changed(SCHEDULE, named(row.agent, row.name), entry))

    def stopped(self) -> list[int]:
        """The schedules that wait for an answer, or are paused, by the log."""
        return [int(entry.name) for entry in self._states.values() if entry.digest is not None]

    def problems(self, stored: Stored) -> Iterator[str]:
        """What does not agree after all events."""
        yield from self._problems
        yield from self._current_problems(stored.current)
        for row in stored.stopped:
            entry = self._states[str(row.id)]
            if row.state in _RUNNING[entry.digest or ""]:
                yield f"schedule {named(row.agent, row.name)}: its state is not the one of event {entry.event}."
        records = stored.records()
        for key, entry in self._records.items():
            if entry.digest is not None and key not in records:
                yield f"{_word(entry.kind)} {entry.name} was deleted, and the log does not say so."
        for key, digest in records.items():
            entry = self._records.get(key)
            if entry is None or entry.digest is None:
                yield f"{_word(key[0])} {key[1]} is not in the log."
            elif entry.digest != digest:
                yield _changed(entry.kind, entry.name, entry)

    def _current_problems(self, rows: Iterable[CurrentRevision]) -> Iterator[str]:
        """A schedule with another revision than its last one: an older one, or one of a run."""
        found = {str(row.schedule_id): row for row in rows}
        for number, row in found.items():
            entry = self._current.get(number)
            if entry is None:
                yield f"schedule {named(row.agent, row.name)}: it has revision {row.rev}, which the log does not say."
            elif (row.rev, row.cursor_rev) != (entry.rev, entry.rev):
                yield _changed(SCHEDULE, named(row.agent, row.name), entry)
        for number, entry in self._current.items():
            if number not in found:
                yield _changed(SCHEDULE, number, entry)


def revision_key(schedule_id: int, rev: int) -> int:
    return schedule_id << _REV_BITS | rev


def named(agent: str, name: str) -> str:
    return f"{agent}/{name}" if agent else name


def _word(kind: str) -> str:
    return kind.replace("_", " ")


def _changed(kind: str, name: str, entry: Entry) -> str:
    return f"{_word(kind)} {name}: its definition is not the one of event {entry.event}."
