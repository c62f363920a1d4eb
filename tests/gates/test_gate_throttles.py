"""Throttles of providers, on every store, with a clock that the test moves. Rows B6, C16, C10."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from gate_records import START, at, evidence, last, lines, moment, times, told

from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, RateLimited
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"
CLAUDE = {"provider": "anthropic"}


class Provider:
    """A job's provider: it refuses until a time."""

    def __init__(self, bench: Sandbox, until: str, **limit: Any) -> None:
        self.calls: list[str] = []
        self.limit = limit

        @bench.job("call")
        def call(run: JobContext) -> None:
            self.calls.append(str(iso(bench.clock.now_ms()))[11:19].removesuffix(":00"))
            if bench.clock.now_ms() < instant(at(until)):
                raise RateLimited("anthropic", **self.limit)


def test_b6_by_hand_its_schedules_wait_and_go_on_by_themselves(bench: Sandbox) -> None:
    """B6 C16: those of that provider and no others"""
    bench.add("claude", when=HOURLY, job="work", **CLAUDE)
    bench.add("gemini", when=HOURLY, job="work", provider="google")
    bench.add("plain", when=HOURLY, job="work")
    bench.throttles.set("anthropic", resets_at=moment("09:30"), reason="maintenance")
    bench.run_until(at("09:29:59"))
    assert lines(bench, "claude") == ["09:00 throttled"]
    assert evidence(bench, "claude") == {"provider": "anthropic", "until": instant(at("09:30"))}
    assert lines(bench, "gemini") == lines(bench, "plain") == ["09:00 succeeded"]
    bench.run_until(at("09:30"))
    assert lines(bench, "claude") == ["09:00 succeeded"]
    assert iso(last(bench, "claude").started_at) == at("09:30")
    assert bench.throttles.list() == []
    assert (told(bench, "throttle.ended"), times(bench, "throttle.ended")) == (
        [{"provider": "anthropic"}],
        [at("09:30")],
    )


def test_c16_what_is_stored_and_shown(bench: Sandbox) -> None:
    """C16: resetsAt, activatedAt, what it affects, who and why"""
    ada = bench.acting_as(Principal("operator", "ada"))
    ada.throttles.set("anthropic", resets_at=moment("09:30"), affects=["scout"], reason="maintenance")
    (throttle,) = bench.throttles.list()
    assert (throttle.provider, iso(throttle.resets_at), iso(throttle.activated_at)) == ("anthropic", at("09:30"), START)
    assert (throttle.affects, throttle.reason, throttle.by) == (["scout"], "maintenance", "ada")
    (event,) = told(bench, "throttle.set")
    assert (event["provider"], event["by"]) == ("anthropic", "ada")


def test_c16_the_agents_that_it_affects(bench: Sandbox) -> None:
    """C16"""
    for agent in ("scout", "herald"):
        bench.add("s", when=HOURLY, job="work", agent=agent, **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("09:30"), affects=["scout"])
    bench.run_until(at("09:10"))
    assert (lines(bench, "scout/s"), lines(bench, "herald/s")) == (["09:00 throttled"], ["09:00 succeeded"])


def test_b6_the_provider_says_when(bench: Sandbox) -> None:
    """B6: the run waits, and all of that provider with it; its attempt does not count"""
    provider = Provider(bench, "09:40", resets_at=moment("09:40"), reason="429")
    bench.add("s", when=HOURLY, job="call", **CLAUDE)
    bench.add("other", when="20 9 * * *", job="call", **CLAUDE)
    bench.run_until(at("09:30"))
    assert (lines(bench), lines(bench, "other")) == (["09:00 throttled"], ["09:20 throttled"])
    assert (last(bench).attempt, provider.calls) == (0, ["09:00"])
    assert evidence(bench) == {"provider": "anthropic", "until": instant(at("09:40")), "why": "429"}
    (throttle,) = bench.throttles.list()
    assert (throttle.by, throttle.reason, throttle.affects) == (f"run {last(bench).id}", "429", [])
    bench.run_until(at("09:40"))
    assert (lines(bench), lines(bench, "other")) == (["09:00 succeeded"], ["09:20 succeeded"])
    assert (last(bench).attempt, bench.get("s").failures) == (1, 0)
    assert provider.calls == ["09:00", "09:40", "09:40"]


def test_b6_a_provider_that_does_not_say_when_is_tried_after_a_minute(bench: Sandbox) -> None:
    """B6: again and again, and never counted as a failure"""
    provider = Provider(bench, "09:03")
    bench.add("s", when=HOURLY, job="call", pause_after_failures=1)
    bench.run_until(at("09:10"))
    assert lines(bench) == ["09:00 succeeded"]
    assert provider.calls == ["09:00", "09:01", "09:03"]


def test_b6_a_reset_that_is_past_does_not_make_it_spin(bench: Sandbox) -> None:
    """B6"""
    provider = Provider(bench, "09:02", resets_at=moment("07:00"))
    bench.add("s", when=HOURLY, job="call", **CLAUDE)
    bench.run_until(at("09:10"))
    assert provider.calls == ["09:00", "09:01", "09:02"]


def test_b6_a_short_wait_is_kept_to(bench: Sandbox) -> None:
    """B6: 25 seconds are 25 seconds. A provider that says "one second" again and again is asked less and less often"""
    provider = Provider(bench, "09:00:25", resets_at=moment("09:00:25"))
    bench.add("s", when=HOURLY, job="call", **CLAUDE)
    bench.run_until(at("09:10"))
    assert (lines(bench), provider.calls) == (["09:00 succeeded"], ["09:00", "09:00:25"])
    hasty: list[int] = []

    @bench.job("hasty")
    def ask(run: JobContext) -> None:
        hasty.append((bench.clock.now_ms() - instant(at("10:00"))) // 1_000)
        if bench.clock.now_ms() < instant(at("10:10")):
            raise RateLimited("google", resets_at=to_datetime(bench.clock.now_ms() + 1_000))

    bench.add("t", when="0 10 * * *", job="hasty", provider="google")
    bench.run_until(at("10:30"))
    assert hasty == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543, 603]


def test_b6_later_slots_are_the_throttles_and_not_the_overlaps(bench: Sandbox) -> None:
    """B6 B1: the slots of a throttled schedule are deferred by the throttle, for every policy of overlap"""
    bench.throttles.set("anthropic", resets_at=moment("09:45"))
    for overlap in ("skip", "allow"):
        bench.add(overlap, when="*/10 9 * * *", job="work", overlap=overlap, **CLAUDE)
    bench.run_until(at("09:30"))
    for overlap in ("skip", "allow"):
        assert lines(bench, overlap) == ["09:00 throttled", *(f"09:{n} skipped coalesced" for n in (10, 20, 30))]
        first, why = bench.runs.list(schedule=overlap)[-1].id, bench.why(overlap)
        assert why.summary.endswith(
            'Skipped: provider "anthropic" was throttled until 09:45 UTC; '
            f"run {first} of this schedule was still waiting and covers this slot."
        )
    bench.run_until(at("09:59"))
    assert lines(bench, "skip")[-2:] == ["09:40 skipped coalesced", "09:50 succeeded"]
    assert lines(bench, "skip")[0] == "09:00 succeeded"


def test_b6_retries_are_for_failures(bench: Sandbox) -> None:
    """B6 B8: a run that was refused has all of them left"""
    attempts: list[int] = []

    @bench.job("act")
    def act(run: JobContext) -> None:
        attempts.append(run.attempt)
        if len(attempts) in (1, 3):
            raise RateLimited("anthropic")
        raise ValueError

    bench.add("s", when="0 9 * * *", job="act", retries=1, retry_delay="5m")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 failed"]
    assert attempts == [1, 1, 2, 2]


@pytest.mark.parametrize(
    "limit",
    [
        {"resets_at": datetime(2026, 3, 27, 9, 1)},
        {"resets_at": "2026-03-27T09:01:00Z"},
        {"reason": "a\0b"},
        {"reason": "caf\udce9"},
        {"reason": None},
        {"reason": "x" * 100_000},
    ],
    ids=["naive", "text", "nul", "half a character", "no reason", "long"],
)
def test_b6_whatever_a_job_raises_the_engine_goes_on(bench: Sandbox, limit: dict[str, Any]) -> None:
    """B6 H2: no store can hold this, or nobody knows when it is"""
    provider = Provider(bench, "09:01", **limit)
    bench.add("s", when=HOURLY, job="call", **CLAUDE)
    bench.add("t", when="5 9 * * *", job="work")
    bench.run_until(at("09:10"))
    assert (lines(bench), lines(bench, "t")) == (["09:00 succeeded"], ["09:05 succeeded"])
    assert provider.calls == ["09:00", "09:01"]


@pytest.mark.parametrize("name", [None, "", "a\0b", 5, "caf\udce9", "x" * 100_000], ids=repr)
def test_b6_a_provider_without_a_proper_name(bench: Sandbox, name: Any) -> None:
    """B6 H2"""
    calls: list[int] = []

    @bench.job("act")
    def act(run: JobContext) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RateLimited(name)

    bench.add("s", when=HOURLY, job="act")
    bench.run_until(at("09:10"))
    assert lines(bench) == ["09:00 succeeded"]


# -- time, restarts and people


def test_c16_a_throttle_holds_over_a_restart(restart: Callable[..., Sandbox]) -> None:
    """C16 B6: and is over by itself, also when nobody was there"""
    first = restart()
    first.add("s", when=HOURLY, job="work", **CLAUDE)
    first.throttles.set("anthropic", resets_at=moment("10:30"))
    second = restart()
    second.run_until(at("09:30"))
    assert lines(second) == ["09:00 throttled"]
    second.clock.advance_to(at("10:40"))
    third = restart()
    third.settle()
    assert lines(third)[0] == "09:00 succeeded"
    assert third.throttles.list() == []


def test_people_can_lift_it(bench: Sandbox) -> None:
    """B6 C16: what waits goes on at once"""
    for agent, provider in (("a", "anthropic"), ("b", "google")):
        bench.add("s", when=HOURLY, job="work", agent=agent, provider=provider)
        bench.throttles.set(provider, resets_at=moment("12:00"))
    bench.run_until(at("09:30"))
    assert bench.throttles.delete("anthropic") is True
    bench.settle()
    assert (lines(bench, "a/s"), lines(bench, "b/s")) == (["09:00 succeeded"], ["09:00 throttled"])
    assert told(bench, "throttle.deleted") == [{"provider": "anthropic", "by": "owner", "who": "owner"}]
    assert bench.throttles.delete("anthropic") is False
    bench.run_until(at("12:00"))
    assert lines(bench, "b/s")[0] == "09:00 succeeded"


def test_of_two_the_later_end_holds(bench: Sandbox) -> None:
    """C16"""
    bench.add("s", when="0 9 * * *", job="work", **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("11:00"))
    shown = bench.throttles.set("anthropic", resets_at=moment("10:00"))
    assert iso(shown.resets_at) == at("11:00"), "what holds is shown"
    bench.run_until(at("10:59"))
    assert lines(bench) == ["09:00 throttled"]
    bench.throttles.set("anthropic", resets_at=moment("12:00"))
    bench.run_until(at("11:59"))
    assert lines(bench) == ["09:00 throttled"]
    assert evidence(bench)["until"] == instant(at("12:00"))
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded"]


@pytest.mark.parametrize("order", [1, -1], ids=["wider first", "narrower first"])
def test_of_two_neither_lets_go_what_the_other_holds(bench: Sandbox, order: int) -> None:
    """C16: one for all until 10:00, one for scout until 12:00"""
    for agent in ("scout", "herald"):
        bench.add("s", when="0 9 * * *", job="work", agent=agent, **CLAUDE)
    both: list[dict[str, Any]] = [
        {"resets_at": moment("10:00")},
        {"resets_at": moment("12:00"), "affects": ["scout"]},
    ]
    for words in both[::order]:
        bench.throttles.set("anthropic", **words)
    bench.run_until(at("09:59"))
    assert (lines(bench, "scout/s"), lines(bench, "herald/s")) == (["09:00 throttled"], ["09:00 throttled"])
    bench.run_until(at("12:00"))
    assert (lines(bench, "scout/s"), lines(bench, "herald/s")) == (["09:00 succeeded"], ["09:00 succeeded"])


def test_a_throttle_that_is_over_is_not_the_later_one(bench: Sandbox) -> None:
    """C16: what it affected counts no more"""
    bench.add("s", when="30 10 * * *", job="work", agent="herald", **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("10:00"))
    bench.clock.advance_to(at("10:00"))
    bench.throttles.set("anthropic", resets_at=moment("11:00"), affects=["scout"])
    bench.run_until(at("10:30"))
    assert lines(bench) == ["10:30 succeeded"]


@pytest.mark.parametrize("when", [HOURLY, "1h"], ids=["cron", "interval"])
def test_a_run_that_is_under_way_is_left_alone(bench: Sandbox, when: str) -> None:
    """C16: a throttle that begins meanwhile is for the next"""

    @bench.job("act")
    def act(run: JobContext) -> None:
        if bench.clock.now_ms() < instant(at("10:00")):
            bench.throttles.set("anthropic", resets_at=moment("10:30"))

    bench.add("s", when=when, job="act", **CLAUDE)
    bench.run_until(at("10:29"))
    assert lines(bench) == ["09:00 succeeded", "10:00 throttled"]
    bench.run_until(at("10:30"))
    assert lines(bench)[:2] == ["09:00 succeeded", "10:00 succeeded"]


def test_a_retry_waits_too(bench: Sandbox) -> None:
    """B6 B8"""

    @bench.job("act")
    def act(run: JobContext) -> None:
        if run.attempt == 1:
            bench.throttles.set("anthropic", resets_at=moment("11:00"))
            raise ValueError

    bench.add("s", when="0 9 * * *", job="act", retries=1, retry_delay="1m", **CLAUDE)
    bench.run_until(at("10:59"))
    assert lines(bench) == ["09:00 throttled"]
    bench.run_until(at("11:00"))
    assert (lines(bench), last(bench).attempt) == (["09:00 succeeded"], 2)


def test_a_one_shot_waits_beyond_its_grace(bench: Sandbox) -> None:
    """B6: it came in time"""
    bench.add("s", when=at("09:00"), job="work", grace="5m", **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("18:00"))
    bench.run_until(at("18:00"))
    assert lines(bench) == ["09:00 succeeded"]


def test_what_is_started_by_hand_waits_too(bench: Sandbox) -> None:
    """B6"""
    bench.add("s", when="0 12 * * *", job="work", **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("09:00"))
    bench.run("s")
    bench.settle()
    assert lines(bench) == ["manual throttled"]
    bench.run_until(at("09:00"))
    assert lines(bench) == ["manual succeeded"]


@pytest.mark.parametrize(
    ("overlap", "meanwhile", "after"),
    [
        ("skip", ["10:00 skipped coalesced"], ["10:00 skipped coalesced"]),
        ("queue", ["10:00 queued waiting_for"], ["10:00 succeeded"]),
        ("allow", ["10:00 skipped coalesced"], ["10:00 skipped coalesced"]),
    ],
)
def test_what_comes_due_while_one_waits(bench: Sandbox, overlap: str, meanwhile: list[str], after: list[str]) -> None:
    """B6 B8 C9: as its overlap says"""
    bench.add("s", when="0 9,10 * * *", job="work", overlap=overlap, **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("10:30"))
    bench.run_until(at("10:29"))
    assert lines(bench) == ["09:00 throttled", *meanwhile]
    bench.run_until(at("10:30"))
    assert lines(bench) == ["09:00 succeeded", *after]


def test_the_newest_of_those_that_cancel_others_runs(bench: Sandbox) -> None:
    """B6 B8"""
    bench.add("s", when="0 9,10 * * *", job="work", overlap="cancel_other", **CLAUDE)
    bench.throttles.set("anthropic", resets_at=moment("10:30"))
    bench.run_until(at("10:29"))
    assert lines(bench) == ["09:00 cancelled cancelled_by_newer", "10:00 throttled"]
    bench.run_until(at("10:30"))
    assert lines(bench) == ["09:00 cancelled cancelled_by_newer", "10:00 succeeded"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"resets_at": moment("08:00")}, "resets_at"),
        ({"resets_at": moment("09:00"), "affects": [""]}, "affects"),
        ({"resets_at": moment("09:00"), "reason": "a\0b"}, "reason"),
        ({"resets_at": moment("09:00"), "provider": ""}, "provider"),
    ],
)
def test_a_throttle_that_makes_no_sense_is_refused(bench: Sandbox, words: dict[str, Any], field: str) -> None:
    """C16"""
    with pytest.raises(InvalidInput) as caught:
        bench.throttles.set(**{"provider": "anthropic", **words})
    assert caught.value.field == field
    assert (bench.throttles.list(), told(bench, "throttle.set")) == ([], [])


def test_b6_without_a_time_the_wait_doubles_up_to_an_hour(bench: Sandbox) -> None:
    """B6: a minute at first, each time that the provider refuses the run again; another run begins anew"""
    provider = Provider(bench, "15:00")
    bench.add("s", when="0 9 * * *", job="call", **CLAUDE)
    bench.run_until(at("14:00"))
    assert provider.calls == ["09:00", "09:01", "09:03", "09:07", "09:15", "09:31", "10:03", "11:03", "12:03", "13:03"]
    assert lines(bench, "s") == ["09:00 throttled"]
    bench.run_until(at("15:03"))
    assert lines(bench, "s") == ["09:00 succeeded"]
    assert last(bench, "s").attempt == 1


def test_b6_a_provider_in_trouble_defers_three_times_and_then_the_run_fails(bench: Sandbox) -> None:
    """B6: 5xx and overload are not the agent's failure at first"""
    provider = Provider(bench, "15:00", outage=True, reason="HTTP 529: overloaded")
    bench.add("s", when="0 9 * * *", job="call", **CLAUDE)
    bench.run_until(at("09:07"))
    assert provider.calls == ["09:00", "09:01", "09:03", "09:07"]
    assert lines(bench, "s") == ["09:00 failed"]
    assert "HTTP 529: overloaded" in last(bench, "s").outcome["error"]
