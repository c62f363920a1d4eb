"""Named SQL, and migrations.

Named SQL, and how methods run it.

Each statement of a `.sql` file follows a header, `-- name(argument: type) -> result: purpose`; the purpose continues in
lines that begin with `--   `. `make pages` writes a method of that signature, see `tools/generate_rows.py`. A header
without parentheses, `-- name: purpose`, belongs to a statement of methods that are written by hand, or to a part that
is used in several statements as `{{name}}`. States of runs are written by name: `state = {ready}`, `state {live}`.

Numbered changes of a store's schema. A released migration never changes; a new one follows it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from matins.errors import StoreVersionError
from matins.model.rows import Row, from_tuple
from matins.model.run import RunState

if TYPE_CHECKING:
    from matins.store.transaction import Transaction


_HEADER = re.compile(r"^-- (\w+)((?:\(|: ).*\n(?:--   .*\n)*)", re.MULTILINE)
_PART = re.compile(r"\{\{(\w+)\}\}")
_STATE = re.compile(r"\{(\w+)\}")
_STATES = {state.label: str(int(state)) for state in RunState} | {
    "live": f"BETWEEN {RunState.WAITING:d} AND {RunState.HELD:d}",
    "ended": f">= {RunState.SUCCEEDED:d}",
}


class Statement(NamedTuple):
    name: str
    header: str
    """What follows the name, in one line."""
    sql: str


def statements_of(text: str) -> Iterator[Statement]:
    """The statements of a `.sql` file, as they are written."""
    _, *pieces = _HEADER.split(text)
    for name, header, sql in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        yield Statement(name, header.strip().replace("\n--  ", ""), sql.strip().rstrip(";"))


def load_queries(*folders: Traversable) -> dict[str, str]:
    """The statements of these folders' `.sql` files, by name, with the numbers of the states."""
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    for file in (file for folder in folders for file in folder.iterdir() if file.name.endswith(".sql")):
        for name, _, sql in statements_of(file.read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(f"{file}: the name {name} occurs twice.")
            found[name], places[name] = sql, f"{file}: {name}"
    whole = {name: _with_parts(places[name], sql, found) for name, sql in found.items()}
    for name, sql in whole.items():
        if unknown := set(_STATE.findall(sql)) - _STATES.keys():
            raise ValueError(f'{places[name]} names a state "{min(unknown)}" that runs do not have.')
    return {name: _STATE.sub(lambda state: _STATES[state[1]], sql) for name, sql in whole.items()}


def _with_parts(where: str, sql: str, parts: Mapping[str, str]) -> str:
    unknown = set(_PART.findall(sql)) - parts.keys()
    if unknown:
        raise ValueError(f'{where} has a part "{min(unknown)}" that no file has.')
    return _PART.sub(lambda found: _with_parts(where, parts[found[1]], parts), sql)


_makes: Callable[[type[Any]], Callable[[Any], Any]] = cache(from_tuple)


class Statements(ABC):
    """Runs named statements and reads their rows."""

    @abstractmethod
    def _all(self, query: str, /, **values: Any) -> list[Any]:
        """The rows of a statement; none when it returns nothing. It takes those of the values that it names."""

    @abstractmethod
    def _integers(self, values: Iterable[int]) -> Any:
        """A list as one value of a statement."""

    @abstractmethod
    def _texts(self, values: Iterable[str]) -> Any:
        """A list as one value of a statement."""

    def _rows(self, row: type[Row], query: str, /, **values: Any) -> list[Row]:
        return list(map(_makes(row), self._all(query, **values)))

    def _row(self, row: type[Row], query: str, /, **values: Any) -> Row | None:
        rows = self._all(query, **values)
        return row(*rows[0]) if rows else None

    def _column(self, query: str, /, **values: Any) -> list[Any]:
        """The first column."""
        return [row[0] for row in self._all(query, **values)]

    def _value(self, query: str, /, **values: Any) -> Any:
        """The first column of the first row; None when there is no row."""
        rows = self._all(query, **values)
        return rows[0][0] if rows else None


class SliceStatements(Statements):
    """Statements of a feature that is no part of the core, on a transaction of the store. The `.sql` files are beside
    the class, and their text serves both stores."""

    _queries: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls) -> None:
        cls._queries = load_queries(resources.files(cls.__module__.rpartition(".")[0]))

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        return self._transaction.execute(self._queries[query], values)

    def _integers(self, values: Iterable[int]) -> Any:
        return self._transaction._integers(values)

    def _texts(self, values: Iterable[str]) -> Any:
        return self._transaction._texts(values)


BREAKS = "-- Engines that do not know this migration must stop."


class Migration(NamedTuple):
    number: int
    name: str
    sql: str

    @property
    def breaks(self) -> bool:
        """Whether engines that do not know it cannot go on. One that only adds has no such line."""
        return BREAKS in self.sql

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


@lru_cache(maxsize=8)
def load_migrations(package: str) -> list[Migration]:
    """The migrations of a package (`migrations/NNNN_name.sql`), in order and without a gap."""
    folder = resources.files(package).joinpath("migrations")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    found = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text(encoding="utf-8")) for f in files]
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"The migrations of {package} are not numbered from 1 without a gap.")
    return found


def check_known(
    where: str, have: int, recorded: dict[int, str], known: list[Migration], instead: str, oldest: int | None = None
) -> None:
    """Raise StoreVersionError unless all `have` migrations of a store are known, with the recorded checksums; or those
    up to `oldest`, where the others only add.

    `instead` is the first part of the hint: what to use instead of this store.
    """
    for migration in known[:have]:
        if recorded.get(migration.number) != migration.checksum:
            raise StoreVersionError(
                f"{where} was created by an earlier version of Matins that was never released: "
                f"its migration {migration.number} differs from the released one.",
                hint=f"{instead}, or use the version that created this one. Nothing was changed.",
            )
    if (have if oldest is None else oldest) > len(known):
        raise StoreVersionError(
            f"{where} was created by a newer version of Matins (schema {have}; this version supports {len(known)}).",
            hint="Upgrade Matins. Nothing was changed.",
        )
