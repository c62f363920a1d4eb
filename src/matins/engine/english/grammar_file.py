"""The notation of grammars, and its reader.

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

from matins.engine.english.grammar import (
    Choice,
    Expression,
    Grammar,
    Maybe,
    Ref,
    Repeat,
    Rule,
    Sequence,
    Shape,
    Word,
    parts,
    references,
)

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
