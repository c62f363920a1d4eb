"""The guard before every run, on every store, with a clock that the test moves. Rows C8, B1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, evidence, last, lines, told

from matins.executors.job_context import JobContext
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"
Open = Callable[..., Sandbox]


@pytest.fixture
def guarded(url: str, open_bench: Open) -> Callable[..., Sandbox]:
    return lambda guard, **options: open_bench(url, guard=guard, **options)


class Guard:
    """Blocks while it is told to; what it answers can be set."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def __call__(self, context: dict[str, Any]) -> Any:
        self.asked.append(context)
        return self.answer


@pytest.mark.parametrize("when", [HOURLY, "1h", "every day at 9am and 10am"], ids=["cron", "interval", "daily"])
def test_c8_true_blocks_the_fire_and_never_kills_the_schedule(guarded: Open, when: str) -> None:
    """C8"""
    guard = Guard()
    bench = guarded(guard)
    bench.add("s", when=when, job="work")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 blocked guard"]
    assert evidence(bench) == {"gate": "guard", "message": "the guard blocked the run"}
    assert [data["reason"] for data in told(bench, "run.blocked")] == ["guard"]
    assert (bench.get("s").state, iso(bench.get("s").next_run_at)) == ("active", at("10:00"))
    guard.answer = False
    bench.run_until(at("10:00"))
    assert lines(bench)[1:] == ["10:00 succeeded"]


def test_c8_what_it_is_told(guarded: Open) -> None:
    """C8"""
    guard = Guard(False)
    bench = guarded(guard)
    bench.add("s", when=HOURLY, job="work", agent="scout", payload=[1])
    bench.run_until(at("09:00"))
    (context,) = guard.asked
    assert (context["schedule"], context["agent"], context["payload"]) == ("s", "scout", [1])
    assert (context["run_id"], context["slot"]) == (last(bench).id, instant(at("09:00")))


@pytest.mark.parametrize("answer", [False, None, 0, ""])
def test_c8_anything_else_lets_it_pass(guarded: Open, answer: Any) -> None:
    """C8"""
    bench = guarded(Guard(answer))
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 succeeded"]
    (said,) = bench.runs.checks(last(bench).id)
    assert (said.gate, said.verdict) == ("guard", "pass")


def test_c8_a_text_says_why(guarded: Open) -> None:
    """C8"""
    bench = guarded(Guard("the build is red"))
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert evidence(bench)["message"] == "the build is red"
    assert bench.runs.checks(last(bench).id)[0].reason == "the build is red"


@pytest.mark.parametrize("text", ["a\0b", "caf\udce9", "x" * 10_000, "\ud83d\ude00"])
def test_a_text_that_no_store_can_hold_blocks_all_the_same(guarded: Open, text: str) -> None:
    """C8 B1: and stops nobody else"""
    bench = guarded(lambda context: text if context["schedule"] == "s" else None)
    bench.add("s", when=HOURLY, job="work")
    bench.add("t", when=HOURLY, job="work")
    for _ in range(8):
        bench.engine.run_once()
    bench.clock.advance_to(at("09:00"))
    for _ in range(8):
        bench.engine.run_once()
    assert lines(bench) == ["09:00 blocked guard"]
    assert lines(bench, "t") == ["09:00 succeeded"]
    assert len(evidence(bench)["message"]) <= 500


def test_c8_an_async_guard(guarded: Open) -> None:
    """C8"""

    async def guard(context: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return "not now"

    bench = guarded(guard)
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert evidence(bench)["message"] == "not now"


class Weird(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(1), asyncio.CancelledError(), Weird()])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_c8_a_guard_that_fails_guards(guarded: Open, error: BaseException, kind: str) -> None:
    """C8: nothing starts past it, the reason is told, and the schedule goes on"""

    def sync(context: dict[str, Any]) -> None:
        raise error

    async def asynchronous(context: dict[str, Any]) -> None:
        raise error

    bench = guarded(sync if kind == "sync" else asynchronous)
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 blocked guard", "10:00 blocked guard"]
    assert f"the guard failed: {type(error).__name__}" in evidence(bench)["message"]


def test_c8_who_wants_to_know_is_told(guarded: Open) -> None:
    """C8: asynchronously"""
    seen: list[tuple[str, str]] = []

    async def blocked(context: dict[str, Any], reason: str) -> None:
        await asyncio.sleep(0)
        seen.append((context["schedule"], reason))

    bench = guarded(Guard("closed"), on_blocked=blocked)
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("10:00"))
    assert seen == [("s", "closed")] * 2


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(1)])
def test_c8_that_callback_changes_nothing(guarded: Open, error: BaseException) -> None:
    """C8: whatever it does"""

    def blocked(context: dict[str, Any], reason: str) -> None:
        raise error

    bench = guarded(Guard(), on_blocked=blocked)
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 blocked guard", "10:00 blocked guard"]


def test_a_check_that_says_no_is_not_a_block(guarded: Open) -> None:
    """C8 C6: on_blocked is about the guard"""
    seen: list[str] = []
    bench = guarded(Guard(False), on_blocked=lambda context, reason: seen.append(reason))
    bench.add("s", when=HOURLY, job="work", pre_check="false")
    bench.run_until(at("09:00"))
    assert (lines(bench), seen) == (["09:00 skipped pre_check"], [])


def test_the_guard_is_asked_before_commands(guarded: Open, tmp_path: Any) -> None:
    """C8 C6: which are not run when it says no"""
    bench = guarded(Guard())
    bench.add("s", when=HOURLY, job="work", pre_check=f"touch {tmp_path}/ran")
    bench.run_until(at("09:00"))
    assert not (tmp_path / "ran").exists()
    assert [said.gate for said in bench.runs.checks(last(bench).id)] == ["guard"]


def test_what_is_started_by_hand_is_guarded_too(guarded: Open) -> None:
    """C8"""
    bench = guarded(Guard())
    bench.add("s", when=HOURLY, job="work")
    bench.run("s")
    bench.settle()
    assert lines(bench) == ["manual blocked guard"]


def test_a_one_shot_is_tried_again_and_then_missed(guarded: Open) -> None:
    """C8"""
    guard = Guard()
    bench = guarded(guard)
    bench.add("soon", when=at("09:00"), job="work")
    bench.add("never", when=at("09:00"), job="work", grace="20m")
    bench.run_until(at("09:30"))
    assert (lines(bench, "soon"), lines(bench, "never")) == (["09:00 guard"], ["09:00 missed guard"])
    guard.answer = False
    bench.run_until(at("10:00"))
    assert lines(bench, "soon") == ["09:00 succeeded"]


def test_a_run_that_waits_for_its_turn_holds_no_place_while_it_is_guarded(guarded: Open) -> None:
    """C8 V3"""
    bench = guarded(lambda context: context["schedule"] == "s")
    bench.limits.set("global", size=1)
    bench.add("s", when=HOURLY, job="work")
    bench.add("t", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert (lines(bench), lines(bench, "t")) == (["09:00 blocked guard"], ["09:00 succeeded"])


def test_the_process_without_a_guard_has_none(url: str, open_bench: Open) -> None:
    """C8: it is the library's own, not the store's"""
    bench = open_bench(url)
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert (lines(bench), bench.runs.checks(last(bench).id)) == (["09:00 succeeded"], [])


def test_v7_what_is_told_is_a_copy(guarded: Open) -> None:
    """V7 C8: what a guard or a job does to a payload, no other run sees"""
    seen: list[Any] = []

    def guard(context: dict[str, Any]) -> None:
        seen.append(("guard", context["payload"]["n"]))
        context["payload"]["n"] += 1
        context.clear()

    bench = guarded(guard)

    @bench.job("count")
    def count(run: JobContext) -> None:
        run.payload["n"] += 10
        seen.append(("job", run.payload["n"]))

    bench.add("s", when=HOURLY, job="count", payload={"n": 0}, before_run="grep -q '\"n\":0'")
    bench.run_until(at("10:00"))
    assert seen == [("guard", 0), ("job", 10)] * 2
    assert bench.get("s").settings["payload"] == {"n": 0}
