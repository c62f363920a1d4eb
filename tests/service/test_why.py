"""`why`: what became of a slot, and what would happen now, gate by gate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import every_store
import pytest

from matins.engine.gates import ORDER
from matins.errors import NotFound, ProviderLimited
from matins.executors.python import JobRun
from matins.model.principal import Principal
from matins.model.run import RunState
from matins.service.explaining import Why
from matins.service.wire import from_wire, to_wire
from matins.testing import Bench, instant

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, rows = every_store.bench, every_store.rows
DAY_MS = 86_400_000


def now_says(why: Why, gate: str) -> tuple[bool | None, str]:
    (says,) = [says for says in why.now if says.gate == gate]
    return says.passes, says.sentence


def test_a_slot_that_ran(bench: Bench) -> None:
    """B2: with its attempts"""
    bench.add("s", when="0 9 * * *", do="work")
    bench.run_until("2026-03-27T12:00:00Z")
    why = bench.why("s", at=datetime(2026, 3, 27, 9, tzinfo=UTC))
    assert why.found == "record"
    assert why.answer == "2026-03-27 09:00: It started at 2026-03-27 09:00 and succeeded after 0 s."
    assert why.record is not None
    assert why.record.run == bench.runs("s")[0]
    (attempt,) = why.record.attempts
    assert (attempt.epoch, attempt.started_at) == (1, instant("2026-03-27T09:00:00Z"))
    assert (why.schedule, why.agent, why.state, why.timezone) == ("s", "", "active", "UTC")


def test_without_an_instant_it_is_about_the_last_record(bench: Bench) -> None:
    """B2: also one that was started by hand"""
    bench.add("s", when="0 10 * * *", timezone="Europe/Berlin", do="fail", retries=1, retry="1m")
    bench.run_until("2026-03-27T12:00:00Z")
    why = bench.why("s")
    assert why.answer == "2026-03-27 10:00: The job failed: ValueError: no luck."
    assert why.record is not None
    assert [attempt.epoch for attempt in why.record.attempts] == [1, 2]
    bench.run("s")
    assert bench.why("s").answer == "Started by hand at 2026-03-27 13:00: It may start, and waits for a place."


def test_a_slot_that_quiet_hours_skipped(bench: Bench) -> None:
    """B2 S3: why did nothing happen at half past eleven?"""
    bench.set_quiet_hours("night", windows=["22:00-07:00"], timezone="Europe/London")
    bench.add("s", when="30 23 * * *", do="work", quiet_hours="night")
    bench.run_until("2026-03-28T00:00:00Z")
    why = bench.why("s", at=bench.runs("s")[0].slot)
    assert why.answer == '2026-03-27 23:30: Quiet hours "night" were on until 07:00; it was skipped.'
    assert why.record is not None
    assert why.record.run.evidence == {"policy": "night", "until": instant("2026-03-28T07:00:00Z")}
    assert now_says(why, "quiet_hours") == (False, 'Quiet hours "night" are on until 07:00; it would be skipped.')


def test_a_slot_that_another_record_stands_for(bench: Bench) -> None:
    """B2 S4: one record for all that were missed"""
    bench.add("s", when="*/10 * * * *", do="work", catch_up="run_once")
    bench.clock.advance_to("2026-03-27T09:05:00Z")
    bench.settle()
    for at in ("08:10", "08:30", "09:00"):
        why = bench.why("s", at=instant(f"2026-03-27T{at}:00Z"))
        assert why.answer == (
            "2026-03-27 09:00: It started at 2026-03-27 09:05 and succeeded after 0 s, "
            "and stands for 6 slots from 2026-03-27 08:10 on."
        )
    assert bench.why("s", at=instant("2026-03-27T08:15:00Z")).found == "no_slot"


def test_a_range_that_was_missed(bench: Bench) -> None:
    """B2 B1"""
    bench.add("s", when="* * * * *", do="work")
    bench.clock.advance(2 * DAY_MS)
    bench.settle()
    why = bench.why("s", at=instant("2026-03-28T03:07:00Z"))
    assert why.answer == (
        "2026-03-29 07:59: Nobody was there for 2879 slots, from 2026-03-27 08:01 to 2026-03-29 07:59."
    )
    assert bench.why("s", at=instant("2026-03-28T03:07:30Z")).found == "no_slot"


def test_an_instant_that_is_no_slot(bench: Bench) -> None:
    """B2: the nearest are named"""
    bench.add("s", when="0 9 * * *", timezone="Asia/Tokyo", do="work")
    why = bench.why("s", at=instant("2026-03-28T09:00:00Z"))
    assert why.found == "no_slot"
    assert why.answer == "It has no slot at 2026-03-28 18:00; the nearest: 2026-03-28 09:00 and 2026-03-29 09:00."
    assert why.nearest == (instant("2026-03-28T00:00:00Z"), instant("2026-03-29T00:00:00Z"))
    assert bench.why("s", at=instant("2026-03-27T08:01:00Z")).nearest == (instant("2026-03-28T00:00:00Z"),)


def test_an_interval_knows_its_records_and_its_next_slot(bench: Bench) -> None:
    """B2: what counts from the last run has no other slots"""
    bench.add("s", when="30m", do="work")
    bench.run_until("2026-03-27T08:45:00Z")
    assert bench.why("s", at=instant("2026-03-27T08:30:00Z")).found == "record"
    assert bench.why("s", at=instant("2026-03-27T09:00:00Z")).found == "to_come"
    why = bench.why("s", at=instant("2026-03-27T08:40:00Z"))
    assert (why.found, why.nearest) == (
        "no_slot",
        (instant("2026-03-27T08:30:00Z"), instant("2026-03-27T09:00:00Z")),
    )


def test_a_slot_before_the_schedule_was_made(bench: Bench) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", do="work")
    why = bench.why("s", at=instant("2026-03-26T09:00:00Z"))
    assert (why.found, why.answer) == ("before", "The schedule did not exist then: it was made on 2026-03-27 08:00.")


def test_a_slot_that_history_no_longer_has(url: str) -> None:
    """B2"""
    forgetful = Bench(url, clock=every_store.ManualClock(every_store.START), history_runs=2)
    try:
        forgetful.job("work")(lambda run: None)
        forgetful.add("s", when="0 * * * *", do="work")
        forgetful.run_until("2026-03-27T20:00:00Z")
        assert len(forgetful.runs("s")) < 12
        why = forgetful.why("s", at=instant("2026-03-27T09:00:00Z"))
        assert (why.found, why.record) == ("forgotten", None)
        assert why.answer == "Its record is no longer kept: history goes back only so far."
    finally:
        forgetful.close()


def test_a_slot_in_a_pause_that_is_over(bench: Bench) -> None:
    """B2 C10: nothing was due then, and why says who had paused it"""
    bench.add("s", when="0 * * * *", do="work")
    bench.acting_as(Principal("operator", "ada")).pause("s", note="holidays")
    bench.run_until("2026-03-27T10:30:00Z")
    bench.resume("s")
    bench.run_until("2026-03-27T11:30:00Z")
    why = bench.why("s", at=instant("2026-03-27T10:00:00Z"))
    assert why.found == "held_back"
    assert why.answer == "It was paused then, by ada since 2026-03-27 08:00: holidays."
    assert bench.why("s", at=instant("2026-03-27T11:00:00Z")).found == "record"


def test_a_slot_that_only_the_new_words_have(bench: Bench) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", do="work")
    bench.run_until("2026-03-27T12:00:00Z")
    bench.edit("s", when="0 * * * *")
    why = bench.why("s", at=instant("2026-03-27T10:00:00Z"))
    assert why.found == "no_record"
    assert why.answer == "There is no record of it: the schedule was changed since, last on 2026-03-27 12:00."


def test_a_slot_to_come(bench: Bench) -> None:
    """B2 B3"""
    bench.set_quiet_hours("weekend", windows=["sat,sun 00:00-24:00"], timezone="UTC")
    bench.add("s", when="0 9 * * *", do="work", quiet_hours="weekend")
    tomorrow = bench.why("s", at=instant("2026-03-28T09:00:00Z"))
    assert (tomorrow.found, tomorrow.record) == ("to_come", None)
    assert tomorrow.answer == 'Quiet hours "weekend" will be on until 2026-03-30 00:00; it will be skipped.'
    assert tomorrow.slot is not None
    assert tomorrow.slot.verdict == "skipped"
    assert bench.why("s", at=instant("2026-03-30T09:00:00Z")).answer == "It runs."


def test_a_slot_in_years_to_come_is_found_without_a_walk(bench: Bench) -> None:
    """B2: five million minutes away"""
    bench.set_quiet_hours("night", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.add("s", when="* * * * *", do="work", quiet_hours="night")
    why = bench.why("s", at=instant("2036-03-28T03:00:00Z"))
    assert why.slot is not None
    assert why.slot.verdict == "coalesced"
    assert bench.why("s", at=instant("2036-03-28T22:00:00Z")).slot.verdict == "deferred"  # type: ignore[union-attr]
    assert bench.why("s", at=instant("2036-03-28T12:00:00Z")).answer == "It runs."


def test_a_slot_after_the_end(bench: Bench) -> None:
    """B2 P5 V5: the first after the end date is recorded as skipped, and then there are none"""
    bench.add("s", when="0 9 * * *", do="work", ends="2026-03-29T00:00")
    bench.add("twice", when="0 9 * * *", do="work", max_executions=2)
    first = bench.why("s", at=instant("2026-03-29T09:00:00Z"))
    assert first.answer == "Its end, 2026-03-29 00:00, will be past; it will be skipped."
    assert bench.why("s", at=instant("2026-03-30T09:00:00Z")).answer == "By then it has come to its end."
    assert bench.why("twice", at=instant("2026-03-28T09:00:00Z")).answer == "It runs."
    assert bench.why("twice", at=instant("2026-03-29T09:00:00Z")).answer == "By then it has come to its end."
    bench.run_until("2026-03-30T00:00:00Z")
    assert bench.why("twice", at=instant("2026-03-31T09:00:00Z")).answer == "It is completed: there is no slot left."
    assert bench.why("s", at=instant("2026-03-31T09:00:00Z")).answer == "It has come to its end."


def test_what_is_due_and_nobody_has_taken_up(bench: Bench) -> None:
    """B2: whether there is an engine at all"""
    bench.add("s", when="0 9 * * *", do="work")
    bench.clock.advance_to("2026-03-27T09:10:00Z")
    assert bench.why("s").answer == "It is due since 2026-03-27 09:00, but no engine has taken it up yet."
    bench.engine.close()
    why = bench.why("s", at=instant("2026-03-27T09:00:00Z"))
    assert (why.found, why.answer) == ("due", "It is due since 2026-03-27 09:00, but no engine is running.")


def test_a_paused_schedule_says_so_first(bench: Bench) -> None:
    """B2 C10: who, since when, until when, why"""
    bench.add("s", when="0 * * * *", do="work")
    bench.run_until("2026-03-27T09:30:00Z")
    bench.pause("s", note="holidays", until=datetime(2026, 3, 29, tzinfo=UTC))
    why = bench.why("s")
    assert why.answer == "It is paused by owner since 2026-03-27 09:30, until 2026-03-29 00:00: holidays."
    assert why.record is not None
    assert why.record.run.slot == instant("2026-03-27T09:00:00Z")
    assert now_says(why, "paused") == (False, why.answer)
    assert bench.why("s", at=instant("2026-03-29T01:00:00Z")).answer == "It runs."


def test_a_schedule_that_its_failures_paused(bench: Bench) -> None:
    """B2 V4"""
    bench.add("s", when="0 * * * *", do="fail", pause_after=2)
    bench.run_until("2026-03-27T12:00:00Z")
    answer = bench.why("s").answer
    assert answer == "It is paused by its failures since 2026-03-27 10:00: 2 runs in a row failed."


def test_an_agents_proposal(bench: Bench) -> None:
    """B2 B7"""
    bench.acting_as(Principal("agent", "scout")).add("s", when="every day at 9am", do="work")
    why = bench.why("scout/s")
    assert (why.found, why.answer) == ("held_back", "scout proposed it, and it waits for approval.")


def test_a_schedule_that_has_not_been_due(bench: Bench) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", do="work")
    why = bench.why("s")
    assert (why.found, why.record) == ("nothing_yet", None)
    assert why.answer == "It has not been due yet: its first slot is 2026-03-27 09:00."


def test_what_a_pre_check_said(bench: Bench) -> None:
    """B2 C6: with its output"""
    bench.add("s", when="0 9 * * *", do="work", pre_check="echo not yet; exit 3")
    assert now_says(bench.why("s"), "pre_check") == (None, "Would run: echo not yet; exit 3 (at most 15s).")
    bench.run_until("2026-03-27T09:00:00Z")
    why = bench.why("s")
    assert why.answer == "2026-03-27 09:00: Its pre-check was against it: it ended with exit code 3; it was skipped."
    assert why.record is not None
    (check,) = why.record.checks
    assert (check["gate"], check["exit_code"], check["output"]) == ("pre_check", 3, "not yet\n")


def test_what_people_were_asked_and_said(bench: Bench) -> None:
    """B2 V6: approvals with their votes"""
    bench.add("s", when="0 9 * * *", do="work", approval="council_approve", approvers=["ada", "grace"])
    why = bench.why("s")
    assert now_says(why, "approval") == (None, "Would ask 1 of ada, grace; no answer within 1d means deny.")
    bench.run_until("2026-03-27T09:00:00Z")
    assert bench.why("s").answer == "2026-03-27 09:00: It waits for people to approve it."
    (asked,) = bench.approvals()
    for name in ("ada", "grace"):
        bench.acting_as(Principal("operator", name)).deny(asked.id, note=f"{name} says no")
    why = bench.why("s")
    assert why.answer == f"2026-03-27 09:00: People said no: approval {asked.id} was denied."
    assert why.record is not None
    (approval,) = why.record.approvals
    assert [(vote.voter, vote.note) for vote in approval.votes] == [("ada", "ada says no"), ("grace", "grace says no")]


def test_every_gate_is_told_in_its_order(bench: Bench) -> None:
    """B2: with nothing in the way"""
    bench.add("s", when="0 9 * * *", do="work")
    why = bench.why("s")
    assert tuple(says.gate for says in why.now) == ORDER
    assert {says.gate: says.passes for says in why.now} == {
        **dict.fromkeys(ORDER, True),
        "guard": None,  # it lives in the engine's process
    }
    assert why.now[0].sentence == "It is not paused."


def test_what_would_stand_in_the_way_now(bench: Bench) -> None:
    """B2 B5 B6 B8: each gate is judged by itself, with the real facts"""
    bench.set_budget("daily", per="day", money="$1.00", timezone="UTC")
    bench.throttle("anthropic", datetime(2026, 3, 27, 18, tzinfo=UTC), reason="rate limited")
    bench.limit("global", 1)
    words: dict[str, Any] = {
        "provider": "anthropic",
        "max_cost": "$1.20",
        "max_executions": 1,
        "ends": "2026-03-27T07:00",
    }
    bench.add("s", when="0 9 * * *", do="work", **words)
    bench.set_hook("before:schedule:trigger", ["/bin/true", "a b"])
    run = bench.run("s")
    why = bench.why("s")
    assert now_says(why, "ended") == (False, "Its end, 2026-03-27 07:00, is past; it would be skipped.")
    run_waits = f"Run {run.id} of this schedule is still waiting"
    assert now_says(why, "overlap") == (False, f"{run_waits}; this one would be skipped.")
    assert now_says(why, "throttle") == (False, f'{run_waits} for provider "anthropic" until 18:00, for this one too.')
    assert now_says(why, "budget") == (
        False,
        'Budget "daily" has $1.00 left of $1.00; this run wants $1.20. It opens again on 2026-03-28 00:00.',
    )
    assert now_says(why, "hook") == (None, "Would run: /bin/true 'a b' (at most 15s).")


def test_room_is_told_as_it_is(bench: Bench) -> None:
    """B2 V3 B5: places and money that are left"""
    seen: list[Why] = []

    @bench.job("look")
    def look(run: JobRun) -> None:
        seen.append(bench.why("waits"))
        seen.append(bench.why("skips"))

    bench.limit("global", 1)
    bench.set_budget("daily", per="day", money="$5", tokens="1M", timezone="UTC")
    bench.add("look", when="0 9 * * *", do="look", max_cost="$1", max_tokens="100k")
    bench.add("waits", when="0 10 * * *", do="work", max_cost="$0.50", max_tokens="1k")
    bench.add("skips", when="0 10 * * *", do="work", at_capacity="skip")
    bench.run_until("2026-03-27T09:00:00Z")
    waits, skips = seen
    assert now_says(waits, "capacity") == (False, '1 of 1 places of "global" are taken; it would wait for one.')
    assert now_says(skips, "capacity") == (False, "Every place that it may take is taken; it would be skipped.")
    left = 'Budget "daily" has $4.00 left of $5.00 and 900k tokens left of 1M'
    assert now_says(waits, "budget") == (True, f"{left}; a run is taken to need $0.50 and 1k tokens.")
    assert now_says(bench.why("waits"), "capacity") == (True, "There is a place for it.")


def test_a_provider_that_refused(bench: Bench) -> None:
    """B2 B6"""

    @bench.job("ask")
    def ask(run: JobRun) -> None:
        raise ProviderLimited("anthropic", datetime(2026, 3, 27, 12, tzinfo=UTC))

    bench.add("s", when="0 9 * * *", do="ask", provider="anthropic")
    bench.run_until("2026-03-27T09:30:00Z")
    assert bench.why("s").answer == (
        '2026-03-27 09:00: Provider "anthropic" served nobody until 12:00 (rate limited); it waits until then.'
    )


def test_a_schedule_whose_words_cannot_be_read(bench: Bench) -> None:
    """B2: it says so, and raises nothing"""
    bench.add("s", when="0 9 * * *", do="work")
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        transaction.insert_revision(bench.get("s").id, 2, '{"trigger": {"kind": "moonrise"}}', bench.clock.now_ms())
    why = bench.why("s", at=instant("2026-03-27T09:00:00Z"))
    assert why.found == "held_back"
    assert why.answer.startswith("It is set aside because it cannot be used: ")
    assert [says.gate for says in why.now] == ["paused"]


def test_looking_writes_nothing(bench: Bench, rows: Callable[[], list[Any]]) -> None:
    """B2: no row changes, whatever is asked"""
    bench.set_budget("daily", per="day", money="$1.00")
    bench.add("s", when="0 * * * *", do="pay", approval="owner_approve", approval_actions=["pay"])
    bench.run_until("2026-03-27T09:30:00Z")
    bench.clock.advance_to("2026-03-27T10:30:00Z")  # a slot is overdue
    before = rows()
    for at in (None, "2026-03-27T09:00:00Z", "2026-03-27T10:00:00Z", "2026-03-29T10:00:00Z", "2026-03-01T10:00:00Z"):
        bench.why("s", at=None if at is None else instant(at))
    assert rows() == before


def test_an_unknown_name_is_an_error_with_a_hint(bench: Bench) -> None:
    """B2"""
    bench.add("nightly", when="0 9 * * *", do="work")
    with pytest.raises(NotFound) as caught:
        bench.why("nigthly")
    assert caught.value.hint == 'did you mean "nightly"?'


def test_the_answer_survives_the_wire(bench: Bench) -> None:
    """B2: as other surfaces get it"""
    bench.add("s", when="0 9 * * *", do="work", approval="owner_approve", approval_actions=["work"])
    bench.run_until("2026-03-27T09:00:00Z")
    answers = [bench.why("s"), bench.why("s", at=instant("2026-03-29T09:00:00Z")), bench.preview("s"), bench.stats()]
    answers += [bench.preview_change("s", when="0 8 * * *"), bench.audit(), bench.preview_catch_up("s")]
    for answer in answers:
        assert from_wire(to_wire(answer)) == answer
    record = bench.why("s").record
    assert record is not None
    assert record.run.state is RunState.PARKED
