"""Hooks that learn how runs end: once for each run, and nothing follows from how they end themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from matins.testing import Sandbox, instant

Heard = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    """What the command `tell` was told, oldest first."""
    return lambda: [json.loads(path.read_text()) for path in sorted(tmp_path.glob("heard.*"))]


@pytest.fixture
def tell(tmp_path: Path) -> str:
    """Keeps what it is told, in a file for each call."""
    return f"cat > {tmp_path}/heard.$MATINS_RUN_ID.$MATINS_STATE"


def deliver(bench: Sandbox) -> None:
    bench.outbox.run_once(bench.clock.now_ms())


def failures(bench: Sandbox) -> list[tuple[str, str]]:
    with bench._store.reading() as transaction:
        events = transaction.events_after(0, 10_000)
    found = [json.loads(event.data or "{}") for event in events if event.type == "hook.failed"]
    return [(data["hook"], data["message"]) for data in found]


def test_p7_a_schedules_own_hook_learns_how_a_run_ended(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7: in the words of the hook before it, with the outcome and the event"""
    bench.job("answer")(lambda run: {"answer": 42})
    bench.add("s", when="0 9 * * *", job="answer", agent="scout", payload=[1], after_run=tell)
    bench.run_until("2026-03-27T09:00:00Z")
    assert heard() == []
    deliver(bench)
    deliver(bench)
    (told,) = heard()
    (run,) = bench.assert_ran("s", times=1)
    event = told.pop("cloudevent")
    assert told == {
        "event": "after:run",
        "schedule": "s",
        "schedule_id": run.schedule_id,
        "agent": "scout",
        "run_id": run.id,
        "slot": instant("2026-03-27T09:00:00Z"),
        "attempt": 1,
        "job": "answer",
        "payload": [1],
        "input": [1],
        "state": "succeeded",
        "reason": None,
        "outcome": {"result": {"answer": 42}},
        "started_at": instant("2026-03-27T09:00:00Z"),
        "ended_at": instant("2026-03-27T09:00:00Z"),
    }
    assert (event["type"], event["runid"]) == ("matins.run.succeeded", run.id)


def test_it_is_told_in_its_environment_too(bench: Sandbox, tmp_path: Path) -> None:
    """P7"""
    bench.add(
        "s", when="0 9 * * *", job="fail", agent="scout", after_run=f"env | grep ^MATINS_ | sort > {tmp_path}/seen"
    )
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    (run,) = bench.runs.list(schedule="s")
    *told, warden = (tmp_path / "seen").read_text().split()
    assert warden.startswith("MATINS_WARDEN=")  # by which its processes are found
    assert told == [
        "MATINS_AGENT=scout",
        "MATINS_EVENT=after:run",
        "MATINS_REASON=failed",
        f"MATINS_RUN_ID={run.id}",
        "MATINS_SCHEDULE=s",
        f"MATINS_SLOT={instant('2026-03-27T09:00:00Z')}",
        "MATINS_STATE=failed",
    ]


def test_a_hook_for_all_learns_of_every_end(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7 B1: also of runs that never started"""
    bench.hooks.set("after:run", command=tell)
    bench.add("good", when="0 9 * * *", job="work")
    bench.add("bad", when="0 9 * * *", job="fail")
    bench.add("over", when="0 9 * * *", job="work", ends_at="2026-03-27T08:30")
    bench.add("asleep", when="0 9 * * *", job="work", grace="1m")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.clock.advance(26 * 3_600_000)
    bench.settle()
    deliver(bench)
    ends = [(told["schedule"], told["state"]) for told in heard()]
    assert {("good", "succeeded"), ("bad", "failed"), ("over", "skipped"), ("asleep", "missed")} <= set(ends)
    runs = sum(len(bench.runs.list(schedule=schedule.name)) for schedule in bench.list())
    assert len(ends) == runs


def test_one_that_is_cancelled_by_hand_is_over_too(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7: whoever ends it"""
    bench.add("s", when="0 9 * * *", job="work", after_run=tell)
    bench.runs.cancel(bench.run("s").id)
    deliver(bench)
    assert [told["state"] for told in heard()] == ["cancelled"]


def test_a_retry_is_not_an_end(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7"""
    bench.add("s", when="0 9 * * *", job="fail", retries=2, after_run=tell)
    bench.run_until("2026-03-27T10:00:00Z")
    deliver(bench)
    assert [(told["state"], told["attempt"]) for told in heard()] == [("failed", 3)]


def test_the_run_goes_by_the_words_that_it_was_planned_under(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7 V7: a hook that is set or taken away later is not for it"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.edit("s", after_run=tell)
    deliver(bench)
    bench.run_until("2026-03-28T09:00:00Z")
    bench.edit("s", after_run=None)
    deliver(bench)
    bench.run_until("2026-03-29T09:00:00Z")
    deliver(bench)
    assert [told["slot"] for told in heard()] == [instant("2026-03-28T09:00:00Z")]


def test_what_was_over_before_the_hook_was_set_is_not_told(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7: and what ends after it was taken away is not either"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.hooks.set("after:run", command=tell)
    bench.run_until("2026-03-28T09:00:00Z")
    deliver(bench)
    assert [told["slot"] for told in heard()] == [instant("2026-03-28T09:00:00Z")]
    bench.hooks.delete("after:run")
    bench.run_until("2026-03-29T09:00:00Z")
    deliver(bench)
    assert len(heard()) == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo so what >&2; exit 3", "exit code 3: so what"),
        ("sleep 30", "the command did not end within 1 s"),
        ("kill -9 $$", "ended by SIGKILL"),
    ],
)
def test_a_hook_that_fails_is_recorded_and_changes_nothing(bench: Sandbox, command: str, said: str) -> None:
    """P7: it ran, so it is not run again"""
    bench.add("s", when="0 9 * * *", job="work", after_run=command, check_timeout="1s")
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    bench.clock.advance(3_600_000)
    deliver(bench)
    assert failures(bench) == [("after", said)]
    (run,) = bench.assert_ran("s", times=1)
    (check,) = bench.runs.checks(run.id)
    assert (check.gate, check.verdict, check.reason) == ("after", "fail", said)
    assert bench.subscriptions.deliveries("hooks") == []
    assert bench.get("s").failures == 0


def test_both_hooks_run_and_what_they_print_is_kept(bench: Sandbox) -> None:
    """P7: that of the schedule also when the one for all fails"""
    bench.hooks.set("after:run", command="echo one; exit 1")
    bench.add("s", when="0 9 * * *", job="work", after_run=["/bin/echo", "two"])
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    checks = bench.runs.checks(bench.runs.list(schedule="s")[0].id)
    assert [(check.gate, check.exit_code, check.output) for check in checks] == [
        ("after", 0, "two\n"),
        ("file_after", 1, "one\n"),
    ]
    assert failures(bench) == [("file_after", "exit code 1")]


def test_a_hook_that_asks_to_cancel_comes_too_late(bench: Sandbox) -> None:
    """P7: there is nothing left to cancel, and that is no failure"""
    bench.add("s", when="0 9 * * *", job="work", after_run="""echo '{"cancel": true, "reason": "no"}'""")
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert failures(bench) == []


def test_a_run_that_is_forgotten_meanwhile_is_let_go(bench: Sandbox, tell: str, heard: Heard) -> None:
    """P7"""
    bench.hooks.set("after:run", command=tell)
    bench.add("s", when="0 9 * * *", job="work", after_run=tell)
    bench.run_until("2026-03-27T09:00:00Z")
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        transaction.delete_runs([bench.runs.list(schedule="s")[0].id])
    deliver(bench)
    assert heard() == []
    assert bench.subscriptions.deliveries("hooks") == []


def test_without_hooks_there_is_no_subscription_for_them(bench: Sandbox, tell: str) -> None:
    """P7: it is made by the first hook, in its own words or for all"""
    bench.add("s", when="0 9 * * *", job="work", before_run="true", pre_check="true")
    bench.hooks.set("before:schedule:trigger", command="true")
    with bench._store.reading() as transaction:
        assert [found.name for found in transaction.subscriptions()] == ["incidents", "texts"]
    bench.edit("s", after_run=tell)
    with bench._store.reading() as transaction:
        assert [(found.name, found.kind) for found in transaction.subscriptions()][:1] == [("hooks", "hook")]


def test_a_run_without_a_hook_is_not_put_into_the_outbox(bench: Sandbox) -> None:
    """P7"""
    bench.add("with", when="0 9 * * *", job="work", after_run="true")
    bench.add("without", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    taken: list[str] = []

    class Hands:
        def take(self, queue: Any) -> None:
            taken.extend(delivery.cloud_event["schedulename"] for delivery in queue.deliveries)

        def drain(self) -> list[Any]:
            return []

    bench.outbox._workers = Hands()
    deliver(bench)
    assert taken == ["with"]


def test_a_hook_is_not_held_up_by_that_of_another_schedule(bench: Sandbox, tmp_path: Path) -> None:
    """P7: the lanes of the hooks are handed out together"""
    for name in ("a", "b", "c"):
        bench.add(name, when="0 9 * * *", job="work", after_run="true")
    bench.run_until("2026-03-27T09:00:00Z")
    taken: list[int] = []

    class Hands:
        def take(self, queue: Any) -> None:
            taken.append(queue.schedule_id)

        def drain(self) -> list[Any]:
            return []

    bench.outbox._workers = Hands()
    deliver(bench)
    assert len(set(taken)) == 3
