"""Where runs land, from words; and what `current-*` means where it is said."""

from __future__ import annotations

from typing import Any

import pytest

from matins.engine.targets import (
    BY_SESSION_ID,
    CURRENT,
    Resolved,
    Skip,
    TargetState,
    Wait,
    context_of,
    parse_context,
    parse_target,
    resolve_current,
    resolve_target,
)
from matins.errors import InvalidInput
from matins.model.agent import FRESH, Target
from matins.model.run import Thread

THREAD = Thread(7, "ann", "C1", "s-1", "mornings", "waiting", (0, 0, 0), 1, 1)
SESSION = Target("session", session="s-1")


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("fresh", FRESH),
        ({"kind": "fresh"}, FRESH),
        ({"kind": "channel", "channel": "C07ABCDEF"}, Target("channel", "C07ABCDEF")),
        (
            {"kind": "session", "sessionName": "cortex-a1b2c3", "sessionId": "sess_xyz", "channel": "C07ABCDEF"},
            Target("session", "C07ABCDEF", "sess_xyz", "cortex-a1b2c3"),
        ),
        ({"kind": "session", "session_name": "mornings"}, Target("session", session_name="mornings")),
        (
            {"kind": "thread", "threadId": "thr_a1b2c3d4", "channel": "C07ABCDEF"},
            Target("thread", "C07ABCDEF", thread="thr_a1b2c3d4"),
        ),
        ({"kind": "thread", "thread": 7}, Target("thread", thread=7)),
        ({"kind": "thread", "thread": "thr_7"}, Target("thread", thread=7)),
        (SESSION, SESSION),
    ],
)
def test_c4_explicit_targets_in_both_spellings(value: Any, target: Target) -> None:
    """C4"""
    assert parse_target(value) == target


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nowhere", "'nowhere' is not a kind of target"),
        (7, "must be a word or a mapping"),
        ({}, "None is not a kind of target"),
        ({"kind": "channel"}, 'needs "channel"'),
        ({"kind": "session", "channel": "C1"}, 'needs "session"'),
        ({"kind": "thread", "thread": None}, 'needs "thread"'),
        ({"kind": "fresh", "chanel": "C1"}, 'has no "chanel"'),
        ({"kind": ["fresh"]}, "is not a kind of target"),
        *(({"kind": "thread", "thread": bad}, "the number of a thread")
          for bad in (True, 0, -1, 10**18, 10**5000, "x7", "thr_", "thr_ a", 1.5, "", [7])),
    ],
)  # fmt: skip
def test_c4_targets_that_cannot_be(value: Any, message: str) -> None:
    """C4"""
    with pytest.raises(InvalidInput, match=message) as caught:
        parse_target(value)
    assert caught.value.field in ("target", "thread")


HERE = context_of(THREAD)
BEGUN = context_of(THREAD._replace(session=None, session_name=None))


@pytest.mark.parametrize(
    ("shorthand", "here", "target"),
    [
        ("current-channel", HERE, Target("channel", "C1")),
        ("current-session", HERE, Target("session", "C1", "s-1", "mornings")),
        ("current-thread", HERE, Target("thread", "C1", thread=7)),
        ("current-session", BEGUN, Target("thread", "C1", thread=7)),
        ("current-session", parse_context({"sessionName": "cortex-a"}), Target("session", None, None, "cortex-a")),
        ("current-thread", parse_context({"threadId": "thr_7"}), Target("thread", thread=7)),
    ],
)  # fmt: skip
def test_c4_shorthands_become_concrete_ids(shorthand: str, here: Target, target: Target) -> None:
    """C4: a conversation that has just begun has no session yet, but a thread"""
    assert resolve_current(shorthand, here) == target


@pytest.mark.parametrize("shorthand", CURRENT)
def test_c4_a_shorthand_said_from_nowhere(shorthand: str) -> None:
    """C4"""
    for say in (lambda: resolve_current(shorthand, FRESH), lambda: parse_target(shorthand)):
        with pytest.raises(InvalidInput, match="of the caller, and there is none") as caught:
            say()
        assert caught.value.field == "target"
        assert "context=" in (caught.value.hint or "")


def test_c4_a_thread_in_no_channel_has_no_current_channel() -> None:
    """C4"""
    with pytest.raises(InvalidInput, match='"current-channel" means the channel'):
        resolve_current("current-channel", context_of(THREAD._replace(channel=None)))


@pytest.mark.parametrize(
    ("value", "field"), [(3, "context"), ({"chanel": "C"}, "chanel"), ({"channel": ""}, "channel"), ("C1", "context")]
)
def test_contexts_that_cannot_be(value: Any, field: str) -> None:
    """C4"""
    with pytest.raises(InvalidInput) as caught:
        parse_context(value)
    assert caught.value.field == field


def placed(target: Target, found: TargetState, fallback: Any = "fresh", waited: int = 0, final: Any = "fresh") -> Any:
    return resolve_target(target, found, fallback, final, waited, 1_000)


def test_c5_what_is_there_is_landed_in_and_what_is_busy_is_waited_for() -> None:
    """C5"""
    for target in (SESSION, Target("thread", thread=7), Target("channel", "C1")):
        assert placed(target, TargetState(THREAD)) == Resolved(THREAD, target.kind)
        assert placed(target, TargetState(THREAD, busy_with=9)) == Wait("target_busy", 9)
    assert placed(FRESH, TargetState(None)) == Resolved(None, "fresh")
    assert placed(Target("channel", "C1"), TargetState(None)) == Resolved(None, "channel")
    assert placed(Target("channel", "C1"), TargetState(THREAD._replace(state="closed"))) == Resolved(None, "channel")


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (SESSION, TargetState(None, session_gone=True)),
        (SESSION, TargetState(THREAD._replace(state="closed"))),
        (Target("session", session_name="mornings"), TargetState(None)),
        (Target("thread", thread=7), TargetState(None)),
        (Target("thread", thread=7), TargetState(None, session_gone=True)),
        (Target("thread", thread="thr_a"), TargetState(None)),
    ],
)
def test_c5_what_is_gone_goes_by_the_fallback(target: Target, found: TargetState) -> None:
    """C5"""
    fresh = Resolved(None, f"{target.kind}: gone, fallback fresh")
    assert placed(target, found) == fresh
    assert placed(target, found, "skip") == Skip()
    assert placed(target, found, "wait", waited=999) == Wait("waiting_for_target", None)
    assert placed(target, found, "wait", waited=1_000) == fresh
    assert placed(target, found, "wait", waited=1_000, final="skip") == Skip()


def test_c4_a_session_that_was_never_spoken_in_here_is_asked_for() -> None:
    """C4: its tool knows whether there is one"""
    assert placed(SESSION, TargetState(None), "skip") == Resolved(None, BY_SESSION_ID)
