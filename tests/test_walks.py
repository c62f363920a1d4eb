"""The walks: how many source files of Matins a piece of work passes, and how many calls it takes.

A file is passed when one of its functions is called. What is loaded, compiled or remembered by the first of its kind is
not a part of the walk, so that each is measured once it has happened before. The numbers are ceilings, and they only
fall: who makes a walk shorter lowers them. `python tests/test_walks.py` prints today's, with the files of each walk.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import matins
from matins import Matins
from matins.app import App
from matins.executors.check_executor import CheckExecutor
from matins.mcp.app import McpApp
from matins.runtime.loop import Loop
from matins.surfaces.cli import cli
from matins.testing import ManualClock

sys.path.insert(0, str(Path(__file__).parent / "surfaces" / "http"))

from http_server import HttpServer

SOURCE = f"{Path(matins.__file__).parent}/"
START = "2026-03-27T08:00:00Z"
MINUTE_MS = 60_000
WARM = 3
"""So many of a kind go before the one that is measured."""
TRIES = 5
SLACK = 0.9
"""A ceiling that is this much too high is lowered."""
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Calls of their own in Python 3.11, and none since 3.12."""

_CLOCK = "testing.py"
"""It moves the clock, and stands for the one of the system."""


class Walk(NamedTuple):
    files: int
    calls: int


CEILINGS = {
    "a plain fire": Walk(30, 325),
    "a default interval": Walk(29, 329),
    "an agent": Walk(79, 1277),  # its threads may meet at the store, where one waits; what its slot is, is asked twice
    "an idle turn": Walk(14, 43),
    "GET of a schedule": Walk(26, 174),  # and what of a schedule another agent may read
    "a call of an MCP tool": Walk(37, 314),
    "matins add": Walk(16, 133),  # with the notes that nobody gets its answers, or that no node can run it
}


class Passed:
    """Calls of this thread, and of threads that were started under `watched` and whose names begin as `threads` says.
    Other threads look at processes and meters by real time, so that their calls cannot be counted."""

    def __init__(self, *threads: str) -> None:
        self._threads = threads
        self._codes: list[CodeType] = []
        self._counting = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        threading.setprofile(self._begin)
        try:
            yield
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]

    @contextmanager
    def counted(self) -> Iterator[None]:
        self._codes, self._counting = [], True
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._counting = False

    @property
    def files(self) -> dict[str, int]:
        """Calls in each file."""
        named = (code.co_filename for code in self._codes if code.co_name not in _INLINED)
        ours = Counter(name.removeprefix(SOURCE) for name in named if name.startswith(SOURCE))
        del ours[_CLOCK]
        return dict(ours)

    def _begin(self, frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(self._note if threading.current_thread().name.startswith(self._threads) else None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and self._counting:
            self._codes.append(frame.f_code)


Files = dict[str, int]


class Inbox:
    """The loop's inbox on a clock that is moved. It waits for the end of what runs; when nothing runs, it ends the
    loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._woken: SimpleQueue[None] = SimpleQueue()

    def put(self, item: None) -> None:
        self._woken.put(item)

    def get(self, timeout: float) -> None:
        if not self._loop.engine.unfinished():
            self._loop._stopping.set()
            raise Empty
        self._woken.get(timeout=90)


class Bench:
    """A scheduler with the loop, the executors and the store of every day, whose loop runs in the thread of the test:
    it does turns until nothing is due."""

    def __init__(self, folder: Path, passed: Passed) -> None:
        self.clock = ManualClock(START)
        self.matins = Matins(f"sqlite:///{folder}/matins.db", clock=self.clock, threads=1)
        self.matins.job("work")(lambda run: None)
        self._engine = self.matins._engine()
        self._loop = self.matins._loop = Loop(self._engine)
        assert self.matins.store.acquire(wait=True)
        self._loop._inbox = Inbox(self._loop)  # type: ignore[assignment]
        self._executor = self.matins._executors.router(self._loop.wake, 1, None, None)
        checks = self.matins._executors.checks(CheckExecutor, self._loop.wake)
        self._engine.open(self._executor, {"name": "walk"}, checks)
        with passed.watched():
            self._executor.start()

    def settle(self) -> None:
        self._loop._stopping.clear()
        self._loop._run()

    def rest(self) -> None:
        """What a minute of real time brings: an idle warden, and a thread of the supervisor that must be woken."""
        supervisor = self.matins._supervisor.started
        if supervisor is not None:
            until(lambda: not supervisor._watched and bool(supervisor._idle[False]))
            with supervisor._lock:
                supervisor._rests = True

    def close(self) -> None:
        self.settle()
        self._executor.stop()
        self._engine.checks.stop()
        self._engine.close()
        self.matins._loop = None
        self.matins._supervisor.close()
        self.matins.store.release()
        self.matins.close()


def until(fine: Callable[[], bool]) -> None:
    for _ in range(9_000):
        if fine():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def by_the_engine(folder: Path, threads: str, step_ms: int, prepare: Callable[[Matins], object]) -> Files:
    """The walk of what comes due when the clock has moved by the step."""
    passed = Passed(threads)
    bench = Bench(folder, passed)
    try:
        prepare(bench.matins)
        with passed.watched():  # the threads for agents begin with the first run for one
            for _ in range(WARM):
                bench.clock.advance(step_ms)
                bench.settle()
        bench.clock.advance(step_ms)
        bench.rest()
        with passed.counted():
            bench.settle()
        runs = bench.matins.runs.list(limit=100)
        assert {run.state for run in runs} <= {"succeeded"}
        assert len(runs) in (0, WARM + 1)
        return passed.files
    finally:
        bench.close()


def plain_fire(folder: Path) -> Files:
    add = lambda m: m.add("plain", when="* * * * *", job="work")  # noqa: E731
    return by_the_engine(folder, "matins-job", MINUTE_MS, add)


def default_interval(folder: Path) -> Files:
    """The next slot is counted from the end of the run."""
    add = lambda m: m.add("interval", when="every 1m", job="work")  # noqa: E731
    return by_the_engine(folder, "matins-job", MINUTE_MS, add)


def agent(folder: Path) -> Files:
    """Whether an agent can be isolated depends on the machine, and so it is not asked."""

    def prepare(m: Matins) -> None:
        m.agents.set("scout", runner="demo", isolation="none")
        m.add("hello", when="* * * * *", agent="scout", prompt="Say hello")

    return by_the_engine(folder, "matins-agents", MINUTE_MS, prepare)


def idle_turn(folder: Path) -> Files:
    return by_the_engine(folder, "matins-job", 10, lambda m: m.add("later", when="0 0 1 1 *", job="work"))


@contextmanager
def served(passed: Passed) -> Iterator[HttpServer]:
    with passed.watched():  # its pool begins threads when it needs them
        server = HttpServer("sqlite://", clock=ManualClock(START), start=False, parts=[McpApp("http://page.test")])
        try:
            server.matins.agents.set("scout", runner="demo")
            server.matins.add("hello", when="0 9 * * *", agent="scout", prompt="Say hello")
            yield server
        finally:
            server.close()


def over_http(method: str, path: str, body: Any = None) -> Files:
    """The walk of a request on a connection that is open already: the server's loop and its threads."""
    passed = Passed("matins-http")
    with served(passed) as server:
        loop: list[asyncio.AbstractEventLoop] = []
        app = server.server._server.config.loaded_app

        async def seen(*arguments: Any) -> None:
            loop[:] = [asyncio.get_running_loop()]
            await app(*arguments)

        server.server._server.config.loaded_app = seen
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=90)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"

        def ask() -> None:
            connection.sendall(head.encode() + content)  # in one packet, which the server reads at once
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.status == 200, response.read()
            response.read()
            for _ in range(5):  # turns of the loop, in which the server ends with what it has answered
                turned = threading.Event()
                loop[0].call_soon_threadsafe(turned.set)
                turned.wait(90)

        try:
            for _ in range(WARM):
                ask()
            with passed.counted():
                ask()
        finally:
            connection.close()
    return passed.files


def get_schedule(folder: Path) -> Files:
    return over_http("GET", "/v1/schedules/hello?agent=scout")


def mcp_call(folder: Path) -> Files:
    call = {"name": "list_schedules", "arguments": {}}
    return over_http("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})


class ClosingApp(App):
    """A process closes its connections by ending; here, the test does."""

    def __init__(self, end: ExitStack) -> None:
        self._end = end

    def transport(self, *location: Any, **named: Any) -> Any:
        made = super().transport(*location, **named)
        self._end.callback(made.close)  # type: ignore[union-attr]
        return made


def matins_add(folder: Path) -> Files:
    """The command, which asks a daemon; the daemon's own walk is that of its request."""
    passed = Passed()
    with served(passed) as server, ExitStack() as end:
        environment = {"MATINS_URL": server.url, "MATINS_TOKEN": server.token, "MATINS_HOME": str(folder), "TZ": "UTC"}

        def add(name: str) -> None:
            words = ["add", "every weekday at 9am", "-n", name, "--agent", "scout", "Say hello"]
            result = CliRunner().invoke(cli, words, obj=ClosingApp(end), env=environment)
            assert result.exit_code == 0, result.output

        for number in range(WARM):
            add(f"warm-{number}")
        with passed.counted():
            add("counted")
    return passed.files


WALKS: dict[str, Callable[[Path], Files]] = {
    "a plain fire": plain_fire,
    "a default interval": default_interval,
    "an agent": agent,
    "an idle turn": idle_turn,
    "GET of a schedule": get_schedule,
    "a call of an MCP tool": mcp_call,
    "matins add": matins_add,
}


def shortest(name: str, folder: Path) -> Files:
    """The walk by the shortest of a few ways: on a busy machine, threads may wake the loop for one more turn."""
    found: list[Files] = []
    for number in range(TRIES):
        (folder / str(number)).mkdir()
        found.append(WALKS[name](folder / str(number)))
        if sum(found[-1].values()) <= CEILINGS[name].calls:
            break
    return min(found, key=lambda files: sum(files.values()))


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_gets_no_longer(name: str, tmp_path: Path) -> None:
    files, ceiling = shortest(name, tmp_path), CEILINGS[name]
    walk = Walk(len(files), sum(files.values()))
    listed = "\n".join(f"{calls:6} {file}" for file, calls in sorted(files.items()))
    assert walk.files <= ceiling.files, f"{name} passes {walk.files} files, not {ceiling.files}:\n{listed}"
    assert walk.calls <= ceiling.calls, f"{name} takes {walk.calls} calls, not {ceiling.calls}:\n{listed}"
    assert walk.files >= ceiling.files * SLACK, f"{name} passes {walk.files} files: lower its ceiling"
    assert walk.calls >= ceiling.calls * SLACK, f"{name} takes {walk.calls} calls: lower its ceiling"


@pytest.mark.parametrize(("name", "block"), [("a plain fire", 0), ("an agent", 1)])
def test_the_page_names_what_the_walk_passes(name: str, block: int, tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = page.partition("## The walk of one fire")[2].split("```")[1::2][block]
    named = re.findall(r"^ ?\d+ +([a-z_/]+\.py)", walk, re.MULTILINE)
    assert len(named) > 10
    assert set(named) <= set(WALKS[name](tmp_path))


if __name__ == "__main__":
    for named, measure in WALKS.items():
        with tempfile.TemporaryDirectory() as temporary:
            found = measure(Path(temporary))
        print(f'"{named}": Walk({len(found)}, {sum(found.values())}),')  # noqa: T201
        if "--files" in sys.argv:
            print(*(f"{calls:6} {file}" for file, calls in sorted(found.items())), sep="\n")  # noqa: T201
