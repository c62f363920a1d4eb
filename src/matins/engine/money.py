"""Money and tokens: parsed from text to integers, and formatted. Money is in micro-dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from matins.engine.validation import preview_of
from matins.errors import InvalidInput

DOLLAR = 1_000_000
MAX_MONEY = 1_000_000_000 * DOLLAR
MAX_RATE = 1_000_000
MAX_TOKENS = 10**12
_MAX_AMOUNT_LENGTH = 60
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_TOKEN_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
_UNIT = r"[^0-9\s.,+−-]+"
_NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_MONEY = re.compile(rf"([−-]?)\s*(?:({_UNIT})\s*)?([−-]?)({_NUMBER})\s*({_UNIT})?")
_TOKENS = re.compile(rf"({_NUMBER})\s*([kKmM]?)")
CURRENCY_CODE = re.compile("[A-Z]{3}")
_MONEY_HINT = 'For example: "$2" or "0.50 USD".'


def parse_money(value: str | int | float, rates: Mapping[str, float], field: str) -> int:
    """Micro-dollars of an amount such as `$2`, `0.50 USD` or `€3.50`. `rates` has each currency's value in dollars."""
    match = _MONEY.fullmatch(_readable(value))
    if match is None:
        raise _not_money(field, value)
    sign, before, inner_sign, number, after = match.groups()
    if bool(before) == bool(after):
        raise _not_money(field, value, None if before else number)
    if sign or inner_sign:
        raise InvalidInput(f'"{field}" must not be negative: {value!r}.', value=value, field=field, hint=_MONEY_HINT)
    micros = round(Fraction(number) * _rate(before or after, value, rates, field) * DOLLAR)
    if micros > MAX_MONEY:
        allowed = f"at most {format_money(MAX_MONEY)}"
        message = f'"{field}" must be {allowed}, not {value!r}.'
        raise InvalidInput(message, value=value, field=field, allowed=allowed, hint="Use a smaller amount.")
    return micros


def format_money(micros: int) -> str:
    """Dollars and cents. Amounts below ten cents have enough digits to show two that are significant."""
    size = abs(micros)
    decimals = min(6, max(2, 8 - len(str(size))))
    whole, fraction = f"{Decimal(size).scaleb(-6):.{decimals}f}".split(".")
    return f"{'-' if micros < 0 else ''}${whole}.{fraction.rstrip('0').ljust(2, '0')}"


def parse_tokens(value: int | str, field: str) -> int:
    """A number of tokens such as 500000, `500k` or `2M`."""
    if type(value) is int:
        return _token_count(Fraction(value), value, field)
    match = _TOKENS.fullmatch(_readable(value))
    if match is None:
        raise _not_tokens(field, value)
    number, unit = match.groups()
    return _token_count(Fraction(number) * _TOKEN_UNITS[unit.lower()], value, field)


def format_tokens(tokens: int) -> str:
    """The shortest exact text, in the largest unit that divides the number."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens and tokens % size == 0:
            return f"{tokens // size}{unit}"
    return str(tokens)


def _readable(value: object) -> str:
    """The text of an amount; empty for anything that cannot be one."""
    if not isinstance(value, str) or len(value) > _MAX_AMOUNT_LENGTH or not value.isprintable():
        return ""
    return value.strip()


def _code(unit: str) -> str:
    # ASCII letters only: the upper case of "ſ" is S, which would be taken for a unit.
    return _SYMBOLS.get(unit, unit.upper() if unit.isascii() else unit)


def _rate(unit: str, value: str | float, rates: Mapping[str, float], field: str) -> Fraction:
    code = _code(unit)
    if code == "USD":
        return Fraction(1)
    if code in rates:
        return Fraction(str(rates[code]))
    known = ", ".join(sorted({"USD", *rates}))
    raise InvalidInput(
        f'There is no rate for the currency "{code if unit in _SYMBOLS else unit}".',
        value=value,
        field=field,
        allowed=known,
        hint=f"Known: {known}. Add one: matins rates set {code if CURRENCY_CODE.fullmatch(code) else 'XYZ'} 1.10",
    )


def _not_money(field: str, value: object, number: str | None = None) -> InvalidInput:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= MAX_MONEY // DOLLAR:
        number = f"{Decimal(str(value)):f}"
    hint = f'Write "${number}".' if number else _MONEY_HINT
    message = f'"{field}" must be an amount with its currency, not {preview_of(value)}.'
    return InvalidInput(message, value=value, field=field, allowed="an amount and a currency", hint=hint)


def _token_count(count: Fraction, value: object, field: str) -> int:
    if count.denominator != 1 or not 0 <= count <= MAX_TOKENS:
        raise _not_tokens(field, value)
    return int(count)


def _not_tokens(field: str, value: object) -> InvalidInput:
    allowed = f"a number of tokens from 0 to {format_tokens(MAX_TOKENS)}"
    message = f'"{field}" must be {allowed}, not {preview_of(value)}.'
    return InvalidInput(message, value=value, field=field, allowed=allowed, hint='For example: 500000, "500k" or "2M".')
