"""Long texts are refused before a pattern sees them. Row B7."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from security_cast import SCOUT, Watched

from matins.chat.messages import parse_command
from matins.engine.calls import check_filter, follows_schedule, parse_on
from matins.engine.schedules import SETTINGS
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput, MatinsError, TriggerError
from matins.runtime.command_files import Line


def test_on_and_when_have_at_most_1000_characters() -> None:
    assert parse_on(f"after {'a' * 200} succeeds")
    with pytest.raises(InvalidInput, match='"on" must be at most 1000 characters, not 1009'):
        parse_on("a" * 1_000 + " succeeds")
    with pytest.raises(TriggerError, match="at most 1000 characters"):
        parse_trigger("after " + "a" * 1_000, now_ms=0)
    assert follows_schedule("after release succeeds")
    assert not follows_schedule("after " + "a" * 1_000 + " succeeds")


@pytest.mark.parametrize(
    ("text", "schedule", "outcome"),
    [
        ("after release succeeds", "release", "success"),
        ("  release   fails ", "release", "failure"),
        ("after  two words ends", "two words", "end"),
        ("after succeeds", "after", "success"),
    ],
)
def test_what_follows_a_schedule(text: str, schedule: str, outcome: str) -> None:
    (found,) = parse_on(text)
    assert (found.schedule, found.outcome) == (schedule, outcome)  # pyright: ignore


def test_a_command_in_chat_has_at_most_4000_characters() -> None:
    text = "pause nightly because " + "a" * 5_000
    assert parse_command(text[:4_000]).name == "nightly"
    with pytest.raises(InvalidInput, match="A message has at most 4,000 characters, not 4,001"):
        parse_command(text[:4_001])


def nested(levels: int, wrap: Any, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def test_a_filter_is_not_followed_deeper_than_it_may_be() -> None:
    """Not by a program either, whose mappings have no limit of JSON; fifty conditions are fine"""

    def any_of(inner: Any) -> dict[str, Any]:
        return {"any": [inner]}

    assert check_filter(nested(49, any_of, {"a": 1}), "on")
    for levels in (50, 300, 100_000):
        with pytest.raises(InvalidInput, match="more than 50 conditions"):
            check_filter(nested(levels, any_of, {"a": 1}), "on")


@pytest.mark.parametrize("condition", [10**30, [1, 10**30], {"over": 10**30}, {"under": -(10**30)}])
def test_a_filter_has_numbers_that_can_be_stored(memory: Watched, condition: Any) -> None:
    memory.inbound.set("prs", kind="bearer", secret="env:PRS")
    on = {"webhook": "prs", "filter": {"number": condition}}
    with pytest.raises(InvalidInput, match='"number" must be a number of at most 64 bits'):
        memory.add("s", on=on, job="work")
    memory.add("s", on={"webhook": "prs", "filter": {"number": {"over": 2**62}}}, job="work")


def test_no_setting_of_a_schedule_breaks_what_reads_it(memory: Watched) -> None:
    """Lists and mappings of every depth, and numbers of every length, are refused in words"""
    deep = nested(100_000, lambda inner: [inner]), nested(100_000, lambda inner: {"a": inner})
    for name in SETTINGS:
        for value in (*deep, nested(300, lambda inner: [inner]), 10**5_000, "9" * 5_000, {"a": 10**5_000}):
            given = {"when": "0 3 * * *", "job": "work", name: value}
            with suppress(MatinsError):  # no other error
                memory.add("s", **given, replace=True)
    assert memory.audit.verify().problems == []


def test_ten_thousand_steps_and_names(memory: Watched) -> None:
    steps = [{"title": f"t{number}", "job": "work"} for number in range(10_000)]
    with pytest.raises(InvalidInput, match="steps"):
        memory.missions.make("m", when="every 1h", steps=steps)
    with pytest.raises(InvalidInput, match="after"):
        memory.missions.make("m", when="every 1h", steps=[*steps[:1], {**steps[1], "after": ["t0"] * 10_000}])
    with pytest.raises(InvalidInput, match="labels"):
        memory.add("s", when="every 1h", job="work", labels={f"k{number}": "v" for number in range(100_000)})


def test_commands_are_read_in_a_moment(memory: Watched) -> None:
    """B7: of each word it is asked whether it names a file, once. After an interpreter, every word was asked again."""
    memory.agents.set("scout", runner="shell", command=["true"], isolation="none")
    agent = memory.acting_as(SCOUT)
    before = time.thread_time()
    for number, piece in enumerate(("sh ", "cd a; ", "a | ", "sh 'b c' ", "sh $A ", "A=$A$A; ")):
        agent.add(f"long-{number}", when="5 * * * *", command=f"A=a; {piece * (7_900 // len(piece))}true")
    assert time.thread_time() - before < 5  # minutes without the bound
    steps = [{"title": str(number), "command": "sh " * 1_000} for number in range(6)]
    with pytest.raises(InvalidInput, match="The commands of all steps must be at most 16,000 characters, not 18,000"):
        agent.add("steps", when="5 * * * *", steps=steps)


def test_an_interpreter_reads_the_next_file(tmp_path: Path) -> None:
    """B16: also behind others, and behind words that name no file."""
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    for command, read in {
        "sh -x a.txt b.txt": ["a.txt"],
        "nice sh -x a.txt && cat b.txt": ["a.txt"],
        "sudo sh a.txt sh b.txt c.txt": ["a.txt", "b.txt"],
        "cat a.txt sh missing": [],
        "cat a.txt | sh -s b.txt": ["a.txt", "b.txt"],
    }.items():
        found = Line(command, str(tmp_path), ()).files()
        assert sorted(Path(path).name for path in found if path.startswith(str(tmp_path))) == read, command
