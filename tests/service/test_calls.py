"""Calls: one record per delivery and schedule, on every store."""

from __future__ import annotations

import threading
from typing import Any

import every_store
import pytest

from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server = every_store.postgres_server
postgres_url = every_store.postgres_url
url = every_store.url
bench = every_store.bench
in_memory = every_store.in_memory
PR = {"action": "opened", "number": 7, "pull_request": {"number": 7, "title": "Fix it", "draft": False}}


def endpoint(bench: Sandbox, name: str = "prs", **settings: Any) -> None:
    bench.inbound.set(name, **{"kind": "github", "secret": "env:GH_SECRET", **settings})


def fire(bench: Sandbox, key: str = "d1", body: Any = PR, name: str = "prs", **more: Any) -> Any:
    return bench.calls.fire("webhook", name, key, body=body, **more)


def states(bench: Sandbox, name: str) -> list[str]:
    return [run.state for run in reversed(bench.runs.list(schedule=name))]


def test_b13_a_call_starts_a_run_of_each_schedule_that_listens(bench: Sandbox) -> None:
    """H5: the run has the call's body; the record says who called"""
    endpoint(bench)
    seen: list[Any] = []
    bench.job("review")(lambda run: seen.append((run.call.id, run.call.body["number"], run.slot)))
    bench.add("one", on={"webhook": "prs"}, job="review")
    bench.add("two", when="0 9 * * *", on={"webhook": "prs"}, job="review")
    call = fire(bench)
    assert (call.outcome, call.duplicate, [run.schedule for run in call.runs]) == ("accepted", False, ["one", "two"])
    bench.settle()
    assert seen == [("d1", 7, None), ("d1", 7, None)]
    (run,) = bench.runs.list(schedule="one")
    assert (run.state, run.request_key) == ("succeeded", "in:prs:d1")
    assert run.evidence == {"by": {"kind": "webhook", "name": "prs", "call": call.id}}
    assert bench.get("one").state == "active"
    assert bench.get("one").trigger_text == "on webhook prs"
    assert bench.get("two").trigger_text == "every day at 09:00, and on webhook prs"


def test_a_known_key_is_answered_with_the_first_run(bench: Sandbox) -> None:
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work")
    first = fire(bench)
    again = fire(bench, body={"other": True})
    assert again.duplicate
    assert (again.id, [run.id for run in again.runs]) == (first.id, [run.id for run in first.runs])
    assert len(bench.runs.list(schedule="s")) == 1
    assert [call.id for call in bench.calls.list()] == [first.id]


def test_two_deliveries_of_one_id_at_once_are_one_call(bench: Sandbox) -> None:
    """Both transactions are open at the same time where the store allows it; one of them finds the other's call."""
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work")
    answers: list[Any] = []
    together = threading.Barrier(4)

    def deliver() -> None:
        together.wait()
        answers.append(fire(bench))

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.duplicate for answer in answers) == [False, True, True, True]
    assert len({answer.id for answer in answers}) == 1
    assert len({run.id for answer in answers for run in answer.runs}) == 1
    assert len(bench.runs.list(schedule="s")) == 1


def test_without_times_each_call_waits_its_turn(bench: Sandbox) -> None:
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work")
    assert "overlap" not in bench.get("s").settings
    for number in range(3):
        fire(bench, f"d{number}")
    assert states(bench, "s") == ["ready", "queued", "queued"]
    bench.settle()
    assert states(bench, "s") == ["succeeded"] * 3
    bench.edit("s", overlap="skip")
    assert bench.get("s").settings["overlap"] == "skip"


def test_a_filter_decides_which_calls_concern_a_schedule(bench: Sandbox) -> None:
    endpoint(bench)
    conditions = {"action": ["opened", "reopened"], "pull_request.draft": False}
    bench.add("s", on={"webhook": "prs", "filter": conditions}, job="work")
    ignored = fire(bench, body={**PR, "action": "closed"})
    assert ignored.outcome == "ignored"
    assert ignored.runs == []
    assert ignored.reason == "s: The filter does not match: \"action\" is 'closed'."
    assert fire(bench, "d2").outcome == "accepted"


def test_a_paused_schedule_records_the_call_as_skipped(bench: Sandbox) -> None:
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work")
    bench.pause("s")
    (run,) = fire(bench).runs
    assert (run.state, run.reason) == ("skipped", "schedule_paused")
    bench.resume("s")
    assert fire(bench).duplicate
    assert states(bench, "s") == ["skipped"]


def test_quiet_hours_hold_for_calls_and_each_keeps_its_body(bench: Sandbox) -> None:
    """The runs wait for the end, one by one; none of them is merged with another."""
    endpoint(bench)
    bench.quiet_hours.set("nights", windows="07:00-10:00", timezone="UTC", mode="defer")
    seen: list[str] = []
    bench.job("note")(lambda run: seen.append(run.call.id))
    bench.add("s", on={"webhook": "prs"}, job="note", quiet_hours="nights")
    assert [fire(bench, key).runs[0].state for key in ("d1", "d2")] == ["waiting", "waiting"]
    bench.run_until("2026-03-27T09:59:00Z")
    assert seen == []
    bench.run_until("2026-03-27T10:01:00Z")
    assert seen == ["d1", "d2"]


def test_executions_of_calls_are_counted(bench: Sandbox) -> None:
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work", max_executions=2)
    for number in range(3):
        fire(bench, f"d{number}")
        bench.settle()
    assert states(bench, "s") == ["succeeded", "succeeded", "skipped"]
    assert bench.get("s").state == "completed"


# -- debounce


def test_debounced_calls_are_one_run_with_the_newest_body(bench: Sandbox) -> None:
    endpoint(bench)
    seen: list[Any] = []
    bench.job("note")(lambda run: seen.append((run.call.id, run.slots)))
    bench.add("s", on={"webhook": "prs", "debounce": "30s", "by": "number"}, job="note")
    first = fire(bench, "d1")
    other = fire(bench, "x1", {"number": 8})
    bench.clock.advance(20_000)
    second = fire(bench, "d2")
    assert first.runs[0].id == second.runs[0].id
    assert other.runs[0].id != first.runs[0].id
    assert (first.runs[0].state, first.runs[0].reason) == ("waiting", "debouncing")
    bench.run_until("2026-03-27T08:00:45Z")
    assert seen == [("x1", 1)]
    bench.run_until("2026-03-27T08:00:51Z")
    assert seen == [("x1", 1), ("d2", 2)]
    assert [call.key for call in bench.calls.list()] == ["d2", "x1", "d1"]
    assert fire(bench, "d1").duplicate


def test_a_run_waits_anew_ten_times_at_most(bench: Sandbox) -> None:
    endpoint(bench)
    bench.add("s", on={"webhook": "prs", "debounce": "30s"}, job="work")
    for number in range(12):
        fire(bench, f"d{number}")
        bench.clock.advance(20_000)
    (run,) = bench.runs.list(schedule="s")
    assert run.slots == 12
    assert run.not_before.isoformat() == "2026-03-27T08:03:30+00:00"  # set by the tenth


# -- rights, agents


def test_who_may_fire(in_memory: Sandbox) -> None:
    endpoint(in_memory)
    in_memory.add("s", on={"webhook": "prs"}, job="work")
    fire(in_memory)
    viewer = in_memory.acting_as(Principal("viewer", "eve"))
    (call,) = viewer.calls.list()
    assert (call.body, viewer.calls.get(1).body, in_memory.calls.get(1).body) == (None, None, PR)
    for role in ("viewer", "agent"):
        calls = in_memory.acting_as(Principal(role, "eve")).calls
        for use, arguments in ((calls.fire, ("webhook", "prs", "d9")), (calls.replay, (1,))):
            with pytest.raises(NotAllowed):
                use(*arguments)
    assert in_memory.acting_as(Principal("operator", "ada")).calls.fire("webhook", "prs", "d9").outcome == "accepted"


def test_what_an_agent_made_has_its_smallest_interval(in_memory: Sandbox) -> None:
    """Five minutes by default; a call within them is a record that says so."""
    endpoint(in_memory)
    agent = in_memory.acting_as(Principal("agent", "scout"))
    agent.add("s", on={"webhook": "prs"}, job="work")
    assert fire(in_memory, "d0").outcome == "ignored"  # not approved yet
    (approval,) = in_memory.approvals.list()
    assert "on" in approval.request["unusual"]
    in_memory.approvals.approve(approval.id)
    assert [fire(in_memory, key).runs[0].reason for key in ("d1", "d2")] == [None, "min_interval"]
    in_memory.settle()
    in_memory.clock.advance(300_000)
    assert fire(in_memory, "d3").runs[0].state == "ready"


# -- errors


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, 'A schedule needs "when" or "on".'),
        ({"on": {"webhook": "nope"}}, 'There is no inbound endpoint "nope".'),
        ({"on": {"hook": "prs"}}, '"on" needs webhook, chat or schedule.'),
        ({"on": {"webhook": "prs", "filtre": {}}}, 'A webhook call has no setting "filtre".'),
        ({"on": {"webhook": "prs", "by": "number"}}, 'on: "by" needs "debounce".'),
        (
            {"on": {"webhook": "prs", "debounce": "2h"}},
            '"on.debounce" must be a duration such as "30s", and at most 1h',
        ),
        ({"on": {"webhook": "prs", "filter": {"a": {"haz": 1}}}}, "unknown operator"),
        ({"on": {"schedule": "nope"}}, 'There is no schedule "nope".'),
        ({"on": {"schedule": "other", "outcome": "done"}}, "must be success, failure or end"),
        ({"on": [{"webhook": "prs"}, "webhook prs"]}, '"on" names the same source twice.'),
        ({"on": 5}, "must be a webhook, a chat channel or a schedule"),
    ],
)
def test_what_cannot_be_listened_to_is_refused(in_memory: Sandbox, settings: dict[str, Any], said: str) -> None:
    endpoint(in_memory)
    in_memory.add("other", when="0 9 * * *", job="work")
    with pytest.raises((InvalidInput, Conflict, NotFound)) as caught:
        in_memory.add("s", job="work", **settings)
    assert said in str(caught.value)
    assert caught.value.field in ("when", "on") or caught.value.field.startswith("on.")
    assert [schedule.name for schedule in in_memory.list()] == ["other"]


def test_an_endpoint_that_is_listened_to_is_not_deleted(in_memory: Sandbox) -> None:
    endpoint(in_memory)
    in_memory.add("s", on={"webhook": "prs"}, job="work")
    with pytest.raises(Conflict, match="s"):
        in_memory.inbound.delete("prs")
    in_memory.edit("s", on=None, when="0 9 * * *")
    assert fire(in_memory).outcome == "ignored"
    assert in_memory.inbound.delete("prs")


def test_times_can_be_taken_away(in_memory: Sandbox) -> None:
    endpoint(in_memory)
    in_memory.add("s", when="0 9 * * *", on={"webhook": "prs"}, job="work", timezone="Europe/Berlin")
    in_memory.edit("s", when=None)
    schedule = in_memory.get("s")
    assert (schedule.next_run_at, schedule.state, schedule.timezone) == (None, "active", "Europe/Berlin")
    assert schedule.settings["on"] == {"webhook": "prs"}
    with pytest.raises(InvalidInput, match='needs "when" or "on"'):
        in_memory.edit("s", when=None, on=None)


def test_a_replay_is_a_new_call_with_the_same_body(in_memory: Sandbox) -> None:
    endpoint(in_memory)
    in_memory.add("s", on={"webhook": "prs"}, job="work")
    first = fire(in_memory, type="pull_request")
    again = in_memory.calls.replay(first.id)
    assert not again.duplicate
    assert again.id != first.id
    assert in_memory.calls.get(again.id).body == PR
    assert len(in_memory.runs.list(schedule="s")) == 2


def test_old_bodies_and_calls_are_deleted(in_memory: Sandbox) -> None:
    """A body after 14 days, a key after 30; not while a run needs them."""
    endpoint(in_memory)
    in_memory.add("s", on={"webhook": "prs"}, job="work")
    call = fire(in_memory)
    in_memory.pause("s")
    in_memory.run_until("2026-04-11T09:00:00Z")
    assert in_memory.calls.get(call.id).body == PR
    in_memory.resume("s")
    in_memory.run_until("2026-04-11T12:00:00Z")
    assert in_memory.calls.get(call.id).body is None
    with pytest.raises(Conflict, match="no longer kept"):
        in_memory.calls.replay(call.id)
    in_memory.run_until("2026-04-28T09:00:00Z")
    with pytest.raises(NotFound):
        in_memory.calls.get(call.id)
    assert fire(in_memory).runs[0].id == call.runs[0].id  # the run itself is still known


# -- chat


@pytest.mark.parametrize(
    ("on", "message", "concerns"),
    [
        ({"chat": "C07"}, {"body": {"mention": True}}, True),
        ({"chat": "C07"}, {"text": "hello"}, False),
        ({"chat": "C07", "match": "any"}, {"text": "hello"}, True),
        ({"chat": "C07", "match": "!deploy"}, {"text": " !Deploy now"}, True),
        ({"chat": "C07", "match": "!deploy"}, {"text": "do not !deploy"}, False),
        ({"chat": "C07", "match": "any", "from": ["ada"]}, {"text": "x", "sender": "ada"}, True),
        ({"chat": "C07", "match": "any", "from": ["ada"]}, {"text": "x", "sender": "eve"}, False),
        ({"chat": "C08", "match": "any"}, {"text": "x"}, False),
        ({"chat": "*", "match": "any"}, {"text": "x"}, True),
    ],
)
def test_h5_chat_messages_start_runs(
    in_memory: Sandbox, on: dict[str, Any], message: dict[str, Any], concerns: bool
) -> None:
    """H5: by channel, beginning and sender"""
    in_memory.add("s", on=on, job="work")
    call = in_memory.calls.fire("chat", "C07", "1700.1", **message)
    assert bool(call.runs) is concerns


def test_only_runs_call_as_schedules(in_memory: Sandbox) -> None:
    with pytest.raises(InvalidInput, match="Only the end of a run"):
        in_memory.calls.fire("schedule", "s", "1")


def test_b16_what_was_signed_is_one_call_for_a_day(bench: Sandbox) -> None:
    """B16: under whatever key, on every store; another endpoint has its own"""
    endpoint(bench)
    endpoint(bench, "others")
    bench.add("s", on={"webhook": "prs"}, job="work")
    first = fire(bench, "a", signed="d")
    again = fire(bench, "b", signed="d")
    assert (again.id, again.duplicate, again.key) == (first.id, True, "a")
    assert not fire(bench, "c", name="others", signed="d").duplicate
    assert not fire(bench, "b", signed="e").duplicate, "a repeat took no key"
    bench.clock.advance(24 * 3_600_000 - 1)
    assert fire(bench, "d", signed="d").duplicate
    bench.clock.advance(1)
    assert not fire(bench, "f", signed="d").duplicate
    bench.engine.maintenance.prune(bench.clock.now_ms())
    assert fire(bench, "g", signed="d").key == "f"
    assert not fire(bench, "h").duplicate
    with pytest.raises(InvalidInput, match='"signed" must be text'):
        fire(bench, "i", signed="")


def test_b16_repeats_at_the_same_moment_are_one_call(bench: Sandbox) -> None:
    """B16"""
    endpoint(bench)
    bench.add("s", on={"webhook": "prs"}, job="work", overlap="allow")
    together, found = threading.Barrier(4), list[Any]()

    def deliver(key: str) -> None:
        together.wait()
        found.append(fire(bench, key, signed="d"))

    threads = [threading.Thread(target=deliver, args=[str(number)]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.duplicate for one in found) == [False, True, True, True]
    assert len({one.id for one in found}) == 1
    assert len(bench.runs.list(schedule="s")) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"signed": "{id}.{body}"}, '{id} in "signed" needs "id".'),
        ({"signed": "{id}{body}", "id": "X-Id"}, '"signed" must contain {id} once, apart from {body} and {timestamp}.'),
        ({"signed": "{body}{id}", "id": "X-Id"}, '"signed" must contain {id} once, apart from {body} and {timestamp}.'),
        ({"signed": "{id}.{id}.{body}", "id": "X-Id"}, '"signed" must contain {id} once, apart from {body} and {t'),
    ],
    ids=str,
)
def test_what_is_signed_says_where_the_id_ends(in_memory: Sandbox, settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        endpoint(in_memory, kind="hmac", header="X-Sign", **settings)
    assert str(refused.value).startswith(message)
    endpoint(in_memory, kind="hmac", header="X-Sign", signed="v1:{id}:{body}", id="X-Id")
