"""From text to items, with places and problems.

Reads the text of `matins.yaml`: records and settings with their locations, and all problems.

Problems in the structure of any YAML text, whatever its content.

The structure of the file: a section for each kind of record, schedules, and top-level keys.

Problems of a file: all at once, each with its location and a hint.

Settings that only herdctl's files have, as Matins has them.

Names that other programs have for a setting of a schedule, and what is meant.

Values in the file that need quotes, because YAML reads their characters as its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import orjson

from matins.config.presets import PRESETS
from matins.engine.schedules import SETTINGS
from matins.engine.settings import default_hint, own_names
from matins.engine.validation import UNSTORABLE, nearest, one_of, preview_of
from matins.errors import Example, InvalidFile, InvalidInput
from matins.model import settings as kinds
from matins.model.settings import (
    Choice,
    Declared,
    Duration,
    Flag,
    Kind,
    Name,
    Pause,
    Setting,
    Table,
    Template,
    Text,
    settings_of,
)
from matins.records import record_kinds
from matins.records.kind import RecordKind
from matins.texts.yaml_nodes import MappingNode, Node, Position, Scalar, SequenceNode, not_finite, parse, to_python

_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]+)?\s*")
_QUOTE = 'Use null, or quote it if it is a text: "{}".'


def read_node(node: Node, kind: Kind) -> Any:
    """The value of a node; None when it is empty. Raises InvalidInput, without a location, for a wrong form."""
    if isinstance(node, Scalar) and node.value is None:
        return None
    return READ[type(kind)](node, kind)


def as_written(node: Node) -> Any:
    """The node as Python values. All scalars stay text."""
    match node:
        case Scalar():
            return node.value
        case SequenceNode():
            return [as_written(item) for item in node.items]
        case MappingNode():
            return {as_written(key): as_written(value) for key, value in node.entries}


def _text(node: Node, kind: Kind) -> Any:
    if isinstance(node, Scalar):
        return node.value
    raise _invalid(node, "a string")


def _choice(node: Node, kind: Kind) -> Any:
    values = cast("kinds.Choice", kind).values
    if isinstance(node, Scalar) and node.value in values:
        return node.value
    hint = nearest(str(node.value), values) if isinstance(node, Scalar) else None
    raise _invalid(node, one_of(values), hint)


def _whole(node: Node, kind: Kind) -> Any:
    bounds = cast("kinds.Int", kind)
    value = to_python(node)
    if type(value) is int and bounds.low <= value <= bounds.high:
        return value
    raise _invalid(node, f"an integer from {bounds.low} to {bounds.high}", _unquote(node))


def _decimal(node: Node, kind: Kind) -> Any:
    bounds = cast("kinds.Decimal", kind)
    value = to_python(node)
    if type(value) in (int, float) and bounds.low <= value <= bounds.high:
        return value
    raise _invalid(node, bounds.allowed, _unquote(node))


def _unquote(node: Node) -> str | None:
    """The hint for a number in quotes."""
    number = isinstance(node, Scalar) and node.quoted and _NUMBER.fullmatch(str(node.value))
    return "Remove the quotes." if number else None


def _flag(node: Node, kind: Kind) -> Any:
    value = to_python(node)
    if isinstance(value, bool):
        return value
    raise _invalid(node, "true or false", "In YAML 1.2, yes and on are strings.")


def _strings(node: Node, kind: Kind) -> Any:
    """A list of strings. A single string may be written without a list."""
    if isinstance(node, Scalar):
        return [node.value]
    if isinstance(node, SequenceNode) and all(
        isinstance(item, Scalar) and item.value is not None for item in node.items
    ):
        return as_written(node)
    raise _invalid(node, "a list of strings")


def _command(node: Node, kind: Kind) -> Any:
    return node.value if isinstance(node, Scalar) else _strings(node, kind)


def _labels(node: Node, kind: Kind) -> Any:
    return to_python(_checked_mapping(node))


def _checked_mapping(node: Node) -> MappingNode:
    if isinstance(node, MappingNode):
        return node
    raise _invalid(node, "a mapping")


def _variables(node: Node, kind: Kind) -> Any:
    if isinstance(node, MappingNode) and all(isinstance(v, Scalar) and v.value is not None for _, v in node.entries):
        return as_written(node)
    allowed = "a mapping of names to strings"  # the invalid value may be a secret, and is not repeated
    raise InvalidInput(f"must be {allowed}", allowed=allowed, hint="For example: {KEY: env:KEY}.")


def _target(node: Node, kind: Kind) -> Any:
    if isinstance(node, SequenceNode):
        raise _invalid(node, "a word or a mapping", "Use fresh, or {kind: channel, channel: C07}.")
    return as_written(node)


def _windows(node: Node, kind: Kind) -> Any:
    return as_written(node) if isinstance(node, SequenceNode) else [as_written(node)]


def _records(node: Node, kind: Kind) -> Any:
    """A list of mappings. Settings of records are read by their kinds; a wrong one names its place."""
    records = cast("kinds.Records", kind)
    if not isinstance(node, SequenceNode) or not all(isinstance(item, MappingNode) for item in node.items):
        raise _invalid(node, "a list of mappings", "- title: Build")
    return [_record(cast("MappingNode", item), records, number) for number, item in enumerate(node.items, 1)]


def _record(node: MappingNode, kind: kinds.Records, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    table, spellings = settings_of(kind.record), dict(kind.spellings)
    for key, value in node.entries:
        name = str(as_written(key))
        declared = table.get(spellings.get(name, name))
        try:
            found[name] = as_written(value) if declared is None else read_node(value, declared.kind)
        except InvalidInput as error:
            error.field = f"[{number}].{name}"
            error.hint = error.hint or (default_hint(declared) if declared else None)
            raise
    return own_names(kind, f"{kind.one.capitalize()} {number}", found)


def _pause(node: Node, kind: Kind) -> Any:
    value = to_python(node)
    if isinstance(value, bool):
        return value
    if isinstance(node, Scalar):
        return node.value
    raise _invalid(node, "true, false, or a text that gives the reason")


def _json(node: Node, kind: Kind) -> Any:
    """Any value. What YAML reads as NaN or an infinity would silently be a text."""
    if (number := not_finite(node)) is not None:
        message = f"must be a JSON value, and JSON has no {number.value} (line {number.position.line})"
        raise InvalidInput(message, value=number.value, allowed="a JSON value", hint=_QUOTE.format(number.value))
    return to_python(node)


def _options(node: Node, kind: Kind) -> Any:
    return _json(_checked_mapping(node), kind)


def _invalid(node: Node, allowed: str, hint: str | None = None) -> InvalidInput:
    value = (
        preview_of(to_python(node))
        if isinstance(node, Scalar)
        else "a list"
        if isinstance(node, SequenceNode)
        else "a mapping"
    )
    return InvalidInput(f"must be {allowed}, not {value}", value=value, allowed=allowed, hint=hint)


READ: Mapping[type[Kind], Callable[[Node, Kind], Any]] = {
    **dict.fromkeys(
        (
            kinds.Text, kinds.Template, kinds.Name, kinds.Duration, kinds.Size, kinds.Instant, kinds.Zone, kinds.Money,
            kinds.Tokens, kinds.Secret, kinds.Url,
        ),
        _text,
    ),
    **dict.fromkeys((kinds.Names, kinds.Arguments), _strings),
    kinds.Choice: _choice,
    kinds.Flag: _flag,
    kinds.Int: _whole,
    kinds.Decimal: _decimal,
    kinds.Command: _command,
    kinds.Variables: _variables,
    kinds.Target: _target,
    kinds.Windows: _windows,
    kinds.Labels: _labels,
    kinds.Options: _options,
    kinds.Json: _json,
    kinds.Inputs: _options,
    kinds.Calls: _json,
    kinds.Records: _records,
    kinds.Pause: _pause,
}  # fmt: skip


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


def structure_problems(node: Node, path: str = "") -> Iterator[Problem]:
    """Values that a store cannot hold, and entries without a name."""
    match node:
        case Scalar(value=str(text)) if UNSTORABLE.search(text):
            yield Problem(node.position, path, "this contains a NUL or half a character", hint="Remove it.")
        case MappingNode():
            for key, _ in node.entries:
                if not isinstance(key, Scalar) or key.value is None:
                    yield Problem(key.position, path, "this has no name", hint="Write name: value.")
                else:
                    yield from structure_problems(key, path)
        case _:
            pass
    for inner, below in _below(node, path):
        yield from structure_problems(inner, below)


def duplicate_keys(node: Node, path: str = "") -> Iterator[Problem]:
    """Names that occur twice in one mapping: one of them would be lost."""
    seen: dict[str | None, Position] = {}
    for key, _ in node.entries if isinstance(node, MappingNode) else ():
        name = key.value if isinstance(key, Scalar) else None
        if name in seen:
            what = f"is there twice, first on line {seen[name].line}"
            yield Problem(key.position, _joined(path, key), what, name, hint="Remove one of them.")
        seen[name] = key.position
    for inner, below in _below(node, path):
        yield from duplicate_keys(inner, below)


def parts(node: Node, path: str = "") -> Iterator[tuple[Node, str]]:
    """All values below a node, with their paths."""
    for inner, below in _below(node, path):
        yield inner, below
        yield from parts(inner, below)


def _below(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    match node:
        case SequenceNode():
            yield from ((item, f"{path}[{number}]") for number, item in enumerate(node.items))
        case MappingNode():
            yield from ((value, _joined(path, key)) for key, value in node.entries)
        case _:
            pass


def _joined(path: str, key: Node) -> str:
    name = key.value if isinstance(key, Scalar) else "?"
    return f"{path}.{name}" if path else str(name)


Edits = Literal["refuse", "write_back"]
SCHEDULES = "schedules"
SCHEDULES_HELP = "When which agent is woken for what, by name."
DEFAULTS = "defaults"
DEFAULTS_HELP = "Settings of all schedules that do not set them themselves; `isolation` and `user` of all such agents."


def _declared(name: str, kind: Kind, text: str, example: Any) -> Declared:
    return Declared(name, name, Setting(kind, text, example), None)


_FILE_ONLY = (
    _declared(
        "when", Text(1_000, lines=True), 'When: "every weekday at 9am", "0 2 * * *", "5m", an ISO instant, an RRULE.',
        "every weekday at 9am",
    ),
    _declared("agent", Name("agents"), "Agent to wake, by name.", "scout"),
    _declared("preset", Choice(tuple(PRESETS)), "System whose defaults apply to the schedule.", "herdctl"),
    _declared("paused", Pause(), "Whether the file pauses the schedule; text is the reason.", "until the key is there"),
    _declared("type", Choice(("interval", "cron", "webhook", "chat")),
              "As herdctl writes it: with interval or expression, or started by calls.", "interval"),
    _declared("interval", Duration(), "Interval of a schedule with `type: interval`.", "5m"),
    _declared("expression", Text(1_000), "Cron expression of a schedule with `type: cron`.", "0 9 * * 1-5"),
    _declared("cron", Text(1_000), "The same, as newer versions of herdctl write it.", "0 9 * * 1-5"),
    _declared("enabled", Flag(), "As herdctl writes it: `false` pauses the schedule.", False),
    _declared("resume_session", Flag(), "As herdctl writes it: whether runs continue the agent's conversation.", True),
)  # fmt: skip
SCHEDULE: Table = {**{declared.name: declared for declared in _FILE_ONLY}, **SETTINGS}
"""The settings of a schedule in the file."""
OF_AGENTS = ("isolation", "user")
"""The defaults that are settings of agents."""
FILE_NAME = "matins"
"""The name of a file that does not say one."""
TOP: Table = {
    "name": _declared(
        "name", Name(), f"Name that owns what the file defines, among the files of one store (default: {FILE_NAME}).",
        "team-a",
    ),
    "preset": _declared("preset", Choice(tuple(PRESETS)), "System whose defaults apply to this file.", "herdctl"),
    "edits": _declared(
        "edits", Choice(get_args(Edits)),
        "Whether changes made elsewhere to what the file defines are refused, or written back into it.", "write_back",
    ),
}  # fmt: skip


@cache
def default_settings() -> Table:
    """The settings that `defaults` may have."""
    agents = record_kinds()["agents"].table
    return {**SETTINGS, **{name: agents[name] for name in OF_AGENTS}}


@cache
def sections() -> Mapping[str, RecordKind[Any]]:
    """The kinds of records that have a section, by its name."""
    return {noun: kind for noun, kind in record_kinds().items() if kind.in_file and not kind.single}


@cache
def singles() -> Mapping[str, RecordKind[Any]]:
    """The kinds with a single record, by their top-level key."""
    return {noun: kind for noun, kind in record_kinds().items() if kind.in_file and kind.single}


@cache
def top_level() -> tuple[str, ...]:
    return (*TOP, *singles(), DEFAULTS, SCHEDULES, *sections())


def of_agents(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if name in OF_AGENTS}


def of_schedules(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if name not in OF_AGENTS}


def conversation_of(agent: str) -> dict[str, Any]:
    """The target of `resume_session: true`: one conversation per agent, which each run continues."""
    return {"kind": "channel", "channel": f"herdctl:{agent}"}


def github_source(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a work source from `work_source: {type: github, repo: owner/name, labels: {ready: …}}`."""
    if entry.get("type") != "github" or not entry.get("repo"):
        hint = "For example: {type: github, repo: octo-org/garden}."
        raise InvalidInput(
            'a work source must have "type: github" and "repo".',
            value=entry.get("type"),
            field="work_source",
            hint=hint,
        )
    labels: Mapping[str, Any] = entry.get("labels") or {}
    auth: Mapping[str, Any] = entry.get("auth") or {}
    settings: dict[str, Any] = {"kind": "github", "repo": entry["repo"]}
    settings |= {"labels": [labels["ready"]]} if labels.get("ready") else {}
    return settings | ({"token": f"env:{auth['token_env']}"} if auth.get("token_env") else {})


_MEANT = {
    **dict.fromkeys(("schedule", "every", "at", "time", "times", "trigger", "rrule", "run_at", "starts_at"), "when"),
    **dict.fromkeys(("task", "message", "instruction", "instructions", "text", "query", "input"), "prompt"),
    **dict.fromkeys(("tz", "time_zone", "zone"), "timezone"),
    **dict.fromkeys(("cmd", "run", "shell", "script", "exec", "program"), "command"),
    **dict.fromkeys(("cwd", "chdir", "directory", "working_directory"), "workdir"),
    **dict.fromkeys(("env", "variables"), "environment"),
    **dict.fromkeys(("disabled", "pause"), "paused"),
    **dict.fromkeys(("concurrency", "allow_overlap"), "overlap"),
    **dict.fromkeys(("backoff", "retry_interval"), "retry_delay"),
    **dict.fromkeys(("needs", "depends_on", "dependencies"), "after"),
}
_SCHEDULES = ("jobs", "tasks", "crons", "cron_jobs", "missions")


def meant_setting(name: str, known: Collection[str]) -> str | None:
    """The hint for a name that other programs use, where the setting that is meant is known."""
    plain = name.lower().replace("-", "_")
    if plain != name and plain in known:
        return f'Did you mean "{plain}"?'
    if plain == "name" and "when" in known:
        return "The name is the key above the settings: remove this line."
    meant = _MEANT.get(plain, "schedules" if plain in _SCHEDULES else None)
    return f'Did you mean "{meant}"?' if meant in known else None


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
    """The problem of a value within braces that needs quotes, and its fix. The end of such a value is not known."""
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


_IN_LIST = re.compile(r"\[([0-9]+)\]\.(\w+)$")


class Location(NamedTuple):
    """The location of a setting or a record."""

    path: str
    key: Node
    node: Node


class SettingsBlock(NamedTuple):
    """The settings of a record, as read."""

    location: Location
    values: dict[str, Any]
    locations: dict[str, Location]
    """The location of each setting, also when its value is invalid."""


class FileItem(NamedTuple):
    """A record as written in the file."""

    kind: str
    name: str
    agent: str
    """The agent that a schedule is below; otherwise empty."""
    block: SettingsBlock


class ParsedFile(NamedTuple):
    """The content of a file before it is interpreted."""

    simple: dict[str, Any]
    defaults: SettingsBlock | None
    items: tuple[FileItem, ...]
    problems: tuple[Problem, ...]
    empty: bool = False
    top: Mapping[str, Location] = {}
    """The locations of the top-level keys."""


def read(text: str) -> ParsedFile:
    try:
        root = parse(text)
    except InvalidInput as error:
        return ParsedFile({}, None, (), (_not_yaml(error, text),))
    if root is None:
        return ParsedFile({}, None, (), (), True)
    return _Reader(text).read(root)


def _not_yaml(error: InvalidInput, text: str) -> Problem:
    """The problem for invalid YAML. The message of the error begins with its position."""
    where, _, what = error.message.partition(": ")
    line, column = (int(part.split()[1]) for part in where.split(", "))
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    if "\t" in written[: column + 1]:
        hint = "Replace the tab in this line with spaces."
    elif unquoted := without_quotes(written, column):
        what, hint = unquoted
    else:
        hint = (
            error.hint
            or "Check this line and the one above: a text with a colon, or with a mark of YAML, needs quotes."
        )
    return Problem(Position(0, 0, line, column), "", what, hint=hint)


def _as_key(names: list[Node]) -> str:
    """The hint for an entry of a list, where the name is a key."""
    name = names[0].value if names and isinstance(names[0], Scalar) else None
    if name:
        return f"Write {name}: in place of - name: {name}, with its settings below it."
    return "Write name: in place of each dash, with its settings below it."


def _cut_by_comma(node: MappingNode, value: Node, found: Mapping[str, Location]) -> str | None:
    """The hint for a name without a value within braces: a comma has ended the value before it."""
    if not node.flow or not found or not isinstance(value, Scalar) or value.value is not None:
        return None
    return f'A comma ends a value here: put the value of "{list(found)[-1]}" in quotes.'


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []

    def read(self, root: Node) -> ParsedFile:
        if not isinstance(root, MappingNode):
            self._add(root, "", "must be a mapping", hint="schedules:\n  morning:\n    when: every day at 9am")
            return ParsedFile({}, None, (), tuple(self.problems))
        self.problems += structure_problems(root)
        if self.problems:
            return ParsedFile({}, None, (), tuple(self.problems))
        self.problems += duplicate_keys(root)
        self.problems += cut_by_comment(root, self.text)
        top = self._entries(root, "", top_level())
        simple = {name: self._value(top[name], TOP[name]) for name in TOP if name in top}
        defaults = self._block(top[DEFAULTS], default_settings()) if DEFAULTS in top else None
        items = [item for name in top for item in self._items(name, top[name])]
        return ParsedFile(simple, defaults, tuple(items), tuple(self.problems), top=top)

    def _items(self, name: str, location: Location) -> Iterator[FileItem]:
        if name == SCHEDULES:
            yield from self._schedules("", location)
        elif name in singles():
            yield from self._record(singles()[name], name, location)
        elif name in sections():
            kind = sections()[name]
            for key, inner in self._named(location, kind):
                yield from self._record(kind, key, inner)

    def _record(self, kind: RecordKind[Any], name: str, location: Location) -> Iterator[FileItem]:
        if kind.alone and not isinstance(location.node, MappingNode):
            value = self._value(location, kind.table[kind.alone])
            if value is not None:
                yield FileItem(
                    kind.kind, name, "", SettingsBlock(location, {kind.alone: value}, {kind.alone: location})
                )
            return
        agent = kind.noun == "agents"
        yield FileItem(kind.kind, name, "", self._block(location, kind.table, (SCHEDULES, "name") if agent else ()))
        for key, node in location.node.entries if agent and isinstance(location.node, MappingNode) else ():
            if _is(key, SCHEDULES):
                yield from self._schedules(name, Location(f"{location.path}.{SCHEDULES}", key, node))

    def _schedules(self, agent: str, location: Location) -> Iterator[FileItem]:
        for name, inner in self._named(location, None):
            inner, source = self._inline_source(f"{agent}-{name}" if agent else name, inner)
            if source is not None:
                yield source
            yield FileItem("schedule", name, agent, self._block(inner, SCHEDULE))

    def _inline_source(self, name: str, location: Location) -> tuple[Location, FileItem | None]:
        """The schedule with the name of its work source, and that source, if it is written inside, as herdctl does."""
        for number, (key, node) in enumerate(location.node.entries if isinstance(location.node, MappingNode) else ()):
            if _is(key, "work_source") and isinstance(node, MappingNode):
                inner = Location(f"{location.path}.work_source", key, node)
                try:
                    settings = github_source(to_python(node))
                except InvalidInput as error:
                    self._add(node, inner.path, error.message, error.value, error.allowed, error.hint)
                    return location, None
                entries = list(cast("MappingNode", location.node).entries)
                entries[number] = key, Scalar(node.position, name)
                replaced = cast("MappingNode", location.node)._replace(entries=tuple(entries))
                block = SettingsBlock(inner, settings, dict.fromkeys(settings, inner))
                return location._replace(node=replaced), FileItem("work_source", name, "", block)
        return location, None

    def _named(self, location: Location, kind: RecordKind[Any] | None) -> Iterable[tuple[str, Location]]:
        """The entries of a section by name. Agents may be a list, in which each has a name."""
        if not isinstance(location.node, SequenceNode):
            return self._entries(location.node, location.path, kind.keys if kind else ()).items()
        listed = kind is not None and kind.noun == "agents"
        found: list[tuple[str, Location]] = []
        for number, item in enumerate(location.node.items):
            path = f"{location.path}[{number}]"
            names = [value for key, value in item.entries if _is(key, "name")] if isinstance(item, MappingNode) else []
            if listed and names and isinstance(names[0], Scalar) and names[0].value:
                if names[0].value in dict(found):
                    self._add(names[0], path, f'"{names[0].value}" is there twice', hint="Remove one of them.")
                found.append((names[0].value, Location(path, names[0], item)))
            else:
                hint = "- name: scout" if listed else _as_key(names)
                self._add(item, path, "must have a name" if listed else "must not be a list", hint=hint)
        return found

    def _block(self, location: Location, table: Table, extra: tuple[str, ...] = ()) -> SettingsBlock:
        locations = self._entries(location.node, location.path, (*table, *extra))
        values = {name: self._value(inner, table[name]) for name, inner in locations.items() if name in table}
        return SettingsBlock(location, values, locations)

    def _value(self, location: Location, declared: Declared) -> Any:
        try:
            return read_node(location.node, declared.kind)
        except InvalidInput as error:
            named = location.path.rpartition(".")[2] == declared.name
            hint = in_file(error.hint or default_hint(declared), named=named)
            place = within(location, error.field)
            if any(problem.path.startswith(f"{place.path}[") for problem in self.problems):  # an empty item of a list
                return None
            self._add(place.node, place.path, error.message, error.value, error.allowed, hint)
            return None

    def _entries(self, node: Node, path: str, names: Iterable[str]) -> dict[str, Location]:
        """The entries of a mapping by name. If `names` are given, others are reported and left out."""
        if isinstance(node, Scalar) and node.value is None:
            return {}
        if not isinstance(node, MappingNode):
            self._add(node, path, "must be a mapping", hint="Write name: value on the lines below it.")
            return {}
        names = tuple(names)
        found: dict[str, Location] = {}
        for key, value in node.entries:
            name = str(key.value) if isinstance(key, Scalar) else ""
            if names and name not in names:
                hint = _cut_by_comma(node, value, found) or meant_setting(name, names) or nearest(name, names)
                self._add(key, path, f'there is no "{name}"', name, ", ".join(names), hint)
            else:
                found.setdefault(name, Location(f"{path}.{name}" if path else name, key, value))
        return found

    def _add(
        self, node: Node, path: str, what: str, value: Any = None, allowed: str | None = None, hint: str | None = None
    ) -> None:
        self.problems.append(Problem(node.position, path, what, value, allowed, hint))


def within(location: Location, field: str | None) -> Location:
    """The place of a setting of a record in a list, such as `[2].retries`; the location itself for any other field.
    Such records are numbered from 1."""
    found = _IN_LIST.search(field or "")
    items = location.node.items if isinstance(location.node, SequenceNode) else ()
    item = items[int(found[1]) - 1] if found and 0 < int(found[1]) <= len(items) else None
    if found is None or not isinstance(item, MappingNode):
        return location
    path = f"{location.path}[{found[1]}]"
    for key, node in item.entries:
        if _is(key, found[2]):
            return Location(f"{path}.{found[2]}", key, node)
    return Location(path, item, item)


def _is(key: Node, name: str) -> bool:
    return isinstance(key, Scalar) and key.value == name
