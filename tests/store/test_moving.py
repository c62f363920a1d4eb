"""A store moves: what it carries, what it says afterwards, what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import compress

import apsw
import psycopg
import pytest
from store_records import NOW, add_schedules, started_run

from matins import Matins
from matins.errors import MatinsError, StoreMoved
from matins.runtime.clock import SystemClock
from matins.service.moving import Move, Place
from matins.store import open_end, open_store
from matins.store.moving import OWN_TABLES, Mark
from matins.surfaces.home import path_of, redacted_url

_OF_ONE_KIND = {
    ("seals", "upto"), ("writers", "sealed_seq"),
}  # fmt: skip
"""What only one of the two schemas has; `store/moving.py` knows each."""
_ODD = "tab\there\nnew \\ back \\N \r\b\f\v é 🎉"
_ALLOWED = re.compile(r"(\w+) TEXT NOT NULL CHECK \(\w+ IN \('(\w+)'")


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/matins.db"


def place(url: str, home: Path) -> Place:
    return Place(url, redacted_url(url), path_of(url), home / "state")


def move(source: str, target: str, home: Path, *, abort: bool = False) -> list[str]:
    told: list[str] = []
    it = Move(place(source, home), place(target, home), SystemClock(), told.append)
    try:
        if abort:
            it.abort()
        else:
            it.prepare()
            it.run()
    finally:
        it.close()
    return told


def fill(path: Path) -> None:
    """A row in each table that has none, with what a text may have."""
    connection: Any = apsw.Connection(str(path))
    for name, text in connection.execute(
        "SELECT t.name, s.sql FROM pragma_table_list t JOIN sqlite_schema s USING (name) WHERE t.type = 'table'"
    ).fetchall():
        if name in OWN_TABLES or connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]:
            continue
        columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        fixed = dict(_ALLOWED.findall(text)) | {"heads": '[[1, 1, "00", 7]]', "schedule_id": 1, "late": 1}
        kinds = {"INTEGER": 7, "TEXT": _ODD, "BLOB": b"\0\xff"}
        values = [fixed.get(column[1], kinds[column[2]]) for column in columns]
        connection.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(values))})', values)
    connection.close()


def rows(path: Path) -> dict[str, set[tuple[object, ...]]]:
    connection: Any = apsw.Connection(str(path))
    names = [
        row[0]
        for row in connection.execute(
            "SELECT name FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    found = {name: set(connection.execute(f'SELECT * FROM "{name}"')) for name in names if name != "migrations"}
    found["seals"] = {row[:2] + row[3:] for row in found["seals"]}  # without `upto`, which is computed
    connection.close()
    return found


def test_each_row_of_each_table_is_the_same_there_and_back(file_url: str, postgres_url: str, tmp_path: Path) -> None:
    """B11: with what a text may have."""
    m = Matins(file_url)
    m.add("each", when="every day at 9am", command="true", labels={"team": "ops"})
    m.close()
    fill(tmp_path / "matins.db")
    before = rows(tmp_path / "matins.db")
    move(file_url, postgres_url, tmp_path)
    move(postgres_url, f"sqlite:///{tmp_path}/back.db", tmp_path)
    after = rows(tmp_path / "back.db")
    found: Any = apsw.Connection(str(tmp_path / "back.db"))
    assert found.execute("SELECT count(*) FROM run_words WHERE run_words MATCH 'tab'").fetchall() == [(1,)]
    found.close()
    grown = {table for table in before if before[table] < after[table]}
    assert grown == {"events", "writers", "seals"}  # it has arrived, twice
    assert {table for table in before if not before[table] <= after[table]} <= {"meta"}
    assert dict(before["meta"]).keys() == dict(after["meta"]).keys()
    assert dict(before["meta"])["run_key"] == dict(after["meta"])["run_key"]


def test_what_runs_and_waits_goes_on_there(file_url: str, postgres_url: str, tmp_path: Path) -> None:
    """B11: chains and seals, output, what waits for an answer; ids go on, and nothing runs twice."""
    fired: list[int] = []
    with Matins(file_url) as m:
        m.jobs["note"] = lambda run: fired.append(run.id)
        m.add("each", when="every day at 9am", job="note")
        m.runs.wait(m.run("each").id)
        m.add("asks", when="every day at 9am", job="note", approval="owner_approve")
        waits = int(m.run("asks").id)
    m.close()
    (tmp_path / "matins.db.runs" / "kept").write_text("said")

    told = move(file_url, postgres_url, tmp_path)
    assert any("Backed up to" in line for line in told)
    (folder,) = (tmp_path / "state").iterdir()
    assert (folder / "kept").read_text() == "said"
    with pytest.raises(StoreMoved, match=r"This store moved to postgresql://.* on \d+ \w+ 20\d\d\.") as refused:
        Matins(file_url)
    assert "matins up --store" in (refused.value.hint or "")

    with Matins(postgres_url, state_folder=str(tmp_path / "state")) as m:
        m.jobs["note"] = lambda run: fired.append(run.id)
        assert m.audit.verify().problems == []
        m.approvals.approve(m.approvals.list(state="pending")[0].id)
        m.runs.wait(waits)
        again = int(m.run("each").id)
        m.runs.wait(again)
    m.close()
    assert fired == [1, waits, again]
    assert len(set(fired)) == 3

    move(postgres_url, f"sqlite:///{tmp_path}/back.db", tmp_path)
    with pytest.raises(StoreMoved, match="This store moved to sqlite:"):
        Matins(postgres_url)
    with Matins(f"sqlite:///{tmp_path}/back.db") as m:
        assert m.audit.verify().problems == []
        assert m.runs.get(again).state == "succeeded"
        assert len(m.events.list(types=["store.promoted"], limit=5)) == 2
    m.close()
    assert fired == [1, waits, again]


def test_both_schemas_have_the_same_tables_columns_and_keys(file_url: str, postgres_url: str) -> None:
    """A table or column that one of the two lacks would be lost on the way."""
    ends = []
    for url in (file_url, postgres_url):
        Matins(url).close()
        end = open_end(url, SystemClock())
        ends.append({name: (set(table.columns), table.key) for name, table in end.tables().items()})
        end.close()
    one, other = ends
    assert {(name, "*") for name in one.keys() ^ other.keys()} <= _OF_ONE_KIND
    for name in one.keys() & other.keys():
        assert {(name, column.name) for column in one[name][0] ^ other[name][0]} <= _OF_ONE_KIND
        assert one[name][1] == other[name][1], name


def test_output_that_only_the_server_has_is_read_from_the_file(postgres_url: str, tmp_path: Path) -> None:
    store = open_store(postgres_url, SystemClock())
    (schedule,) = add_schedules(store, due_at=None)
    with store.transaction(NOW) as transaction:
        worker = transaction.insert_worker(json.dumps({"host": "elsewhere", "incarnation": "abc"}), NOW)
        transaction.stop_worker(worker, NOW)
    run = started_run(store, schedule, owner=worker, state=10, ended_at=NOW)
    with store.transaction(NOW) as transaction:
        transaction.execute(
            "INSERT INTO attempts (run_id, epoch, owner, started_at) VALUES (:r, 1, :w, 0)", {"r": run, "w": worker}
        )
        transaction.insert_output(run, 1, "stdout", 0, 5, 100_000, compress(b"begin"), None)
        transaction.insert_output(run, 1, "stdout", 99_997, 3, 100_000, compress(b"end"), None)
    store.close()
    move(postgres_url, f"sqlite:///{tmp_path}/new.db", tmp_path)
    with Matins(f"sqlite:///{tmp_path}/new.db") as m:
        assert m.runs.output(run).text == "begin"
        tail = m.runs.output(run, offset=-3)
    m.close()
    assert (tail.text, tail.total) == ("end", 100_000)


def test_nothing_is_written_to_a_server_that_moves(postgres_url: str, file_url: str, tmp_path: Path) -> None:
    """An engine that stood still, a program, a transaction of a caller: the server itself refuses."""
    client = Matins(postgres_url)
    client.add("old", when="every day at 9am", command="true")
    late = open_store(postgres_url, SystemClock())
    with late.transaction(NOW) as transaction:
        transaction.insert_worker("{}", NOW)
        transaction.execute("UPDATE workers SET beat = 0")  # it stands still, for longer than a lease
    source = open_end(postgres_url, SystemClock())
    mark = Mark("t", client.store.store_id, "here", "there", "host", NOW)
    source.mark(mark, 15_000)
    with pytest.raises(StoreMoved, match="is moving to there: nothing is written here"):
        client.add("new", when="every day at 9am", command="true")
    with pytest.raises(StoreMoved), late.transaction(NOW) as transaction:
        transaction.insert_worker("{}", NOW)
    with late.reading() as reading:
        assert reading.workers() == []  # it is taken for dead, which its next turn notices
    assert [item.name for item in client.list()] == ["old"]  # reading goes on
    source.unmark(mark)
    client.add("new", when="every day at 9am", command="true")
    for it in (client, late, source):
        it.close()


def test_an_older_copy_of_a_store_that_left_does_not_start(file_url: str, postgres_url: str, tmp_path: Path) -> None:
    """The backup has no mark; the machine remembers."""
    with Matins(file_url) as m:
        m.add("one", when="every day at 9am", command="true")
    m.close()
    move(file_url, postgres_url, tmp_path)
    (backup,) = tmp_path.glob("matins.db.before-move-*")
    for end in ("", "-wal", "-shm"):
        Path(f"{tmp_path}/matins.db{end}").unlink(missing_ok=True)
    shutil.copy(backup, tmp_path / "matins.db")
    m = Matins(file_url)
    with pytest.raises(StoreMoved, match="This store moved to") as refused:
        m.start()
    assert "older copy" in (refused.value.hint or "")
    m.close()


def test_a_move_that_was_given_up_leaves_no_trace(file_url: str, postgres_url: str, tmp_path: Path) -> None:
    """B11: after the copy, before it is in charge."""
    with Matins(file_url) as m:
        m.add("one", when="every day at 9am", command="true")
    m.close()
    it = Move(place(file_url, tmp_path), place(postgres_url, tmp_path), SystemClock(), lambda line: None)
    it._take_charge = lambda mark, counts: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    it.prepare()
    with pytest.raises(KeyboardInterrupt):
        it.run()
    it.close()
    with pytest.raises(StoreMoved, match=r"is a copy of sqlite:.* that is not in charge yet"):
        Matins(postgres_url)
    move(file_url, postgres_url, tmp_path, abort=True)
    with Matins(file_url) as m:
        assert [item.name for item in m.list()] == ["one"]
    m.close()
    with pytest.raises(MatinsError, match=r"No move of .* has begun"):
        move(file_url, postgres_url, tmp_path, abort=True)
    move(file_url, postgres_url, tmp_path)  # another move
    with pytest.raises(MatinsError, match=r"The move is finished: .* is in charge"):
        move(file_url, postgres_url, tmp_path, abort=True)


@pytest.fixture
def query(postgres_url: str) -> Iterator[Callable[[str], None]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield lambda text: [connection.execute(part) for part in text.split(";") if part.strip()] and None


def test_what_cannot_move_says_why_and_what_to_do(
    file_url: str, postgres_url: str, query: Callable[[str], None], tmp_path: Path
) -> None:
    """B11: each refusal before anything is marked, with its fix."""

    def refused(target: str, words: str, fix: str, source: str = file_url) -> None:
        with pytest.raises(MatinsError, match=words) as error:
            move(source, target, tmp_path)
        assert fix in (error.value.hint or ""), error.value.hint

    refused(postgres_url, "There is no store sqlite:", "matins --store URL")
    m = Matins(file_url)
    m.add("one", when="every day at 9am", command="true")
    m.start()
    refused(postgres_url, r"An engine runs on .* \(process \d+\)", "--wait")
    m.stop()
    m.close()
    refused("mysql://db/matins", "is not the URL of a store that can be moved", "postgresql://user@host/db")
    refused("postgresql://nobody@127.0.0.1:1/matins", "does not answer", "Check that the server runs")
    refused(file_url, "cannot move to itself", "another")
    (tmp_path / "file").touch()
    refused(f"sqlite:///{tmp_path}/file/new.db", "cannot be written", "Check the disk")

    taken = tmp_path / "taken.db"
    Matins(f"sqlite:///{taken}").close()
    refused(f"sqlite:///{taken}", "has a store already, with 0 schedules", "Name a new file")
    query("CREATE TABLE runs (id int)")
    refused(postgres_url, 'has a table "runs" that does not belong to Matins', "Give Matins its own schema")
    query("DROP TABLE runs")
    query("CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA " + postgres_url.rpartition("=")[2] + " TO guest")
    refused(
        postgres_url.replace("postgres:@", "guest:@", 1),
        'The user "guest" may not create tables in the schema',
        "GRANT CREATE",
    )
    query("DROP OWNED BY guest; DROP ROLE guest")

    other = Matins(postgres_url)
    other.add("theirs", when="every day at 9am", command="true")
    other.close()
    refused(postgres_url, "has a store already, with 1 schedules", "Name an empty database")
    query("UPDATE migrations SET checksum = 'x'")
    refused(postgres_url, "was created by an earlier version of Matins", "Use a new database or schema")
    query("UPDATE migrations SET number = 9")
    refused(postgres_url, "was created by an earlier version of Matins|newer version", "")

    store = open_store(file_url, SystemClock())
    started_run(store, 1)
    store.close()
    refused(f"sqlite:///{tmp_path}/new.db", "1 run is recorded as running, and no engine is", "matins up")
    assert open_end(file_url, SystemClock()).marks() == {}


def test_a_text_that_the_server_cannot_have_is_named(file_url: str, postgres_url: str, tmp_path: Path) -> None:
    """Then nothing has moved, and the move is given up or repeated."""
    m = Matins(file_url)
    m.add("one", when="every day at 9am", command="true")
    m.close()
    connection: Any = apsw.Connection(str(tmp_path / "matins.db"))
    connection.execute("INSERT INTO one_shots VALUES ('a' || char(0), 1)")
    with pytest.raises(MatinsError, match="cannot contain the character NUL, and the table one_shots has one"):
        move(file_url, postgres_url, tmp_path)
    connection.close()
    move(file_url, postgres_url, tmp_path, abort=True)
    Matins(file_url).close()
