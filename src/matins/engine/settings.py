"""Settings by kind: parsed to the value of a record, and formatted.

Four tables have an entry for every kind: PARSE and FORMAT for people, DUMP and LOAD for the store. A new kind adds a
line to each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from matins.engine.calls import format_on, parse_on
from matins.engine.money import format_money
from matins.engine.quiet_hours import parse_windows, window_text
from matins.engine.reasons import rfc3339
from matins.engine.setting_values import REDACTED, REFERENCES, VALUE_PARSERS, Parse, ParseContext, example_hint
from matins.engine.sizes import format_size
from matins.engine.validation import check_names_known, invalid, preview_of
from matins.engine.when.durations import format_duration
from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.model.agent import Target
from matins.model.settings import Declared, Kind, Table, settings_of

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


def format_settings(table: Table, value: Any) -> dict[str, Any]:
    """The settings that differ from the default, as people write them."""
    found: dict[str, Any] = {}
    for name, declared in table.items():
        held = getattr(value, declared.field)
        if (held is not declared.default and held != declared.default) or declared.setting.required:
            found[name] = format_setting(declared, held)
    return found


def format_setting(declared: Declared, value: Any) -> Any:
    if value is None:
        return "none" if isinstance(declared.kind, (kinds.Duration, kinds.Size)) and declared.kind.none else None
    return FORMAT[type(declared.kind)](value)


def dump_settings(table: Table, value: Any) -> dict[str, Any]:
    """The stored form, by field: the values that differ from the defaults."""
    found: dict[str, Any] = {}
    for declared in table.values():
        held = getattr(value, declared.field)
        if held != declared.default:
            found[declared.field] = held if held is None else DUMP[type(declared.kind)](held)
    return found


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
    return [format_settings(settings_of(cast("type[Any]", type(item))), item) for item in value]


def _dumped_records(value: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dump_settings(settings_of(cast("type[Any]", type(item))), item) for item in value]


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
    kinds.Calls: format_on,
    kinds.Records: _record_settings,
}
_AS_HELD = (*_PLAIN, *_LISTS, kinds.Secret, kinds.Duration, kinds.Size, kinds.Instant, kinds.Money, kinds.Variables)
DUMP: Mapping[type[Kind], Callable[[Any], Any]] = {
    **dict.fromkeys(_AS_HELD, _same),
    kinds.Target: _list,
    kinds.Windows: _window_texts,
    kinds.Calls: format_on,
    kinds.Records: _dumped_records,
}
LOAD: Mapping[type[Kind], Callable[[Any], Any]] = {
    **dict.fromkeys((*_PLAIN, kinds.Secret, kinds.Duration, kinds.Size, kinds.Instant, kinds.Money), _same),
    **dict.fromkeys(_LISTS, _tuple),
    kinds.Variables: _tuple_of_pairs,
    kinds.Target: _target_of,
    kinds.Windows: parse_windows,
    kinds.Calls: parse_on,
    kinds.Records: _record_loader,
}
