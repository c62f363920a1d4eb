"""P3, S6: the engine equals a minute-by-minute walk around every change of clocks of every IANA zone.

Two days either side of each transition from 2020 to 2037. Zones whose clocks do the same share one walk.
"""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

import pytest
from walk import DAY, CronText, Transition, Walk, ZoneInfo, instant, offset_of, transitions

from matins.engine.when.triggers import Trigger, compile_trigger
from matins.model.trigger import Cron, DstGap, DstOverlap, TriggerDefinition

START, END = instant("2020-01-01"), instant("2038-01-01")
QUIET_DAY = instant("2026-07-01")
SHARDS = 16

EXPRESSIONS = """
0 0 * * *
30 0 * * *
30 1 * * *
0 2 * * *
15 2 * * *
30 2 * * *
45 2 * * *
0 3 * * *
30 3 * * *
30 23 * * *
59 23 * * *
1 0 * * *
0 0,2 * * *
0,30 0-4 * * *
0,15,30,45 1-3 * * *
5-55/10 0,1,2,3,23 * * *
10-20 2 * * *
0 1-23/2 * * *
7 4-22/9 * * *
* * * * *
*/5 * * * *
*/7 1-3 * * *
* 2 * * *
*/30 0-3 * * *
30 * * * *
0 * * * *
0 */2 * * *
30 */3 * * *
45 */5 * * 0
30 2 * * 0
30 2 * * 7
0 2 * * SUN,SAT
30 1 * * mon-fri
30 2 * * 1-6/2
30 0 ? * 0#2
30 2 * * SUN#5
30 1 * * 0L
0 3 ? MAR,apr,SEP-NOV friL
30 2 L * ?
30 2 LW * *
30 2 15W * *
0 1 1W * *
30 2 31W,L * ?
30 2 25-31 * 0
0 2 1-7,25-31 3,10 7
30 2 */2 * 0
30 2 1-31 * */2
30 1 */2 * */2
30 2 29 2-12 *
0 0 1,15 * 5
0 0 * */2 *
30 30 2 * * *
0,59 59 1-3 * * *
*/20 30 */2 * * *
* 0 0,2 * * *
""".strip().splitlines()

POLICY_EXPRESSIONS = [
    "0 0 * * *",
    "30 2 * * *",
    "0,15,30,45 1-3 * * *",
    "30 0-3 * * SUN,SAT",
    "15 15 0,2 * * *",
]
POLICIES: list[tuple[DstGap, DstOverlap]] = [
    ("after", "both"),
    ("skip", "first"),
    ("skip", "both"),
    ("shift", "first"),
    ("shift", "both"),
]
LINK_EXPRESSIONS = ("0,30 0-3 * * *", "30 2 * * 0", "0 */6 * * *")
UNUSUAL = {
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "America/Godthab",
    "America/Nuuk",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
}

Behaviour = tuple[int, tuple[Transition, ...]]


@cache
def groups() -> dict[Behaviour, list[str]]:
    """Names of zones, by the offset that they begin with and what they do until the end."""
    found: dict[Behaviour, list[str]] = {}
    for name in sorted(available_timezones()):
        behaviour = offset_of(ZoneInfo(name), START), tuple(transitions(name, START, END))
        found.setdefault(behaviour, []).append(name)
    return found


def shard_of(number: int) -> list[tuple[Behaviour, list[str]]]:
    """Every 16th group, the busiest first, so that shards take about the same time."""
    busiest_first = sorted(groups().items(), key=lambda group: (-len(group[0][1]), group[1]))
    return busiest_first[number::SHARDS]


def compiled(text: str, zone: str, gap: DstGap = "after", overlap: DstOverlap = "first") -> Trigger:
    return compile_trigger(TriggerDefinition(Cron(text), zone, gap, overlap))


def engine_fires(trigger: Trigger, start: int, end: int) -> list[int]:
    fires: list[int] = []
    at = trigger.next_ms(start * 1000 - 1)
    while at is not None and at < end * 1000:
        fires.append(at)
        at = trigger.next_ms(at)
    return fires


def compare(walk: Walk, trigger: Trigger, text: str, gap: str = "after", overlap: str = "first") -> None:
    found = engine_fires(trigger, walk.start, walk.end)
    expected = walk.fires(CronText(text), gap, overlap)
    assert found == expected, f"{text!r} gap={gap} overlap={overlap} in {trigger.definition}"


def windows(behaviour: Behaviour) -> list[tuple[int, int]]:
    centres = [change.at for change in behaviour[1]] or [QUIET_DAY]
    return [(at - at % 60 - 2 * DAY, at - at % 60 + 2 * DAY) for at in centres]


@pytest.mark.parametrize("number", range(SHARDS))
def test_p3_s6_engine_equals_the_walk_around_every_transition(number: int) -> None:
    for behaviour, names in shard_of(number):
        zone, *links = names
        plain = [(text, compiled(text, zone)) for text in EXPRESSIONS]
        policies = [
            (text, gap, overlap, compiled(text, zone, gap, overlap))
            for text in POLICY_EXPRESSIONS
            for gap, overlap in POLICIES
        ]
        linked = [(text, compiled(text, link)) for text in LINK_EXPRESSIONS for link in links]
        for start, end in windows(behaviour):
            walk = Walk(zone, start, end)
            for text, trigger in plain + linked:
                compare(walk, trigger, text)
            for text, gap, overlap, trigger in policies:
                compare(walk, trigger, text, gap, overlap)


@pytest.mark.parametrize("number", range(0, SHARDS, 4))
def test_s6_an_hourly_look_finds_no_transition_that_the_daily_one_missed(number: int) -> None:
    for behaviour, (zone, *_) in shard_of(number):
        assert tuple(transitions(zone, START, END, step=3600)) == behaviour[1], zone


def test_s6_every_zone_name_is_covered() -> None:
    covered = [name for number in range(SHARDS) for _, names in shard_of(number) for name in names]
    assert sorted(covered) == sorted(available_timezones())
    changing = {name for (_, changes), names in groups().items() if changes for name in names}
    assert changing >= UNUSUAL
    assert len(EXPRESSIONS) >= 40
    total = sum(len(changes) for _, changes in groups())
    print(f"{len(covered)} zones, {len(groups())} behaviours, {total} transitions")  # noqa: T201
    assert len(groups()) > 70
    assert total > 1000
