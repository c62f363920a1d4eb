"""The schedules that are tortured: every policy, on every second."""

from __future__ import annotations

from typing import Any

EVERY = "* * * * * *"
EVERY_OTHER = "*/2 * * * * *"
LIMITED = "agent:narrow"
LIMIT = 2
PAUSED = ("paused-0", "paused-1")
EDITED = ("edited-0", "edited-1")
MANUAL = "by-hand"
KEYED, UNKEYED = LETTERBOXES = ("keyed", "unkeyed")
"""Destinations: one that tells copies by their keys, and one that cannot."""
NOTES = "notes"
"""A third one: a folder, written by the real kind."""
TOLD = "told"
"""The schedule whose answers are delivered."""
STEPS, BROKEN, STEPS_HOLD = "steps", "steps-fail", "steps-hold"
"""Two steps side by side and one that waits for both; a step that fails once, one that always fails, one behind it;
steps of a schedule that holds what is unknown, of which one has another word."""


def _step(title: str, *after: str, **words: Any) -> dict[str, Any]:
    return {"title": title, "job": "work", "after": list(after), **words}


_JOINED = [
    _step("Left", payload={"ms": 60}),
    _step("Right", payload={"ms": 60}),
    _step("Join", "Left", "Right"),
]
_FAILING = [
    _step("Build"),
    _step("Try", "Build", retries=1, payload={"fails": 1}),
    _step("Fail", "Build", payload={"fails": 9, "ms": 260}),
    _step("After", "Try", "Fail"),
]


_HOLDING = [
    _step("Left", payload={"ms": 600}),
    _step("Again", on_unknown="retry", payload={"ms": 150}),
    _step("Join", "Left", payload={"ms": 60}),
]
ONCE = frozenset([("hold", ""), (STEPS_HOLD, "Left"), (STEPS_HOLD, "Join")])
"""Schedules and steps that begin once, or wait for a person; all others may begin again when their engine is killed."""
RETRIED = frozenset([("fails", ""), (BROKEN, "Try")])
"""Those that begin again because they fail."""


def _cast() -> list[dict[str, Any]]:
    return [
        {"name": "allow", "when": EVERY, "overlap": "allow", "catch_up": "run_all_capped", "catch_up_limit": 5},
        {"name": "one-for-all", "when": EVERY, "catch_up": "run_once", "payload": {"ms": 100}},
        {"name": "skip", "when": EVERY, "payload": {"ms": 600}},
        {
            "name": "queue",
            "when": EVERY,
            "overlap": "queue",
            "queue_limit": 5,
            "catch_up": "run_all_capped",
            "catch_up_limit": 3,
            "payload": {"ms": 250},
        },
        {"name": "cancel", "when": EVERY, "overlap": "cancel_other", "queue_limit": 5, "payload": {"ms": 1300}},
        {"name": "interval", "when": "1s"},
        {"name": "interval-long", "when": "1s", "payload": {"ms": 400}},
        {"name": "grid", "when": "1s", "anchor": "grid", "catch_up": "run_once"},
        {"name": "hold", "when": EVERY, "overlap": "allow", "on_unknown": "hold", "payload": {"ms": 150}},
        {"name": "fails", "when": EVERY, "retries": 1, "retry_delay": "1s", "payload": {"fails": 1}},
        {"name": "fails-for-good", "when": EVERY, "payload": {"fails": 9}},
        {"name": "too-long", "when": EVERY, "timeout": "1s", "payload": {"ms": 1200}},
        {"name": "awaited", "when": EVERY, "job": "await", "payload": {"ms": 300}},
        *({"name": f"narrow-{n}", "when": EVERY, "agent": "narrow", "payload": {"ms": 150}} for n in range(3)),
        *({"name": name, "when": EVERY, "overlap": "queue", "queue_limit": 5} for name in PAUSED),
        *({"name": name, "when": EVERY, "payload": {"ms": 50}} for name in EDITED),
        {"name": TOLD, "when": EVERY, "overlap": "allow", "payload": {"says": True}, "deliver": [*LETTERBOXES, NOTES]},
        {"name": MANUAL, "when": "0 0 1 1 *", "overlap": "allow"},
        {"name": STEPS, "when": EVERY, "overlap": "allow", "steps": _JOINED},
        {
            "name": BROKEN,
            "when": EVERY,
            "overlap": "queue",
            "queue_limit": 2,
            "retries": 1,
            "retry_delay": "1s",
            "failure_backoff": "none",
            "steps": _FAILING,
        },
        {"name": STEPS_HOLD, "when": EVERY_OTHER, "overlap": "allow", "on_unknown": "hold", "steps": _HOLDING},
    ]


_AGENT = {"when": EVERY_OTHER, "agent": "hand", "prompt": "Do it.", "overlap": "allow", "catch_up": "run_once"}
HOLDS, RETRIES = "agent-holds", "agent-retries"
AGENTS = [{"name": HOLDS, "on_unknown": "hold", **_AGENT}, {"name": RETRIES, "on_unknown": "retry", **_AGENT}]
"""What a power cut leaves unknown waits for a person, or is done again."""
CAST = [words if "steps" in words else {"job": "work", **words} for words in _cast()]
FEW = [words for words in CAST if words["name"] in ("allow", "one-for-all", "queue", "interval", "grid", STEPS)]
