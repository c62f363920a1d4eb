"""What a tree is held to, by the system and by its warden; nothing of it outlives its run."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_harness import PYTHON, Gate, Harness, Held, Marks, gone

from matins.executors.processes import proc, run_folder
from matins.executors.processes.launch import Limits

STUBBORN = "trap '' TERM HUP INT"
DAEMON = (
    "import os, signal, sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "held = os.open(sys.argv[1], os.O_WRONLY)\n"
    "said = os.open(sys.argv[2], os.O_WRONLY)\n"
    "os.closerange(0, 3)\n"
    "os.write(said, b'%d\\n' % os.getppid())\n"
    "signal.pause()"
)

HEADLESS = (
    "import ctypes, os, signal, sys, threading\n"
    "signal.alarm(100)\n"  # if nothing else ends it
    "for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
    "held = os.open(sys.argv[1], os.O_WRONLY)\n"
    "{more}\n"
    "def on():\n"
    "    while '(zombie)' not in open('/proc/self/status').read(): os.sched_yield()\n"
    "    os.write(os.open(sys.argv[2], os.O_WRONLY), b'\\n')\n"
    "    signal.pause()\n"
    "threading.Thread(target=on).start()\n"
    "ctypes.CDLL(None).syscall({exit}, 0)"
)
"""A process whose first thread ends alone: the system calls it a zombie, and its other threads go on."""
_EXIT_OF_A_THREAD = 60 if platform.machine() == "x86_64" else 93


def headless(held: Held, said: Marks, more: str = "") -> list[str]:
    return [*PYTHON, HEADLESS.format(more=more, exit=_EXIT_OF_A_THREAD), str(held.path), str(said.path)]


@pytest.mark.parametrize(
    "limits", [Limits(timeout_ms=100), Limits(idle_timeout_ms=100)], ids=["timeout", "idle_timeout"]
)
def test_b9_time_limits_end_a_run(harness: Harness, limits: Limits) -> None:
    outcome = harness.run("sleep", "1000", limits=limits)
    assert outcome.ended_by == ("timeout" if limits.timeout_ms else "idle_timeout")
    assert (outcome.kind, outcome.exit_code, outcome.signal) == ("finished", None, signal.SIGTERM)
    assert outcome.started_at is not None
    assert outcome.ended_at is not None
    assert outcome.ended_at - outcome.started_at >= 100


DRIVEN = """
import os, sys
from matins.executors.processes import keeper, proc, process_tree, run_folder
keeper.be_subreaper('driven')
now = 0
proc.boot_ms = lambda: now
gate = os.open(sys.argv[2], os.O_RDWR)
launch = dict(key='1-1', argv=['sh', '-c', sys.argv[3]], env=dict(os.environ), cwd='/', fsync=False)
launch |= dict(layout=None, account=None, attached=False, leased_at=None)
launch |= dict(secrets=[], finals=['final'], retries=['again'], stdout_file=False)
launch |= dict(head_bytes=100, tail_bytes=100, limits={limits!r})
it = process_tree.ProcessTree(launch, None, run_folder.RunFolder(sys.argv[1]), [1, 1])
def hear(size):
    os.write(gate, b'\\n')
    pipes = list(it.outputs.items())
    while sum(output.total_bytes for _, output in pipes) < size:
        for pipe, _ in pipes: it.read(pipe)
    assert not it.advance(now)
    return it.next_check_at()
it.begin()
{steps}
it.end('cancelled')
while not it.advance(now): now += 1
print(it.last_record()['ended_by'])
"""


def driven(tmp_path: Path, gate: Gate, command: str, limits: Limits, steps: str) -> str:
    """A run whose clock the steps move, in a process of its own: what they print, and what ended it."""
    script = DRIVEN.format(limits=limits._asdict(), steps=steps)
    command = [sys.executable, "-c", script, tmp_path / "home", gate.path, command.format(gate=f"read x < {gate.path}")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_output_keeps_a_run_from_being_idle(tmp_path: Path, gate: Gate) -> None:
    """On either stream: the time counts from the last byte."""
    command = "{gate}; echo 1; {gate}; echo 2 >&2; sleep 1000"
    steps = "now = 900; print(hear(2)); now = 1800; print(hear(4)); now = 2800; it.advance(now)"
    assert driven(tmp_path, gate, command, Limits(idle_timeout_ms=1_000), steps).split() == [
        "1900",
        "2800",
        "idle_timeout",
    ]


def test_b9_a_lease_ends_a_run_unless_it_is_renewed(tmp_path: Path, gate: Gate) -> None:
    """B9: since when it counts is said with each renewal; a late one takes nothing back"""
    steps = (
        "it.renew(700); print(it.next_check_at()); it.renew(200); now = 1699; it.advance(now); "
        "print(it.next_check_at()); now = 1700; it.advance(now)"
    )
    limits = Limits(timeout_ms=9_000, lease_ms=1_000)
    assert driven(tmp_path, gate, "sleep 1000", limits, steps).split() == ["1700", "1700", "lease"]


def test_b9_who_only_says_that_it_tries_again_is_idle(tmp_path: Path, gate: Gate) -> None:
    """B9: such lines are silence on either stream; anything beside them is not"""
    command = "{gate}; echo again; {gate}; echo again >&2; {gate}; echo again; echo more; sleep 1000"
    steps = (
        "now = 300; print(hear(6)); now = 600; print(hear(12)); now = 900; print(hear(23)); now = 1900; it.advance(now)"
    )
    assert driven(tmp_path, gate, command, Limits(idle_timeout_ms=1_000), steps).split() == [
        "1000",
        "1000",
        "1900",
        "idle_timeout",
    ]


def test_b9_who_talks_on_after_its_final_event_is_let(tmp_path: Path, gate: Gate) -> None:
    """B9: its time counts from the last thing that it said, on either stream; then it is ended."""
    command = "{gate}; echo final; {gate}; echo more; {gate}; echo more >&2; sleep 1000"
    steps = (
        "print(hear(6)); now = 900; print(hear(11)); now = 1800; print(hear(16))\n"
        "now = 2799; it.advance(now); print(it.next_check_at()); now = 2800; it.advance(now)"
    )
    limits = Limits(timeout_ms=100_000, idle_timeout_ms=50_000, exit_timeout_ms=1_000)
    said = driven(tmp_path, gate, command, limits, steps).split()
    assert said == ["1000", "1900", "2800", "2800", "exit_timeout"]


def test_b9_after_its_final_event_nobody_minds_that_it_is_silent(tmp_path: Path, gate: Gate) -> None:
    """B9: it has as long as it may stay then, though it may be silent for less before"""
    limits = Limits(idle_timeout_ms=500, exit_timeout_ms=1_000)
    steps = "print(it.next_check_at(), hear(6)); now = 999; it.advance(now); now = 1000; it.advance(now)"
    said = driven(tmp_path, gate, "{gate}; echo final; sleep 1000", limits, steps).split()
    assert said == ["500", "1000", "exit_timeout"]


def test_b9_who_hangs_after_its_final_event_is_ended(harness: Harness) -> None:
    """B9: the event comes in two writes, and its type at the end."""
    script = r"""printf '{"said": "all", "type" : "res'; sleep 0.05; printf 'ult"}\n'; sleep 1000"""
    final = ({"type": "result"}, {"type": "error"})
    outcome = harness.run("sh", "-c", script, finals=final, limits=Limits(exit_timeout_ms=100, idle_timeout_ms=60_000))
    assert (outcome.ended_by, outcome.signal) == ("exit_timeout", signal.SIGTERM)


def test_without_a_final_event_that_limit_does_not_begin(harness: Harness) -> None:
    """Also when the needle comes on stderr."""
    final = ("result",)
    outcome = harness.run(
        "sh", "-c", "echo resul; echo result >&2; sleep 0.3", finals=final, limits=Limits(exit_timeout_ms=1)
    )
    assert (outcome.exit_code, outcome.ended_by) == (0, None)


def test_b9_who_ignores_term_is_killed(harness: Harness, said: Marks) -> None:
    run = harness.sh(f"{STUBBORN}; echo > {said.path}; while :; do sleep 1000; done", limits=Limits(grace_ms=50))
    said.line()
    outcome = harness.end(run)
    assert (outcome.ended_by, outcome.signal) == ("cancelled", signal.SIGKILL)
    assert outcome.leftovers >= 1


def test_who_hears_term_may_say_goodbye(harness: Harness, said: Marks) -> None:
    run = harness.sh(f"trap 'echo goodbye; exit 8' TERM; echo > {said.path}; while :; do sleep 0.02; done")
    said.line()
    outcome = harness.end(run)
    assert (outcome.exit_code, outcome.ended_by) == (8, "cancelled")
    assert harness.output(run) == b"goodbye\n"


def test_who_is_stopped_hears_term_all_the_same(harness: Harness, said: Marks) -> None:
    run = harness.sh(f"trap 'exit 8' TERM; echo > {said.path}; kill -STOP $$; exit 9")
    said.line()
    assert harness.end(run).exit_code in (8, 9)


def test_b9_why_it_was_ended_stands_in_the_journal(harness: Harness, said: Marks) -> None:
    """B9: so that whoever adopts it knows, when the engine that ended it is gone."""
    run = harness.sh(f"echo > {said.path}; sleep 1000")
    said.line()
    harness.supervisor.end(run, 1, "budget")
    assert harness.wait(run).ended_by == "budget" == harness.records(run)[-1]["ended_by"]


def test_b5_who_is_over_budget_and_does_not_heed_term_is_killed_at_once(harness: Harness, said: Marks) -> None:
    """B5: opencode goes on for as long as it is left, and every turn costs."""
    script = f"{STUBBORN}; echo > {said.path}; while :; do sleep 1000; done"
    run = harness.sh(script, limits=Limits(grace_ms=3_600_000))
    said.line()
    harness.supervisor.end(run, 1, "budget")
    assert harness.wait(run).signal == signal.SIGKILL


def test_b9_daemons_end_with_their_run(harness: Harness, said: Marks, gate: Gate, held: Held) -> None:
    """A grandchild that forked twice, made a session of its own, closed everything, and ignores TERM."""
    daemon = [*PYTHON, DAEMON, str(held.path), str(said.path)]
    run = harness.start("sh", "-c", f'"$@"; read x < {gate.path}; exit 4', "sh", *daemon, limits=Limits(grace_ms=50))
    said.line()
    gate()
    outcome = harness.wait(run)
    assert held.is_let_go()
    assert (outcome.exit_code, outcome.ended_by, outcome.leftovers) == (4, None, 1)


@pytest.mark.skipif(not proc.HAS_PROC, reason="only Linux tells who descends from whom")
def test_b9_who_looks_dead_is_killed_too(harness: Harness, said: Marks, held: Held) -> None:
    """B9: its first thread has ended, so that the system calls it a zombie"""
    run = harness.start(*headless(held, said), limits=Limits(grace_ms=50))
    said.line()
    assert held.is_held()
    outcome = harness.end(run)
    assert (outcome.ended_by, outcome.signal) == ("cancelled", signal.SIGKILL)
    assert held.is_let_go()


@pytest.mark.skipif(not proc.HAS_PROC, reason="only Linux tells it")
def test_the_memory_and_the_mark_of_who_looks_dead_are_seen(harness: Harness, said: Marks, held: Held) -> None:
    run = harness.start(*headless(held, said, "x = bytearray(b'1') * 60_000_000"), limits=Limits(grace_ms=50))
    said.line()
    command = harness.command(run)
    assert proc.anonymous_bytes([command]) > 60_000_000
    mark = run_folder.warden_name(*harness.warden(run)[:2])
    assert command in proc.with_variable(f"{run_folder.WARDEN}={mark}")
    assert harness.end(run).signal == signal.SIGKILL


def test_daemons_that_die_early_leave_no_zombie(harness: Harness, said: Marks, gate: Gate) -> None:
    """They become the warden's children in the middle of the run, and it takes note of each."""
    run = harness.sh(
        f"for n in 1 2 3 4 5; do (setsid true &); done; sleep 0.1; echo > {said.path}; read x < {gate.path}"
    )
    said.line()
    warden = harness.warden(run)
    command = harness.command(run)
    while _children(warden.pid) != {command.pid}:
        pass
    gate()
    assert harness.wait(run).leftovers == 0


def _children(pid: int) -> set[int]:
    """Zombies among them."""
    everybody = (proc.read_process(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit())
    return {process.pid for process in everybody if process is not None and process.parent == pid}


@pytest.mark.parametrize(("step", "left"), [("now = 199; os.write(gate, b'\\n')", "0 5"), ("now = 200", "1 0")])
def test_what_ends_by_itself_right_after_the_command_is_let(tmp_path: Path, gate: Gate, step: str, left: str) -> None:
    """A pipe's other side may still be writing; what goes on longer than that is ended."""
    steps = (
        f"while it.next_check_at() != 200: it.advance(now)\n{step}\nwhile not it.advance(now): pass\n"
        "out = it.outputs[min(it.outputs)]; it.drain(); print(it.last_record()['leftovers'], out.total_bytes)"
    )
    assert driven(tmp_path, gate, "({gate}; echo late) & exit 0", Limits(), steps) == f"{left}\nNone\n"


def test_b9_a_fork_bomb_is_bounded_and_ended(harness: Harness, held: Held) -> None:
    """Each forks two, which ignore TERM; left alone there would be 2,000 of them."""
    bomb = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "held = os.open(sys.argv[1], os.O_WRONLY)\n"
        "for generation in range(11): os.fork()\n"
        "signal.pause()"
    )
    outcome = harness.run(*PYTHON, bomb, str(held.path), limits=Limits(processes=40, grace_ms=50))
    assert held.is_let_go()
    assert (outcome.ended_by, outcome.signal) == ("processes", signal.SIGKILL)
    assert outcome.leftovers >= 40


def test_a_tree_within_its_limits_is_left_alone(harness: Harness) -> None:
    limits = Limits(60_000, 60_000, 60_000, 50, 1 << 30, 60, 200, 20)
    script = "for n in 1 2 3 4 5; do sleep 0.7 & done; wait; echo done"
    outcome = harness.run("sh", "-c", script, limits=limits)
    assert (outcome.exit_code, outcome.ended_by, outcome.leftovers) == (0, None, 0)


def test_the_memory_of_a_whole_tree_is_limited(harness: Harness) -> None:
    """Each process is within it; together they are not."""
    hog = "x = bytearray(b'1') * 60_000_000; import time; time.sleep(1000)"
    quoted = " ".join(PYTHON)
    script = f'for n in 1 2 3; do {quoted} "{hog}" & done; wait'
    outcome = harness.run("sh", "-c", script, limits=Limits(memory_bytes=128_000_000, grace_ms=50))
    assert outcome.ended_by == "memory"


@pytest.mark.parametrize(
    ("limits", "script", "word"),
    [
        (Limits(memory_bytes=64_000_000), "x = bytearray(1_300_000_000)", "MemoryError"),
        (Limits(files=40), "import os; [os.pipe() for _ in range(30)]", "Too many open files"),
        (Limits(files=40), "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))", "not allowed"),
    ],
)
def test_the_system_s_limits_hold_and_cannot_be_raised(
    harness: Harness, limits: Limits, script: str, word: str
) -> None:
    settle = "import os, resource\nwhile resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 40 and {files}: pass\n"
    settle += "os.setuid(12345) if os.geteuid() == 0 else None\n"
    run = harness.start(*PYTHON, settle.format(files=limits.files is not None) + script, limits=limits)
    outcome = harness.wait(run)
    assert outcome.exit_code == 1
    assert word in harness.supervisor.files.tail(run, 1, stream=".err").decode()


def test_cpu_time_is_limited(harness: Harness) -> None:
    outcome = harness.run(*PYTHON, "while True: pass", limits=Limits(cpu_s=1))
    assert outcome.signal in (signal.SIGXCPU, signal.SIGKILL)
    assert outcome.ended_by == "cpu"
    assert 500 <= outcome.user_ms + outcome.system_ms < 4_000


def test_b16_the_size_of_a_file_is_limited(harness: Harness, tmp_path: Path) -> None:
    """B16: the end says which limit it was"""
    script = f"exec head -c 2000000 /dev/zero > {tmp_path / 'file'}"
    outcome = harness.run("sh", "-c", script, limits=Limits(file_bytes=1_000_000))
    assert (outcome.signal, outcome.ended_by) == (signal.SIGXFSZ, "file_size")


def test_a_warden_may_have_used_more_than_a_command_s_limit(harness: Harness) -> None:
    """The limit is its own for a moment, whatever it has used in its life."""
    harness.run("true")
    (warden,) = harness.wardens()
    while _cpu_s(warden.pid) < 1.2:
        assert (
            harness.run("sh", "-c", "yes aaaaaaaa | tr -d '\\n' | head -c 1000000", secrets=("a" * 20,)).exit_code == 0
        )
    for _ in range(3):
        assert harness.run("true", limits=Limits(cpu_s=1)).exit_code == 0
    assert harness.wardens() == [warden]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_limits_of_one_run_are_not_the_next_one_s(harness: Harness) -> None:
    """The same warden takes them on for a moment only."""
    limited = harness.start(
        "sh", "-c", "ulimit -n; ulimit -t; ulimit -d", limits=Limits(memory_bytes=1 << 28, cpu_s=9, files=50)
    )
    harness.wait(limited)
    free = harness.start("sh", "-c", "ulimit -n; ulimit -t; ulimit -d")
    harness.wait(free)
    assert harness.records(limited)[0]["warden"] == harness.records(free)[0]["warden"]
    assert harness.output(limited).split() == [b"50", b"9", b"%d" % ((1 << 18) + (1 << 20))]
    assert not set(harness.output(free).split()) & {b"50", b"9", b"%d" % ((1 << 18) + (1 << 20))}


def test_what_waits_for_a_warden_can_be_ended(harness: Harness) -> None:
    """Before there is a keeper at all."""
    canary = Path(harness.folder / "canary")
    run = harness.sh(f"echo > {canary}; sleep 1000")
    outcome = harness.end(run)
    assert outcome.kind == "never_started" or (outcome.ended_by == "cancelled" and outcome.signal == signal.SIGTERM)
    assert outcome.kind == "finished" or not canary.exists()


def test_h11_close_ends_every_tree(harness: Harness, said: Marks, held: Held) -> None:
    """H11: also those that do not want to; afterwards what became of them can be asked for."""
    runs = [
        harness.sh(
            f"{STUBBORN}; exec 9> {held.path}; echo > {said.path}; while :; do sleep 1000; done",
            limits=Limits(grace_ms=50),
        )
        for _ in range(3)
    ]
    for _ in runs:
        said.line()
    wardens = harness.wardens()
    harness.supervisor.close(leave_running=False)
    assert held.is_let_go()
    assert harness.supervisor.running() == 0
    assert [harness.wait(run).signal for run in runs] == [signal.SIGKILL] * 3
    assert all(gone(warden) for warden in wardens)


def test_without_knowing_who_descends_from_whom_the_group_is_ended(tmp_path: Path, held: Held) -> None:
    """As on macOS: TERM, then KILL to the process group; here in a process of its own, without a warden."""
    script = (
        "import os, sys\n"
        "from matins.executors.processes import proc, process_tree, run_folder\n"
        "from matins.executors.processes.launch import Limits\n"
        "proc.HAS_PROC = False\n"
        "launch = dict(key='1-1', argv=['sh', '-c', sys.argv[2]], env=dict(os.environ), cwd='/', fsync=False)\n"
        "launch |= dict(layout=None, account=None, attached=False, leased_at=None)\n"
        "launch |= dict(secrets=[], finals=[], retries=[], stdout_file=False, head_bytes=100, tail_bytes=100)\n"
        "launch |= dict(limits=Limits(grace_ms=50)._asdict())\n"
        "it = process_tree.ProcessTree(launch, None, run_folder.RunFolder(sys.argv[1]), [1, 1])\n"
        "it.begin()\n"
        "out, output = next(iter(it.outputs.items()))\n"
        "while output.total_bytes < 3: it.read(out)\n"
        "it.end('cancelled')\n"
        "while not it.advance(proc.boot_ms()): pass\n"
        "it.drain()\n"
        "print(it.last_record()['signal'])"
    )
    command = f"exec 9> {held.path}; trap '' TERM; sleep 1000 & echo up; wait"
    told = subprocess.run([sys.executable, "-c", script, tmp_path / "home", command], capture_output=True, text=True)
    assert told.stdout == f"{int(signal.SIGKILL)}\n", told.stderr
    assert held.is_let_go()
