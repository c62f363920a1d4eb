"""What the log of events says about records outside it: a changed record does not agree with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from matins.model.access import Token, name_of
from matins.model.approval import Approval, Vote
from matins.model.audit import SealRow, StoredEvent, WriterRow

PRUNED = "history.pruned"
_TOKENS = ("token.created", "token.revoked")


def token_digest(token: Token) -> str:
    """The digest of what a token is good for. Its use is not part of it."""
    fixed = token.id, token.hash, token.name, token.role, token.rights, token.created_at, token.created_by
    return _digest([*fixed, token.expires_at])


def approval_digest(approval: Approval) -> str:
    """The digest of a request, without what becomes of it."""
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
        self._revoked = set(pruning.revoked)
        for number, digest in pruning.approvals.items():
            self._compare(int(number), digest)

    def feed(self, event: StoredEvent) -> None:
        if not event.type.startswith(("approval.", "token.")) or not event.data:
            return
        data: dict[str, Any] = orjson.loads(event.data)
        if event.type in _TOKENS:
            self._feed_token(event.type, data)
        elif event.type == "approval.voted":
            self._feed_vote(event, data)
        else:
            self._feed_approval(event, data)

    def _feed_token(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "token.created":
            self._tokens[data["token"]] = data["digest"]
        else:
            self._revoked.add(data["token"])

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
            self._look_for(number, event)
            self._compare(number, data["record"])
        if "instead_of" in data:
            self._compare_state(int(data["instead_of"]), event, "void")
        self._compare_state(number, event, None)

    def _look_for(self, number: int, event: StoredEvent) -> None:
        """A request is deleted with its run, or with events that are as old."""
        if self._approval(number) is not None:
            return
        if event.at >= self._since if event.run_id is None else self._run_is_there(event.run_id):
            self._changed[number] = f"Approval {number} was deleted, and the log does not say so."

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
