"""Budgets: what is set aside fits, is given back, and what was spent stands in every purse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import orjson
from sim_gates import Budget, InForce
from sim_rows import Commit, Reader, RunRow
from sim_violation import require

from matins.model.run import RunState

_RESERVATION = "SELECT run_id, budget, whose, period, money, tokens FROM reservations"
_SPEND = "SELECT run_id, schedule_id, agent, money, tokens FROM spend"
_PURSE = "SELECT budget, whose, period, money, tokens, money_reserved, tokens_reserved FROM purses"
_STARTED = range(RunState.STARTING, RunState.HELD + 1)


class Reservation(NamedTuple):
    run_id: int
    budget: str
    whose: str
    period: str
    money: int
    tokens: int

    @property
    def purse(self) -> tuple[str, str, str]:
        return self.budget, self.whose, self.period


class Purse(NamedTuple):
    budget: str
    whose: str
    period: str
    money: int
    tokens: int
    money_reserved: int
    tokens_reserved: int


class MoneyRules:
    def __init__(self, reader: Reader, in_force: InForce) -> None:
        self._reader = reader
        self._in_force = in_force
        self._reserved: dict[tuple[int, str], Reservation] = {}
        self._spent: dict[int, tuple[int, int]] = {}
        self._purses: dict[tuple[str, str, str], Purse] = {}

    def check(self, commit: Commit, runs: Mapping[int, RunRow], budgets: Mapping[str, Budget]) -> None:
        """`budgets` are those of before the commit."""
        before = self._reserved
        if commit.rows("reservations"):
            rows = [Reservation(*row) for row in self._reader.query(_RESERVATION)]
            self._reserved = {(row.run_id, row.budget): row for row in rows}
        if commit.rows("purses") or commit.rows("spend"):
            self._check_purses(commit, budgets)
        if self._reserved or before:
            self._check_reserved(runs)
        for key, row in self._reserved.items():
            if key not in before:
                self._check_fits(row, runs)
        for _, new in commit.claims:
            self._check_claim(new)

    def check_the_end(self) -> None:
        left = [row for row in self._reserved.values() if row.period != "run"]  # steps that have just started may run
        require(11, not left, f"still set aside after all is over: {left}")

    def _check_reserved(self, runs: Mapping[int, RunRow]) -> None:
        """Only what runs has something set aside, and the purses know of it."""
        for row in self._reserved.values():
            run = runs.get(row.run_id)
            running = run is not None and run.state in _STARTED
            require(10, running, f"{row} is set aside for a run that does not run: {run}")
        held: Counter[tuple[tuple[str, str, str], str]] = Counter()
        for row in self._reserved.values():
            held[row.purse, "money"] += row.money
            held[row.purse, "tokens"] += row.tokens
        for key, purse in self._purses.items():
            told, known = (purse.money_reserved, purse.tokens_reserved), (held[key, "money"], held[key, "tokens"])
            require(10, told == known, f"{purse} counts {told} as set aside; runs hold {known}")

    def _check_fits(self, row: Reservation, runs: Mapping[int, RunRow]) -> None:
        purse = self._purses[row.purse]
        budget = self._shared(runs[row.run_id]) if row.period == "run" else self._in_force.budgets[row.budget]
        money, tokens = purse.money + purse.money_reserved, purse.tokens + purse.tokens_reserved
        fits = (budget.max_cost is None or money <= budget.max_cost) and (
            budget.max_tokens is None or tokens <= budget.max_tokens
        )
        require(10, fits, f"set aside beyond the budget: {row} of {purse}, of {budget}")

    def _shared(self, step: RunRow) -> Budget:
        """What the steps of a run may spend together."""
        whole = self._reader.whole(step.schedule_id, step.rev)
        return Budget("of the run", "all", None, whole.max_cost, whole.max_tokens)

    def _check_claim(self, run: RunRow) -> None:
        agent, name = self._reader.schedule(run.schedule_id)
        for budget in self._in_force.budgets.values():
            if _drawn(budget, self._reader.agent(run), f"{agent}/{name}"):
                aside = (run.id, budget.name) in self._reserved
                require(10, aside, f"started with nothing set aside in {budget.name}: {run}")

    def _check_purses(self, commit: Commit, budgets: Mapping[str, Budget]) -> None:
        """A purse changes by what runs spent, and by what people grant; a budget that is set anew counts anew."""
        was = _totals(self._purses.values())
        self._purses = {row[:3]: Purse(*row) for row in self._reader.query(_PURSE)}
        now = _totals(self._purses.values())
        spent = self._spent_now(commit)
        changed = {data["name"] for kind in ("policy.set", "policy.deleted") for _, data in commit.data(kind)}
        for budget in budgets.values():
            if budget.name in changed:
                continue
            due = [s for agent, schedule, *s in spent if _drawn(budget, agent, schedule)] + self._granted(
                commit, budget
            )
            expected = sum(money for money, _ in due), sum(tokens for _, tokens in due)
            found = tuple(now[budget.name, unit] - was[budget.name, unit] for unit in ("money", "tokens"))
            require(10, found == expected, f"{budget.name} changed by {found}, but {expected} was spent: {spent}")

    def _spent_now(self, commit: Commit) -> list[tuple[str, str, int, int]]:
        """(agent, schedule as "agent/name", money, tokens) of each run that has spent something more."""
        fresh: list[tuple[str, str, int, int]] = []
        rows = self._reader.numbered(_SPEND, commit.rows("spend")) if commit.rows("spend") else []
        for run_id, schedule_id, agent, money, tokens in rows:
            before = self._spent.get(run_id, (0, 0))
            schedule = "/".join(self._reader.schedule(schedule_id))
            fresh.append((agent, schedule, money - before[0], tokens - before[1]))
            self._spent[run_id] = money, tokens
        return fresh

    def _granted(self, commit: Commit, budget: Budget) -> list[list[int]]:
        """Whoever lets a schedule go on grants its budget the same amount again."""
        ids = [data["approval"] for _, data in commit.data("approval.approved")]
        asked = self._reader.numbered("SELECT kind, request FROM approvals", map(int, ids)) if ids else []
        over = [text for kind, text in asked if kind == "budget" and orjson.loads(text).get("budget") == budget.name]
        return [[-(budget.max_cost or 0), -(budget.max_tokens or 0)] for _ in over]


def _totals(purses: object) -> Counter[tuple[str, str]]:
    totals: Counter[tuple[str, str]] = Counter()
    for purse in purses:
        totals[purse.budget, "money"] += purse.money
        totals[purse.budget, "tokens"] += purse.tokens
    return totals


def _drawn(budget: Budget, agent: str, schedule: str) -> bool:
    """Whether a schedule draws on it."""
    if budget.scope == "all":
        return True
    if budget.scope == "agent":
        return bool(agent) and budget.of in (None, agent)
    return budget.of in (None, schedule)
