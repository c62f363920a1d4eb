"""The port for work sources, and the checks of their settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from matins.engine.prompts import WorkItem
from matins.errors import InvalidInput, MatinsError
from matins.model.policies import KIND_SETTINGS, WorkSourceDefinition
from matins.model.settings import settings_of
from matins.plugins import installed

KINDS = "matins.work_sources"
_UNREADABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


class WorkSourceUnavailable(MatinsError):  # noqa: N818 - it names a state of the source
    """The work source is busy, or its response is invalid. The call may be retried."""

    code = "work_source_unavailable"
    retryable = True


class WorkSource(Protocol):
    """A source of work items. Every call may be repeated after a crash: it completes the first one."""

    name: str

    def check(self, now: int) -> None:
        """Raise what a claim would raise, as far as that is known on this machine. Nothing is claimed or requested."""
        ...

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Otherwise claim the item with the highest priority, the oldest first."""
        ...

    def held(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Nothing is claimed."""
        ...

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def release(self, item_id: str, run_key: str, now: int) -> None:
        """Release the item, if this run holds it."""
        ...


@dataclass(frozen=True)
class SourceKind:
    """A kind of work source, registered by entry point."""

    open: Callable[[WorkSourceDefinition, str | Path | None], WorkSource]
    """The source, by its definition and the directory where relative paths start."""
    check: Callable[[WorkSourceDefinition], WorkSourceDefinition] = lambda source: source
    """The definition, normalized. Raises for an invalid setting."""


def check_work_source(source: WorkSourceDefinition) -> WorkSourceDefinition:
    """The source, normalized. Raises for an invalid setting, or one of another kind."""
    defaults = WorkSourceDefinition(source.name, source.kind)
    for name in settings_of(WorkSourceDefinition):
        if name not in ("kind", *KIND_SETTINGS[source.kind]) and getattr(source, name) != getattr(defaults, name):
            message = f'A work source of kind {source.kind} has no setting "{name}".'
            hint = f"Known: {', '.join(KIND_SETTINGS[source.kind])}."
            raise InvalidInput(message, value=name, field=name, hint=hint)
    return _kind_of(source).check(source)


def open_source(definition: WorkSourceDefinition, workdir: str | Path | None) -> WorkSource:
    """The work source. Nothing is read or requested before its first call."""
    return _kind_of(definition).open(definition, workdir)


def _kind_of(source: WorkSourceDefinition) -> SourceKind:
    kind = installed(KINDS).get(source.kind)
    if kind is None:
        message = f"Work sources of kind {source.kind} are not available: their plug-in cannot be loaded."
        raise InvalidInput(message, value=source.kind, field="kind", hint="See the log.")
    return kind


def readable(text: str, max_length: int) -> str:
    """The text, shortened, without characters that do not belong in a text file."""
    clean = _UNREADABLE.sub("", text).strip()
    return clean if len(clean) <= max_length else f"{clean[: max_length - 1]}…"


def not_held(item_id: str, run_key: str, state: str) -> str:
    return f"Work item {item_id} is not held by run {run_key}: {state}."
