"""How fast Matins finds the next fire of a cron expression, beside the libraries that people use for it.

All contestants run interleaved in one process. One JSON line is printed for each cell, then a table of
ratios and a verdict. `benchmarks/README.md` says what is measured and how it is kept fair.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice, product
from pathlib import Path
from random import Random
from time import thread_time_ns

from cron_contestants import MATINS, PEERS, Contestant, MatinsDatetimes, MatinsIntegers
from cron_report import Cell, summarise, table, verdict

from matins._version import __version__

EVERY_FIVE_MINUTES = "*/5 * * * *"
LEAP_DAY = "0 0 29 2 *"
EXPRESSIONS = (EVERY_FIVE_MINUTES, "0 9 * * 1-5", "0 9 * * 1", "30 2 * * *", LEAP_DAY)
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe")
FIRST_SIGHT, FORGETFUL, REPEATED_NEXT = "first sight", "first sight, memory emptied", "repeated next"
MEASURES = (FIRST_SIGHT, FORGETFUL, REPEATED_NEXT)

REPETITIONS, QUICK_REPETITIONS, WARM_UP = 50, 3, 3
TEXTS_PER_ROUND = 4
TEXTS_TO_FORGET = REPETITIONS + WARM_UP
STEPS_PER_ROUND = 200
COMPARED_FIRES = 20
# Seventeen seconds past the minute: whether "after" includes the start itself never matters.
CALM_START_MS = int(datetime(2026, 6, 1, 0, 0, 17, tzinfo=UTC).timestamp() * 1000)
FOUR_YEARS_OF_MINUTES = 4 * 365 * 24 * 60

Round = Callable[[Contestant], float]


def variants(expression: str) -> list[str]:
    """Other texts of the same shape that fire as often, in an order that is always the same."""
    if expression == EVERY_FIVE_MINUTES:
        texts = list(every_five_minutes())
    else:
        rest = expression.split(maxsplit=2)[2]
        texts = [f"{minute} {hour} {rest}" for hour in range(24) for minute in range(60)]
    texts.remove(expression)
    Random(expression).shuffle(texts)
    return texts


def every_five_minutes() -> Iterator[str]:
    minutes = ["*/5", *(f"{first}-{last}/5" for first in range(5) for last in range(first + 55, 60))]
    hours = ("*", "*/1", "0-23", "0-23/1")
    days = ("*", "*/1", "1-31", "1-31/1")
    months = ("*", "*/1", "1-12", "1-12/1")
    weekdays = ("*", "*/1")
    return map(" ".join, product(minutes, hours, days, months, weekdays))


def some_start(random: Random) -> int:
    return CALM_START_MS + random.randrange(FOUR_YEARS_OF_MINUTES) * 60_000


def time_first_sight(contestant: Contestant, texts: Sequence[str], start_ms: int) -> float:
    """Microseconds for each text."""
    spelled = [contestant.spelling(text) for text in texts]
    start, first = contestant.start(start_ms), contestant.first
    began = thread_time_ns()
    for text in spelled:
        first(text, start)
    return (thread_time_ns() - began) / len(texts) / 1000


def time_repeated_next(contestant: Contestant, expression: str, starts_ms: Sequence[int]) -> float:
    """Microseconds for each step; the steps are shared out over one walk from each start."""
    text, steps = contestant.spelling(expression), STEPS_PER_ROUND // len(starts_ms)
    walks = [contestant.walker(text, contestant.start(start_ms)) for start_ms in starts_ms]
    began = thread_time_ns()
    for walk in walks:
        walk(steps)
    return (thread_time_ns() - began) / STEPS_PER_ROUND / 1000


def first_sight_rounds(unseen: Iterator[str], random: Random) -> Iterator[Round]:
    """Each round is one start and fresh texts; they end when every text has been seen."""
    while len(texts := list(islice(unseen, 2 * TEXTS_PER_ROUND))) == 2 * TEXTS_PER_ROUND:
        yield first_sight_round(texts, some_start(random))


def first_sight_round(texts: Sequence[str], start_ms: int) -> Round:
    # The two faces of Matins must not see each other's texts; every peer has a memory of its own.
    halves = texts[:TEXTS_PER_ROUND], texts[TEXTS_PER_ROUND:]
    return lambda one: time_first_sight(one, halves[isinstance(one, MatinsDatetimes)], start_ms)


def forgetful_rounds(texts: Iterable[str], random: Random) -> Iterator[Round]:
    for text in texts:
        yield forgetful_round(text, some_start(random))


def forgetful_round(text: str, start_ms: int) -> Round:
    def time_one(contestant: Contestant) -> float:
        contestant.forget()
        return time_first_sight(contestant, [text], start_ms)

    return time_one


def repeated_next_rounds(expression: str, random: Random) -> Iterator[Round]:
    # Two hundred leap days would end after the year 2800; ten walks of twenty end about 2110.
    walks = 10 if expression == LEAP_DAY else 1
    while True:
        yield repeated_next_round(expression, [some_start(random) for _ in range(walks)])


def repeated_next_round(expression: str, starts_ms: Sequence[int]) -> Round:
    return lambda one: time_repeated_next(one, expression, starts_ms)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def interleave(contestants: Sequence[Contestant], rounds: Iterator[Round], random: Random) -> list[list[float]]:
    """Each contestant's samples: everybody runs once in each round, in an order that changes."""
    samples: list[list[float]] = [[] for _ in contestants]
    order = list(range(len(contestants)))
    with without_garbage_collection():
        for time_one in rounds:
            random.shuffle(order)
            for index in order:
                samples[index].append(time_one(contestants[index]))
    return [taken[WARM_UP:] for taken in samples]


def contestants_in(zone: str, kinds: Sequence[type[Contestant]]) -> list[Contestant]:
    return [kind(zone) for kind in kinds if zone == "UTC" or not kind.utc_only]


def measure(
    kinds: Sequence[type[Contestant]], expressions: Sequence[str], zones: Sequence[str], repetitions: int
) -> Iterator[Cell]:
    def cells(name: str, expression: str, zone: str) -> Iterator[Cell]:
        random = Random(f"{name} {expression} {zone}")
        texts = variants(expression)[zones.index(zone) :: len(zones)]
        rounds = islice(rounds_of(name, expression, texts, random), WARM_UP + repetitions)
        contestants = contestants_in(zone, kinds)
        for contestant, samples in zip(contestants, interleave(contestants, rounds, random), strict=True):
            yield summarise((name, expression, zone), contestant.name, samples)

    for expression, zone in product(expressions, zones):
        yield from cells(FIRST_SIGHT, expression, zone)
        yield from cells(REPEATED_NEXT, expression, zone)
    # At the end, so that no other measure finds a memory emptied.
    for expression, zone in product(expressions, zones):
        yield from cells(FORGETFUL, expression, zone)


def rounds_of(name: str, expression: str, texts: Sequence[str], random: Random) -> Iterator[Round]:
    if name == FIRST_SIGHT:
        return first_sight_rounds(iter(texts[TEXTS_TO_FORGET:]), random)
    if name == FORGETFUL:
        return forgetful_rounds(texts[:TEXTS_TO_FORGET], random)
    return repeated_next_rounds(expression, random)


def fires(contestant: Contestant, expression: str) -> list[int]:
    """The first fires in a season without a change of clocks near them."""
    text, start = contestant.spelling(expression), contestant.start(CALM_START_MS)
    return [contestant.ms(contestant.walker(text, start)(nth)) for nth in range(1, COMPARED_FIRES + 1)]


def disagreements(kinds: Sequence[type[Contestant]]) -> Iterator[dict[str, object]]:
    """How many of the compared fires are the same, for every contestant whose fires are not all Matins'."""
    for expression, zone in product(EXPRESSIONS, ZONES):
        expected = fires(MatinsIntegers(zone), expression)
        for contestant in contestants_in(zone, kinds):
            same = sum(map(int.__eq__, fires(contestant, expression), expected))
            if same < COMPARED_FIRES:
                yield {"disagrees": contestant.name, "expression": expression, "zone": zone, "same": same}


def machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": [round(figure, 2) for figure in os.getloadavg()],
        "matins": __version__,
        "peers": {kind.package: version(kind.package) for kind in PEERS},
    }


def records(repetitions: int) -> Iterator[dict[str, object] | Cell]:
    yield machine()
    yield from disagreements((*MATINS, *PEERS))
    yield from measure((*MATINS, *PEERS), EXPRESSIONS, ZONES, repetitions)


def report(cells: Sequence[Cell]) -> str:
    tables = [
        f"{name}: peer / Matins, against next_ms and against next_after; above 1 Matins is quicker\n\n"
        f"{table(cells, name, [kind.name for kind in PEERS])}"
        for name in MEASURES
    ]
    return "\n\n".join([*tables, "\n".join(verdict(cells))])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Matins beside other cron libraries, interleaved in one process.")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to see that it runs")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"per cell, {REPETITIONS} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON lines to this file as well")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    cells: list[Cell] = []
    lines: list[str] = []
    for record in records(QUICK_REPETITIONS if options.quick else options.repetitions):
        if isinstance(record, Cell):
            cells.append(record)
        lines.append(json.dumps(asdict(record) if isinstance(record, Cell) else record))
        print(lines[-1], flush=True)
    if options.json:
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\n{report(cells)}")


if __name__ == "__main__":
    main()
