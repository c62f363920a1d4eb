"""The dead-man heartbeat: a call outside while all is well, silence when it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from matins import Matins
from matins.errors import StoreUnavailable
from matins.model.access import Principal
from matins.net.outbound import AddressRefused, Response, Unreachable
from matins.runtime.engine import EngineOptions
from matins.runtime.heartbeat import MAX_LAG_MS, MAX_TURN_AGE_MS, ExternalHeartbeat, Figures, is_healthy, problems
from matins.testing import Sandbox
from net.sites import http_site
from service.file_steps import Desk

URL = "https://hc.example.com/ping/key17"
FINE = Figures(turn_age_ms=0, reachable=True, lag_ms=0)
PATIENCE = 90


class FakeDoor:
    """Notes every call, and answers as a test says."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.answer: Response | Exception = Response(200, b"OK", {})

    def send(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
        self.calls.append((method, url))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def door() -> FakeDoor:
    return FakeDoor()


@pytest.fixture
def deadman(bench: Sandbox, door: FakeDoor) -> ExternalHeartbeat:
    """Watches the engine of the bench."""
    made = ExternalHeartbeat(EngineOptions(heartbeat_url=URL), door)  # type: ignore[arg-type]
    return made.watch(bench._store, bench.clock, lambda: bench.engine.turned_at)


@pytest.mark.parametrize(
    ("figures", "wrong"),
    [
        (FINE, []),
        (FINE._replace(turn_age_ms=MAX_TURN_AGE_MS), []),
        (FINE._replace(turn_age_ms=MAX_TURN_AGE_MS + 1), ["the engine has not completed a turn for 30 s"]),
        (FINE._replace(reachable=False), ["the store does not answer"]),
        (FINE._replace(lag_ms=MAX_LAG_MS - 1), []),
        (FINE._replace(lag_ms=MAX_LAG_MS), ["a due schedule has waited for 60 s"]),
        (Figures(99_000, False, 99_000), ["the engine has not completed a turn for 99 s", "the store does not answer",
                                          "a due schedule has waited for 99 s"]),
    ],
)  # fmt: skip
def test_b14_what_well_means(figures: Figures, wrong: list[str]) -> None:
    """B14"""
    assert problems(figures) == wrong
    assert is_healthy(figures) == (wrong == [])


def test_b14_a_call_while_all_is_well(bench: Sandbox, deadman: ExternalHeartbeat, door: FakeDoor) -> None:
    """B14"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    assert deadman.beat() is True
    assert door.calls == [("GET", URL)]


def test_b14_silence_when_the_engine_stands_still(
    bench: Sandbox, deadman: ExternalHeartbeat, door: FakeDoor, caplog: pytest.LogCaptureFixture
) -> None:
    """B14: and a call again when it turns"""
    bench.settle()
    bench.clock.advance(MAX_TURN_AGE_MS + 1)
    assert deadman.beat() is False
    assert door.calls == []
    assert "No heartbeat was sent: the engine has not completed a turn for 30 s" in caplog.text
    bench.settle()
    assert deadman.beat() is True


def test_b14_a_clock_that_is_stepped_is_no_standstill(bench: Sandbox, deadman: ExternalHeartbeat) -> None:
    """B14: stillness is measured by boot time"""
    bench.settle()
    bench.clock.step(3_600_000)
    assert deadman.beat() is True


def test_b14_silence_when_what_is_due_is_not_planned(
    bench: Sandbox, deadman: ExternalHeartbeat, door: FakeDoor
) -> None:
    """B14: also if the engine turns and turns"""
    deadman.watch(bench._store, bench.clock, bench.clock.boot_ms)
    bench.add("s", when="0 9 * * *", job="work")
    bench.clock.advance_to("2026-03-27T09:00:59Z")
    assert deadman.beat() is True
    bench.clock.advance_to("2026-03-27T09:01:00Z")
    assert deadman.beat() is False
    bench.settle()
    assert deadman.beat() is True


def test_b14_silence_when_the_store_does_not_answer(bench: Sandbox, door: FakeDoor) -> None:
    """B14"""

    class Silent:
        @contextmanager
        def reading(self) -> Iterator[Any]:
            raise StoreUnavailable("no answer")
            yield

    deadman = ExternalHeartbeat(EngineOptions(heartbeat_url=URL), door)  # type: ignore[arg-type]
    deadman.watch(Silent(), bench.clock, bench.clock.boot_ms)  # type: ignore[arg-type]
    assert deadman.beat() is False
    assert door.calls == []


@pytest.mark.parametrize("answer", [Unreachable("nobody there"), Response(500, b"", {}), Response(404, b"", {})])
def test_b14_a_call_that_does_not_arrive_is_said_without_the_key(
    deadman: ExternalHeartbeat, door: FakeDoor, caplog: pytest.LogCaptureFixture, answer: Response | Exception
) -> None:
    """B14: and made again the next time"""
    door.answer = answer
    assert deadman.beat() is False
    assert "did not arrive" in caplog.text
    assert "key17" not in caplog.text
    door.answer = Response(204, b"", {})
    assert deadman.beat() is True


def test_b14_a_slow_beat_of_the_workers_is_respected(bench: Sandbox, door: FakeDoor) -> None:
    """B14: three beats, when they are longer than half a minute"""
    settings = EngineOptions(heartbeat_url=URL, beat_ms=20_000)
    deadman = ExternalHeartbeat(settings, door)  # type: ignore[arg-type]
    assert deadman.watch(bench._store, bench.clock, lambda: bench.clock.boot_ms() - 60_000).beat() is True
    assert deadman.watch(bench._store, bench.clock, lambda: bench.clock.boot_ms() - 60_001).beat() is False


@pytest.mark.parametrize(
    "url", ["", "hc.example.com", "ftp://hc.example.com/", "https://me:pw@hc.example.com/", "https://"]
)
def test_b14_a_bad_url_is_refused_at_once(url: str) -> None:
    """B14"""
    with pytest.raises(AddressRefused) as caught:
        Matins(heartbeat_url=url)
    assert caught.value.hint


class Heard(list[Any]):
    """A list that says when something is put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.more = threading.Semaphore(0)

    def append(self, item: Any) -> None:
        super().append(item)
        self.more.release()


def test_b14_a_scheduler_that_runs_is_heard_outside() -> None:
    """B14: a real server, on a host that only its owner's word allows; silence after the stop"""
    before = set(threading.enumerate())
    with http_site() as site:
        site.seen = heard = Heard()
        m = Matins(heartbeat_url=site.url("/ping"), heartbeat_every_ms=5)
        for _ in range(2):
            with m:
                for _ in range(3):
                    assert heard.more.acquire(timeout=PATIENCE)
        m.close()
        assert {(method, path) for method, path, _, _ in heard} == {("GET", "/ping")}
        assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "matins-deadman"]


def test_b14_the_file_says_who_is_called(bench: Sandbox, door: FakeDoor, tmp_path: Path) -> None:
    """B14: from the next beat on after a reload; its key is nobody's to read, and a bad address changes nothing"""
    deadman = ExternalHeartbeat(EngineOptions(), door)  # type: ignore[arg-type]
    deadman.watch(bench._store, bench.clock, bench.clock.boot_ms, bench._loader.policies)
    desk = Desk(bench, tmp_path / "matins.yaml", "schedules: {s: {when: 1h, job: work}}\n")
    assert (desk.look(), deadman.beat(), door.calls) == ("applied", False, [])
    for url in (URL, "http://127.0.0.1:9/ping/key18"):
        desk.write(f"heartbeat: {url}\nschedules: {{s: {{when: 1h, job: work}}}}\n")
        assert "key1" not in str(bench.acting_as(Principal("viewer", "bob")).file.plan())
        assert (desk.look(), deadman.beat(), door.calls[-1]) == ("applied", True, ("GET", url))
    assert "key1" not in str(bench.events.list())
    desk.write("heartbeat: ftp://hc.example.com/\nschedules: {s: {when: 1h, job: work}}\n")
    assert desk.look() == "invalid"
    assert "line 1, column 12: heartbeat: " in desk.file.state.message
    assert (deadman.beat(), len(door.calls)) == (True, 3)
    desk.write("schedules: {s: {when: 1h, job: work}}\n")
    assert (desk.look(), deadman.beat(), len(door.calls)) == ("applied", False, 3)


def test_b14_what_the_program_says_comes_before_the_file(
    bench: Sandbox, deadman: ExternalHeartbeat, door: FakeDoor
) -> None:
    """B14"""
    bench.heartbeat.set(url="https://hc.example.com/other")
    deadman.watch(bench._store, bench.clock, bench.clock.boot_ms, bench._loader.policies)
    assert (deadman.beat(), door.calls) == (True, [("GET", URL)])
