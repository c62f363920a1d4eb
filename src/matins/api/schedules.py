"""Use cases on schedules, declared, and all others by noun: what `Matins` and `Client` have in common.

Use cases on missions, declared. A mission is a schedule with steps: all that schedules can do works for it too.
"""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from matins.api._types import RecordNouns
from matins.api.approvals import Approvals
from matins.api.events import AuditLog, Calls, Events, Incidents, Pings, Subscriptions
from matins.api.runs import Backfills, Bulk, Runs
from matins.api.system import File, Nodes, Sessions, System, Threads, Tokens
from matins.api.use_case import Noun, noun, use_case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from matins.api._types import ScheduleEdit, ScheduleSettings
    from matins.api.arguments import Count, Id, Instant, Json, Limit, Moment, Select, When
    from matins.api.results import (
        CatchUp,
        CatchUpAll,
        Change,
        EditForecast,
        Explanation,
        Forecast,
        Found,
        Lanes,
        Mission,
        NewForecast,
        Pause,
        Preview,
        Run,
        Schedule,
        ScheduleCalendar,
        ScheduleCounts,
        Timeline,
        Usual,
    )
    from matins.model.overview import ScheduleSort, ScheduleTab
    from matins.model.schedule import MissionStatus
    from matins.model.trigger import DstGap, DstOverlap


_MISSION = "/v1/missions/{name:path}"
_AGENT = ("agent",)


class Missions(Noun, noun="missions"):
    @use_case("change", "POST /v1/missions", status=201, location="/v1/missions/{agent}/{name}", settings="schedule")
    def make(
        self,
        name: str | None = None,
        *,
        when: When | None = None,
        agent: str = "",
        create_agent: bool = False,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Mission:
        """Make a mission from its `steps`. Without `when` it is a draft, which a person starts.

        The arguments are those of `add`. A name that is taken is refused.
        """

    @use_case("read", "GET /v1/missions", page=("after", "id"))
    def list(
        self,
        *,
        agent: str | None = None,
        status: MissionStatus | None = None,
        after: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Mission]:
        """List missions with their status, next and last run, the oldest first."""

    @use_case("read", f"GET {_MISSION}")
    def get(self, name: str, *, agent: str | None = None) -> Mission:
        """Get a mission: its status, its steps, its last run."""

    @use_case("change", f"POST {_MISSION}/draft", query=_AGENT)
    def draft(self, name: str, *, agent: str | None = None) -> Mission:
        """Take the time of a mission away, with its end. Running runs continue."""

    @use_case("change", f"POST {_MISSION}/abort", query=_AGENT)
    def abort(self, name: str, *, agent: str | None = None) -> Mission:
        """Take the time of a mission away, and cancel its runs."""

    @use_case("change", f"DELETE {_MISSION}", status=204)
    def delete(self, name: str, *, agent: str | None = None) -> bool:
        """Delete a mission. Its history is kept. False when there is none."""


_SCHEDULE = "/v1/schedules/{name:path}"


class Api(Noun, RecordNouns, noun="schedules"):
    """Schedules themselves are `m.add`, `m.list`; everything else is `m.noun.verb`: `m.runs.cancel(7)`."""

    runs: Runs = noun()
    bulk: Bulk = noun()
    backfills: Backfills = noun()
    missions: Missions = noun()
    approvals: Approvals = noun()
    events: Events = noun()
    subscriptions: Subscriptions = noun()
    audit: AuditLog = noun()
    calls: Calls = noun()
    pings: Pings = noun()
    incidents: Incidents = noun()
    threads: Threads = noun()
    nodes: Nodes = noun()
    tokens: Tokens = noun()
    sessions: Sessions = noun()
    file: File = noun()
    system: System = noun()

    @use_case("change", "POST /v1/schedules", status=201, location="/v1/schedules/{agent}/{name}",
              settings="schedule")  # fmt: skip
    def add(
        self,
        name: str | None = None,
        *,
        when: When | None = None,
        agent: str = "",
        create_agent: bool = False,
        new_agent: Mapping[str, Any] | None = None,
        replace: bool = False,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """Add a schedule. A name that is taken is refused. It needs `when`, `on` or both.

        `when` may be omitted where there are `steps`: then the schedule never fires by time.
        With `replace`, a schedule that has the name gets these settings, and no others; without a difference, nothing
        changes.

        Without a name, it gets one from its prompt or job, numbered where that is taken. `create_agent` creates an
        agent that does not exist, where a runner has its name; `new_agent` has its `runner`, `workdir`,
        `permission_mode`, `user` and `isolation`, where they are other than the usual ones. `context` says where the
        caller is, for targets such as `current-thread`. A schedule that an agent adds waits for approval.
        """

    @use_case("change", "POST /v1/schedules/batch", status=201, max_bytes=64 << 20)
    def add_many(self, schedules: Sequence[Mapping[str, Any]]) -> builtins.list[str]:
        """Add many schedules with the arguments of `add`: all of them, or none when one is wrong."""

    @use_case("read", "GET /v1/schedules", page=("after", "id"))
    def list(
        self,
        *,
        select: Select | None = None,
        tab: ScheduleTab = "all",
        sort: ScheduleSort = "created",
        deleted: bool = False,
        bars: int = 0,
        after: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Schedule]:
        """List schedules with their next and last run, the oldest first, by name, or those that fire next first.

        `select`: for example `agent=claude label.team=ops state=active report-*`; `text=quota` has this text in name,
        agent, settings or note. `tab`: active, paused, made by agents, or in need of attention. `bars`: with so many
        of their last records. `deleted`: those that were deleted, instead of the others.
        """

    @use_case("read", "GET /v1/schedule-counts")
    def counts(self, *, select: Select | None = None) -> ScheduleCounts:
        """Count the schedules of each tab of the list."""

    @use_case("read", "GET /v1/search")
    def search(self, text: str, *, limit: Limit = 10) -> builtins.list[Found]:
        """Search schedules, agents, requests and incidents by name or text, and runs by number and what they said.

        Words match by their beginnings; what is in quotes as it is written. Runs are found a second after their end.
        """

    @use_case("read", f"GET {_SCHEDULE}", short=True)
    def get(self, name: str, *, agent: str | None = None) -> Schedule:
        """Get a schedule: settings, state, last run."""

    @use_case("change", f"PATCH {_SCHEDULE}", query=_AGENT, revision="if_rev",
              settings="schedule")  # fmt: skip
    def edit(
        self,
        name: str,
        *,
        agent: str | None = None,
        if_rev: int | None = None,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleEdit],
    ) -> Schedule:
        """Change settings of a schedule; None resets one to its default. Running runs keep theirs.

        What is due under the old settings is planned first. A run that waits for approval keeps the settings that it
        was planned with. Approval of a proposal is requested again.
        `if_rev`: only if the schedule still has this revision.
        """

    @use_case("read", f"GET {_SCHEDULE}/history")
    def history(self, name: str, *, agent: str | None = None, limit: Limit = 100) -> builtins.list[Change]:
        """List the changes of a schedule, the newest first: who, when, and each setting before and after."""

    @use_case("change", f"POST {_SCHEDULE}/undo", query=_AGENT)
    def undo(
        self, name: str, *, to: int | None = None, agent: str | None = None, if_rev: int | None = None
    ) -> Schedule:
        """Edit a schedule back to the settings that it had before its last change, or at the revision `to`.

        It is an edit, with the rights and approvals of one. To undo it, undo again.
        """

    @use_case("change", f"POST {_SCHEDULE}/rename", query=_AGENT)
    def rename(self, name: str, to: str, *, agent: str | None = None) -> Schedule:
        """Give a schedule another name, with everything that holds it: schedules that follow it, and budgets.

        Its id, times and history stay. A run that waits for approval keeps its request; approval of a proposal is
        requested again.
        """

    @use_case("change", f"POST {_SCHEDULE}/undelete", query=_AGENT)
    def undelete(
        self, name: str, *, agent: str | None = None, new_name: str | None = None, resume: bool = False
    ) -> Schedule:
        """Bring back the last deleted schedule of this name, with its id, runs and history, paused.

        `new_name`: where the name is taken. What an agent or an operator made is a proposal again, unless the owner
        brings it back. Refused where an agent or a record that it needs is gone.
        """

    @use_case("change", f"DELETE {_SCHEDULE}", status=204)
    def delete(self, name: str, *, agent: str | None = None) -> bool:
        """Delete a schedule. Its history is kept. False when there is none."""

    @use_case("change", f"POST {_SCHEDULE}/pause", query=_AGENT)
    def pause(
        self, name: str, *, agent: str | None = None, note: str | None = None, until: Instant | None = None
    ) -> Schedule:
        """Pause a schedule. Running runs continue. `until`: when it resumes by itself."""

    @use_case("change", f"POST {_SCHEDULE}/resume", query=_AGENT)
    def resume(self, name: str, *, agent: str | None = None) -> Schedule:
        """Resume a paused schedule: an interval from now, anything else at its next occurrence."""

    @use_case("read", "GET /v1/pauses")
    def pauses(self) -> builtins.list[Pause]:
        """List pauses of several schedules that are in force."""

    @use_case("run", f"POST {_SCHEDULE}/run", status=201, query=_AGENT, location="/v1/runs/{id}")
    def run(
        self,
        name: str,
        *,
        input: Json | None = None,  # noqa: A002 - the word of every surface
        model: str | None = None,
        effort: str | None = None,
        slot: Moment | None = None,
        key: str | None = None,
        at: Instant | None = None,
        agent: str | None = None,
    ) -> Run:
        """Start a run now, once per key: the same key gives the run that exists. `slot`: the past slot that it makes up
        for, as `{{slot}}` in prompts. `at`: when it starts, instead of now, for schedules
        with `overlap: allow`.

        `input` goes over the schedule's `payload`, key by key: {"days": 30} is `{{input.days}}` in prompts,
        `INPUT_DAYS` in processes, and a part of a job's payload. It is stored and shown: it is no place for secrets.
        `model` and `effort` are those of this run, over those of the schedule and of its agent.
        Quiet hours and the schedule's end do not apply to a run that a person starts; every other gate does.
        """

    @use_case("read", "GET /v1/upcoming")
    def upcoming(self, *, limit: Limit = 20) -> builtins.list[Schedule]:
        """List the schedules that fire next, the soonest first."""

    @use_case("read", "GET /v1/timeline")
    def timeline(self, *, start: Instant | None = None, end: Instant | None = None) -> Timeline:
        """Show what ran and what will run between two instants, with quiet hours and rate limits, by agent.

        Default: from 6 hours ago to 24 hours ahead. Where a lane has too many records or slots, the densest schedules
        are bands with a count.
        """

    @use_case("read", "GET /v1/lanes")
    def lanes(
        self,
        *,
        select: Select | None = None,
        by: str = "agent",
        start: Instant | None = None,
        end: Instant | None = None,
        limit: Limit = 8,
    ) -> Lanes:
        """Show how much ran and will run between two instants, in few lanes, those with failures first.

        `by`: `agent`, or `label.team` for the values of a label. Default: from 6 hours ago to 2 hours ahead. A lane
        with few runs and slots has each of them; a dense one counts them in equal parts of the time.
        """

    @use_case("read", f"GET {_SCHEDULE}/usual")
    def usual(self, name: str, *, agent: str | None = None) -> Usual:
        """Show what runs of a schedule usually take: duration, delay, cost and tokens of the last 100."""

    @use_case("read", f"GET {_SCHEDULE}/why")
    def why(self, name: str, *, at: Instant | None = None, agent: str | None = None) -> Explanation:
        """Explain why a schedule ran or did not run at a slot (default: the last), and what each gate says now."""

    @use_case("read", f"GET {_SCHEDULE}/preview")
    def preview(self, name: str, *, count: Count = 5, agent: str | None = None) -> Forecast:
        """Preview the next slots of a schedule, what each gate would say of them, and the cost of a day."""

    @use_case("read", f"POST {_SCHEDULE}/preview", query=("agent", "count"), settings="schedule")
    def preview_edit(
        self,
        name: str,
        *,
        agent: str | None = None,
        count: Count = 5,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleEdit],
    ) -> EditForecast:
        """Preview the next slots before and after an edit. Nothing is written."""

    @use_case("read", "POST /v1/schedules/preview", query=("count",), settings="schedule")
    def preview_new(
        self,
        name: str | None = None,
        *,
        when: When | None = None,
        agent: str = "",
        create_agent: bool = False,
        count: Count = 5,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> NewForecast:
        """Preview a schedule that does not exist: its next slots, its cost, and whether a person would be asked.

        The arguments are those of `add`, and what `add` refuses is refused. Nothing is written.
        """

    @use_case("read", f"GET {_SCHEDULE}/catch-up")
    def preview_catch_up(self, name: str, *, since: Instant | None = None, agent: str | None = None) -> CatchUp:
        """Preview what would be recorded and run if no engine had run since an instant.

        Default: for what is overdue.
        """

    @use_case("read", "GET /v1/catch-up")
    def preview_catch_up_all(self, *, since: Instant | None = None) -> CatchUpAll:
        """Preview what a start now would record and run for all schedules, and its cost.

        `since`: as if no engine had run since an instant. Default: for what is overdue.
        """

    @use_case("read", f"GET {_SCHEDULE}/calendar")
    def calendar(
        self, name: str, *, since: Instant | None = None, until: Instant | None = None, agent: str | None = None
    ) -> ScheduleCalendar:
        """Count the slots of a schedule by day and state: of the last 365 days, or between two instants."""

    @use_case("read", "GET /v1/triggers/next")
    def next_times(
        self,
        text: str,
        *,
        timezone: str | None = None,
        after: Instant | None = None,
        count: Count = 5,
        dst_gap: DstGap = "after",
        dst_overlap: DstOverlap = "first",
        strict: bool = False,
        name: str | None = None,
    ) -> Preview:
        """Show what a WHEN text means, and when it would fire. `H` in cron follows from the name of a schedule."""
