"""Steps as pure decisions: their order, what comes next, how they become one outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.jobs import retries_unknown
from matins.engine.schedules import decode, encode, parse_schedule, schedule_settings
from matins.engine.steps import StepState, advance, of_step, ordered, repeated, slug
from matins.errors import InvalidInput
from matins.model.run import RunState as S

CHAIN = [(), (1,), (2,)]
DIAMOND = [(), (1,), (1,), (2, 3)]
PENDING = StepState(S.WAITING, True)


def states(*given: S | None) -> dict[int, StepState]:
    """The states of steps; None for one that waits for another."""
    return {number: PENDING if state is None else StepState(state) for number, state in enumerate(given, 1)}


def test_a_step_is_ready_when_all_that_it_waits_for_have_succeeded() -> None:
    """P6"""
    assert advance(DIAMOND, states(S.SUCCEEDED, None, None, None)).ready == (2, 3)
    assert advance(DIAMOND, states(S.SUCCEEDED, S.SUCCEEDED, S.RUNNING, None)) == ((), {}, None)
    assert advance(DIAMOND, states(S.SUCCEEDED, S.SUCCEEDED, S.SUCCEEDED, None)).ready == (4,)


def test_a_failed_step_stops_its_dependants_and_no_others() -> None:
    """P6 V13"""
    found = advance(CHAIN, states(S.FAILED, None, None))
    assert (found.ready, found.skipped, found.outcome) == ((), {2: 1, 3: 2}, S.FAILED)
    found = advance([(), (1,), ()], states(S.FAILED, None, S.RUNNING))
    assert (found.skipped, found.outcome) == ({2: 1}, None)


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((S.SUCCEEDED, S.SUCCEEDED), S.SUCCEEDED),
        ((S.SUCCEEDED, S.FAILED), S.FAILED),
        ((S.CANCELLED, S.FAILED), S.FAILED),
        ((S.SUCCEEDED, S.DENIED), S.DENIED),
        ((S.SKIPPED, S.CANCELLED), S.CANCELLED),
        ((S.SUCCEEDED, S.SKIPPED), S.SKIPPED),
        ((S.UNKNOWN, S.SKIPPED), S.UNKNOWN),
        ((S.SUCCEEDED, S.HELD), None),
    ],
)
def test_the_outcome_of_a_run_is_the_worst_of_its_steps(ends: tuple[S, S], outcome: S | None) -> None:
    """P6"""
    assert advance([(), ()], states(*ends)).outcome == outcome


def graphs() -> st.SearchStrategy[list[tuple[int, ...]]]:
    """Steps that wait for any of those before them."""
    one = st.integers(1, 8).flatmap(
        lambda size: st.tuples(*(st.sets(st.integers(1, max(1, n)), max_size=min(n, 3)) for n in range(size)))
    )
    return one.map(lambda sets: [tuple(sorted(s)) if n else () for n, s in enumerate(sets)])


@given(graphs(), st.randoms(use_true_random=False))
def test_every_graph_ends_and_nothing_starts_before_what_it_waits_for(
    after: list[tuple[int, ...]], chance: Any
) -> None:
    """P6: whatever the steps' ends are"""
    now = {n: PENDING if waits else StepState(S.READY) for n, waits in enumerate(after, 1)}
    for _ in range(3 * len(after)):
        live = [n for n, state in now.items() if state.state is S.READY]
        if not live:
            break
        now[chance.choice(live)] = StepState(chance.choice([S.SUCCEEDED, S.SUCCEEDED, S.FAILED, S.DENIED]))
        found = advance(after, now)
        for n in found.ready:
            assert all(now[other].state is S.SUCCEEDED for other in after[n - 1])
            now[n] = StepState(S.READY)
        for n, other in found.skipped.items():
            assert other in after[n - 1]
            now[n] = StepState(S.SKIPPED)
    assert all(state.ended for state in now.values())
    assert advance(after, now).outcome is not None
    assert advance(after, now)[:2] == ((), {})


@given(graphs())
def test_steps_are_ordered_behind_what_they_wait_for(after: list[tuple[int, ...]]) -> None:
    """P6"""
    order = ordered(after)
    assert sorted(order) == list(range(1, len(after) + 1))
    assert all(order.index(other) < order.index(n) for n, waits in enumerate(after, 1) for other in waits)


def test_a_retry_repeats_what_did_not_succeed_and_what_waits_for_it() -> None:
    """B8"""
    assert repeated(DIAMOND, [1, 2], None) == {3, 4}
    assert repeated(DIAMOND, [1, 2, 3, 4], 2) == {2, 4}
    assert repeated(CHAIN, [1, 2, 3], 1) == {1, 2, 3}


# -- settings

BUILD = {"title": "Build", "prompt": "Build it"}


def parsed(*steps: Any, **settings: Any) -> Any:
    return parse_schedule("0 2 * * *", {"steps": list(steps), **settings}, 0)[0]


@pytest.mark.parametrize(
    ("steps", "field", "message"),
    [
        ([], "steps", '"steps" must be a list of 1 to 100 mappings, not a list of 0.'),
        (
            [{"title": f"s{n}"} for n in range(101)],
            "steps",
            '"steps" must be a list of 1 to 100 mappings, not a list of 101.',
        ),
        (["Build"], "steps[1]", '"steps[1]" must be a mapping, not \'Build\'.'),
        ([{}], "steps[1].title", 'Step 1 needs "title" (Title of the step, unique in its schedule).'),
        ([BUILD, {"title": "Build"}], "steps[2].title", 'Two steps have the title "Build".'),
        (
            [BUILD, {"title": "build!"}],
            "steps[2].title",
            'The titles "Build" and "build!" are the same in placeholders: build.',
        ),
        (
            [BUILD, {"title": "X", "after": ["Biuld"]}],
            "steps[2].after",
            'Step "X" waits for "Biuld", but there is no such step.',
        ),
        ([{"title": "A", "after": ["A"]}], "steps[1].after", 'Steps wait for each other: "A" → "A".'),
        (
            [{"title": "A", "after": ["C"]}, {"title": "B", "after": ["A"]}, {"title": "C", "after": ["B"]}],
            "steps[1].after",
            'Steps wait for each other: "A" → "C" → "B" → "A".',
        ),
        ([{"title": "A", "retries": -1}], "steps[1].retries", '"retries" must be an integer from 0 to 100, not -1.'),
        ([{"title": "A", "color": "red"}], "steps[1].color", 'Step 1 has no setting "color".'),
        (
            [BUILD, {"title": "B", "prompt": "{{steps.build.text}}"}],
            "steps[2].prompt",
            '"steps[2].prompt" has an unknown placeholder: {{steps.build.text}}.',
        ),
    ],
)  # fmt: skip
def test_wrong_steps_are_refused_with_their_place(steps: list[Any], field: str, message: str) -> None:
    """P6"""
    with pytest.raises(InvalidInput) as caught:
        parsed(*steps)
    assert (caught.value.field, caught.value.message) == (field, message)


@pytest.mark.parametrize("other", [{"prompt": "Hello"}, {"job": "report"}, {"work_source": "backlog"}])
def test_steps_stand_alone(other: dict[str, Any]) -> None:
    """V13"""
    with pytest.raises(InvalidInput, match="cannot be combined"):
        parsed(BUILD, **other)


def test_steps_reach_the_store_and_people_as_they_were_written() -> None:
    """V7 V12"""
    steps = [
        {**BUILD, "agent": "coder", "retries": 2, "timeout": "1h"},
        {
            "title": "Deploy",
            "job": "deploy",
            "payload": {"to": "prod"},
            "after": ["Build"],
            "approval": "owner_approve",
        },
        {
            "title": "Tell",
            "prompt": "Tell them: {{steps.build.text}}",
            "after": ["Deploy"],
            "target": {"kind": "fresh"},
        },
    ]
    definition = parsed(*steps)
    assert decode(encode(definition)) == definition
    assert schedule_settings(definition)["steps"] == steps
    assert "job" not in schedule_settings(definition)


def test_a_step_has_the_schedules_settings_with_its_own_in_their_place() -> None:
    """V13"""
    definition = parsed(
        {"title": "Run all tests"},
        {"title": "Deploy", "job": "deploy", "timeout": "5m", "approval": "owner_approve"},
        timeout="1h", retries=3, payload={"a": 1}, max_executions=4,
    )  # fmt: skip
    first, second = of_step(definition, 1), of_step(definition, 2)
    assert (first.job, first.prompt, retries_unknown(first)) == ("scheduled-task", "Run all tests", False)
    assert (first.timeout_ms, first.retries, first.approval, first.max_executions) == (3_600_000, 0, "auto", None)
    assert (second.job, second.prompt, retries_unknown(second)) == ("deploy", None, True)
    assert (second.timeout_ms, second.approval, second.payload) == (300_000, "owner_approve", {"a": 1})


@pytest.mark.parametrize(
    ("of_schedule", "of_step_itself", "expected"),
    [(None, None, (False, True)), ("hold", None, (False, False)), ("retry", None, (True, True)),
     ("hold", "retry", (True, True)), ("retry", "hold", (False, False))],
)  # fmt: skip
def test_steps_follow_the_schedules_policy_for_unknown_outcomes(
    of_schedule: str | None, of_step_itself: str | None, expected: tuple[bool, bool]
) -> None:
    own = {} if of_step_itself is None else {"on_unknown": of_step_itself}
    common = {} if of_schedule is None else {"on_unknown": of_schedule}
    definition = parsed({"title": "Ask", **own}, {"title": "Deploy", "job": "deploy", **own}, **common)
    assert (retries_unknown(of_step(definition, 1)), retries_unknown(of_step(definition, 2))) == expected
    assert schedule_settings(definition).get("on_unknown") == of_schedule


def test_placeholders_use_the_titles_as_words() -> None:
    assert slug("Run the  full test-suite!") == "run-the-full-test-suite"
