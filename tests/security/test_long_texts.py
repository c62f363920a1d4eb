"""Long texts are refused before a pattern sees them. Row B7."""

from __future__ import annotations

import pytest

from matins.engine.calls import follows_schedule, parse_on
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput, TriggerError
from matins.surfaces.chat.chat_commands import MAX_LENGTH, parse_command


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
    assert parse_command(text[:MAX_LENGTH]).name == "nightly"
    with pytest.raises(InvalidInput, match="A message has at most 4,000 characters, not 4,001"):
        parse_command(text[: MAX_LENGTH + 1])
