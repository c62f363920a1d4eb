"""The settings of a call in `help(Matins.add)`, below the description."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getdoc
from typing import Any, TypeVar

from matins.api.use_case import NOUNS, USE_CASES, UseCase
from matins.engine.schedules import SETTINGS
from matins.engine.settings import format_setting
from matins.model.settings import Choice, Declared, Table
from matins.records import record_kind

_WIDTH = 100
F = TypeVar("F", bound=Callable[..., Any])


def document_settings() -> None:
    """Add the settings to the description of each call that takes any."""
    texts: dict[str, str] = {}  # mostly two calls take the same
    for use_case in USE_CASES.values():
        if use_case.settings is not None:
            text = texts.get(use_case.settings)
            if text is None:
                text = texts[use_case.settings] = settings_text(_table(use_case))
            method = vars(NOUNS[use_case.noun])[use_case.verb]
            method.__doc__ = f"{use_case.description}\n\n{text}"


def extends(base: Callable[..., Any]) -> Callable[[F], F]:
    """A call of the same name with more arguments: its description follows that of the base, before the settings."""

    def document(function: F) -> F:
        description, settings = (base.__doc__ or "").partition("\n\nSettings:")[::2]
        parts = [
            getdoc(base) if not settings else description,
            getdoc(function),
            f"Settings:{settings}" if settings else "",
        ]
        function.__doc__ = "\n\n".join(part for part in parts if part)
        return function

    return document


def _table(use_case: UseCase) -> Table:
    return SETTINGS if use_case.settings == "schedule" else record_kind(str(use_case.settings)).table


def settings_text(table: Table) -> str:
    return "\n".join(["Settings:", *(_line(declared) for declared in table.values())])


def _line(declared: Declared) -> str:
    kind = declared.kind
    choices = f" One of: {', '.join(kind.values)}." if isinstance(kind, Choice) else ""
    hidden = declared.default in (None, (), {}) or declared.help_has_default
    shown = None if hidden else format_setting(declared, declared.default)
    default = "" if shown in (None, "") else f" Default: {shown}."
    required = " Required." if declared.setting.required else ""
    text = f"{declared.name}: {declared.setting.help}{choices}{default}{required}"
    return _filled(text)


def _filled(text: str) -> str:
    """The text in lines, those after the first further in. `textwrap` takes fifteen times as long, at each import."""
    lines: list[str] = []
    line = " "
    for word in text.split():
        if len(line) + len(word) >= _WIDTH and line.strip():
            lines.append(line)
            line = "     "
        line = f"{line} {word}"
    return "\n".join([*lines, line])
