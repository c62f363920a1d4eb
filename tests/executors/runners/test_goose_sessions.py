"""What goose recorded, as a script inside the walls tells it: read seldom, never waited for while the run goes on, and
believed only where it can be right."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import PATIENCE, ask_here

from matins.coding_tools.goose import GooseLedger, Recorded, read_answer
from matins.errors import InvalidInput
from matins.executors.inside import script
from matins.executors.metering import SessionMeter
from matins.executors.runners.protocol import Answer, RunnerResult, SessionUsage

TABLES = """
CREATE TABLE sessions (id TEXT, name TEXT, created_at TEXT);
CREATE TABLE usage_ledger (session_id TEXT, created_timestamp INTEGER, input_tokens INTEGER, output_tokens INTEGER,
  cache_read_tokens INTEGER);
INSERT INTO sessions VALUES ('20261118_1', 'mornings', '2026-11-18');
INSERT INTO usage_ledger VALUES ('20261118_1', 100, 500, 50, 100), ('20261118_1', 200, 700, 70, 600);
"""
USAGE = SessionUsage((500, 120, 700))
AGAIN = {"fields": {"message": "Request failed, retrying (1/3): 503 overloaded", "session": "20261118_1"}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / ".local/share/goose/sessions/sessions.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
    connection.close()
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / ".local/state/goose/logs/cli/2026-11-18/run.log"
    path.parent.mkdir(parents=True)
    path.write_text(f"{json.dumps(AGAIN)}\n")
    return path


def ledger(tmp_path: Path) -> GooseLedger:
    return GooseLedger(ask_here({"HOME": str(tmp_path)}))


@pytest.mark.parametrize("name", ["mornings", "20261118_1"])
def test_the_usage_of_a_session_is_the_sum_of_its_answers(name: str, tmp_path: Path, store: Path, log: Path) -> None:
    """B4: by its name or its id; goose counts cached tokens as input"""
    found = ledger(tmp_path)
    assert found.usage(name) == USAGE
    assert found.problem(name) == "Request failed, retrying (1/3): 503 overloaded"
    assert found.usage(name, before=200_500) == SessionUsage((400, 50, 100))
    assert found.usage("evenings") is None


@pytest.mark.parametrize("variable", ["GOOSE_PATH_ROOT", "XDG_DATA_HOME", "XDG_STATE_HOME"])
def test_the_folders_are_those_of_goose(variable: str, tmp_path: Path, store: Path, log: Path) -> None:
    """B4: as its variables name them"""
    moved = {
        "GOOSE_PATH_ROOT": {"share/goose": "root/data", "state/goose": "root/state"},
        "XDG_DATA_HOME": {"share": "root"},
        "XDG_STATE_HOME": {"state": "root"},
    }
    for old, new in moved[variable].items():
        (tmp_path / new).parent.mkdir(exist_ok=True)
        (tmp_path / ".local" / old).rename(tmp_path / new)
    found = GooseLedger(ask_here({"HOME": str(tmp_path), variable: str(tmp_path / "root")}))
    assert found.usage("mornings") == USAGE
    assert found.problem("mornings") == "Request failed, retrying (1/3): 503 overloaded"


# -- what an agent can make of the files


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(900_000_000)


STORES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "no database": lambda path: path.write_text("no database" * 1000),
    "900 MB of nothing": sparse,
    "other tables": lambda path: sqlite3.connect(path).execute("CREATE TABLE sessions (x)").connection.close(),
}


@pytest.mark.parametrize("case", STORES)
def test_b16_a_store_that_is_none_is_not_known(case: str, tmp_path: Path, store: Path) -> None:
    """B16: and is not waited for"""
    assert ledger(tmp_path).usage("mornings") == USAGE
    replaced(store, STORES[case])
    assert ledger(tmp_path).usage("mornings") is None


LOGS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "900 MB of nothing": sparse,
    "a text that is no event": lambda path: path.write_text('20261118_1 {"fields"\n[20261118_1]\n"20261118_1"\n'),
    "a message that is none": lambda path: path.write_text('{"fields": {"message": ["20261118_1"]}}\n'),
    "nested without end": lambda path: path.write_text('{"20261118_1":' * 50_000 + "\n"),
}


@pytest.mark.parametrize("case", LOGS)
def test_b16_a_log_that_is_none_tells_no_problem(case: str, tmp_path: Path, store: Path, log: Path) -> None:
    """B16: only its end is read, and the usage is known all the same"""
    replaced(log, LOGS[case])
    found = ledger(tmp_path)
    assert (found.usage("mornings"), found.problem("mornings")) == (USAGE, None)


def test_b16_a_long_log_is_read_from_its_end(tmp_path: Path, store: Path, log: Path) -> None:
    """B16: in little memory; the message is cut before it is told"""
    with log.open("ab") as file:
        file.truncate(900_000_000)
        file.seek(0, os.SEEK_END)
        message = "Request failed, retrying " + "x" * 100_000
        file.write(b"\n" + json.dumps({"fields": {"message": message, "s": "20261118_1"}}).encode() + b"\n")
    done = subprocess.run(
        ("sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", *script("goose_usage"), "mornings", str(1 << 62)),
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert len(done.stdout) < 4_000
    assert read_answer(done.stdout) == Recorded(USAGE, ("Request failed, retrying " + "x" * 500)[:500])


def test_b16_a_view_without_end_has_two_seconds(tmp_path: Path, store: Path) -> None:
    """B16: of processor time, by the script itself"""
    with sqlite3.connect(store) as connection:
        connection.executescript("""
            DROP TABLE usage_ledger;
            CREATE VIEW usage_ledger AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT x AS session_id, 1 AS created_timestamp, 1 AS input_tokens, 1 AS output_tokens,
            1 AS cache_read_tokens FROM n
            """)
    connection.close()
    assert ledger(tmp_path).usage("mornings") is None


def test_b16_a_store_that_needs_much_memory_gets_none(tmp_path: Path, store: Path) -> None:
    """B16: 256 MB, by the script itself; a smaller one is read"""
    view = "CREATE VIEW usage_ledger AS SELECT '20261118_1' AS session_id, 1 AS created_timestamp, 1 AS output_tokens,"
    view += " 0 AS cache_read_tokens, length(hex(zeroblob({}))) AS input_tokens"
    for size, known in ((500_000, SessionUsage((1_000_000, 1, 0))), (120_000_000, None)):  # soon made: time is no limit
        with sqlite3.connect(store) as connection:
            connection.executescript(f"DROP {'TABLE' if known else 'VIEW'} usage_ledger; {view.format(size)};")
        connection.close()
        assert ledger(tmp_path).usage("mornings") == known


# -- what is believed


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "[]",
        '{"usage": [1, 2, 3, 0]}',
        '{"usage": [1, 2, 3, 0], "problem": null, "more": 1}',
        '{"usage": [1, 2, 3, 0], "problem": null}\n{"usage": [1, 2, 3, 0], "problem": null}',
        '{"usage": [1, 2, 3, 0], "problem": null} ' + " " * 4_000,
        '{"usage": [1, 2, 3], "problem": null}',
        '{"usage": [0, 2, 3, 0], "problem": null}',
        '{"usage": [1, -2, 3, 0], "problem": null}',
        '{"usage": [1, 2, 3, NaN], "problem": null}',
        '{"usage": [1, 2.5, 3, 0], "problem": null}',
        '{"usage": [1, 1e999, 3, 0], "problem": null}',
        '{"usage": [true, 2, 3, 0], "problem": null}',
        '{"usage": [1, "2", 3, 0], "problem": null}',
        '{"usage": [1, 1000000000000001, 3, 0], "problem": null}',
        f'{{"usage": [1, {"9" * 3_900}, 3, 0], "problem": null}}',
        '{"usage": {"in": 1}, "problem": null}',
        '{"usage": ' + "[" * 3_900,
    ],
)
def test_b5_an_answer_that_cannot_be_right_is_none(answer: str) -> None:
    """B5 B16: what the agent said is then counted; a number is never taken for zero"""
    assert read_answer(answer).usage is None
    assert read_answer('{"usage": [1, 2, 3, 0], "problem": null}\n') == Recorded(SessionUsage((2, 3, 0)))


def test_a_problem_is_one_short_line_that_can_be_stored() -> None:
    answer = json.dumps({"usage": None, "problem": "a\0b\n" + "\ud800" + "x" * 1_000})
    problem = read_answer(answer).problem
    assert problem is not None
    assert len(problem) == 500
    assert problem.startswith("a\ufffdb \ufffdxxx")
    assert read_answer('{"usage": null, "problem": 5}') == Recorded()


@pytest.mark.parametrize("answer", [Answer(1, "", "no store"), Answer(None, "", ""), Answer(-9, "", "")])
def test_a_command_that_fails_tells_nothing(answer: Answer) -> None:
    """Also one whose words would be right: it was ended before it had finished."""
    full = answer._replace(output='{"usage": [1, 2, 3, 0], "problem": null}\n')
    assert GooseLedger(lambda argv, **limits: full).usage("s") is None
    assert GooseLedger(lambda argv, **limits: full._replace(exit_code=0)).usage("s") == SessionUsage((2, 3, 0))


def test_without_a_run_nothing_is_known() -> None:
    def refused(argv: tuple[str, ...], *, timeout_ms: int = 0, memory_bytes: int | None = None) -> Answer:
        raise InvalidInput("It cannot be isolated.")

    for ask in (None, refused):
        assert (GooseLedger(ask).usage("s"), GooseLedger(ask).problem("s")) == (None, None)


# -- while the run goes on


class Slow:
    """Stands in for the supervisor: a command ends when the test says so."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.ends = threading.Semaphore(0)
        self.limits: list[tuple[int, int | None]] = []
        self.usage = 0

    def ask(self, argv: tuple[str, ...], *, timeout_ms: int = 0, memory_bytes: int | None = None) -> Answer:
        self.limits.append((timeout_ms, memory_bytes))
        self.usage += 1
        answer = Answer(0, json.dumps({"usage": [1, self.usage, 0, 0], "problem": None}), "")
        self.asked.release()
        assert self.ends.acquire(timeout=PATIENCE)
        return answer


def ended(thread_name: str = "matins-goose") -> None:
    for thread in [thread for thread in threading.enumerate() if thread.name == thread_name]:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_b16_a_running_session_is_read_now_and_then_and_not_waited_for() -> None:
    """B16: one reading at a time, however slow it is, and a pause of two seconds after each; the end reads once more"""
    now, slow = [1_000], Slow()
    found = GooseLedger(slow.ask, lambda: now[0])
    assert found.recent("s") is None
    assert slow.asked.acquire(timeout=PATIENCE)
    now[0] += 2_000
    assert found.recent("s") is None  # the first one has not ended
    slow.ends.release()
    ended()
    assert len(slow.limits) == 1
    now[0] += 1_999
    assert found.recent("s") == SessionUsage((1, 0, 0))
    assert len(slow.limits) == 1
    now[0] += 1
    slow.ends.release()
    found.recent("s")
    ended()
    assert found.recent("s") == SessionUsage((2, 0, 0))
    slow.ends.release()
    assert found.usage("s") == SessionUsage((3, 0, 0))
    assert slow.limits == [(5_000, 256 << 20)] * 3


def test_b16_a_meter_waits_for_the_record_only_at_the_end() -> None:
    """B16 B5: one thread meters all runs, and none may hold it up"""
    slow = Slow()
    meter = SessionMeter("s", ledger=GooseLedger(slow.ask))
    unfinished = RunnerResult(executed=False, succeeded=False, tokens_out=7)
    assert meter.so_far(unfinished).tokens_out == 7
    assert slow.asked.acquire(timeout=PATIENCE)
    slow.ends.release()
    ended()
    assert meter.so_far(unfinished).tokens_in == 1
    slow.ends.release()
    assert meter.of_run(unfinished).tokens_in == 2
