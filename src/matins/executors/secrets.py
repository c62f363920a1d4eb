"""Secrets by reference: read when a run starts, kept nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from matins.errors import InvalidInput
from matins.texts.beneath import Refused
from matins.texts.own_folders import read_file

MAX_BYTES = 64_000
_INHERITED = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "LOGNAME"})


class Environment(NamedTuple):
    values: dict[str, str]
    secrets: tuple[str, ...]
    """Values that must not appear in the output."""


def environment_of(
    pairs: Iterable[tuple[str, str]],
    add: Mapping[str, str],
    remove: Iterable[str],
    source: Mapping[str, str] = os.environ,
) -> Environment:
    """A small inherited environment, plus the variables of the agent."""
    values = inherited(source)
    secrets: list[str] = []
    for name, text in pairs:
        values[name] = resolve(text, name, source)
        if values[name] != text:
            secrets.append(values[name])
    values.update(add)
    for name in remove:
        values.pop(name, None)
    return Environment(values, tuple(secrets))


def inherited(source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The few variables that agents and commands inherit. The others may be secrets."""
    return {name: text for name, text in source.items() if name in _INHERITED or name.startswith("LC_")}


def resolve(text: str, name: str, source: Mapping[str, str] = os.environ) -> str:
    """The value of a reference; any other text is returned unchanged."""
    if text.startswith("env:"):
        variable = text.removeprefix("env:")
        if variable not in source:
            raise _unresolved(
                name,
                text,
                f"the environment has no {variable}",
                f"Put {variable} into the environment of the daemon, and start it again.",
            )
        return source[variable]
    if text.startswith("file:"):
        return _content(text, name)
    return text


def _content(text: str, name: str) -> str:
    path = Path(text.removeprefix("file:")).expanduser()
    try:
        return read_file(path, MAX_BYTES).decode().rstrip("\n")
    except Refused as error:
        raise _unresolved(name, text, error.reason, "Name the file itself.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise _unresolved(
            name, text, f"{path} cannot be read: {reason}", "Check the path and its permissions."
        ) from None


def _unresolved(name: str, text: str, reason: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{name} refers to {text}, but {reason}.", value=text, field="environment", hint=hint)
