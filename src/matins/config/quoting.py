"""Values in the file that need quotes, because YAML reads their characters as its own."""

from __future__ import annotations

import json
import re

from matins.errors import InvalidInput
from matins.texts.yaml_nodes import MappingNode, Scalar, parse

_ENTRY = re.compile(r"\s*(?:- +)?(?P<entry>(?P<key>[\w.-]+):[ ]+(?P<value>\S.*?))\s*$")
_COMMENT = re.compile(r"\s+#.*$")
_WITHIN_BRACES = re.compile(r"(?P<key>[\w.-]+):\s*[^:{},]*$")
_FIRST = "*&!%@`{[|>\"'?"
_ALIAS = re.compile(r"[*&][\w-]+(?:\s*[\[{].*)?")
"""An alias, or an anchor of a list or a mapping: they are no text."""


def without_quotes(line: str, column: int) -> tuple[str, str] | None:
    """What is wrong with a line whose value needs quotes, and the line as it should be; None if quotes do not help."""
    entry = _ENTRY.fullmatch(line)
    if entry is None or (entry["value"].startswith("{") and not entry["value"].startswith("{{")):
        return _within_braces(line, column)
    key, value = entry["key"], _COMMENT.sub("", entry["value"])
    reason = _reason(value)
    if reason is None or _ALIAS.fullmatch(value):
        return None
    text = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    quoted = f"{key}: {json.dumps(text, ensure_ascii=False)}"
    if not _is_read(quoted, key, text):
        return None
    return f'the value of "{key}" needs quotes, because of its {reason}', f"Put it in quotes: {quoted}"


def _reason(value: str) -> str | None:
    if value[0] in _FIRST:
        return value[0]
    return "colon" if ": " in value or value.endswith(":") else None


def _within_braces(line: str, column: int) -> tuple[str, str] | None:
    """The same for a value within braces, whose end is not known."""
    before, character = line[: column - 1].rstrip("*&"), line[column - 1 : column]
    found = _WITHIN_BRACES.search(before)
    first = line[len(before.rstrip()) :].strip()[:1] or character
    if (
        "{" not in before
        or found is None
        or first not in "*&!%@`:"
        or _ALIAS.fullmatch(line[column - 1 :].split(",")[0])
    ):
        return None
    what = f'the value of "{found["key"]}" needs quotes, because of its {first}'
    return what, f'Put it in quotes: {found["key"]}: "…"'


def _is_read(entry: str, key: str, text: str) -> bool:
    try:
        node = parse(entry)
    except InvalidInput:
        return False
    match node:
        case MappingNode(entries=((Scalar(value=name), Scalar(value=value)),)):
            return (name, value) == (key, text)
        case _:
            return False
