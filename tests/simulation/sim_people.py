"""Users who govern: quiet hours, throttles, budgets, hooks, approvals; and agents who propose schedules."""

from __future__ import annotations

from random import Random
from typing import Any

from sim_users import ACTIONS, Users

from matins.api.approvals import Approvals
from matins.api.results import Approval
from matins.errors import InvalidInput
from matins.model.access import OWNER, Principal
from matins.testing import ManualClock

ADA, GRACE, VERA = Principal("operator", "ada"), Principal("operator", "grace"), Principal("viewer", "vera")
_ANYBODY = (OWNER, OWNER, OWNER, ADA, ADA, GRACE, GRACE, VERA, Principal("agent", "ann"))
_QUIET = ("nights", "naps")
_PROVIDERS = ("acme", "zeta")
_HOOK = "before:schedule:trigger"
_TRUE = ("/bin/true",)
_WORDS: dict[str, tuple[Any, ...]] = {
    "quiet_hours": (None, None, *_QUIET),
    "provider": (None, *_PROVIDERS),
    "pre_check": (None, None, _TRUE),
    "before_run": (None, None, None, _TRUE),
    "check_timeout": ("1s",),
    "ends_at": (*(None,) * 9, "2026-03-29T00:02:00Z", "2026-03-29T00:08:00Z"),
    "pause_after_failures": (None, 1, 1, 2),
    "max_executions": (*(None,) * 4, 1, 2, 9),
    "max_cost": (None, None, "$0.30"),
    "max_tokens": (None, None, 80_000),
}
_STEP_WORDS: dict[str, tuple[Any, ...]] = {
    "approval": (None, None, None, "auto", "owner_approve"),
    "max_cost": (None, None, "$0.30"),
}
_APPROVALS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"approval": "auto"},
    {"approval": "owner_approve", "approval_timeout": "20s"},
    {"approval": "owner_approve", "approval_timeout": "5s", "approval_default": "approve"},
    {"approval": "council_approve", "approvers": ["ada", "grace"], "approvals_required": 2, "approval_timeout": "1m"},
)
_BUDGETS: tuple[dict[str, Any], ...] = (
    {"period": "day", "max_cost": "$2"},
    {"period": "day", "max_cost": "$6", "max_tokens": 900_000},
    {"period": "month", "max_cost": "$9"},
    {"period": "day", "scope": "agent", "max_tokens": 400_000},
    {"period": "day", "scope": "schedule", "max_cost": "$1.20"},
)


class People(Users):
    def __init__(self, clock: ManualClock, rng: Random) -> None:
        super().__init__(clock, rng)
        self._can = (*ACTIONS, *GOVERNING)
        self._vocabulary = self._vocabulary | _WORDS
        self._step_words = self._step_words | _STEP_WORDS

    def act(self) -> str:
        """There is more to do here."""
        return f"{super().act()}; {super().act()}"

    def prepare(self) -> None:
        for name in _QUIET:
            self._set_quiet_hours(name)
        once = {"auto_approve_one_shots": self._rng.random() < 0.5, "auto_approve_jobs": ["job"]}
        self.owner.agent_rules.set(min_interval="5s", max_schedules=3, approval_timeout="40s", **once)
        for _ in range(2):
            self.budget()
        super().prepare()

    def open_everything(self) -> None:
        for throttle in self.owner.throttles.list():
            self.owner.throttles.delete(throttle.provider)
        for budget in self.owner.budgets.list():
            self.owner.budgets.delete(budget.name)
        self.owner.hooks.delete(_HOOK)
        for asked in self.owner.approvals.list(limit=1_000):
            self._settle(asked)
        super().open_everything()

    def _settle(self, asked: Approval) -> None:
        """Everybody who must says the same; what was answered or has expired meanwhile is settled already."""
        answer = self._rng.choice((Approvals.approve, Approvals.approve, Approvals.deny))
        for voter in (ADA, GRACE) if asked.approvers else (OWNER,):
            try:
                answer(self.acting_as(voter).approvals, asked.id)
            except InvalidInput:
                return

    # -- what governs

    def quiet_hours(self) -> str:
        return self._set_quiet_hours(self._rng.choice(_QUIET))

    def _set_quiet_hours(self, name: str) -> str:
        """Some minutes of every hour, so that no leap of the clock misses them."""
        first = self._rng.choice((0, 1, 2, 5, 59))
        last = min(first + self._rng.randint(1, 3), 59 if first < 59 else 60)
        mode = self._rng.choice(("skip", "defer"))
        windows = [f"{hour:02}:{first:02}-{hour + last // 60:02}:{last % 60:02}" for hour in range(24)]
        self.owner.quiet_hours.set(name, windows=windows, mode=mode)
        return f"{name} {mode} {windows[0]}"

    def throttle(self) -> str:
        provider, seconds = self._rng.choice(_PROVIDERS), self._rng.choice((3, 20, 90))
        affects = self._rng.choice(((), (), ("ann",)))
        resets_at = self.clock.now_ms() + 1_000 * seconds
        self.acting_as(ADA).throttles.set(provider, resets_at=resets_at, affects=affects)
        return f"{provider} for {seconds} s, {affects}"

    def lift(self) -> str:
        provider = self._rng.choice(_PROVIDERS)
        return f"{provider} {self.acting_as(ADA).throttles.delete(provider)}"

    def budget(self) -> str:
        number = self._rng.randrange(len(_BUDGETS))
        if self._rng.random() < 0.3:
            return f"drop {number} {self.owner.budgets.delete(f'budget{number}')}"
        self.owner.budgets.set(f"budget{number}", **_BUDGETS[number])
        return f"set {number}"

    def hook(self) -> str:
        self.owner.hooks.set(_HOOK, command=_TRUE, timeout="1s")
        return "set"

    def unhook(self) -> str:
        return str(self.owner.hooks.delete(_HOOK))

    def pause_until(self) -> str:
        until = self.clock.now_ms() + 1_000 * self._rng.choice((2, 15, 60))
        return self.owner.pause(self._name(), until=until).name

    # -- approvals

    def answer(self) -> str:
        """Anybody tries; who may not is refused."""
        asked = self.owner.approvals.list()
        if not asked:
            return "nothing to answer"
        one = self._rng.choice(asked)
        who = self._rng.choice((ADA, GRACE) if one.approvers and self._rng.random() < 0.6 else _ANYBODY)
        said = self._rng.choice(("approve", "approve", "approve", "deny", "edits"))
        if said == "deny":
            answered = self.acting_as(who).approvals.deny(one.id, digest=one.digest)
        else:
            edits = {"payload": {"edited": self._rng.randrange(9)}} if said == "edits" else None
            answered = self.acting_as(who).approvals.approve(one.id, digest=one.digest, edits=edits)
        return f"{who.name} {said} {one.kind} {one.id}: {answered.id} {answered.state}"

    # -- agents

    def agent(self) -> str:
        """An agent speaks from a run: mostly it is refused, or people are asked."""
        who = Principal("agent", self._rng.choice(("ann", "bob")), self._some_run())
        does = self._rng.choice(("add", "add", "edit", "delete", "pause", "resume", "run"))
        name, agent = self._name(), self.acting_as(who)
        if does == "add":
            words = self._drawn_words(4) | self._work()
            return f"{who.name} adds {agent.add(name, **words).name} {words}"
        if does == "edit":
            return f"{who.name} edits {agent.edit(name, agent=who.name, **self._words(2)).name}"
        if does == "run":
            return f"{who.name} runs {agent.run(name, key='agent', agent=who.name).id}"
        return f"{who.name} {does} {name}: {getattr(agent, does)(name, agent=who.name)}"

    def _name(self) -> str:
        """Mostly one that there is."""
        with self.store.reading() as transaction:
            names = [schedule.name for schedule in transaction.schedules(0, None, 100)]
        return self._rng.choice(names) if names and self._rng.random() < 0.7 else super()._name()

    def _some_run(self) -> int | None:
        with self.store.reading() as transaction:
            ids = [schedule.id for schedule in transaction.schedules(0, None, 100)]
            live = sorted(run.id for run in transaction.live(ids))
        return self._rng.choice(live) if live and self._rng.random() < 0.6 else None

    def _words(self, count: int) -> dict[str, Any]:
        return super()._words(count) | self._rng.choice(_APPROVALS)


GOVERNING = (
    People.quiet_hours,
    *(People.throttle,) * 4,
    People.lift,
    People.budget,
    People.hook,
    People.unhook,
    People.pause_until,
    *(People.answer,) * 9,
    *(People.agent,) * 4,
)
