"""Temporal: runs are handed to its workers, `matins worker --from temporal://…` (extra `temporal`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from matins.errors import MatinsError

if TYPE_CHECKING:
    from matins.executors.outside import OutsideEngine
    from matins.executors.worker import Worker

_INSTALL = "Install the extra: pip install 'matins[temporal]'"


def connect(name: str, record: Mapping[str, Any]) -> OutsideEngine:
    """The adapter of a stored connection."""
    from matins.temporal.settings import connection_of

    return _engine()(connection_of(name, record))


def serve(url: str, worker: Worker) -> None:
    """Take orders from a server until SIGTERM or SIGINT."""
    _engine()
    from matins.temporal.settings import connection_from_url
    from matins.temporal.worker import serve_until_signal

    serve_until_signal(connection_from_url(url), worker)


def check(name: str, record: Mapping[str, Any]) -> list[tuple[bool, str, str | None]]:
    """What `doctor` finds out about a connection."""
    import asyncio

    from matins.temporal.settings import connection_of

    try:
        return asyncio.run(_engine()(connection_of(name, record)).findings())
    except MatinsError as error:
        return [(False, error.message.removesuffix("."), error.hint)]


def _engine() -> Any:
    try:
        from matins.temporal.engine import TemporalEngine
    except ImportError as error:
        raise MatinsError(f"Temporal cannot be used here: {error}.", hint=_INSTALL) from error
    return TemporalEngine


def __getattr__(name: str) -> Any:
    if name == "TEMPORAL":
        from matins.executors.outside import OutsideKind

        return OutsideKind("temporal", connect, serve, check)
    raise AttributeError(name)
