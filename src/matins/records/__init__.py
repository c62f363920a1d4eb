"""The kinds of records: agents, and what governs schedules. A new one is a file or an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, cast

from matins.plugins import installed
from matins.records._modules import MODULES
from matins.records.kind import RecordKind

RECORDS = "matins.records"
"""Kinds of records outside this package."""


@cache
def record_kinds() -> Mapping[str, RecordKind[Any]]:
    """All kinds by noun: first those that others need for parsing, then the rest by name."""
    own = [kind for module in iter_modules(__path__) for kind in _kinds_in(f"{__name__}.{module.name}")]
    found = {kind.noun: kind for kind in (*own, *installed(RECORDS).values())}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].order, item[0]))))


def record_kind(noun: str) -> RecordKind[Any]:
    """One kind. If its module is known, no other is loaded."""
    if noun not in MODULES:
        return record_kinds()[noun]
    return next(kind for kind in _kinds_in(MODULES[noun]) if kind.noun == noun)


def _kinds_in(module: str) -> list[RecordKind[Any]]:
    values: list[Any] = list(vars(import_module(module)).values())
    return [cast("RecordKind[Any]", value) for value in values if isinstance(value, RecordKind)]


@cache
def kinds_by_name() -> Mapping[str, RecordKind[Any]]:
    """All kinds by the name that the store, events and entries of the file use."""
    return MappingProxyType({kind.kind: kind for kind in record_kinds().values()})
