"""The kinds of records, one file each: agents, and what governs schedules. A new one is a file or an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from matins.plugins import installed
from matins.records.kind import RecordKind

RECORDS = "matins.records"
"""Kinds of records outside this package."""


@cache
def record_kinds() -> Mapping[str, RecordKind[Any]]:
    """All kinds by noun: first those that others need for parsing, then the rest by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    values: list[Any] = [value for module in modules for value in vars(module).values()]
    values += installed(RECORDS).values()
    found: dict[str, RecordKind[Any]] = {value.noun: value for value in values if isinstance(value, RecordKind)}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].order, item[0]))))


def record_kind(noun: str) -> RecordKind[Any]:
    """One kind. If its module has the same name, the other modules are not loaded."""
    if find_spec(f"{__name__}.{noun}") is None:
        return record_kinds()[noun]
    values: list[Any] = list(vars(import_module(f"{__name__}.{noun}")).values())
    found: dict[str, RecordKind[Any]] = {value.noun: value for value in values if isinstance(value, RecordKind)}
    return found[noun]


@cache
def kinds_by_name() -> Mapping[str, RecordKind[Any]]:
    """All kinds by the name that the store, events and entries of the file use."""
    return MappingProxyType({kind.kind: kind for kind in record_kinds().values()})
