"""Values in the file that need quotes, because YAML reads their characters as its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from matins.config.problems import Problem
from matins.config.structure import parts
from matins.engine.schedules import SETTINGS
from matins.errors import InvalidInput
from matins.model.settings import Template
from matins.texts.yaml_nodes import MappingNode, Node, Scalar, parse

_ENTRY = re.compile(r"\s*(?:- +)?(?P<entry>(?P<key>[\w.-]+):[ ]+(?P<value>\S.*?))\s*$")
_BEFORE_KEY = re.compile(r"[{,\s]")
_WITHIN_BRACES = tuple("*&!%@`")
_FIRST = "*&!%@`{[|>\"'?"
_ALIAS = re.compile(r"[*&][\w-]+(?:\s*[\[{].*)?")
"""An alias, or an anchor of a list or a mapping: they are no text."""
_COMMENT = re.compile(r"(?:\s*:)?[ \t]+(?P<comment>#.*)")
_TEMPLATES = frozenset(name for name, declared in SETTINGS.items() if isinstance(declared.kind, Template))
"""Settings whose text may begin with a heading of Markdown: `# Report`."""


def without_quotes(line: str, column: int) -> tuple[str, str] | None:
    """What is wrong with a line whose value needs quotes, and the line as it should be; None if quotes do not help."""
    entry = _ENTRY.fullmatch(line)
    if entry is None or (entry["value"].startswith("{") and not entry["value"].startswith("{{")):
        return _within_braces(line, column)
    key, value = entry["key"], entry["value"].partition(" #")[0].rstrip()
    reason = _reason(value)
    if reason is None or _ALIAS.fullmatch(value):
        return None
    text = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    quoted = f"{key}: {json.dumps(text, ensure_ascii=False)}"
    if not _is_read(quoted, key, text):
        return None
    return f'the value of "{key}" needs quotes, because of its {reason}', f"Put it in quotes: {quoted}"


def cut_by_comment(root: Node, text: str) -> Iterator[Problem]:
    """Values that a # ends: `prompt: #1 thing` is empty. A # before a space is taken for a comment that is meant,
    except where a prompt would begin."""
    for node, path in parts(root):
        if not isinstance(node, Scalar) or node.block or node.quoted:
            continue
        found, key = _COMMENT.match(text, node.position.end), path.rpartition(".")[2]
        if found is None or (node.value is not None and key not in _TEMPLATES):
            continue
        heading = node.value is None and key in _TEMPLATES
        if found["comment"][1:2].strip() or heading:
            yield _cut(node, path, key, found, text)


def _cut(node: Scalar, path: str, key: str, found: re.Match[str], text: str) -> Problem:
    comment = found["comment"].rstrip()
    kept = "" if node.value is None else text[node.position.start : found.start("comment")]
    written = json.dumps(kept + comment, ensure_ascii=False)
    line = written if key.endswith("]") else f"{key}: {written}"
    hint = "Put the value in quotes." if "\n" in kept else f"Put it in quotes: {line}"
    ends = "is empty" if node.value is None else f"ends before {comment.split()[0]}"
    what = f"the value {ends}, because # begins a comment; write a comment on a line of its own"
    return Problem(node.position, path, what, hint=hint)


def _reason(value: str) -> str | None:
    if value[0] in _FIRST:
        return value[0]
    return "colon" if ": " in value or value.endswith(":") else None


def _within_braces(line: str, column: int) -> tuple[str, str] | None:
    """The same for a value within braces, whose end is not known."""
    head, colon, rest = line[:column].rpartition(":")
    key, first = _BEFORE_KEY.split(head)[-1], (rest + line[column:]).strip()
    if not colon or "{" not in head or not key or first[:1] not in _WITHIN_BRACES or _ALIAS.fullmatch(_value(first)):
        return None
    return f'the value of "{key}" needs quotes, because of its {first[:1]}', f'Put it in quotes: {key}: "…"'


def _value(text: str) -> str:
    return text.partition(",")[0].partition("}")[0].rstrip()


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
