"""Several engines and people at once on PostgreSQL: gates hold, and nobody waits for somebody who waits for them.
Rows B5, S2, H2, B1."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from gate_records import START, at, check_ledger, lines, moment

from matins.errors import Conflict, InvalidInput
from matins.executors.job_context import JobContext
from matins.store.postgres.transaction import PostgresTransaction
from matins.testing import ManualClock, Sandbox

FOREVER_MS = 10**12
NAMES = [f"s{n}" for n in range(16)]


@pytest.fixture
def engines(postgres_url: str) -> Iterator[Callable[..., list[Sandbox]]]:
    """Two processes, as far as the database can tell; neither takes the other for dead."""
    opened: list[Sandbox] = []

    def open_two(**options: Any) -> list[Sandbox]:
        clock = ManualClock(START)
        opened.extend(Sandbox(postgres_url, clock=clock, lease_ms=FOREVER_MS, **options) for _ in range(2))
        return opened

    yield open_two
    for bench in opened:
        bench.close()


def at_once(*tasks: Callable[[], None]) -> None:
    """Each in its thread; what one of them raises is raised."""
    together = threading.Barrier(len(tasks))

    def begin(task: Callable[[], None]) -> None:
        together.wait()
        task()

    with ThreadPoolExecutor(len(tasks)) as threads:
        for done in [threads.submit(begin, task) for task in tasks]:
            done.result()


def turns(bench: Sandbox, count: int, step_ms: int = 0) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(count):
            bench.clock.advance(step_ms)
            bench.engine.turn()

    return turn


def test_b5_two_engines_never_promise_more_than_there_is(engines: Callable[..., list[Sandbox]]) -> None:
    """B5: what one has set aside, the other sees"""
    one, two = engines()
    seen: list[tuple[int, int]] = []

    def look(run: JobContext) -> None:
        with one._store.reading() as transaction:
            purse = transaction.budget_usage("day", "all", "2026-03-27")
        seen.append((purse.money + purse.money_reserved, purse.money_reserved))

    for bench in (one, two):
        bench.job("look")(look)
    one.budgets.set("day", period="day", max_cost="$1")
    for name in NAMES:
        one.add(name, when="* * * * *", job="look", max_cost="$0.30", overlap="allow")
    at_once(turns(one, 40, 15_000), turns(two, 40))
    assert max(promised for promised, _ in seen) <= 1_000_000
    assert max(reserved for _, reserved in seen) > 300_000, "several at once"
    one.settle()
    two.settle()
    with one._store.reading() as transaction:
        assert transaction.budget_usage("day", "all", "2026-03-27")[3:] == (0, 0, 0, 0)
    states = {run.state for name in NAMES for run in one.runs.list(schedule=name)}
    # One who is slow keeps cursors from the other while the clock goes on: such slots are missed.
    assert states - {"missed"} == {"succeeded", "over_budget"}


def governing(bench: Sandbox, count: int) -> Callable[[], None]:
    """A person who changes everything that can be changed; what does not fit the moment is refused."""
    dice = random.Random(count)

    def change() -> None:
        for _ in range(count):
            with suppress(Conflict, InvalidInput):
                dice.choice(changes)(dice.choice(NAMES))

    def answer(name: str) -> None:
        for approval in bench.approvals.list()[:3]:
            dice.choice([bench.approvals.approve, bench.approvals.deny])(approval.id)

    def cancel(name: str) -> None:
        for run in bench.runs.list(schedule=name, limit=3):
            bench.runs.cancel(run.id)

    changes: list[Callable[[str], Any]] = [
        bench.pause,
        bench.resume,
        bench.run,
        answer,
        cancel,
        lambda name: bench.edit(name, approval=dice.choice(["auto", "owner_approve"]), provider="anthropic"),
        lambda name: bench.throttles.set("anthropic", resets_at=moment("08:40")),
        lambda name: bench.throttles.delete("anthropic"),
        lambda name: bench.quiet_hours.set("quiet", windows=QUIET, mode=dice.choice(["skip", "defer"])),
        lambda name: bench.budgets.set("day", period="day", max_cost=f"${dice.randint(1, 900)}"),
        lambda name: bench.budgets.set(
            "own", period="day", max_cost="$1", scope=dice.choice(["schedule", "agent", "all"])
        ),
    ]
    return change


QUIET = [f"{hour:02}:{minute:02}-{hour:02}:{minute + 1:02}" for hour in (8, 9) for minute in range(1, 58, 4)]


def test_s2_engines_and_people_never_wait_for_one_another_for_ever(engines: Callable[..., list[Sandbox]]) -> None:
    """S2 H2: a deadlock would be an error of the store; and each run begins once"""
    one, two = engines(guard=lambda context: None)
    begun: Counter[tuple[int, int]] = Counter()
    for bench in (one, two):
        bench.job("buy")(lambda run: (begun.update([(run.id, run.attempt)]), run.spend("$0.01"))[1])
    one.quiet_hours.set("quiet", windows=QUIET, mode="defer")
    one.budgets.set("day", period="day", max_cost="$100")
    for name in NAMES:
        one.add(name, when="* * * * *", job="buy", quiet_hours="quiet", overlap="queue")
    people = [Sandbox(one._store.pool._url, clock=one.clock, lease_ms=FOREVER_MS) for _ in range(2)]  # type: ignore[attr-defined]
    at_once(turns(one, 150, 8_000), turns(two, 150), *(governing(person, 150) for person in people))
    for person in people:
        person.close()
    assert len(begun) > 20
    assert set(begun.values()) == {1}
    check_ledger(one)
    assert one.audit.verify().problems == []


def meeting_in(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Two transactions that have called this once wait a moment for one another: so each holds what the other wants,
    if they can come so far."""
    together = threading.Barrier(2)
    original = getattr(PostgresTransaction, method)
    met: set[int] = set()

    def meet(self: PostgresTransaction, *arguments: Any) -> Any:
        result = original(self, *arguments)
        if id(self) not in met:
            met.add(id(self))
            with suppress(threading.BrokenBarrierError):
                together.wait(0.5)
        return result

    monkeypatch.setattr(PostgresTransaction, method, meet)


def test_s2_verdicts_on_the_same_schedules_in_another_order(
    engines: Callable[..., list[Sandbox]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2 C6: one has checked runs of a and b, the other of b and a"""
    one, two = engines(guard=lambda context: None)
    for bench, names in ((one, ("a", "b")), (two, ("b", "a"))):
        bench.job("work")(lambda run: None)
        for name in names:
            with suppress(Conflict):
                one.add(name, when="0 12 * * *", job="work", overlap="allow")
            one.run(name)
            one.clock.advance(1)
        bench.engine.turn()
        assert [said.check.compiled.name for said in bench.checking.results] == list(names)
    meeting_in(monkeypatch, "change_states")
    at_once(turns(one, 1), turns(two, 1))
    for bench in (one, two):
        bench.settle()
    assert lines(one, "a") == lines(one, "b") == ["manual succeeded"] * 2


def test_s2_money_of_the_same_agents_in_another_order(
    engines: Callable[..., list[Sandbox]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2 B5: one has runs of x and y to settle, the other of y and x"""
    one, two = engines()
    one.budgets.set("each", period="day", max_cost="$5", scope="agent")
    for bench, agents in ((one, ("x", "y")), (two, ("y", "x"))):
        bench.job("buy")(lambda run: run.spend("$0.10"))
        for agent in agents:
            name = f"{agents[0]}-first"
            one.add(name, when="0 12 * * *", job="buy", agent=agent)
            one.run(name, agent=agent)
            one.clock.advance(1)
        bench.engine.turn()
        assert [ended.attempt.compiled.agent for ended in bench.executor._done] == list(agents)
    meeting_in(monkeypatch, "add_budget_usage")
    at_once(turns(one, 1), turns(two, 1))
    with one._store.reading() as transaction:
        spent = {purse.of: (purse.money, purse.money_reserved) for purse in transaction.budget_usages("2026-03-27")}
    assert spent == {"agent:x": (200_000, 0), "agent:y": (200_000, 0)}


def test_b1_a_run_that_both_would_wake_goes_on_once(engines: Callable[..., list[Sandbox]]) -> None:
    """B1 S3: at the end of quiet hours, for as many as there are"""
    one, two = engines()
    begun: Counter[int] = Counter()
    for bench in (one, two):
        bench.job("note")(lambda run: begun.update([run.id]))
    one.quiet_hours.set("quiet", windows="08:30-09:30", mode="defer")
    for name in NAMES:
        one.add(name, when="0 9 * * *", job="note", quiet_hours="quiet")
    one.run_until(at("09:29"))
    assert not begun
    one.clock.advance_to(at("09:30"))
    at_once(turns(one, 10), turns(two, 10))
    assert [lines(one, name) for name in NAMES] == [["09:00 succeeded"]] * len(NAMES)
    assert set(begun.values()) == {1}


def test_s2_a_throttle_that_both_report(engines: Callable[..., list[Sandbox]]) -> None:
    """B6 S2: the later end holds, whoever writes first"""
    one, two = engines()

    def report(bench: Sandbox, *minutes: int) -> Callable[[], None]:
        def throttle() -> None:
            for minute in minutes:
                bench.throttles.set("anthropic", resets_at=moment(f"09:{minute:02}"))

        return throttle

    at_once(report(one, 10, 50, 20, 30), report(two, 40, 15, 45, 5))
    assert [throttle.resets_at for throttle in one.throttles.list()] == [moment("09:50")]
