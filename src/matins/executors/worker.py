"""A worker: executors without an engine and a store. It takes orders, and gives back outcomes.

`OrderRunner` runs the orders of one store. `Worker` has one for each store that sends orders. `serve_lines` takes them
from a stream, a JSON object a line.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TextIO

import orjson

from matins.engine.jobs import SHELL
from matins.engine.placement import Node, parse_node
from matins.engine.validation import invalid
from matins.errors import InvalidInput, MatinsError
from matins.executors.agent_checks import RunnersHere
from matins.executors.agents import AgentExecutor
from matins.executors.factory import ExecutorRouter
from matins.executors.isolation import Places
from matins.executors.orders import NotHere, Order, OrderContexts, attempt_of, decode_order, encode_outcome
from matins.executors.processes.output import SUFFIXES
from matins.executors.processes.supervisor import SharedSupervisor, Supervisor
from matins.executors.python import PythonExecutor
from matins.executors.registry import JobRegistry, runners
from matins.model.clock import Clock
from matins.model.run import Outcome
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.clock import SystemClock
from matins.runtime.kept_output import Tails, tails_of

log = logging.getLogger("matins")
MAX_LABELS = 4
"""A worker waits for orders in a queue for each set of its labels."""
DEFAULT_MAX_RUNS = 16
_STORE = re.compile(r"[A-Za-z0-9-]{1,100}")


class OrderEnd(NamedTuple):
    """What became of an order."""

    store: str
    mark: Mark
    outcome: Outcome | None
    """None: nothing was started."""
    reason: str | None = None
    """Why nothing was started."""


class OrderRunner:
    """Runs the orders of one store. Journals and output are in its folder."""

    def __init__(
        self, store: str, folder: Path, home: Path, jobs: JobRegistry, clock: Clock, wake: Callable[[], None]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._store = store
        self._jobs = jobs
        self._contexts = OrderContexts()
        self._attempts: dict[Mark, Attempt] = {}
        self._supervisor = SharedSupervisor(lambda: Supervisor(folder, wake))
        self._here = here = RunnersHere(runners(), clock)
        agents = AgentExecutor(
            runners(), self._supervisor, clock, wake, self._contexts,
            workdir=str(home), places=lambda: Places(folder, home), jobs=jobs, here=here,
        )  # fmt: skip
        python = PythonExecutor(jobs, clock, wake, self._contexts, threads=8, workdir=str(home))
        self._executors = ExecutorRouter(lambda: agents, here, python, jobs.replaces)
        self._executors.start()

    @property
    def evidence(self) -> dict[str, Any]:
        """What identifies the journals of this worker, for a later question about its runs."""
        supervisor = self._supervisor()
        return {"boot": supervisor.boot, "nonce": supervisor.nonce}

    def submit(self, order: Order, since: int) -> None:
        """Start an order that belonged to this worker at `since`, in boot time. Raises NotHere."""
        attempt = attempt_of(order)
        if missing := self._missing(order, attempt):
            raise NotHere(missing)
        self._take(order, attempt)
        self._executors.renew({order.mark}, since)
        self._executors.submit([attempt])

    def ask(self, order: Order, evidence: dict[str, Any], since: int) -> None:
        """Follow an order that was begun on this machine to its end, or find that it never began."""
        if order.mark in self._attempts:
            self._executors.renew({order.mark}, since)
            return
        attempt = attempt_of(order)
        self._take(order, attempt)
        self._contexts.senders[order.mark] = evidence
        if self._executors.adoptable(attempt):
            self._executors.renew({order.mark}, since)
            self._executors.adopt([attempt])
        else:  # a function has ended with its process
            self._release(attempt)

    def renew(self, mark: Mark, since: int) -> None:
        self._executors.renew({mark}, since)

    def output(self, mark: Mark, limit: int) -> Tails:
        """The last bytes of each stream of an order, also when it has ended. Functions have none."""
        supervisor = self._supervisor.started
        if supervisor is None:
            return {}
        return tails_of(
            lambda name, at, size: supervisor.files.read_after(*mark, at, size, stream=SUFFIXES[name]), limit
        )

    def cancel(self, mark: Mark) -> None:
        self._executors.cancel({mark[0]})

    def ended(self) -> list[OrderEnd]:
        """The orders that ended since the last call."""
        found = [(end.attempt, end.outcome, None) for end in self._executors.drain()]
        found += [(attempt, None, "it cannot be started on this machine now") for attempt in self._executors.withdraw()]
        found += [(attempt, Outcome(False, lost=True), None) for attempt in self._executors.overdue()]
        known = [one for one in found if self._attempts.pop(one[0].mark, None) is not None]
        for attempt, _, _ in known:
            self._contexts.orders.pop(attempt.mark, None)
            self._contexts.senders.pop(attempt.mark, None)
        return [OrderEnd(self._store, attempt.mark, outcome, reason) for attempt, outcome, reason in known]

    def has(self, mark: Mark) -> bool:
        return mark in self._attempts

    def running(self) -> int:
        return len(self._attempts)

    def close(self) -> None:
        """Agents continue, and a later worker in this folder follows them."""
        self._executors.stop()
        self._supervisor.close()

    def _take(self, order: Order, attempt: Attempt) -> None:
        self._contexts.orders[order.mark] = order
        self._attempts[order.mark] = attempt

    def _release(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.mark, None)
        raise NotHere("A job ends with its process, and the worker was restarted.")

    def _missing(self, order: Order, attempt: Attempt) -> str | None:
        """What this worker lacks for an order."""
        job = attempt.compiled.definition.job
        if not attempt.compiled.wakes_agent or self._jobs.replaces(job):
            return None if self._jobs.get(job) else f'This worker lacks the job "{job}".'
        own: dict[str, str] = dict((order.settings or {}).get("environment") or ())
        runner = SHELL if attempt.compiled.definition.command is not None else (order.settings or {}).get("runner")
        if runner is None or "PATH" in own or f"runner:{runner}" in self._here.offers():
            return None
        return f'This worker lacks the tool "{runner}".'


class Worker:
    """Takes the orders of several stores. `wake` is called when an order has ended."""

    def __init__(
        self, home: Path, name: str | None = None, labels: Sequence[str] = (), max_runs: int | None = None,
        wake: Callable[[], None] = lambda: None, jobs: JobRegistry | None = None,
    ) -> None:  # fmt: skip
        self.node: Node = parse_node(name or socket.gethostname() or "localhost", labels, None, max_runs)
        if len(self.node.labels) > MAX_LABELS:
            raise invalid("labels", list(labels), f"at most {MAX_LABELS} labels")
        self.max_runs = self.node.max_runs or DEFAULT_MAX_RUNS
        self.clock = SystemClock()
        self.wake = wake
        self._home = home
        self._jobs = jobs or JobRegistry()
        self._lock = threading.Lock()
        self._runners: dict[str, OrderRunner] = {}

    def runner(self, store: str) -> OrderRunner:
        """The runner for the orders of a store."""
        if not _STORE.fullmatch(store):
            raise InvalidInput("This is not the name of a store.", value=store, field="store")
        with self._lock:
            if store not in self._runners:
                folder = self._home / "worker" / store
                self._runners[store] = OrderRunner(
                    store, folder, self._home, self._jobs, self.clock, lambda: self.wake()
                )
            return self._runners[store]

    def ended(self) -> list[OrderEnd]:
        return [end for runner in list(self._runners.values()) for end in runner.ended()]

    def running(self) -> int:
        return sum(runner.running() for runner in list(self._runners.values()))

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()


def serve_lines(worker: Worker, lines: Iterable[bytes], output: TextIO = sys.stdout) -> None:
    """Run orders of a stream, `{"order": …}` a line, and write what became of each, a JSON object a line. `{"renew":
    [run, epoch], "store": …}` renews a lease, `{"cancel": …}` ends a run. Returns when the stream and all orders have
    ended."""
    changes: SimpleQueue[None] = SimpleQueue()
    worker.wake = lambda: changes.put(None)
    ended = threading.Event()

    def write() -> None:
        while not (ended.is_set() and worker.running() == 0):
            changes.get()
            for end in worker.ended():
                _write(output, end)

    writer = threading.Thread(target=write, name="matins-worker", daemon=True)
    writer.start()
    for line in lines:
        try:
            refused = _take_line(worker, line)
        except MatinsError as error:
            print(orjson.dumps({"error": error.code, "message": error.message}).decode(), file=output, flush=True)
        else:
            if refused is not None:
                _write(output, refused)
    ended.set()
    changes.put(None)
    writer.join()


def _take_line(worker: Worker, line: bytes) -> OrderEnd | None:
    since = worker.clock.boot_ms()
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"This line is no JSON: {error}.", hint='Send {"order": …} in one line.') from None
    match message:
        case {"order": given}:
            order = decode_order(orjson.dumps(given))
            try:
                worker.runner(order.store).submit(order, since)
            except NotHere as error:
                return OrderEnd(order.store, order.mark, None, error.message)
        case {"renew": [int(run), int(epoch)], "store": str(store)}:
            worker.runner(store).renew((run, epoch), since)
        case {"cancel": [int(run), int(epoch)], "store": str(store)}:
            worker.runner(store).cancel((run, epoch))
        case _:
            raise InvalidInput("This line is no order.", hint='Send {"order": …} in one line.')
    return None


def _write(output: TextIO, end: OrderEnd) -> None:
    outcome = None if end.outcome is None else orjson.loads(encode_outcome(end.outcome))
    run, epoch = end.mark
    document = {"store": end.store, "run": run, "epoch": epoch, "outcome": outcome, "reason": end.reason}
    print(orjson.dumps(document).decode(), file=output, flush=True)
