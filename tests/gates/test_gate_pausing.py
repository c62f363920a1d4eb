"""Pause and resume, on every store, with a clock that the test moves. Rows C10, C16, B8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from gate_records import START, at, last, lines, moment, times, told

from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.runtime.attempt import Attempt
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"


def test_c10_who_why_and_until_when(bench: Sandbox) -> None:
    """C10"""
    bench.add("s", when=HOURLY, job="work")
    ada = bench.acting_as(Principal("operator", "ada"))
    shown = ada.pause("s", note="the database moves", until=moment("11:30"))
    assert (shown.state, shown.paused_by, shown.note) == ("paused", "ada", "the database moves")
    assert (iso(shown.paused_at), iso(shown.paused_until)) == (START, at("11:30"))
    assert shown.due_at is None, "nextRun is null while paused"
    assert told(bench, "schedule.paused") == [
        {"by": "ada", "who": "person:ada", "note": "the database moves", "until": instant(at("11:30"))}
    ]
    ada.resume("s")
    shown = bench.get("s")
    assert (shown.state, shown.paused_by, shown.paused_until, shown.note) == ("active", None, None, None)
    assert told(bench, "schedule.resumed") == [{"by": "ada", "who": "person:ada"}]


@pytest.mark.parametrize(("when", "following"), [(HOURLY, "12:00"), ("50m", "12:20"), ("every day at 13:00", "13:00")])
def test_c10_until_ends_by_itself(bench: Sandbox, when: str, following: str) -> None:
    """C10: from then, now + interval or the next occurrence"""
    bench.add("s", when=when, job="work")
    bench.pause("s", until=moment("11:30"))
    bench.run_until(at("11:29:59"))
    assert bench.get("s").state == "paused"
    bench.run_until(at("11:30"))
    shown = bench.get("s")
    assert (shown.state, iso(shown.due_at), shown.paused_until) == ("active", at(following), None)
    assert (told(bench, "schedule.resumed"), times(bench, "schedule.resumed")) == (
        [{"by": "time", "who": "time"}],
        [at("11:30")],
    )
    bench.run_until(at(following))
    assert lines(bench) == [f"{following} succeeded"]


def test_until_ends_by_itself_after_a_restart(restart: Callable[..., Sandbox]) -> None:
    """C10: also when nobody was there at that time"""
    first = restart()
    for name in ("a", "b"):
        first.add(name, when=HOURLY, job="work")
    first.pause("a", until=moment("09:30"))
    first.pause("b", until=moment("14:30"))
    second = restart()
    second.run_until(at("10:00"))
    assert lines(second, "a") == ["10:00 succeeded"]
    second.clock.advance_to(at("17:30"))
    third = restart()
    third.run_until(at("18:00"))
    assert lines(third, "b") == ["18:00 succeeded"]


def test_a_second_pause_says_anew_until_when(bench: Sandbox) -> None:
    """C10"""
    bench.add("s", when=HOURLY, job="work")
    bench.pause("s", until=moment("09:30"))
    bench.pause("s", note="for good")
    bench.run_until(at("12:00"))
    assert (bench.get("s").state, bench.get("s").note, lines(bench)) == ("paused", "for good", [])


def test_a_second_pause_keeps_the_first_note_and_instant(bench: Sandbox) -> None:
    """C10 B8: why and since when it rests is what the first one said"""
    bench.add("s", when=HOURLY, job="work")
    bench.pause("s", note="the disk is full")
    first = bench.get("s")
    bench.clock.advance(60_000)
    bench.pause("s")
    bench.pause("s", note="again")
    second = bench.get("s")
    assert (second.note, second.paused_at, second.rev) == ("the disk is full", first.paused_at, first.rev)
    assert first.paused_at is not None
    assert len(bench.events.list(types=["schedule.paused"])) == 1


def test_resumed_by_hand_before_its_time(bench: Sandbox) -> None:
    """C10: the old end of the pause ends nothing"""
    bench.add("s", when=HOURLY, job="work")
    bench.pause("s", until=moment("11:30"))
    bench.resume("s")
    bench.pause("s", note="again")
    bench.run_until(at("13:00"))
    assert bench.get("s").state == "paused"


@pytest.mark.parametrize("until", [moment("08:00"), moment("07:00")])
def test_until_must_be_to_come(bench: Sandbox, until: Any) -> None:
    """C10"""
    bench.add("s", when=HOURLY, job="work")
    with pytest.raises(InvalidInput) as caught:
        bench.pause("s", until=until)
    assert (caught.value.field, bool(caught.value.hint)) == ("until", True)
    assert bench.get("s").state == "active"


def test_what_has_expired_cannot_be_paused(bench: Sandbox) -> None:
    """C10 P5"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("07:00"))
    bench.run_until(at("09:00"))
    with pytest.raises(Conflict, match='"s" is expired') as caught:
        bench.pause("s")
    assert caught.value.hint
    assert bench.get("s").state == "expired"


def test_what_is_started_by_hand_waits_for_the_end_of_the_pause(bench: Sandbox) -> None:
    """C10: with and without a gate that takes time"""
    for name, words in (("plain", {}), ("checked", {"pre_check": "true"})):
        bench.add(name, when=HOURLY, job="work", **words)
        bench.pause(name)
        bench.run(name)
    bench.run_until(at("08:30"))
    assert (lines(bench, "plain"), lines(bench, "checked")) == (["manual paused"], ["manual paused"])
    for name in ("plain", "checked"):
        bench.resume(name)
    bench.settle()
    assert (lines(bench, "plain"), lines(bench, "checked")) == (["manual succeeded"], ["manual succeeded"])


# -- runs that wait for something else while their schedule is paused


def for_the_morning(bench: Sandbox) -> dict[str, Any]:
    bench.quiet_hours.set("mornings", windows="08:30-11:00", mode="defer")
    return {"quiet_hours": "mornings"}


def for_the_provider(bench: Sandbox) -> dict[str, Any]:
    bench.throttles.set("anthropic", resets_at=moment("11:00"))
    return {"provider": "anthropic"}


def for_a_person(bench: Sandbox) -> dict[str, Any]:
    return {"approval": "owner_approve"}


WAITS = {"quiet_hours": for_the_morning, "throttled": for_the_provider, "awaiting_approval": for_a_person}


@pytest.fixture(params=WAITS)
def waiting(request: pytest.FixtureRequest, bench: Sandbox) -> str:
    """A run that was due at 09:00 waits for what the answer says; it is 09:30, and its schedule is paused."""
    words = WAITS[request.param](bench)
    bench.add("s", when="0 9 * * *", job="work", **words)
    bench.run_until(at("09:30"))
    assert lines(bench) == [f"09:00 {request.param}"]
    bench.pause("s")
    return request.param


def let_go(bench: Sandbox) -> None:
    """What is waited for comes: the time, or the person."""
    bench.run_until(at("11:00"))
    for approval in bench.approvals.list():
        bench.approvals.approve(approval.id)
    bench.settle()


def test_it_stays_held_when_what_it_waits_for_comes(bench: Sandbox, waiting: str) -> None:
    """C10 C16: and goes on when the schedule does"""
    let_go(bench)
    assert lines(bench) == ["09:00 paused"]
    bench.run_until(at("14:00"))
    assert lines(bench) == ["09:00 paused"]
    bench.resume("s")
    bench.settle()
    assert lines(bench) == ["09:00 succeeded"]
    assert iso(last(bench).started_at) == at("14:00")


def test_it_waits_on_when_the_schedule_resumes_first(bench: Sandbox, waiting: str) -> None:
    """C10"""
    bench.run_until(at("10:00"))
    bench.resume("s")
    bench.run_until(at("10:30"))
    assert lines(bench) == [f"09:00 {waiting}"]
    let_go(bench)
    assert lines(bench) == ["09:00 succeeded"]


def test_it_goes_on_when_the_pause_ends_by_itself(bench: Sandbox, waiting: str) -> None:
    """C10"""
    bench.pause("s", until=moment("12:00"))
    let_go(bench)
    bench.run_until(at("11:59"))
    assert lines(bench) == ["09:00 paused"]
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded"]


def test_c16_a_users_pause_is_never_lifted_by_a_throttle(bench: Sandbox) -> None:
    """C16: neither by its end nor by a person who lifts the throttle"""
    bench.add("s", when=HOURLY, job="work", provider="anthropic")
    bench.throttles.set("anthropic", resets_at=moment("10:00"))
    bench.pause("s", note="mine")
    bench.run_until(at("10:30"))
    assert (bench.get("s").state, bench.get("s").paused_by, bench.get("s").note) == ("paused", "owner", "mine")
    bench.throttles.set("anthropic", resets_at=moment("12:00"))
    bench.throttles.delete("anthropic")
    bench.run_until(at("13:30"))
    assert (bench.get("s").state, lines(bench)) == ("paused", [])


def test_a_pause_in_the_night_goes_on_in_the_morning(bench: Sandbox) -> None:
    """C10 S3: resumed in quiet hours, what was held waits for their end"""
    bench.quiet_hours.set("nights", windows="22:00-07:00", mode="skip")
    bench.add("s", when="0 21 * * *", job="work", quiet_hours="nights")
    bench.clock.advance_to(at("21:00"))
    bench.pause("s")
    bench.run_until(at("23:00"))
    assert lines(bench) == ["21:00 paused"]
    bench.resume("s")
    bench.run_until(at("06:59", day=28))
    assert lines(bench) == ["21:00 quiet_hours"]
    bench.run_until(at("07:00", day=28))
    assert lines(bench) == ["21:00 succeeded"]


def test_a_check_that_is_under_way_when_it_is_paused(bench: Sandbox) -> None:
    """C10 C6: its verdict counts, and the run is held"""
    bench.add("s", when="0 9 * * *", job="work", pre_check="true")
    bench.clock.advance_to(at("09:00"))
    bench.engine.turn()
    assert lines(bench) == ["09:00 checking"]
    bench.pause("s")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 paused"]
    bench.resume("s")
    bench.settle()
    assert lines(bench) == ["09:00 succeeded"]
    assert len(bench.runs.checks(last(bench).id)) == 1


def test_a_check_that_says_no_while_it_is_paused(bench: Sandbox) -> None:
    """C10 C6 B1: it is over, and the schedule is still paused"""
    bench.add("s", when="1h", job="work", pre_check="false")
    bench.clock.advance_to(at("09:00"))
    bench.engine.turn()
    bench.pause("s")
    bench.run_until(at("11:30"))
    assert lines(bench) == ["09:00 skipped pre_check"]
    assert (bench.get("s").state, bench.get("s").due_at) == ("paused", None)
    bench.resume("s")
    assert iso(bench.get("s").due_at) == at("12:30")


def test_a_check_whose_process_died_while_it_was_paused(restart: Callable[..., Sandbox]) -> None:
    """C10 C6: the next process checks it when it goes on"""
    first = restart()
    first.add("s", when="0 9 * * *", job="work", pre_check="true")
    first.clock.advance_to(at("09:00"))
    first.engine.turn()
    first.pause("s")
    second = restart()
    second.run_until(at("10:00"))
    assert lines(second) == ["09:00 paused"]
    second.resume("s")
    second.settle()
    assert lines(second) == ["09:00 succeeded"]


def test_an_attempt_that_fails_while_its_schedule_is_paused(bench: Sandbox) -> None:
    """C10: the run has started, and goes on to its end"""

    @bench.job("pauses itself")
    def pauses_itself(run: Any) -> None:
        if run.attempt == 1:
            bench.pause("s")
            raise ValueError

    bench.add("s", when="0 9 * * *", job="pauses itself", retries=1, retry_delay="10m")
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded"]
    assert bench.get("s").state == "paused"


def test_a_run_that_is_given_back_while_its_schedule_is_paused(bench: Sandbox) -> None:
    """C10: it was claimed and has not begun: it waits with its schedule"""
    claimed: list[Attempt] = []
    submit = bench.executor.submit
    bench.executor.submit = claimed.extend  # type: ignore[method-assign] - it takes them, and does nothing yet
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until(at("09:00"))
    bench.executor.submit = submit  # type: ignore[method-assign]
    bench.pause("s")
    bench.engine._released += claimed
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 paused"]
    bench.resume("s")
    bench.settle()
    assert lines(bench) == ["09:00 succeeded"]


@pytest.mark.parametrize("overlap", ["queue", "allow"])
def test_several_runs_that_were_held_go_on_in_their_order(bench: Sandbox, overlap: str) -> None:
    """C10 B8"""
    started: list[Any] = []
    bench.job("note")(lambda run: started.append(str(run.slot)[11:16]))
    bench.limits.set("agent:x", size=1)
    bench.add("s", when="*/10 * * * *", job="note", agent="x", overlap=overlap)
    bench.settings = replace(bench.settings, check_interval_ms=60_000)
    with bench._store.transaction(0) as transaction:
        assert transaction.take_permits("agent:x", [999])
    bench.run_until(at("08:30"))
    bench.pause("s")
    with bench._store.transaction(0) as transaction:
        transaction.release_permits([999])
    bench.run_until(at("08:55"))
    assert started == []
    bench.resume("s")
    bench.settle()
    assert started == ["08:10", "08:20", "08:30"]


def test_an_interval_goes_on_from_now_whatever_its_run_waits_for(bench: Sandbox, waiting: str) -> None:
    """C10 H3: the interval of the next schedule beside it, and this one's run ends later"""
    bench.edit("s", when="1h", anchor="completion")
    bench.resume("s")
    assert iso(bench.get("s").next_run_at) == at("10:30")
    let_go(bench)
    bench.run_until(at("13:00"))
    ran = [line for line in lines(bench) if line.endswith(("succeeded", waiting))]
    assert len(ran) >= 2, lines(bench)
    assert bench.get("s").next_run_at is not None
