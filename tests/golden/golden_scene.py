"""A store whose records and clock are the same on every machine: something of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matins.errors import RateLimited
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"  # a Friday
NOW = "2026-03-27T12:30:00Z"
_STEPS = [
    {"title": "Collect", "prompt": "Collect the changes", "agent": "scout"},
    {"title": "Check", "job": "fail", "after": ["Collect"]},
    {"title": "Publish", "prompt": "Publish them", "agent": "scout", "after": ["Check"]},
]


def _fail(run: object) -> None:
    raise ValueError("no luck")


def _limited(run: object) -> None:
    raise RateLimited("anthropic", reason="weekly limit")


@contextmanager
def scene(folder: Path) -> Iterator[Sandbox]:
    bench = Sandbox(f"sqlite:///{folder}/matins.db", clock=ManualClock(START))
    try:
        _jobs(bench)
        _records(bench)
        _schedules(bench)
        _happenings(bench)
        yield bench
    finally:
        bench.engine.close()
        bench.close()


def _jobs(bench: Sandbox) -> None:
    bench.job("tidy", help="Does nothing.")(lambda run: None)
    bench.job("fail", help="Always fails.")(_fail)
    bench.job("limited", help="Meets a limit.")(_limited)
    bench.job("scheduled-task")(lambda run: {"text": "Hello, and good morning."})


def _records(bench: Sandbox) -> None:
    bench.agents.set("scout", runner="demo", model="small", max_cost="$2", isolation="none")
    bench.agents.set(
        "writer", runner="shell", command=["./write.sh", "--once"], workdir="/srv/writer", isolation="none"
    )
    bench.budgets.set("daily", max_cost="$5", period="day")
    bench.quiet_hours.set("night", windows=["22:00-06:00"])
    bench.limits.set("global", size=40)
    bench.people.set("ada", role="operator", email="ada@example.org")
    bench.prices.set("house/small", input="$1", output="$2")
    bench.rates.set("EUR", usd=1.1)
    bench.inbound.set("prs", kind="github", secret="env:GH_SECRET")
    bench.work_sources.set("todo", kind="tasks", path="/srv/TASKS.yaml")


def _schedules(bench: Sandbox) -> None:
    bench.add("report", when="every day at 9am", agent="scout", prompt="Write the morning report",
              description="For the whole team", labels={"team": "core"})  # fmt: skip
    bench.add("backup", when="every 1h", job="tidy", timezone="Europe/Berlin", quiet_hours="night")
    bench.add("broken", when="*/30 * * * *", job="fail", retries=0, failure_backoff="none")
    bench.add("limited", when="0 10 * * *", job="limited", retries=0)
    bench.add("deploy", when="0 11 * * 1-5", agent="scout", prompt="Deploy it", approval="owner_approve")
    bench.add("resting", when="every monday at 7:15", job="tidy")
    bench.pause("resting", note="the disk is full", until="2026-03-28T08:00:00Z")
    bench.add("once", when="2026-03-27T09:30:00Z", job="tidy")
    bench.add("finishing", when="*/20 * * * *", job="tidy", max_executions=3)
    bench.add("called", on={"webhook": "prs"}, job="tidy")
    bench.add("yearly", when="0 0 1 1 *", agent="writer", prompt="Take stock")
    bench.missions.make("release", agent="scout", steps=_STEPS)


def _happenings(bench: Sandbox) -> None:
    bench.run_until("2026-03-27T12:00:00Z")
    bench.run("release")
    bench.run("report")
    bench.calls.fire("webhook", "prs", "delivery-1", body={"action": "opened"}, type="pull_request", sender="ada")
    bench.settle()
    bench.outbox.run_once(bench.clock.now_ms())
    bench.run_until(NOW)
    bench.outbox.run_once(bench.clock.now_ms())
    # Only now: nothing is sent to them.
    bench.destinations.set("phone", kind="webhook", url="https://example.invalid/phone")
    bench.notify.set(to=["phone"])
    bench.webhooks.set("ledger", url="https://example.invalid/ledger", secret="env:HOOK_SECRET", types=["run.failed"])
