"""Hooks before a run, on every store, with a clock that the test moves. Rows P7, B1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_records import at, evidence, last, lines

from matins.engine.policies import BEFORE_RUN
from matins.errors import InvalidInput
from matins.testing import Sandbox, iso

HOURLY = "0 * * * *"


def by_file(bench: Sandbox, command: Any) -> dict[str, Any]:
    bench.hooks.set(BEFORE_RUN, command=command)
    return {}


def by_schedule(bench: Sandbox, command: Any) -> dict[str, Any]:
    return {"before_run": command}


BOTH = pytest.mark.parametrize("given", [by_file, by_schedule], ids=["file", "schedule"])
Given = Callable[[Sandbox, Any], dict[str, Any]]


@BOTH
@pytest.mark.parametrize("when", [HOURLY, "1h", "every day at 9am and 10am"], ids=["cron", "interval", "daily"])
def test_p7_a_hook_cancels_this_run_and_the_schedule_moves_on(
    bench: Sandbox, tmp_path: Path, given: Given, when: str
) -> None:
    """P7: by its exit code"""
    flag = tmp_path / "flag"
    flag.write_text("")
    bench.add("s", when=when, job="work", **given(bench, f"! test -e {flag}"))
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 skipped hook"]
    assert evidence(bench)["gate"] == ("file_hook" if given is by_file else "hook")
    assert (bench.get("s").state, iso(bench.get("s").next_run_at)) == ("active", at("10:00"))
    flag.unlink()
    bench.run_until(at("10:00"))
    assert lines(bench)[1:] == ["10:00 succeeded"]


@BOTH
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("""echo '{"cancel": true, "reason": "a holiday"}'""", "a holiday"),
        ("""echo thinking; echo '{"cancel": true, "reason": "a holiday"}'""", "a holiday"),
        ("""echo '{"cancel": true}'""", None),
        ("""echo '{"cancel": true, "reason": "first"}'; exit 2""", "first"),
        ("""echo no money >&2; exit 2""", "exit code 2: no money"),
    ],
)
def test_p7_it_says_why(bench: Sandbox, given: Given, command: str, reason: str | None) -> None:
    """P7: as JSON"""
    bench.add("s", when=HOURLY, job="work", **given(bench, command))
    bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 skipped hook"]
    assert evidence(bench)["message"] == reason


@BOTH
@pytest.mark.parametrize("command", ["""echo '{"cancel": false, "reason": "fine"}'""", "echo '{\"note\": 1}'", "true"])
def test_p7_it_lets_it_pass(bench: Sandbox, given: Given, command: str) -> None:
    """P7"""
    bench.add("s", when=HOURLY, job="work", **given(bench, command))
    bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 succeeded"]


@BOTH
def test_p7_what_it_is_told(bench: Sandbox, tmp_path: Path, given: Given) -> None:
    """P7: as JSON on its standard input, and in the environment"""
    note = tmp_path / "note"
    bench.add("s", when=HOURLY, job="work", **given(bench, f"cat > {note}; echo $MATINS_EVENT >> {note}"))
    bench.run_until(at("09:00"))
    context, event = note.read_text().splitlines()
    assert event == BEFORE_RUN
    told = json.loads(context)
    assert (told["event"], told["schedule"], told["run_id"]) == (BEFORE_RUN, "s", str(last(bench).id))


def test_p7_both_must_pass_in_their_order(bench: Sandbox, tmp_path: Path) -> None:
    """P7 C6: pre-check, the file's hook, the schedule's own"""
    note = tmp_path / "note"
    bench.hooks.set(BEFORE_RUN, command=f"echo file >> {note}")
    bench.add("s", when=HOURLY, job="work", pre_check=f"echo check >> {note}", before_run=f"echo own >> {note}")
    bench.run_until(at("09:00"))
    assert note.read_text().split() == ["check", "file", "own"]
    assert [said.gate for said in bench.runs.checks(last(bench).id)] == ["file_hook", "hook", "pre_check"]
    assert lines(bench) == ["09:00 succeeded"]


@pytest.mark.parametrize(
    ("against", "asked", "reason"),
    [("check", ["check"], "pre_check"), ("file", ["check", "file"], "hook"), ("own", ["check", "file", "own"], "hook")],
)
def test_p7_the_first_that_says_no_is_the_last_that_is_asked(
    bench: Sandbox, tmp_path: Path, against: str, asked: list[str], reason: str
) -> None:
    """P7 C6"""
    note = tmp_path / "note"

    def command(name: str) -> str:
        return f"echo {name} >> {note}; test {name} != {against}"

    bench.hooks.set(BEFORE_RUN, command=command("file"))
    bench.add("s", when=HOURLY, job="work", pre_check=command("check"), before_run=command("own"))
    bench.run_until(at("09:00"))
    assert note.read_text().split() == asked
    assert lines(bench) == [f"09:00 skipped {reason}"]


def test_the_files_hook_holds_for_every_schedule_until_it_is_dropped(bench: Sandbox) -> None:
    """P7"""
    bench.hooks.set(BEFORE_RUN, command="false")
    for name in ("a", "b"):
        bench.add(name, when=HOURLY, job="work")
    bench.run("a")
    bench.run_until(at("09:30"))
    assert (lines(bench, "a"), lines(bench, "b")) == (
        ["manual skipped hook", "09:00 skipped hook"],
        ["09:00 skipped hook"],
    )
    assert bench.hooks.delete(BEFORE_RUN) is True
    assert bench.hooks.delete(BEFORE_RUN) is False
    bench.run_until(at("10:00"))
    assert (lines(bench, "a")[2:], lines(bench, "b")[1:]) == (["10:00 succeeded"], ["10:00 succeeded"])


def test_a_hook_holds_after_a_restart(restart: Callable[..., Sandbox]) -> None:
    """P7"""
    first = restart()
    first.hooks.set(BEFORE_RUN, command="false")
    first.add("s", when=HOURLY, job="work")
    second = restart()
    second.run_until(at("09:00"))
    assert lines(second) == ["09:00 skipped hook"]


@BOTH
def test_a_one_shot_is_tried_again_and_then_missed(bench: Sandbox, given: Given) -> None:
    """P7"""
    bench.add("s", when=at("09:00"), job="work", grace="30m", **given(bench, "false"))
    bench.run_until(at("09:10"))
    assert lines(bench) == ["09:00 hook"]
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 missed hook"]


def test_a_hook_has_a_limit(bench: Sandbox) -> None:
    """P7"""
    bench.hooks.set(BEFORE_RUN, command="exec sleep 600", timeout="1s")
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert evidence(bench)["message"] == "the command did not end within 1 s"


def test_a_hook_set_while_a_run_waits_is_asked(bench: Sandbox) -> None:
    """P7 B8: it had not been checked"""
    bench.limits.set("agent:x", size=1)
    with bench._store.transaction(0) as transaction:
        assert transaction.take_permits("agent:x", [999])
    bench.add("s", when=HOURLY, job="work", agent="x")
    bench.run_until(at("09:10"))
    assert lines(bench) == ["09:00 ready"]
    bench.hooks.set(BEFORE_RUN, command="false")
    with bench._store.transaction(0) as transaction:
        transaction.release_permits([999])
    bench.run_until(at("09:20"))
    assert lines(bench) == ["09:00 skipped hook"]


@pytest.mark.parametrize(
    ("event", "command", "limit", "field"),
    [
        ("before:lunch", "true", "15s", "event"),
        (BEFORE_RUN, "/no/such/program", "15s", "command"),
        (BEFORE_RUN, "true", "a while", None),
        (BEFORE_RUN, "true", "0s", None),
    ],
)
def test_a_bad_hook_is_refused(bench: Sandbox, event: str, command: str, limit: str, field: str | None) -> None:
    """P7: nothing is written"""
    with pytest.raises(InvalidInput) as caught:
        bench.hooks.set(event, command=command, timeout=limit)
    assert field is None or caught.value.field == field
    bench.add("s", when=HOURLY, job="work")
    bench.run_until(at("09:00"))
    assert (lines(bench), bench.runs.checks(last(bench).id)) == (["09:00 succeeded"], [])
