"""Every table of the command line, in terminals of several widths, with names and texts that are far too long."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cli_user import User
from msgspec import inspect

import matins.surfaces.cli as package
from matins.api._nouns import RECORD_NOUNS
from matins.api.codec import result_type
from matins.api.use_case import UseCase
from matins.records import record_kind
from matins.surfaces.cli import context as cli_context
from matins.surfaces.cli import tables
from matins.surfaces.cli.tables import Cell, Column, cells

LONG = "weekly-report-of-the-northern-branch-日本語-and-of-the-southern-branch"
SENTENCE = f"{LONG} has run 3 times, and needs a person who looks at it, because of {LONG}"
FIXED = {"timezone": "America/Argentina/Buenos_Aires", "id": "1234567", "run_id": "1234567", "command": "matins why x",
         "local": "2026-03-28T09:30:00-03:00", "money": "$12,345.67", "money_reserved": "$123.45",
         "max_cost": "$20,000.00", "period": "month",
         "start": "2026-03-27T00:00:00Z", "end": "2026-03-28T00:00:00Z", "now": "2026-03-27T08:00:00Z"}  # fmt: skip
SENTENCES = ("summary", "sentence", "error", "help", "last_error", "output", "reason", "note", "what", "standing")
COMMANDS = [
    *("list", "runs", "approvals", "agents", "next", "status", "incidents", "jobs", "missions", "threads", "tokens"),
    *(
        "sessions",
        "backfills",
        "nodes",
        "resume",
        "calls",
        "events",
        "why x",
        f"jobs {LONG}",
        "notify test",
        "webhooks deliveries x",
        "preview x",
        "search x",
        "spend",
    ),
    *("preview x --catch-up-since 2026-03-26T09:00Z", "next 0 9 * * *"),
    *(f"{noun.replace('_', '-')} list" for noun in RECORD_NOUNS if not record_kind(noun).single),
]


class Answers:
    """A transport whose results have the declared form, and values that no table has room for."""

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return _value(inspect.type_info(result_type(use_case)), "")


def _value(kind: inspect.Type, name: str) -> Any:
    match kind:
        case inspect.StructType():
            return {each.encode_name: _value(each.type, each.name) for each in kind.fields}
        case inspect.ListType():
            return [_value(kind.item_type, name) for _ in range(3)]
        case inspect.UnionType():
            return next(_value(one, name) for one in kind.types if not isinstance(one, inspect.NoneType))
        case inspect.LiteralType():
            return "active" if "active" in kind.values else max(kind.values, key=lambda value: len(str(value)))
        case inspect.DateTimeType():
            return FIXED.get(name, "2026-03-28T07:30:15Z")
        case inspect.IntType():
            return 123_456
        case inspect.FloatType():
            return 0.75
        case inspect.BoolType():
            return True
        case inspect.DictType():
            return {}
        case inspect.StrType():
            return FIXED.get(name) or (SENTENCE if name in SENTENCES else LONG)
        case _:
            return None


@dataclass
class Printed:
    """The tables that were printed: their columns and rows."""

    tables: list[tuple[Sequence[Column], list[list[Cell]]]] = field(default_factory=list)

    def table(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence[str | Cell]],
        width: int | None,
        *,
        colour: bool = False,
    ) -> list[str]:
        kept = [[item if isinstance(item, Cell) else Cell(str(item)) for item in row] for row in rows]
        self.tables.append((columns, kept))
        return tables.table(columns, kept, width, colour=colour)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Printed:
    made = Printed()
    monkeypatch.setattr(cli_context, "table", made.table)
    return made


@pytest.fixture
def reader(user: User, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(user.app, "transport", lambda **location: Answers())
    return user


def _lines(user: User, command: str, columns: int) -> list[str]:
    result = user.types(*command.split(), code=None, columns=columns)
    assert not result.exception or isinstance(result.exception, SystemExit), (command, result.exc_info)
    return result.stdout.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_has_the_width_of_its_terminal(reader: User, printed: Printed, command: str) -> None:
    """B10: long names are cut and keep their ends, hours stay, and no line wraps, at 80 columns and at others"""
    for width in (80, 120, 60):
        printed.tables.clear()
        lines = _lines(reader, command, width)
        assert printed.tables or command == "events"
        assert [line for line in lines if cells(line) > width] == []
        for columns, rows in printed.tables:
            for row in rows:
                _keeps_what_matters(columns, row, lines, width)


def _keeps_what_matters(columns: Sequence[Column], row: list[Cell], lines: list[str], width: int) -> None:
    for column, cell in zip(columns, row, strict=True):
        if cell.short is not None and width >= 80:
            assert any(cell.text in line or cell.short in line for line in lines), (column.title, cell)
        if column.layout.middle and not column.layout.wraps and width >= 80:
            assert any(cell.text[-3:] in line for line in lines), (column.title, cell.text)


def test_every_table_is_tried(reader: User, printed: Printed) -> None:
    for command in COMMANDS:
        _lines(reader, command, 80)
    shown = {tuple(column.title for column in columns) for columns, _ in printed.tables}
    declared = {titles for module in _modules() for titles in _declared(module)}
    assert declared - shown == set()


def _modules() -> list[Any]:
    names = [found.name for found in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def _declared(module: Any) -> Iterable[tuple[str, ...]]:
    for value in vars(module).values():
        if isinstance(value, tuple) and value and all(isinstance(item, Column) for item in cast("tuple[Any]", value)):
            yield tuple(column.title for column in cast("tuple[Column, ...]", value))
