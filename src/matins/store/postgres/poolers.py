"""Poolers between Matins and the server: one that keeps a session for each connection works, others are refused.

Matins needs its session between transactions: prepared statements, which have numbers as names, so that on another
session they are other statements; the search path and timeouts of the connection; and LISTEN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg

from matins.errors import StoreError, StoreUnavailable

_ROUNDS = 4
"""Other clients of the pooler may take the sessions in between, and hide once what a round would show."""
_SEARCH_PATH = re.compile(r"(?:^|(?<=\s))-c\s*search_path=([^\s\\]+)(?:\s+|$)")


def check_sessions(
    connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]], name: str
) -> None:
    """Raise StoreError behind a pooler that gives a transaction the session of another connection. PostgreSQL tells a
    client the number of its session when it connects; a pooler tells another number."""
    if _session_of(connection) == connection.info.backend_pid:
        return
    with connect() as other:
        seen: tuple[set[int], set[int]] = set(), set()
        for _ in range(_ROUNDS):
            # Twice each: a pooler that takes its sessions in turn gives another one at once; others give the last one.
            seen[0].update((_session_of(connection), _session_of(connection)))
            seen[1].update((_second_session(other, name), _session_of(other)))
    if len(seen[0]) == len(seen[1]) == 1 and seen[0] != seen[1]:
        return
    raise StoreError(
        f"The pooler before {name} shares sessions between connections, and Matins needs a session for each.",
        hint="Set pool_mode = session for this database in PgBouncer, or connect to the server itself.",
    )


def split_search_path(options: str) -> tuple[str, str | None]:
    """Split `options` of a URL into what is sent when connecting, and the search path: poolers refuse it there."""
    found = _SEARCH_PATH.findall(options)
    return (_SEARCH_PATH.sub("", options).strip(), found[-1]) if found else (options, None)


def _session_of(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return row[0]


def _second_session(connection: psycopg.Connection[Any], name: str) -> int:
    try:
        return _session_of(connection)
    except psycopg.OperationalError as error:
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise StoreUnavailable(
            f"The pooler before {name} gives Matins no second session: {first_line}.",
            hint="Raise default_pool_size in PgBouncer: a process of Matins uses up to 13 sessions.",
        ) from error
