"""A run that stops its supervisors: each of the three layers ends it alone, and an honest run is left alone."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_harness import PATIENCE, PYTHON, Gate, Harness, Held, Marks, gone, kill

from matins.executors.processes import proc, recovery
from matins.executors.processes.launch import Limits
from matins.executors.processes.walls import SIGNAL_VERSION, Layout, landlock_version, probe_here
from matins.executors.processes.watching import Deadline, SeenTime, Silence, Watching

Desks = Callable[..., Harness]
QUICK = Watching(turn_ms=20, heartbeat_ms=50, continue_ms=400, stopped_ms=1_200, silent_ms=60_000, late_ms=300)
"""The keeper keeps its seconds: it may start slowly."""
ENGINE_ONLY = QUICK._replace(prevent=False, max_stops=None)
PATIENT = ENGINE_ONLY._replace(continue_ms=600_000, stopped_ms=600_000, silent_ms=600_000)
"""Only deadlines count."""
KEEPER_ONLY = QUICK._replace(prevent=False, take_over=False)
UNWATCHED = KEEPER_ONLY._replace(max_stops=None)
scoped = pytest.mark.skipif(landlock_version() < SIGNAL_VERSION, reason="this kernel cannot keep signals inside")
SHORT = Limits(timeout_ms=2_000, grace_ms=200)
STOPS_ITS_WARDEN = "import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); "
SAYS = "open({said!r}, 'w').write('said\\n'); "
LASTS = "time.sleep(1000)"
LOOPS = "[os.kill(pid, signal.SIGSTOP) for pid in iter(os.getppid, None)]"


class Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self.lines.append(record.getMessage())
            self._changed.notify_all()

    def waits_for(self, line: str) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: line in self.lines, PATIENCE)


@pytest.fixture
def told() -> Iterator[Told]:
    handler = Told()
    logging.getLogger("matins").addHandler(handler)
    yield handler
    logging.getLogger("matins").removeHandler(handler)


@pytest.fixture(params=["open", "walled"])
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Layout | None:
    if request.param == "open":
        return None
    probe = probe_here()
    if not probe.works:
        pytest.skip(f"agents cannot be isolated here: {probe.problem}")
    return _layout(tmp_path)


def _layout(folder: Path) -> Layout:
    hidden = folder / "hidden"
    hidden.mkdir()
    return Layout((str(hidden),), (), ())


def _python(harness: Harness, script: str, **given: object) -> int:
    return harness.start(*PYTHON, script, **{"limits": SHORT, **given})


# -- each layer alone


def test_without_any_layer_a_stopped_warden_lets_its_run_go_on(desks: Desks, said: Marks, held: Held) -> None:
    """The control of all others: past timeout and grace, the run is there."""
    harness = desks(watching=UNWATCHED)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); {STOPS_ITS_WARDEN}"
    late = f"time.sleep(4); open({str(said.path)!r}, 'w').write('late\\n'); time.sleep(1000)"
    run = _python(harness, script + late)
    assert said.line() == "late"
    assert held.is_held()
    assert harness.supervisor.ended() == []
    proc.send([harness.warden(run)], signal.SIGCONT)
    assert harness.wait(run).ended_by == "timeout"


@scoped
def test_prevent_alone_an_isolated_command_cannot_signal_its_warden(desks: Desks, tmp_path: Path) -> None:
    harness = desks(watching=UNWATCHED._replace(prevent=True))
    tries = (
        "import os, signal\n"
        "for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGCONT, 0):\n"
        "    try: os.kill(os.getppid(), number); print('reached', number)\n"
        "    except PermissionError: print('refused')\n"
    )
    run = _python(harness, tries, layout=_layout(tmp_path), limits=Limits(timeout_ms=60_000))
    assert harness.wait(run).exit_code == 0
    assert harness.output(run).split() == [b"refused"] * 4


@scoped
def test_prevent_leaves_a_command_its_own_processes(desks: Desks, tmp_path: Path) -> None:
    """`timeout`, jobs of a shell, and several runs after each other in one warden."""
    harness = desks(watching=QUICK)
    script = "sleep 1000 & kill $!; wait $!; echo $?; timeout 0.1 sleep 1000; echo $?; timeout -s STOP 5 true; echo $?"
    layout = _layout(tmp_path)
    for _ in range(3):
        run = harness.sh(script, layout=layout)
        assert harness.wait(run).exit_code == 0
        assert harness.output(run).split() == [b"143", b"124", b"0"]
    assert len(harness.wardens()) == 1


def test_continue_alone_a_stopped_warden_goes_on_and_ends_its_run(desks: Desks, layout: Layout | None) -> None:
    harness = desks(watching=KEEPER_ONLY)
    run = _python(harness, STOPS_ITS_WARDEN + LASTS, layout=layout)
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGTERM, "timeout")


def test_continue_alone_a_run_that_stops_its_warden_again_and_again_is_ended(
    desks: Desks, layout: Layout | None, held: Held
) -> None:
    """The engine writes the last line, so the outcome is known."""
    harness = desks(watching=KEEPER_ONLY)
    script = f"import os, signal; kept = open({str(held.path)!r}, 'w'); {LOOPS}"
    run = _python(harness, script, layout=layout, limits=Limits(timeout_ms=15_000))
    outcome = harness.wait(run)
    assert outcome[:4] == ("finished", None, signal.SIGKILL, "supervisor")
    assert outcome.isolated is (layout is not None)
    assert held.is_let_go()
    assert harness.supervisor.reap(run, 1) == outcome
    assert harness.run("true").exit_code == 0


def test_a_warden_that_was_stopped_serves_no_other_run(desks: Desks, said: Marks, gate: Gate) -> None:
    """So the keeper counts the stops of one run."""
    harness = desks(watching=KEEPER_ONLY)
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}")
    said.line()
    warden = harness.warden(run)
    for _ in range(3):
        proc.send([warden], signal.SIGSTOP)
        while proc.is_stopped(warden):
            pass
    gate()
    assert harness.wait(run).exit_code == 0
    assert gone(warden)
    assert harness.run("true").exit_code == 0


def test_take_over_alone_after_the_timeout(desks: Desks, layout: Layout | None, held: Held) -> None:
    harness = desks(watching=PATIENT)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); print('begun', flush=True); "
    run = _python(harness, script + STOPS_ITS_WARDEN + LASTS, layout=layout)
    outcome = harness.wait(run)
    assert outcome[:4] == ("finished", None, signal.SIGKILL, "timeout")
    assert held.is_let_go()
    assert harness.supervisor.reap(run, 1) == outcome
    assert (outcome.isolated, outcome.stdout_bytes) == (layout is not None, 6)


def test_take_over_alone_after_silence(desks: Desks, layout: Layout | None, held: Held) -> None:
    harness = desks(watching=ENGINE_ONLY._replace(continue_ms=600_000))
    script = f"kept = open({str(held.path)!r}, 'w'); "
    run = _python(harness, script + STOPS_ITS_WARDEN + LASTS, layout=layout, limits=Limits())
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGKILL, "supervisor")
    assert held.is_let_go()
    assert harness.run("true").exit_code == 0


def test_take_over_alone_of_a_warden_that_is_stopped_whenever_it_was_continued(
    desks: Desks, layout: Layout | None, held: Held, told: Told
) -> None:
    """It may answer in between, so it is not silent; and its run has no timeout."""
    harness = desks(watching=ENGINE_ONLY._replace(stopped_ms=600_000))
    script = f"import os, signal; kept = open({str(held.path)!r}, 'w'); {LOOPS}"
    run = _python(harness, script, layout=layout, limits=Limits())
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGKILL, "supervisor")
    assert held.is_let_go()
    assert told.lines.count(f"The warden of run {run} does not answer; it was continued.") >= 4
    assert harness.run("true").exit_code == 0


@pytest.mark.parametrize("reason", ["cancelled", "budget"])
def test_take_over_alone_after_a_request(
    desks: Desks, layout: Layout | None, said: Marks, held: Held, reason: str
) -> None:
    harness = desks(watching=PATIENT)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); {STOPS_ITS_WARDEN}"
    run = _python(
        harness, script + SAYS.format(said=str(said.path)) + LASTS, layout=layout, limits=Limits(grace_ms=200)
    )
    said.line()
    harness.supervisor.end(run, 1, reason)  # type: ignore[arg-type]
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGKILL, reason)
    assert held.is_let_go()


def test_take_over_alone_at_the_shutdown(desks: Desks, layout: Layout | None, said: Marks, held: Held) -> None:
    harness = desks(watching=PATIENT)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); {STOPS_ITS_WARDEN}"
    run = _python(
        harness, script + SAYS.format(said=str(said.path)) + LASTS, layout=layout, limits=Limits(grace_ms=200)
    )
    said.line()
    harness.supervisor.close(leave_running=False)
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGKILL, "cancelled")
    assert held.is_let_go()


def test_take_over_with_the_keeper_stopped_too(desks: Desks, layout: Layout | None, held: Held) -> None:
    """Once: all are continued. Every layer is on but the first, as on a kernel without Landlock 6."""
    harness = desks(watching=QUICK._replace(prevent=False, keeper_continue_ms=2_000, keeper_stopped_ms=4_000))
    assert harness.run("true").exit_code == 0
    keeper = harness.keeper()
    script = f"import os, signal; kept = open({str(held.path)!r}, 'w'); os.kill({keeper.pid}, signal.SIGSTOP); "
    run = _python(harness, script + STOPS_ITS_WARDEN + LASTS, layout=layout)
    assert harness.wait(run).ended_by == "timeout"
    assert held.is_let_go()
    assert harness.run("true").exit_code == 0


def test_take_over_with_the_keeper_stopped_in_a_loop_too(
    desks: Desks, layout: Layout | None, held: Held, said: Marks, gate: Gate
) -> None:
    """From several processes, in sessions of their own, without the mark."""
    harness = desks(watching=QUICK._replace(prevent=False, keeper_continue_ms=2_000, keeper_stopped_ms=4_000))
    assert harness.run("true").exit_code == 0
    keeper = harness.keeper()
    script = (
        f"import os, signal; kept = open({str(held.path)!r}, 'w'); os.set_inheritable(kept.fileno(), True)\n"
        f"warden = os.getppid()\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0: break\n"
        "        os._exit(0)\n"
        "while True:\n"
        f"    for pid in ({keeper.pid}, warden):\n"
        "        try: os.kill(pid, signal.SIGSTOP)\n"
        "        except OSError: pass\n"
    )
    run = _python(harness, script, layout=layout, limits=Limits())
    outcome = harness.wait(run)
    assert outcome[:4] == ("finished", None, signal.SIGKILL, "supervisor")
    assert held.is_let_go()
    later = [harness.sh(f"echo > {said.path}; read x < {gate.path}") for _ in range(4)]
    for _ in later:
        said.line()
    gate(4)
    assert all(harness.wait(number).exit_code == 0 for number in later), "the keeper was continued, or is another one"


def test_take_over_of_an_adopted_run(desks: Desks, layout: Layout | None, said: Marks, gate: Gate, held: Held) -> None:
    """Its deadline comes with the answer of its warden."""
    first = desks(watching=ENGINE_ONLY)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); {SAYS.format(said=str(said.path))}"
    stops = f"open({str(gate.path)!r}).readline(); {STOPS_ITS_WARDEN}"
    run = _python(first, script + stops + LASTS, layout=layout, limits=Limits(timeout_ms=4_000, grace_ms=200))
    said.line()
    first.supervisor.close(leave_running=True)
    second = desks(watching=PATIENT._replace(heartbeat_ms=600_000))
    assert second.supervisor.reap(run, 1).kind == "running"
    gate()
    assert second.wait(run)[:4] == ("finished", None, signal.SIGKILL, "timeout")
    assert held.is_let_go()


def test_a_run_whose_warden_was_stopped_before_the_engine_came_is_ended(desks: Desks, said: Marks, held: Held) -> None:
    """It does not even answer to the first word."""
    first = desks(watching=UNWATCHED)
    script = f"import os, signal; kept = open({str(held.path)!r}, 'w'); {SAYS.format(said=str(said.path))}"
    run = _python(first, script + LOOPS, limits=Limits())
    said.line()
    first.supervisor.close(leave_running=True)
    second = desks(watching=ENGINE_ONLY)
    assert second.supervisor.reap(run, 1).kind == "running"
    assert second.wait(run).ended_by == "supervisor"
    assert held.is_let_go()


# -- the rules, with a clock that is driven


_SIGNALLED = """
import os, signal
from matins.executors.processes.warden import WATCHED_SIGNALS, signals_as_bytes
signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
os.kill(os.getpid(), signal.SIGTERM)
reading, writing = signals_as_bytes()
print(*reading.recv(10))
"""


def test_a_signal_that_comes_while_a_warden_begins_is_heard_by_it() -> None:
    """The keeper blocks signals while it forks; the warden hears them on a socket of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", _SIGNALLED], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (ended.stdout, ended.stderr) == (f"{int(signal.SIGTERM)}\n", "")


def test_a_deadline_is_the_timeout_and_the_grace() -> None:
    deadline = Deadline(200)
    deadline.timeout_at = 1_000
    assert deadline.missed_by(now=999, at=10) < 0
    assert deadline.missed_by(now=1_000, at=11) == -200
    assert deadline.missed_by(now=1_200, at=211) == 0
    assert deadline.reason == "timeout"


def test_a_request_brings_the_deadline_forward_and_a_budget_has_a_short_grace() -> None:
    deadline = Deadline(5_000)
    deadline.require("budget", at=0)
    assert (deadline.missed_by(now=0, at=1_000), deadline.reason) == (0, "budget")
    deadline.require("cancelled", at=500)
    assert (deadline.missed_by(now=0, at=1_000), deadline.reason) == (0, "budget"), "the first one counts"


def test_time_asleep_counts_neither_as_silence_nor_as_lateness() -> None:
    """Eight hours are two turns: both sides slept."""
    time = SeenTime(now=0, turn_ms=1_000)
    silence, deadline = Silence(time.advance(500)), Deadline(5_000)
    silence.ask(time.at)
    deadline.timeout_at = 60_000
    at = time.advance(8 * 3_600_000)
    assert silence.lasts(at) == 2_000
    assert deadline.missed_by(8 * 3_600_000, at) == -5_000, "the warden has its whole grace"
    assert time.advance(0) == at, "a clock that goes back is no time"


def test_an_answer_ends_the_silence() -> None:
    silence = Silence(0)
    assert not silence.is_due(4_999, 5_000)
    assert silence.is_due(5_000, 5_000)
    silence.ask(5_000)
    silence.ask(7_000)
    assert silence.lasts(15_000) == 10_000, "the first question counts"
    assert not silence.is_to_be_continued(14_999, 10_000)
    assert silence.is_to_be_continued(15_000, 10_000)
    silence.note_continued(15_000)
    assert not silence.is_to_be_continued(24_999, 10_000)
    assert silence.is_to_be_continued(25_000, 10_000), "it may have been stopped again"
    assert not silence.is_due(15_000, 5_000), "one question at a time"
    silence.hear(16_000)
    assert (silence.lasts(40_000), silence.is_to_be_continued(40_000, 10_000)) == (0, False)


# -- the honest


class Clock:
    """Boot time, and what is added to it."""

    def __init__(self) -> None:
        self.added_ms = 0

    def __call__(self) -> int:
        return proc.boot_ms() + self.added_ms


def test_after_a_suspend_the_runs_go_on(desks: Desks, said: Marks, gate: Gate, told: Told) -> None:
    """A warden that was asked before it, and could not answer, is neither continued nor replaced."""
    clock = Clock()
    harness = desks(watching=PATIENT, clock=clock)
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 7")
    said.line()
    warden, supervisor = harness.warden(run), harness.supervisor
    proc.send([warden], signal.SIGSTOP)
    (watched,) = supervisor._wardens.values()
    while watched.silence.lasts(supervisor._time.at) <= 2 * PATIENT.heartbeat_ms:
        pass
    for _ in range(3):
        clock.added_ms += 8 * 3_600_000
        looked = supervisor._check_at
        supervisor._thread.wake()
        while supervisor._check_at == looked:
            pass
    proc.send([warden], signal.SIGCONT)
    gate()
    assert harness.wait(run)[:4] == ("finished", 7, None, None)
    assert told.lines == []


def test_a_slow_warden_that_answers_in_the_end_is_left_alone(desks: Desks, said: Marks, gate: Gate, told: Told) -> None:
    """It is stopped for a while, longer than it takes to continue it; but it lives, so its run ends as it wanted."""
    harness = desks(watching=ENGINE_ONLY._replace(stopped_ms=600_000))
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 4", limits=Limits(timeout_ms=600_000))
    said.line()
    warden = harness.warden(run)
    for _ in range(2):
        told.lines.clear()
        proc.send([warden], signal.SIGSTOP)
        assert told.waits_for(f"The warden of run {run} does not answer; it was continued.")
    gate()
    assert harness.wait(run)[:4] == ("finished", 4, None, None)


def test_a_warden_that_waits_for_a_disk_is_not_stopped(desks: Desks, said: Marks, gate: Gate) -> None:
    """Silence of a process that is not stopped counts by the longer limit."""
    harness = desks(watching=ENGINE_ONLY)
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 4")
    said.line()
    supervisor = harness.supervisor
    (warden,) = supervisor._wardens.values()
    warden.silence.ask(-1_000_000)
    assert not supervisor._is_given_up(warden, proc.boot_ms(), -1_000_000 + QUICK.silent_ms - 1)
    assert supervisor._is_given_up(warden, proc.boot_ms(), -1_000_000 + QUICK.silent_ms)
    gate()
    assert harness.wait(run).exit_code == 4


# -- the keeper


def test_a_stopped_keeper_is_continued(desks: Desks, said: Marks, gate: Gate, told: Told) -> None:
    harness = desks(watching=ENGINE_ONLY._replace(keeper_continue_ms=2_000))
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}")
    said.line()
    keeper = harness.keeper()
    proc.send([keeper], signal.SIGSTOP)
    later = harness.sh(f"echo > {said.path}; read x < {gate.path}")
    said.line()
    assert "The keeper does not answer; it was continued." in told.lines
    gate(2)
    assert harness.wait(run).exit_code == harness.wait(later).exit_code == 0
    assert harness.keeper() == keeper


def test_a_keeper_that_stays_silent_is_replaced_and_wardens_go_on(
    desks: Desks, said: Marks, gate: Gate, held: Held, told: Told
) -> None:
    """With it ends what a killed warden had left to it, also without the mark."""
    harness = desks(watching=ENGINE_ONLY._replace(keeper_continue_ms=4_000, keeper_stopped_ms=4_000))
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 3")
    said.line()
    left = harness.sh(f"exec 9> {held.path}; (env -i setsid sleep 1000 &); echo > {said.path}; read x < {gate.path}")
    said.line()
    keeper, warden = harness.keeper(), harness.warden(left)
    proc.send([keeper], signal.SIGSTOP)
    kill(warden)
    assert harness.wait(left).kind == "unknown"
    later = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 5")
    said.line()
    assert gone(keeper)
    assert held.is_let_go()
    assert "The keeper does not answer; it was ended." in told.lines
    gate(2)
    assert (harness.wait(run).exit_code, harness.wait(later).exit_code) == (3, 5)


def test_a_stopped_keeper_whose_socket_is_gone_is_replaced(desks: Desks) -> None:
    """It keeps the lock; the next one cannot reach it."""
    first = desks(watching=ENGINE_ONLY)
    assert first.run("true").exit_code == 0
    keeper = first.keeper()
    proc.send([keeper], signal.SIGSTOP)
    (first.folder / "keeper.sock").unlink()
    second = desks(watching=ENGINE_ONLY)
    assert second.run("true").exit_code == 0
    assert gone(keeper)


# -- what else a run does to its supervisor


def test_a_run_that_kills_its_warden_is_ended(desks: Desks, layout: Layout | None, held: Held) -> None:
    harness = desks(watching=KEEPER_ONLY)
    script = f"import os, signal, time; kept = open({str(held.path)!r}, 'w'); os.kill(os.getppid(), signal.SIGKILL); "
    outcome = harness.wait(_python(harness, script + LASTS, layout=layout, limits=Limits()))
    assert outcome.kind == "unknown"
    assert held.is_let_go()


def test_a_run_that_leaves_its_session_and_its_mark_is_ended(desks: Desks, layout: Layout | None, held: Held) -> None:
    """Two forks and an empty environment, with the warden stopped: what has no parent is the warden's."""
    harness = desks(watching=PATIENT)
    script = f"exec 9> {held.path}; (env -i setsid sh -c 'trap \"\" TERM; sleep 1000' &); kill -STOP $PPID; sleep 1000"
    outcome = harness.wait(harness.sh(script, layout=layout, limits=SHORT))
    assert outcome.ended_by == "timeout"
    assert outcome.leftovers >= 2
    assert held.is_let_go()


def test_a_full_disk_does_not_keep_the_run(
    desks: Desks, said: Marks, held: Held, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    harness = desks(watching=PATIENT)
    script = f"import time; kept = open({str(held.path)!r}, 'w'); {STOPS_ITS_WARDEN}"
    run = _python(harness, script + SAYS.format(said=str(said.path)) + LASTS)
    said.line()

    def full(journal: int, record: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recovery.journal, "append", full)
    assert harness.wait(run).ended_by == "timeout"
    assert held.is_let_go()
    assert any("could not be written" in line for line in told.lines)


def test_a_file_that_is_too_large_to_read_does_not_block_the_warden(desks: Desks) -> None:
    """stdout is a file for some tools; a command can make it as large as it likes, at no cost."""
    harness = desks(watching=KEEPER_ONLY)
    script = "import os, time; print('begun', flush=True); os.ftruncate(1, 1 << 60); os.write(1, b'end\\n'); "
    run = _python(harness, script + LASTS, stdout_file=True)
    outcome = harness.wait(run)
    assert outcome[:4] == ("finished", None, signal.SIGTERM, "timeout")
    assert outcome.stdout_bytes == (1 << 60) + 4
    assert outcome.truncated
    assert harness.output(run).startswith(b"begun\n")
    assert harness.supervisor.files.tail(run, 1).endswith(b"end\n")
