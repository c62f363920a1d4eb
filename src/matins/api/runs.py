"""Use cases on runs, and on many schedules at once, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from matins.api.arguments import Id, Ids, Instant, Limit, Moment, RunId, RunStates, Select
    from matins.api.results import (
        Backfill,
        BackfillPreview,
        BulkPreview,
        BulkResult,
        Check,
        ErasedRun,
        FoundLines,
        LiveRun,
        Output,
        Run,
        RunDifference,
        RunFacts,
        RunsPreview,
        RunsResult,
        SentMessage,
        Snapshot,
        ThreadAssignment,
        Transcript,
    )
    from matins.model.run import BackfillChoice


RunOutcome = Literal["succeeded", "failed", "unknown", "retry"]
ReportedOutcome = Literal["done", "nothing", "failed"]
RunAction = Literal["cancel", "retry"]
_FIRST_LOOK_S, _SLOWEST_LOOK_S = 0.02, 0.5

BulkAction = Literal["pause", "resume", "run", "delete", "edit"]


class Runs(Noun, noun="runs"):
    @use_case("read", "GET /v1/runs", page=("before", "id"))
    def list(
        self,
        *,
        schedule: str | None = None,
        agent: str | None = None,
        select: Select | None = None,
        state: RunStates | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Run]:
        """List runs of all schedules, or of some, the newest first. `since` and `until`: by when they were planned.

        `select`: those of these schedules, for example `label.team=ops` or `report-*`. `state`: one or several.
        `text`: in answer, error or reason. `min_cost`: with their steps. `min_duration`: of live ones, so far.
        """

    @use_case("read", "GET /v1/runs/live")
    def live(self) -> builtins.list[LiveRun]:
        """List runs that have not ended, the newest first, each beside what its schedule usually takes."""

    @use_case("read", "GET /v1/runs/grep")
    def grep(
        self,
        text: str,
        *,
        schedule: str | None = None,
        agent: str | None = None,
        select: Select | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> FoundLines:
        """Find lines in the outputs of runs, the newest first, without secrets. `*` is any text; case does not matter.

        A call reads at most 64 MB or 4 seconds; `before` of its result goes on from there. `limit` holds for
        each run, too. An agent reads its own.
        """

    @use_case("read", "GET /v1/runs/{run_id:path}")
    def get(self, run_id: RunId) -> Run:
        """Get a run."""

    @use_case("run", "POST /v1/runs/{run_id:path}/cancel")
    def cancel(self, run_id: RunId, *, reason: str = "cancelled") -> Run:
        """Cancel a run: at once when it has not started, else as soon as its worker has ended it."""

    @use_case("run", "POST /v1/runs/{run_id:path}/retry", status=201, location="/v1/runs/{id}")
    def retry(self, run_id: RunId, *, from_step: str | None = None, key: str | None = None) -> Run:
        """Start a new run that repeats an ended one, with the settings of then, once per key.

        Of a run with steps, only those that did not succeed run again; `from_step` (a title or a number) and everything
        behind it run again too.
        """

    @use_case("read", "GET /v1/runs/{run_id:path}/diff")
    def diff(self, run_id: RunId, *, other: RunId | None = None) -> RunDifference:
        """Compare a run with another one, or with the last success of its schedule before it: settings, agent, prompt,
        input, model, steps, answer, cost and times."""

    @use_case("read", "POST /v1/runs/bulk/preview")
    def preview_bulk(
        self,
        do: RunAction,
        *,
        runs: Ids | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        select: Select | None = None,
        state: RunStates | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
    ) -> RunsPreview:
        """Preview what an action would do to the runs that match. Nothing is written. The filters are those of `list`;
        `runs` are numbers."""

    @use_case("run", "POST /v1/runs/bulk")
    def bulk(
        self,
        do: RunAction,
        *,
        runs: Ids | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        select: Select | None = None,
        state: RunStates | None = None,
        reason: str | None = None,
        text: str | None = None,
        min_cost: str | None = None,
        min_duration: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        expect: str | None = None,
        note: str | None = None,
    ) -> RunsResult:
        """Cancel or retry the runs that match, at most 10,000. `expect`: only if these are still those of the preview
        with this digest. `note`: why they are cancelled.

        Cancelled are live runs, retried those that ended and did not succeed; all others stay as they are. What cannot
        be done is skipped, each with its reason. An agent reaches only runs of what it made.
        """

    @use_case("operate", "POST /v1/runs/{run_id:path}/resolve")
    def resolve(self, run_id: RunId, outcome: RunOutcome) -> Run:
        """Set the outcome of a held run, or retry it."""

    @use_case("operate", "POST /v1/runs/{run_id:path}/deliver")
    def deliver(self, run_id: RunId, *, to: builtins.list[str] | None = None) -> Run:
        """Send the answer of an ended run, also when it was sent before: to these destinations, or to those of its
        schedule. "thread" is its place in chat."""

    @use_case("govern", "POST /v1/runs/{run_id:path}/erase", fresh=True)
    def erase(self, run_id: Id) -> ErasedRun:
        """Erase the words of an ended run: input, answer, error, output, messages, and what requests and events quote.

        Its record stays, with state, times and cost, and the log still verifies. What was sent to other systems, and
        the sessions that tools keep, are theirs.
        """

    @use_case("read", "GET /v1/runs/{run_id:path}/facts")
    def facts(self, run_id: RunId) -> RunFacts:
        """Show what happened to a run from due to its end: each wait, check, approval and attempt as a span."""

    @use_case("run", "POST /v1/outcome")
    def report_outcome(self, outcome: ReportedOutcome, *, reason: str | None = None) -> bool:
        """Report the outcome of the run that the caller speaks from; a later report replaces it.

        "failed" makes the run a failure, "nothing" means that there is nothing to tell. No report makes a success of a
        failure, and what the agent declares in its last message counts instead.
        """

    @use_case("run", "POST /v1/messages")
    def send(
        self,
        text: str,
        *,
        to: builtins.list[str] | None = None,
        title: str | None = None,
        files: builtins.list[str] | None = None,
    ) -> SentMessage:
        """Send a message from the run that the caller speaks from: to the destinations of its schedule, or some.

        `files` are below the directory of the run. The answer of the run is delivered all the same.
        """

    @use_case("read", "GET /v1/runs/{run_id:path}/checks")
    def checks(self, run_id: RunId) -> builtins.list[Check]:
        """List what guards, pre-checks and hooks decided about a run, with their output."""

    @use_case("read", "GET /v1/runs/{run_id:path}/thread")
    def thread(self, run_id: RunId) -> ThreadAssignment | None:
        """Get the conversation in which a run happened; None before it started."""

    @use_case("read", "GET /v1/runs/{run_id:path}/snapshot")
    def snapshot(self, run_id: RunId) -> Snapshot:
        """Get the settings of the schedule when this run was made."""

    @use_case("read", "GET /v1/runs/{run_id:path}/output")
    def output(
        self, run_id: RunId, *, offset: int = 0, limit: int = 65_536, stream: Literal["stdout", "stderr"] = "stdout"
    ) -> Output:
        """Get up to `limit` bytes of what the last attempt wrote, without secrets; `offset` below 0: from the end."""

    @use_case("read", "GET /v1/runs/{run_id:path}/transcript")
    def transcript(
        self, run_id: RunId, *, offset: int = 0, limit: int = 65_536, stream: Literal["stdout", "stderr"] = "stdout"
    ) -> Transcript:
        """Get what the last attempt wrote, as people read it: what the agent said, which tools it called with what, and
        shortened results. Lines of unknown tools are as they were; `output` has everything as it was written."""

    def wait(self, run_id: RunId, *, timeout: float | None = None) -> Run:
        """Wait until a run is over, or needs a person, and return it. After `timeout` seconds: as it is then."""
        run = self.get(run_id)
        for pause in looks(timeout):
            if is_settled(run):
                break
            time.sleep(pause)
            run = self.get(run_id)
        return run


class Backfills(Noun, noun="backfills"):
    @use_case("read", "GET /v1/schedules/{name:path}/backfill")
    def preview(
        self,
        name: str,
        *,
        start: Moment,
        end: Moment,
        which: BackfillChoice = "missing",
        newest_first: bool = False,
        limit: int | None = None,
        max_parallel: int = 1,
        agent: str | None = None,
    ) -> BackfillPreview:
        """Preview the runs of a backfill, and what they usually cost. A day as the end is included."""

    @use_case("operate", "POST /v1/schedules/{name:path}/backfills", status=201, query=("agent",),
              location="/v1/backfills/{id}")  # fmt: skip
    def create(
        self,
        name: str,
        *,
        start: Moment,
        end: Moment,
        which: BackfillChoice = "missing",
        newest_first: bool = False,
        limit: int | None = None,
        max_parallel: int = 1,
        max_cost: str | None = None,
        expect: int | None = None,
        agent: str | None = None,
    ) -> Backfill:
        """Start runs for past slots, one after the other, with the settings of now. The records of the slots stay.

        `which`: slots that are missing, those that failed too, or all. `expect`: only if it is still so many runs.
        """

    @use_case("read", "GET /v1/backfills", page=("before", "id"))
    def list(
        self,
        *,
        schedule: str | None = None,
        agent: str | None = None,
        before: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Backfill]:
        """List backfills of all schedules, or of one, the newest first."""

    @use_case("read", "GET /v1/backfills/{backfill_id}")
    def get(self, backfill_id: Id) -> Backfill:
        """Get a backfill, and how far it is."""

    @use_case("operate", "POST /v1/backfills/{backfill_id}/pause")
    def pause(self, backfill_id: Id) -> Backfill:
        """Pause a backfill. Runs that have started continue."""

    @use_case("operate", "POST /v1/backfills/{backfill_id}/resume")
    def resume(self, backfill_id: Id) -> Backfill:
        """Resume a paused backfill."""

    @use_case("operate", "POST /v1/backfills/{backfill_id}/cancel")
    def cancel(self, backfill_id: Id, *, let_run: bool = False) -> Backfill:
        """End a backfill and its live runs; with `let_run`, only those that have not started."""


def is_settled(run: Run) -> bool:
    """Whether a run is over, or needs a person."""
    return not run.live or run.state == "held" or run.status == "awaiting_approval"


def looks(timeout: float | None) -> Iterator[float]:
    """The pauses between looks at a run, in seconds, until the timeout."""
    until = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_LOOK_S
    while (left := pause if until is None else min(pause, until - time.monotonic())) > 0:
        yield left
        pause = min(pause * 1.5, _SLOWEST_LOOK_S)


class Bulk(Noun, noun="bulk"):
    @use_case("read", "POST /v1/bulk/preview")
    def preview(self, do: BulkAction, select: Select) -> BulkPreview:
        """Preview what an action would do to the schedules that a selector selects. Nothing is written."""

    @use_case("change", "POST /v1/bulk")
    def apply(
        self,
        do: BulkAction,
        select: Select,
        *,
        expect: str | None = None,
        note: str | None = None,
        until: Instant | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> BulkResult:
        """Pause, resume, run, delete or edit the schedules that a selector selects, with one reason.

        `expect`: only if these are still those of the preview with this digest. `until`: when a pause ends by itself.
        `settings`: those of an edit. The id of a pause is a term of selectors: `pause=4f2a` resumes just those.
        What cannot be changed is skipped, each with its reason. An agent selects only what it made.
        """
