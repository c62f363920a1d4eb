"""P3, B10: recurrence rules fire when python-dateutil, an independent reading of RFC 5545, says so."""

from __future__ import annotations

import datetime as datetime_module
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from itertools import islice
from math import prod
from types import SimpleNamespace

import pytest
from dateutil import rrule as dateutil
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import RruleError
from matins.model.trigger import Rrule, TriggerDefinition
from steps import at_most

EPOCH = datetime(1970, 1, 1)
HORIZON = datetime(2075, 1, 1)
DAY_NAMES = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")


@pytest.fixture(scope="module", autouse=True)
def dateutil_gives_up_early() -> Iterator[None]:
    """It looks to the year 9999 for what never comes; this oracle looks no further than it is asked to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dateutil, "datetime", SimpleNamespace(**vars(datetime_module)))
        yield


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Rule:
    """The parts of a rule as text, and its end, which the oracle applies itself."""

    start: datetime
    parts: dict[str, str]
    count: int | None = None
    until: datetime | None = None
    cap: datetime = field(default=HORIZON)

    @property
    def text(self) -> str:
        ends = {"COUNT": self.count, "UNTIL": self.until and f"{self.until:%Y%m%dT%H%M%S}Z"}
        named = {**self.parts, **{name: str(value) for name, value in ends.items() if value is not None}}
        return ";".join(f"{name}={value}" for name, value in named.items())

    def occurrences(self) -> list[datetime]:
        last = self.cap if self.until is None else min(self.cap, self.until)
        begin, parts = self.whole_weeks() if self.parts["FREQ"] == "WEEKLY" else (self.start, self.parts)
        if "BYWEEKNO" in parts and not parts.keys() & {"BYDAY", "BYMONTHDAY", "BYYEARDAY"}:
            # RFC 5545 takes what a rule lacks from DTSTART; dateutil takes all days of the week.
            parts = {**parts, "BYDAY": DAY_NAMES[self.start.weekday()]}
        plain = ";".join(f"{name}={value}" for name, value in parts.items())
        rule = dateutil.rrulestr(f"{plain};UNTIL={last:%Y%m%dT%H%M%S}", dtstart=begin)
        dateutil.datetime.MAXYEAR = last.year
        return list(islice((moment for moment in rule if moment >= self.start), self.count))

    def whole_weeks(self) -> tuple[datetime, dict[str, str]]:
        """The same rule from the first day of its first week, where RFC 5545 begins to count BYSETPOS.

        dateutil counts from DTSTART in the first week, though not in the first month or year.
        """
        first_day = DAY_NAMES.index(self.parts.get("WKST", "MO"))
        begin = self.start - timedelta(days=(self.start.weekday() - first_day) % 7)
        taken_from_start = {
            "BYDAY": DAY_NAMES[self.start.weekday()],
            "BYHOUR": str(self.start.hour),
            "BYMINUTE": str(self.start.minute),
        }
        if self.parts.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
            del taken_from_start["BYDAY"]
        return datetime.combine(begin, time()), {**taken_from_start, **self.parts}


def listed(item: st.SearchStrategy[int] | st.SearchStrategy[str], size: int = 3) -> st.SearchStrategy[str]:
    return st.lists(item.map(str), min_size=1, max_size=size, unique=True).map(",".join)


def signed(high: int) -> st.SearchStrategy[int]:
    return st.integers(1, high) | st.integers(-high, -1)


plain_days = listed(st.sampled_from(DAY_NAMES), 4)


def ordinal_days(high: int) -> st.SearchStrategy[str]:
    return listed(st.builds("{}{}".format, signed(high), st.sampled_from(DAY_NAMES)))


@st.composite
def parts(draw: st.DrawFn) -> dict[str, str]:
    """What has one meaning: ordinals only in months and years."""
    frequency = draw(st.sampled_from(FREQUENCIES))
    found = {"FREQ": frequency}

    def maybe(name: str, strategy: st.SearchStrategy[str]) -> None:
        if draw(st.booleans()):
            found[name] = draw(strategy)

    maybe("INTERVAL", st.integers(1, 5).map(str))
    maybe("BYMONTH", listed(st.integers(1, 12), 4))
    rare = draw(st.sampled_from(["", "", "", "BYYEARDAY", "BYWEEKNO", "BYMONTHDAY in weeks"]))
    if frequency != "WEEKLY" or rare == "BYMONTHDAY in weeks":
        maybe("BYMONTHDAY", listed(signed(31)))
    if rare == "BYYEARDAY":
        maybe("BYYEARDAY", listed(signed(366), 6))
    if rare == "BYWEEKNO" and frequency in ("YEARLY", "DAILY"):
        maybe("BYWEEKNO", listed(st.integers(1, 53) | st.sampled_from([-1, -2, -3]), 8))
    if "BYWEEKNO" in found:
        maybe("BYDAY", plain_days)
    elif frequency == "YEARLY" and "BYMONTH" not in found:
        maybe("BYDAY", plain_days | ordinal_days(53))
    elif frequency in ("YEARLY", "MONTHLY"):
        maybe("BYDAY", plain_days | ordinal_days(5))
    else:
        maybe("BYDAY", plain_days)
    maybe("BYHOUR", listed(st.integers(0, 23), 2))
    maybe("BYMINUTE", listed(st.integers(0, 59), 2))
    if draw(st.integers(0, 3)) == 0:
        maybe("BYSECOND", listed(st.integers(0, 59), 2))
    if found.keys() & {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYHOUR", "BYMINUTE", "BYSECOND"}:
        maybe("BYSETPOS", listed(signed(6), 2))
    maybe("WKST", st.sampled_from(DAY_NAMES))
    return found


starts = st.integers(0, 40 * 365 * 1440).map(lambda minute: datetime(2000, 1, 1) + timedelta(minutes=minute))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    start = draw(starts)
    cap = start + timedelta(days=30 * 365)
    end = draw(st.sampled_from(["never", "never", "count", "until"]))
    count = draw(st.integers(1, 80)) if end == "count" else None
    until = start + timedelta(minutes=draw(st.integers(0, 8 * 525_600))) if end == "until" else None
    return Rule(start, draw(parts()), count, until, min(cap, HORIZON))


def compiled(rule: Rule) -> Trigger | None:
    """None where the engine says that the rule never fires, which the oracle must confirm."""
    try:
        return compile_trigger(TriggerDefinition(Rrule(rule.text, ms(rule.start))))
    except RruleError:
        event("refused")
        assert rule.occurrences() == []
        return None


def following(trigger: Trigger, after: int, how_many: int, cap: int) -> list[int]:
    fires: list[int] = []
    while len(fires) < how_many and (at := trigger.next_ms(after)) is not None and at <= cap:
        fires.append(at)
        after = at
    return fires


thorough = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(rules())
def test_b10_a_rule_fires_as_dateutil_says(rule: Rule) -> None:
    trigger = compiled(rule)
    assume(trigger is not None)
    assert trigger is not None
    expected = [ms(moment) for moment in rule.occurrences()]
    event("fires" if expected else "silent")
    assert following(trigger, ms(rule.start) - 1, 60, ms(rule.cap)) == expected[:60]
    assert following(trigger, 0, 1, ms(rule.cap)) == expected[:1]


@thorough
@given(rules(), st.integers(0, 30 * 365 * 86_400_000))
def test_s4_a_rule_from_the_middle(rule: Rule, later: int) -> None:
    """Far from DTSTART: what follows, what came before, and how many there were."""
    trigger = compiled(rule)
    assume(trigger is not None)
    assert trigger is not None
    at, cap = min(ms(rule.start) + later, ms(rule.cap)), ms(rule.cap)
    expected = [ms(moment) for moment in rule.occurrences()]
    assert following(trigger, at - 1, 20, cap) == [fire for fire in expected if fire >= at][:20]
    past = [fire for fire in expected if fire < at]
    assert trigger.prev_ms(at) == (past[-1] if past else None)
    assert trigger.count(ms(rule.start), at) == len(past)


@thorough
@given(rules())
def test_s4_a_rule_with_an_end_has_a_last_fire(rule: Rule) -> None:
    assume(rule.count or rule.until)
    trigger = compiled(rule)
    assume(trigger is not None)
    assert trigger is not None
    expected = [ms(moment) for moment in rule.occurrences()]
    complete = rule.until is not None or len(expected) == rule.count
    assume(complete)
    assert trigger.next_ms(expected[-1] if expected else ms(rule.start)) is None
    assert trigger.prev_ms(ms(HORIZON)) == (expected[-1] if expected else None)


# Examples of RFC 5545, section 3.8.5.3, moved to 2026: rule, DTSTART, the first fires.
EXAMPLES = [
    ("FREQ=DAILY;COUNT=3", "2026-01-01T09:00", "2026-01-01T09:00 2026-01-02T09:00 2026-01-03T09:00"),
    ("FREQ=DAILY;UNTIL=20260103T090000Z", "2026-01-01T09:00",
     "2026-01-01T09:00 2026-01-02T09:00 2026-01-03T09:00"),
    ("FREQ=DAILY;UNTIL=20260103T085959Z", "2026-01-01T09:00", "2026-01-01T09:00 2026-01-02T09:00"),
    ("FREQ=WEEKLY;INTERVAL=2;WKST=MO;BYDAY=TU,SU;COUNT=4", "1997-08-05T09:00",
     "1997-08-05T09:00 1997-08-10T09:00 1997-08-19T09:00 1997-08-24T09:00"),
    ("FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=TU,SU;COUNT=4", "1997-08-05T09:00",
     "1997-08-05T09:00 1997-08-17T09:00 1997-08-19T09:00 1997-08-31T09:00"),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=3", "2026-01-01T09:00",
     "2026-01-30T09:00 2026-02-27T09:00 2026-03-31T09:00"),
    ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=3", "2026-01-31T09:00",
     "2026-01-31T09:00 2026-03-31T09:00 2026-05-31T09:00"),
    ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=3", "2026-01-01T09:00",
     "2026-02-13T09:00 2026-03-13T09:00 2026-11-13T09:00"),
    ("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8;COUNT=2", "1996-11-05T09:00",
     "1996-11-05T09:00 2000-11-07T09:00"),
    ("FREQ=YEARLY;BYDAY=20MO;COUNT=3", "1997-05-19T09:00",
     "1997-05-19T09:00 1998-05-18T09:00 1999-05-17T09:00"),
    ("FREQ=YEARLY;COUNT=3", "2024-02-29T09:00", "2024-02-29T09:00 2028-02-29T09:00 2032-02-29T09:00"),
    ("FREQ=YEARLY;COUNT=2", "2096-02-29T09:00", "2096-02-29T09:00 2104-02-29T09:00"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;COUNT=3", "1997-05-12T09:00",
     "1997-05-12T09:00 1998-05-11T09:00 1999-05-17T09:00"),
    ("FREQ=YEARLY;INTERVAL=3;COUNT=4;BYYEARDAY=1,100,200", "1997-01-01T09:00",
     "1997-01-01T09:00 1997-04-10T09:00 1997-07-19T09:00 2000-01-01T09:00"),
    ("FREQ=YEARLY;BYWEEKNO=1,53;COUNT=4", "2026-12-28T09:00",
     "2026-12-28T09:00 2027-01-04T09:00 2028-01-03T09:00 2029-01-01T09:00"),
    ("FREQ=YEARLY;BYWEEKNO=-1;BYDAY=FR;COUNT=2", "2026-01-01T09:00", "2027-01-01T09:00 2027-12-31T09:00"),
    ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=15,45;COUNT=3", "2026-01-01T09:00",
     "2026-01-01T09:00:15 2026-01-01T09:00:45 2026-01-02T09:00:15"),
    ("FREQ=SECONDLY;INTERVAL=45;COUNT=3", "2026-01-01T09:00",
     "2026-01-01T09:00 2026-01-01T09:00:45 2026-01-01T09:01:30"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "start", "fires"), EXAMPLES, ids=[rule for rule, _, _ in EXAMPLES])
def test_b10_examples_of_the_rfc(rule: str, start: str, fires: str) -> None:
    begin = datetime.fromisoformat(start)
    text = f"DTSTART:{begin:%Y%m%dT%H%M%S}Z\nRRULE:{rule}"
    trigger = parse_trigger(text, now_ms=ms(begin))
    expected = [ms(datetime.fromisoformat(fire)) for fire in fires.split()]
    assert following(trigger, 0, 10, ms(datetime(2120, 1, 1))) == expected


@thorough
@given(rules())
def test_b10_text_and_definition_are_the_same_rule(rule: Rule) -> None:
    trigger = compiled(rule)
    assume(trigger is not None)
    assert trigger is not None
    text = f"DTSTART:{rule.start:%Y%m%dT%H%M%S}Z\nRRULE:{rule.text}"
    parsed = parse_trigger(text, now_ms=ms(rule.start))
    assert following(parsed, 0, 10, ms(rule.cap)) == following(trigger, 0, 10, ms(rule.cap))


@st.composite
def quick_rules(draw: st.DrawFn) -> Rule:
    """Of hours, minutes and seconds, with steps that divide the day."""
    frequency = draw(st.sampled_from(("HOURLY", "MINUTELY", "SECONDLY")))
    found = {"FREQ": frequency}
    steps = {"HOURLY": (1, 2, 8), "MINUTELY": (1, 20, 90), "SECONDLY": (1, 45, 3600)}[frequency]
    found["INTERVAL"] = str(draw(st.sampled_from(steps)))
    for name, high in (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 59)):
        if draw(st.booleans()):
            found[name] = draw(listed(st.integers(0, high), 4))
    if draw(st.booleans()):
        found["BYDAY"] = draw(plain_days)
    if len(found) > 2 and draw(st.booleans()):
        found["BYSETPOS"] = draw(listed(signed(4), 2))
    start = draw(starts) + timedelta(seconds=draw(st.integers(0, 59)))
    return Rule(start, found, cap=start + timedelta(days=8))


def has_positions(parts: dict[str, str]) -> bool:
    """Whether a set of times within an hour, minute or second has one of the positions that the rule asks for."""
    finer = {"HOURLY": ("BYMINUTE", "BYSECOND"), "MINUTELY": ("BYSECOND",), "SECONDLY": ()}[parts["FREQ"]]
    size = prod(len(set(parts[name].split(","))) for name in finer if name in parts)
    return "BYSETPOS" not in parts or any(abs(int(position)) <= size for position in parts["BYSETPOS"].split(","))


@thorough
@given(quick_rules())
def test_b10_rules_of_hours_minutes_and_seconds(rule: Rule) -> None:
    try:  # dateutil looks at every second of the year for a position that no set has
        expected = [ms(moment) for moment in rule.occurrences()][:200] if has_positions(rule.parts) else []
    except ValueError:  # dateutil's word for a rule that reaches no time
        expected = []
    trigger = compiled_quick(rule)
    event("fires" if expected else "silent")
    found = [] if trigger is None else following(trigger, ms(rule.start) - 1, 200, ms(rule.cap))
    assert found == expected


def compiled_quick(rule: Rule) -> Trigger | None:
    try:
        return compile_trigger(TriggerDefinition(Rrule(rule.text, ms(rule.start))))
    except RruleError:
        event("refused")
        return None


@thorough
@given(rules(), st.lists(st.integers(0, 40), max_size=6), st.lists(st.integers(0, 3000), max_size=4))
def test_b10_dates_that_a_rule_leaves_out(rule: Rule, places: list[int], days: list[int]) -> None:
    """EXDATE: of single times and of whole days"""
    fires = rule.occurrences()
    times = [fires[place] for place in places if place < len(fires)]
    left_out = [rule.start.date() + timedelta(day) for day in days]
    left = [ms(at) for at in fires if at not in times and at.date() not in left_out]
    exdates = [f"{at:%Y%m%dT%H%M%S}" for at in times] + [f"{day:%Y%m%d}" for day in left_out]
    assume(left and fires)
    try:
        trigger = compile_trigger(TriggerDefinition(Rrule(rule.text, ms(rule.start), tuple(exdates))))
    except RruleError:
        assert not left
        return
    cap = ms(rule.cap)
    assert following(trigger, ms(rule.start) - 1, 60, cap) == left[:60]
    at = left[len(left) // 2]
    assert trigger.count(ms(rule.start), at) == len(left) // 2
    assert trigger.prev_ms(at) == (left[len(left) // 2 - 1] if len(left) > 1 else None)


FAR_FROM_SIMPLE = [
    "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU;WKST=WE",
    "FREQ=YEARLY;BYYEARDAY=366;BYHOUR=0,6,12;BYSETPOS=-1",
    "FREQ=DAILY;BYHOUR=1,2,3,4,5,6,7,8;BYMINUTE=1,2,3,4,5,6,7,8,9;BYSECOND=1,2,3,4,5,6,7,8,9;BYSETPOS=-1",
    "FREQ=SECONDLY;INTERVAL=8;BYDAY=MO;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=14;BYMINUTE=30",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;WKST=SU;UNTIL=20301231T000000Z",
    "FREQ=WEEKLY;BYMINUTE=0,1;BYSETPOS=1,4",
    "FREQ=WEEKLY;BYDAY=SA;BYHOUR=8;BYMINUTE=31,51;BYSETPOS=6,2",
    "FREQ=MONTHLY;BYHOUR=1,15;BYMINUTE=4,23;BYSETPOS=5,2;WKST=FR",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=YEARLY;BYDAY=24FR,25MO;BYHOUR=15;BYMINUTE=15,55;BYSETPOS=5,-3",
    "FREQ=YEARLY;COUNT=1000000",
    "FREQ=DAILY;INTERVAL=9999;BYHOUR=23;BYDAY=SU,SA;COUNT=3",
    "FREQ=MONTHLY;BYMONTHDAY=29;COUNT=1000",
]


@pytest.mark.parametrize("rule", FAR_FROM_SIMPLE)
def test_s4_a_rule_answers_in_few_steps(rule: str) -> None:
    """Compiling may look at a cycle of the calendar; asking for the next fire, decades from DTSTART, may not."""
    start = datetime(1990, 1, 1, 9, 30)
    with at_most(2_000_000):
        trigger = compile_trigger(TriggerDefinition(Rrule(rule, ms(start))))
        trigger.smallest_gap()
        trigger.count(ms(start), ms(HORIZON))
    for year in (1991, 2026, 2060):
        with at_most(20_000):
            trigger.next_ms(ms(datetime(year, 5, 17)))
        with at_most(20_000):
            trigger.prev_ms(ms(datetime(year, 5, 17)))
