"""`matins next`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from command import matins


def test_b3_json_has_the_fields_that_stay() -> None:
    """B3"""
    words = ("--timezone", "Europe/London", "--after", "2026-03-27T00:00:00Z", "--count", "5", "--json")
    result = matins("next", "every weekday at 9am", *words)
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
    ("after", "options", "fires"),
    [
        ("2026-03-28", "", [("2026-03-29T02:00:00+01:00", "moved")]),
        ("2026-03-28", "--dst-gap shift", [("2026-03-29T02:30:00+01:00", "shifted")]),
        ("2026-03-28", "--dst-gap skip", [("2026-03-30T01:30:00+01:00", None)]),
        (
            "2026-10-24",
            "--dst-overlap both",
            [("2026-10-25T01:30:00+01:00", "first"), ("2026-10-25T01:30:00Z", "second")],
        ),
    ],
)
def test_b3_marks_what_a_clock_change_does(after: str, options: str, fires: list[tuple[str, str | None]]) -> None:
    """B3: what a gap moved, and both passes of an overlap"""
    words = ("-z", "Europe/London", "--after", f"{after}T12:00:00Z", "-n", str(len(fires)), "--json")
    answer = json.loads(matins("next", "30 1 * * *", *words, *options.split()).stdout)
    assert [(fire["local"], fire["dst"]) for fire in answer["fires"]] == fires
    assert len(answer["clock_changes"]) == 1


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
