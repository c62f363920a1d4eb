"""`matins run`, `runs`, `logs`, `cancel`, `resolve`, and what their exit codes say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from cli_user import User

from matins import Matins
from matins.api.use_case import UseCase
from matins.model.run import RunState
from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox


@pytest.fixture
def turning(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """While somebody waits, the engine turns; what is in this list happens first, one at each look."""
    meanwhile: list[Callable[[], None]] = []

    def wait(context: CliContext, seconds: float) -> None:
        if meanwhile:
            meanwhile.pop(0)()
        bench.clock.advance(round(seconds * 1000))
        bench.settle()

    monkeypatch.setattr(CliContext, "wait", wait)
    return meanwhile


def added(user: User, job: str, *words: str) -> None:
    user.types("add", "every day at 9am", "--job", job, "-n", "s", *words)


@pytest.mark.parametrize(
    ("job", "words", "code", "ends"),
    [
        ("work", [], 0, "✓ succeeded in 0ms"),
        ("fail", [], 5, "✗ failed in 0ms"),
        ("work", ["--pre-check", "exit 1"], 1, "↷ skipped (pre check)"),
        ("work", ["--before-run", "exit 1"], 1, "↷ skipped (hook)"),
    ],
)
def test_run_wait_says_how_it_ended(
    user: User, turning: list[Callable[[], None]], job: str, words: list[str], code: int, ends: str
) -> None:
    """B2: exit codes 0, 5, 1"""
    added(user, job, *words)
    result = user.types("run", "s", "--wait", code=code)
    assert result.stdout == f"Run 1 of s: {ends}\n"
    assert "Run 1: ◌ ready\n" in result.stderr
    assert ("More: matins runs show 1" in result.stderr) == (code == 5)


def test_run_wait_says_what_went_wrong(user: User, turning: list[Callable[[], None]]) -> None:
    """B2: why a run failed is told at once"""
    added(user, "fail")
    assert "ValueError" in user.types("run", "s", "--wait", code=5).stderr


def test_run_wait_that_needs_approval(user: User, turning: list[Callable[[], None]]) -> None:
    """B12: exit code 8, and the command that answers it"""
    added(user, "work", "--approval", "owner_approve")
    result = user.types("run", "s", "--wait", code=8)
    assert result.stdout == "Run 1 of s: ◆ needs approval\n"
    assert result.stderr.splitlines()[-1] == "The run needs approval: matins approve 1"
    assert user.json("run", "s", "--wait", code=1)["state"] == "skipped"


def test_run_wait_that_is_cancelled_meanwhile(user: User, bench: Sandbox, turning: list[Callable[[], None]]) -> None:
    """Exit code 3"""
    added(user, "work")
    user.types("pause", "s")
    turning.append(lambda: bench.runs.cancel(1) and None)
    result = user.types("run", "s", "--wait", code=3)
    assert result.stdout == "Run 1 of s: ⊘ cancelled\n"
    assert result.stderr == "Run 1: ◌ waits: paused\n"


def test_run_wait_that_takes_too_long(user: User, turning: list[Callable[[], None]]) -> None:
    """Exit code 3: it goes on"""
    added(user, "work")
    user.types("pause", "s")
    result = user.types("run", "s", "--wait", "--timeout", "20", code=3)
    assert "The run has not ended; it continues. Show it: matins runs show 1" in result.stderr
    assert user.json("runs", "show", "1")["live"] is True


def test_run_wait_that_a_person_denies(user: User, bench: Sandbox, turning: list[Callable[[], None]]) -> None:
    """Exit code 4"""
    added(user, "work", "--approval", "owner_approve")
    user.types("run", "s", "--wait", code=8)
    user.types("deny", "1")
    key = user.json("runs", "show", "1")["request_key"]
    assert user.types("run", "s", "--key", key, "--wait", code=4).stdout == "Run 1 of s: ⊘ denied\n"


def test_a_run_that_timed_out(user: User, bench: Sandbox, turning: list[Callable[[], None]]) -> None:
    """Exit code 3, also for whoever looks later"""
    added(user, "work")
    user.types("run", "s", "--key", "k")
    ended(bench, 1, RunState.FAILED, "timed_out")
    assert user.types("run", "s", "--key", "k", "--wait", code=3).stdout == "Run 1 of s: ✗ failed (timed out)\n"


def ended(bench: Sandbox, run_id: int, state: RunState, reason: str) -> None:
    connection: Any = bench._store._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE runs SET state = ?, reason = ? WHERE id = ?", (int(state), reason, run_id))


def test_a_held_run(user: User, bench: Sandbox, turning: list[Callable[[], None]]) -> None:
    """B9: nobody knows how it ended, until a person says it"""
    added(user, "work")
    user.types("run", "s", "--key", "k")
    ended(bench, 1, RunState.HELD, "lost")
    result = user.types("run", "s", "--key", "k", "--wait", code=1)
    assert "matins resolve 1 succeeded, failed or retry" in result.stderr
    assert user.says("resolve", "1", "succeeded").startswith("Run 1 of s: ✓ succeeded")
    assert "is not held" in user.complains("resolve", "1", "failed", code=1)


def test_without_an_engine(user: User, bench: Sandbox) -> None:
    added(user, "work")
    bench.engine.close()
    told = "No engine is running. The run starts when one does: matins up\n"
    assert user.types("run", "s", "--key", "k").stderr == told
    assert user.types("run", "s", "--key", "k", "--wait", code=1).stderr == told


def test_runs_at_80_columns(user: User, bench: Sandbox) -> None:
    """P10: of all, of one, in a state"""
    added(user, "work")
    user.types("add", "every 30 minutes", "--job", "fail", "-n", "flaky", "--set", "anchor=grid")
    user.types("quiet-hours", "set", "morning", "--windows", "08:40-09:30")
    user.types("edit", "s", "--quiet-hours", "morning")
    bench.run_until("2026-03-27T09:05:00Z")
    user.types("run", "s")
    assert user.says("runs") == dedent("""\
        RUN  SCHEDULE  SLOT             STATE      DURATION  REASON
        4    s         manual now       ◌ ready    –
        3    flaky     5m ago (09:00)   ✗ failed   0ms       ValueError: no luck
        2    s         5m ago (09:00)   ↷ skipped  –         quiet hours
        1    flaky     35m ago (08:30)  ✗ failed   0ms       ValueError: no luck
        """)
    assert [run["id"] for run in user.json("runs", "s")] == ["4", "2"]
    assert [run["id"] for run in user.json("runs", "list", "--state", "failed")] == ["3", "1"]
    page = user.types("runs", "flaky", "--limit", "1")
    assert page.stderr == "There are more: matins runs flaky --before 3\n"
    assert [run["id"] for run in user.json("runs", "flaky", "--before", "3")] == ["1"]
    assert [run["id"] for run in user.json("runs", "flaky", "--state", "failed")] == ["3", "1"]
    assert user.json("runs", "s", "--state", "failed") == []
    assert '"state" must be waiting, queued, ' in user.complains("runs", "--state", "bad")


def test_no_runs_says_what_to_do(user: User) -> None:
    assert user.says("runs") == "No runs. Start one: matins run NAME\n"
    added(user, "work")
    assert user.says("runs", "s") == "No runs. Start one: matins run s\n"
    assert "Start a run: matins run s" in user.complains("logs", "s")


def test_cancel(user: User) -> None:
    added(user, "work")
    user.types("run", "s")
    assert user.says("cancel", "1", "--reason", "not today") == "Run 1 of s: ⊘ cancelled (not today)\n"
    assert "Run 1 is over: cancelled" in user.complains("cancel", "1", code=1)


def test_b9_wait_for_an_agent_and_read_what_it_printed(tmp_path: Path) -> None:
    """B9: a real engine, a real process; without its colours, and with them"""
    with Matins(f"sqlite:///{tmp_path}/matins.db") as matins:
        user = User(matins)  # type: ignore[arg-type]
        code = "print('\\x1b[31mred\\x1b[0m and plain'); import sys; print('careful', file=sys.stderr)"
        command = json.dumps([sys.executable, "-c", code])
        user.types("agents", "set", "sh", "--runner", "shell", "--command", command)
        user.types("add", "every day at 9am", "--agent", "sh", "-n", "s", "go")
        result = user.types("run", "s", "--wait")
        assert result.stdout.startswith("Run 1 of s: ✓ succeeded in ")
        assert user.says("logs", "s") == "red and plain\n"
        assert user.says("logs", "1", "--raw") == "\x1b[31mred\x1b[0m and plain\n"
        assert user.says("logs", "1", "--stderr", "-f") == "careful\n"
        assert user.json("logs", "1")["over"] is True
    matins.close()


class Pieces:
    """Output that comes bit by bit."""

    def __init__(self, *pieces: tuple[str, int, bool]) -> None:
        self.pieces = list(pieces)
        self.waits = 0

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        if use_case.name == "runs.get":
            return {"id": "1", "started_at": "2026-03-27T08:00:00Z"}
        text, offset, over = self.pieces.pop(0)
        end = offset + len(text)
        found = {"offset": offset, "next": end, "total": end, "over": over}
        if use_case.name == "runs.output":
            return {**found, "text": text}
        return {**found, "entries": [{"kind": "line", "text": text, "continues": True}] if text else []}


@pytest.fixture
def pieces(user: User, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pieces]:
    def of(*given: tuple[str, int, bool]) -> Pieces:
        made = Pieces(*given)
        monkeypatch.setattr(user.app, "transport", lambda **location: made)
        monkeypatch.setattr(CliContext, "wait", lambda context, seconds: setattr(made, "waits", made.waits + 1))
        return made

    return of


def test_following(user: User, pieces: Callable[..., Pieces]) -> None:
    """B9: until it is over; a code that is cut in two is one code"""
    made = pieces(("one \x1b[3", 0, False), ("", 7, False), ("1mtwo", 7, False), ("", 12, True))
    assert user.says("logs", "1", "-f") == "one two\n"
    assert made.waits == 1


def test_what_is_there_now(user: User, pieces: Callable[..., Pieces]) -> None:
    """B9: without -f nobody waits; what was not kept is told"""
    made = pieces(("head", 0, False), ("tail", 104, False), ("", 108, False))
    result = user.types("logs", "1", "--raw")
    assert (result.stdout, made.waits) == ("headtail", 0)
    assert result.stderr == "… 100 bytes were not kept …\n"
    pieces(("head", 0, False), ("tail", 104, False), ("", 108, False))
    whole = {"text": "headtail", "offset": 0, "next": 108, "total": 108, "over": False}
    assert user.json("logs", "1") == whole


def test_nothing_printed(user: User, pieces: Callable[..., Pieces]) -> None:
    pieces(("", 0, True), ("", 0, True))  # on stdout, and on stderr
    assert "Run 1 has no output. Show the run: matins runs show 1\n" in user.types("logs", "1").stderr


def test_b22_run_has_inputs(user: User, turning: list[Callable[[], None]], bench: Sandbox, tmp_path: Path) -> None:
    """B22: text, JSON and a file; `why` and `runs show` say with what"""
    seen: list[Any] = []
    bench.job("report")(lambda run: seen.append(run.payload))
    added(user, "report", "--payload", '{"days": 7, "repo": "api"}')
    (tmp_path / "in.json").write_text('{"depth": 3, "days": 1}')
    words = ["-i", f"@{tmp_path}/in.json", "-i", "days:=30", "--input", "n=3", "--input", "text=a=b; rm -rf ~"]
    user.types("run", "s", "--wait", *words)
    assert seen == [{"days": 30, "repo": "api", "depth": 3, "n": "3", "text": "a=b; rm -rf ~"}]
    assert "By owner, with depth=3, days=30, n=3, text=a=b; rm -rf ~." in user.types("why", "s").stdout
    assert "input     depth=3, days=30" in user.types("runs", "show", "1").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--input", "x; rm -rf ~"], ['"x; rm -rf ~" is not an input.', "name=text, name:=JSON or @file.json"]),
        (["--input", "=3"], ['"=3" is not an input.']),
        (["--input", "n:=three"], ['"input.n" is no JSON: Expecting value', "Write name=text for a text."]),
        (["--input", f"n:={'[' * 100_000}"], ['"input.n" is no JSON']),
        (["--input", "@absent.json"], ["absent.json cannot be read: No such file or directory."]),
        (["--set", "days=30"], ["--set changes settings. To give something to this run: --input days=30"]),
        (["--input", "a-b=1", "--input", "a_b=1"], ["are both $INPUT_A_B"]),
        (["--input", f"x={'y' * 65_529}"], ["must be at most 65,536 bytes as JSON, not 65,537"]),
    ],
)
def test_b22_inputs_that_are_none_are_explained(user: User, words: list[str], says: list[str]) -> None:
    added(user, "work")
    result = user.types("run", "s", *words, code=2)
    shown = " ".join(result.stderr.split())
    assert all(one in shown for one in says), result.stderr
    assert "Traceback" not in result.stderr
    assert user.types("runs").stdout.startswith("No runs")


def test_b22_what_hides_in_an_input_is_written_out(user: User) -> None:
    """B22: a bidi mark in a name or a text changes no line"""
    added(user, "work")
    user.types("run", "s", "--input", "a\u202eb=c\u2066d\u200b")
    for words in (["why", "s"], ["runs", "show", "1"]):
        shown = user.types(*words).stdout
        assert "\\u202e" in shown
        assert not {"\u202e", "\u2066", "\u200b"} & set(shown)
