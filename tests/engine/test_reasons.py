"""Every reason has a sentence, and the sentence says what the evidence says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import matins
from matins.engine.reasons import CAUSES, FUTURE, NOW, PAST, RESOLVED, local_time, rfc3339, run_summary, sentence
from matins.engine.steps import WAITING_FOR_STEP
from matins.model.run import RunRecord, RunState
from matins.runtime.run_changes import CARRIED_OVER
from matins.testing import instant

pytestmark = pytest.mark.usefixtures("undisturbed")
SOURCE = Path(matins.__file__).parent
FOLDERS = ("engine", "runtime", "service")
CODE = re.compile("[a-z]+(_[a-z]+)*_?")
NOT_OF_RUNS = {"engine/events.py", "service/events.py", "delivery/outbox.py", "runtime/backfills.py"}


@cache
def sources() -> list[ast.Module]:
    paths = [path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py"))]
    paths = [path for path in paths if str(path.relative_to(SOURCE)) not in NOT_OF_RUNS]
    return [ast.parse(path.read_text(encoding="utf-8")) for path in paths]


def places(trees: list[ast.Module]) -> dict[str, int]:
    """Callables that take a reason, and which of their arguments it is."""
    found: dict[str, int] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "principal")]
        elif isinstance(node, ast.ClassDef):
            names = [item.target.id for item in node.body if _is_field(item)]  # type: ignore[attr-defined]
        else:
            continue
        if "reason" in names:
            found[node.name] = names.index("reason")
    return found


def _is_field(item: ast.stmt) -> bool:
    return isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)


def texts(node: ast.expr | None) -> Iterator[str]:
    """The codes that an expression can come to."""
    match node:
        case ast.Constant(str(text)):
            yield text
        case ast.IfExp():
            yield from texts(node.body)
            yield from texts(node.orelse)
        case ast.Dict() | ast.Tuple():
            for item in node.values if isinstance(node, ast.Dict) else node.elts:
                yield from texts(item)
        case ast.JoinedStr([ast.Constant(str(text)), *_]):
            yield text


def said(node: ast.AST, places: dict[str, int]) -> Iterator[str]:
    match node:
        case ast.Call():
            yield from said_in_call(node, places)
        case ast.Assign([ast.Name("reason" | "_REASONS")]):
            yield from texts(node.value)
        case ast.Assign([ast.Tuple([*_, ast.Name("reason")])], ast.Tuple([*_, last])):
            yield from texts(last)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "reason":
                    yield from texts(value)
        case ast.FunctionDef():
            yield from texts(defaults(node.args).get("reason"))


def defaults(arguments: ast.arguments) -> dict[str, ast.expr | None]:
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    last = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    named = [argument.arg for argument in arguments.kwonlyargs]
    return {**last, **dict(zip(named, arguments.kw_defaults, strict=True))}


def said_in_call(call: ast.Call, places: dict[str, int]) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = places.get(name)
    if place is not None and place < len(call.args):
        yield from texts(call.args[place])
    for keyword in call.keywords:
        if keyword.arg == "reason":
            yield from texts(keyword.value)


def reasons_in_source() -> set[str]:
    trees = sources()
    takes = places(trees)
    found = {code for tree in trees for node in ast.walk(tree) for code in said(node, takes)}
    for path in (SOURCE / "store").rglob("*.sql"):
        if path.name == "backfills.sql":  # why a backfill pauses is no reason of a run
            continue
        found |= set(re.findall(r"reason = '([a-z_]+)'", path.read_text(encoding="utf-8")))
    found |= {WAITING_FOR_STEP, CARRIED_OVER}  # constants
    return {code for code in found if CODE.fullmatch(code)}


def test_the_search_finds_reasons_of_every_kind() -> None:
    """B2: in a verdict, a birth, a change, a table, a pair, SQL, a default, a text that is put together"""
    found = reasons_in_source()
    by_kind = {"queue_full", "missed", "failed_attempt", "pre_check", "worker_lost", "woken", "cancelled", RESOLVED}
    assert by_kind <= found
    assert {"already_running", "end_date", "coalesced", "unreadable", "approval_expired", "checking"} <= found


def test_every_reason_in_the_source_has_a_sentence() -> None:
    """B2"""
    assert reasons_in_source() - set(CAUSES) == set()


def test_every_sentence_is_for_a_reason_in_the_source() -> None:
    """B2"""
    assert set(CAUSES) - reasons_in_source() == {"mission_aborted"}  # the source has it by its name


@pytest.mark.parametrize("code", sorted(CAUSES))
def test_a_sentence_needs_no_evidence(code: str) -> None:
    """B2: in whatever state a record is found"""
    for state in (None, *RunState):
        for tense in (PAST, NOW, FUTURE):
            text = sentence(code, None, "UTC", state=state, tense=tense).joined
            assert text[0].isupper()
            assert text.endswith(".")


def test_an_unknown_reason_is_told_as_it_is() -> None:
    """B2"""
    assert sentence("tuesday", None, "UTC").text == 'The reason is "tuesday".'


AT = instant("2026-03-27T23:30:00Z")
SEVEN = instant("2026-03-28T07:00:00Z")
QUIET = {"policy": "night", "until": SEVEN}
BUDGET = {"budget": "daily", "limit": "$1.00", "used": "$0.80", "wanted": "$0.40", "resets_at": SEVEN - 7 * 3_600_000}
SKIPPED, WAITING, QUEUED = RunState.SKIPPED, RunState.WAITING, RunState.QUEUED


@pytest.mark.parametrize(
    ("reason", "evidence", "state", "says"),
    [
        ("quiet_hours", QUIET, SKIPPED, 'Skipped: quiet hours "night" were active until 07:00 UTC.'),
        ("quiet_hours", QUIET, WAITING, 'Waiting: quiet hours "night" are active until 07:00 UTC.'),
        ("already_running", {"run": "12", "state": "running"}, None, "Run 12 of this schedule was still running."),
        (
            "already_running",
            {"run": "12", "state": "waiting"},
            SKIPPED,
            "Skipped: run 12 of this schedule was still waiting.",
        ),
        ("waiting_for", {"run": "12"}, QUEUED, "Queued: run 12 of this schedule must end first."),
        (
            "cancelling_other",
            {"runs": ["7", "8"]},
            QUEUED,
            "Queued: run 7 and run 8 of this schedule must end first; this run replaces them.",
        ),
        ("queue_full", {"queued": 3}, SKIPPED, "Skipped: 3 runs were queued, the maximum."),
        ("max_executions", {"max_executions": 3}, SKIPPED, "Skipped: the schedule had run 3 times, the maximum."),
        ("end_date", {"ends_at": AT - 1_800_000}, SKIPPED, "Skipped: the end date 2026-03-27 23:00 UTC was past."),
        (
            "coalesced",
            {**QUIET, "for": "quiet_hours", "run": "12"},
            SKIPPED,
            (
                'Skipped: quiet hours "night" were active until 07:00 UTC; '
                "run 12 of this schedule was still waiting and covers this slot."
            ),
        ),
        (
            "coalesced",
            {"provider": "anthropic", "until": SEVEN, "for": "throttled", "run": "0"},
            SKIPPED,
            (
                'Skipped: provider "anthropic" was throttled until 07:00 UTC; '
                "an earlier run of this schedule was still waiting and covers this slot."
            ),
        ),
        (
            "throttled",
            {"provider": "anthropic", "until": SEVEN, "why": "rate limited"},
            WAITING,
            'Waiting: provider "anthropic" is throttled until 07:00 UTC: rate limited.',
        ),
        (
            "over_budget",
            BUDGET,
            RunState.OVER_BUDGET,
            (
                'Over budget: budget "daily" had $0.20 left of $1.00; this run needed $0.40. '
                "It resets on 2026-03-28 00:00 UTC."
            ),
        ),
        (
            "over_budget",
            {**BUDGET, "limit": "10k", "used": "9500", "wanted": "1k"},
            None,
            'Budget "daily" had 500 left of 10k; this run needed 1k. It resets on 2026-03-28 00:00 UTC.',
        ),
        (
            "over_budget",
            {**BUDGET, "used": "$1.30"},
            None,
            'Budget "daily" had $0.00 left of $1.00; this run needed $0.40. It resets on 2026-03-28 00:00 UTC.',
        ),
        (
            "over_budget",
            {**BUDGET, "used": "-$0.50", "wanted": "$2.00"},
            None,
            'Budget "daily" had $1.50 left of $1.00; this run needed $2.00. It resets on 2026-03-28 00:00 UTC.',
        ),
        (
            "over_budget",
            {"error": "OverBudget: it spent $0.40 of $0.30"},
            RunState.OVER_BUDGET,
            "Over budget: the run reached its limit: OverBudget: it spent $0.40 of $0.30.",
        ),
        (
            "over_budget",
            {"error": "It had used 2k tokens, more than the 1k"},
            RunState.OVER_BUDGET,
            "Over budget: the run reached its limit: It had used 2k tokens, more than the 1k.",
        ),
        ("over_budget", None, RunState.OVER_BUDGET, "Over budget: the run reached its limit."),
        ("at_capacity", None, SKIPPED, "Skipped: the concurrency limit was reached."),
        (
            "guard",
            {"gate": "guard", "message": "the battery is low"},
            RunState.BLOCKED,
            "Blocked: the guard rejected the run: the battery is low.",
        ),
        (
            "pre_check",
            {"gate": "pre_check", "message": "exit code 1", "exit_code": 1},
            SKIPPED,
            "Skipped: the pre-check rejected the run: exit code 1.",
        ),
        (
            "pre_check",
            {"gate": "pre_check", "message": "no", "again": SEVEN},
            WAITING,
            "Retrying at 07:00 UTC: the pre-check rejected the run: no.",
        ),
        ("hook", {"gate": "hook", "message": None}, RunState.MISSED, "Missed: the hook rejected the run."),
        (
            "hook",
            {"gate": "file_hook", "message": "no"},
            SKIPPED,
            "Skipped: the hook of all schedules rejected the run: no.",
        ),
        ("approval_expired", {"approval": "3"}, RunState.EXPIRED, "Expired: approval 3 was not answered in time."),
        ("denied", {"approval": "3"}, RunState.DENIED, "Denied: approval 3 was denied."),
        ("timed_out", None, RunState.HELD, "Held until resolved: the run exceeded its timeout."),
        ("worker_lost", None, RunState.READY, "Retrying: the worker process is gone."),
        ("worker_lost", None, RunState.UNKNOWN, "Outcome unknown: the worker process is gone."),
        ("schedule_removed", None, RunState.CANCELLED, "Cancelled: the schedule was deleted."),
        ("cancelled", {"by": "ada"}, RunState.CANCELLED, "Cancelled by ada."),
        ("cancelled", None, RunState.CANCELLED, "Cancelled."),
    ],
)
def test_the_sentence_says_what_the_evidence_says(
    reason: str, evidence: dict[str, Any] | None, state: RunState | None, says: str
) -> None:
    """B2"""
    assert sentence(reason, evidence, "UTC", state=state, at=AT).joined == says


def test_the_same_in_the_present_and_the_future() -> None:
    """B2 B3"""
    told = {"state": SKIPPED, "at": AT}
    now = sentence("quiet_hours", QUIET, "UTC", tense=NOW, **told).joined  # type: ignore[arg-type]
    then = sentence("quiet_hours", QUIET, "UTC", tense=FUTURE, **told).joined  # type: ignore[arg-type]
    assert now == 'Would be skipped: quiet hours "night" are active until 07:00 UTC.'
    assert then == 'Will be skipped: quiet hours "night" will be active until 07:00 UTC.'


def test_times_are_told_on_the_clocks_of_the_zone_with_a_date_where_the_day_is_another() -> None:
    """B2"""
    assert local_time(SEVEN, "Europe/Berlin", AT) == "08:00 CET"
    assert local_time(SEVEN, "Europe/Berlin") == "2026-03-28 08:00 CET"
    assert local_time(SEVEN, "UTC", SEVEN - 86_400_000) == "2026-03-28 07:00 UTC"
    assert local_time(SEVEN, "UTC", SEVEN + 1) == "2026-03-28 07:00 UTC"
    assert local_time(SEVEN + 5_250, "UTC", AT) == "07:00:05.250 UTC"
    assert rfc3339(SEVEN) == "2026-03-28T07:00:00Z"
    assert rfc3339(SEVEN, "Asia/Tokyo") == "2026-03-28T16:00:00+09:00"


def run_in(state: RunState, **given: Any) -> RunRecord:
    usual: dict[str, Any] = {
        "id": 7, "schedule_id": 1, "schedule": "s", "agent": "a", "rev": 1, "state": state, "slot": AT,
        "request_key": None, "slots": 1, "first_slot": None, "epoch": 1, "attempt": 1, "not_before": None,
        "planned_at": AT,
        "started_at": AT, "ended_at": None, "reason": None, "evidence": None, "outcome": None,
    }  # fmt: skip
    return RunRecord(**{**usual, **given})


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (
            run_in(RunState.SUCCEEDED, ended_at=AT + 3_500),
            "Succeeded: started at 2026-03-27 23:30 UTC, took 3.5 s.",
        ),
        (
            run_in(RunState.SUCCEEDED, ended_at=AT + 1_000, slots=4, first_slot=AT - 10_800_000),
            "Succeeded: started at 2026-03-27 23:30 UTC, took 1 s (4 slots from 2026-03-27 20:30 UTC).",
        ),
        (run_in(RunState.RUNNING), "Running since 2026-03-27 23:30 UTC."),
        (run_in(RunState.READY, started_at=None), "Ready: waiting for an engine to start it."),
        (
            run_in(RunState.FAILED, reason="failed", outcome={"error": "Traceback …\n  line 3\nValueError: no luck\n"}),
            "Failed: ValueError: no luck.",
        ),
        (
            run_in(RunState.READY, reason="failed_attempt", outcome={"error": "no luck"}, not_before=AT + 10_500),
            "Retrying at 23:30:10.500 UTC: attempt 1 failed: no luck.",
        ),
        (
            run_in(RunState.MISSED, reason="missed", slots=1_440, first_slot=AT - 86_400_000),
            "Missed: no engine was running for 1,440 slots, from 2026-03-26 23:30 UTC to 2026-03-27 23:30 UTC.",
        ),
        (
            run_in(RunState.MISSED, reason="missed"),
            "Missed: no engine was running when the run was due.",
        ),
        (run_in(RunState.UNKNOWN, reason="resolved_by_ada"), "Resolved by ada: unknown."),
        (run_in(RunState.READY, reason="resolved_by_ada"), "Resolved by ada: it will be retried."),
        (
            run_in(SKIPPED, reason="already_running", evidence={"run": "6", "state": "held"}),
            "Skipped: run 6 of this schedule was still held.",
        ),
    ],
)
def test_a_runs_story(run: RunRecord, says: str) -> None:
    """B2"""
    assert run_summary(run, "UTC").joined == says


@pytest.mark.parametrize("state", list(RunState))
def test_a_run_in_any_state_has_a_story(state: RunState) -> None:
    """B2"""
    assert run_summary(run_in(state), "UTC").joined.endswith(".")
    assert run_summary(run_in(state, started_at=None), "UTC").joined.endswith(".")
