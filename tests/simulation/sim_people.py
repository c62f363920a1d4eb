"""Users who govern: quiet hours, throttles, budgets, hooks, approvals; and agents who propose schedules."""

from __future__ import annotations

from random import Random
from typing import Any

from sim_users import ACTIONS, Users

from matins.engine.policies import BEFORE
from matins.errors import InvalidInput
from matins.model.policy import Approval
from matins.model.principal import OWNER, Principal
from matins.testing import ManualClock

ADA, GRACE, VERA = Principal("operator", "ada"), Principal("operator", "grace"), Principal("viewer", "vera")
_ANYBODY = (OWNER, OWNER, OWNER, ADA, ADA, GRACE, GRACE, VERA, Principal("agent", "ann"))
_QUIET = ("nights", "naps")
_PROVIDERS = ("acme", "zeta")
_TRUE = ("/bin/true",)
_WORDS: dict[str, tuple[Any, ...]] = {
    "quiet_hours": (None, None, *_QUIET),
    "provider": (None, *_PROVIDERS),
    "pre_check": (None, None, _TRUE),
    "before": (None, None, None, _TRUE),
    "check_limit": ("1s",),
    "ends": (*(None,) * 9, "2026-03-29T00:02:00Z", "2026-03-29T00:08:00Z"),
    "pause_after": (None, 1, 1, 2),
    "max_executions": (*(None,) * 4, 1, 2, 9),
    "max_cost": (None, None, "$0.30"),
    "max_tokens": (None, None, 80_000),
}
_APPROVALS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"approval": "auto"},
    {"approval": "owner_approve", "approval_expires": "20s"},
    {"approval": "owner_approve", "approval_expires": "5s", "approval_default": "approve"},
    {"approval": "council_approve", "approvers": ["ada", "grace"], "approvals_needed": 2, "approval_expires": "1m"},
)
_BUDGETS: tuple[dict[str, Any], ...] = (
    {"per": "day", "money": "$2"},
    {"per": "day", "money": "$6", "tokens": 900_000},
    {"per": "month", "money": "$9"},
    {"per": "day", "scope": "agent", "tokens": 400_000},
    {"per": "day", "scope": "schedule", "money": "$1.20"},
)


class People(Users):
    def __init__(self, clock: ManualClock, rng: Random) -> None:
        super().__init__(clock, rng)
        self._can = (*ACTIONS, *GOVERNING)
        self._vocabulary = self._vocabulary | _WORDS

    def act(self) -> str:
        """There is more to do here."""
        return f"{super().act()}; {super().act()}"

    def prepare(self) -> None:
        for name in _QUIET:
            self._set_quiet_hours(name)
        once = {"auto_one_shots": self._rng.random() < 0.5, "auto_jobs": ["job"]}
        self.service.set_agent_rules(OWNER, floor="5s", quota=3, approval_expires="40s", **once)
        for _ in range(2):
            self.budget()
        super().prepare()

    def open_everything(self) -> None:
        for throttle in self.service.throttles(OWNER):
            self.service.lift_throttle(OWNER, throttle.provider)
        for budget, _ in self.service.budgets(OWNER):
            self.service.drop_budget(OWNER, budget.name)
        self.service.drop_hook(OWNER, BEFORE)
        for asked in self.service.approvals(OWNER, limit=1_000):
            self._settle(asked)
        super().open_everything()

    def _settle(self, asked: Approval) -> None:
        """Everybody who must says the same; what was answered or has expired meanwhile is settled already."""
        answer = self._rng.choice((self.service.approve, self.service.approve, self.service.deny))
        for voter in (ADA, GRACE) if asked.approvers else (OWNER,):
            try:
                answer(voter, asked.id)
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
        self.service.set_quiet_hours(OWNER, name, windows=windows, mode=mode)
        return f"{name} {mode} {windows[0]}"

    def throttle(self) -> str:
        provider, seconds = self._rng.choice(_PROVIDERS), self._rng.choice((3, 20, 90))
        affects = self._rng.choice(((), (), ("ann",)))
        self.service.throttle(ADA, provider, self.clock.now_ms() + 1_000 * seconds, affects)
        return f"{provider} for {seconds} s, {affects}"

    def lift(self) -> str:
        provider = self._rng.choice(_PROVIDERS)
        return f"{provider} {self.service.lift_throttle(ADA, provider)}"

    def budget(self) -> str:
        number = self._rng.randrange(len(_BUDGETS))
        if self._rng.random() < 0.3:
            return f"drop {number} {self.service.drop_budget(OWNER, f'budget{number}')}"
        self.service.set_budget(OWNER, f"budget{number}", **_BUDGETS[number])
        return f"set {number}"

    def hook(self) -> str:
        if self._rng.random() < 0.6:
            return f"drop {self.service.drop_hook(OWNER, BEFORE)}"
        self.service.set_hook(OWNER, BEFORE, list(_TRUE), "1s")
        return "set"

    def pause_until(self) -> str:
        until = self.clock.now_ms() + 1_000 * self._rng.choice((2, 15, 60))
        return self.service.pause(OWNER, self._name(), until=until).name

    # -- approvals

    def answer(self) -> str:
        """Anybody tries; who may not is refused."""
        asked = self.service.approvals(OWNER)
        if not asked:
            return "nothing to answer"
        one = self._rng.choice(asked)
        who = self._rng.choice((ADA, GRACE) if one.approvers and self._rng.random() < 0.6 else _ANYBODY)
        said = self._rng.choice(("approve", "approve", "approve", "deny", "edits"))
        if said == "deny":
            answered = self.service.deny(who, one.id, digest=one.digest)
        else:
            edits = {"payload": {"edited": self._rng.randrange(9)}} if said == "edits" else None
            answered = self.service.approve(who, one.id, digest=one.digest, edits=edits)
        return f"{who.name} {said} {one.kind} {one.id}: {answered.id} {answered.state}"

    # -- agents

    def agent(self) -> str:
        """An agent speaks from a run: mostly it is refused, or people are asked."""
        who = Principal("agent", self._rng.choice(("ann", "bob")), self._some_run())
        does = self._rng.choice(("add", "add", "edit", "remove", "pause", "resume", "run"))
        name = self._name()
        if does == "add":
            words = self._drawn_words(4) | {"do": "job"}
            return f"{who.name} adds {self.service.add(who, name, **words).name} {words}"
        if does == "edit":
            return f"{who.name} edits {self.service.edit(who, name, who.name, **self._words(2)).name}"
        if does == "run":
            return f"{who.name} runs {self.service.run(who, name, 'agent', who.name).id}"
        return f"{who.name} {does} {name}: {getattr(self.service, does)(who, name, who.name)}"

    def _name(self) -> str:
        """Mostly one that there is."""
        with self.store.reading() as transaction:
            names = [schedule[1] for schedule in transaction.schedules(0, None, 100)]
        return self._rng.choice(names) if names and self._rng.random() < 0.7 else super()._name()

    def _some_run(self) -> int | None:
        with self.store.reading() as transaction:
            ids = [schedule[0] for schedule in transaction.schedules(0, None, 100)]
            live = sorted(run for _, run, _ in transaction.live(ids))
        return self._rng.choice(live) if live and self._rng.random() < 0.6 else None

    def _words(self, count: int) -> dict[str, Any]:
        return super()._words(count) | self._rng.choice(_APPROVALS)


GOVERNING = (
    People.quiet_hours,
    *(People.throttle,) * 4,
    People.lift,
    People.budget,
    People.hook,
    People.pause_until,
    *(People.answer,) * 9,
    *(People.agent,) * 4,
)
