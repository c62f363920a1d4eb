"""Incidents as pure decisions: what is the same trouble, and when people hear of it."""

from __future__ import annotations

import pytest

from matins.delivery.decisions import EVENT_TYPES, HOUR_MS, decide, look_again, next_reminder, signature_of, trouble_of
from matins.delivery.texts import clean_text, last_lines, span_text
from matins.model.event import StoredEvent

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("timeout after 12.5 s", "timeout after 9 s", True),
        ("no file /tmp/a-1/x.txt", "no file /var/lib/b/y.txt", True),
        ("object 0x7f3a9c at 12:01:02", "object 0x7f0001 at 13:59:59", True),
        ("id 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "id 6ba7b811-9dad-11d1-80b4-00c04fd430c9", True),
        ("commit deadbeef42", "commit 0123456789", True),
        ("no disk left", "no memory left", False),
        ("decade", "facade", False),
    ],
)
def test_equal_troubles_have_one_signature(one, other, same):
    """B17: numbers, times, paths and ids are taken out, and words are not."""
    assert (signature_of("failed", one) == signature_of("failed", other)) is same
    assert signature_of("failed", one) != signature_of("timed_out", one)


def test_reminders_after_1_6_and_24_hours_and_then_daily():
    moments, now = [], 0
    while now < 4 * DAY_MS:
        now = next_reminder("failed", 0, now) or 0
        moments.append(now // HOUR_MS)
    assert moments == [1, 6, 24, 48, 72, 96]
    assert next_reminder("approval", 0, 0) is None


def throttle_event(number: int, at: int, **data: object) -> tuple[StoredEvent, dict[str, object]]:
    told = {"provider": "openai", "resets_at": at + 60_000, "reason": "401 Unauthorized", **data}
    return StoredEvent(number, 1, number, at, "throttle.set", 7, 11, None, ""), told


def test_a_refused_login_is_told_once_and_ends_when_it_is_not_refused_for_an_hour():
    """B17: however often it is tried; the end of a wait is not the end of it"""
    event, data = throttle_event(1, 0, login="codex login")
    (opened,) = decide(event, data, [], lambda _: 0, 0)
    assert (opened.action, opened.tell, opened.incident.kind) == ("opened", True, "login")
    incident = opened.incident._replace(id=1, told=1, told_times=1)
    for tried in range(1, 40):
        at = tried * 900_000
        if incident.next_at is not None and incident.next_at <= at:
            (looked,) = look_again(incident, at)
            assert (looked.action, looked.tell) == ("repeated", False)
            incident = looked.incident
        ended = StoredEvent(100 + tried, 1, tried, at, "throttle.ended", None, None, None, "")
        assert decide(ended, {"provider": "openai"}, [incident], lambda _: 0, at) == []
        again, data = throttle_event(1 + tried, at, login="codex login")
        (step,) = decide(again, data, [incident], lambda _: 0, at)
        assert (step.action, step.tell) == ("repeated", False)
        incident = step.incident
    now = 40 * 900_000 + 2 * HOUR_MS
    for action in ("repeated", "resolved"):
        (step,) = look_again(incident, now)
        assert (step.action, step.tell) == (action, False)
        incident = step.incident
    deleted = StoredEvent(999, 1, 999, now, "throttle.deleted", None, None, None, "")
    (step,) = decide(deleted, {"provider": "openai"}, [opened.incident._replace(id=1)], lambda _: 0, now)
    assert step.action == "resolved"


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_cause_is_the_name_of_an_event(kind):
    """B17: also where an event carries no sentence"""
    data = {
        "host": "box",
        "provider": "x",
        "subscription": "notify:ops",
        "slot": 1,
        "kind": "run",
        "destination": "ops",
        "budget": "day",
        "warn_at": 80,
        "period": "2026-11",
        "spent": "$4.00 of $5.00",
    }
    trouble = trouble_of(StoredEvent(1, 1, 1, 0, kind, 7, 11, None, ""), data)
    if trouble is not None:
        assert kind not in trouble.summary.text
        assert "None" not in trouble.summary.text.replace("request None", "")
        assert trouble.summary.text.endswith(".")


def test_the_last_lines_are_plain_text():
    output = "\n".join(f"line {number}" for number in range(50)) + "\n\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07end\r\n\n"
    lines = last_lines(output).split("\n")
    assert (len(lines), lines[0], lines[-1]) == (10, "line 41", "red\ufffd end")
    assert len(last_lines("x" * 9_000)) == 1_500
    assert clean_text("a\nb\x00c\u202e") == "a b\ufffdc\ufffd"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (5 * HOUR_MS + 720_000, "5 h 12 min"), (DAY_MS, "1 d"),
     (3 * DAY_MS + 2 * HOUR_MS, "3 d 2 h")],
)  # fmt: skip
def test_spans(milliseconds, text):
    assert span_text(milliseconds) == text
