"""`matins worker` runs orders of a stream on a machine without a store. Row B18."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from matins.executors.orders import Order, OrderWriter, encode_order
from matins.model.clock import Clock
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import Catalog
from matins.runtime.run_context import ContextLoader
from matins.testing import Sandbox


class Sender:
    """An engine whose attempts become orders."""

    def __init__(self, folder: Path) -> None:
        self.matins = m = Sandbox(f"sqlite:///{folder}/matins.db")
        clock: Clock = m.clock
        loader = ContextLoader(m.store, Catalog(), clock, 15_000, 60_000)
        self._writer = OrderWriter(m.store, loader, clock, m.jobs, str(folder))
        self._orders: list[Order] = []
        m.executor.before = self._take

    def _take(self, attempt: Attempt) -> None:
        order = self._writer.write(attempt)
        assert order is not None
        self._orders.append(order)

    def order(self, name: str, **changes: Any) -> dict[str, Any]:
        self.matins.run(name)
        self.matins.settle()
        return {"order": orjson.loads(encode_order(msgspec.structs.replace(self._orders.pop(), **changes)))}


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    yield made
    made.matins.close()


class WorkerProcess:
    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "matins", "--home", str(home), "worker", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment},
        )  # fmt: skip

    def send(self, document: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps(document) + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return orjson.loads(self.process.stdout.readline())

    def close(self) -> int:
        with self.process:  # closes its stdin
            pass
        return self.process.returncode


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    made = WorkerProcess(tmp_path / "there", "--label", "gpu", KEY_OF_WORKER="a-secret-of-the-worker")
    yield made
    made.close()


def test_b18_a_worker_runs_orders_and_tells_outcomes(sender: Sender, worker: WorkerProcess) -> None:
    """B18: it resolves secrets itself, redacts them, refuses what it lacks, and ends what nobody renews"""
    m = sender.matins
    script = 'echo "key $MY_KEY, attempt $MATINS_ATTEMPT"; [ -z "$1" ] || exec sleep 1000'
    m.agents.set(
        "sh",
        runner="shell",
        command=["sh", "-c", script],
        isolation="none",
        environment={"MY_KEY": "env:KEY_OF_WORKER"},
    )
    m.agents.set("long", runner="shell", command=["sh", "-c", script, "sh", "long"], isolation="none")
    m.job("report")(lambda run: "never here")
    m.add("plain", when="0 9 * * *", agent="sh", prompt="Hello")
    m.add("leased", when="0 9 * * *", agent="long", prompt="Hello", on_unknown="retry")
    m.add("job", when="0 9 * * *", job="report")
    worker.send(sender.order("plain"))
    told = worker.line()
    assert (told["run"], told["epoch"], told["outcome"]["succeeded"]) == (1, 1, True), told
    assert told["outcome"]["result"]["text"].strip() == "key [redacted], attempt 1"
    worker.send(sender.order("job"))
    told = worker.line()
    assert (told["outcome"], told["reason"]) == (None, 'This worker lacks the job "report".')
    worker.send({"order": {"v": 99}})
    assert worker.line()["message"] == "The order has version 99, and this worker reads up to 1."
    worker.send(sender.order("leased", lease_ms=400))
    told = worker.line()
    assert (told["outcome"]["lost"], told["outcome"]["result"]["ended_by"]) == (True, "lease")
    leased = sender.order("leased")
    worker.send(leased)
    worker.send({"cancel": [leased["order"]["run"], 1], "store": leased["order"]["store"]})
    assert worker.line()["outcome"]["cancelled"] is True
    assert worker.close() == 0
