"""The outcome of a run, from what its tool reports and how its processes ended."""

from __future__ import annotations

import pytest

from matins.engine.policies import Policies
from matins.executors.conclusions import outcome_of
from matins.executors.processes.launch import EndedBy, ProcessOutcome
from matins.executors.runners.protocol import Limit, RunnerRequest, RunnerResult
from matins.model.run import Outcome

CALL = RunnerRequest("Water the plants", "/")


def outcome(result: RunnerResult, ended_by: EndedBy | None = None) -> Outcome:
    process = ProcessOutcome("finished", None if ended_by else 0, ended_by=ended_by, ended_at=5_000)
    return outcome_of(CALL, result, process, None, Policies(), 9_000)


def test_b4_a_run_that_was_denied_everything_has_failed() -> None:
    """B4: and one that was denied something has not"""
    denials = ("Bash rm", "Write x", "Bash ls", "Bash mv")
    all_denied = outcome(RunnerResult(True, True, text="Sorry.", denials=denials, all_denied=True))
    assert (all_denied.succeeded, all_denied.error) == (False, "all tool calls were denied: Bash rm; Write x; Bash ls")
    some = outcome(RunnerResult(True, True, denials=denials))
    assert (some.succeeded, some.error, some.denials) == (True, None, denials)


@pytest.mark.parametrize(("ended_by", "words"), [("idle_timeout", "its idle timeout"), ("timeout", "its timeout")])
def test_b9_the_reason_survives_a_limit_of_ours(ended_by: EndedBy, words: str) -> None:
    """B9"""
    cut = RunnerResult(False, False, error="x was ended", complaint="HTTP 401: invalid key, tried again 7 times")
    ended = outcome(cut, ended_by)
    assert ended.timed_out
    assert words in (ended.error or "")
    assert (ended.error or "").endswith("and was ended; its last problem: HTTP 401: invalid key, tried again 7 times")


@pytest.mark.parametrize(
    ("ended_by", "words"),
    [
        ("memory", "its memory limit"),
        ("processes", "its process limit"),
        ("cpu", "its CPU limit"),
        ("file_size", "its limit for the size of a file"),
        ("budget", "its spending limit"),
    ],
)
def test_b16_the_end_says_which_limit_it_was(ended_by: EndedBy, words: str) -> None:
    """B16: also where the tool had its final event before"""
    for result in (RunnerResult(False, False), RunnerResult(True, False, error="killed")):
        ended = outcome(result, ended_by)
        assert (ended.succeeded, ended.error) == (False, f"the run exceeded {words} and was ended")


def test_b9_a_run_that_stops_its_supervisor_has_failed() -> None:
    """B9: also where the tool said before that it succeeded, and it is no timeout"""
    for result in (RunnerResult(False, False), RunnerResult(True, True, text="Done.")):
        ended = outcome(result, "supervisor")
        assert (ended.succeeded, ended.timed_out, ended.lost) == (False, False, False)
        assert ended.error == "the run stopped its supervisor, and was ended"
        assert ended.result["ended_by"] == "supervisor"


def test_b6_an_outage_is_told_as_one() -> None:
    """B6"""
    limit = Limit("anthropic", None, "HTTP 529", 30_000, outage=True)
    told = outcome(RunnerResult(False, False, error="x", limit=limit), "idle_timeout").limit
    assert told is not None
    assert (told.resets_at, told.outage) == (35_000, True)


def test_b9_of_a_long_text_the_beginning_and_the_end_are_kept() -> None:
    """B9: and it is said what was cut"""
    text = "".join(f"line {n}\n" for n in range(100_000))
    long = outcome(RunnerResult(True, True, text=text[-500_000:], text_length=len(text)))
    kept = long.result["text"]
    assert len(kept) < 33_000
    assert kept.startswith(text[-500_000:][:24_000])
    assert kept.endswith(text[-8_000:])
    assert f"[… {len(text) - 32_000:,} characters are left out here; the transcript has them …]" in kept
    assert long.result["text_length"] == len(text)
    assert long.turn is not None
    assert long.turn.text == kept
    short = outcome(RunnerResult(True, True, text="\x1b[31mred\x1b[0m", text_length=12))
    assert (short.result["text"], short.result["text_length"]) == ("red", 12)
