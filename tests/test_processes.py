"""Matins in several processes: children of a fork, and engines that stand by."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import postgres_fixtures
from matins import Matins, StoreError

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
YEARLY = "0 0 1 1 *"
HOLDS = (
    "import sys; from matins import Matins; m = Matins(sys.argv[1]); m.job('work')(print); m.start();"
    "m.add('a', when='0 0 1 1 *', job='work'); print('up', flush=True); sys.stdin.read()"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    postgres = request.param == "postgresql"
    return request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path}/matins.db"


def in_child(act: Callable[[], object]) -> int:
    """The exit status of a forked child that does this."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:
            sys.stderr.write(repr(error))
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_s7_what_has_not_started_is_used_on_both_sides_of_a_fork(url: str) -> None:
    """S7: a web server loads the program once, and forks. Neither side disturbs the other."""
    with closing(Matins(url)) as m:
        m.job("work")(lambda run: None)
        m.add("before", when=YEARLY, job="work")

        def use() -> None:
            assert m.get("before").name == "before"
            m.add("child", when=YEARLY, job="work")
            m.close()

        assert in_child(use) == 0
        assert in_child(m.close) == 0
        m.add("parent", when=YEARLY, job="work")
        assert {schedule.name for schedule in m.list()} == {"before", "child", "parent"}
        assert m.audit.verify().problems == []


def test_what_has_not_started_starts_in_a_child(url: str) -> None:
    """S7: with the jobs that it had before."""
    with closing(Matins(url)) as m:
        ran = threading.Event()
        m.job("work")(lambda run: ran.set())
        m.add("a", when=YEARLY, job="work")

        def work() -> None:
            with m:
                m.run("a")
                assert ran.wait(60)

        assert in_child(work) == 0
        assert [run.state for run in m.runs.list(schedule="a")] == ["succeeded"]


def test_what_has_started_refuses_in_a_child(url: str) -> None:
    """S2: its threads are not there. Leaving it there stops nothing."""
    with closing(Matins(url)) as m:
        ran = threading.Event()
        m.job("work")(lambda run: ran.set())
        m.start()
        m.add("a", when=YEARLY, job="work")

        def use() -> None:
            for call in (m.list, m.start, lambda: m.add("child", when=YEARLY, job="work")):
                with pytest.raises(StoreError, match="was started in process"):
                    call()
            m.stop()
            m.close()

        assert in_child(use) == 0
        m.run("a")
        assert ran.wait(60)


def test_s2_who_stands_by_takes_over_when_the_engine_is_killed(tmp_path: Path) -> None:
    """S2: its calls go to the engine meanwhile."""
    url = f"sqlite:///{tmp_path}/matins.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "up\n"
        ran = threading.Event()
        with closing(Matins(url)) as m:
            m.job("work")(lambda run: ran.set())
            assert m.start() is m
            assert m.start() is m
            m.pause("a")
            assert m.get("a").state == "paused"
            assert m._loop is None
            engine.kill()
            engine.wait(60)
            m.resume("a")
            m.run("a")
            assert ran.wait(60)


def test_who_stands_by_can_be_stopped(tmp_path: Path) -> None:
    """S2: the engine does not notice."""
    url = f"sqlite:///{tmp_path}/matins.db"
    with closing(Matins(url)) as first, closing(Matins(url)) as second:
        first.start()
        with second:
            assert second.system.stats().running
        assert first.system.stats().running
        with second:
            first.stop()
