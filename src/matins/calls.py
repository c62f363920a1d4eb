"""The use cases as methods, for whoever speaks: the owner of a `Matins`, or somebody it lets act."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from matins.engine.agent_rules import AgentRules
from matins.engine.budgets import Budget
from matins.engine.events import canonical_types
from matins.engine.prices import Price
from matins.engine.quiet_hours import QuietHours
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import InstantError, MatinsError
from matins.model.agent import Agent
from matins.model.desk import Token
from matins.model.policy import Approval, Purse, Throttle
from matins.model.principal import Role
from matins.model.run import Run
from matins.model.schedule import Schedule, ScheduleState
from matins.model.thread import Landing, Message, Thread
from matins.service.auditing import Audit
from matins.service.backup import Backup
from matins.service.doctor import Finding
from matins.service.explaining import Why
from matins.service.forecasts import Forecast
from matins.service.governing import Hook, Limit, Rate
from matins.service.jobs import Jobs
from matins.service.journal import Event
from matins.service.output import Output
from matins.service.overviews import Overview
from matins.service.snapshots import Snapshot
from matins.service.stats import Stats
from matins.service.tokens import NewToken
from matins.service.what_if import CatchUp, ChangeForecast
from matins.work.base import SourceDefinition


class Calls:
    def _call(self, use_case: str, /, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    # -- schedules

    def add(self, name: str, *, when: str | Trigger, agent: str = "", **words: Any) -> Schedule:
        """`do` names the job that it starts, or `prompt` says what its agent is told."""
        return self._call("add", name, when, agent, **words)

    def add_many(self, schedules: Sequence[Mapping[str, Any]]) -> builtins.list[int]:
        return self._call("add_many", schedules)

    def edit(self, name: str, *, agent: str | None = None, if_rev: int | None = None, **words: Any) -> Schedule:
        """`if_rev`: only if nobody has changed it since it had this revision."""
        return self._call("edit", name, agent, if_rev, **words)

    def pause(
        self, name: str, *, agent: str | None = None, note: str | None = None, until: datetime | int | str | None = None
    ) -> Schedule:
        return self._call("pause", name, agent, note, _instant(until, "until"))

    def resume(self, name: str, *, agent: str | None = None) -> Schedule:
        return self._call("resume", name, agent)

    def remove(self, name: str, *, agent: str | None = None) -> bool:
        return self._call("remove", name, agent)

    def get(self, name: str, *, agent: str | None = None) -> Schedule:
        return self._call("get", name, agent)

    def list(self, *, agent: str | None = None, after: int = 0, limit: int = 100) -> builtins.list[Schedule]:
        return self._call("list", agent, after, limit)

    def overview(
        self, *, agent: str | None = None, state: ScheduleState | None = None, after: int = 0, limit: int = 100
    ) -> builtins.list[Overview]:
        """A page of schedules, each in words and with its newest record."""
        return self._call("overview", agent, state, after, limit)

    def look(self, name: str, *, agent: str | None = None) -> Overview:
        return self._call("look", name, agent)

    def upcoming(self, *, limit: int = 20) -> builtins.list[Overview]:
        """Whatever fires next, the soonest first."""
        return self._call("upcoming", limit)

    def limit(self, scope: str, size: int) -> None:
        self._call("limit", scope, size)

    def limits(self) -> builtins.list[Limit]:
        return self._call("limits")

    def drop_limit(self, scope: str) -> bool:
        return self._call("drop_limit", scope)

    # -- runs

    def run(self, name: str, *, key: str | None = None, agent: str | None = None) -> Run:
        return self._call("run", name, key, agent)

    def cancel(self, run_id: int) -> Run:
        return self._call("cancel", run_id)

    def resolve(self, run_id: int, end: str) -> Run:
        """Say what became of a held run: succeeded, failed, unknown, or retry."""
        return self._call("resolve", run_id, end)

    def get_run(self, run_id: int) -> Run:
        return self._call("get_run", run_id)

    def runs(
        self, name: str, *, agent: str | None = None, before: int | None = None, limit: int = 100
    ) -> builtins.list[Run]:
        return self._call("runs", name, agent, before, limit)

    def recent(self, *, state: str | None = None, before: int | None = None, limit: int = 100) -> builtins.list[Run]:
        """Runs of all schedules, the newest first."""
        return self._call("recent", state, before, limit)

    def checks(self, run_id: int) -> builtins.list[dict[str, Any]]:
        """What guards, pre-checks and hooks said about a run, with what they printed."""
        return self._call("checks", run_id)

    def snapshot(self, run_id: int) -> Snapshot:
        """What the schedule said when this run was made."""
        return self._call("snapshot", run_id)

    def output(self, run_id: int, *, offset: int = 0, limit: int = 65_536, stream: str = "stdout") -> Output:
        """What a run has written so far, as it was written; secrets are redacted."""
        return self._call("output", run_id, offset, limit, stream)

    def verify_audit(self, seal: str | None = None) -> builtins.list[str]:
        return self._call("verify_audit", seal)

    def last_seal(self) -> str | None:
        return self._call("last_seal")

    # -- why, and what is to come

    def why(self, name: str, *, at: datetime | int | None = None, agent: str | None = None) -> Why:
        """Why it did or did not run at a slot (by default, the last), and what would happen now, gate by gate."""
        return self._call("why", name, _instant(at, "at"), agent)

    def preview(self, name: str, *, count: int = 5, agent: str | None = None) -> Forecast:
        """The next slots, what each gate would say of them, and what a day will cost."""
        return self._call("preview", name, count, agent)

    def preview_change(self, name: str, *, agent: str | None = None, count: int = 5, **words: Any) -> ChangeForecast:
        """The next slots before and after an edit in these words; nothing is written."""
        return self._call("preview_change", name, agent, count, **words)

    def preview_catch_up(self, name: str, *, since: datetime | int | None = None, agent: str | None = None) -> CatchUp:
        """What would be recorded and run if nobody had been there since an instant; by default, for what is overdue."""
        return self._call("preview_catch_up", name, _instant(since, "since"), agent)

    def stats(self) -> Stats:
        return self._call("stats")

    def known_jobs(self) -> Jobs:
        """Which jobs the engine that answers has; another engine may have others."""
        return self._call("known_jobs")

    def audit(self, seal: str | None = None) -> Audit:
        """Whether every event is as it was written; `seal`: one that was noted down elsewhere."""
        return self._call("audit", seal)

    # -- approvals

    def approvals(self, state: str = "pending", *, after: int = 0, limit: int = 100) -> builtins.list[Approval]:
        return self._call("approvals", state, after, limit)

    def approve(
        self,
        approval_id: int,
        *,
        note: str | None = None,
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> Approval:
        return self._call("approve", approval_id, note, digest, edits)

    def deny(self, approval_id: int, *, note: str | None = None, digest: str | None = None) -> Approval:
        return self._call("deny", approval_id, note, digest)

    def resolve_approval(self, run_id: int, approved: bool, *, digest: str | None = None) -> Run | None:
        """Answer what is asked about a run; None when nothing is."""
        return self._call("resolve_approval", run_id, approved, digest)

    # -- what governs them

    def set_quiet_hours(self, name: str, **words: Any) -> QuietHours:
        return self._call("set_quiet_hours", name, **words)

    def drop_quiet_hours(self, name: str) -> bool:
        return self._call("drop_quiet_hours", name)

    def quiet_hours(self) -> builtins.list[QuietHours]:
        return self._call("quiet_hours")

    def set_budget(self, name: str, **words: Any) -> Budget:
        return self._call("set_budget", name, **words)

    def drop_budget(self, name: str) -> bool:
        return self._call("drop_budget", name)

    def budgets(self) -> builtins.list[tuple[Budget, builtins.list[Purse]]]:
        return [(budget, purses) for budget, purses in self._call("budgets")]

    def set_price(self, model: str, **words: Any) -> Price:
        return self._call("set_price", model, **words)

    def prices(self) -> builtins.list[Price]:
        return self._call("prices")

    def drop_price(self, model: str) -> bool:
        return self._call("drop_price", model)

    def set_rate(self, currency: str, usd: float) -> None:
        self._call("set_rate", currency, usd)

    def rates(self) -> builtins.list[Rate]:
        return self._call("rates")

    def drop_rate(self, currency: str) -> bool:
        return self._call("drop_rate", currency)

    def set_hook(self, event: str, command: str | Sequence[str], *, limit: str = "15s") -> None:
        self._call("set_hook", event, command, limit)

    def hooks(self) -> builtins.list[Hook]:
        return self._call("hooks")

    def drop_hook(self, event: str) -> bool:
        return self._call("drop_hook", event)

    def set_agent_rules(self, agent: str = "*", **words: Any) -> AgentRules:
        return self._call("set_agent_rules", agent, **words)

    def agent_rules(self, agent: str = "*") -> AgentRules:
        return self._call("agent_rules", agent)

    def throttle(
        self,
        provider: str,
        resets_at: datetime | int | str,
        *,
        affects: Sequence[str] = (),
        reason: str = "set by hand",
    ) -> Throttle:
        return self._call("throttle", provider, _instant(resets_at, "resets_at"), affects, reason)

    def throttles(self) -> builtins.list[Throttle]:
        return self._call("throttles")

    def lift_throttle(self, provider: str) -> bool:
        return self._call("lift_throttle", provider)

    # -- the whole

    def doctor(self) -> builtins.list[Finding]:
        """Whether all is well, and for what is not, the command that mends it."""
        return self._call("doctor")

    def backup(self, path: str | Path) -> Backup:
        """A whole and consistent copy in a new file."""
        return self._call("backup", str(Path(path).absolute()))

    def create_token(
        self,
        name: str,
        *,
        role: Role = "owner",
        rights: Iterable[str] | None = None,
        expires_at: datetime | int | str | None = None,
    ) -> NewToken:
        """A key for a program or a person; the token itself is shown here and never again."""
        kept = rights if rights is None else builtins.list(rights)
        return self._call("create_token", name, role, kept, _instant(expires_at, "expires_at"))

    def tokens(self) -> builtins.list[Token]:
        return self._call("tokens")

    def revoke_token(self, token_id: str) -> bool:
        return self._call("revoke_token", token_id)

    # -- events, and who hears of them

    def events(
        self,
        *,
        types: str | Iterable[str] | None = None,
        after: int | None = None,
        limit: int = 100,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: int | None = None,
    ) -> builtins.list[Event]:
        """The oldest first: the next `limit` after an event, or the newest of all."""
        wanted = types if types is None else canonical_types(types)
        return self._call("events", wanted, after, limit, schedule, agent, run_id)

    def add_webhook(
        self, name: str, url: str, *, types: str | Iterable[str] | None = None, secret: str | None = None
    ) -> dict[str, Any]:
        """Signed requests for events from now on; the answer holds the secret, which is not shown again."""
        return self._call("add_webhook", name, url, types if types is None else canonical_types(types), secret)

    def webhooks(self) -> builtins.list[dict[str, Any]]:
        return self._call("webhooks")

    def pause_webhook(self, name: str, *, note: str | None = None) -> bool:
        return self._call("pause_webhook", name, note)

    def resume_webhook(self, name: str) -> bool:
        return self._call("resume_webhook", name)

    def drop_webhook(self, name: str) -> bool:
        return self._call("drop_webhook", name)

    def deliveries(
        self, name: str, *, state: str = "waiting", after: str | int = 0, limit: int = 100
    ) -> builtins.list[dict[str, Any]]:
        """What a subscription has not got: `waiting` to be tried again, or `given_up`."""
        return self._call("deliveries", name, state, after, limit)

    def redeliver(self, name: str, event_id: str | int) -> None:
        self._call("redeliver", name, event_id)

    def forget_subscription(self, name: str) -> bool:
        """Where a function that was subscribed by name stood."""
        return self._call("forget_subscription", name)

    def set_allowed_hosts(self, hosts: Sequence[str]) -> None:
        """Hosts that webhooks may lead to whatever their address, such as those of one's own network."""
        self._call("set_allowed_hosts", hosts)

    def allowed_hosts(self) -> builtins.list[str]:
        return self._call("allowed_hosts")

    # -- the file

    def plan(self) -> dict[str, Any]:
        """What the file would change, word by word; nothing is written."""
        return self._call("plan")

    def apply(self, *, digest: str | None = None) -> dict[str, Any]:
        """Do what the file says, all of it or nothing; `digest`: only if it is still what `plan` has shown."""
        return self._call("apply", digest)

    # -- agents

    def set_agent(self, name: str, **words: Any) -> Agent:
        """Who is woken: runner, model, workdir, environment, tools, limits."""
        return self._call("set_agent", name, **words)

    def edit_agent(self, name: str, **words: Any) -> Agent:
        """Only what is said changes; None goes back to what is usual."""
        return self._call("edit_agent", name, **words)

    def drop_agent(self, name: str) -> bool:
        return self._call("drop_agent", name)

    def set_work_source(self, name: str, **words: Any) -> SourceDefinition:
        return self._call("set_work_source", name, **words)

    def drop_work_source(self, name: str) -> bool:
        return self._call("drop_work_source", name)

    def work_sources(self) -> builtins.list[SourceDefinition]:
        return self._call("work_sources")

    def agents(self) -> builtins.list[Agent]:
        return self._call("agents")

    def get_agent(self, name: str) -> Agent:
        return self._call("get_agent", name)

    def threads(self, *, before: int | None = None, limit: int = 100) -> builtins.list[Thread]:
        return self._call("threads", before, limit)

    def messages(self, thread_id: int, *, after: int = 0, limit: int = 100) -> builtins.list[Message]:
        return self._call("messages", thread_id, after, limit)

    def landing(self, run_id: int) -> Landing | None:
        return self._call("landing", run_id)


def _instant(at: datetime | int | str | None, field: str) -> int | None:
    """UTC milliseconds of a datetime with a zone, of an ISO text with an offset, or as they are."""
    if at is None or (isinstance(at, int) and not isinstance(at, bool)):
        return at
    try:
        return to_ms(datetime.fromisoformat(at) if isinstance(at, str) else cast("datetime", at))
    except (ValueError, AttributeError, MatinsError):
        hint = 'a datetime with its zone, or "2026-12-31T18:00:00+00:00"'
        raise InstantError(f'"{field}" is not an instant: {at!r}', value=at, field=field, hint=hint) from None
