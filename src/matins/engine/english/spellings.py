"""Other ways to write a phrase, as the grammar writes it: `mon,wed,fri 7:30`, `@ 9am`, `tonight at 8pm`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from matins.engine.english.phrase_values import InvalidPhraseError, join

_DAY = "(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_RANGE = re.compile(rf"({_DAY})-({_DAY})")
_ONE_DAY = re.compile(_DAY)
_TIME = re.compile(r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]|(?:0?[1-9]|1[0-2])(?::[0-5][0-9])?(?:am|pm)|noon|midnight")
_HOUR_SIGN = re.compile(r"(?:[01]?[0-9]|2[0-3])h(?:[0-5][0-9])?")
_DAYS = re.compile(rf"{_DAY}s?|weekdays?|weekends?|daily|today|tomorrow")
_GLUED = re.compile(r"@(.+)")
_HOUR = re.compile(r"[1-9]|1[01]")
_BEFORE_A_TIME = frozenset(["at", "and", ",", "between", "from", "to", "until"])
_QUARTERS = ["of", "every", "january", ",", "april", ",", "july", "and", "october"]
_QUARTERLY = ("on the 1st of every january, april, july and october at 09:00", "every 3 months on the 1st at 09:00")

_HALF_YEARS = ("every 6 months on the 1st at 09:00",)
_THREE = ("every monday, wednesday and friday at 09:00", "every 3 weeks on monday at 09:00")
_TWICE = ("every monday and thursday at 09:00",)
_PERIODS = {
    **dict.fromkeys(("half-hourly", "halfhourly"), ("every 30 minutes",)),
    **dict.fromkeys(("quarter-hourly", "quarterhourly"), ("every 15 minutes",)),
    **dict.fromkeys(("semi-annually", "semiannually", "half-yearly", "biannually", "bi-annually"), _HALF_YEARS),
    **dict.fromkeys(("tri-weekly", "triweekly"), _THREE),
    **dict.fromkeys(("semi-weekly", "semiweekly"), _TWICE),
    **dict.fromkeys(("semi-monthly", "semimonthly"), ("on the 1st and 15th of every month at 09:00",)),
    **dict.fromkeys(("tri-monthly", "trimonthly"), ("every 3 months on the 1st at 09:00",)),
    "fortnightly": ("every 2 weeks on monday at 09:00",),
}


def respelled(words: Sequence[str]) -> list[str]:
    """The words of a phrase in the spelling of the grammar."""
    given = list(words)
    for rewrite in _REWRITES:
        given = rewrite(given)
    return given


def _signs(words: list[str]) -> list[str]:
    """`@ 9am` and `@9am` are "at 9am"; `fri-mon` is "fri to mon"."""
    found: list[str] = []
    for word in words:
        days, glued = _RANGE.fullmatch(word), _GLUED.fullmatch(word)
        if days:
            found += [days[1], "to", days[2]]
        elif glued:
            found += ["at", glued[1]]
        else:
            found.append("at" if word == "@" else word)
    return found


def _is_hour_after_a_day(words: list[str]) -> bool:
    *before, hour = words
    after = bool(before and _DAYS.fullmatch(before[-1])) or before in (["every", "day"], ["each", "day"])
    return after and _HOUR_SIGN.fullmatch(hour) is not None


def _missing_at(words: list[str]) -> list[str]:
    """`every day 9am` is "every day at 9am", and `9am daily` is "at 9am daily". `14h` may be a length, but not after a
    day: it is refused as a time, with the hint "at 14:00"."""
    times = [n for n, word in enumerate(words) if _TIME.fullmatch(word) or _is_hour_after_a_day(words[: n + 1])]
    if not times or len(words) == 1 or "at" in words or (times[0] and words[times[0] - 1] in _BEFORE_A_TIME):
        return words
    return [*words[: times[0]], "at", *words[times[0] :]]


def _several_days(words: list[str]) -> list[str]:
    """`mon, wed, fri at 7:30` is every week: nobody names several days for once."""
    if "at" not in words:
        return words
    at = words.index("at")
    before = words[:at] if words[0] != "on" else words[1:at]
    days = [word for word in before if _ONE_DAY.fullmatch(word)]
    if len(days) < 2 or any(word not in (*days, ",", "and", "to", "through") for word in before):
        return words
    return ["every", *before, *words[at:]]


def _tonight(words: list[str]) -> list[str]:
    """`tonight at 8` is 20:00, and `tonight` alone has no hour."""
    if "tonight" not in words:
        return words
    if "at" not in words[:-1]:
        raise InvalidPhraseError('"tonight" names no hour', "tonight", "today at 20:00")
    hour = words.index("at") + 1
    rest = words[hour + 1 : hour + 2]
    if _HOUR.fullmatch(words[hour]) and rest not in (["am"], ["pm"]):
        words = [*words[:hour], f"{int(words[hour]) + 12}:00", *words[hour + 1 :]]
    return ["today" if word == "tonight" else word for word in words]


def _offered(phrases: Sequence[str], rest: list[str]) -> list[str]:
    """The phrases, with the times that the words have; none where other words would be lost."""
    if rest[:1] == ["at"]:
        return [phrase.replace("at 09:00", join(rest)) for phrase in phrases if phrase.endswith("at 09:00")]
    return list(phrases) if not rest else []


def _twelve(words: list[str]) -> list[str]:
    """`12 noon` is noon, and `12 midnight` midnight."""
    return [
        word
        for n, word in enumerate(words)
        if not (word in ("12", "12:00") and words[n + 1 : n + 2] in (["noon"], ["midnight"]))
    ]


def _periods(words: list[str]) -> list[str]:
    """Names of periods that no phrase has: what they mean is offered."""
    if words and words[0] in _PERIODS:
        word, *rest = words
        raise InvalidPhraseError(f'"{word}" names no days or times', word, *_offered(_PERIODS[word], rest))
    return words


def _quarterly(words: list[str]) -> list[str]:
    """`quarterly on the 1st at 9am`: in January, April, July and October."""
    text = join(words)
    for name in ("quarterly", "every quarter", "each quarter"):
        if text == name or text.startswith(f"{name} "):
            rest = words[len(name.split()) :]
            break
    else:
        return words
    if rest[:1] in (["hour"], ["hours"]):
        raise InvalidPhraseError(
            '"quarter" is not a whole number', "quarter", *(["every 15 minutes"] * (len(rest) == 1))
        )
    if rest[:2] != ["on", "the"] or "at" not in rest:
        raise InvalidPhraseError(f'"{name}" needs a day and a time', name.split()[-1], *_offered(_QUARTERLY, rest))
    at = rest.index("at")
    return [*rest[:at], *_QUARTERS, *rest[at:]]


_REWRITES: tuple[Callable[[list[str]], list[str]], ...] = (
    _signs,
    _periods,
    _twelve,
    _tonight,
    _missing_at,
    _several_days,
    _quarterly,
)
