"""Problems of a file: all at once, each with its location and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from matins.errors import Example, InvalidFile, InvalidInput
from matins.texts.yaml_nodes import Position

_MAX_SHOWN = 20
_HINT = "Correct the file; until then nothing is changed."


def in_file(hint: str | None, *, named: bool = True) -> str | None:
    """The hint, with settings as they are in the file: `retries: 2`. A bare value has no name."""
    if not isinstance(hint, Example):
        return hint
    settings = {name: orjson.dumps(value).decode() for name, value in hint.settings.items()}
    return f"For example: {', '.join(f'{name}: {text}' if named else text for name, text in settings.items())}."


class Problem(NamedTuple):
    position: Position
    path: str
    """For example `schedules.morning.when`; empty for the file itself."""
    what: str
    value: Any = None
    allowed: str | None = None
    hint: str | None = None

    def error(self, file: Path) -> InvalidInput:
        where = f"{file}, line {self.position.line}, column {self.position.column}: "
        path = f"{self.path}: " if self.path else ""
        end = "" if self.what.endswith((".", "…")) else "."
        message = f"{where}{path}{self.what}{end}"
        return InvalidInput(message, value=self.value, field=self.path or None, allowed=self.allowed, hint=self.hint)


def invalid_file(file: Path, problems: Iterable[Problem]) -> InvalidFile:
    """One error for all problems, which are its `problems`."""
    errors = [p.error(file) for p in sorted(problems, key=lambda p: (p.position.line, p.position.column))]
    lines = [f"{error.message}{f' ({error.hint})' if error.hint and len(errors) > 1 else ''}" for error in errors]
    if len(lines) > _MAX_SHOWN:
        lines[_MAX_SHOWN:] = [f"and {len(lines) - _MAX_SHOWN} more"]
    first = errors[0]
    hint = first.hint if len(errors) == 1 and first.hint else _HINT
    raised = InvalidFile("\n".join(lines), value=first.value, field=first.field, allowed=first.allowed, hint=hint)
    raised.problems = tuple(errors)
    return raised
