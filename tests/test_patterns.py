"""No text keeps a pattern busy: every one of the package, by the method that calls it. Row B7."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from matins.api.use_case import USE_CASES, path_pattern
from matins.chat.discord.payloads import mentioned as discord_mentioned
from matins.chat.slack.payloads import mentioned
from matins.engine.english.grammar import Shape, parts
from matins.engine.english.phrases import phrase_grammar
from matins.engine.run_texts import excerpt, parse_search
from matins.executors.processes.output import Redactor
from matins.texts.foreign_entry import Toml
from matins.web.views import FRAGMENTS, VIEWS
from pattern_scan import Use, milliseconds, run, text_of, texts, uses

LENGTH = 2_000
MAX_MS, MAX_GROWTH = 20.0, 2.5
FLOOR_MS = 0.5
"""Below it, growth is not looked at: a text of this length that takes longer is read more than once."""
SHORT = (20, 26, 34, 50, 100, 200, 500)
"""Texts that end the test soon if a pattern takes exponential time."""


class Bound(NamedTuple):
    """A pattern that is slow with long texts, and whose caller gives it short ones."""

    length: int
    caller: Callable[[str], object]
    """It is called with longer texts, which it must refuse or cut."""


EXCEPTIONS: dict[str, Bound] = {}


def _shapes() -> list[Use]:
    def found(expression: Any) -> list[re.Pattern[str]]:
        own = [expression.pattern] if isinstance(expression, Shape) else []
        return own + [pattern for part in parts(expression) for pattern in found(part)]

    rules = phrase_grammar().rules.values()
    return [Use(rule.name, pattern, ("fullmatch",)) for rule in rules for pattern in found(rule.body)]


def _paths() -> list[Use]:
    paths = {*VIEWS, *FRAGMENTS, *(case.route.partition(" ")[2] for case in USE_CASES.values())}
    return [Use(path, path_pattern(path), ("fullmatch",)) for path in sorted(paths) if "{" in path]


def _made(text: str, method: str) -> list[Use]:
    return [Use("made", re.compile(text), (method,))]


BUILT: dict[str, tuple[list[Use], Callable[[str], object] | None]] = {
    "api/use_case.py:path_pattern": (_paths(), None),
    "engine/english/grammar.py:_item": (_shapes(), None),
    "chat/slack/payloads.py:mentioned": (
        _made(r"<@U1(?:\|[^<>]{0,200})?>[:,]?", "split"), lambda text: mentioned(text, "U1"),
    ),
    "chat/discord/payloads.py:mentioned": (
        _made(r"<@!?1>[:,]?", "split"), lambda text: discord_mentioned(text, "1"),
    ),
    "texts/foreign_entry.py:ours": (
        _made(r"\s*\[\s*[\"']?mcp_servers[\"']?\s*\.\s*[\"']?matins[\"']?\s*[\].]", "match"),
        lambda text: Toml().removed(text, ("mcp_servers", "matins")),
    ),
    "engine/run_texts.py:excerpt": (
        _made(r"\bquota|\bweekly", "search"), lambda text: excerpt(text, parse_search("quota week")),
    ),
    "executors/processes/output.py:_pattern": ([], None),  # they are tried below, by what uses them
    "executors/processes/output.py:_plain": ([], None),
    "executors/processes/output.py:_unit": ([], None),
}  # fmt: skip
"""Patterns that are built when the program runs: examples of them, and the function that builds one."""
FOUND = uses()


def slowest(use: Use, length: int = LENGTH) -> str | None:
    """What is wrong with a pattern: the text that keeps it busy."""
    pattern = use.pattern
    assert pattern is not None
    for method in use.methods:
        for text in texts(pattern):
            fault = fault_of(lambda size, m=method, t=text: partial(run, pattern, m, text_of(t, size, pattern)), length)
            if fault:
                return f"{use.place}.{method}, {text!r}: {fault}"
    return None


def fault_of(made: Callable[[int], Callable[[], object]], length: int = LENGTH) -> str | None:
    for size in (*(short for short in SHORT if short < length), length):
        call = made(size)
        took = milliseconds(call)
        if took > MAX_MS:
            took = min(took, milliseconds(call, 1 if took > 10 * MAX_MS else 5))
        if took > MAX_MS:
            return f"{size} characters take {took:.1f} ms"
    if took_long(made, length):  # again, with more tries: a machine that is busy is no fault
        whole, half = by_turns(made(length), made(length // 2), 9)
        if whole > FLOOR_MS and whole > MAX_GROWTH * half:
            return f"{length // 2} characters take {half:.2f} ms, {length} take {whole:.2f} ms"
    return None


def by_turns(whole: Callable[[], object], half: Callable[[], object], tries: int) -> tuple[float, float]:
    """The quickest of some tries of each: what slows the machine for a while slows both."""
    took = [(milliseconds(whole), milliseconds(half)) for _ in range(tries)]
    return min(one for one, _ in took), min(one for _, one in took)


def took_long(made: Callable[[int], Callable[[], object]], length: int) -> bool:
    whole = milliseconds(made(length), 2)
    return whole > FLOOR_MS and whole > MAX_GROWTH * milliseconds(made(length // 2), 2)


KNOWN = [use for use in FOUND if use.pattern is not None]


@pytest.mark.parametrize("use", KNOWN, ids=lambda use: f"{use.place}-{KNOWN.index(use)}")
def test_a_pattern_stays_quick(use: Use) -> None:
    bound = EXCEPTIONS.get(use.place)
    if bound is None:
        assert slowest(use) is None
        return
    assert slowest(use) is not None, "it needs no exception"
    assert slowest(use, bound.length) is None
    for text in texts(use.pattern):
        assert milliseconds(partial(bound.caller, text_of(text, 100_000, use.pattern)), 2) <= MAX_MS


def test_all_patterns_are_found() -> None:
    """Those that are built at run time stand in a table, each with examples."""
    assert len(FOUND) > 150
    assert {use.place for use in FOUND if use.pattern is None} == BUILT.keys()
    assert EXCEPTIONS.keys() <= {use.place for use in FOUND}


@pytest.mark.parametrize("place", [place for place, (examples, _) in BUILT.items() if examples])
def test_a_pattern_that_is_built_stays_quick(place: str) -> None:
    examples, function = BUILT[place]
    for use in examples:
        assert slowest(use) is None
        pattern = use.pattern
        for text in texts(pattern) if function and pattern else []:
            assert fault_of(lambda size, t=text, p=pattern: partial(function, text_of(t, size, p))) is None


KEY = b"-----BEGIN KEY-----\nabcdef\nabcdef\n-----END KEY-----"
SECRETS = (b"a" * 40, b"abab" * 10, b"\\" * 8, KEY, b"a\n" * 9 + b"a", "ééééééééé".encode(), b'"/"/"/"/"/"/')
PIECES = (b"a", b"\\u0061", b"\\", b"\\u00", b"\n", b"\n    ", b"\\n\\t", b"\\r\\n", b"a\\n", b"a\n" + b" " * 64, b"ab",
          b'\\"\\/', b"\xc3", KEY[:20])  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_redaction_stays_quick(secret: bytes) -> None:
    """A run writes its output so that it is always almost a secret of it."""

    def redact(data: bytes) -> None:
        redactor = Redactor([secret])
        for at in range(0, len(data), 1_000):
            redactor.feed(data[at : at + 1_000])
        redactor.finish()

    for data in (*PIECES, secret[:-1], *(secret[:-1] + piece for piece in PIECES)):
        calls = [partial(redact, (data * size)[:size]) for size in (8_000, 4_000)]
        whole, half = by_turns(*calls, tries=2)
        if whole > 200 or (whole >= MAX_MS and whole > MAX_GROWTH * half):  # a machine that is busy is no fault
            whole, half = by_turns(*calls, tries=9)
        assert whole <= 200, (data, whole)
        assert whole < MAX_MS or whole <= MAX_GROWTH * half, (data, half, whole)


# -- the test itself

OLD = {
    "prompts": (r"\{\{\s*([^{}]*?)\s*\}\}", "findall"),
    "calls": (r"\s*(?:after\s+)?(?P<name>\S.*?)\s+(?P<end>succeeds|fails|ends)\s*", "fullmatch"),
    "chat": (r"(?P<when>[^\"“]+?)\s+(?P<message>[\"“].*[\"”])", "fullmatch"),
    "JSON": (r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|\t', "sub"),
    "last comma": (r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', "sub"),
    "titles": (r"(?m)^\s*#\s+(.+?)\s*$", "search"),
    "compact": (r"([0-9]+)([dhms])", "findall"),
    "offset": (r"T\d\S*(Z|[+-]\d\d:?\d\d)$", "search"),
    "zone of a rule": (r"DTSTART;TZID=|DTSTART:\S*Z\b", "search"),
    "waits": (r"(\d+(?:\.\d+)?)\s*([a-z]+)", "findall"),
    "money": (r"([−-]?)\s*([^0-9\s.,+−-]+)?\s*([−-]?)([0-9]*\.?[0-9]+)\s*([^0-9\s.,+−-]+)?", "fullmatch"),
    "steps": (r"\s*([^:(@]+?)\s*(\(\s*after\s+([^)]*)\))?\s*(@(\S+?))?\s*(:\s*(.*))?", "fullmatch"),
    "exponential": (r"(a+)+b", "fullmatch"),
    "two classes": (r"x*\w*y", "search"),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_a_slow_pattern_is_noticed(name: str) -> None:
    pattern, method = OLD[name]
    # A quick machine takes less than FLOOR_MS for some of them at the usual length.
    assert slowest(Use(name, re.compile(pattern), (method,)), 2 * LENGTH) is not None


def test_a_quick_pattern_is_not() -> None:
    assert slowest(Use("quick", re.compile(r"\{\{([^{}]*)\}\}"), ("findall", "sub"))) is None


def test_patterns_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import re\nONE = re.compile('a+')\nclass B:\n    TWO = re.compile('b', re.I)\n"
        "def f(t, p):\n    ONE.sub('', t)\n    re.split('c', t)\n    {1: re.compile('d')}\n    re.match(p + t, t)\n"
        "def g(t):\n    return B.TWO.search(t)\n"
    )
    found = [(use.place, use.pattern and use.pattern.pattern, use.methods) for use in uses(tmp_path)]
    assert found == [
        ("a.py:ONE", "a+", ("sub",)),
        ("a.py:TWO", "b", ("search",)),
        ("a.py:f", "c", ("split",)),
        ("a.py:f", "d", ("match", "search", "fullmatch")),
        ("a.py:f", None, ("match",)),
    ]
    (tmp_path / "b.py").write_text("from re import compile as c\nX = c('(a+)+')\n")
    with pytest.raises(AssertionError, match="import re"):
        uses(tmp_path)
