"""Matins wakes AI agents on time."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from matins._version import __version__

if TYPE_CHECKING:
    from matins.api.results import Run, Schedule
    from matins.app import parse_trigger, trigger_from_dict
    from matins.engine.when.instants import DstChange
    from matins.engine.when.triggers import Trigger
    from matins.errors import (
        Conflict,
        CronParseError,
        InstantError,
        IntervalParseError,
        InvalidInput,
        MatinsError,
        NetworkFilesystem,
        NotFound,
        PhraseError,
        RruleError,
        SchedulerShutdownError,
        StoreBusy,
        StoreCorrupt,
        StoreError,
        StoreUnavailable,
        StoreVersionError,
        TimezoneError,
        TriggerError,
    )
    from matins.executors.job_context import JobContext
    from matins.library import Matins
    from matins.model.run import RunState
    from matins.surfaces.async_client import AsyncClient
    from matins.surfaces.client import Client


__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "CronParseError",
    "DstChange",
    "InstantError",
    "IntervalParseError",
    "InvalidInput",
    "JobContext",
    "Matins",
    "MatinsError",
    "NetworkFilesystem",
    "NotFound",
    "PhraseError",
    "RruleError",
    "Run",
    "RunState",
    "Schedule",
    "SchedulerShutdownError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreUnavailable",
    "StoreVersionError",
    "TimezoneError",
    "Trigger",
    "TriggerError",
    "__version__",
    "parse_trigger",
    "trigger_from_dict",
]

_HOMES = {
    "AsyncClient": "matins.surfaces.async_client",
    "Client": "matins.surfaces.client",
    "DstChange": "matins.engine.when.instants",
    "JobContext": "matins.executors.job_context",
    "Matins": "matins.library",
    "Run": "matins.api.results",
    "RunState": "matins.model.run",
    "Schedule": "matins.api.results",
    "Trigger": "matins.engine.when.triggers",
    "parse_trigger": "matins.app",
    "trigger_from_dict": "matins.app",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `import matins` and `matins --help` stay quick.
    if name not in __all__:
        raise AttributeError(f"module 'matins' has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # all that modules make stays: to look through it several times would take an eighth of the time
    try:
        value = getattr(import_module(_HOMES.get(name, "matins.errors")), name)
    finally:
        if collects:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
