"""Destinations that hang, refuse, or are gone: nothing waits for them, and the others hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from outbox_recorder import HOUR, deliver, let_pass

from matins import Matins
from matins.testing import ManualClock, Sandbox
from standins.inbox import Inbox, open_inbox

START = "2026-03-27T08:00:00Z"
PATIENCE_S = 60


@pytest.fixture
def other() -> Iterator[Inbox]:
    with open_inbox() as found:
        yield found


@pytest.fixture
def bench(inbox: Inbox, other: Inbox) -> Iterator[Sandbox]:
    found = Sandbox(clock=ManualClock(START))
    found.destinations.set("ops", kind="webhook", url=inbox.url)
    found.destinations.set("phone", kind="webhook", url=other.url)
    found.notify.set(to=["ops"])
    found.jobs["work"] = fail
    found.add("nightly", when="0 9 * * *", job="work")
    yield found
    found.close()


def fail(run: object) -> None:
    raise ValueError("no disk left")


def test_what_cannot_be_delivered_is_sent_to_the_others(bench, inbox, other):
    """B17: 20 attempts, then the other destinations hear of it, although only this one was asked for."""
    inbox.status = 503
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 30 * HOUR)
    assert len(inbox.received) == 20
    assert other.titles == ['✗ Messages do not arrive at "ops"']
    assert "the destination answered 503" in other.received[0].document["text"]
    assert bench.runs.list(schedule="nightly")[0].state == "failed"
    inbox.status = 200
    bench.destinations.set("ops", kind="webhook", url=inbox.url)
    let_pass(bench, 1)
    assert [found.kind for found in bench.incidents.list()] == ["failed"]


def test_a_notice_has_the_same_id_at_each_attempt(bench, inbox):
    """B21: a receiver can tell a repetition from another message."""
    inbox.status = 503
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    tries = len(inbox.received)
    inbox.status = 200
    let_pass(bench, HOUR)
    bench.jobs["work"] = lambda run: None
    bench.run("nightly")
    bench.settle()
    let_pass(bench, HOUR)
    ids = [one.headers["webhook-id"] for one in inbox.received]
    assert tries > 2
    assert (inbox.titles[-1].startswith("✓ nightly recovered"), len(set(ids[:-1])), ids[-1] in ids[:-1]) == (
        True,
        1,
        False,
    )


def test_a_destination_that_is_gone_is_paused_until_it_is_set_again(bench, inbox, other):
    inbox.status = 410
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert len(inbox.received) == 1
    assert bench.destinations.get("ops").state == "paused"
    let_pass(bench, 13 * HOUR)
    assert other.titles == ['✗ Messages do not arrive at "ops"']
    assert "undelivered" in [found.kind for found in bench.incidents.list()]  # it is not over by being quiet
    inbox.status = 200
    bench.destinations.edit("ops", max_per_hour=9)
    let_pass(bench, 1)
    assert inbox.titles[1:] == ["✗ nightly failed"]
    assert bench.destinations.get("ops").state == "active"
    assert [found.kind for found in bench.incidents.list()] == ["failed"]


@pytest.mark.parametrize(("lost", "resolution"), [(1, "quiet"), (2, None)])
def test_a_destination_that_refused_a_message_is_in_trouble_until_an_hour_passes_without_another(
    bench, inbox, other, lost, resolution
):
    inbox.status = 400
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR // 2)
    if lost == 2:
        bench.jobs["work"] = lambda run: int("no number")  # another error, of which the destination is told at once
        bench.run("nightly")
        bench.settle()
    let_pass(bench, HOUR)
    [found] = [one for one in bench.incidents.list(all=True) if one.kind == "undelivered"]
    assert (found.resolution, found.count) == (resolution, lost)
    assert len(other.titles) == lost


def test_429_is_left_alone_for_as_long_as_it_asks(bench, inbox):
    inbox.status, inbox.headers = 429, {"retry-after": "600"}
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    inbox.status = 200
    let_pass(bench, 599_000)
    assert len(inbox.received) == 1
    let_pass(bench, 60_000)
    assert len(inbox.received) == 2


def test_a_destination_that_hangs_delays_no_run_and_no_other_destination(inbox, other):
    """B17: real threads; the first destination holds its request open while runs start and end."""
    inbox.released.clear()
    with Matins() as m:
        m.destinations.set("ops", kind="webhook", url=inbox.url)
        m.destinations.set("phone", kind="webhook", url=other.url)
        m.jobs["work"], m.jobs["fine"] = fail, lambda run: None
        m.add("nightly", when="0 0 1 1 *", job="work")
        m.add("daily", when="0 0 1 1 *", job="fine")
        assert m.runs.wait(m.run("nightly").id).state == "failed"
        assert inbox.arrived.acquire(timeout=PATIENCE_S)
        assert other.arrived.acquire(timeout=PATIENCE_S)
        for _ in range(3):
            assert m.runs.wait(m.run("daily").id).state == "succeeded"
        assert m.runs.list(schedule="nightly")[0].state == "failed"
        inbox.released.set()
        until(lambda: m.subscriptions.deliveries("notify:ops") == [])


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline


def test_a_ping_says_how_each_run_begins_and_ends(inbox):
    """B14, B17: in the way of Healthchecks."""
    bench = Sandbox(clock=ManualClock(START))
    bench.jobs["work"] = lambda run: None
    bench.add("good", when="0 9 * * *", job="work", ping=f"{inbox.url}/ping/good")
    bench.add("plain", when="0 10 * * *", job="work", ping=f"{inbox.url}/plain?x=1", ping_style="plain")
    bench.add("silent", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T10:00:00Z")
    deliver(bench)
    bench.jobs["work"] = fail
    bench.run_until("2026-03-28T10:00:00Z")
    deliver(bench)
    paths = [one.path.partition("?rid=") for one in inbox.received]
    assert [path for path, _, _ in paths] == [
        "/ping/good/start", "/ping/good", "/plain?x=1", "/ping/good/start", "/ping/good/fail",
    ]  # fmt: skip
    rids = [rid for _, _, rid in paths]
    assert rids[0] == rids[1] != rids[3] == rids[4]
    assert inbox.received[-1].text == "Failed: ValueError: no disk left."
    inbox.status = 500
    bench.run_until("2026-03-29T09:00:00Z")
    let_pass(bench, HOUR)
    assert len(inbox.received) - 5 == 3 + 3  # the start and the end, three attempts each
    bench.close()


def test_a_ping_of_success_sends_no_answer_of_the_agent(tmp_path, inbox):
    """B17: what an agent says stays here; a failure is told with its last lines"""
    with Matins(f"sqlite:///{tmp_path}/m.db") as m:
        for name, command in (("good", "echo the answer"), ("bad", "echo the reason; exit 3")):
            m.agents.set(name, runner="shell", command=["sh", "-c", command])
            m.add(name, when="0 0 1 1 *", agent=name, prompt="Go.", ping=f"{inbox.url}/{name}")
            m.runs.wait(m.run(name).id, timeout=60)
        until(lambda: len(inbox.received) == 4)
    told = {one.path.partition("?")[0]: one.text for one in inbox.received}
    assert (told["/good/start"], told["/good"], told["/bad/start"]) == ("", "", "")
    assert "the reason" in told["/bad/fail"]


def test_a_message_has_the_last_lines_of_the_output_without_secrets(tmp_path, inbox, monkeypatch):
    """B17: a real process; what the agent printed of its secret is redacted."""
    monkeypatch.setenv("API_KEY", "sk-very-secret-0123456789")
    with Matins(f"sqlite:///{tmp_path}/m.db") as m:
        m.destinations.set("ops", kind="webhook", url=inbox.url)
        command = ["sh", "-c", 'echo "step 1"; echo "key $API_KEY" >&2; exit 3']
        m.agents.set("scout", runner="shell", command=command, environment={"API_KEY": "env:API_KEY"})
        m.add("nightly", when="0 0 1 1 *", agent="scout", prompt="Go.")
        assert m.runs.wait(m.run("nightly", agent="scout").id).state == "failed"
        assert inbox.arrived.acquire(timeout=PATIENCE_S)
    document = inbox.received[0].document
    assert "sk-very-secret" not in inbox.received[0].text
    assert document["output"].startswith("step 1\nkey ")
    assert "exit code 3" in document["text"]


def test_a_webhook_with_text_gets_the_answer_that_the_log_does_not_have(inbox, monkeypatch):
    """B21: only where the owner says so; it is added when the event is sent."""
    monkeypatch.setenv("HOOK", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    with closing(Sandbox(clock=ManualClock(START))) as bench:
        bench.allowed_hosts.set(hosts=["127.0.0.1"])
        for name, more in (("plain", {}), ("told", {"text": True})):
            url, types = f"{inbox.url}/{name}", ["run.succeeded", "run.failed"]
            bench.webhooks.set(name, url=url, types=types, secret="env:HOOK", **more)
        bench.jobs["report"] = lambda run: "Two are open."
        bench.jobs["work"] = fail
        for name in ("report", "work"):
            bench.add(name, when="0 9 * * *", job=name)
        bench.run_until("2026-03-27T09:00:00Z")
        let_pass(bench, HOUR)
        assert bench.webhooks.get("told").text
        logged = [event.data for event in bench.events.list() if event.type == "run.succeeded"]
    texts = {
        (one.path, one.document["type"].rpartition(".")[2]): one.document["data"].get("text") for one in inbox.received
    }
    assert texts == {
        ("/plain", "succeeded"): None, ("/plain", "failed"): None,
        ("/told", "succeeded"): "Two are open.", ("/told", "failed"): None,
    }  # fmt: skip
    assert "Two are open." not in str(logged)
