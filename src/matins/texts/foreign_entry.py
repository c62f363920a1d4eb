"""One entry in a file of another program: set or removed in the text, with every other byte as it was.

Each format returns the new text. `edited` reads it back: unless it has exactly the entry and all that was there before,
nothing is written.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from matins.errors import InvalidInput
from matins.texts.yaml_nodes import MappingNode, Node, Scalar, parse, plain, to_python, to_yaml

Value = dict[str, Any]
Path = tuple[str, ...]


class Format(Protocol):
    def load(self, text: str) -> Value:
        """The values of a text. Raises ValueError or InvalidInput when it is broken."""
        ...

    def added(self, text: str, path: Path, entry: Value) -> str: ...

    def removed(self, text: str, path: Path) -> str: ...


def entry_in(values: Value, path: Path) -> Value | None:
    found: Any = values
    for name in path:
        found = cast("Value", found).get(name) if isinstance(found, dict) else None
    return cast("Value", found) if isinstance(found, dict) else None


def edited(form: Format, text: str, path: Path, entry: Value | None) -> str:
    """The text with the entry, or without it for None. Raises InvalidInput when the text cannot be changed safely."""
    try:
        before = form.load(text)
    except ValueError as error:
        raise InvalidInput(f"it is broken: {error}") from None
    _check_groups(before, path)
    old = entry_in(before, path)
    if old == entry:
        return text
    bare = form.removed(text, path) if old is not None else text
    new = bare if entry is None else form.added(bare, path, entry)
    try:
        is_right = _without_empty(form.load(new), path) == _without_empty(_expected(before, path, entry), path)
    except (ValueError, InvalidInput):
        is_right = False
    if not is_right:
        raise InvalidInput("it is written in a way that cannot be changed safely", hint="Change it by hand.")
    return new


def _check_groups(values: Value, path: Path) -> None:
    """Raise if something else has the name of the entry, or of a group that it is in."""
    found: Any = values
    for name in path:
        found = cast("Value", found).get(name)
        if found is None:
            return
        if not isinstance(found, dict):
            raise InvalidInput(f'"{name}" has another value than the program expects', hint="Correct it by hand.")


def _expected(before: Value, path: Path, entry: Value | None) -> Value:
    whole = copy.deepcopy(before)
    place = whole
    for name in path[:-1]:
        group = place.get(name)
        place[name] = {} if group is None else group
        place = place[name]
    place.pop(path[-1], None)
    if entry is not None:
        place[path[-1]] = entry
    return whole


def _without_empty(values: Value, path: Path) -> Value:
    """The values, where a group without entries counts as no group."""
    return values if values.get(path[0]) else {name: value for name, value in values.items() if name != path[0]}


# -- JSON with comments


class Jsonc:
    # What is not closed ends the scan: otherwise each further sign would be searched up to the end again.
    _TOKEN = re.compile(r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|\t', re.DOTALL)
    _LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)

    def load(self, text: str) -> Value:
        bare = self._LAST_COMMA.sub(lambda found: found[1] or " ", self._blanked(text))
        values: Any = json.loads(bare) if bare.strip() else {}
        if not isinstance(values, dict):
            raise ValueError("an object is missing")
        return cast("Value", values)

    def added(self, text: str, path: Path, entry: Value) -> str:
        if not self._blanked(text).strip():
            text += "{}\n"
        bare = self._blanked(text)
        mapping, missing = _deepest(cast("MappingNode", parse(bare)), path)
        if missing[0] in _fields(mapping):  # it is null
            raise InvalidInput(f'"{missing[0]}" is null', hint="Delete it.")
        return _in_braces(text, bare, mapping, missing[0], nested(missing[1:], entry))

    def removed(self, text: str, path: Path) -> str:
        bare = self._blanked(text)
        key, value, _ = _place(cast("MappingNode", parse(bare)), path)
        return _out_of_braces(text, bare, key, value)

    def _blanked(self, text: str) -> str:
        """The text with spaces for comments and tabs, so that every position stays the same."""
        return self._TOKEN.sub(lambda found: _blank(found[0]), text)


def _blank(token: str) -> str:
    """Spaces for a comment or a tab. A text stays, and so does a comment without an end: it is an error."""
    is_open = token.startswith("/*") and not (len(token) > 3 and token.endswith("*/"))
    return token if token[0] == '"' or is_open else re.sub(r"[^\n]", " ", token)


def nested(path: Path, entry: Value) -> Value:
    for name in reversed(path):
        entry = {name: entry}
    return entry


def _deepest(root: MappingNode, path: Path) -> tuple[MappingNode, Path]:
    """The last mapping on the way to the entry, and the names that are missing in it."""
    for index, name in enumerate(path):
        found = _fields(root).get(name)
        if not isinstance(found, MappingNode):
            return root, path[index:]
        root = found
    return root, ()


def _fields(mapping: MappingNode) -> dict[Any, Node]:
    return {plain(key): value for key, value in mapping.entries}


def _place(root: MappingNode, path: Path) -> tuple[Node, Node, MappingNode]:
    """The name and the value of an entry that exists, and the mapping that it is in."""
    mapping, _ = _deepest(root, path[:-1])
    key, value = next(pair for pair in mapping.entries if plain(pair[0]) == path[-1])
    return key, value, mapping


def _in_braces(text: str, bare: str, mapping: MappingNode, name: str, value: Value) -> str:
    close = mapping.position.end - 1
    last = mapping.entries[-1] if mapping.entries else None
    opening = text[text.rfind("\n", 0, mapping.position.start) + 1 : mapping.position.start]
    outer = opening[: len(opening) - len(opening.lstrip())]
    if last is not None and "\n" not in text[mapping.position.start : close]:
        after = last[1].position.end
        return f"{text[:after]}, {json.dumps(name)}: {json.dumps(value)}{text[after:]}"
    indent = " " * (last[0].position.column - 1) if last else outer + "  "
    lines = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + indent)
    body = len(text[:close].rstrip())
    has_comma = bare[:body].rstrip().endswith(",")
    added = f"\n{indent}{json.dumps(name)}: {lines}{',' if has_comma else ''}\n{outer}"
    if last is None or has_comma:
        return text[:body] + added + text[close:]
    after = last[1].position.end
    return f"{text[:after]},{text[after:body]}{added}{text[close:]}"


def _out_of_braces(text: str, bare: str, key: Node, value: Node) -> str:
    start, end = key.position.start, value.position.end
    comma = re.match(r"\s*,", bare[end:])
    if comma:
        end += comma.end()
    if re.match(r" *(\n|})", text[end:]):
        start = len(text[:start].rstrip())
    before = text[:start]
    if not comma and bare[:start].rstrip().endswith(","):
        at = len(bare[:start].rstrip()) - 1
        before = text[:at] + text[at + 1 : start]
    return before + text[end:]


# -- YAML


class Yaml:
    def load(self, text: str) -> Value:
        root = parse(text)
        if root is not None and not isinstance(root, MappingNode):
            raise ValueError("names with values are missing")
        return {} if root is None else to_python(root)

    def added(self, text: str, path: Path, entry: Value) -> str:
        root = cast("MappingNode | None", parse(text))
        mapping, missing = _deepest(root, path) if root else (None, path)
        if mapping is not None and mapping.flow:
            return _in_braces(text, text, mapping, missing[0], nested(missing[1:], entry))
        if mapping is not None and mapping is not root:
            indent = mapping.entries[0][0].position.column - 1
            return _with_lines(text, _group_start(text, mapping), _block(missing, entry, indent))
        empty = next((key for key, _ in root.entries if plain(key) == missing[0]), None) if root else None
        if empty is None:
            return _with_lines(text, len(text), _block(missing, entry, 0))
        end = text.find("\n", empty.position.end) + 1 or len(text)
        return _with_lines(text, end, _block(missing[1:], entry, 2))

    def removed(self, text: str, path: Path) -> str:
        root = cast("MappingNode", parse(text))
        key, value, mapping = _place(root, path)
        if mapping.flow:
            return _out_of_braces(text, text, key, value)
        start = text.rfind("\n", 0, key.position.start) + 1
        content = len(text[: _last_end(value)].rstrip())
        end = text.find("\n", content) + 1 or len(text)
        if len(mapping.entries) > 1:
            return text[:start] + text[end:]
        group, _, _ = _place(root, path[:-1])  # it would be empty
        colon = text.index(":", group.position.end) + 1
        return f"{text[:colon]} {{}}{text[colon:start]}{text[end:]}"


def _with_lines(text: str, at: int, lines: list[str]) -> str:
    gap = "\n" if text[:at] and not text[:at].endswith("\n") else ""
    return text[:at] + gap + "\n".join(lines) + "\n" + text[at:]


def _group_start(text: str, mapping: MappingNode) -> int:
    """Where the lines of a group begin, with the comments above its first name."""
    at = text.rfind("\n", 0, mapping.entries[0][0].position.start) + 1
    for line in reversed(text[:at].splitlines(keepends=True)):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        at -= len(line)
    return at


def _last_end(node: Node) -> int:
    if isinstance(node, MappingNode) and not node.flow:
        return max(_last_end(part) for pair in node.entries for part in pair)
    if not isinstance(node, (MappingNode, Scalar)) and not node.flow:
        return max(_last_end(item) for item in node.items)
    return node.position.end


def _block(path: Path, entry: Value, indent: int) -> list[str]:
    lines = [f"{' ' * (indent + 2 * depth)}{name}:" for depth, name in enumerate(path)]
    inner = " " * (indent + 2 * len(path))
    return lines + [f"{inner}{name}: {to_yaml(value, flow=False)}" for name, value in entry.items()]


# -- TOML


class Toml:
    def load(self, text: str) -> Value:
        return tomllib.loads(text)

    def added(self, text: str, path: Path, entry: Value) -> str:
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        lines = [f"{name} = {_toml(value)}" for name, value in entry.items()]
        return f"{text}{gap}[{'.'.join(path)}]\n" + "".join(line + "\n" for line in lines)

    def removed(self, text: str, path: Path) -> str:
        """The text without the table and its inner tables. Comments above the next table stay."""
        names = r"\s*\.\s*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in path)
        ours = re.compile(rf"\s*\[\s*{names}\s*[\].]")
        kept: list[str] = []
        dropped: list[str] = []
        is_ours = False
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                kept += _remarks_at_end(dropped)
                dropped, is_ours = [], ours.match(line) is not None
            (dropped if is_ours else kept).append(line)
        kept += _remarks_at_end(dropped)
        while kept and not kept[-1].strip():
            kept.pop()
        return "".join(kept)


def _remarks_at_end(lines: list[str]) -> list[str]:
    count = next((n for n, line in enumerate(reversed(lines)) if line.strip() and not line.strip().startswith("#")), 0)
    return lines[len(lines) - count :]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)
