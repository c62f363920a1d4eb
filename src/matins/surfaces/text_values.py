"""Text → values by kind of setting: options of the command line, chat commands, fields of forms.

A text that is not of its kind stays text: the service raises the error.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.model.settings import Declared, Kind

_NEXT_WINDOW = re.compile(r"(?<=\d)\s*,")


def from_text(declared: Declared | None, text: Any) -> Any:
    """The value of a text, by the kind of its setting. An unknown setting is read as JSON, or as text."""
    if not isinstance(text, str):
        return text
    return json_or_text(text) if declared is None else FROM_TEXT[type(declared.kind)](text)


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(text: str) -> str:
    return text


def _number(text: str) -> Any:
    read = json_or_text(text)
    return read if isinstance(read, (int, float)) and not isinstance(read, bool) else text


def _flag(text: str) -> Any:
    return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _windows(text: str) -> list[str]:
    """The windows of a list. A comma after a time starts the next one: `22:00-07:00, sat,sun 00:00-24:00`."""
    return [window.strip() for window in _NEXT_WINDOW.split(text) if window.strip()]


def _command(text: str) -> Any:
    return json_or_text(text) if text.lstrip().startswith("[") else text


def _arguments(text: str) -> Any:
    """A program and its arguments, quoted if they contain spaces. No shell reads them."""
    return json_or_text(text) if text.lstrip().startswith("[") else words_of(text)


def words_of(text: str) -> list[str]:
    """The words of a text, quoted if they contain spaces."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"{error}: {text}", value=text, hint="Close the quotes.") from None


def inputs_from(words: Sequence[str], read: Callable[[str], str]) -> Any:
    """The input of a run: `days=30` is text, `days:=30` JSON, `@file.json` a file, which `read` reads."""
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("@"):
            whole = _parsed("input", read(word))
            if not isinstance(whole, dict):
                if len(words) > 1:
                    message = f"{word[1:]} has no names, so nothing can be added to it."
                    raise InvalidInput(message, value=word, field="input", hint="Give it alone, or write an object.")
                return whole
            found |= cast("dict[str, Any]", whole)
            continue
        name, equals, text = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":").strip()
        if not equals or not name:
            message = f'"{word[:60]}" is not an input.'
            raise InvalidInput(message, value=word, field="input", hint="Write name=text, name:=JSON or @file.json.")
        found[name] = _parsed(f"input.{name}", text) if is_json else text
    return found or None


def _parsed(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f'"{field}" is no JSON: {error}.'
        hint = "Write name=text for a text."
        raise InvalidInput(message, value=text[:60], field=field, hint=hint) from None


FROM_TEXT: Mapping[type[Kind], Callable[[str], Any]] = {
    **dict.fromkeys(
        (
            kinds.Text, kinds.Template, kinds.Name, kinds.Choice, kinds.Duration, kinds.Size, kinds.Instant, kinds.Zone,
            kinds.Money, kinds.Secret, kinds.Url,
        ),
        _text,
    ),
    **dict.fromkeys((kinds.Int, kinds.Decimal), _number),
    kinds.Names: _list,
    kinds.Windows: _windows,
    **dict.fromkeys(
        (
            kinds.Labels, kinds.Variables, kinds.Target, kinds.Options, kinds.Json, kinds.Inputs, kinds.Calls,
            kinds.Records,
        ),
        json_or_text,
    ),
    kinds.Tokens: _text,
    kinds.Flag: _flag,
    kinds.Command: _command,
    kinds.Arguments: _arguments,
    kinds.Pause: _flag,
}  # fmt: skip
METAVAR: Mapping[type[Kind], str] = {
    kinds.Text: "TEXT",
    kinds.Template: "TEXT",
    kinds.Name: "NAME",
    kinds.Names: "A,B",
    kinds.Choice: "CHOICE",
    kinds.Flag: "FLAG",
    kinds.Int: "N",
    kinds.Decimal: "N",
    kinds.Duration: "DURATION",
    kinds.Size: "SIZE",
    kinds.Instant: "INSTANT",
    kinds.Zone: "ZONE",
    kinds.Money: "AMOUNT",
    kinds.Tokens: "N",
    kinds.Command: "COMMAND",
    kinds.Arguments: "COMMAND",
    kinds.Labels: "JSON",
    kinds.Variables: "JSON",
    kinds.Target: "JSON",
    kinds.Windows: "A,B",
    kinds.Secret: "REFERENCE",
    kinds.Url: "URL",
    kinds.Options: "JSON",
    kinds.Json: "JSON",
    kinds.Inputs: "JSON",
    kinds.Calls: "CALL",
    kinds.Records: "JSON",
    kinds.Pause: "TEXT",
}
