"""B10: the notation of the published grammar, and the parser that reads words by it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from random import Random

import pytest
from phrase_generator import SAMPLES

from matins.engine.english.grammar import (
    Choice,
    Expression,
    Grammar,
    Maybe,
    Reading,
    Ref,
    Repeat,
    Sequence,
    Shape,
    Tree,
    Word,
    load_grammar,
)
from matins.engine.english.phrases import phrase_grammar

TEA = load_grammar("""
# What to order.
> two teas
> a coffee with milk and sugar
order = amount drink [ "with" extra { "and" extra } ] ;
amount 'how many' = "a" | "two" | NUMBER ;
NUMBER = /[0-9]+/ ;
drink 'a drink' = "tea" | "teas" | "coffee" | "coffees" ;
extra = "milk" | "sugar" | lemon ;
lemon = ( "lemon" | "lime" ) ;
""")


def order(text: str) -> Reading:
    return TEA.parse("order", text.split())


def test_a_grammar_is_read_from_its_text() -> None:
    """B10: comments, examples, labels and every bracket of the notation."""
    assert list(TEA.rules) == ["order", "amount", "NUMBER", "drink", "extra", "lemon"]
    extras = Repeat(Sequence((Word("and"), Ref("extra"))))
    body = Sequence((Ref("amount"), Ref("drink"), Maybe(Sequence((Word("with"), Ref("extra"), extras)))))
    assert TEA.rules["order"].body == body
    assert TEA.rules["extra"].body == Choice((Word("milk"), Word("sugar"), Ref("lemon")))
    assert isinstance(TEA.rules["NUMBER"].body, Shape)
    assert TEA.rules["amount"].label == "how many"
    assert TEA.rules["order"].label is None
    assert TEA.examples("order") == ["two teas", "a coffee with milk and sugar"]
    assert TEA.vocabulary("extra") == ["lemon", "lime", "milk", "sugar"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a = b ;", "a uses b, which no rule defines"),
        ('a = "x" b ; b = [ a ] ;', "a leads back to itself"),
        ('a = "y" { [ "x" ] } ;', "a repeats something that may be empty"),
        ('a = "y" { { "x" } } ;', "a repeats something that may be empty"),
        ('a = "y" b ; b = [ "x" ] ;', "b may be empty"),
        ('a = "x" ; a = "y" ;', "a is defined twice"),
        ('a = ( "x" ;', r"expected \)"),
        ('a = "x"', "expected ;"),
        ('a "x" ;', "expected ="),
        ("a = ;", "expected {"),
        ("a = $ ;", "cannot read"),
    ],
)
def test_a_faulty_grammar_says_what_is_wrong(text: str, fault: str) -> None:
    """B10: a rule that nothing can read would be a phrase that is silently lost."""
    with pytest.raises(ValueError, match=fault):
        load_grammar(text)


def test_words_become_a_tree() -> None:
    """B10: each rule with the words that it read."""
    (tree,) = order("2 teas with milk and lime").trees
    assert tree == Tree(
        "order",
        (
            Tree("amount", (Tree("NUMBER", ("2",), 0, 1),), 0, 1),
            Tree("drink", ("teas",), 1, 2),
            "with",
            Tree("extra", ("milk",), 3, 4),
            "and",
            Tree("extra", (Tree("lemon", ("lime",), 5, 6),), 5, 6),
        ),
        0,
        6,
    )
    assert tree.words() == ["2", "teas", "with", "milk", "and", "lime"]
    assert [extra.words() for extra in tree.all("extra")] == [["milk"], ["lime"]]
    assert tree.first("lemon") == Tree("lemon", ("lime",), 5, 6)
    assert tree.first("nothing") is None


def test_every_word_is_used_or_nothing_is_read() -> None:
    """B10: no word is skipped, none is left over."""
    assert order("a tea").trees
    for text in ("a tea please", "please a tea", "a nice tea", "a tea with", "a", ""):
        assert not order(text).trees


@pytest.mark.parametrize(
    ("text", "at", "wanted", "could_end"),
    [
        ("a beer", 1, {"a drink": False}, False),
        ("some tea", 0, {"how many": False}, False),
        ("a tea with beer", 3, {"milk": True, "sugar": True, "lemon": True, "lime": True}, False),
        ("a tea with milk or", 4, {"and": True}, True),
        ("a", 1, {"a drink": False}, False),
        ("a tea tea", 2, {"with": True}, True),
    ],
)
def test_a_failure_knows_how_far_it_came(text: str, at: int, wanted: dict[str, bool], could_end: bool) -> None:
    """B10: the word that broke it off, and what was looked for in its place."""
    reading = order(text)
    assert (reading.farthest, reading.wanted, reading.could_end) == (at, wanted, could_end)


def test_what_may_follow_a_complete_phrase_is_nothing() -> None:
    """B10: the farthest point may be where a phrase could only have ended."""
    reading = load_grammar('a = "x" | "x" "y" "z" | "w" ;').parse("a", ["w", "w"])
    assert (reading.farthest, reading.wanted, reading.could_end) == (1, {}, True)


def test_an_ambiguous_grammar_shows_two_trees() -> None:
    """B10: all alternatives are explored, so two readings of one text cannot hide."""
    grammar = load_grammar('s = "x" { a } { b } ; a = "x" ; b = "x" | "y" ;')
    assert len(grammar.parse("s", ["x"]).trees) == 1
    assert len(grammar.parse("s", ["x"] * 30).trees) == 2
    assert len(grammar.parse("s", ["x", *["y"] * 30]).trees) == 1
    uneven = load_grammar('s = "z" { a } ; a = "x" | "x" "x" | "y" ;')
    assert len(uneven.parse("s", ["z", "x", "x", "y"]).trees) == 2


@pytest.mark.parametrize(
    "text",
    [
        "at " + "9 , " * 240 + "9 every day",
        "every " + "monday and " * 240 + "monday at 9",
        "on the " + "1st , " * 240 + "1st of every month at 9",
        "in " + "1 hour , " * 120 + "1 hour",
        "every monday to friday except " + "monday , " * 200,
        "at " * 500,
        "biweekly " * 500,
        ", " * 500,
        "9 " * 500,
        "9 , " * 250,
    ],
)
def test_reading_takes_steps_in_proportion_to_the_words(text: str) -> None:
    """B10: nothing that fits into 1,000 characters makes the parser slow."""
    words = text.split()
    for start in ("phrase", "refused"):
        assert phrase_grammar().parse(start, words).steps < 1500 + 150 * len(words)


class Positions:
    """The grammar with every rule written out, as the places of its words and which place may follow which.

    Two readings of one text are two paths through these places that spell the same words.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.terminals: list[Word | Shape] = []
        self.names: list[str] = []
        self.follow: dict[int, set[int]] = {}

    def expand(self, expression: Expression, rule: str) -> tuple[set[int], set[int]]:
        """The first and the last places of an expression."""
        match expression:
            case Word() | Shape():
                self.terminals.append(expression)
                self.names.append(rule)
                place = len(self.terminals) - 1
                self.follow[place] = set()
                return {place}, {place}
            case Ref(name):
                return self.expand(self.grammar.rules[name].body, name)
            case Choice(options):
                ends = [self.expand(option, rule) for option in options]
                return set().union(*(first for first, _ in ends)), set().union(*(last for _, last in ends))
            case Maybe(item):
                return self.expand(item, rule)
            case Repeat(item):
                first, last = self.expand(item, rule)
                self._join(last, first)
                return first, last
            case Sequence(items):
                return self._sequence(items, rule)

    def _sequence(self, items: tuple[Expression, ...], rule: str) -> tuple[set[int], set[int]]:
        firsts, lasts, empty = set[int](), set[int](), True
        for item in items:
            first, last = self.expand(item, rule)
            self._join(lasts, first)
            optional = self.grammar.may_be_empty(item)
            firsts |= first if empty else set()
            lasts = lasts | last if optional else last
            empty = empty and optional
        return firsts, lasts

    def _join(self, before: Iterable[int], after: set[int]) -> None:
        for place in before:
            self.follow[place] |= after


def ambiguity(grammar: Grammar, start: str, texts: frozenset[str]) -> tuple[str, str] | None:
    """Two rules that can read the same words in the same place, both to the end of a text; None when there are none."""
    places = Positions(grammar)
    first, last = places.expand(Ref(start), start)
    alike = {(a, b) for a, b in product(set(places.terminals), repeat=2) if spellings(a, texts) & spellings(b, texts)}

    def pairs(left: set[int], right: set[int]) -> list[tuple[int, int]]:
        return [(a, b) for a in left for b in right if (places.terminals[a], places.terminals[b]) in alike]

    pending = {(a, b) for options in (first, *places.follow.values()) for a, b in pairs(options, options) if a < b}
    seen = set(pending)
    while pending:
        a, b = pending.pop()
        after = {(min(pair), max(pair)) for pair in pairs(places.follow[a], places.follow[b])}
        if {a, b} <= last or any(left == right for left, right in after):
            return places.names[a], places.names[b]
        pending |= after - seen
        seen |= after
    return None


@cache
def spellings(terminal: Word | Shape, texts: frozenset[str]) -> frozenset[str]:
    if isinstance(terminal, Word):
        return frozenset({terminal.text})
    return frozenset(text for text in texts if terminal.pattern.fullmatch(text))


def samples_of(name: str) -> set[str]:
    random = Random(name)
    return {SAMPLES[name](random) for _ in range(300)}


@pytest.mark.parametrize("start", ["phrase", "refused"])
def test_no_text_at_all_can_be_read_in_two_ways(start: str) -> None:
    """B10: a proof over the whole grammar, not a sample: pairs of different readings are followed word by word."""
    grammar = phrase_grammar()
    shapes = [name for name in grammar.reachable(start) if isinstance(grammar.rules[name].body, Shape)]
    numbers = {str(n) for n in (*range(100), 1970, 2026, 12345)} | {f"{n:02}" for n in range(10)}
    texts = numbers.union(grammar.vocabulary(start), *(samples_of(name) for name in shapes))
    assert ambiguity(grammar, start, frozenset(texts)) is None


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('s = a | b ; a = "x" ; b = "x" ;', ("a", "b")),
        ('s = "z" { a } { b } ; a = "x" ; b = "x" | "y" ;', ("a", "b")),
        ('s = a "z" | b "z" ; a = /[xy]/ ; b = "x" ;', ("s", "s")),
        ('s = a "z" | b "w" ; a = /[xy]/ ; b = "x" ;', None),
        ('s = { a } "x" ; a = "x" ;', None),
    ],
)
def test_the_proof_sees_what_is_ambiguous(text: str, rules: tuple[str, str] | None) -> None:
    """B10: and only that."""
    assert ambiguity(load_grammar(text), "s", frozenset({"x", "y"})) == rules
