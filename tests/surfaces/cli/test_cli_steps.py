"""Steps in the terminal: `add --step`, `show`, `runs show`, `why`, `logs 12/2`, `retry`."""

from __future__ import annotations

from typing import Any

import pytest
from cli_user import User

from matins.errors import InvalidInput
from matins.surfaces.cli.steps import parse_step
from matins.testing import Sandbox


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("Build @coder: Build it: now", {"title": "Build", "agent": "coder", "prompt": "Build it: now"}),
        ("Deploy (after Build) @ops: Go", {"title": "Deploy", "after": ["Build"], "agent": "ops", "prompt": "Go"}),
        ("Tell (after Build, Run all tests)", {"title": "Tell", "after": ["Build", "Run all tests"]}),
        ("Build", {"title": "Build"}),
        ("Build: two\nlines", {"title": "Build", "prompt": "two\nlines"}),
    ],
)
def test_a_step_in_one_line(text: str, step: dict[str, Any]) -> None:
    """P6"""
    assert parse_step(text) == step


@pytest.mark.parametrize("text", ["", ": Build", "Build (before Test): x", "Build @"])
def test_a_line_that_is_no_step_is_refused_with_an_example(text: str) -> None:
    """P6"""
    with pytest.raises(InvalidInput) as caught:
        parse_step(text)
    assert "--step" in str(caught.value.hint)


def test_steps_are_added_and_drawn(user: User) -> None:
    """P6: agents are made for the steps too"""
    result = user.types(
        "add", "0 2 * * *", "--name", "release", "--step", "Build @demo: Build it",
        "--step", "Test (after Build) @demo", "--step", "Lint (after Build) @demo",
        "--step", "Deploy (after Test, Lint) @demo: Deploy it",
    )  # fmt: skip
    assert 'Created the agent "demo"' in result.stderr
    assert (
        "  1 Build @demo\n"
        "  ├─ 2 Test @demo\n"
        "  └─ 3 Lint @demo\n"
        "     └─ 4 Deploy @demo (after Test, Lint)\n"
    ) in user.says("show", "release")  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["A (after B): x", "B (after A): y"], 'Steps wait for each other: "A" → "B" → "A".'),
        (["A: x", "B (after C): y"], 'Step "B" waits for "C", but there is no such step.'),
        (["A: x", "A: y"], 'Two steps have the title "A".'),
    ],
)
def test_wrong_steps_are_refused(user: User, steps: list[str], message: str) -> None:
    """P6"""
    given = [word for step in steps for word in ("--step", step)]
    assert message in user.complains("add", "0 2 * * *", "--agent", "demo", *given, code=2)


def failing(bench: Sandbox) -> None:
    """A schedule with a step that fails, and one that waits for it."""

    @bench.job("fails")
    def fails(run: Any) -> None:
        raise ValueError("no luck")

    steps = [
        {"title": "Build", "job": "work"},
        {"title": "Deploy", "job": "fails", "after": ["Build"]},
        {"title": "Tell", "job": "work", "after": ["Deploy"]},
    ]
    bench.add("release", steps=steps)
    bench.run("release")
    bench.settle()


def test_a_run_shows_its_steps_and_why_each_did_not_succeed(user: User, bench: Sandbox) -> None:
    """P6 B2"""
    failing(bench)
    number = user.json("runs", "release")[0]["id"]
    shown = user.says("runs", "show", number)
    assert "1 Build [work]  ✓ succeeded in 0ms\n" in shown
    assert "└─ 2 Deploy [fails]  ✗ failed in 0ms: ValueError: no luck\n" in shown
    assert "└─ 3 Tell [work]  ↷ skipped: step failed\n" in shown
    assert 'Failed: step "Deploy": ValueError: no luck.' in " ".join(user.says("why", "release").split())
    assert "step of   " + f"{number}/2" in user.says("runs", "show", f"{number}/2")
    assert "has no step 9" in user.complains("runs", "show", f"{number}/9", code=2)


def test_retry_runs_again_what_failed(user: User, bench: Sandbox) -> None:
    """B8"""
    failing(bench)
    number = user.json("runs", "release")[0]["id"]
    assert "Run" in user.says("retry", number)
    bench.settle()
    again = user.json("runs", "show", user.json("runs", "release")[0]["id"])
    assert (again["retry_of"], again["steps"][0]["reason"]) == (number, "carried_over")
    assert 'has no step "Nothing"' in user.complains("retry", number, "--from", "Nothing", code=2)
    user.says("retry", number, "--from", "Build")
    bench.settle()
    again = user.json("runs", "show", user.json("runs", "release")[0]["id"])
    assert again["steps"][0]["reason"] is None
