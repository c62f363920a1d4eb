"""Use cases on what governs schedules: quiet hours, budgets, prices, hooks, rules for agents, throttles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from matins.config.defining import check_scope, hook_data
from matins.engine import budgets, quiet_hours
from matins.engine.agent_rules import AgentRules, define_rules, rules_to_dict
from matins.engine.agents import HIDDEN
from matins.engine.budgets import Budget, define_budget
from matins.engine.given import check_name, check_texts
from matins.engine.money import check_rate
from matins.engine.policies import Policies
from matins.engine.prices import Price, define_price
from matins.engine.quiet_hours import QuietHours, define_quiet_hours
from matins.engine.spending import draws
from matins.errors import Conflict, InvalidInput
from matins.model.policy import Purse, Throttle
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.model.schedule import Command
from matins.ports import Transaction
from matins.runtime.rows import schedule_of
from matins.service.base import UseCases
from matins.service.definitions import check_note
from matins.service.rights import needs

_WAKES = {"quiet_hours": "quiet_hours", "budget": "over_budget"}
"""What runs wait for that a change of this may end."""
_USUAL_LIMIT = "15s"
_MONTH_MS = 32 * 86_400_000
_PAGE = 1_000


class Limit(NamedTuple):
    scope: str
    size: int
    taken: int


class Rate(NamedTuple):
    currency: str
    usd: float
    """What one unit of it is worth."""


class Hook(NamedTuple):
    event: str
    command: Command
    limit_ms: int


class Governing(UseCases):
    @needs("govern")
    def limit(self, principal: Principal, scope: str, size: int) -> None:
        """At most `size` runs of a scope at once, over all processes: "global", or "agent:NAME"."""
        check_scope(scope, size)
        self._put(principal, "limit", scope, size)

    @needs("read")
    def limits(self, principal: Principal) -> list[Limit]:
        """How many runs of a scope there may be at once, and how many there are."""
        with self._store.reading() as transaction:
            return [Limit(*row) for row in transaction.scopes()]

    @needs("govern")
    def drop_limit(self, principal: Principal, scope: str) -> bool:
        """As many at once as there is room for, once those that it had let in have ended. False when there is none."""
        return self._drop(principal, "limit", scope)

    # -- quiet hours

    @needs("govern")
    def set_quiet_hours(self, principal: Principal, name: str, **words: Any) -> QuietHours:
        """When schedules that name this policy keep quiet: windows, timezone, and mode, skip or defer."""
        policy = define_quiet_hours(name, words)
        self._put(principal, "quiet_hours", name, quiet_hours.to_dict(policy), words)
        return policy

    @needs("govern")
    def drop_quiet_hours(self, principal: Principal, name: str) -> bool:
        """Refused while a schedule names them: it would run at night from then on."""
        return self._drop(principal, "quiet_hours", name)

    @needs("read")
    def quiet_hours(self, principal: Principal) -> list[QuietHours]:
        return list(self._policies().quiet_hours.values())

    # -- money

    @needs("govern")
    def set_budget(self, principal: Principal, name: str, **words: Any) -> Budget:
        """So much money or so many tokens in a day or a month: for all, an agent or a schedule."""
        budget = define_budget(name, words, self._policies().rates, self._clock.local_zone())
        self._put(principal, "budget", name, budgets.to_dict(budget), words)
        return budget

    @needs("govern")
    def drop_budget(self, principal: Principal, name: str) -> bool:
        return self._drop(principal, "budget", name)

    @needs("read")
    def budgets(self, principal: Principal) -> list[tuple[Budget, list[Purse]]]:
        """Each budget with its purses of the current period: what is spent, and what is promised to runs."""
        now = self._clock.now_ms()
        found: list[tuple[Budget, list[Purse]]] = []
        with self._store.reading() as transaction:
            for budget in self._catalog.policies(transaction).budgets:
                period = budgets.period_of(budget, now)
                purses = [p for p in transaction.purses(period) if p.budget == budget.name and p.period == period]
                found.append((budget, purses))
        return found

    @needs("govern")
    def set_price(self, principal: Principal, model: str, **words: Any) -> Price:
        """What a million tokens of a model cost: input, output, cached."""
        price = define_price(model, words, self._policies().rates)
        data = {"model": price.model, "input": price.input, "output": price.output, "cached": price.cached}
        self._put(principal, "price", model, data, words)
        return price

    @needs("read")
    def prices(self, principal: Principal) -> list[Price]:
        return sorted(self._policies().prices.values(), key=lambda price: price.model)

    @needs("govern")
    def drop_price(self, principal: Principal, model: str) -> bool:
        """The list price counts again, where there is one. False when nobody has set another."""
        return self._drop(principal, "price", model)

    @needs("govern")
    def set_rate(self, principal: Principal, currency: str, usd: float) -> None:
        """What one unit of a currency is worth in dollars."""
        self._put(principal, "rate", currency, check_rate(currency, usd), {"value": usd})

    @needs("read")
    def rates(self, principal: Principal) -> list[Rate]:
        return [Rate(currency, usd) for currency, usd in sorted(self._policies().rates.items())]

    @needs("govern")
    def drop_rate(self, principal: Principal, currency: str) -> bool:
        """What is in that currency stays as it was reckoned. False when it has no rate."""
        return self._drop(principal, "rate", currency)

    # -- hooks and rules

    @needs("govern")
    def set_hook(
        self, principal: Principal, event: str, command: str | Sequence[str], limit: str = _USUAL_LIMIT
    ) -> None:
        """A command for every schedule: before:schedule:trigger may cancel a run, after:run learns how it ended."""
        words = {"command": command, "limit": None if limit == _USUAL_LIMIT else limit}
        self._put(principal, "hook", event, hook_data(event, command, limit, self._workdir), words)

    @needs("read")
    def hooks(self, principal: Principal) -> list[Hook]:
        found = self._policies().hooks.items()
        return [Hook(event, command, limit_ms) for event, (command, limit_ms) in sorted(found)]

    @needs("govern")
    def drop_hook(self, principal: Principal, event: str) -> bool:
        return self._drop(principal, "hook", event)

    @needs("govern")
    def set_agent_rules(self, principal: Principal, agent: str = "*", **words: Any) -> AgentRules:
        """What an agent (or, as "*", every agent) may schedule: quota, depth, floor, expiry, auto_one_shots."""
        check_name("agent", agent)
        rules = define_rules(words)
        self._put(principal, "agents", agent, rules_to_dict(rules), words)
        return rules

    @needs("read")
    def agent_rules(self, principal: Principal, agent: str = "*") -> AgentRules:
        return self._policies().rules_for(agent)

    # -- throttles

    @needs("operate")
    def throttle(
        self,
        principal: Principal,
        provider: str,
        resets_at: int,
        affects: Sequence[str] = (),
        reason: str = "set by hand",
    ) -> Throttle:
        """A provider that serves nobody until an instant: its schedules wait, and go on by themselves."""
        check_name("provider", provider)
        check_note(reason, "reason")
        agents = check_texts("affects", affects, "a list of agents") if affects else ()
        now = self._clock.now_ms()
        if type(resets_at) is not int or resets_at <= now:
            raise InvalidInput('"resets_at" must be an instant to come', value=resets_at, field="resets_at")
        throttle = Throttle(provider, resets_at, now, agents, reason[:500], principal.name)
        with self._store.transaction(now) as transaction:
            throttle = transaction.put_throttle(throttle)
            data = {"provider": provider, "resets_at": resets_at, "reason": reason[:500], "by": principal.name}
            transaction.events.append(NewEvent(now, "throttle.activated", None, None, data))
        self._changed()
        return throttle

    @needs("read")
    def throttles(self, principal: Principal) -> list[Throttle]:
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            return [throttle for throttle in transaction.throttles() if throttle.resets_at > now]

    @needs("operate")
    def lift_throttle(self, principal: Principal, provider: str) -> bool:
        """It is over: what waits for it goes on now. False when there is none."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            if any(throttle.provider == provider for throttle in transaction.throttles()):
                wake(transaction, "throttled", now)
            lifted = transaction.drop_throttle(provider)
            if lifted:
                data = {"provider": provider, "by": principal.name}
                transaction.events.append(NewEvent(now, "throttle.lifted", None, None, data))
        self._changed()
        return lifted

    # -- how they are kept

    def _policies(self) -> Policies:
        with self._store.reading() as transaction:
            return self._catalog.policies(transaction)

    def _put(
        self, principal: Principal, kind: str, name: str, data: Any, words: Mapping[str, Any] | None = None,
        *, only: bool = True,
    ) -> None:  # fmt: skip
        """What a file defines may be changed there, in these words: `only` these, or beside the others that it has.
        `data`: or what makes it of what is there by then."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            self._wake_for(transaction, kind, now)
            transaction.lock_policies()
            self._refuse_of_file(transaction, kind, name)
            if callable(data):
                data = data(self._catalog.policies(transaction))
            if kind == "agent" and data.get("max_concurrent") != self._limits(transaction, name):
                self._refuse_of_file(transaction, "limit", scope_of(name))
            self._set_thing(transaction, principal, kind, name, data, now)
        self._changed()

    def _drop(self, principal: Principal, kind: str, name: str) -> bool:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            self._wake_for(transaction, kind, now)
            _refuse_used(transaction, kind, name)
            self._refuse_of_file(transaction, kind, name)
            dropped = self._drop_thing(transaction, principal, kind, name, now)
        self._changed()
        return dropped

    def _wake_for(self, transaction: Transaction, kind: str, now: int) -> None:
        if kind in _WAKES:
            wake(transaction, _WAKES[kind], now)

    def _set_thing(
        self, transaction: Transaction, principal: Principal, kind: str, name: str, data: Any, now: int
    ) -> None:
        if kind == "limit":
            resize(transaction, principal, name, data, now)
            return
        if kind == "agent" and (size := data.get("max_concurrent")) != self._limits(transaction, name):
            resize(transaction, principal, scope_of(name), size or 0, now)
        before = self._catalog.policies(transaction).budgets if kind == "budget" else ()
        transaction.put_policy(kind, name, orjson.dumps(data).decode(), now, principal.name)
        told = {"kind": kind, "name": name, "by": principal.name, "definition": without_secrets(kind, data)}
        transaction.events.append(NewEvent(now, "policy.set", None, None, told))
        if kind == "budget":
            budget = budgets.from_dict(data)
            if budget not in [replace(b, money=budget.money, tokens=budget.tokens) for b in before]:
                count_anew(transaction, budget, now)  # what is promised and granted under other amounts stays so

    def _limits(self, transaction: Transaction, agent: str) -> int | None:
        """How many of its runs the agent itself lets there be at once."""
        known = self._catalog.policies(transaction).agents.get(agent)
        return None if known is None else known.max_concurrent

    def _drop_thing(self, transaction: Transaction, principal: Principal, kind: str, name: str, now: int) -> bool:
        if kind == "limit":
            limited = any(known == name and size for known, size, _ in transaction.scopes())
            if limited:
                resize(transaction, principal, name, 0, now)
            return limited
        dropped = transaction.drop_policy(kind, name)
        if dropped:
            told = {"kind": kind, "name": name, "by": principal.name}
            transaction.events.append(NewEvent(now, "policy.dropped", None, None, told))
        if kind == "budget":
            transaction.drop_purses(name)
        return dropped


def scope_of(agent: str) -> str:
    return f"agent:{agent}"


def _refuse_used(transaction: Transaction, kind: str, name: str) -> None:
    if kind != "quiet_hours":
        return
    users = [s.name for s in all_schedules(transaction) if s.definition.quiet_hours == name]
    if users:
        raise Conflict(
            f'Quiet hours "{name}" are used by {", ".join(users[:5])}', value=name, hint="edit those schedules first"
        )


def resize(transaction: Transaction, principal: Principal, scope: str, size: int, now: int) -> None:
    transaction.resize_scope(scope, size)
    data = {"scope": scope, "size": size, "by": principal.name}
    transaction.events.append(NewEvent(now, "limit.set", None, None, data))


def wake(transaction: Transaction, reason: str, now: int) -> None:
    """What waits for this is judged anew. Before anything else, since cursors and runs are locked in this order."""
    rows = transaction.parked_for(reason)
    transaction.due_rows({row.schedule_id for row in rows})
    for row in rows:
        transaction.wake_parked(row.id, reason, now)


def origin(url: str) -> str:
    """Without the path, which may hold a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def without_secrets(kind: str, data: Any) -> Any:
    """Events are read by many: of an agent's environment they tell the names, and references but no values, and of an
    address its host."""
    if kind == "setting" and isinstance(data, str):
        return origin(data)
    if kind != "agent" or not data.get("environment"):
        return data
    shown = [(name, text if text.startswith(("env:", "file:")) else HIDDEN) for name, text in data["environment"]]
    return {**data, "environment": shown}


def all_schedules(transaction: Transaction) -> list[Any]:
    found: list[Any] = []
    after = 0
    while page := transaction.schedules(after, None, _PAGE):
        found += [schedule_of(row) for row in page]
        after = page[-1][0]
    return found


def count_anew(transaction: Transaction, budget: Budget, now: int) -> None:
    """What was spent in this period before the budget was made or changed counts too."""
    transaction.drop_purses(budget.name)
    begun = _period_start(budget, now)
    for schedule_id, agent, money, tokens in transaction.spend_since(begun):
        row = transaction.schedule(schedule_id)
        for draw in draws([budget], schedule_id, agent, row[1] if row else "", now):
            transaction.fill_purse(Purse(budget.name, draw.whose, draw.period, money, tokens, 0, 0))


def _period_start(budget: Budget, now: int) -> int:
    """The first instant of the period that it is now, found by halving."""
    period, low, high = budgets.period_of(budget, now), now - _MONTH_MS, now
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if budgets.period_of(budget, middle) == period else (middle, high)
    return high
