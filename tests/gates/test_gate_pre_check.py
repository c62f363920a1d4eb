"""The pre-check, on every store, with a clock that the test moves. Rows C6, B1."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gate_records import at, evidence, last, lines, moment, told

from executors.commanding import limit_at
from matins.errors import InvalidInput
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """Where commands of a test write."""
    return tmp_path / "note"


def test_c6_exit_code_0_passes(bench: Sandbox) -> None:
    """C6: and what it said is kept"""
    bench.add("s", when=HOURLY, job="work", pre_check="echo all well; echo hm >&2")
    bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 succeeded"]
    (said,) = bench.runs.checks(last(bench).id)
    assert (said.gate, said.verdict, said.exit_code) == ("pre_check", "pass", 0)
    assert (said.output, iso(said.at)) == ("all well\n\n[errors]\nhm\n", at("09:00"))


@pytest.mark.parametrize("when", [HOURLY, "1h", "every day at 9am and 10am"], ids=["cron", "interval", "daily"])
def test_c6_anything_else_skips_this_fire_and_no_other(bench: Sandbox, note: Path, when: str) -> None:
    """C6: the next normal slot, no fast retry"""
    note.write_text("x")
    bench.add("s", when=when, job="work", pre_check=f"! test -e {note} || exit 3")
    bench.run_until(at("09:59"))
    assert lines(bench) == ["09:00 skipped pre_check"]
    assert evidence(bench) == {"gate": "pre_check", "message": "exit code 3", "exit_code": 3}
    assert iso(bench.get("s").next_run_at) == at("10:00")
    note.unlink()
    bench.run_until(at("10:00"))
    assert lines(bench)[1:] == ["10:00 succeeded"]
    assert [data["reason"] for data in told(bench, "run.skipped")] == ["pre_check"]


def test_c6_what_it_is_told(bench: Sandbox, note: Path) -> None:
    """C6: by the environment, and as JSON on its standard input"""
    bench.add("s", when=HOURLY, job="work", agent="scout", pre_check=f"(env; cat) > {note}", payload={"a": ["ß"]})
    bench.run_until(at("09:00"))
    first = note.read_text()
    assert "PRECHECK_LAST_RUN=\n" in first, "it has not run yet"
    bench.run_until(at("10:00"))
    *environment, told_json = note.read_text().splitlines()
    run = last(bench)
    assert {
        f"PRECHECK_LAST_RUN={instant(at('09:00'))}", "MATINS_EVENT=pre_check", "MATINS_SCHEDULE=s",
        "MATINS_AGENT=scout", f"MATINS_RUN_ID={run.id}", f"MATINS_SLOT={instant(at('10:00'))}",
    } <= set(environment)  # fmt: skip
    assert json.loads(told_json) == {
        "event": "before:schedule:trigger", "schedule": "s", "schedule_id": run.schedule_id, "agent": "scout",
        "run_id": run.id, "slot": instant(at("10:00")), "now": instant(at("10:00")),
        "last_run": instant(at("09:00")), "attempt": 1, "job": "work", "payload": {"a": ["ß"]}, "input": {"a": ["ß"]},
    }  # fmt: skip


def test_c6_the_last_run_is_the_last_that_succeeded(bench: Sandbox, note: Path) -> None:
    """C6: not one that failed or was skipped"""
    outcomes = [None, ValueError(), None]

    @bench.job("act")
    def act(run: Any) -> None:
        outcome = outcomes.pop(0)
        if outcome:
            raise outcome

    bench.add("s", when=HOURLY, job="act", pre_check=f"echo ${{PRECHECK_LAST_RUN:-never}} >> {note}")
    bench.run_until(at("11:00"))
    assert note.read_text().split() == ["never", *[str(instant(at("09:00")))] * 2]


def test_c6_in_the_folder_of_the_store(restart: Callable[..., Sandbox], tmp_path: Path, kept_url: str) -> None:
    """C6"""
    bench = restart()
    bench.add("s", when=HOURLY, job="work", pre_check="pwd")
    bench.run_until(at("09:00"))
    (said,) = bench.runs.checks(last(bench).id)
    here = tmp_path if kept_url.startswith("sqlite") else Path.cwd()
    assert said.output.strip() == str(here)


def test_c6_one_that_takes_too_long_is_ended(bench: Sandbox, note: Path) -> None:
    """C6: and says no; here its time is over as soon as it has begun"""
    pre_check = f"echo begun; echo >{note}; exec sleep 600"
    bench.add("s", when=HOURLY, job="work", pre_check=pre_check, check_timeout="90s")
    with limit_at(bench.checking._commands, note):
        bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 skipped pre_check"]
    assert evidence(bench)["message"] == "the command did not end within 90 s"
    (said,) = bench.runs.checks(last(bench).id)
    assert (said.exit_code, said.output, said.duration_ms) == (None, "begun\n", 90_000)


def test_one_that_vanished_says_no(bench: Sandbox, note: Path) -> None:
    """C6: it was there when the schedule was made"""
    note.write_text("#!/bin/sh\n")
    note.chmod(0o755)
    bench.add("s", when=HOURLY, job="work", pre_check=[str(note)])
    note.unlink()
    bench.run_until(at("09:00"))
    assert lines(bench) == ["09:00 skipped pre_check"]
    assert "cannot be used: No such file or directory" in evidence(bench)["message"]


def test_a_command_that_cannot_run_is_refused(bench: Sandbox) -> None:
    """C6"""
    with pytest.raises(InvalidInput) as caught:
        bench.add("s", when=HOURLY, job="work", pre_check="/no/such/program")
    assert caught.value.field == "pre_check"
    assert bench.list() == []


def test_what_is_started_by_hand_is_checked_too(bench: Sandbox) -> None:
    """C6"""
    bench.add("s", when=HOURLY, job="work", pre_check="false")
    bench.run("s")
    bench.settle()
    assert lines(bench) == ["manual skipped pre_check"]


def test_it_is_checked_once_however_often_it_is_tried(bench: Sandbox, note: Path) -> None:
    """C6 B8: a retry of a run that was checked is not checked again"""
    bench.add("s", when=HOURLY, job="fail", retries=2, retry_delay="1m", pre_check=f"echo x >> {note}")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 failed"]
    assert last(bench).attempt == 3
    assert note.read_text() == "x\n"


# -- one-shots


def test_c6_a_one_shot_is_tried_again_until_it_may(bench: Sandbox, note: Path) -> None:
    """C6: it has no other slot"""
    bench.add("s", when=at("09:00"), job="work", pre_check=f"test -e {note}")
    bench.run_until(at("09:20"))
    assert lines(bench) == ["09:00 pre_check"]
    assert (last(bench).state, evidence(bench)["exit_code"]) == ("waiting", 1)
    assert len(bench.runs.checks(last(bench).id)) >= 3
    note.write_text("")
    bench.run_until(at("09:40"))
    assert lines(bench) == ["09:00 succeeded"]
    assert bench.get("s").state == "completed"


def test_c6_later_and_later_but_never_late(bench: Sandbox) -> None:
    """C6: a minute at first, a quarter of an hour at the most"""
    bench.add("s", when=at("09:00"), job="work", pre_check="false")
    bench.run_until(at("12:00"))
    tried = [instant(said.at) - instant(at("09:00")) for said in bench.runs.checks(last(bench).id)]
    gaps = [b - a for a, b in pairwise(tried)]
    assert (tried[0], gaps[0], gaps == sorted(gaps), max(gaps)) == (0, 60_000, True, 900_000)


def test_c6_a_one_shot_is_missed_when_its_grace_is_over(bench: Sandbox) -> None:
    """C6: and told"""
    bench.add("s", when=at("09:00"), job="work", pre_check="false", grace="30m")
    bench.run_until(at("08:59"))
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 missed pre_check"]
    run = last(bench)
    assert run.ended_at is not None
    assert moment("09:15") < run.ended_at <= moment("09:30")
    assert [data["reason"] for data in told(bench, "run.missed")] == ["pre_check"]
    assert bench.get("s").state == "completed"


def test_a_one_shot_is_tried_again_after_a_restart(restart: Callable[..., Sandbox], note: Path) -> None:
    """C6"""
    first = restart()
    first.add("s", when=at("09:00"), job="work", pre_check=f"test -e {note}")
    first.run_until(at("09:20"))
    note.write_text("")
    first.clock.advance_to(at("14:00"))
    second = restart()
    second.settle()
    assert lines(second) == ["09:00 succeeded"]


# -- processes that come and go


def test_c6_a_process_that_died_while_it_checked(restart: Callable[..., Sandbox], note: Path) -> None:
    """C6: after its deadline another one checks, under another epoch"""
    first = restart()
    first.add("s", when=HOURLY, job="work", pre_check=f"echo x >> {note}", check_timeout="5s")
    first.clock.advance_to(at("09:00"))
    first.engine.turn()
    assert lines(first) == ["09:00 checking"]
    epoch = last(first).epoch
    second = restart()
    second.run_until(at("09:00:24"))
    assert lines(second) == ["09:00 checking"]
    second.run_until(at("09:00:25"))
    assert lines(second) == ["09:00 succeeded"]
    (said,) = second.runs.checks(last(second).id)
    assert said.epoch > epoch
    assert note.read_text() == "x\nx\n"


@pytest.mark.parametrize("verdict", ["true", "false"])
def test_c6_a_verdict_that_comes_too_late_counts_no_more(restart: Callable[..., Sandbox], verdict: str) -> None:
    """C6: somebody else checks it already; what it said is kept all the same"""
    first = restart()
    first.add("s", when="0 9 * * *", job="work", pre_check=verdict)
    first.clock.advance_to(at("09:00"))
    first.engine.turn()
    second = restart()
    second.clock.advance_to(at("09:00:40"))
    second.engine.turn()
    before = last(second)
    assert (before.status, before.epoch > 1) == ("checking", True)
    first.engine.turn()
    assert last(second) == before
    assert [said.epoch for said in second.runs.checks(before.id)] == [1]
    second.settle()
    assert lines(second) == ["09:00 succeeded" if verdict == "true" else "09:00 skipped pre_check"]


def test_a_verdict_on_a_run_that_is_over(bench: Sandbox) -> None:
    """C6: cancelled, or its schedule removed, while it was checked"""
    bench.add("s", when=HOURLY, job="work", pre_check="true")
    bench.clock.advance_to(at("09:00"))
    bench.engine.turn()
    bench.runs.cancel(last(bench).id)
    bench.settle()
    assert lines(bench) == ["09:00 cancelled"]
    bench.clock.advance_to(at("10:00"))
    bench.engine.turn()
    run_id = last(bench).id
    bench.delete("s")
    bench.settle()
    assert bench.runs.get(run_id).state == "cancelled"


def test_more_than_can_be_checked_at_once_wait_their_turn(bench: Sandbox, note: Path) -> None:
    """C6 V3: none is lost"""
    bench.checking.capacity = lambda: 3 - len(bench.checking.results)  # type: ignore[method-assign]
    for n in range(10):
        bench.add(f"s{n}", when="0 9 * * *", job="work", pre_check=f"echo x >> {note}")
    bench.run_until(at("09:01"))
    assert [lines(bench, f"s{n}") for n in range(10)] == [["09:00 succeeded"]] * 10
    assert note.read_text() == "x\n" * 10


def test_a_check_that_cannot_be_made_says_no(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6 B1: whatever goes wrong in it, the run gets its end and the schedule goes on"""
    bench.add("s", when=HOURLY, job="work", pre_check="true")
    with monkeypatch.context() as broken:
        broken.setattr("matins.executors.commands.Launch", None)
        bench.run_until(at("09:30"))
    bench.run_until(at("10:00"))
    assert [line.split()[1] for line in lines(bench)] == ["blocked", "succeeded"]


def test_what_it_printed_is_bounded(bench: Sandbox) -> None:
    """C6"""
    bench.add("s", when=HOURLY, job="work", pre_check="head -c 1000000 /dev/zero | tr '\\0' x; printf '\\000\\377'")
    bench.run_until(at("09:00"))
    (said,) = bench.runs.checks(last(bench).id)
    assert len(said.output) < 20_000
    assert lines(bench) == ["09:00 succeeded"]
