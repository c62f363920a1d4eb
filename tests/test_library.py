"""The library, as somebody uses it who embeds Matins."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from matins import Conflict, InvalidInput, JobContext, Matins, StoreBusy, StoreCorrupt, StoreError

PATIENCE = 90


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """P8"""
    m = Matins(f"sqlite:///{tmp_path}/demo.db")
    seen: list[JobContext] = []
    done = threading.Event()

    @m.job("record")
    def record(run: JobContext) -> None:
        seen.append(run)
        done.set()

    m.add(
        "nightly",
        when="0 2 * * *",
        timezone="Europe/London",
        job="record",
        payload={"depth": 3},
        catch_up="run_once",
        overlap="skip",
        retries=3,
    )
    m.add_many([{"name": f"n{n}", "when": "every weekday at 9am", "job": "record"} for n in range(3)])
    with m:
        first = m.run("nightly", key="a request")
        assert done.wait(PATIENCE)
        assert m.run("nightly", key="a request").id == first.id
    assert [run.state for run in m.runs.list(schedule="nightly")] == ["succeeded"]
    (run,) = seen
    assert (str(run.id), run.schedule, run.slot, run.attempt) == (first.id, "nightly", None, 1)
    assert run.payload == {"depth": 3}
    assert (run.lateness, run.slots) == (0.0, 1)
    assert len(run.key) == 33
    m.pause("nightly", note="the house is being painted")
    assert m.get("nightly").state == "paused"
    m.resume("nightly")
    assert m.delete("nightly")
    assert [schedule.name for schedule in m.list()] == ["n0", "n1", "n2"]
    assert m.audit.verify().problems == []
    m.close()


def test_a_job_name_is_taken_once() -> None:
    """P8"""
    m = Matins()
    m.job("work")(lambda run: None)
    with pytest.raises(Conflict, match='There is already a job "work"'):
        m.job("work")(lambda run: None)
    m.close()


def test_a_decorated_job_is_still_a_function() -> None:
    """P8"""
    m = Matins()

    @m.job("double")
    def double(run: object) -> object:
        return run

    assert double(4) == 4
    m.close()


@pytest.mark.parametrize("url", ["mysql://x", "", "demo.db", "sqlite:/x"])
def test_a_bad_url_is_named_with_a_hint(url: str) -> None:
    """S7"""
    with pytest.raises(InvalidInput) as caught:
        Matins(url)
    assert caught.value.field == "url"
    assert "sqlite:///" in str(caught.value.hint)


def test_a_relative_and_an_absolute_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7"""
    monkeypatch.chdir(tmp_path)
    Matins("sqlite:///here.db").close()
    Matins(f"sqlite:///{tmp_path}/sub/there.db").close()
    assert (tmp_path / "here.db").exists()
    assert (tmp_path / "sub" / "there.db").exists()


def test_what_is_stored_is_there_again(tmp_path: Path) -> None:
    """S7 P8: start-up registers every stored schedule"""
    url = f"sqlite:///{tmp_path}/demo.db"
    m = Matins(url)
    m.job("work")(lambda run: None)
    m.add("s", when="1s", job="work", first="immediately", retries=2, payload=[1])
    before = m.get("s")
    m.close()
    again = Matins(url)
    assert again.get("s") == before
    done = threading.Event()
    again.job("work")(lambda run: done.set())
    with again:
        assert done.wait(PATIENCE)
    again.close()


def test_memory_is_private() -> None:
    """S7"""
    one, other = Matins(), Matins()
    one.job("work")(lambda run: None)
    one.add("s", when="5m", job="work")
    assert other.list() == []
    one.close()
    other.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """S7"""
    path = tmp_path / "notes.db"
    path.write_text("dear diary, today nothing happened that a database would want to know about\n" * 100)
    with pytest.raises(StoreCorrupt) as caught:
        Matins(f"sqlite:///{path}")
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert path.read_text().startswith("dear diary")


def test_somebody_elses_database(tmp_path: Path) -> None:
    """S7"""
    import sqlite3

    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="not one of Matins"):
        Matins(f"sqlite:///{path}")


_FOREVER = """
import sys
from matins import Matins
m = Matins(sys.argv[1])

@m.job("say")
def say(run):
    print("ran", flush=True)

m.add("s", when="1s", job="say", first="immediately")
m.run_forever()
print("left", {run.state for run in m.runs.list(schedule="s")} & {"running", "succeeded"}, flush=True)
m.close()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_forever_leaves_in_order_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    """H2"""
    url = f"sqlite:///{tmp_path}/demo.db"
    with subprocess.Popen([sys.executable, "-c", _FOREVER, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ran\n"
        process.send_signal(number)
        *_, last = process.stdout.read().splitlines()
        assert process.wait(PATIENCE) == 0
    assert last == "left {'succeeded'}"


def test_a_second_start_does_nothing_and_a_strict_one_raises(tmp_path: Path) -> None:
    """Starting twice is a no-op; `start(strict=True)` raises, also in the process that has the engine"""
    with closing(Matins(f"sqlite:///{tmp_path}/m.db")) as m:
        assert m.start(strict=True) is m.start() is m
        with pytest.raises(StoreBusy, match="engine is running on this store"):
            m.start(strict=True)
        assert m.is_turning()
        m.stop()
        m.start(strict=True)
