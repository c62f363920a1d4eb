"""Values of settings, as people give them: one parser for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, cast

from matins.engine.calls import parse_on
from matins.engine.money import parse_money, parse_tokens
from matins.engine.prompts import check_prompt_text
from matins.engine.quiet_hours import parse_windows
from matins.engine.sizes import format_size, parse_size
from matins.engine.targets import parse_target
from matins.engine.validation import (
    check_choice,
    check_json,
    check_name,
    check_number,
    check_strings,
    invalid,
    is_name,
    nearest,
    preview_of,
)
from matins.engine.when.durations import parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import to_ms
from matins.engine.when.zones import load_zone
from matins.errors import Example, InstantError, IntervalParseError, InvalidInput, TriggerError
from matins.model import settings as kinds
from matins.model.agent import Target
from matins.model.hidden_characters import has_hidden
from matins.model.settings import Declared, Kind
from matins.model.trigger import Once

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
    local_zone: str = "UTC"
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
    return tuple(check_name(declared.name, name) for name in names)


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
    if not isinstance(value, str):
        allowed = 'a duration such as "5m", or "none"' if kind.none else 'a duration such as "5m"'
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
    return load_zone(context.local_zone if value == "local" else value).name


def _money(declared: Declared, value: Any, context: ParseContext) -> int:
    return parse_money(value, context.rates, declared.name)


def _tokens(declared: Declared, value: Any, context: ParseContext) -> int:
    return parse_tokens(value, declared.name)


def _command(declared: Declared, value: Any, context: ParseContext) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.strip() and "\0" not in value:
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
        if not isinstance(name, str) or not isinstance(text, str) or not name.isidentifier() or "\0" in text:
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
    kinds.Calls: _calls,
    kinds.Pause: _pause,
}
"""All but lists of records, whose settings are parsed one by one."""
