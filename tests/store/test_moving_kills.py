"""A move that is killed at each of its points: never may both stores start a run, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import apsw
import psycopg
from test_moving import move, rows

from matins import Matins
from matins.runtime.clock import SystemClock
from matins.store import open_end

_CHANGES = re.compile(r"COMMIT|(INSERT INTO|UPDATE|DELETE FROM) meta|CREATE FUNCTION refuse_moved|DROP FUNCTION", re.I)
"""The statements that change what a store says of itself, or make it durable."""


def killed_at(point: int, source: str, target: str, home: Path) -> bool:
    """Move in a child that dies before one of these statements, after the one before it; whether it had so many."""
    child = os.fork()
    if child == 0:
        _die_at(point)
        move(source, target, home)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _die_at(point: int) -> None:
    passed = 0

    def about_to(text: object) -> None:
        nonlocal passed
        passed += bool(_CHANGES.search(text.decode() if isinstance(text, bytes) else str(text)))
        if passed >= point:
            os.kill(os.getpid(), signal.SIGKILL)

    execute = psycopg.Cursor.execute

    def traced(cursor: Any, query: Any, *values: Any, **options: Any) -> Any:
        about_to(query)
        return execute(cursor, query, *values, **options)

    def hook(connection: Any) -> None:
        connection.exec_trace = lambda cursor, text, values: about_to(text) is None

    psycopg.Cursor.execute = traced  # type: ignore[method-assign]
    apsw.connection_hooks.append(hook)


def in_charge(url: str) -> bool:
    end = open_end(url, SystemClock())
    try:
        return end.exists() and end.state() == "in_charge" and not end.marks()
    finally:
        end.close()


def test_a_move_that_is_killed_anywhere_is_finished_or_given_up(postgres_url: str, tmp_path: Path) -> None:
    """B11: the same command finishes it, `--abort` gives it up, whichever comes; then the rows are the same."""
    seed = tmp_path / "seed.db"
    m = Matins(f"sqlite:///{seed}")
    m.add("one", when="every day at 9am", command="true")
    m.close()
    schema = postgres_url.partition("search_path%3D")[2].partition("&")[0]
    point, seen = 0, set[tuple[bool, bool]]()
    while True:
        point += 1
        home = tmp_path / str(point)
        home.mkdir()
        shutil.copy(seed, home / "matins.db")
        source = f"sqlite:///{home}/matins.db"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"
            )
        killed = killed_at(point, source, postgres_url, home)
        here, there = in_charge(source), in_charge(postgres_url)
        seen.add((here, there))
        assert not (here and there), point
        if not killed:
            break
        if point % 2 and not there:
            if not here:
                move(source, postgres_url, home, abort=True)
            assert (in_charge(source), in_charge(postgres_url)) == (True, False), point
        move(source, postgres_url, home)
        assert (in_charge(source), in_charge(postgres_url)) == (False, True), point
        if point % 5 == 0:
            move(postgres_url, f"sqlite:///{home}/back.db", home)
            before, after = rows(seed), rows(home / "back.db")
            assert {name for name in before if not before[name] <= after[name]} <= {"meta"}, point
    assert seen == {(True, False), (False, False), (False, True)}
    assert point > 12
