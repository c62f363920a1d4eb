"""The catalogue of events: complete, and told in the shape of CloudEvents."""

from __future__ import annotations

import ast
import re
from datetime import datetime
from functools import cache
from pathlib import Path

import pytest

import matins.api.schedules as _all_use_cases  # noqa: F401 - declares them
from matins.api.use_case import USE_CASES
from matins.delivery.decisions import MAX_ATTEMPTS, matches, next_delivery_at
from matins.engine import transitions
from matins.engine.events import ALIASES, EVENTS, TERMINAL_EVENTS, canonical, canonical_types, to_cloudevent
from matins.engine.prompts import CALL_FIELDS
from matins.engine.transitions import ALL, INITIAL_STATES, Transition
from matins.errors import InvalidInput
from matins.model.event import StoredEvent
from matins.model.run import RunState

pytestmark = pytest.mark.usefixtures("undisturbed")
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "matins"
CORE = ("engine", "runtime", "executors", "delivery", "records", "service", "store", "jobs", "seeds")
TYPE = re.compile(
    r"(schedule|run|step|reputation|message|approval|budget|throttle|policy|limit|subscription|delivery|hook|file|token|session|store|call|history|incident|engine|zone|answer|link|backfill|bulk|node|person|grant|sign_in)"
    r"\.[a-z_]+"
)


NEVER_OF_STEPS = {f"step.{kind}" for kind in ("queued", "promoted", "checking", "blocked", "shortened", "late", "slow")}
"""Whole runs queue up, are late, cover slots, and pass the guard, the pre-check and the hooks."""


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    paths = sorted(path for layer in CORE for path in (SOURCE / layer).rglob("*.py"))
    catalogue = SOURCE / "engine" / "events.py"
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths if path != catalogue]


def literals() -> set[str]:
    """Everything in the code that reads like the type of an event."""
    texts = (node.value for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Constant))
    found = {text for text in texts if isinstance(text, str) and TYPE.fullmatch(text)}
    return found - (USE_CASES.keys() - EVENTS.keys()) - set(CALL_FIELDS)


def used_transitions() -> set[str]:
    """The events of those transitions that some code imports."""
    imported = {
        alias.name
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "matins.engine.transitions"
        for alias in node.names
    }
    return {t.event for name, t in vars(transitions).items() if isinstance(t, Transition) and name in imported}


def emitted() -> set[str]:
    found = literals() | used_transitions() | set(INITIAL_STATES.values())
    of_steps = {kind.replace("run.", "step.", 1) for kind in found if kind.startswith("run.")}
    return found | (of_steps - NEVER_OF_STEPS)


def test_every_event_that_the_code_emits_is_in_the_catalogue() -> None:
    """P9"""
    assert emitted() - EVENTS.keys() == set()


def test_every_event_in_the_catalogue_is_emitted() -> None:
    """P9"""
    assert EVENTS.keys() - emitted() == set()


def test_no_event_has_a_type_that_the_catalogue_could_not_know() -> None:
    """P9: each is a literal, a name for one, a transition's, or that of a run's birth"""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "NewEvent":
                kind = ast.unparse(node.args[1])
                known = re.fullmatch(
                    r"'[a-z_.]+'|[\w.]+\.event|INITIAL_STATES\[\w+\.state\]|kind|event|PRUNED|ERASED|RUNS_PRUNED|SHORTENED|WITHDRAWN|DIGEST|event_type\(.*\)|step_event\(.*\)|kind\.replace\(.*\)",
                    kind,
                )
                assert known, (path.name, node.lineno, kind)


def test_each_says_what_happened_in_a_sentence() -> None:
    """P9"""
    for kind in EVENTS.values():
        assert re.fullmatch(r"[A-Z][^\n]+\.", kind.help), kind.type


@pytest.mark.parametrize("transition", ALL, ids=lambda t: f"{t.name}-{t.low.label}")
def test_a_run_is_over_with_exactly_the_events_that_say_so(transition: Transition) -> None:
    """B1"""
    assert (transition.event in TERMINAL_EVENTS) == transition.is_terminal


@pytest.mark.parametrize("state", INITIAL_STATES, ids=lambda state: state.label)
def test_a_run_may_be_over_when_it_is_made(state: RunState) -> None:
    """B1"""
    assert (INITIAL_STATES[state] in TERMINAL_EVENTS) == (not state.live)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("schedule:created", "schedule.created"),
        ("schedule:triggered", "run.started"),
        ("schedule:completed", "run.succeeded"),
        ("schedule:expired", "schedule.expired"),
        ("schedule_approval_request", "approval.requested"),
        ("schedule.skipped", "run.skipped"),
        ("schedule.missed", "schedule.missed"),
        ("MessageEvent", "message.emitted"),
        ("matins.run.started", "run.started"),
        ("run.started", "run.started"),
    ],
)
def test_other_names_mean_ours(theirs: str, ours: str) -> None:
    """P9 V6 S3 S4: the spellings of the seeds"""
    assert ours in canonical(theirs)


def test_aliases_lead_somewhere_and_hide_nothing() -> None:
    """P9"""
    assert {kind for types in ALIASES.values() for kind in types} <= EVENTS.keys()
    assert not ALIASES.keys() & EVENTS.keys()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("run.suceeded", 'Did you mean "run.succeeded"?'),
        ("schedule:complete", 'Did you mean "schedule:completed"?'),
        ("zzz", "The names are in docs/events.md."),
        ("", "The names are in docs/events.md."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    """P9"""
    with pytest.raises(InvalidInput, match="There is no event") as caught:
        canonical_types([name])
    assert (caught.value.field, caught.value.value, caught.value.hint) == ("types", name, hint)


def test_types_are_told_once_each() -> None:
    """P9"""
    assert canonical_types(None) == ()
    assert canonical_types("schedule:triggered") == ("run.started",)
    assert canonical_types({"run.started", "schedule:triggered", "run.failed"}) == ("run.failed", "run.started")
    with pytest.raises(InvalidInput, match="must name at least one event"):
        canonical_types([])


# -- CloudEvents

EVENT = StoredEvent(42, 1, 7, 1_774_602_000_123, "run.skipped", 3, 12, '{"reason":"quiet_hours"}', b"")


def test_an_event_of_a_run_as_cloudevent() -> None:
    """P9"""
    assert to_cloudevent(EVENT, "ab12", "nightly") == {
        "specversion": "1.0",
        "id": "ab12-42",
        "source": "matins/ab12",
        "type": "matins.run.skipped",
        "subject": "runs/12",
        "time": "2026-03-27T09:00:00.123Z",
        "datacontenttype": "application/json",
        "data": {"reason": "quiet_hours"},
        "scheduleid": "3",
        "runid": "12",
        "schedulename": "nightly",
    }


def test_an_event_of_a_schedule_or_of_nothing_in_particular() -> None:
    """P9"""
    of_schedule = to_cloudevent(EVENT._replace(run_id=None, data=None), "ab12", None)
    assert (of_schedule["subject"], of_schedule["data"]) == ("schedules/3", {})
    assert not of_schedule.keys() & {"runid", "schedulename"}
    of_nothing = to_cloudevent(EVENT._replace(run_id=None, schedule_id=None), "ab12", None)
    assert not of_nothing.keys() & {"subject", "scheduleid", "runid"}


def test_the_rules_of_cloudevents_are_kept() -> None:
    """P9: required attributes are there, names are lower-case letters and digits, times have a zone"""
    told = to_cloudevent(EVENT, "ab12", "nightly")
    assert all(isinstance(told[name], str) and told[name] for name in ("specversion", "id", "source", "type"))
    assert all(re.fullmatch(r"[a-z0-9]{1,20}", name) for name in told)
    assert datetime.fromisoformat(told["time"]).utcoffset() is not None


# -- deliveries


def test_waits_double_up_to_an_hour_and_then_it_is_given_up() -> None:
    """V2: 5 s, 10 s, … with up to a tenth more; nothing after the twentieth attempt"""
    waits = [next_delivery_at("hook", 7, n, 0) for n in range(1, MAX_ATTEMPTS)]
    for n, wait in enumerate(waits):
        least = min(5_000 * 2**n, 3_600_000)
        assert wait is not None
        assert least <= wait < least * 1.1
    assert next_delivery_at("hook", 7, MAX_ATTEMPTS, 0) is None


def test_subscribers_do_not_march_in_step_and_the_same_wait_comes_out_again() -> None:
    """V2"""
    waits = {next_delivery_at(f"hook{n}", 7, 3, 0) for n in range(20)}
    assert len(waits) > 15
    assert next_delivery_at("hook", 7, 3, 0) == next_delivery_at("hook", 7, 3, 0)


def test_a_subscriber_gets_what_it_wants_but_not_that_it_could_not_be_reached() -> None:
    """V2: or each failure would make the next"""
    given_up = EVENT._replace(type="delivery.discarded", data='{"subscription":"a"}')
    assert matches("a", (), EVENT)
    assert matches("a", ("run.skipped",), EVENT)
    assert not matches("a", ("run.failed",), EVENT)
    assert matches("b", (), given_up)
    assert not matches("a", (), given_up)
