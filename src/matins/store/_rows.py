"""Methods made from the headers of the `.sql` files by `make pages`. Do not edit."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.access import ChatBot, ChatLink, Credential, IdempotentRequest
from matins.model.call import CalledRun, CallOutcome, CallRow
from matins.model.destination import AnswerRow
from matins.model.event import (
    BoundRevision,
    BoundRun,
    CurrentRevision,
    Delivery,
    DeliveryState,
    EventLink,
    IncidentRow,
    SealRow,
    StoredEvent,
    WriterRow,
)
from matins.model.overview import (
    ComingCursor,
    DayCount,
    EngineSpan,
    FailureCount,
    LabelCounts,
    PausedSchedule,
    PlannedRun,
    RecentRecord,
    RecordCount,
    RecordSpan,
    RunCost,
    RunPlace,
    SlotState,
)
from matins.model.policies import BudgetUsage, SpendingRow, Vote
from matins.model.rows import (
    AppliedFile,
    AttemptRow,
    BackfillRow,
    ChainStart,
    CheckRow,
    Due,
    Figures,
    FileEntry,
    LiveRun,
    NextInstants,
    NodeRuns,
    NodeState,
    PlaceRow,
    PolicyRow,
    ReadyPlace,
    RevisionRow,
    RunAhead,
    RunRow,
    ScheduleRow,
    ScopeRow,
    SlotRun,
    StartedRun,
    WaitingPlace,
    WaitingRun,
    WorkerRow,
    ZoneVersion,
)
from matins.model.run import Message, Usage
from matins.store.queries import Statements


class AccessRows(Statements):
    """Tokens, sessions of browsers, codes that link people to users of chat, and responses to requests with an
    idempotency key."""

    def revoke_token(self, token_id: str, now: int) -> bool:
        """Revoke a token once."""
        return bool(self._all("revoke_token", token_id=token_id, now=now))

    def touch_token(self, token_id: str, now: int) -> None:
        """Set when a token was last used."""
        self._all("touch_token", token_id=token_id, now=now)

    def open_session(self, session_id: str, code_hash: str, secret_hash: str, now: int, until: int) -> bool:
        """Make a link a session. False when it was opened or ended."""
        return bool(
            self._all(
                "open_session",
                session_id=session_id,
                code_hash=code_hash,
                secret_hash=secret_hash,
                now=now,
                until=until,
            )
        )

    def touch_session(self, session_id: str, now: int, until: int) -> None:
        """Set when a session was last used, and when it ends."""
        self._all("touch_session", session_id=session_id, now=now, until=until)

    def end_sessions(self, session_id: str | None, token: str | None, person: str | None, now: int) -> list[str]:
        """End the session, those that came from the token, or those of the person. Returns the ids that ended."""
        return self._column("end_sessions", session_id=session_id, token=token, person=person, now=now)

    def credential(self, kind: str, subject: str) -> Credential | None:
        """One credential."""
        return self._row(Credential, "credential", kind=kind, subject=subject)

    def credentials(self) -> list[Credential]:
        """All credentials."""
        return self._rows(Credential, "credentials")

    def set_credential(self, credential: Credential) -> None:
        """Set a credential."""
        self._all(
            "set_credential",
            kind=credential.kind,
            subject=credential.subject,
            person=credential.person,
            hash=credential.hash,
            at=credential.at,
        )

    def delete_credentials(self, person: str) -> None:
        """Delete what a person signs in with."""
        self._all("delete_credentials", person=person)

    def delete_credential(self, kind: str, subject: str) -> None:
        """Delete one credential."""
        self._all("delete_credential", kind=kind, subject=subject)

    def insert_try(self, whose: str, now: int) -> None:
        """Count a try to sign in."""
        self._all("insert_try", whose=whose, now=now)

    def tries(self, whose: str, after: int) -> int:
        """The number of tries after an instant."""
        return self._value("tries", whose=whose, after=after)

    def delete_tries(self, whose: str | None, before: int) -> None:
        """Delete the tries of one, and those before an instant."""
        self._all("delete_tries", whose=whose, before=before)

    def delete_sessions(self, before: int) -> None:
        """Delete sessions that expired before an instant."""
        self._all("delete_sessions", before=before)

    def idempotent_request(self, principal: str, key: str) -> IdempotentRequest | None:
        """A request with a key, and its response."""
        return self._row(IdempotentRequest, "idempotent_request", principal=principal, key=key)

    def begin_request(self, principal: str, key: str, digest: str, now: int) -> bool:
        """Add a request that is being processed. False when the request is being processed, or has a response."""
        return bool(self._all("begin_request", principal=principal, key=key, digest=digest, now=now))

    def store_response(self, principal: str, key: str, status: int, answer: str) -> None:
        """Set the response of a request."""
        self._all("store_response", principal=principal, key=key, status=status, answer=answer)

    def delete_request(self, principal: str, key: str) -> None:
        """Delete a request without a response, so that it can be repeated."""
        self._all("delete_request", principal=principal, key=key)

    def delete_requests(self, before: int) -> None:
        """Delete old requests."""
        self._all("delete_requests", before=before)

    def chat_bots(self) -> list[ChatBot]:
        """The bots of chat services."""
        return self._rows(ChatBot, "chat_bots")

    def set_chat_bot(self, bot: ChatBot) -> None:
        """Set what is known of a bot."""
        self._all("set_chat_bot", service=bot.service, name=bot.name, problem=bot.problem)

    def delete_chat_bot(self, service: str) -> None:
        """Forget a bot."""
        self._all("delete_chat_bot", service=service)

    def insert_chat_link(self, link: ChatLink) -> None:
        """Add a code that links a person to a user of chat."""
        self._all(
            "insert_chat_link", hash=link.hash, service=link.service, person=link.person, expires_at=link.expires_at
        )

    def take_chat_link(self, service: str, code_hash: str, now: int) -> str | None:
        """Use a code, once; the name of its person."""
        return self._value("take_chat_link", service=service, code_hash=code_hash, now=now)

    def delete_chat_links(self, service: str, person: str, now: int) -> None:
        """Delete the codes of a person, and those that expired."""
        self._all("delete_chat_links", service=service, person=person, now=now)

    def rename_tokens(self, agent: str, name: str) -> list[str]:
        """Give the tokens of an agent another name. Returns their ids."""
        return self._column("rename_tokens", agent=agent, name=name)

    def rename_sessions(self, agent: str, name: str) -> None:
        """Give the browser sessions of an agent another name."""
        self._all("rename_sessions", agent=agent, name=name)


class AnswerRows(Statements):
    """Answers of runs for destinations."""

    def insert_answer(self, answer: AnswerRow) -> bool:
        """Add an answer; False when the run has it already."""
        return bool(
            self._all(
                "insert_answer",
                run_id=answer.run_id,
                number=answer.number,
                destination=answer.destination,
                schedule_id=answer.schedule_id,
                state=answer.state,
                reason=answer.reason,
                digest=answer.digest,
                created_at=answer.created_at,
                next_at=answer.next_at,
                title=answer.title,
                text=answer.text,
                files=answer.files,
                attempts=answer.attempts,
                parts=answer.parts,
                parts_sent=answer.parts_sent,
                sending=answer.sending,
                again=answer.again,
                lost=answer.lost,
                copy=answer.copy,
                digest_at=answer.digest_at,
                receipt=answer.receipt,
                error=answer.error,
                sent_at=answer.sent_at,
            )
        )

    def answers_of(self, run_id: int) -> list[AnswerRow]:
        """The answers of a run."""
        return self._rows(AnswerRow, "answers_of", run_id=run_id)

    def last_answer(self, schedule_id: int, destination: str, run_id: int) -> tuple[int, str] | None:
        """The run and the digest of the last answer of another run that went to a destination."""
        return next(
            iter(self._all("last_answer", schedule_id=schedule_id, destination=destination, run_id=run_id)), None
        )

    def due_answers(self, destination: str, now: int, limit: int) -> list[AnswerRow]:
        """The next answer of each schedule that may be sent now, the longest waiting first."""
        return self._rows(AnswerRow, "due_answers", destination=destination, now=now, limit=limit)

    def digest_answers(self, destination: str, now: int, limit: int) -> list[AnswerRow]:
        """The answers of a digest that is due."""
        return self._rows(AnswerRow, "digest_answers", destination=destination, now=now, limit=limit)

    def next_digest_of(self, destination: str) -> int | None:
        """When the digest of a destination is due."""
        return self._value("next_digest_of", destination=destination)

    def next_answer(self, destination: str, now: int) -> int | None:
        """When an answer is due for a destination."""
        return self._value("next_answer", destination=destination, now=now)

    def answers_sent_since(self, destination: str, since: int) -> int:
        """The number of answers that a destination got since an instant."""
        return self._value("answers_sent_since", destination=destination, since=since)

    def advance_answers(self, destination: str, now: int, latest: int) -> None:
        """Send now what is deferred beyond the longest delay, after the clock was set back; what waits for the end of
        quiet hours is deferred again."""
        self._all("advance_answers", destination=destination, now=now, latest=latest)

    def waiting_destinations(self) -> list[str]:
        """The destinations for which answers wait."""
        return self._column("waiting_destinations")

    def set_answer(self, answer: AnswerRow) -> bool:
        """What became of an answer that waits; False when it no longer does."""
        return bool(
            self._all(
                "set_answer",
                run_id=answer.run_id,
                number=answer.number,
                destination=answer.destination,
                state=answer.state,
                reason=answer.reason,
                next_at=answer.next_at,
                attempts=answer.attempts,
                parts=answer.parts,
                parts_sent=answer.parts_sent,
                sending=answer.sending,
                again=answer.again,
                lost=answer.lost,
                copy=answer.copy,
                digest_at=answer.digest_at,
                receipt=answer.receipt,
                error=answer.error,
                sent_at=answer.sent_at,
            )
        )

    def renew_answer(self, answer: AnswerRow) -> None:
        """Send an answer again."""
        self._all(
            "renew_answer",
            run_id=answer.run_id,
            number=answer.number,
            destination=answer.destination,
            next_at=answer.next_at,
        )

    def discard_answers(self, destination: str, reason: str) -> list[int]:
        """Discard what waits for a destination, and return the runs."""
        return self._column("discard_answers", destination=destination, reason=reason)

    def thread_place(self, thread_id: int) -> str | None:
        """Where a thread is in chat."""
        return self._value("thread_place", thread_id=thread_id)


class ApprovalRows(Statements):
    """Requests for approval, and votes."""

    def set_approval_state(self, approval_id: int, was: str, state: str, now: int) -> bool:
        """Change the state once; the use of an approval keeps the time of the decision. False when it is no longer
        `was`."""
        return bool(self._all("set_approval_state", approval_id=approval_id, was=was, state=state, now=now))

    def upsert_vote(self, approval_id: int, vote: Vote) -> None:
        """Add or replace a vote."""
        self._all(
            "upsert_vote",
            approval_id=approval_id,
            voter=vote.voter,
            vote=vote.vote,
            at=vote.at,
            note=vote.note,
            digest=vote.digest,
        )


class AttemptRows(Statements):
    """Attempts and checks of runs."""

    def attempts(self, run_id: int) -> list[AttemptRow]:
        """The attempts of a run."""
        return self._rows(AttemptRow, "attempts", run_id=run_id)

    def worker_of(self, run_id: int, epoch: int) -> str | None:
        """The identity of the worker that started an attempt."""
        return self._value("worker_of", run_id=run_id, epoch=epoch)

    def report_outcome(self, run_id: int, epoch: int, reported: str) -> None:
        """Set the outcome that an agent reports while its attempt runs."""
        self._all("report_outcome", run_id=run_id, epoch=epoch, reported=reported)

    def reported_outcome(self, run_id: int, epoch: int) -> str | None:
        """The outcome that the agent reported while its attempt ran, as JSON."""
        return self._value("reported_outcome", run_id=run_id, epoch=epoch)

    def end_attempt(self, run_id: int, epoch: int, now: int) -> None:
        """Set when an attempt ended after which its run goes on."""
        self._all("end_attempt", run_id=run_id, epoch=epoch, now=now)

    def uncount_attempt(self, run_id: int) -> None:
        """Do not count an attempt that the provider refused."""
        self._all("uncount_attempt", run_id=run_id)

    def insert_check(self, check: CheckRow) -> None:
        """Add the verdict of a guard, a pre-check or a hook."""
        self._all(
            "insert_check",
            run_id=check.run_id,
            epoch=check.epoch,
            kind=check.kind,
            at=check.at,
            duration_ms=check.duration_ms,
            exit_code=check.exit_code,
            verdict=check.verdict,
            reason=check.reason,
            output=check.output,
        )

    def checks(self, run_id: int) -> list[CheckRow]:
        """The checks of a run."""
        return self._rows(CheckRow, "checks", run_id=run_id)


class AuditRows(Statements):
    """What the log must agree with."""

    def bound_revision(self, schedule_id: int, rev: int) -> BoundRevision:
        """One revision, for its digest."""
        return self._rows(BoundRevision, "bound_revision", schedule_id=schedule_id, rev=rev)[0]

    def current_revisions(self) -> list[CurrentRevision]:
        """Schedules that were revised, and the revisions that they and their cursors have."""
        return self._rows(CurrentRevision, "current_revisions")

    def count_revisions(self) -> int:
        """The number of revisions of all schedules."""
        return self._value("count_revisions")

    def revisions(self) -> list[tuple[int, int, str, str]]:
        """Schedule, revision, agent and name of all revisions."""
        return self._all("revisions")

    def bound_runs(self, ids: Iterable[int]) -> list[BoundRun]:
        """What the log knows of runs."""
        return self._rows(BoundRun, "bound_runs", ids=self._integers(ids))

    def bound_revisions(self, schedule_ids: Iterable[int]) -> list[BoundRevision]:
        """All revisions of these schedules."""
        return self._rows(BoundRevision, "bound_revisions", schedule_ids=self._integers(schedule_ids))

    def bound_attempts(self, ids: Iterable[int]) -> list[AttemptRow]:
        """All attempts of these runs."""
        return self._rows(AttemptRow, "bound_attempts", ids=self._integers(ids))

    def unlogged_attempts(self, since: int, types: Iterable[str]) -> list[tuple[int, int]]:
        """Run and epoch of attempts that started since an instant without an event of these types; a few of them."""
        return self._all("unlogged_attempts", since=since, types=self._texts(types))

    def unlogged_approvals(self, since: int) -> list[int]:
        """Requests that are not in the log."""
        return self._column("unlogged_approvals", since=since)

    def unlogged_votes(self, since: int) -> list[tuple[int, str]]:
        """Votes that are not in the log."""
        return self._all("unlogged_votes", since=since)


class BackfillRows(Statements):
    """Backfills: runs for past slots."""

    def backfill(self, backfill_id: int) -> BackfillRow | None:
        """One backfill."""
        return self._row(BackfillRow, "backfill", backfill_id=backfill_id)

    def lock_backfill(self, backfill_id: int) -> BackfillRow | None:
        """The same, locked."""
        return self._row(BackfillRow, "lock_backfill", backfill_id=backfill_id)

    def backfills(self, schedule_id: int | None, before: int, limit: int) -> list[BackfillRow]:
        """A page of backfills, the newest first."""
        return self._rows(BackfillRow, "backfills", schedule_id=schedule_id, before=before, limit=limit)

    def running_backfills(self) -> list[tuple[int, int, int | None, int]]:
        """(id, schedule, when to look next, room): running backfills, and how many more runs may be live."""
        return self._all("running_backfills")

    def insert_backfill(self, row: BackfillRow) -> int:
        """Add a backfill, and return its id."""
        return self._value(
            "insert_backfill",
            schedule_id=row.schedule_id,
            rev=row.rev,
            state=row.state,
            first_slot=row.first_slot,
            last_slot=row.last_slot,
            choice=row.choice,
            newest_first=row.newest_first,
            planned=row.planned,
            most=row.most,
            max_parallel=row.max_parallel,
            max_cost=row.max_cost,
            next_at=row.next_at,
            created_at=row.created_at,
            created_by=row.created_by,
        )

    def move_backfill(self, row: BackfillRow) -> None:
        """How far a backfill is."""
        self._all(
            "move_backfill",
            id=row.id,
            last_seen=row.last_seen,
            made=row.made,
            waits_since=row.waits_since,
            next_at=row.next_at,
        )

    def set_backfill_state(
        self,
        backfill_id: int,
        state: str,
        reason: str | None,
        by: str | None,
        next_at: int | None,
        ended_at: int | None,
    ) -> None:
        """Pause, resume or end a backfill. One that is resumed counts its failures anew."""
        self._all(
            "set_backfill_state",
            backfill_id=backfill_id,
            state=state,
            reason=reason,
            by=by,
            next_at=next_at,
            ended_at=ended_at,
        )

    def pause_backfills(self, schedule_id: int) -> list[int]:
        """Pause those of a schedule that is paused."""
        return self._column("pause_backfills", schedule_id=schedule_id)

    def resume_backfills(self, schedule_id: int, now: int) -> list[int]:
        """Let those continue that were paused with their schedule."""
        return self._column("resume_backfills", schedule_id=schedule_id, now=now)

    def open_backfills(self, schedule_id: int) -> list[int]:
        """Backfills of a schedule that are not over."""
        return self._column("open_backfills", schedule_id=schedule_id)

    def backfill_counts(self, backfill_id: int) -> list[tuple[int, int]]:
        """(state, number) of its runs."""
        return self._all("backfill_counts", backfill_id=backfill_id)

    def backfill_runs(self, backfill_id: int, live: int) -> list[int]:
        """Its live runs that have not started; with `live`, all of them."""
        return self._column("backfill_runs", backfill_id=backfill_id, live=live)

    def backfill_ends(self, backfill_id: int, after: int, limit: int) -> list[int]:
        """The states of its runs after one of them, as they ended, the last first."""
        return self._column("backfill_ends", backfill_id=backfill_id, after=after, limit=limit)

    def backfill_spent(self, backfill_id: int) -> int:
        """What its runs spent and have reserved, in micro-dollars."""
        return self._value("backfill_spent", backfill_id=backfill_id)

    def slot_runs(self, schedule_id: int, first: int, last: int) -> list[SlotRun]:
        """The records of slots from one to another, and the runs that stand for them. Records do not overlap: only the
        first that ends at the last slot or later may reach back to it."""
        return self._rows(SlotRun, "slot_runs", schedule_id=schedule_id, first=first, last=last)

    def made_up_by(self, schedule_id: int, slot: int, after: int) -> tuple[int, int] | None:
        """(id, state) of the newest run that stands for a slot, after another run."""
        return next(iter(self._all("made_up_by", schedule_id=schedule_id, slot=slot, after=after)), None)

    def set_for_slot(self, run_id: int, slot: int, backfill: int | None) -> None:
        """Set the past slot that a new run stands for."""
        self._all("set_for_slot", run_id=run_id, slot=slot, backfill=backfill)

    def backfill_of(self, run_id: int) -> int | None:
        """The backfill of a run."""
        return self._value("backfill_of", run_id=run_id)

    def waiting_before(self, place: int, scope: str | None, now: int) -> bool:
        """Whether a run that no backfill made waits for the same capacity."""
        return bool(self._all("waiting_before", place=place, scope=scope, now=now))


class CallRows(Statements):
    """Calls, the runs that they started, and the schedules that listen to them."""

    def set_call_outcome(self, call_id: int, outcome: CallOutcome, reason: str | None) -> None:
        """Set the outcome of a call."""
        self._all("set_call_outcome", call_id=call_id, outcome=outcome, reason=reason)

    def call(self, call_id: int) -> CallRow | None:
        """One call."""
        return self._row(CallRow, "call", call_id=call_id)

    def call_by_key(self, source: str, name: str, key: str) -> CallRow | None:
        """The call with this key."""
        return self._row(CallRow, "call_by_key", source=source, name=name, key=key)

    def calls(self, before: int, limit: int, source: str, name: str) -> list[CallRow]:
        """A page of calls, the newest first. An empty source or name stands for all."""
        return self._rows(CallRow, "calls", before=before, limit=limit, source=source, name=name)

    def calls_of_run(self, run_id: int, limit: int) -> list[CallRow]:
        """The calls that a run, or the run whose step it is, stands for, the newest first."""
        return self._rows(CallRow, "calls_of_run", run_id=run_id, limit=limit)

    def is_called(self, run_id: int) -> bool:
        """Whether a call started the run."""
        return bool(self._all("is_called", run_id=run_id))

    def link_call(self, call_id: int, run_id: int, grouped: str | None) -> None:
        """Let a run stand for a call."""
        self._all("link_call", call_id=call_id, run_id=run_id, grouped=grouped)

    def debouncing_run(self, schedule_id: int, grouped: str) -> int | None:
        """The run of the schedule that waits for further calls of this group."""
        return self._value("debouncing_run", schedule_id=schedule_id, grouped=grouped)

    def debounce_run(self, run_id: int, until: int, most: int) -> bool:
        """Add a call to a run that waits. It waits again until it stands for `most` calls. False when it waits no
        longer."""
        return bool(self._all("debounce_run", run_id=run_id, until=until, most=most))

    def listeners(self, source: str, name: str, agent: str) -> list[int]:
        """The schedules that listen to a source, by id: the order in which cursors are locked."""
        return self._column("listeners", source=source, name=name, agent=agent)

    def pipelines(self) -> list[tuple[int, int]]:
        """(schedule, schedule that follows it)."""
        return self._all("pipelines")

    def runs_of_calls(self, call_ids: Iterable[int]) -> list[CalledRun]:
        """The runs of calls."""
        return self._rows(CalledRun, "runs_of_calls", call_ids=self._integers(call_ids))


class CursorRows(Statements):
    """The cursors of schedules, from which planning continues."""

    def next_instants(self) -> NextInstants:
        """When the next schedule is due, and the next waiting record."""
        return self._rows(NextInstants, "next_instants")[0]

    def next_due(self) -> int | None:
        """The instant of the next due schedule."""
        return self._value("next_due")

    def cursors(self, after: int, limit: int) -> list[Due]:
        """A page of cursors that have a slot, by schedule id, locked."""
        return self._rows(Due, "cursors", after=after, limit=limit)

    def replace_cursor(
        self,
        schedule_id: int,
        next_slot: int | None,
        due_at: int | None,
        rev: int,
        *,
        paused: bool = False,
        waiting: bool = False,
    ) -> None:
        """Set the next slot of a schedule after an edit, a pause or a clock change. `waiting`: for a completion."""
        self._all(
            "replace_cursor",
            schedule_id=schedule_id,
            next_slot=next_slot,
            due_at=due_at,
            rev=rev,
            paused=paused,
            waiting=waiting,
        )

    def renew_cursor(self, schedule_id: int, rev: int) -> None:
        """Set the revision of a cursor whose slots stay."""
        self._all("renew_cursor", schedule_id=schedule_id, rev=rev)

    def upcoming(self, limit: int) -> list[int]:
        """The schedules that fire next, the soonest first."""
        return self._column("upcoming", limit=limit)

    def failures(self, schedule_id: int) -> int:
        """The consecutive failures of a schedule."""
        return self._value("failures", schedule_id=schedule_id)

    def reset_failures(self, schedule_id: int) -> None:
        """Set the failures of a schedule to 0."""
        self._all("reset_failures", schedule_id=schedule_id)

    def uncount_execution(self, schedule_id: int, run_id: int) -> None:
        """Do not count a run as an execution, because no attempt of it ran."""
        self._all("uncount_execution", schedule_id=schedule_id, run_id=run_id)

    def count_execution(self, schedule_id: int) -> None:
        """Count a run that a call started."""
        self._all("count_execution", schedule_id=schedule_id)

    def window_used(self, schedule_id: int) -> int:
        """The used catch-up runs of a missed window."""
        return self._value("window_used", schedule_id=schedule_id)

    def lock_due(self, schedule_ids: Iterable[int]) -> list[Due]:
        """The cursors of these schedules, locked; `slot` may be None."""
        return self._rows(Due, "lock_due", schedule_ids=self._integers(schedule_ids))


class DeliveryRows(Statements):
    """Events on their way to subscribers."""

    def due_queues(self, name: str, now: int, limit: int) -> list[int]:
        """Schedules whose next event may be delivered now, the longest waiting first."""
        return self._column("due_queues", name=name, now=now, limit=limit)

    def next_delivery(self, name: str, now: int) -> int | None:
        """The instant of the next delivery."""
        return self._value("next_delivery", name=name, now=now)

    def delete_delivery(self, name: str, event_id: int) -> None:
        """Delete a delivery that succeeded."""
        self._all("delete_delivery", name=name, event_id=event_id)

    def unblock_queue(self, name: str, schedule_id: int, now: int) -> None:
        """Release the next event of a schedule after the one before it is done."""
        self._all("unblock_queue", name=name, schedule_id=schedule_id, now=now)

    def deliveries(self, name: str, state: DeliveryState, after: int, limit: int) -> list[Delivery]:
        """The deliveries of a subscription, the oldest first."""
        return self._rows(Delivery, "deliveries", name=name, state=state, after=after, limit=limit)

    def given_up(self) -> list[Delivery]:
        """The first delivery that each subscription has given up."""
        return self._rows(Delivery, "given_up")

    def delete_lost_deliveries(self) -> None:
        """Delete deliveries of deleted events."""
        self._all("delete_lost_deliveries")


class EventRows(Statements):
    """The log of events, its chains and its seals."""

    def last_written(self) -> int:
        """The latest instant of the newest events; 0 when there are none."""
        return self._value("last_written")

    def logged(self, after: int, limit: int) -> list[StoredEvent]:
        """A page of all events by id, also of those that subscribers do not see yet."""
        return self._rows(StoredEvent, "logged", after=after, limit=limit)

    def last_pruning(self) -> StoredEvent | None:
        """The newest event that says which events were deleted."""
        return self._row(StoredEvent, "last_pruning")

    def events_before(self, event_id: int, limit: int) -> list[StoredEvent]:
        """A page of events, the newest first."""
        return self._rows(StoredEvent, "events_before", event_id=event_id, limit=limit)

    def event_horizon(self) -> int:
        """The last event id up to which all events are visible."""
        return self._value("event_horizon")

    def event(self, event_id: int) -> StoredEvent | None:
        """One event."""
        return self._row(StoredEvent, "event", event_id=event_id)

    def writers(self) -> list[WriterRow]:
        """Writers, for verification."""
        return self._rows(WriterRow, "writers")

    def seals(self, after: int, limit: int) -> list[SealRow]:
        """A page of seals, for verification."""
        return self._rows(SealRow, "seals", after=after, limit=limit)

    def newest_seal(self) -> SealRow | None:
        """The last seal."""
        return self._row(SealRow, "newest_seal")

    def links(self, ids: Iterable[int]) -> list[EventLink]:
        """Where events are in their chains."""
        return self._rows(EventLink, "links", ids=self._integers(ids))

    def events_after(self, event_id: int, limit: int) -> list[StoredEvent]:
        """A page of events."""
        return self._rows(StoredEvent, "events_after", event_id=event_id, limit=limit)


class FileRows(Statements):
    """Records that files define, and the files."""

    def file_entries(self) -> list[FileEntry]:
        """The records that files define."""
        return self._rows(FileEntry, "file_entries")

    def applied_files(self) -> list[AppliedFile]:
        """The files that were applied."""
        return self._rows(AppliedFile, "applied_files")

    def applied_text(self, name: str) -> str | None:
        """The text of a file as it was applied last."""
        return self._value("applied_text", name=name)

    def set_applied_file(self, file: AppliedFile, content: str) -> None:
        """A file was applied."""
        self._all(
            "set_applied_file",
            name=file.name,
            place=file.place,
            digest=file.digest,
            at=file.at,
            by=file.by,
            content=content,
        )

    def delete_applied_file(self, name: str) -> None:
        """A file has another name now."""
        self._all("delete_applied_file", name=name)

    def file_entries_named(self, kind: str, names: Iterable[str]) -> list[FileEntry]:
        """The records of files of a kind, by name."""
        return self._rows(FileEntry, "file_entries_named", kind=kind, names=self._texts(names))


class IncidentRows(Statements):
    """Incidents, and the messages about them."""

    def incident_window(self, after: int, upto: int, count: int) -> int:
        """The id up to which there are at most `count` events. Ids have gaps, in PostgreSQL wide ones."""
        return self._value("incident_window", after=after, upto=upto, count=count)

    def incident(self, incident_id: int) -> IncidentRow | None:
        """One incident."""
        return self._row(IncidentRow, "incident", incident_id=incident_id)

    def unresolved_incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        """A page of incidents that are not resolved, the newest first; of all schedules, or of one."""
        return self._rows(IncidentRow, "unresolved_incidents", schedule_id=schedule_id, before=before, limit=limit)

    def incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        """A page of all incidents, the newest first."""
        return self._rows(IncidentRow, "incidents", schedule_id=schedule_id, before=before, limit=limit)

    def due_incidents(self, now: int, limit: int) -> list[IncidentRow]:
        """Incidents that are looked at again now, the longest due first."""
        return self._rows(IncidentRow, "due_incidents", now=now, limit=limit)

    def next_notice(self) -> int | None:
        """When an incident is looked at again, or a digest is due."""
        return self._value("next_notice")

    def sent_since(self, destination: str, since: int) -> int:
        """The number of messages that were sent to a destination since an instant."""
        return self._value("sent_since", destination=destination, since=since)

    def open_incidents(self, schedule_ids: Iterable[int]) -> list[IncidentRow]:
        """Incidents of these schedules that are not resolved, the oldest first."""
        return self._rows(IncidentRow, "open_incidents", schedule_ids=self._integers(schedule_ids))

    def incident_events(self, after: int, upto: int, types: Iterable[str]) -> list[StoredEvent]:
        """Events of these types, and the successes, and what never ran, of schedules that have an incident, in
        order."""
        return self._rows(StoredEvent, "incident_events", after=after, upto=upto, types=self._texts(types))

    def opened_since(self, schedule_ids: Iterable[int], since: int) -> list[tuple[int, str, int]]:
        """By schedule and kind, the number of incidents that were opened since an instant, and told."""
        return self._all("opened_since", schedule_ids=self._integers(schedule_ids), since=since)

    def incident_ids(self, count: int) -> list[int]:
        """Ids for new incidents."""
        return self._column("incident_ids", count=count)


class ListingRows(Statements):
    """Pages of schedules and runs that match a filter."""

    def schedules_called(self, name: str, agent: str | None) -> list[ScheduleRow]:
        """The schedules of this name that are not deleted, of one agent or of any."""
        return self._rows(ScheduleRow, "schedules_called", name=name, agent=agent)

    def deleted_called(self, name: str, agent: str | None) -> list[ScheduleRow]:
        """Deleted schedules of this name, the last deleted first."""
        return self._rows(ScheduleRow, "deleted_called", name=name, agent=agent)


class MovingRows(Statements):
    """A store that moves to another one."""

    def marks(self) -> list[tuple[str, str]]:
        """What a store says of its move."""
        return self._all("marks")

    def take_charge(self, mark: str) -> str | None:
        """Be the store that a copy stands for. None when it is no copy, or one of another move."""
        return self._value("take_charge", mark=mark)


class NodeRows(Statements):
    """Nodes that take no new runs, and the runs of all nodes."""

    def node_states(self) -> list[NodeState]:
        """The nodes that are cordoned or draining."""
        return self._rows(NodeState, "node_states")

    def node_state(self, name: str) -> NodeState | None:
        """The state of a node; None where it is open."""
        return self._row(NodeState, "node_state", name=name)

    def set_node_state(self, node: NodeState) -> None:
        """Cordon or drain a node."""
        self._all(
            "set_node_state",
            name=node.name,
            state=node.state,
            by=node.by,
            note=node.note,
            at=node.at,
            ends_at=node.ends_at,
        )

    def open_node(self, name: str) -> bool:
        """Let a node take runs again. False if it was open."""
        return bool(self._all("open_node", name=name))

    def is_live_node(self, name: str, since: int) -> int | None:
        """An engine of a node that runs, or has ended after an instant."""
        return self._value("is_live_node", name=name, since=since)

    def node_runs(self) -> list[NodeRuns]:
        """How many runs each node has started that have not ended."""
        return self._rows(NodeRuns, "node_runs")


class OutputRows(Statements):
    """Output of runs whose files other machines have."""

    def insert_output(
        self, run_id: int, epoch: int, stream: str, at: int, size: int, total: int, data: bytes, url: str | None
    ) -> None:
        """Add a piece, unless it is there already."""
        self._all(
            "insert_output",
            run_id=run_id,
            epoch=epoch,
            stream=stream,
            at=at,
            size=size,
            total=total,
            data=data,
            url=url,
        )

    def trim_output(self, run_id: int, epoch: int, stream: str, head: int, tail: int) -> None:
        """Delete the pieces between the beginning and the end that are kept."""
        self._all("trim_output", run_id=run_id, epoch=epoch, stream=stream, head=head, tail=tail)

    def kept_output(self, run_id: int, epoch: int) -> list[tuple[str, int]]:
        """Up to where each stream of an attempt is kept."""
        return self._all("kept_output", run_id=run_id, epoch=epoch)

    def output_total(self, run_id: int, epoch: int, stream: str) -> int:
        """The bytes of a stream that are known."""
        return self._value("output_total", run_id=run_id, epoch=epoch, stream=stream)

    def output_pieces(
        self, run_id: int, epoch: int, stream: str, offset: int, limit: int
    ) -> list[tuple[int, int, bytes, str | None]]:
        """The pieces of a stream from an offset on: where they begin, their size, and what is in them, or where it
        is."""
        return self._all("output_pieces", run_id=run_id, epoch=epoch, stream=stream, offset=offset, limit=limit)

    def follow_output(self, run_id: int, until: int) -> None:
        """Note that somebody reads the output of a run until then."""
        self._all("follow_output", run_id=run_id, until=until)

    def followed_runs(self, now: int) -> list[int]:
        """The runs whose output somebody reads."""
        return self._column("followed_runs", now=now)

    def delete_followers(self, now: int) -> None:
        """Delete the notes that are over."""
        self._all("delete_followers", now=now)


class OverviewRows(Statements):
    """What screens show of many schedules and runs at once: a statement each. Whole runs only: steps belong to
    theirs."""

    def first_planned(self, since: int) -> int | None:
        """The first run that was planned at or after an instant, by bisection: ids ascend with time. None where there
        are no runs."""
        return self._value("first_planned", since=since)

    def run_beyond(self, low: int, high: int, count: int) -> PlannedRun | None:
        """The run from `low` to before `high` that has this many newer ones; None where there are not so many."""
        return self._row(PlannedRun, "run_beyond", low=low, high=high, count=count)

    def record_counts(self, low: int, high: int, since: int, until: int) -> list[RecordCount]:
        """The records from run `low` to before run `high` that lie in a window, counted by schedule and state."""
        return self._rows(RecordCount, "record_counts", low=low, high=high, since=since, until=until)

    def live_records(self, limit: int) -> list[RecordSpan]:
        """Whole runs that have not ended, the newest first."""
        return self._rows(RecordSpan, "live_records", limit=limit)

    def live_whole_runs(self, limit: int) -> list[RunRow]:
        """The same as runs."""
        return self._rows(RunRow, "live_whole_runs", limit=limit)

    def coming(self, until: int, limit: int) -> list[ComingCursor]:
        """Active schedules whose next slot is due before an instant, the soonest first."""
        return self._rows(ComingCursor, "coming", until=until, limit=limit)

    def coming_after_runs(self, limit: int) -> list[ComingCursor]:
        """Schedules whose next slot is decided by the end of a live run."""
        return self._rows(ComingCursor, "coming_after_runs", limit=limit)

    def count_coming(self, until: int) -> int:
        """The number of schedules whose next slot is due before an instant."""
        return self._value("count_coming", until=until)

    def run_costs(self, schedule_id: int, limit: int) -> list[RunCost]:
        """What the last runs of a schedule spent, each with its steps, the newest first."""
        return self._rows(RunCost, "run_costs", schedule_id=schedule_id, limit=limit)

    def last_success(self, schedule_id: int, slot: int) -> int | None:
        """The last run of the schedule before a slot that succeeded."""
        return self._value("last_success", schedule_id=schedule_id, slot=slot)

    def day_counts(self, schedule_id: int, since: int, until: int, offset: int) -> list[DayCount]:
        """The slots of a schedule by day and state. `offset`: of the wall clock, in milliseconds."""
        return self._rows(DayCount, "day_counts", schedule_id=schedule_id, since=since, until=until, offset=offset)

    def overdue_schedules(self, everything: bool, now: int, limit: int) -> list[ScheduleRow]:
        """Active schedules whose slot is due, or all active ones."""
        return self._rows(ScheduleRow, "overdue_schedules", everything=everything, now=now, limit=limit)

    def engine_spans(self, limit: int) -> list[EngineSpan]:
        """When engines started and stopped, the newest first."""
        return self._rows(EngineSpan, "engine_spans", limit=limit)

    def planned_before(self, run_id: int) -> int | None:
        """When the last run before this one was planned."""
        return self._value("planned_before", run_id=run_id)

    def slot_states(self, low: int, high: int, since: int, until: int) -> list[SlotState]:
        """The slots of a stretch of time by the states of their records, among runs of a range of ids."""
        return self._rows(SlotState, "slot_states", low=low, high=high, since=since, until=until)

    def counts(self) -> Figures:
        """Counts of schedules, runs and approvals, and the next instants, for statistics."""
        return self._rows(Figures, "counts")[0]

    def recent_failures(self, since: int) -> int:
        """Runs that failed since an instant, among the newest events."""
        return self._value("recent_failures", since=since)

    def failures_by_part(self, low: int, since: int, until: int, size: int) -> list[FailureCount]:
        """The failed records of a window, from run `low`, counted by schedule and by part of the window."""
        return self._rows(FailureCount, "failures_by_part", low=low, since=since, until=until, size=size)

    def label_counts(self, limit: int) -> list[LabelCounts]:
        """The labels of schedules that are not deleted, the commonest first."""
        return self._rows(LabelCounts, "label_counts", limit=limit)

    def records_of(self, schedule_ids: Iterable[int], low: int, high: int, since: int, until: int) -> list[RecordSpan]:
        """The records of these schedules in a range of ids that lie in a window, the newest first."""
        return self._rows(
            RecordSpan,
            "records_of",
            schedule_ids=self._integers(schedule_ids),
            low=low,
            high=high,
            since=since,
            until=until,
        )

    def last_records(self, schedule_ids: Iterable[int], limit: int) -> list[RecentRecord]:
        """The last records of each schedule, the newest first."""
        return self._rows(RecentRecord, "last_records", schedule_ids=self._integers(schedule_ids), limit=limit)

    def spent_by(self, run_ids: Iterable[int]) -> list[RunCost]:
        """What these runs have spent so far, each with its steps."""
        return self._rows(RunCost, "spent_by", run_ids=self._integers(run_ids))

    def run_places(self, run_ids: Iterable[int]) -> list[RunPlace]:
        """The agents of runs, the processes that run them, and those that started their present attempts."""
        return self._rows(RunPlace, "run_places", run_ids=self._integers(run_ids))


class PermitRows(Statements):
    """The units of limited scopes."""

    def limits(self) -> list[ScopeRow]:
        """Limited scopes, their size and the units in use."""
        return self._rows(ScopeRow, "limits")

    def held_permits(self) -> list[tuple[str, int]]:
        """(scope, run id) of the permits that held runs keep."""
        return self._all("held_permits")

    def lock_checkout(self, host: str, folder: str, run_id: int) -> int:
        """Lock a checkout, and return the last run that was let into it."""
        return self._value("lock_checkout", host=host, folder=folder, run_id=run_id)

    def set_checkout(self, host: str, folder: str, run_id: int) -> None:
        """Set the run that was let into a checkout."""
        self._all("set_checkout", host=host, folder=folder, run_id=run_id)

    def is_running(self, run_id: int) -> bool:
        """Whether a run is starting or running."""
        return bool(self._all("is_running", run_id=run_id))

    def rename_scope(self, scope: str, name: str) -> list[int]:
        """Give a scope another name. Returns the number of each of its units."""
        return self._column("rename_scope", scope=scope, name=name)

    def move_scope(self, scope: str, name: str) -> list[int]:
        """Give live runs another scope. Returns the state of each."""
        return self._column("move_scope", scope=scope, name=name)

    def take_permits(self, scope: str, run_ids: Iterable[int]) -> list[int]:
        """Give these runs free units of a scope, the first ones first; returns those that got one."""
        return self._column("take_permits", scope=scope, run_ids=self._integers(run_ids))


class PlaceRows(Statements):
    """Sets of needs of runs, by number."""

    def places(self) -> list[PlaceRow]:
        """All sets of needs."""
        return self._rows(PlaceRow, "places")

    def ready_places(self) -> list[ReadyPlace]:
        """The places in which runs are ready, with the first time at which one may start; a walk from key to key, not
        over the rows."""
        return self._rows(ReadyPlace, "ready_places")

    def ready_in(self, place: int, since: int, after: int, limit: int) -> list[int]:
        """Runs of a place that might have started since an instant, by id."""
        return self._column("ready_in", place=place, since=since, after=after, limit=limit)

    def waiting_places(self, scope: str) -> list[WaitingPlace]:
        """Where runs of a scope wait that have not started, by their settings."""
        return self._rows(WaitingPlace, "waiting_places", scope=scope)

    def move_runs(self, waiting: WaitingPlace, after: int) -> None:
        """Move runs of these settings that have not started to another place."""
        self._all(
            "move_runs",
            schedule_id=waiting.schedule_id,
            rev=waiting.rev,
            step=waiting.step,
            place=waiting.place,
            after=after,
        )

    def needs_of_run(self, run_id: int) -> str | None:
        """What a node must offer for a run, as a JSON list; None where any can do it."""
        return self._value("needs_of_run", run_id=run_id)

    def set_place(self, run_id: int, place: int) -> None:
        """Move a run to another place."""
        self._all("set_place", run_id=run_id, place=place)

    def note_turned_away(self, run_id: int, node: str, reason: str) -> None:
        """Note that a node lacks what a run needs."""
        self._all("note_turned_away", run_id=run_id, node=node, reason=reason)

    def report_place(self, place: int, now: int) -> bool:
        """Note that no engine can do the runs of a place. False if that is noted already."""
        return bool(self._all("report_place", place=place, now=now))

    def count_ready(self, place: int) -> int:
        """The number of ready runs of a place."""
        return self._value("count_ready", place=place)

    def move_ready(self, before: int, after: int) -> None:
        """Move ready runs to another place."""
        self._all("move_ready", before=before, after=after)


class PolicyRows(Statements):
    """Policies and throttles."""

    def lock_policies(self) -> None:
        """Lock policies, throttles and budget usage, before any of them is changed."""
        self._all("lock_policies")

    def policies(self) -> list[PolicyRow]:
        """All policies."""
        return self._rows(PolicyRow, "policies")

    def last_one_shot(self, agent: str) -> int | None:
        """When the rules approved the last one-shot that the agent made outside a run."""
        return self._value("last_one_shot", agent=agent)

    def set_last_one_shot(self, agent: str, now: int) -> None:
        """Note that the rules approved such a one-shot."""
        self._all("set_last_one_shot", agent=agent, now=now)

    def rename_one_shots(self, agent: str, name: str) -> None:
        """What an agent was allowed counts for its new name."""
        self._all("rename_one_shots", agent=agent, name=name)


class RunRows(Statements):
    """Runs, from creation to end."""

    def started(self, worker: int, *, mine: bool) -> list[StartedRun]:
        """Started runs of one worker, or of all others."""
        return self._rows(StartedRun, "started", worker=worker, mine=mine)

    def manual_runs(self, schedule_id: int) -> int:
        """How many runs a person or a program started, among those that are kept."""
        return self._value("manual_runs", schedule_id=schedule_id)

    def orphans(self) -> list[StartedRun]:
        """Starting and running runs whose worker has stopped or is unknown; a run that has no worker is not one."""
        return self._rows(StartedRun, "orphans")

    def owner_of(self, run_id: int) -> WorkerRow | None:
        """The worker of a started run; None if it has stopped or is unknown."""
        return self._row(WorkerRow, "owner_of", run_id=run_id)

    def run_by_request(self, schedule_id: int, key: str) -> int | None:
        """The run of a request key."""
        return self._value("run_by_request", schedule_id=schedule_id, key=key)

    def run(self, run_id: int) -> RunRow | None:
        """One run."""
        return self._row(RunRow, "run", run_id=run_id)

    def covered(self, schedule_id: int, since: int) -> list[tuple[int, int]]:
        """The first and last slot of each run that covers slots at or after an instant, in order."""
        return self._all("covered", schedule_id=schedule_id, since=since)

    def next_recorded(self, schedule_id: int, since: int) -> tuple[int, int] | None:
        """The first and last slot of the next run that covers slots at or after an instant."""
        return next(iter(self._all("next_recorded", schedule_id=schedule_id, since=since)), None)

    def runs_ahead(self, now: int, after: int, limit: int) -> list[RunAhead]:
        """Runs of slots that are still to come, by id."""
        return self._rows(RunAhead, "runs_ahead", now=now, after=after, limit=limit)

    def set_range(self, run_id: int, first: int | None, slot: int, slots: int) -> None:
        """Change what a run covers."""
        self._all("set_range", run_id=run_id, first=first, slot=slot, slots=slots)

    def runs_in_hand(self, limit: int) -> list[RunRow]:
        """Runs that a worker has, or that need a person, without steps; the oldest first."""
        return self._rows(RunRow, "runs_in_hand", limit=limit)

    def recent_runs(self, before: int, limit: int, agent: str | None) -> list[RunRow]:
        """Runs of all schedules, or of one agent's, the newest first."""
        return self._rows(RunRow, "recent_runs", before=before, limit=limit, agent=agent)

    def run_at(self, schedule_id: int, at: int) -> int | None:
        """The run that covers a slot."""
        return self._value("run_at", schedule_id=schedule_id, at=at)

    def run_before(self, schedule_id: int, at: int) -> int | None:
        """The last run of a schedule at or before an instant."""
        return self._value("run_before", schedule_id=schedule_id, at=at)

    def last_started(self, schedule_id: int, run_id: int) -> int | None:
        """The start of the schedule's last successful run before this one."""
        return self._value("last_started", schedule_id=schedule_id, run_id=run_id)

    def last_planned(self, schedule_id: int, since: int) -> int | None:
        """When the newest run of a schedule since an instant that was not skipped was created."""
        return self._value("last_planned", schedule_id=schedule_id, since=since)

    def last_chain_start(self, schedule_id: int, since: int, now: int) -> ChainStart:
        """The last start, from one instant to now, of what agents made in the chain of this schedule: all that descends
        from the same root. A start that is to come is of a clock that was ahead."""
        return self._rows(ChainStart, "last_chain_start", schedule_id=schedule_id, since=since, now=now)[0]

    def set_run_revision(self, run_id: int, rev: int) -> None:
        """Give a run that has not started another revision. The run must pass its gates again."""
        self._all("set_run_revision", run_id=run_id, rev=rev)

    def set_given(self, run_id: int, given: str) -> None:
        """Set what a new run was started with."""
        self._all("set_given", run_id=run_id, given=given)

    def adopt(self, run_id: int, epoch: int, owner: int) -> bool:
        """Give a started run another owner, at the same epoch."""
        return bool(self._all("adopt", run_id=run_id, epoch=epoch, owner=owner))

    def live(self, schedule_ids: Iterable[int]) -> list[LiveRun]:
        """The live runs of these schedules, without their steps, the oldest first."""
        return self._rows(LiveRun, "live", schedule_ids=self._integers(schedule_ids))

    def runs_of(self, schedule_id: int, before: int, limit: int) -> list[RunRow]:
        """A schedule's runs, the newest first."""
        return self._rows(RunRow, "runs_of", schedule_id=schedule_id, before=before, limit=limit)

    def previous_state(self, schedule_id: int, run_id: int) -> int | None:
        """The outcome of the run before this one."""
        return self._value("previous_state", schedule_id=schedule_id, run_id=run_id)

    def newest_runs(self, schedule_ids: Iterable[int]) -> list[RunRow]:
        """The last run of each schedule that has any; the index on slots finds it, and manual runs have no slot."""
        return self._rows(RunRow, "newest_runs", schedule_ids=self._integers(schedule_ids))

    def started_runs(self, schedule_ids: Iterable[int]) -> list[RunRow]:
        """The last run of each schedule that has started; later ones may have been skipped."""
        return self._rows(RunRow, "started_runs", schedule_ids=self._integers(schedule_ids))

    def prunable(self, ended_before: int, now: int, limit: int) -> list[int]:
        """Runs that ended before an instant. A run stays while its slot is to come, or the cursor is not past it: its
        slot must not run again."""
        return self._column("prunable", ended_before=ended_before, now=now, limit=limit)

    def prunable_beyond(self, newest: int, now: int, limit: int) -> list[int]:
        """Ended runs beyond the newest ones of their schedule, likewise."""
        return self._column("prunable_beyond", newest=newest, now=now, limit=limit)


class ScheduleRows(Statements):
    """Schedules and their revisions."""

    def schedules_named(self, name: str, agent: str | None) -> list[int]:
        """Schedules with this name that are not deleted."""
        return self._column("schedules_named", name=name, agent=agent)

    def schedule(self, schedule_id: int) -> ScheduleRow | None:
        """One schedule."""
        return self._row(ScheduleRow, "schedule", schedule_id=schedule_id)

    def schedules(self, after: int, agent: str | None, limit: int) -> list[ScheduleRow]:
        """A page of schedules by id."""
        return self._rows(ScheduleRow, "schedules", after=after, agent=agent, limit=limit)

    def stopped_schedules(self, limit: int) -> list[int]:
        """Schedules that failures, a budget or their own settings stopped."""
        return self._column("stopped_schedules", limit=limit)

    def ended_pauses(self, now: int, limit: int) -> list[int]:
        """Schedules whose pause has ended."""
        return self._column("ended_pauses", now=now, limit=limit)

    def paused_by(self, by: str) -> list[tuple[int, str, str]]:
        """(id, agent, name) of the schedules that `by` has paused."""
        return self._all("paused_by", by=by)

    def set_paused_until(self, schedule_id: int, until: int | None) -> None:
        """Set the end of a pause."""
        self._all("set_paused_until", schedule_id=schedule_id, until=until)

    def count_agent_schedules(self, name: str) -> int:
        """The number of schedules that an agent created and that can still run."""
        return self._value("count_agent_schedules", name=name)

    def purged_slot(self, schedule_id: int) -> int | None:
        """The last slot of a schedule whose run is deleted."""
        return self._value("purged_slot", schedule_id=schedule_id)

    def set_pause(self, schedule_id: int, pause: str) -> None:
        """Set the pause of several schedules that a schedule belongs to."""
        self._all("set_pause", schedule_id=schedule_id, pause=pause)

    def paused_in(self, pause: str | None) -> list[PausedSchedule]:
        """The schedules of a pause, or of all pauses of several schedules."""
        return self._rows(PausedSchedule, "paused_in", pause=pause)

    def last_revision(self, schedule_id: int) -> int:
        """The highest revision of a schedule."""
        return self._value("last_revision", schedule_id=schedule_id)

    def set_author(self, schedule_id: int, rev: int, author: str, role: str, at: int) -> None:
        """Set who made a revision, and when."""
        self._all("set_author", schedule_id=schedule_id, rev=rev, author=author, role=role, at=at)

    def authors(self, schedule_id: int, rev: int) -> list[tuple[str, str]]:
        """The authors of the changes up to a revision, the last first; empty for the first revision. The owner answers
        for everything before the owner's revision."""
        return self._all("authors", schedule_id=schedule_id, rev=rev)

    def history(self, schedule_id: int, before: int, limit: int) -> list[RevisionRow]:
        """The settings that a schedule has had, the newest first, without those of single runs."""
        return self._rows(RevisionRow, "history", schedule_id=schedule_id, before=before, limit=limit)

    def rename_schedule(self, schedule_id: int, agent: str, name: str, creator: str, now: int) -> None:
        """Set the agent and the name of a schedule, and the name of who made it."""
        self._all("rename_schedule", schedule_id=schedule_id, agent=agent, name=name, creator=creator, now=now)

    def keep_name(self, schedule_id: int, rev: int, agent: str, name: str, creator: str, now: int) -> None:
        """Keep what a schedule, and who made it, was called up to a revision."""
        self._all("keep_name", schedule_id=schedule_id, rev=rev, agent=agent, name=name, creator=creator, now=now)

    def renamed_from(self, name: str, agent: str | None) -> list[tuple[str, str, int]]:
        """Agent and name of the schedules that had this name, and since when they do not, the last first."""
        return self._all("renamed_from", name=name, agent=agent)

    def insert_run_revision(self, schedule_id: int, rev: int, definition: str) -> None:
        """Store settings for one run. The schedule itself does not change."""
        self._all("insert_run_revision", schedule_id=schedule_id, rev=rev, definition=definition)

    def schedules_of(self, agent: str) -> list[int]:
        """The schedules of an agent, also deleted ones."""
        return self._column("schedules_of", agent=agent)

    def schedules_with(self, schedule_ids: Iterable[int]) -> list[ScheduleRow]:
        """Schedules by their ids."""
        return self._rows(ScheduleRow, "schedules_with", schedule_ids=self._integers(schedule_ids))


class SpendingRows(Statements):
    """Reservations and spending of runs, and the usage of budgets."""

    def budget_usages(self, since: str) -> list[BudgetUsage]:
        """All usage from a period on."""
        return self._rows(BudgetUsage, "budget_usages", since=since)

    def reserve(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        """Set what a run may spend."""
        self._all(
            "reserve",
            run_id=run_id,
            schedule_id=schedule_id,
            agent=agent,
            now=now,
            money=usage.money,
            tokens=usage.tokens,
        )

    def spend_since(self, since: int) -> list[SpendingRow]:
        """The spending since an instant, by schedule; `+` keeps SQLite from all of it by spend_schedule."""
        return self._rows(SpendingRow, "spend_since", since=since)

    def spend_by_run_since(self, since: int) -> list[SpendingRow]:
        """The spending since an instant, by run."""
        return self._rows(SpendingRow, "spend_by_run_since", since=since)

    def rename_spending(self, agent: str, name: str) -> None:
        """What an agent spent is that of its new name."""
        self._all("rename_spending", agent=agent, name=name)

    def merge_purses(self, whose: str, name: str) -> None:
        """Count the usage of budgets by one also as that of another."""
        self._all("merge_purses", whose=whose, name=name)

    def drop_purses(self, whose: str) -> None:
        """Forget the usage of budgets by one."""
        self._all("drop_purses", whose=whose)

    def rename_reservations(self, whose: str, name: str) -> None:
        """What runs have reserved is of another one."""
        self._all("rename_reservations", whose=whose, name=name)


class StepRows(Statements):
    """Runs that are steps of another."""

    def unfold(self, run_id: int, epoch: int, now: int) -> int | None:
        """Start a ready run of steps, and return the number of its round. No worker owns it, and its attempts count the
        rounds. None when another worker was faster."""
        return self._value("unfold", run_id=run_id, epoch=epoch, now=now)

    def steps_of(self, run_id: int) -> list[RunRow]:
        """The steps of a run in its last round, by number."""
        return self._rows(RunRow, "steps_of", run_id=run_id)

    def set_retry(self, run_id: int, retry_of: int, retry_from: int | None) -> None:
        """Set the run whose successful steps a new run carries over."""
        self._all("set_retry", run_id=run_id, retry_of=retry_of, retry_from=retry_from)

    def retry_of(self, run_id: int) -> tuple[int | None, int | None]:
        """The run whose successful steps a run carries over, and the step from which everything runs again."""
        return self._all("retry_of", run_id=run_id)[0]

    def nominal_slot(self, run_id: int) -> int | None:
        """The slot of the run that this is a step of."""
        return self._value("nominal_slot", run_id=run_id)

    def live_steps(self, run_ids: Iterable[int]) -> list[int]:
        """The live steps of these runs."""
        return self._column("live_steps", run_ids=self._integers(run_ids))

    def parents_of(self, run_ids: Iterable[int]) -> list[int]:
        """The runs that these are steps of."""
        return self._column("parents_of", run_ids=self._integers(run_ids))


class SubscriptionRows(Statements):
    """Subscriptions to events."""

    def release_leases(self, owner: str) -> None:
        """Release the leases of a process."""
        self._all("release_leases", owner=owner)

    def move_subscription(self, name: str, cursor: int) -> None:
        """Move the cursor of a subscription."""
        self._all("move_subscription", name=name, cursor=cursor)


class TextRows(Statements):
    """What runs said, for searches."""

    def upsert_run_text(self, run_id: int, text: str) -> None:
        """Set what a run said, unless it was deleted meanwhile."""
        self._all("upsert_run_text", run_id=run_id, text=text)

    def run_text(self, run_id: int) -> str | None:
        """What a run said."""
        return self._value("run_text", run_id=run_id)

    def erase_run(self, run_id: int, evidence: str | None, given: str | None) -> None:
        """Delete the words of an ended run."""
        self._all("erase_run", run_id=run_id, evidence=evidence, given=given)

    def erase_reports(self, run_id: int) -> None:
        """Delete what an agent reported."""
        self._all("erase_reports", run_id=run_id)

    def erase_checks(self, run_id: int) -> None:
        """Delete what checks of a run printed."""
        self._all("erase_checks", run_id=run_id)

    def erase_answers(self, run_id: int) -> None:
        """Delete the texts of a run's messages. What still waits is not sent."""
        self._all("erase_answers", run_id=run_id)

    def erase_messages(self, run_id: int) -> None:
        """Delete the messages of a run from its conversation."""
        self._all("erase_messages", run_id=run_id)

    def erase_calls(self, run_id: int) -> None:
        """Delete the contents of the calls that a run stands for."""
        self._all("erase_calls", run_id=run_id)

    def erase_incidents(self, run_id: int, signature: str) -> None:
        """Delete what incidents say of a run."""
        self._all("erase_incidents", run_id=run_id, signature=signature)

    def erase_request(self, approval_id: int, request: str) -> None:
        """Delete the words of a request."""
        self._all("erase_request", approval_id=approval_id, request=request)

    def erase_votes(self, approval_id: int) -> None:
        """Delete the notes of votes."""
        self._all("erase_votes", approval_id=approval_id)

    def erase_responses(self, like: str) -> None:
        """Delete responses to idempotent requests with a run."""
        self._all("erase_responses", like=like)

    def requests_of_run(self, run_id: int) -> list[tuple[int, str]]:
        """The requests for approval of a run, with what they show."""
        return self._all("requests_of_run", run_id=run_id)

    def events_of_run(self, run_id: int) -> list[StoredEvent]:
        """The events of a run."""
        return self._rows(StoredEvent, "events_of_run", run_id=run_id)

    def erase_event(self, event_id: int, data: str) -> None:
        """Replace the data of an event, whose hash stays."""
        self._all("erase_event", event_id=event_id, data=data)

    def ended_texts(self, after: int, upto: int, types: Iterable[str], limit: int) -> list[tuple[int, int]]:
        """The events of these types in which whole runs ended that have something to say, and their runs."""
        return self._all("ended_texts", after=after, upto=upto, types=self._texts(types), limit=limit)

    def delete_run_texts(self, ids: Iterable[int]) -> None:
        """Delete what runs said."""
        self._all("delete_run_texts", ids=self._integers(ids))


class ThreadRows(Statements):
    """Threads, their messages and their runs."""

    def insert_thread(
        self, agent: str, channel: str | None, session: str | None, session_name: str | None, host: str | None, now: int
    ) -> int:
        """Add a thread."""
        return self._value(
            "insert_thread",
            agent=agent,
            channel=channel,
            session=session,
            session_name=session_name,
            host=host,
            now=now,
        )

    def set_session_host(self, thread_id: int, run_id: int) -> None:
        """Note that the session of a thread is on the node that runs a run."""
        self._all("set_session_host", thread_id=thread_id, run_id=run_id)

    def assign_thread(self, run_id: int, thread_id: int, how: str) -> None:
        """Set the thread of a run."""
        self._all("assign_thread", run_id=run_id, thread_id=thread_id, how=how)

    def unassign_thread(self, run_id: int) -> None:
        """Delete the thread assignment of a run."""
        self._all("unassign_thread", run_id=run_id)

    def clear_session(self, thread_id: int, state: str) -> None:
        """Clear a session that the tool no longer knows."""
        self._all("clear_session", thread_id=thread_id, state=state)

    def run_in_thread(self, thread_id: int, run_id: int) -> int | None:
        """Another run that is active in the thread."""
        return self._value("run_in_thread", thread_id=thread_id, run_id=run_id)

    def insert_message(self, thread_id: int, run_id: int | None, role: str, text: str, at: int) -> None:
        """Add a message."""
        self._all("insert_message", thread_id=thread_id, run_id=run_id, role=role, text=text, at=at)

    def messages(self, thread_id: int, after: int, limit: int) -> list[Message]:
        """The messages of a thread after one."""
        return self._rows(Message, "messages", thread_id=thread_id, after=after, limit=limit)

    def last_messages(self, thread_id: int, limit: int) -> list[Message]:
        """The newest messages, oldest first."""
        return self._rows(Message, "last_messages", thread_id=thread_id, limit=limit)

    def last_run_in(self, thread_id: int) -> int | None:
        """The newest run in a thread."""
        return self._value("last_run_in", thread_id=thread_id)

    def session_use(self, thread_id: int, run_id: int) -> tuple[int, int]:
        """Runs and tokens of the thread's conversation before a run."""
        return self._all("session_use", thread_id=thread_id, run_id=run_id)[0]

    def answer_in(self, thread_id: int, run_id: int) -> str | None:
        """What the agent answered in a run."""
        return self._value("answer_in", thread_id=thread_id, run_id=run_id)

    def close_conversation(self, thread_id: int, run_id: int) -> None:
        """Note the run with which the conversation of a thread ends."""
        self._all("close_conversation", thread_id=thread_id, run_id=run_id)

    def start_afresh(self, thread_id: int, run_id: int, kept: str | None) -> None:
        """Begin another conversation in a thread with this run."""
        self._all("start_afresh", thread_id=thread_id, run_id=run_id, kept=kept)

    def rename_threads(self, agent: str, name: str) -> list[int]:
        """Give the conversations of an agent to its new name."""
        return self._column("rename_threads", agent=agent, name=name)


class WaitingRows(Statements):
    """Runs that wait for a time, a check or a person."""

    def next_timer(self) -> int | None:
        """The next instant at which a waiting record must be checked."""
        return self._value("next_timer")

    def waiting_due(self, now: int, limit: int) -> list[WaitingRun]:
        """Waiting runs whose time has come."""
        return self._rows(WaitingRun, "waiting_due", now=now, limit=limit)

    def waiting_for(self, reason: str) -> list[WaitingRun]:
        """Runs that wait for a reason, at any time."""
        return self._rows(WaitingRun, "waiting_for", reason=reason)

    def defer_run(self, run_id: int, epoch: int, until: int) -> None:
        """Defer a ready run."""
        self._all("defer_run", run_id=run_id, epoch=epoch, until=until)

    def wake_run(self, run_id: int, reason: str, now: int) -> None:
        """Let a run that waits for a reason continue."""
        self._all("wake_run", run_id=run_id, reason=reason, now=now)

    def suspend_runs(self, schedule_id: int) -> list[int]:
        """Hold the queued and ready runs of a paused schedule."""
        return self._column("suspend_runs", schedule_id=schedule_id)

    def undefer_runs(self, now: int) -> None:
        """Let deferred runs start, after the clock was set back."""
        self._all("undefer_runs", now=now)

    def watch_run(self, run_id: int, at: int, *, late: bool = False) -> None:
        """Look at a run at an instant."""
        self._all("watch_run", run_id=run_id, at=at, late=late)

    def unwatch_run(self, run_id: int) -> None:
        """Look at a run no more."""
        self._all("unwatch_run", run_id=run_id)

    def watched_due(self, now: int, limit: int) -> list[tuple[int, bool]]:
        """(run, whether it was late): runs to look at."""
        return self._all("watched_due", now=now, limit=limit)

    def ping_token(self, schedule_id: int) -> str | None:
        """The secret of a schedule's address for pings."""
        return self._value("ping_token", schedule_id=schedule_id)

    def pinged_schedule(self, token: str) -> tuple[str, str] | None:
        """(name, agent) of the schedule with this address."""
        return next(iter(self._all("pinged_schedule", token=token)), None)

    def set_ping_token(self, schedule_id: int, token: str) -> None:
        """Give a schedule an address for pings, in place of its former one."""
        self._all("set_ping_token", schedule_id=schedule_id, token=token)

    def awaiting_ping(self, schedule_id: int) -> WaitingRun | None:
        """The run of a schedule that waits for a ping, the oldest."""
        return self._row(WaitingRun, "awaiting_ping", schedule_id=schedule_id)

    def resume_runs(self, schedule_id: int, now: int) -> None:
        """Queue the held runs of a resumed schedule again."""
        self._all("resume_runs", schedule_id=schedule_id, now=now)


class WorkerRows(Statements):
    """The processes that run the loops."""

    def workers(self) -> list[WorkerRow]:
        """Workers that have not stopped."""
        return self._rows(WorkerRow, "workers")

    def oldest_migration(self) -> int:
        """The migration that an engine must know to work on the store."""
        return self._value("oldest_migration")

    def set_offers(self, worker: int, offers: str) -> None:
        """What a worker has for runs that need it."""
        self._all("set_offers", worker=worker, offers=offers)

    def offers(self) -> list[str]:
        """What workers offer and have offered, also those that stopped; each list once."""
        return self._column("offers")

    def stop_worker(self, worker: int, now: int) -> bool:
        """Mark a worker as stopped or dead."""
        return bool(self._all("stop_worker", worker=worker, now=now))

    def insert_worker(self, identity: str, now: int, offers: str = "[]", node: str = "") -> int:
        """Add a process that runs the loops."""
        return self._value("insert_worker", identity=identity, now=now, offers=offers, node=node)

    def heartbeat(self, worker: int) -> int | None:
        """Record a heartbeat. None when another worker has declared this one dead."""
        return self._value("heartbeat", worker=worker)


class ZoneRows(Statements):
    """The data of time zones from which the slots of cursors were computed."""

    def zone_versions(self) -> list[ZoneVersion]:
        """The data of time zones from which slots were computed, those of the last start first."""
        return self._rows(ZoneVersion, "zone_versions")

    def lock_zone(self, name: str) -> list[ZoneVersion]:
        """The known data of a zone, those of the last start first, locked."""
        return self._rows(ZoneVersion, "lock_zone", name=name)

    def note_zone(self, name: str, digest: str, data: bytes) -> None:
        """Note that slots are computed from these data, unless that is known."""
        self._all("note_zone", name=name, digest=digest, data=data)

    def use_zone(self, name: str, digest: str, data: bytes, now: int) -> None:
        """Note that an engine starts with these data."""
        self._all("use_zone", name=name, digest=digest, data=data, now=now)

    def note_moves(self, name: str, digest: str, count: int, now: int) -> None:
        """Note that the next slots of schedules moved to those of these data."""
        self._all("note_moves", name=name, digest=digest, count=count, now=now)

    def forget_zone(self, name: str, digest: str, worker: int) -> None:
        """Delete the other data of a zone, unless a worker that started before they were last used may still use
        them."""
        self._all("forget_zone", name=name, digest=digest, worker=worker)
