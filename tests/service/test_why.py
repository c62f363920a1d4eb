"""`why`: what became of a slot, and what would happen now, gate by gate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import every_store
import pytest

import postgres_fixtures
from matins.api.codec import convert, to_document
from matins.api.results import Explanation
from matins.api.use_case import USE_CASES
from matins.engine.gates import GATES
from matins.errors import NotFound, RateLimited
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.model.words import joined
from matins.testing import Sandbox, instant

url = postgres_fixtures.url
bench, rows = every_store.bench, every_store.rows
DAY_MS = 86_400_000


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def now_says(why: Explanation, gate: str) -> tuple[bool | None, str]:
    (says,) = [says for says in why.now if says.gate == gate]
    return says.passes, joined(says.sentence, says.quote)


def test_a_slot_that_ran(bench: Sandbox) -> None:
    """B2: with its attempts"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T12:00:00Z")
    why = bench.why("s", at=datetime(2026, 3, 27, 9, tzinfo=UTC))
    assert why.status == "record"
    assert why.summary == "2026-03-27 09:00 UTC: Succeeded: started at 2026-03-27 09:00 UTC, took 0 s."
    assert why.run is not None
    assert why.run.run == bench.runs.list(schedule="s")[0]
    (attempt,) = why.run.attempts
    assert (attempt.epoch, attempt.started_at) == (1, at("2026-03-27T09:00:00Z"))
    assert (why.schedule, why.agent, why.state, why.timezone) == ("s", "", "active", "UTC")


def test_without_an_instant_it_is_about_the_last_record(bench: Sandbox) -> None:
    """B2: also one that was started by hand"""
    bench.add("s", when="0 10 * * *", timezone="Europe/Berlin", job="fail", retries=1, retry_delay="1m")
    bench.run_until("2026-03-27T12:00:00Z")
    why = bench.why("s")
    assert (why.summary, why.quote) == ("2026-03-27 10:00 CET: Failed.", "ValueError: no luck")
    assert why.run is not None
    assert [attempt.epoch for attempt in why.run.attempts] == [1, 2]
    bench.run("s")
    assert (
        bench.why("s").summary == "Started manually at 2026-03-27 13:00 CET: Ready: waiting for an engine to start it."
    )


def test_a_slot_that_quiet_hours_skipped(bench: Sandbox) -> None:
    """B2 S3: why did nothing happen at half past eleven?"""
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="Europe/London")
    bench.add("s", when="30 23 * * *", job="work", quiet_hours="night")
    bench.run_until("2026-03-28T00:00:00Z")
    why = bench.why("s", at=bench.runs.list(schedule="s")[0].slot)
    assert why.summary == '2026-03-27 23:30 UTC: Skipped: quiet hours "night" were active until 07:00 UTC.'
    assert why.run is not None
    assert why.run.run.evidence == {"policy": "night", "until": instant("2026-03-28T07:00:00Z")}
    assert now_says(why, "quiet_hours") == (False, 'Would be skipped: quiet hours "night" are active until 07:00 UTC.')


def test_a_slot_that_another_record_stands_for(bench: Sandbox) -> None:
    """B2 S4: one record for all that were missed"""
    bench.add("s", when="*/10 * * * *", job="work", catch_up="run_once")
    bench.clock.advance_to("2026-03-27T09:05:00Z")
    bench.settle()
    for at in ("08:10", "08:30", "09:00"):
        why = bench.why("s", at=instant(f"2026-03-27T{at}:00Z"))
        assert why.summary == (
            "2026-03-27 09:00 UTC: Succeeded: started at 2026-03-27 09:05 UTC, took 0 s "
            "(6 slots from 2026-03-27 08:10 UTC)."
        )
    assert bench.why("s", at=instant("2026-03-27T08:15:00Z")).status == "no_slot"


def test_a_range_that_was_missed(bench: Sandbox) -> None:
    """B2 B1"""
    bench.add("s", when="* * * * *", job="work")
    bench.clock.advance(2 * DAY_MS)
    bench.settle()
    why = bench.why("s", at=instant("2026-03-28T03:07:00Z"))
    assert why.summary == (
        "2026-03-29 07:59 UTC: Missed: no engine was running for 2,879 slots, "
        "from 2026-03-27 08:01 UTC to 2026-03-29 07:59 UTC."
    )
    assert bench.why("s", at=instant("2026-03-28T03:07:30Z")).status == "no_slot"


def test_an_instant_that_is_no_slot(bench: Sandbox) -> None:
    """B2: the nearest are named"""
    bench.add("s", when="0 9 * * *", timezone="Asia/Tokyo", job="work")
    why = bench.why("s", at=instant("2026-03-28T09:00:00Z"))
    assert why.status == "no_slot"
    assert (
        why.summary == "The schedule has no slot at 2026-03-28 18:00 JST. "
        "The nearest: 2026-03-28 09:00 JST and 2026-03-29 09:00 JST."
    )
    assert why.nearest == [at("2026-03-28T00:00:00Z"), at("2026-03-29T00:00:00Z")]
    assert bench.why("s", at=instant("2026-03-27T08:01:00Z")).nearest == [at("2026-03-28T00:00:00Z")]


def test_an_interval_knows_its_records_and_its_next_slot(bench: Sandbox) -> None:
    """B2: what counts from the last run has no other slots"""
    bench.add("s", when="30m", job="work")
    bench.run_until("2026-03-27T08:45:00Z")
    assert bench.why("s", at=instant("2026-03-27T08:30:00Z")).status == "record"
    assert bench.why("s", at=instant("2026-03-27T09:00:00Z")).status == "to_come"
    why = bench.why("s", at=instant("2026-03-27T08:40:00Z"))
    assert (why.status, why.nearest) == (
        "no_slot",
        [at("2026-03-27T08:30:00Z"), at("2026-03-27T09:00:00Z")],
    )


def test_a_slot_before_the_schedule_was_made(bench: Sandbox) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", job="work")
    why = bench.why("s", at=instant("2026-03-26T09:00:00Z"))
    assert (why.status, why.summary) == (
        "before",
        "The schedule did not exist then. It was added on 2026-03-27 08:00 UTC.",
    )


def test_a_slot_that_history_no_longer_has(url: str) -> None:
    """B2"""
    forgetful = Sandbox(url, clock=every_store.ManualClock(every_store.START), history_runs=2)
    try:
        forgetful.job("work")(lambda run: None)
        forgetful.add("s", when="0 * * * *", job="work")
        forgetful.run_until("2026-03-27T20:00:00Z")
        assert len(forgetful.runs.list(schedule="s")) < 12
        why = forgetful.why("s", at=instant("2026-03-27T09:00:00Z"))
        assert (why.status, why.run) == ("forgotten", None)
        assert why.summary == "The record is no longer kept."
    finally:
        forgetful.close()


def test_a_slot_in_a_pause_that_is_over(bench: Sandbox) -> None:
    """B2 C10: nothing was due then, and why says who had paused it"""
    bench.add("s", when="0 * * * *", job="work")
    bench.acting_as(Principal("operator", "ada")).pause("s", note="holidays")
    bench.run_until("2026-03-27T10:30:00Z")
    bench.resume("s")
    bench.run_until("2026-03-27T11:30:00Z")
    why = bench.why("s", at=instant("2026-03-27T10:00:00Z"))
    assert why.status == "held_back"
    assert (why.summary, why.quote) == ("The schedule was paused by ada since 2026-03-27 08:00 UTC.", "holidays")
    assert bench.why("s", at=instant("2026-03-27T11:00:00Z")).status == "record"


def test_a_slot_that_only_the_new_settings_have(bench: Sandbox) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T12:00:00Z")
    bench.edit("s", when="0 * * * *")
    why = bench.why("s", at=instant("2026-03-27T10:00:00Z"))
    assert why.status == "no_record"
    assert why.summary == "There is no record. The schedule was changed after that, last on 2026-03-27 12:00 UTC."


def test_a_slot_to_come(bench: Sandbox) -> None:
    """B2 B3"""
    bench.quiet_hours.set("weekend", windows=["sat,sun 00:00-24:00"], timezone="UTC")
    bench.add("s", when="0 9 * * *", job="work", quiet_hours="weekend")
    tomorrow = bench.why("s", at=instant("2026-03-28T09:00:00Z"))
    assert (tomorrow.status, tomorrow.run) == ("to_come", None)
    assert tomorrow.summary == 'Will be skipped: quiet hours "weekend" will be active until 2026-03-30 00:00 UTC.'
    assert tomorrow.slot is not None
    assert tomorrow.slot.verdict == "skipped"
    assert bench.why("s", at=instant("2026-03-30T09:00:00Z")).summary == "Runs."


def test_a_slot_in_years_to_come_is_found_without_a_walk(bench: Sandbox) -> None:
    """B2: five million minutes away"""
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.add("s", when="* * * * *", job="work", quiet_hours="night")
    why = bench.why("s", at=instant("2036-03-28T03:00:00Z"))
    assert why.slot is not None
    assert why.slot.verdict == "coalesced"
    assert bench.why("s", at=instant("2036-03-28T22:00:00Z")).slot.verdict == "deferred"  # type: ignore[union-attr]
    assert bench.why("s", at=instant("2036-03-28T12:00:00Z")).summary == "Runs."


def test_a_slot_after_the_end(bench: Sandbox) -> None:
    """B2 P5 V5: the first after the end date is recorded as skipped, and then there are none"""
    bench.add("s", when="0 9 * * *", job="work", ends_at="2026-03-29T00:00")
    bench.add("twice", when="0 9 * * *", job="work", max_executions=2)
    first = bench.why("s", at=instant("2026-03-29T09:00:00Z"))
    assert first.summary == "Will be skipped: the end date 2026-03-29 00:00 UTC will be past."
    assert bench.why("s", at=instant("2026-03-30T09:00:00Z")).summary == "The schedule has ended by then."
    assert bench.why("twice", at=instant("2026-03-28T09:00:00Z")).summary == "Runs."
    assert bench.why("twice", at=instant("2026-03-29T09:00:00Z")).summary == "The schedule has ended by then."
    bench.run_until("2026-03-30T00:00:00Z")
    assert bench.why("twice", at=instant("2026-03-31T09:00:00Z")).summary == "Completed: there is no slot left."
    assert bench.why("s", at=instant("2026-03-31T09:00:00Z")).summary == "Expired: the end date is past."


def test_what_is_due_and_nobody_has_taken_up(bench: Sandbox) -> None:
    """B2: whether there is an engine at all"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.clock.advance_to("2026-03-27T09:10:00Z")
    assert bench.why("s").summary == "Due since 2026-03-27 09:00 UTC: no engine has started it yet."
    bench.engine.close()
    why = bench.why("s", at=instant("2026-03-27T09:00:00Z"))
    assert (why.status, why.summary) == ("due", "Due since 2026-03-27 09:00 UTC: no engine is running.")


def test_a_paused_schedule_says_so_first(bench: Sandbox) -> None:
    """B2 C10: who, since when, until when, why"""
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until("2026-03-27T09:30:00Z")
    bench.pause("s", note="holidays", until=datetime(2026, 3, 29, tzinfo=UTC))
    why = bench.why("s")
    assert why.summary == "Paused by owner since 2026-03-27 09:30 UTC, until 2026-03-29 00:00 UTC."
    assert why.quote == "holidays"
    assert why.run is not None
    assert why.run.run.slot == at("2026-03-27T09:00:00Z")
    text = "Paused by owner since 2026-03-27 09:30 UTC, until 2026-03-29 00:00 UTC: holidays."
    assert now_says(why, "paused") == (False, text)
    assert bench.why("s", at=instant("2026-03-29T01:00:00Z")).summary == "Runs."


def test_a_schedule_that_its_failures_paused(bench: Sandbox) -> None:
    """B2 V4"""
    bench.add("s", when="0 * * * *", job="fail", pause_after_failures=2)
    bench.run_until("2026-03-27T12:00:00Z")
    answer = joined(bench.why("s").summary, bench.why("s").quote)
    assert answer == "Paused by its failures since 2026-03-27 10:00 UTC: 2 runs in a row failed."


def test_an_agents_proposal(bench: Sandbox) -> None:
    """B2 B7"""
    bench.acting_as(Principal("agent", "scout")).add("s", when="every day at 9am", job="work")
    why = bench.why("scout/s")
    assert (why.status, why.summary) == ("held_back", "Pending: scout proposed the schedule, and it needs approval.")


def test_a_schedule_that_has_not_been_due(bench: Sandbox) -> None:
    """B2"""
    bench.add("s", when="0 9 * * *", job="work")
    why = bench.why("s")
    assert (why.status, why.run) == ("nothing_yet", None)
    assert why.summary == "The schedule has not been due yet. Its first slot is 2026-03-27 09:00 UTC."


def test_what_a_pre_check_said(bench: Sandbox) -> None:
    """B2 C6: with its output"""
    bench.add("s", when="0 9 * * *", job="work", pre_check="echo not yet; exit 3")
    assert now_says(bench.why("s"), "pre_check") == (None, "Would run: echo not yet; exit 3 (at most 15s).")
    bench.run_until("2026-03-27T09:00:00Z")
    why = bench.why("s")
    assert why.summary == "2026-03-27 09:00 UTC: Skipped: the pre-check rejected the run."
    assert why.quote == "exit code 3"
    assert why.run is not None
    (check,) = why.run.checks
    assert (check.gate, check.exit_code, check.output) == ("pre_check", 3, "not yet\n")


def test_what_people_were_asked_and_said(bench: Sandbox) -> None:
    """B2 V6: approvals with their votes"""
    bench.add("s", when="0 9 * * *", job="work", approval="council_approve", approvers=["ada", "grace"])
    why = bench.why("s")
    assert now_says(why, "approval") == (None, "Would ask 1 of ada, grace. Without an answer within 1d: deny.")
    bench.run_until("2026-03-27T09:00:00Z")
    assert bench.why("s").summary == "2026-03-27 09:00 UTC: Waiting: the run needs approval."
    (asked,) = bench.approvals.list()
    for name in ("ada", "grace"):
        bench.acting_as(Principal("operator", name)).approvals.deny(asked.id, note=f"{name} says no")
    why = bench.why("s")
    assert why.summary == f"2026-03-27 09:00 UTC: Denied: approval {asked.id} was denied."
    assert why.run is not None
    (approval,) = why.run.approvals
    assert [(vote.voter, vote.note) for vote in approval.votes] == [("ada", "ada says no"), ("grace", "grace says no")]


def test_every_gate_is_told_in_its_order(bench: Sandbox) -> None:
    """B2: with nothing in the way"""
    bench.add("s", when="0 9 * * *", job="work")
    why = bench.why("s")
    order = [gate.name for gate in GATES if gate.explained]
    assert [says.gate for says in why.now] == order
    assert {says.gate: says.passes for says in why.now} == {
        **dict.fromkeys(order, True),
        "guard": None,  # it lives in the engine's process
    }
    assert why.now[0].sentence == "The schedule is not paused."


def test_what_would_stand_in_the_way_now(bench: Sandbox) -> None:
    """B2 B5 B6 B8: each gate is judged by itself, with the real facts"""
    bench.budgets.set("daily", period="day", max_cost="$1.00", timezone="UTC")
    bench.throttles.set("anthropic", resets_at=datetime(2026, 3, 27, 18, tzinfo=UTC), reason="rate limited")
    bench.limits.set("global", size=1)
    settings: dict[str, Any] = {
        "provider": "anthropic",
        "max_cost": "$1.20",
        "max_executions": 1,
        "ends_at": "2026-03-27T07:00",
    }
    bench.add("s", when="0 9 * * *", job="work", **settings)
    bench.hooks.set("before:schedule:trigger", command=["/bin/true", "a b"])
    run = bench.run("s")
    why = bench.why("s")
    assert now_says(why, "ended") == (False, "Would be skipped: the end date 2026-03-27 07:00 UTC is past.")
    run_waits = f"run {run.id} of this schedule is still waiting"
    throttled = (
        f'Would be skipped: provider "anthropic" is throttled until 18:00 UTC; {run_waits} and covers this slot.'
    )
    assert now_says(why, "overlap") == now_says(why, "throttle") == (False, throttled)
    assert now_says(why, "budget") == (
        False,
        (
            'Would be over budget: budget "daily" has $1.00 left of $1.00; this run needs $1.20. '
            "It resets on 2026-03-28 00:00 UTC."
        ),
    )
    assert now_says(why, "hook") == (None, "Would run: /bin/true 'a b' (at most 15s).")


def test_room_is_told_as_it_is(bench: Sandbox) -> None:
    """B2 V3 B5: places and money that are left"""
    seen: list[Explanation] = []

    @bench.job("look")
    def look(run: JobContext) -> None:
        seen.append(bench.why("waits"))
        seen.append(bench.why("skips"))

    bench.limits.set("global", size=1)
    bench.budgets.set("daily", period="day", max_cost="$5", max_tokens="1M", timezone="UTC")
    bench.add("look", when="0 9 * * *", job="look", max_cost="$1", max_tokens="100k")
    bench.add("waits", when="0 10 * * *", job="work", max_cost="$0.50", max_tokens="1k")
    bench.add("skips", when="0 10 * * *", job="work", at_capacity="skip")
    bench.run_until("2026-03-27T09:00:00Z")
    waits, skips = seen
    assert now_says(waits, "capacity") == (False, '1 of 1 places of "global" are taken; a run would wait.')
    assert now_says(skips, "capacity") == (False, "Would be skipped: the concurrency limit is reached.")
    left = 'Budget "daily" has $4.00 left of $5.00 and 900k tokens left of 1M'
    assert now_says(waits, "budget") == (True, f"{left}; a run reserves $0.50 and 1k tokens.")
    assert now_says(bench.why("waits"), "capacity") == (True, "There is capacity.")


def test_a_provider_that_refused(bench: Sandbox) -> None:
    """B2 B6"""

    @bench.job("ask")
    def ask(run: JobContext) -> None:
        raise RateLimited("anthropic", datetime(2026, 3, 27, 12, tzinfo=UTC))

    bench.add("s", when="0 9 * * *", job="ask", provider="anthropic")
    bench.run_until("2026-03-27T09:30:00Z")
    why = bench.why("s")
    assert why.summary == '2026-03-27 09:00 UTC: Waiting: provider "anthropic" is throttled until 12:00 UTC.'
    assert why.quote == "rate limited"


def test_a_schedule_whose_settings_cannot_be_read(bench: Sandbox) -> None:
    """B2: it says so, and raises nothing"""
    bench.add("s", when="0 9 * * *", job="work")
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        transaction.insert_revision(
            int(bench.get("s").id), 2, '{"trigger": {"kind": "moonrise"}}', bench.clock.now_ms()
        )
    why = bench.why("s", at=instant("2026-03-27T09:00:00Z"))
    assert why.status == "held_back"
    assert joined(why.summary, why.quote).startswith("Broken: ")
    assert [says.gate for says in why.now] == ["paused"]
    with bench._store.transaction(bench.clock.now_ms()) as transaction:  # the log knows nothing of it
        transaction._connection.execute("DELETE FROM revisions WHERE rev = 2; UPDATE schedules SET rev = 1")


def test_looking_writes_nothing(bench: Sandbox, rows: Callable[[], list[Any]]) -> None:
    """B2: no row changes, whatever is asked"""
    bench.budgets.set("daily", period="day", max_cost="$1.00")
    bench.add("s", when="0 * * * *", job="pay", approval="owner_approve", approval_jobs=["pay"])
    bench.run_until("2026-03-27T09:30:00Z")
    bench.clock.advance_to("2026-03-27T10:30:00Z")  # a slot is overdue
    before = rows()
    for at in (None, "2026-03-27T09:00:00Z", "2026-03-27T10:00:00Z", "2026-03-29T10:00:00Z", "2026-03-01T10:00:00Z"):
        bench.why("s", at=None if at is None else instant(at))
    assert rows() == before


def test_an_unknown_name_is_an_error_with_a_hint(bench: Sandbox) -> None:
    """B2"""
    bench.add("nightly", when="0 9 * * *", job="work")
    with pytest.raises(NotFound) as caught:
        bench.why("nigthly")
    assert caught.value.hint == 'Did you mean "nightly"?'


def test_the_answer_survives_the_wire(bench: Sandbox) -> None:
    """B2: as other surfaces get it"""
    bench.add("s", when="0 9 * * *", job="work", approval="owner_approve", approval_jobs=["work"])
    bench.run_until("2026-03-27T09:00:00Z")
    answers: list[tuple[str, Any]] = [
        ("schedules.why", bench.why("s")),
        ("schedules.why", bench.why("s", at=instant("2026-03-29T09:00:00Z"))),
        ("schedules.preview", bench.preview("s")),
        ("schedules.preview_edit", bench.preview_edit("s", when="0 8 * * *")),
        ("schedules.preview_catch_up", bench.preview_catch_up("s")),
        ("system.stats", bench.system.stats()),
        ("audit.verify", bench.audit.verify()),
    ]
    for use_case, answer in answers:
        assert convert(USE_CASES[use_case], to_document(answer)) == answer
    record = bench.why("s").run
    assert record is not None
    assert record.run.state == "waiting"
