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


def test_retry_with_a_key_is_made_once(user: User, bench: Sandbox) -> None:
    """B8"""
    failing(bench)
    number = user.json("runs", "release")[0]["id"]
    assert len({user.json("retry", number, "--key", "fix")["id"] for _ in range(2)}) == 1


def test_the_output_of_a_step_is_found_by_its_number(user: User, bench: Sandbox) -> None:
    """P6: a job in the engine has no output of its own, and a step that is not there is named"""
    failing(bench)
    number = user.json("runs", "release")[0]["id"]
    assert "has no step 9" in user.complains("logs", f"{number}/9", code=2)
    second = user.json("runs", "show", f"{number}/2")
    assert user.types("logs", f"{number}/2").stderr == user.types("logs", second["id"]).stderr


def test_a_preview_lists_the_steps_and_adds_up_what_they_cost(user: User, bench: Sandbox) -> None:
    """P6 B3 B5"""

    @bench.job("buy")
    def buy(run: Any) -> None:
        run.spend(run.payload)

    steps = [
        {"title": "Build", "job": "buy", "payload": "$0.30"},
        {"title": "Deploy", "job": "buy", "payload": "$0.20", "after": ["Build"]},
        {"title": "Tell", "job": "work", "agent": "ann", "after": ["Deploy"], "max_cost": "$1"},
    ]
    bench.add("release", when="0 2 * * *", steps=steps)
    bench.run("release")
    bench.settle()
    said = user.says("preview", "release", "-n", "1")
    assert (
        "  1 Build [buy]  cost $0.30 a day\n"
        "  └─ 2 Deploy [buy]  cost $0.20 a day\n"
        "     └─ 3 Tell @ann [work]  cost at most $1.00 a day\n"
        "\n1 run a day, cost $0.50\n"
    ) in said
    found = user.json("preview", "release")["steps"]
    assert [(step["number"], step["title"], step["after"], step["agent"]) for step in found] == [
        (1, "Build", [], ""), (2, "Deploy", ["Build"], ""), (3, "Tell", ["Deploy"], "ann"),
    ]  # fmt: skip


def test_a_run_shows_what_its_steps_cost_together(user: User, bench: Sandbox) -> None:
    """P6 B5"""

    @bench.job("agent-like")
    def agent_like(run: Any) -> Any:
        return {"executed": True, "text": "Done", "money": {"micro_dollars": run.payload, "estimated": False}}

    steps = [
        {"title": "Build", "job": "agent-like", "payload": 300_000},
        {"title": "Deploy", "job": "agent-like", "payload": 200_000, "after": ["Build"]},
    ]
    bench.add("release", steps=steps)
    number = bench.run("release").id
    bench.settle()
    shown = user.says("runs", "show", number)
    assert "1 Build [agent-like]  ✓ succeeded in 0ms, $0.30\n" in shown
    assert "2 Deploy [agent-like]  ✓ succeeded in 0ms, $0.20\n" in shown
    assert "money" in shown
    assert "$0.50" in shown
