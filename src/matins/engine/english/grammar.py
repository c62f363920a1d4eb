"""Grammars: rules, their trees, and a parser that finds every reading of a list of words.

`grammar_file` describes the notation, and loads a grammar from it.

The notation of grammars, and its reader.

    # a comment              up to the end of the line
    > some words             an example of the rule that follows
    name = ... ;             a rule
    name 'a label' = ... ;   a rule with the name that error messages use
    NAME = /shape/ ;         one word of this shape (a regular expression)

"word" is a literal word, [ x ] is optional, { x } repeats any number of times, x | y is a choice, ( ) groups.
A rule reads at least one word, and does not refer back to itself.
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
                if start < len(self.words) and expression.fits(self.words[start]):
                    return {start + 1: ((self.words[start],),)}
                self._note_failure(start, expression.text if isinstance(expression, Word) else None)
                return {}
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

    def _note_failure(self, at: int, word: str | None) -> None:
        if at > self.farthest:
            self.farthest, self.wanted = at, {}
        if at == self.farthest:
            label = next((label for label, begun in self._labels if begun == at), word)
            if label is not None:
                self.wanted.setdefault(label, label == word)

    def _rule(self, name: str, start: int) -> Ends:
        known = self._memo.get((name, start))
        if known is not None:
            return known
        rule = self.grammar.rules[name]
        ends: Ends = {}
        # Where another reading came farther, the failure of a rule that cannot begin here does not matter.
        if start >= self.farthest or self.grammar.can_begin(name, self.words[start]):
            if rule.label is not None:
                self._labels.append((rule.label, start))
            found = self._match(rule.body, start)
            if rule.label is not None:
                self._labels.pop()
            ends = {end: tuple((Tree(name, way, start, end),) for way in ways) for end, ways in found.items()}
        self._memo[name, start] = ends
        return ends

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


_NOTATION = re.compile(
    r"""\s*(?: \#[^\n]* | (?P<example>>[^\n]*) | "(?P<word>[^"\n]+)" | '(?P<label>[^'\n]+)'
             | /(?P<shape>[^\n]+?)/(?=\s*;) | (?P<name>\w+) | (?P<sign>[=;|()\[\]{}]) | (?P<end>$) )""",
    re.VERBOSE,
)


def load_grammar(text: str) -> Grammar:
    """The grammar of a file's text; ValueError if the file is invalid."""
    rules: dict[str, Rule] = {}
    for rule in _Loader(text).rules():
        if rule.name in rules:
            raise ValueError(f"{rule.name} is defined twice")
        rules[rule.name] = rule
    grammar = Grammar(rules)
    for check in (_check_defined, _check_not_recursive, _check_not_empty, _check_ends):
        for rule in rules.values():
            check(rule, grammar)
    return grammar


def _check_defined(rule: Rule, grammar: Grammar) -> None:
    missing = references(rule.body) - grammar.rules.keys()
    if missing:
        raise ValueError(f"{rule.name} uses {', '.join(sorted(missing))}, which no rule defines")


def _check_not_empty(rule: Rule, grammar: Grammar) -> None:
    if grammar.may_be_empty(rule.body):
        raise ValueError(f"{rule.name} may be empty")


def _check_not_recursive(rule: Rule, grammar: Grammar) -> None:
    if rule.name in grammar.reachable(*references(rule.body)):
        raise ValueError(f"{rule.name} leads back to itself")


def _check_ends(rule: Rule, grammar: Grammar) -> None:
    if _repeats_nothing(rule.body, grammar):
        raise ValueError(f"{rule.name} repeats something that may be empty")


def _repeats_nothing(expression: Expression, grammar: Grammar) -> bool:
    if isinstance(expression, Repeat) and grammar.may_be_empty(expression.item):
        return True
    return any(_repeats_nothing(part, grammar) for part in parts(expression))


class _Loader:
    """A reader of the notation, one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._kind, self._text = next(self._tokens)

    def rules(self) -> Iterator[Rule]:
        while self._kind != "end":
            examples: list[str] = []
            while self._kind == "example":
                examples.append(self._take("example")[1:].strip())
            name = self._take("name")
            label = self._take("label") if self._kind == "label" else None
            self._take("sign", "=")
            body = self._choice()
            self._take("sign", ";")
            yield Rule(name, label, body, tuple(examples))

    def _take(self, kind: str, text: str | None = None) -> str:
        taken = self._text
        if self._kind != kind or text not in (None, taken):
            raise ValueError(f"expected {text or kind}, found {self._kind} {taken!r}")
        self._kind, self._text = next(self._tokens, ("end", ""))
        return taken

    def _choice(self) -> Expression:
        options = [self._sequence()]
        while self._text == "|" and self._kind == "sign":
            self._take("sign")
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Expression:
        items = [self._item()]
        while self._kind in ("word", "shape", "name") or (self._kind == "sign" and self._text in "([{"):
            items.append(self._item())
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self) -> Expression:
        match self._kind, self._text:
            case "word", _:
                return Word(self._take("word"))
            case "shape", _:
                return Shape(re.compile(self._take("shape")))
            case "name", _:
                return Ref(self._take("name"))
            case _, "(":
                return self._bracketed("(", ")")
            case _, "[":
                return Maybe(self._bracketed("[", "]"))
            case _:
                return Repeat(self._bracketed("{", "}"))

    def _bracketed(self, opening: str, closing: str) -> Expression:
        self._take("sign", opening)
        inner = self._choice()
        self._take("sign", closing)
        return inner


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while True:
        found = _NOTATION.match(text, at)
        if found is None:
            raise ValueError(f"cannot read {text[at : at + 40].strip()!r}")
        at = found.end()
        if found.lastgroup is not None:
            yield found.lastgroup, found[found.lastgroup]
        if found.lastgroup == "end":
            return
