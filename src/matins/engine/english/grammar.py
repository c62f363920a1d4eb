"""Grammars: rules, their trees, and a parser that finds every reading of a list of words.

`grammar_file` describes the notation, and loads a grammar from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    text: str

    def fits(self, word: str) -> bool:
        return word == self.text


@dataclass(frozen=True, slots=True)
class Shape:
    pattern: re.Pattern[str]

    def fits(self, word: str) -> bool:
        return self.pattern.fullmatch(word) is not None


@dataclass(frozen=True, slots=True)
class Ref:
    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    item: Expression


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Expression


Expression = Word | Shape | Ref | Sequence | Choice | Maybe | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    label: str | None
    body: Expression
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """The reading of the words from `start` up to `end` by one rule."""

    rule: str
    children: tuple[Tree | str, ...]
    start: int
    end: int

    def all(self, *rules: str) -> list[Tree]:
        """The topmost trees of these rules below this one, from left to right."""
        return list(self._find(rules))

    def first(self, *rules: str) -> Tree | None:
        return next(self._find(rules), None)

    def words(self) -> list[str]:
        return [word for child in self.children for word in ([child] if isinstance(child, str) else child.words())]

    def _find(self, rules: tuple[str, ...]) -> Iterator[Tree]:
        for child in self.children:
            if isinstance(child, str):
                continue
            if child.rule in rules:
                yield child
            else:
                yield from child._find(rules)


class Grammar:
    def __init__(self, rules: dict[str, Rule]) -> None:
        self.rules = rules
        self._uses = {name: references(rule.body) for name, rule in rules.items()}
        self._openings: dict[str, tuple[frozenset[str], list[Shape]]] = {}

    def examples(self, start: str) -> list[str]:
        """The examples of every rule that `start` reaches, in the order of the file."""
        used = self.reachable(start)
        return [text for name, rule in self.rules.items() if name in used for text in rule.examples]

    def reachable(self, *starts: str) -> set[str]:
        """These rules, and all rules that they reach."""
        found, pending = set(starts), list(starts)
        while pending:
            new = self._uses[pending.pop()] - found
            found |= new
            pending += new
        return found

    def vocabulary(self, start: str) -> list[str]:
        """The literal words of the rules that `start` reaches."""
        bodies = (self.rules[name].body for name in self.reachable(start))
        return sorted({word for body in bodies for word in literals(body)})

    def can_begin(self, name: str, word: str) -> bool:
        """Whether a text that starts with this word can match the rule."""
        openings = self._openings.get(name)
        if openings is None:
            first = list(self._first_words(self.rules[name].body))
            words = frozenset(opening.text for opening in first if isinstance(opening, Word))
            openings = self._openings[name] = words, [opening for opening in first if isinstance(opening, Shape)]
        words, shapes = openings
        return word in words or any(shape.fits(word) for shape in shapes)

    def may_be_empty(self, expression: Expression) -> bool:
        match expression:
            case Maybe() | Repeat():
                return True
            case Ref(name):
                return self.may_be_empty(self.rules[name].body)
            case Sequence(items):
                return all(self.may_be_empty(item) for item in items)
            case Choice(options):
                return any(self.may_be_empty(option) for option in options)
            case _:
                return False

    def parse(self, start: str, words: list[str]) -> Reading:
        return Reading(self, start, words)

    def _first_words(self, expression: Expression) -> Iterator[Word | Shape]:
        match expression:
            case Word() | Shape():
                yield expression
            case Ref(name):
                yield from self._first_words(self.rules[name].body)
            case Sequence(items):
                for item in items:
                    yield from self._first_words(item)
                    if not self.may_be_empty(item):
                        break
            case _:
                for part in parts(expression):
                    yield from self._first_words(part)


def parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Sequence(items):
            return items
        case Choice(options):
            return options
        case Maybe(item) | Repeat(item):
            return (item,)
        case _:
            return ()


def references(expression: Expression) -> set[str]:
    if isinstance(expression, Ref):
        return {expression.name}
    return set[str]().union(*(references(part) for part in parts(expression)))


def literals(expression: Expression) -> set[str]:
    if isinstance(expression, Word):
        return {expression.text}
    return set[str]().union(*(literals(part) for part in parts(expression)))


Children = tuple[Tree | str, ...]
Ends = dict[int, tuple[Children, ...]]
"""The possible ends of a match, and the children before each: at most two ways, enough to detect an ambiguity."""


@dataclass(slots=True)
class Reading:
    """One attempt to read all of the words, with the farthest position and what was expected there."""

    grammar: Grammar
    start: str
    words: list[str]
    steps: int = 0
    farthest: int = 0
    wanted: dict[str, bool] = field(default_factory=dict[str, bool])
    """The words and labels expected at `farthest`, in the order of the file; true for a word, false for a label."""
    trees: tuple[Tree, ...] = ()
    _memo: dict[tuple[str, int], Ends] = field(default_factory=dict[tuple[str, int], Ends])
    _labels: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def __post_init__(self) -> None:
        ends = self._rule(self.start, 0)
        for end in ends:  # nothing is expected after a complete phrase
            if end > self.farthest:
                self.farthest, self.wanted = end, {}
        whole = ends.get(len(self.words), ())
        self.trees = tuple(child for children in whole for child in children if isinstance(child, Tree))

    @property
    def could_end(self) -> bool:
        """Whether the words before `farthest` are a complete phrase."""
        return self.farthest in self._rule(self.start, 0)

    def _match(self, expression: Expression, start: int) -> Ends:
        self.steps += 1
        match expression:
            case Word() | Shape():
                return self._one_word(expression, start)
            case Ref(name):
                return self._rule(name, start)
            case Sequence(items):
                return self._sequence(items, start)
            case Choice(options):
                return _merge([self._match(option, start) for option in options])
            case Maybe(item):
                return _merge([{start: ((),)}, self._match(item, start)])
            case Repeat(item):
                return self._repeat(item, start)

    def _one_word(self, expression: Word | Shape, start: int) -> Ends:
        if start < len(self.words) and expression.fits(self.words[start]):
            return {start + 1: ((self.words[start],),)}
        self._note_failure(start, expression.text if isinstance(expression, Word) else None)
        return {}

    def _note_failure(self, at: int, word: str | None) -> None:
        if at > self.farthest:
            self.farthest, self.wanted = at, {}
        if at == self.farthest:
            label = next((label for label, begun in self._labels if begun == at), word)
            if label is not None:
                self.wanted.setdefault(label, label == word)

    def _rule(self, name: str, start: int) -> Ends:
        ends = self._memo.get((name, start))
        if ends is None:
            ends = self._memo[name, start] = self._read_rule(self.grammar.rules[name], start)
        return ends

    def _read_rule(self, rule: Rule, start: int) -> Ends:
        if start < self.farthest and not self.grammar.can_begin(rule.name, self.words[start]):
            return {}  # another reading came farther, so this failure does not matter
        if rule.label is not None:
            self._labels.append((rule.label, start))
        ends = self._match(rule.body, start)
        if rule.label is not None:
            self._labels.pop()
        return {end: tuple((Tree(rule.name, children, start, end),) for children in ways) for end, ways in ends.items()}

    def _sequence(self, items: tuple[Expression, ...], start: int) -> Ends:
        ends: Ends = {start: ((),)}
        for item in items:
            ends = _merge([_append(ways, self._match(item, middle)) for middle, ways in ends.items()])
            if not ends:
                break
        return ends

    def _repeat(self, item: Expression, start: int) -> Ends:
        ends: Ends = {start: ((),)}
        pending = [start]
        while pending:  # nearest first: an item takes at least one word, so earlier ends are complete
            middle = min(pending)
            pending.remove(middle)
            longer = _append(ends[middle], self._match(item, middle))
            pending += [end for end in longer if end not in ends]
            _add(ends, longer)
        return ends


def _append(heads: tuple[Children, ...], ends: Ends) -> Ends:
    return {end: tuple(head + tail for head in heads for tail in tails)[:2] for end, tails in ends.items()}


def _merge(alternatives: list[Ends]) -> Ends:
    merged: Ends = {}
    for ends in alternatives:
        _add(merged, ends)
    return merged


def _add(known: Ends, more: Ends) -> None:
    for end, ways in more.items():
        before = known.get(end, ())
        known[end] = (before + tuple(way for way in ways if way not in before))[:2] if before else ways
