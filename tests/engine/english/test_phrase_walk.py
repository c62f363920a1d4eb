"""B10: thousands of random phrases from the published grammar do what an independent walk over the calendar says."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from phrase_generator import PhraseGenerator, text_of
from phrase_oracle import Calendar, Every, Expectation, Moment, expected

from matins.engine.english.grammar import Tree
from matins.engine.english.phrases import PhraseMeaning, parse_phrase, phrase_grammar
from matins.engine.english.values import respelled
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.engine.when.zones import load_zone
from matins.errors import PhraseError
from matins.model.trigger import Cron, Daily, Interval, Once, Rrule, TriggerDefinition, Weekly, When

PHRASES = 2400
MUTANTS = 400
ZONES = ("UTC", "America/New_York")
DAYS = {"by_turns": 1500, "from_a_date": 1500, "by_months": 800, "by_days": 30}
DEFINITIONS: dict[str, tuple[type[When], ...]] = {
    "elapsed": (Interval,),
    "aligned": (Cron,),
    "past_the_hour": (Cron,),
    "window": (Daily, Weekly),
    "by_days": (Daily, Weekly),
    "by_months": (Cron,),
    "by_turns": (Rrule,),
    "from_a_date": (Rrule,),
    "delay": (Once,),
    "moment": (Once,),
    "instant": (Once,),
}


@cache
def phrases() -> tuple[list[Tree], PhraseGenerator]:
    generator = PhraseGenerator(phrase_grammar(), seed=2026)
    return [generator.tree() for _ in range(PHRASES)], generator


def some_now(random: Random, zone: str) -> datetime:
    """A moment in 2026 or 2027, to the millisecond."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.randrange(2 * 365 * 86_400_000))
    return at.astimezone(ZoneInfo(zone))


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def read(text: str, now: datetime) -> PhraseMeaning:
    return parse_phrase(text, now_ms=milliseconds(now), zone=load_zone(zone_name(now)))


def zone_name(now: datetime) -> str:
    assert isinstance(now.tzinfo, ZoneInfo)
    return now.tzinfo.key


@cache
def midnight(day: date, zone: ZoneInfo) -> int:
    return milliseconds(datetime(day.year, day.month, day.day, tzinfo=zone))


@cache
def ordinary(day: date, zone: ZoneInfo) -> bool:
    """Whether no clock is changed from the day before to the day after."""
    return midnight(day + timedelta(days=2), zone) - midnight(day - timedelta(days=1), zone) == 3 * 86_400_000


def expected_fires(calendar: Calendar, now: datetime, days: int) -> list[int]:
    """Instants after `now`, on ordinary days."""
    zone = ZoneInfo(zone_name(now))
    walk = ((day, minute) for day, minute in calendar.walk(now.date(), days) if ordinary(day, zone))
    instants = (midnight(day, zone) + minute * 60_000 for day, minute in walk)
    return [at for at in instants if at > milliseconds(now)]


def fires(trigger: Trigger, now: datetime, days: int) -> list[int]:
    zone = ZoneInfo(zone_name(now))
    window = [now.date() + timedelta(days=n) for n in range(days + 1)]
    odd = [
        (midnight(day, zone), midnight(next_day, zone)) for day, next_day in pairwise(window) if not ordinary(day, zone)
    ]
    found: list[int] = []
    at = trigger.next_ms(milliseconds(now))
    while at is not None and at < midnight(window[-1], zone):
        if not any(start <= at < end for start, end in odd):
            found.append(at)
        at = trigger.next_ms(at)
    return found


def check(when: When, expectation: Expectation, kind: str, now: datetime) -> int:
    """Compares, and says how many fires were compared."""
    trigger = compile_trigger(TriggerDefinition(when, zone_name(now)))
    now_ms = milliseconds(now)
    match expectation:
        case Every(length):
            assert when == Interval(length // timedelta(milliseconds=1), now_ms)
            assert trigger.next_ms(now_ms) == milliseconds(now.astimezone(UTC) + length)
            return 1
        case Moment(at):
            assert trigger.next_ms(now_ms) == milliseconds(at)
            assert trigger.next_ms(milliseconds(at)) is None
            return 1
        case Calendar():
            days = DAYS.get(kind, 8)
            wanted = expected_fires(expectation, now, days)
            assert fires(trigger, now, days) == wanted
            return len(wanted)


def kind_of(tree: Tree) -> str:
    (part,) = tree.children
    assert isinstance(part, Tree)
    return part.rule


def test_every_alternative_of_the_grammar_is_generated() -> None:
    """B10: otherwise the tests below prove less than they say."""
    assert phrases()[1].unused("phrase") == []


def test_each_generated_phrase_is_read_as_it_was_made() -> None:
    """B10: the parser finds the very tree that the phrase grew from, and no other."""
    grammar = phrase_grammar()
    for tree in phrases()[0]:
        assert grammar.parse("phrase", tree.words()).trees == (tree,), text_of(tree.words())


@pytest.mark.parametrize("zone", ZONES)
def test_generated_phrases_fire_as_the_walk_says(zone: str) -> None:
    """B10: what the oracle refuses is refused with a hint, the rest fires on the oracle's minutes."""
    random = Random(zone)
    accepted, refused, compared = Counter[str](), Counter[str](), Counter[str]()
    for tree in phrases()[0][ZONES.index(zone) :: len(ZONES)]:
        now, kind, text = some_now(random, zone), kind_of(tree), text_of(tree.words())
        expectation = expected(tree, now)
        if expectation is None:
            error = refusal_of(text, now)
            assert error is not None, f"{text} at {now}"
            assert error.hint
            refused[kind] += 1
        else:
            when = read(text, now).when
            assert isinstance(when, DEFINITIONS[kind])
            compared[kind] += check(when, expectation, kind, now)
            accepted[kind] += 1
    assert min(accepted[kind] for kind in DEFINITIONS) >= 40
    assert min(refused[kind] for kind in DEFINITIONS) >= 10
    assert min(compared[kind] for kind in DEFINITIONS) >= 40


def offered(hint: str | None) -> list[str]:
    return re.findall(r'"([^"]+)"', hint or "")


def refusal_of(text: str, now: datetime) -> PhraseError | None:
    try:
        read(text, now)
    except PhraseError as error:
        return error
    return None


def mutated(words: list[str], random: Random) -> str:
    """Good words with one thing wrong: a word lost, moved, misspelt or too many."""
    words, at = list(words), random.randrange(len(words))
    match random.choice(["drop", "swap", "misspell", "insert"]):
        case "drop" if len(words) > 1:
            del words[at]
        case "swap":
            other = random.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        case "misspell":
            letters = list(words[at])
            letters[random.randrange(len(letters))] = random.choice(["x", "e", "1", "", "mm"])
            words[at] = "".join(letters) or "x"
        case _:
            words.insert(
                at, random.choice(["every", "at", "not", "5", "monday", "on", "the", "and", "zzz", "9am", "of"])
            )
    return text_of(words)


def test_a_phrase_with_a_mistake_is_refused_or_means_what_the_walk_says() -> None:
    """B10: never another exception, and never a guess: what is accepted uses every word and fires as they say.

    What a hint offers can be used: a suggestion that is refused in its turn would be worse than none.
    """
    random, accepted, refused = Random(10), 0, 0
    for tree in random.sample(phrases()[0], MUTANTS):
        text, now = mutated(tree.words(), random), some_now(random, "UTC")
        error = refusal_of(text, now)
        if error is None:
            words = text.replace(",", " , ").split()
            if not phrase_grammar().parse("phrase", words).trees:
                words = respelled(words)
            (again,) = phrase_grammar().parse("phrase", words).trees
            assert again.words() == words
            expectation = expected(again, now)
            assert expectation is not None, text
            check(read(text, now).when, expectation, kind_of(again), now)
            accepted += 1
        else:
            assert error.message
            assert str(error.value) in text
            assert offered(error.hint)
            for phrase in offered(error.hint):
                read(phrase, now)
            refused += 1
    assert accepted >= MUTANTS // 20
    assert refused >= MUTANTS // 2


def test_a_description_means_what_it_describes() -> None:
    """B10: the words that Matins itself uses for a phrase's trigger are read as the same fires."""
    random, same, unknown = Random(5), 0, list[str]()
    for tree in random.sample(phrases()[0], MUTANTS):
        text, now = text_of(tree.words()), some_now(random, "America/New_York")
        if refusal_of(text, now):
            continue
        trigger = compile_trigger(TriggerDefinition(read(text, now).when, zone_name(now)))
        description = trigger.describe()
        if refusal_of(description, now):
            unknown.append(description)
            continue
        again = compile_trigger(TriggerDefinition(read(description, now).when, zone_name(now)))
        assert next_fires(again, now, 30) == next_fires(trigger, now, 30), description
        same += 1
    assert len(unknown) <= same // 20, unknown


def next_fires(trigger: Trigger, now: datetime, count: int) -> list[int]:
    found: list[int] = []
    at = trigger.next_ms(milliseconds(now))
    while at is not None and len(found) < count:
        found.append(at)
        at = trigger.next_ms(at)
    return found


def test_what_is_understood_and_refused_says_why() -> None:
    """B10: phrases with two meanings or half of one, grown from the grammar's own list of them."""
    grammar, random = phrase_grammar(), Random(7)
    generator = PhraseGenerator(grammar, seed=7)
    for tree in [generator.tree("refused") for _ in range(600)]:
        error = refusal_of(text_of(tree.words()), some_now(random, "America/New_York"))
        assert error is not None
        assert "cannot be used" not in error.message
        assert "not complete" not in error.message
        assert error.value in tree.words()
        assert offered(error.hint)
    good = grammar.reachable("phrase")
    assert [choice for choice in generator.unused("refused") if choice[0][0] not in good] == []
