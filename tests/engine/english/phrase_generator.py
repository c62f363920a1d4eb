"""Random phrases from the published grammar, each with the tree that it grew from.

What was used least is chosen most, so that a few thousand phrases use every alternative of every rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from matins.engine.english.grammar import Choice, Expression, Grammar, Maybe, Ref, Repeat, Sequence, Shape, Tree, Word

Place = tuple[str, ...]


class PhraseGenerator:
    def __init__(self, grammar: Grammar, seed: int) -> None:
        self.grammar = grammar
        self.random = Random(seed)
        self.used: Counter[tuple[Place, int]] = Counter()

    def tree(self, start: str = "phrase") -> Tree:
        return self._rule(start, 0)

    def unused(self, start: str) -> list[tuple[Place, int]]:
        """The alternatives that no phrase has used so far."""
        wanted = [
            (place, number)
            for name in sorted(self.grammar.reachable(start))
            for place, count in choices(self.grammar.rules[name].body, (name,))
            for number in range(count)
        ]
        return [choice for choice in wanted if not self.used[choice]]

    def _rule(self, name: str, start: int) -> Tree:
        children = self._expand(self.grammar.rules[name].body, (name,), start)
        return Tree(name, tuple(children), start, start + _length(children))

    def _expand(self, expression: Expression, place: Place, start: int) -> list[Tree | str]:
        match expression:
            case Word(text):
                return [text]
            case Shape():
                return [SAMPLES[place[0]](self.random)]
            case Ref(name):
                return [self._rule(name, start)]
            case Sequence(items):
                return self._in_turn(items, [(*place, str(n)) for n in range(len(items))], start)
            case Choice(options):
                number = self._choose(place, len(options))
                return self._expand(options[number], (*place, str(number)), start)
            case Maybe(item):
                return self._expand(item, (*place, "?"), start) if self._choose(place, 2) else []
            case Repeat(item):
                times = self._choose(place, 3)
                return self._in_turn((item,) * times, [(*place, "*")] * times, start)

    def _in_turn(self, items: tuple[Expression, ...], places: list[Place], start: int) -> list[Tree | str]:
        children: list[Tree | str] = []
        for item, place in zip(items, places, strict=True):
            new = self._expand(item, place, start)
            start += _length(new)
            children += new
        return children

    def _choose(self, place: Place, count: int) -> int:
        weights = [1 / (1 + self.used[place, number]) for number in range(count)]
        number = self.random.choices(range(count), weights)[0]
        self.used[place, number] += 1
        return number


def _length(children: list[Tree | str]) -> int:
    return sum(child.end - child.start if isinstance(child, Tree) else 1 for child in children)


def choices(expression: Expression, place: Place) -> list[tuple[Place, int]]:
    """Where an expression leaves a choice, and between how many; a repetition between none, one and two."""
    match expression:
        case Sequence(items):
            return [found for n, item in enumerate(items) for found in choices(item, (*place, str(n)))]
        case Choice(options):
            inner = [found for n, option in enumerate(options) for found in choices(option, (*place, str(n)))]
            return [(place, len(options)), *inner]
        case Maybe(item):
            return [(place, 2), *choices(item, (*place, "?"))]
        case Repeat(item):
            return [(place, 3), *choices(item, (*place, "*"))]
        case _:
            return []


def text_of(words: list[str]) -> str:
    return " ".join(words).replace(" ,", ",")


def _hour(random: Random) -> str:
    hour = random.randrange(24)
    return f"{hour:02}" if random.random() < 0.5 else str(hour)


def _minute(random: Random) -> str:
    return f"{random.choice([0, 0, 0, 15, 30, 45, random.randrange(60)]):02}"


def _twelve(random: Random) -> str:
    hour = random.choice(["1", "2", "5", "9", "09", "10", "11", "12"])
    return hour + random.choice(["", ":00", ":30", f":{_minute(random)}"])


def _number(random: Random) -> str:
    small = [str(n) for n in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 24, 30, 45, 60)]
    return random.choice([*small, *small, "0", "07", str(random.randrange(200)), str(random.randrange(10**9))])


def _day(random: Random) -> str:
    return str(random.choice([random.randint(1, 28), 29, 30, 31]))


def _ordinal(random: Random) -> str:
    day = int(_day(random))
    return f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th') if day not in (11, 12, 13) else 'th' }"


def _iso_date(random: Random) -> str:
    return f"{random.randint(2025, 2029)}-{random.randint(1, 12):02}-{int(_day(random)):02}"


def _instant(random: Random) -> str:
    clock = f"{random.randrange(24):02}:{_minute(random)}" + random.choice(["", ":30", ":30.250"])
    return f"{_iso_date(random)}t{clock}" + random.choice(["z", "+05:30", "-04:00"])


SAMPLES: dict[str, Callable[[Random], str]] = {
    "CLOCK": lambda random: f"{_hour(random)}:{_minute(random)}",
    "SECONDS_CLOCK": lambda random: (
        f"{_hour(random)}:{_minute(random)}:{_minute(random)}" + random.choice(["", ".250"])
    ),
    "HOUR": _hour,
    "TWELVE": _twelve,
    "AM_PM": lambda random: _twelve(random) + random.choice(["am", "pm"]),
    "NUMBER": _number,
    "COMPACT": lambda random: _number(random) + random.choice("smhd"),
    "ORDINAL": _ordinal,
    "DAY": _day,
    "YEAR": lambda random: str(random.randint(2025, 2029)),
    "ISO_DATE": _iso_date,
    "INSTANT": _instant,
    "DECIMAL": lambda random: random.choice(["1.5", "0.5", "2.25", "0.0", "1.3333"]),
    "CLEAR": lambda random: random.choice(["every", "day", "at", "9am", "on", "monday", ",", "and"]),
    "ANYTHING": lambda random: random.choice(["every", "biweekly", "at", "9am", "on", "monday", ",", "and"]),
}
