"""The cron benchmark's own parts, with Matins and made-up figures; its peers are not needed here."""

from __future__ import annotations

import gc
import sys
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from matins import parse_trigger

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import cron  # noqa: E402
import cron_contestants as contestants  # noqa: E402
import cron_report as report  # noqa: E402

FOUR_YEARS = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC))


def fires_in_four_years(expression: str) -> int:
    start, end = (int(edge.timestamp() * 1000) for edge in FOUR_YEARS)
    return parse_trigger(expression).count(start, end)


@pytest.mark.parametrize("expression", cron.EXPRESSIONS)
def test_variants_are_new_texts_that_fire_as_often(expression: str) -> None:
    texts = cron.variants(expression)
    assert len(set(texts)) == len(texts)
    assert expression not in texts
    expected = fires_in_four_years(expression)
    assert {fires_in_four_years(text) for text in texts[::7]} == {expected}


@pytest.mark.parametrize("expression", cron.EXPRESSIONS)
def test_there_are_texts_enough_for_every_zone_and_both_faces(expression: str) -> None:
    rounds = cron.WARM_UP + cron.REPETITIONS
    needed = rounds * 2 * cron.TEXTS_PER_ROUND + cron.TEXTS_TO_FORGET
    assert rounds <= cron.TEXTS_TO_FORGET
    assert len(cron.variants(expression)) // len(cron.ZONES) >= needed


@pytest.mark.parametrize("face", contestants.MATINS)
def test_both_faces_of_matins_give_the_fires_of_a_plain_expression(face: type[Any]) -> None:
    assert cron.fires(face("UTC"), "*/5 * * * *") == [
        int(datetime(2026, 6, 1, *divmod(5 * nth, 60), tzinfo=UTC).timestamp() * 1000) for nth in range(1, 21)
    ]


def test_a_contestant_that_misses_fires_is_named() -> None:
    class Late(contestants.MatinsIntegers):
        name = "late"

        def ms(self, fire: int) -> int:
            return fire + 60_000 * (fire % 1_800_000 == 0)

    found = list(cron.disagreements([Late, contestants.MatinsDatetimes]))
    assert {"disagrees": "late", "expression": "*/5 * * * *", "zone": "UTC", "same": 17} in found
    assert {record["disagrees"] for record in found} == {"late"}


class Recorder(contestants.MatinsIntegers):
    name = "recorder"

    def __init__(self, zone: str) -> None:
        super().__init__(zone)
        self.texts: list[str] = []

    def first(self, expression: str, start: int) -> int | None:
        self.texts.append(expression)
        return super().first(expression, start)


class RecorderOfDatetimes(contestants.MatinsDatetimes):
    def __init__(self, zone: str) -> None:
        super().__init__(zone)
        self.texts: list[str] = []

    def first(self, expression: str, start: datetime) -> datetime | None:
        self.texts.append(expression)
        return super().first(expression, start)


def test_no_text_is_seen_twice_by_matins() -> None:
    faces = [Recorder("UTC"), RecorderOfDatetimes("UTC")]
    rounds = cron.first_sight_rounds(iter(cron.variants("30 2 * * *")), Random(0))
    samples = cron.interleave(faces, islice(rounds, cron.WARM_UP + 2), Random(0))
    seen = [text for face in faces for text in face.texts]
    assert len(seen) == len(set(seen)) == 2 * (cron.WARM_UP + 2) * cron.TEXTS_PER_ROUND
    assert [len(taken) for taken in samples] == [2, 2]


def test_what_matins_remembers_of_texts_can_be_emptied() -> None:
    gc.unfreeze()  # caches are found among all objects; those that were there before the tests were frozen
    contestants.memories.cache_clear()
    matins = contestants.MatinsIntegers("Europe/Paris")
    matins.first("7 7 7 7 *", 0)
    sizes = {memory.__module__: memory.cache_info().currsize for memory in contestants.memories()}
    assert sizes["matins.engine.when.cron"]
    assert "matins.engine.when.zones" not in sizes
    matins.forget()
    assert not any(memory.cache_info().currsize for memory in contestants.memories())
    gc.freeze()


@pytest.mark.parametrize("expression", ["0 9 * * 1", cron.LEAP_DAY])
def test_a_round_of_repeated_next_makes_two_hundred_steps(expression: str) -> None:
    class Counter(contestants.MatinsIntegers):
        steps = 0

        def walker(self, expression: str, start: int) -> contestants.Walk:
            def walk(steps: int) -> None:
                self.steps += steps

            return walk

    counter = Counter("UTC")
    assert next(cron.repeated_next_rounds(expression, Random(0)))(counter) > 0
    assert counter.steps == cron.STEPS_PER_ROUND


def test_peers_for_utc_alone_stay_out_of_other_zones() -> None:
    class UtcOnly(contestants.MatinsIntegers):
        name, utc_only = "utc only", True

    cells = list(cron.measure([contestants.MatinsIntegers, UtcOnly], ["0 9 * * 1"], cron.ZONES, 1))
    assert {cell.zone for cell in cells if cell.contestant == "utc only"} == {"UTC"}
    assert {cell.zone for cell in cells} == set(cron.ZONES)
    assert {cell.measure for cell in cells} == set(cron.MEASURES)
    assert all(cell.us > 0 and cell.repetitions == 1 for cell in cells)


def test_a_cell_is_the_median_and_the_outer_tenths() -> None:
    cell = report.summarise(("first sight", "0 9 * * 1", "UTC"), "cronsim", [*range(100, -1, -1)])
    assert (cell.us, cell.p10, cell.p90, cell.repetitions) == (50, 10, 90, 101)
    alone = report.summarise(("first sight", "0 9 * * 1", "UTC"), "cronsim", [7.0])
    assert (alone.us, alone.p10, alone.p90) == (7, 7, 7)


def made_up(zone: str, **figures: float) -> list[report.Cell]:
    names = {"ms": "Matins next_ms", "after": "Matins next_after", "rust": "croniter-rs"}
    key = ("repeated next", "0 9 * * 1", zone)
    return [report.summarise(key, names.get(name, name), [us]) for name, us in figures.items()]


CELLS = [
    *made_up("UTC", ms=2.0, after=4.0, cronsim=3.0, rust=1.0),
    *made_up("America/New_York", ms=2.0, after=4.0, cronsim=40.0),
    *made_up("Australia/Lord_Howe", ms=2.0, after=4.0, cronsim=80.0),
]


def test_the_table_shows_each_peer_against_both_faces() -> None:
    lines = report.table(CELLS, "repeated next", ["cronsim", "croniter-rs"]).splitlines()
    assert lines[2] == "| `0 9 * * 1` | UTC | 2.00 | 4.00 | 1.50 / 0.75 | 0.50 / 0.25 |"
    assert lines[3] == "| `0 9 * * 1` | America/New_York | 2.00 | 4.00 | 20.00 / 10.00 |  |"
    assert len(lines) == 5
    assert len(report.table(CELLS, "first sight", ["cronsim"]).splitlines()) == 2


def test_the_verdict_says_where_matins_is_behind() -> None:
    assert list(report.verdict(CELLS)) == [
        "Not ahead of a zone-aware peer: 1 of 6 comparisons",
        "- repeated next: `0 9 * * 1` in UTC: cronsim / Matins next_after = 0.75",
        "cronsim / Matins in zones with DST:",
        "- repeated next, Matins next_ms: least 20.00, median 30.00, most 40.00",
        "- repeated next, Matins next_after: least 10.00, median 15.00, most 20.00",
        "croniter-rs / Matins in UTC, the only zone it knows:",
        "- repeated next, Matins next_ms: least 0.50, median 0.50, most 0.50",
        "- repeated next, Matins next_after: least 0.25, median 0.25, most 0.25",
    ]
