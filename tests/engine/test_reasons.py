"""Every reason has a sentence, and the sentence says what the evidence says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import matins
from matins.engine.reasons import CODES, FUTURE, NOW, PAST, RESOLVED, iso, moment, sentence, story
from matins.model.run import Run, RunState
from matins.testing import instant

SOURCE = Path(matins.__file__).parent
FOLDERS = ("engine", "runtime", "service")
CODE = re.compile("[a-z]+(_[a-z]+)*_?")
NOT_OF_RUNS = {"engine/events.py", "service/events.py", "runtime/outbox.py", "engine/deliveries.py"}


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
        case ast.FunctionDef() if node.args.defaults:
            names = [argument.arg for argument in node.args.args][-len(node.args.defaults) :]
            yield from texts(dict(zip(names, node.args.defaults, strict=True)).get("reason"))


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
        found |= set(re.findall(r"reason = '([a-z_]+)'", path.read_text(encoding="utf-8")))
    return {code for code in found if CODE.fullmatch(code)}


def test_the_search_finds_reasons_of_every_kind() -> None:
    """B2: in a verdict, a birth, a change, a table, a pair, SQL, a default, a text that is put together"""
    found = reasons_in_source()
    by_kind = {"queue_full", "missed", "failed_attempt", "pre_check", "worker_lost", "woken", "cancelled", RESOLVED}
    assert by_kind <= found
    assert {"already_running", "end_date", "coalesced", "unreadable", "approval_expired", "checking"} <= found


def test_every_reason_in_the_source_has_a_sentence() -> None:
    """B2"""
    assert reasons_in_source() - CODES == set()


def test_every_sentence_is_for_a_reason_in_the_source() -> None:
    """B2"""
    assert CODES - reasons_in_source() == set()


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_sentence_needs_no_evidence(code: str) -> None:
    """B2: in whatever state a record is found"""
    for state in (None, *RunState):
        for tense in (PAST, NOW, FUTURE):
            text = sentence(code, None, "UTC", state=state, tense=tense)
            assert text[0].isupper() or code == RESOLVED
            assert text.endswith(".")


def test_an_unknown_reason_is_told_as_it_is() -> None:
    """B2"""
    assert sentence("tuesday", None, "UTC") == 'The reason is "tuesday".'


AT = instant("2026-03-27T23:30:00Z")
SEVEN = instant("2026-03-28T07:00:00Z")
QUIET = {"policy": "night", "until": SEVEN}
BUDGET = {"budget": "daily", "limit": "$1.00", "used": "$0.80", "wanted": "$0.40", "resets_at": SEVEN - 7 * 3_600_000}
SKIPPED, PARKED, QUEUED = RunState.SKIPPED, RunState.PARKED, RunState.QUEUED


@pytest.mark.parametrize(
    ("reason", "evidence", "state", "says"),
    [
        ("quiet_hours", QUIET, SKIPPED, 'Quiet hours "night" were on until 07:00; it was skipped.'),
        ("quiet_hours", QUIET, PARKED, 'Quiet hours "night" were on until 07:00; it waits until then.'),
        ("already_running", {"run": "12", "state": "running"}, None, "Run 12 of this schedule was still running."),
        (
            "already_running",
            {"run": "12", "state": "parked"},
            SKIPPED,
            "Run 12 of this schedule was still waiting; this one was skipped.",
        ),
        ("waiting_for", {"run": "12"}, QUEUED, "Run 12 of this schedule must end first."),
        (
            "cancelling_other",
            {"runs": ["7", "8"]},
            QUEUED,
            "It waits for run 7 and run 8 of this schedule to end, in whose place it comes.",
        ),
        ("queue_full", {"queued": 3}, SKIPPED, "3 runs of it were waiting already, as many as may; it was skipped."),
        ("max_executions", {"max_executions": 3}, SKIPPED, "It had run 3 times, as often as it may; it was skipped."),
        ("end_date", {"ends_at": AT - 1_800_000}, SKIPPED, "Its end, 2026-03-27 23:00, was past; it was skipped."),
        (
            "coalesced",
            {**QUIET, "for": "quiet_hours", "run": "12"},
            SKIPPED,
            'Run 12 of this schedule was still waiting for quiet hours "night" until 07:00, for this one too.',
        ),
        (
            "coalesced",
            {"provider": "anthropic", "until": SEVEN, "for": "throttled", "run": "0"},
            SKIPPED,
            'An earlier run of this schedule was still waiting for provider "anthropic" until 07:00, for this one too.',
        ),
        (
            "throttled",
            {"provider": "anthropic", "until": SEVEN, "why": "rate limited"},
            PARKED,
            'Provider "anthropic" served nobody until 07:00 (rate limited); it waits until then.',
        ),
        (
            "over_budget",
            BUDGET,
            RunState.OVER_BUDGET,
            'Budget "daily" had $0.20 left of $1.00; this run wanted $0.40. It opens again on 2026-03-28 00:00.',
        ),
        (
            "over_budget",
            {**BUDGET, "limit": "10k", "used": "9500", "wanted": "1k"},
            None,
            'Budget "daily" had 500 left of 10k; this run wanted 1k. It opens again on 2026-03-28 00:00.',
        ),
        (
            "over_budget",
            {**BUDGET, "used": "$1.30"},
            None,
            'Budget "daily" had $0.00 left of $1.00; this run wanted $0.40. It opens again on 2026-03-28 00:00.',
        ),
        (
            "over_budget",
            {**BUDGET, "used": "-$0.50", "wanted": "$2.00"},
            None,
            'Budget "daily" had $1.50 left of $1.00; this run wanted $2.00. It opens again on 2026-03-28 00:00.',
        ),
        (
            "over_budget",
            {"error": "OverBudget: it spent $0.40 of $0.30"},
            RunState.OVER_BUDGET,
            "It had spent what one run may: OverBudget: it spent $0.40 of $0.30.",
        ),
        (
            "over_budget",
            {"error": "It had used 2k tokens, more than the 1k that one run may, and was ended"},
            RunState.OVER_BUDGET,
            "It had used 2k tokens, more than the 1k that one run may, and was ended.",
        ),
        ("over_budget", None, RunState.OVER_BUDGET, "It had spent what one run may."),
        ("at_capacity", None, SKIPPED, "Every place that it may take was taken; it was skipped."),
        (
            "guard",
            {"gate": "guard", "said": "the battery is low"},
            RunState.BLOCKED,
            "The guard was against it: the battery is low; it was blocked.",
        ),
        (
            "pre_check",
            {"gate": "pre_check", "said": "it ended with exit code 1", "exit_code": 1},
            SKIPPED,
            "Its pre-check was against it: it ended with exit code 1; it was skipped.",
        ),
        (
            "pre_check",
            {"gate": "pre_check", "said": "no", "again": SEVEN},
            PARKED,
            "Its pre-check was against it: no; it is tried again at 07:00.",
        ),
        ("hook", {"gate": "hook", "said": None}, RunState.MISSED, "Its hook was against it; it was missed."),
        ("hook", {"gate": "file_hook", "said": "no"}, SKIPPED, "The hook for all was against it: no; it was skipped."),
        ("approval_expired", {"approval": "3"}, RunState.EXPIRED, "Nobody answered approval 3 in time."),
        ("denied", {"approval": "3"}, RunState.DENIED, "People said no: approval 3 was denied."),
        ("timed_out", None, RunState.HELD, "It ran past its limit; it is held until somebody says what became of it."),
        ("worker_lost", None, RunState.READY, "The process that ran it is gone; it is tried again."),
        ("worker_lost", None, RunState.UNKNOWN, "The process that ran it is gone; nobody knows how it ended."),
        ("schedule_removed", None, RunState.CANCELLED, "Its schedule was removed; it was ended."),
        ("cancelled", {"by": "ada"}, RunState.CANCELLED, "ada cancelled it."),
        ("cancelled", None, RunState.CANCELLED, "Somebody cancelled it."),
    ],
)
def test_the_sentence_says_what_the_evidence_says(
    reason: str, evidence: dict[str, Any] | None, state: RunState | None, says: str
) -> None:
    """B2"""
    assert sentence(reason, evidence, "UTC", state=state, at=AT) == says


def test_the_same_in_the_present_and_the_future() -> None:
    """B2 B3"""
    told = {"state": SKIPPED, "at": AT}
    now = sentence("quiet_hours", QUIET, "UTC", tense=NOW, **told)  # type: ignore[arg-type]
    then = sentence("quiet_hours", QUIET, "UTC", tense=FUTURE, **told)  # type: ignore[arg-type]
    assert now == 'Quiet hours "night" are on until 07:00; it would be skipped.'
    assert then == 'Quiet hours "night" will be on until 07:00; it will be skipped.'


def test_times_are_told_on_the_clocks_of_the_zone_with_a_date_where_the_day_is_another() -> None:
    """B2"""
    assert moment(SEVEN, "Europe/Berlin", AT) == "08:00"
    assert moment(SEVEN, "Europe/Berlin") == "2026-03-28 08:00"
    assert moment(SEVEN, "UTC", SEVEN - 86_400_000) == "2026-03-28 07:00"
    assert moment(SEVEN, "UTC", SEVEN + 1) == "2026-03-28 07:00"
    assert moment(SEVEN + 5_250, "UTC", AT) == "07:00:05.250"
    assert iso(SEVEN) == "2026-03-28T07:00:00Z"
    assert iso(SEVEN, "Asia/Tokyo") == "2026-03-28T16:00:00+09:00"


def run_in(state: RunState, **given: Any) -> Run:
    usual: dict[str, Any] = {
        "id": 7, "schedule_id": 1, "schedule": "s", "rev": 1, "state": state, "slot": AT, "request_key": None,
        "covered": 1, "covered_from": None, "epoch": 1, "attempt": 1, "not_before": None, "planned_at": AT,
        "started_at": AT, "ended_at": None, "reason": None, "evidence": None, "outcome": None,
    }  # fmt: skip
    return Run(**{**usual, **given})


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (
            run_in(RunState.SUCCEEDED, ended_at=AT + 3_500),
            "It started at 2026-03-27 23:30 and succeeded after 3.5 s.",
        ),
        (
            run_in(RunState.SUCCEEDED, ended_at=AT + 1_000, covered=4, covered_from=AT - 10_800_000),
            "It started at 2026-03-27 23:30 and succeeded after 1 s, and stands for 4 slots from 2026-03-27 20:30 on.",
        ),
        (run_in(RunState.RUNNING), "It runs since 2026-03-27 23:30."),
        (run_in(RunState.READY, started_at=None), "It may start, and waits for a place."),
        (
            run_in(RunState.FAILED, reason="failed", outcome={"error": "Traceback …\n  line 3\nValueError: no luck\n"}),
            "The job failed: ValueError: no luck.",
        ),
        (
            run_in(RunState.READY, reason="failed_attempt", outcome={"error": "no luck"}, not_before=AT + 10_500),
            "Attempt 1 failed: no luck; it is tried again at 23:30:10.500.",
        ),
        (
            run_in(RunState.MISSED, reason="missed", covered=1_440, covered_from=AT - 86_400_000),
            "Nobody was there for 1440 slots, from 2026-03-26 23:30 to 2026-03-27 23:30.",
        ),
        (
            run_in(RunState.MISSED, reason="missed"),
            "Nobody was there when it was due, and then it was too late.",
        ),
        (run_in(RunState.UNKNOWN, reason="resolved_by_ada"), "ada said what became of it: unknown."),
        (run_in(RunState.READY, reason="resolved_by_ada"), "ada said what became of it: it is tried again."),
        (
            run_in(SKIPPED, reason="already_running", evidence={"run": "6", "state": "held"}),
            "Run 6 of this schedule was still held; this one was skipped.",
        ),
    ],
)
def test_a_runs_story(run: Run, says: str) -> None:
    """B2"""
    assert story(run, "UTC") == says


@pytest.mark.parametrize("state", list(RunState))
def test_a_run_in_any_state_has_a_story(state: RunState) -> None:
    """B2"""
    assert story(run_in(state), "UTC").endswith(".")
    assert story(run_in(state, started_at=None), "UTC").endswith(".")
