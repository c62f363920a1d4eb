"""How an agent declares its outcome, what is kept of long texts, and how limits are read from words."""

from __future__ import annotations

import json
import time

import pytest

from matins.executors.runners.outcomes import (
    MAX_DENIALS,
    Declaration,
    StreamNotes,
    declaration,
    find_limit,
    instant,
    retry_after,
)
from matins.executors.runners.protocol import Cumulative, RunnerResult, SessionUsage
from matins.executors.runners.tool_events import (
    MAX_LINE_BYTES,
    MAX_NOTE_LENGTH,
    MAX_TEXT_LENGTH,
    Text,
    action,
    read_event,
    read_json,
    shorten,
)

FAILED = '{"matins": {"outcome": "failed", "reason": "why"}}'
NOTHING = '{"matins": {"outcome": "nothing"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAILED, ("", "failed", "why")),
        (f"I tried.\n{FAILED}", ("I tried.", "failed", "why")),
        (f"I tried.\n\n  {FAILED}  \n\n", ("I tried.", "failed", "why")),
        (f"Quiet.\r\n{NOTHING}\r\n", ("Quiet.", "nothing", None)),
        (f"I tried.\n```json\n{FAILED}\n```", ("I tried.", "failed", "why")),
        (f"I tried.\n```\n{FAILED}\n```\n", ("I tried.", "failed", "why")),
        ('{"matins": {"outcome": "failed", "reason": 3}, "more": 1}', ("", "failed", None)),
        ('{"matins": {"outcome": "failed", "reason": "a\\n b"}}', ("", "failed", "a b")),
    ],
)
def test_b4_the_last_line_declares(text: str, expected: tuple[str, str, str | None]) -> None:
    assert declaration(text) == expected


@pytest.mark.parametrize(
    "text",
    ["NOTHING_TO_REPORT", "nothing_to_report.", "**NOTHING_TO_REPORT**", "[NOTHING_TO_REPORT]", '"Nothing_To_Report"',
     "`NOTHING_TO_REPORT`\n", "```\nNOTHING_TO_REPORT\n```", " “NOTHING_TO_REPORT”. "],
)  # fmt: skip
def test_one_word_as_the_whole_answer_is_silence(text: str) -> None:
    """B21: as agents write it."""
    assert declaration(text) == (text, "nothing", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all well",
        "NOTHING_TO_REPORT today, but look at #12",
        "The report ends with NOTHING_TO_REPORT",
        "# Report\n\nNOTHING_TO_REPORT",
        "NOTHING_TO_REPORT\nNOTHING_TO_REPORT",
        "NOTHING TO REPORT",
        "NOTHING_TO_REPORT" + "." * 100,
        f"{FAILED}\nand then it worked",
        f"so: {FAILED}",
        f"{FAILED}.",
        '{"matins": {"outcome": "succeeded"}}',
        '{"matins": {"outcome": "FAILED"}}',
        '{"matins": {"outcome": ["failed"]}}',
        '{"matins": "failed"}',
        '{"outcome": "failed"}',
        '[{"matins": {"outcome": "failed"}}]',
        '{"matins":\n {"outcome": "failed"}}',
        "```\n```",
        '{"matins": {"outcome": "failed", "reason": "' + "x" * 20_000 + '"}}',
    ],
)
def test_any_other_text_declares_nothing_and_stays(text: str) -> None:
    assert declaration(text) == Declaration(text)


def test_a_long_reason_is_cut() -> None:
    declared = declaration('{"matins": {"outcome": "failed", "reason": "' + "x" * 2_000 + '"}}')
    assert declared.reason is not None
    assert len(declared.reason) == MAX_NOTE_LENGTH
    assert declared.reason.endswith("…")


# -- what is kept


def test_b9_of_a_long_text_the_end_is_kept() -> None:
    text = Text()
    for number in range(4_000):
        text.add(f"{number:04}" + "x" * 996)
    kept = text.final_text()
    assert len(kept) == MAX_TEXT_LENGTH
    assert kept.startswith("…")
    assert kept.endswith("3999" + "x" * 996)
    text.begin()
    assert text.final_text() == kept
    text.add("new")
    assert text.final_text() == "new"


def test_b9_denials_and_notes_are_bounded() -> None:
    notes = StreamNotes()
    for number in range(1_000):
        notes.deny(str(number))
    assert len(notes.denials) == MAX_DENIALS
    assert len(shorten("word " * 1_000)) == MAX_NOTE_LENGTH
    assert action("Bash", {"command": "x" * 10_000}).startswith('Bash {"command": "xxx')
    assert action(None, None) == "a tool"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"3",
        b'"x"',
        b"{",
        b'{"a":',
        b"\xff\xfe",
        b"debug {}",
        b"{" * 100_000,
        b"9" * 10_000,
        b'{"a":"' + b"x" * MAX_LINE_BYTES + b'"}',
    ],
)
def test_what_is_not_an_object_is_no_event(line: bytes) -> None:
    assert read_event(line) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"a":"b"}\r\n', "b"),
        (b'\x1b[?1004l\x1b[0m {"a":"b"} \x1b[K', "b"),
        (b'\xef\xbb\xbf{"a":"b"}', "b"),
        (b'\x00{"a":"b"}', "b"),
        (b'{"a":"\xe2\x82"}', "\ufffd"),
        (b'{"a":"\\ud83d!"}', "\ufffd!"),
        (b'{"a":"\\u0000!"}', "\ufffd!"),
        (b'{"a":"tab\there"}', "tab\there"),
        (b'{"a":"b","n":NaN,"i":Infinity,"big":1e999}', "b"),
    ],
)
def test_an_event_is_found_in_what_a_terminal_adds(line: bytes, text: str) -> None:
    event = read_event(line)
    assert event is not None
    assert event.text("a") == text
    assert (event.number("n"), event.number("i"), event.number("big"), event.count("n")) == (None, None, None, 0)


def test_counts_are_whole_and_within_reason() -> None:
    event = read_event(b'{"a":3,"b":-3,"c":true,"d":"3","e":1e15,"f":1e16,"g":2.7,"h":[1]}')
    assert event is not None
    assert [event.count(key) for key in "abcdefgh"] == [3, 0, 0, 0, 10**15, 0, 2, 0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, "\\ud83d", "\\u0000", 1e400]}', {"a": [1, "\ufffd", "\ufffd", None]}),
        ('{"a": "\\\\u0000"}', {"a": "\\u0000"}),
        ('{"a": 123456789012345678901234567890}', {"a": "123456789012345678901234567890"}),
        ("  [1]\n", [1]),
        ("[" * 100_000, None),
        ("1", None),
        ('"x"', None),
        ("{} {}", None),
        ("[" + "1," * MAX_TEXT_LENGTH + "1]", None),
    ],
)
def test_a_structured_result_can_be_stored(text: str, value: object) -> None:
    read = read_json(text)
    assert read == value
    json.dumps(read).encode()


def test_a_counter_that_went_back_has_begun_anew() -> None:
    tokens: frozenset[Cumulative] = frozenset({"tokens"})
    result = RunnerResult(executed=True, succeeded=True, tokens_in=10, tokens_out=5, tokens_cached=3, cumulative=tokens)
    assert result.of_run(SessionUsage((4, 2, 1))) == RunnerResult(
        executed=True, succeeded=True, tokens_in=6, tokens_out=3, tokens_cached=2
    )
    assert result.of_run(SessionUsage((4, 6, 1))).tokens_in == 10
    assert RunnerResult(executed=True, succeeded=True, tokens_in=10).of_run(SessionUsage((4, 0, 0))).tokens_in == 10


def test_money_of_a_whole_session_is_told_by_difference() -> None:
    """B4: five equal wakes cost the same, though the tool tells what all of them cost"""
    told = [RunnerResult(True, True, cost_usd=0.00318 * n, cumulative=frozenset({"cost"})) for n in range(1, 6)]
    costs = [result.of_run(SessionUsage(cost_usd=0.00318 * n)).cost_usd for n, result in enumerate(told)]
    assert costs == [pytest.approx(0.00318)] * 5
    assert (
        RunnerResult(True, True, tokens_in=7, cost_usd=0.5, cumulative=frozenset({"cost"}))
        .of_run(SessionUsage((5, 0, 0), 0.2))
        .tokens_in
        == 7
    )
    assert told[0].of_run(SessionUsage(cost_usd=9.0)).cost_usd == 0.00318


# -- limits in words


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("You've hit your limit · resets 4pm (America/Recife)", 19 * 3_600_000),
        ("You've hit your limit · resets 4pm (Nowhere/Atall)", 16 * 3_600_000),
        ("You’ve hit your usage limit or try again at 12:16 PM.", 12 * 3_600_000 + 16 * 60_000),
        ("You've hit your usage limit. Try again at Jan 2nd, 1970 12:05 AM.", 24 * 3_600_000 + 5 * 60_000),
        ("You've hit your usage limit. Try again at Feb 31st, 1970 12:05 AM.", None),
        ("You've hit your usage limit. Try again at 13:16 PM.", None),
        ("[API Error: You have exhausted your daily quota on this model.]", None),
        ('RateLimitExceeded { details: "Rate limit reached", retry_delay: Some(3600s) }', 3_600_000),
        ("API Error: 429 Too Many Requests", None),
        ("Error code: 429", None),
        ("exceeded retry limit, last status: 429", None),
        ('{"type":"usage_limit_reached","resets_at":1900000000}', 1_900_000_000_000),
        ('{"type":"usage_limit_reached","resets_in_seconds":90}', 90_000),
        ("Claude AI usage limit reached|1900000000", 1_900_000_000_000),
        ("You exceeded your current quota. Please retry in 34.5s.", 34_500),
        ("Quota exceeded. Your quota will reset after 18h31m4s.", 66_664_000),
        ("RESOURCE_EXHAUSTED: try again in 1 hour and 5 minutes", 3_900_000),
        ("rate_limit_error: retry after 250ms", 250),
        ("Rate limit reached, retry-after: 12", 12_000),
    ],
)
def test_b6_limits_are_read_from_words(words: str, until: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: a clock time without a zone is that of this machine"""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    limit = find_limit("p", words)
    assert limit is not None
    assert (limit.provider, limit.until(0), limit.reason) == ("p", until, words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "it broke",
        "line 429 of the file",
        "took 429 s",
        "it took as many turns as it may",
        "reached the maximum limit",
        "the iterate limit",
        "context length exceeded",
    ],
)
def test_b6_other_failures_are_the_agents_own(words: str) -> None:
    assert find_limit("p", words) is None


@pytest.mark.parametrize(
    "words",
    [
        "API Error: 529 overloaded_error",
        "Server error: 500",
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "unexpected status 529 <unknown status code>: The server had an error while processing your request.",
        "Server error (500 Internal Server Error) at http://127.0.0.1:1/v1/chat/completions",
        "HTTP 503: service unavailable",
        "The model is overloaded. Please try again later.",
    ],
)
def test_b6_outages_are_read_from_words(words: str) -> None:
    """B6: they defer a run a few times, and then count as a failure"""
    limit = find_limit("p", words)
    assert limit is not None
    assert limit.outage


def test_waits_beyond_reason_are_none() -> None:
    for wait in ("9999 days", "3 parsecs", "0 seconds"):
        limit = find_limit("p", f"rate limit: try again in {wait}")
        assert limit is not None
        assert limit.wait_ms is None


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [(1_900_000_000, 1_900_000_000_000), (1_900_000_000_500, 1_900_000_000_500), (12, None), (None, None)],
)
def test_instants_come_in_seconds_or_milliseconds(stamp: float | None, ms: int | None) -> None:
    assert instant(stamp) == ms


@pytest.mark.parametrize(
    ("header", "until"),
    [
        ("30", 31_000),
        (" 30 ", 31_000),
        ("Sun, 15 Nov 2026 09:00:00 GMT", 1_794_733_200_000),
        ("0", None),
        ("-5", None),
        ("soon", None),
        ("٣", None),
        ("9" * 30, None),
        ("", None),
        (None, None),
    ],
)
def test_b6_retry_after_is_seconds_or_a_date(header: str | None, until: int | None) -> None:
    assert retry_after("p", header, "r").until(1_000) == until
