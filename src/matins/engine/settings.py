"""Settings by kind: parsed to the value of a record, and formatted.

Four tables have an entry for every kind: PARSE and FORMAT for people, DUMP and LOAD for the store. A new kind adds a
line to each.

Values of settings, as people give them: one parser for each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from matins.engine.calls import format_on, parse_on
from matins.engine.inputs import format_declared, parse_declared
from matins.engine.money import format_money, parse_money, parse_tokens
from matins.engine.prompts import check_prompt_text
from matins.engine.quiet_hours import parse_windows, window_text
from matins.engine.reasons import rfc3339
from matins.engine.targets import parse_target
from matins.engine.validation import (
    UNSTORABLE,
    check_choice,
    check_json,
    check_labels,
    check_name,
    check_names_known,
    check_node_name,
    check_number,
    check_strings,
    invalid,
    is_name,
    nearest,
    preview_of,
)
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import to_ms
from matins.engine.when.zones import load_zone
from matins.errors import Example, InstantError, IntervalParseError, InvalidInput, TriggerError
from matins.model import settings as kinds
from matins.model.agent import Target
from matins.model.settings import Declared, Kind, Table, settings_of
from matins.model.trigger import Once
from matins.model.words import has_hidden

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
MIN_SIZE, MAX_SIZE = 1, 10**15
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([KMGT]?B)\s*", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """The size in bytes; None if the text is no size from 1 B to 1000 TB."""
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * UNITS[match[2].upper()] if match else 0
    return size if MIN_SIZE <= size <= MAX_SIZE else None


def format_size(size: int) -> str:
    """The text in the largest unit that divides the size."""
    unit = next(unit for unit in reversed(UNITS) if size % UNITS[unit] == 0)
    return f"{size // UNITS[unit]}{unit}"


REFERENCES = ("env:", "file:")
REDACTED = "…"
"""The replacement of a value that may be a secret."""
MAX_LABELS = 50
MAX_URL_LENGTH = 2_000
MAX_PAYLOAD_BYTES = 1 << 20
DOLLARS: Mapping[str, float] = {"USD": 1.0}
_MIN_INSTANT, _MAX_INSTANT = 100_000_000_000, 253_402_300_799_999
"""Milliseconds from 1973 to the year 9999. A smaller number is a year, or counts seconds."""


class ParseContext(NamedTuple):
    """The context that values are parsed in."""

    now: int
    rates: Mapping[str, float] = DOLLARS
    local_zone: Callable[[], str] = lambda: "UTC"
    """Asked only for a time zone `local`: finding it reads files."""
    timezone: str = "UTC"
    """The zone of instants without an offset."""


Parse = Callable[[Declared, Any, ParseContext], Any]


def example_hint(declared: Declared) -> Example:
    return Example({declared.name: declared.setting.example})


def _text(declared: Declared, value: Any, context: ParseContext) -> str:
    kind = cast("kinds.Text", declared.kind)
    fits = isinstance(value, str) and value.strip() and len(value) <= kind.max_length
    if fits and (kind.lines or (value.isprintable() and not has_hidden(value))):
        return value
    raise invalid(
        declared.name, value, f"text of 1 to {kind.max_length} {'characters' if kind.lines else 'printable characters'}"
    )


def _template(declared: Declared, value: Any, context: ParseContext) -> str:
    return check_prompt_text(value, declared.name)


def _name(declared: Declared, value: Any, context: ParseContext) -> str:
    if cast("kinds.Name", declared.kind).label:
        return check_node_name(declared.name, value)
    return check_name(declared.name, value)


def _names(declared: Declared, value: Any, context: ParseContext) -> tuple[str, ...]:
    kind = cast("kinds.Names", declared.kind)
    if value in ([], ()) and kind.empty:
        return ()
    names = check_strings(declared.name, value, "a list of names", declared.setting.example)
    if len(set(names)) != len(names):
        raise invalid(declared.name, value, "a list of different names")
    for name in names:
        if kind.values and name not in kind.values:
            message, allowed = f'"{declared.name}" has no value {preview_of(name)}.', ", ".join(kind.values)
            hint = nearest(name, kind.values)
            raise InvalidInput(message, value=name, field=declared.name, allowed=allowed, hint=hint)
    return check_labels(declared.name, names) if kind.labels else tuple(check_name(declared.name, n) for n in names)


def _choice(declared: Declared, value: Any, context: ParseContext) -> str:
    return check_choice(declared.name, value, cast("kinds.Choice", declared.kind).values)


def _flag(declared: Declared, value: Any, context: ParseContext) -> bool:
    if isinstance(value, bool):
        return value
    raise invalid(declared.name, value, "true or false")


def _whole(declared: Declared, value: Any, context: ParseContext) -> int:
    kind = cast("kinds.Int", declared.kind)
    return check_number(declared.name, value, kind.low, kind.high)


def _decimal(declared: Declared, value: Any, context: ParseContext) -> float:
    kind = cast("kinds.Decimal", declared.kind)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and kind.low <= value <= kind.high and not (kind.above and value == kind.low):
        return value
    raise invalid(declared.name, value, kind.allowed)


def _size(declared: Declared, value: Any, context: ParseContext) -> int | None:
    kind = cast("kinds.Size", declared.kind)
    if kind.none and value == "none":
        return None
    size = parse_size(value) if isinstance(value, str) else None
    if size is None or size < kind.low:
        more = " or none" if kind.none else ""
        raise invalid(declared.name, value, f"a size from {format_size(kind.low)} to 1000TB{more}")
    return size


def _duration(declared: Declared, value: Any, context: ParseContext) -> int | None:
    kind = cast("kinds.Duration", declared.kind)
    if kind.none and value == "none":
        return None
    if kind.auto and value == "auto":
        return 0
    if not isinstance(value, str):
        word = "none" if kind.none else "auto" if kind.auto else None
        allowed = 'a duration such as "5m"' + (f', or "{word}"' if word else "")
        raise invalid(declared.name, value, allowed)
    try:
        return parse_duration(value, zero=kind.zero)
    except IntervalParseError as error:
        reason = "" if "is not a duration" in error.message else f": {error.message.rstrip('.')}"
        message = f'"{declared.name}" must be a duration, not {preview_of(value)}{reason}.'
        raise IntervalParseError(
            message, value=value, field=declared.name, allowed=error.allowed, hint=error.hint
        ) from None


def _instant(declared: Declared, value: Any, context: ParseContext) -> int:
    """An ISO instant, in the context's zone unless it has an offset; or an aware datetime, or milliseconds. A past
    instant is allowed: it is compared when a slot is due."""
    name = declared.name
    hint, allowed = Example({name: "2026-12-31T18:00"}), "an ISO instant"
    if type(value) is int and _MIN_INSTANT <= value <= _MAX_INSTANT:
        return value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            message = f'"{name}" has no time zone: {value.isoformat()}.'
            raise InstantError(message, value=value, field=name, hint="For example: datetime.now(UTC).")
        return to_ms(value)
    if not isinstance(value, str):
        raise invalid(name, value, allowed, hint=hint)
    try:
        when = parse_trigger(value, now_ms=context.now, timezone=context.timezone).definition.when
    except InstantError as error:
        raise InstantError(f'"{name}": {error.message}', value=value, field=name, hint=error.hint or hint) from None
    except TriggerError:  # not an instant, so the error of the phrase does not help
        when = None
    if not isinstance(when, Once):
        message = invalid(name, value, allowed).message
        raise InstantError(message, value=value, field=name, allowed=allowed, hint=hint)
    return when.at_ms


def _zone(declared: Declared, value: Any, context: ParseContext) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise invalid(declared.name, value, 'an IANA name such as "Europe/London"')
    return load_zone(context.local_zone() if value == "local" else value).name


def _money(declared: Declared, value: Any, context: ParseContext) -> int:
    return parse_money(value, context.rates, declared.name)


def _tokens(declared: Declared, value: Any, context: ParseContext) -> int:
    return parse_tokens(value, declared.name)


def _command(declared: Declared, value: Any, context: ParseContext) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.strip() and not UNSTORABLE.search(value):
        return value
    return check_strings(declared.name, value, "a command, or a list of a program and its arguments")


def _arguments(declared: Declared, value: Any, context: ParseContext) -> tuple[str, ...]:
    return check_strings(declared.name, value)


def _labels(declared: Declared, value: Any, context: ParseContext) -> dict[str, str]:
    labels = cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
    if not 1 <= len(labels) <= MAX_LABELS or not all(is_name(text) for pair in labels.items() for text in pair):
        raise invalid(declared.name, cast("object", value), f"a mapping of at most {MAX_LABELS} names to strings")
    return labels


def _variables(declared: Declared, value: Any, context: ParseContext) -> tuple[tuple[str, str], ...]:
    """The variables. A value that starts like a reference must be a complete reference."""
    pairs: list[tuple[str, str]] = []
    hint, allowed = Example({declared.name: {"API_KEY": "env:API_KEY"}}), "a mapping of names to strings"
    if not isinstance(value, dict):  # the value may be a secret
        what = f"a value of type {type(value).__name__}"
        message = f'"{declared.name}" must be {allowed}, not {what}.'
        raise InvalidInput(message, value=what, field=declared.name, allowed=allowed, hint=hint)
    for name, text in cast("dict[Any, Any]", value).items():
        if not isinstance(name, str) or not isinstance(text, str) or not name.isidentifier() or UNSTORABLE.search(text):
            shown = name.partition("=")[0] if isinstance(name, str) else name  # the rest is a value
            message = f'"{declared.name}" must be {allowed}: {preview_of(shown)} is not a name with a string.'
            raise InvalidInput(message, value=shown, field=declared.name, allowed=allowed, hint=hint)
        if text in REFERENCES:
            hint = "Use env:NAME, or file:/path/of/the/secret."
            raise InvalidInput(f'"{name}" refers to nothing: {text}', value=text, field=declared.name, hint=hint)
        if text == REDACTED:
            hint = "Give its value, or where it is: env:NAME, file:/path."
            message = f'"{name}" has no value: {text} stands for a hidden one.'
            raise InvalidInput(message, field=declared.name, hint=hint)
        pairs.append((name, text))
    return tuple(pairs)


def _target(declared: Declared, value: Any, context: ParseContext) -> Target:
    return parse_target(value)


def _windows(declared: Declared, value: Any, context: ParseContext) -> Any:
    return parse_windows(value)


def _secret(declared: Declared, value: Any, context: ParseContext) -> str:
    """The reference. The error for a plain secret does not repeat it."""
    if isinstance(value, str) and value.startswith(REFERENCES) and value not in REFERENCES and value.isprintable():
        return value
    allowed = "env:NAME or file:/path"
    message = f'"{declared.name}" must be a reference to the secret, not the secret itself.'
    raise InvalidInput(message, field=declared.name, allowed=allowed, hint=example_hint(declared))


def _url(declared: Declared, value: Any, context: ParseContext) -> str:
    """The URL. A password is refused, because every reader would see it."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_URL_LENGTH:
        message = f'"{declared.name}" must be a URL of at most {MAX_URL_LENGTH} characters.'  # it may contain a key
        raise InvalidInput(message, field=declared.name, hint=example_hint(declared))
    if "@" in value.partition("://")[2].partition("/")[0]:
        hint = "Refer to secrets elsewhere, as env:NAME or file:/path."
        raise InvalidInput(f'"{declared.name}" contains a user name or a password.', field=declared.name, hint=hint)
    return value


def _options(declared: Declared, value: Any, context: ParseContext) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", _json(declared, value, context))
    raise invalid(declared.name, value, "a mapping")


def _json(declared: Declared, value: Any, context: ParseContext) -> Any:
    size = len(check_json(declared.name, value))
    if size > MAX_PAYLOAD_BYTES:
        allowed = f"at most {MAX_PAYLOAD_BYTES} bytes as JSON"
        message = f'"{declared.name}" must be {allowed}, not {size}.'
        raise InvalidInput(message, value=preview_of(size), field=declared.name, allowed=allowed)
    return value


def _inputs(declared: Declared, value: Any, context: ParseContext) -> Any:
    return parse_declared(value, declared.name)


def _calls(declared: Declared, value: Any, context: ParseContext) -> Any:
    return parse_on(value, declared.name)


def _pause(declared: Declared, value: Any, context: ParseContext) -> bool | str:
    if isinstance(value, (bool, str)):
        return value
    raise invalid(declared.name, value, "true, false, or a text that gives the reason")


VALUE_PARSERS: Mapping[type[Kind], Parse] = {
    kinds.Text: _text,
    kinds.Template: _template,
    kinds.Name: _name,
    kinds.Names: _names,
    kinds.Choice: _choice,
    kinds.Flag: _flag,
    kinds.Int: _whole,
    kinds.Decimal: _decimal,
    kinds.Duration: _duration,
    kinds.Size: _size,
    kinds.Instant: _instant,
    kinds.Zone: _zone,
    kinds.Money: _money,
    kinds.Tokens: _tokens,
    kinds.Command: _command,
    kinds.Arguments: _arguments,
    kinds.Labels: _labels,
    kinds.Variables: _variables,
    kinds.Target: _target,
    kinds.Windows: _windows,
    kinds.Secret: _secret,
    kinds.Url: _url,
    kinds.Options: _options,
    kinds.Json: _json,
    kinds.Inputs: _inputs,
    kinds.Calls: _calls,
    kinds.Pause: _pause,
}
"""All but lists of records, whose settings are parsed one by one."""


Values = Mapping[str, Any]


def parse_settings(owner: str, table: Table, given: Values, context: ParseContext) -> dict[str, Any]:
    """The fields of these settings, without those that are None. An error names the setting and what to type."""
    check_names_known(owner, given, table)
    return {
        table[name].field: parse_setting(table[name], value, context)
        for name, value in given.items()
        if value is not None
    }


def parse_setting(declared: Declared, value: Any, context: ParseContext) -> Any:
    try:
        return PARSE[type(declared.kind)](declared, value, context)
    except InvalidInput as error:
        error.hint = error.hint or default_hint(declared)
        raise


def check_required(owner: str, table: Table, given: Values) -> None:
    for name, declared in table.items():
        if declared.setting.required and given.get(name) is None:
            meaning = declared.setting.help.rstrip(".")
            raise InvalidInput(f'{owner} needs "{name}" ({meaning}).', field=name, hint=example_hint(declared))


@cache
def _settings_and_fields(owner: type[Any]) -> tuple[tuple[Declared, ...], Callable[[Any], tuple[Any, ...]]]:
    """The settings that a dataclass declares, and what reads all of them at once."""
    declared = tuple(settings_of(owner).values())
    fields = [one.field for one in declared]
    return declared, attrgetter(*fields) if len(fields) > 1 else lambda value: tuple(getattr(value, f) for f in fields)


def format_settings(value: object) -> dict[str, Any]:
    """The settings that differ from the default, as people write them."""
    settings, held_by = _settings_and_fields(type(value))
    return {
        declared.name: format_setting(declared, held)
        for declared, held in zip(settings, held_by(value), strict=True)
        if (held is not declared.default and held != declared.default) or declared.setting.required
    }


def format_setting(declared: Declared, value: Any) -> Any:
    if value is None:
        return "none" if isinstance(declared.kind, (kinds.Duration, kinds.Size)) and declared.kind.none else None
    if value == 0 and isinstance(declared.kind, kinds.Duration) and declared.kind.auto:
        return "auto"
    return FORMAT[type(declared.kind)](value)


def dump_settings(value: object) -> dict[str, Any]:
    """The stored form, by field: the values that differ from the defaults."""
    settings, held_by = _settings_and_fields(type(value))
    return {
        declared.field: held if held is None else DUMP[type(declared.kind)](held)
        for declared, held in zip(settings, held_by(value), strict=True)
        if held is not declared.default and held != declared.default
    }


def loaders_of(table: Table) -> dict[str, Callable[[Any], Any]]:
    """The loader of each field, for `load_settings`."""
    return {declared.field: _loader(declared.kind) for declared in table.values()}


def _loader(kind: Kind) -> Callable[[Any], Any]:
    found = LOAD[type(kind)]
    return found(kind) if isinstance(kind, kinds.Records) else found


def load_settings(loaders: Mapping[str, Callable[[Any], Any]], data: Values) -> dict[str, Any]:
    """The fields from the output of `dump_settings`."""
    return {field: None if held is None else loaders[field](held) for field, held in data.items() if field in loaders}


def redacted(table: Table, data: Values) -> dict[str, Any]:
    """The output of `dump_settings` without values that may be secrets, for events."""
    found = dict(data)
    for declared in table.values():
        held = found.get(declared.field)
        if held and isinstance(declared.kind, kinds.Variables):
            found[declared.field] = {name: redact(text) for name, text in held}
        elif held and isinstance(declared.kind, kinds.Secret):
            found[declared.field] = redact(held)
        elif held and is_private(declared):
            found[declared.field] = origin(held)
    return found


def is_private(declared: Declared) -> bool:
    """Whether the setting is a URL whose path may contain a key."""
    return isinstance(declared.kind, kinds.Url) and declared.kind.private


def redact(text: str) -> str:
    return text if text.startswith(REFERENCES) else REDACTED


def origin(url: str) -> str:
    """The URL without its path, which may contain a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def default_hint(declared: Declared) -> str:
    """The meaning of an omitted setting, or an example if that has no short form."""
    default = None if declared.default is None else format_setting(declared, declared.default)
    if (
        default in (None, "")
        or isinstance(default, (list, dict))
        or declared.setting.required
        or declared.help_has_default
    ):
        return example_hint(declared)
    return f"Omit it to use the default, {str(default).lower() if isinstance(default, bool) else default}."


def _records(declared: Declared, value: Any, context: ParseContext) -> tuple[Any, ...]:
    """The records of a list. An error names the place: `steps[2].retries`."""
    kind = cast("kinds.Records", declared.kind)
    items = list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else []
    if not 1 <= len(items) <= kind.max_count:
        given = f"a list of {len(items)}" if isinstance(value, (list, tuple)) else preview_of(value)
        allowed = f"a list of 1 to {kind.max_count} mappings"
        message = f'"{declared.name}" must be {allowed}, not {given}.'
        raise InvalidInput(message, value=cast("object", value), field=declared.name, allowed=allowed)
    return tuple(_record(declared.name, kind, number, item, context) for number, item in enumerate(items, 1))


def _record(name: str, kind: kinds.Records, number: int, item: Any, context: ParseContext) -> Any:
    place, table = f"{name}[{number}]", settings_of(kind.record)
    if isinstance(item, kind.record):
        return item
    if not isinstance(item, Mapping):
        raise invalid(place, item, "a mapping")
    owner = f"{kind.one.capitalize()} {number}"
    try:
        given = own_names(kind, owner, cast("Mapping[str, Any]", item))
        check_required(owner, table, given)
        return kind.record(**parse_settings(owner, table, given, context))
    except InvalidInput as error:
        error.field = place if error.field is None else f"{place}.{error.field}"
        raise


def own_names(kind: kinds.Records, owner: str, given: Values) -> dict[str, Any]:
    """The settings of a record by Matins' own names. Raises InvalidInput if one is given by two names."""
    spellings = dict(kind.spellings)
    for other, name in kind.spellings:
        if other in given and name in given:
            message, hint = f'{owner} has both "{name}" and "{other}".', f'Omit "{other}".'
            raise InvalidInput(message, value=given[other], field=other, hint=hint)
    return {spellings.get(name, name): value for name, value in given.items()}


PARSE: Mapping[type[Kind], Parse] = {**VALUE_PARSERS, kinds.Records: _records}


# from records


def _same(value: Any) -> Any:
    return value


def _pairs(value: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {name: redact(text) for name, text in value}


def _place(value: Target) -> dict[str, Any]:
    return {name: item for name, item in value._asdict().items() if item is not None}


def _window_texts(value: tuple[Any, ...]) -> list[str]:
    return [window_text(window) for window in value]


def _record_settings(value: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [format_settings(item) for item in value]


def _dumped_records(value: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dump_settings(item) for item in value]


def _record_loader(kind: kinds.Records) -> Callable[[Any], Any]:
    """The loader of a list of records, which needs to know their type."""
    loaders = loaders_of(settings_of(kind.record))
    return lambda value: tuple(kind.record(**load_settings(loaders, item)) for item in value)


def _list(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _tuple_of_pairs(value: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in value)


def _target_of(value: list[Any]) -> Target:
    return Target(*value)


_PLAIN = (
    kinds.Text, kinds.Template, kinds.Name, kinds.Choice, kinds.Flag, kinds.Int, kinds.Decimal, kinds.Zone,
    kinds.Tokens, kinds.Labels, kinds.Url, kinds.Options, kinds.Json, kinds.Pause,
)  # fmt: skip
_LISTS = (kinds.Names, kinds.Command, kinds.Arguments)
FORMAT: Mapping[type[Kind], Callable[[Any], Any]] = {
    **dict.fromkeys(_PLAIN, _same),
    **dict.fromkeys(_LISTS, _list),
    kinds.Duration: format_duration,
    kinds.Size: format_size,
    kinds.Instant: rfc3339,
    kinds.Money: format_money,
    kinds.Secret: redact,
    kinds.Variables: _pairs,
    kinds.Target: _place,
    kinds.Windows: _window_texts,
    kinds.Inputs: format_declared,
    kinds.Calls: format_on,
    kinds.Records: _record_settings,
}
_AS_HELD = (*_PLAIN, *_LISTS, kinds.Secret, kinds.Duration, kinds.Size, kinds.Instant, kinds.Money, kinds.Variables)
DUMP: Mapping[type[Kind], Callable[[Any], Any]] = {
    **dict.fromkeys(_AS_HELD, _same),
    kinds.Target: _list,
    kinds.Windows: _window_texts,
    kinds.Inputs: format_declared,
    kinds.Calls: format_on,
    kinds.Records: _dumped_records,
}
LOAD: Mapping[type[Kind], Callable[[Any], Any]] = {
    **dict.fromkeys((*_PLAIN, kinds.Secret, kinds.Duration, kinds.Size, kinds.Instant, kinds.Money), _same),
    **dict.fromkeys(_LISTS, _tuple),
    kinds.Variables: _tuple_of_pairs,
    kinds.Target: _target_of,
    kinds.Windows: parse_windows,
    kinds.Inputs: parse_declared,
    kinds.Calls: parse_on,
    kinds.Records: _record_loader,
}
