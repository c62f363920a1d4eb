"""`matins next`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from command import matins


def test_b3_json_has_the_fields_that_stay() -> None:
    """B3"""
    result = matins(
        "next",
        "every weekday at 9am",
        "--timezone",
        "Europe/London",
        "--after",
        "2026-03-27T00:00:00Z",
        "--count",
        "5",
        "--json",
    )
    assert result.exit_code == 0
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    fires = answer.pop("fires")
    assert answer == {
        "text": "every weekday at 9am",
        "kind": "weekly",
        "trigger_text": "every weekday at 09:00",
        "timezone": "Europe/London",
        "notes": [],
        "clock_changes": [],
    }
    assert len(fires) == 5
    assert fires[1] == {
        "local": "2026-03-30T09:00:00+01:00",
        "utc": "2026-03-30T08:00:00Z",
        "in_seconds": 3 * 86_400 + 8 * 3_600,
        "dst": None,
    }


@pytest.mark.parametrize(
    ("options", "local", "effect"),
    [
        ([], "2026-03-29T02:00:00+01:00", "moved"),
        (["--dst-gap", "shift"], "2026-03-29T02:30:00+01:00", "shifted"),
        (["--dst-gap", "skip"], "2026-03-30T01:30:00+01:00", None),
    ],
)
def test_b3_marks_what_a_gap_moved(options: list[str], local: str, effect: str | None) -> None:
    """B3"""
    result = matins(
        "next", "30 1 * * *", "-z", "Europe/London", "--after", "2026-03-28T12:00:00Z", "-n", "1", "--json", *options
    )
    answer = json.loads(result.stdout)
    assert answer["fires"][0]["local"] == local
    assert answer["fires"][0]["dst"] == effect
    assert len(answer["clock_changes"]) == 1


def test_b3_marks_both_passes_of_an_overlap() -> None:
    """B3"""
    result = matins(
        "next",
        "30 1 * * *",
        "-z",
        "Europe/London",
        "--after",
        "2026-10-24T12:00:00Z",
        "-n",
        "2",
        "--json",
        "--dst-overlap",
        "both",
    )
    fires = json.loads(result.stdout)["fires"]
    assert [(fire["utc"], fire["dst"]) for fire in fires] == [
        ("2026-10-25T00:30:00Z", "first"),
        ("2026-10-25T01:30:00Z", "second"),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["0 25 * * *"], "hour must be 0-23"),
        (["every wekday at 9am"], "wekday"),
        (["0 9 * * *", "--timezone", "Europe/Londn"], "Europe/Londn"),
        (["0 9 * * *", "--after", "yesterday"], "yesterday"),
        (["0 9 * * *", "--after", "2026-01-01T00:00"], "no time zone"),
        (["0 9 * * *", "--count", "0"], "0 is not in the range 1<=x<=1000"),
        (["@daily", "--strict"], "@daily"),
        (["5x"], 'Invalid time unit "x"'),
    ],
)
def test_bad_text_is_exit_code_2_with_a_message(words: list[str], says: str) -> None:
    result = matins("next", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_hint_says_how_to_mend_it() -> None:
    assert 'Hint: Did you mean "every weekday at 9am"?' in matins("next", "every wekday at 9am").stderr


def test_words_need_no_quotes() -> None:
    result = matins("next", "every", "weekday", "at", "9am", "--count", "1")
    assert result.stdout.startswith("every weekday at 09:00\n")


def test_a_note_is_told() -> None:
    assert "note: " in matins("next", "every day at 9", "--count", "1").stdout


def test_what_is_over_says_so() -> None:
    result = matins("next", "2020-01-01T00:00:00Z")
    assert result.exit_code == 0
    assert "It does not fire again." in result.stdout


def test_version_and_help() -> None:
    """As a program that people run"""
    version, help_text = (
        subprocess.run([sys.executable, "-m", "matins", word], capture_output=True, text=True, timeout=60).stdout
        for word in ("--version", "--help")
    )
    assert version.startswith("matins, version 0.")
    assert "next" in help_text
    assert all(len(line) <= 100 for line in help_text.splitlines())
