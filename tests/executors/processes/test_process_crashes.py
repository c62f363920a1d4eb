"""Engines, wardens and keepers that die: what became of each run is found out, and nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from process_harness import PATIENCE, Gate, Harness, Held, Marks, gone, kill

from matins.executors.processes import proc, run_folder
from matins.executors.processes.channel import Channel
from matins.executors.processes.launch import Limits
from matins.executors.processes.watching import Watching

UNWATCHED = Watching(max_stops=None, take_over=False)
"""Who is stopped stays so."""
Desks = Callable[..., Harness]


# -- the engine goes


def test_b9_a_run_that_goes_on_is_adopted(desks: Desks, said: Marks, gate: Gate) -> None:
    first = desks()
    run = first.sh(f"echo before; echo > {said.path}; read x < {gate.path}; echo after; exit 6")
    said.line()
    first.supervisor.close(leave_running=True)
    second = desks()
    outcome = second.supervisor.reap(run, 1)
    assert outcome.kind == "running"
    assert outcome.started_at is not None
    assert second.supervisor.running() == 1
    assert second.supervisor.reap(run, 1).kind == "running"
    gate()
    assert second.wait(run).exit_code == 6
    assert second.output(run) == b"before\nafter\n"
    assert second.supervisor.reap(run, 1).exit_code == 6
    assert second.run("true").exit_code == 0


def test_an_adopted_run_can_be_ended_and_keeps_its_limits(desks: Desks, said: Marks) -> None:
    first = desks()
    stubborn = first.sh(f"trap '' TERM; echo > {said.path}; while :; do sleep 100; done", limits=Limits(grace_ms=50))
    limited = first.sh(f"echo > {said.path}; sleep 100", limits=Limits(timeout_ms=1_500))
    said.line(), said.line()
    first.supervisor.close(leave_running=True)
    second = desks()
    second.supervisor.end(stubborn, 1)  # without being asked what became of it
    assert second.wait(stubborn)[:4] == ("finished", None, signal.SIGKILL, "cancelled")
    assert second.supervisor.reap(limited, 1).kind in ("running", "finished")
    if second.supervisor.running():
        second.wait(limited)
    assert second.supervisor.reap(limited, 1).ended_by == "timeout"


def test_b9_a_run_that_ended_while_nobody_was_there_is_read(desks: Desks, said: Marks, gate: Gate) -> None:
    first = desks()
    run = first.sh(f"echo > {said.path}; read x < {gate.path}; echo done; exit 3")
    said.line()
    warden, keeper = first.warden(run), first.keeper()
    first.supervisor.close(leave_running=True)
    gate()
    assert gone(warden), "it has no engine and no run"
    assert gone(keeper), "it has no engine and no warden"
    second = desks()
    outcome = second.supervisor.reap(run, 1)
    assert (outcome.kind, outcome.exit_code, outcome.stdout_bytes) == ("finished", 3, 5)
    assert Path(outcome.stdout_path).read_bytes() == b"done\n"
    second.supervisor.end(run, 1)
    assert second.wait(run) == outcome


def test_b9_what_never_started_never_will(desks: Desks, tmp_path: Path) -> None:
    harness = desks()
    assert harness.supervisor.reap(7, 3).kind == "never_started"
    assert harness.supervisor.reap(7, 3).kind == "never_started"
    harness.sh(f"echo > {tmp_path}/canary", run_id=7, epoch=3)
    assert harness.wait(7, 3).kind == "never_started"
    assert not (tmp_path / "canary").exists()
    assert harness.run("true").exit_code == 0, "the warden that refused is free"


def test_b9_a_launch_in_a_dead_engine_s_socket_is_fenced_off(desks: Desks, tmp_path: Path) -> None:
    """The trap: a reaper says never, and then the warden reads what it was sent."""
    first, second = desks(watching=UNWATCHED), desks(watching=UNWATCHED)
    first.run("true")
    (warden,) = first.wardens()
    proc.send([warden], signal.SIGSTOP)
    run = first.sh(f"echo > {tmp_path}/canary")
    first.supervisor.close(leave_running=True)
    assert second.supervisor.reap(run, 1).kind == "never_started"
    proc.send([warden], signal.SIGCONT)
    assert gone(warden)
    assert not (tmp_path / "canary").exists()
    assert [record.get("fenced") for record in second.records(run)] == ["never_started", None]


def test_a_launch_in_a_dead_engine_s_socket_runs_when_nobody_fenced_it_off(desks: Desks) -> None:
    first, second = desks(watching=UNWATCHED), desks(watching=UNWATCHED)
    first.run("true")
    (warden,) = first.wardens()
    proc.send([warden], signal.SIGSTOP)
    run = first.sh("exit 5")
    first.supervisor.close(leave_running=True)
    proc.send([warden], signal.SIGCONT)
    assert gone(warden)
    assert second.supervisor.reap(run, 1).exit_code == 5


def test_what_waits_is_given_up_when_the_engine_closes(desks: Desks, tmp_path: Path) -> None:
    """Nobody has it any more, so that it may be tried again elsewhere."""
    harness = desks()
    runs = [harness.sh(f"echo >> {tmp_path}/canary") for _ in range(5)]
    harness.supervisor.close(leave_running=False)
    outcomes = [harness.wait(run) for run in runs]
    ran = (tmp_path / "canary").read_text().count("\n") if (tmp_path / "canary").exists() else 0
    assert [outcome.kind for outcome in outcomes].count("never_started") == 5 - ran
    assert {outcome.kind for outcome in outcomes} <= {"never_started", "finished"}


def test_two_engines_never_start_one_run_twice(desks: Desks, tmp_path: Path) -> None:
    """Both are told the same about each."""
    one, other = desks(), desks()
    for harness in (one, other):
        harness.run("true", run_id=1_000 + id(harness))
    begun = threading.Barrier(2)

    def start_all(harness: Harness) -> None:
        begun.wait(PATIENCE)
        for run in range(1, 41):
            harness.sh(f"echo >> {tmp_path}/effect-{run}; exit {run}", run_id=run)

    threads = [threading.Thread(target=start_all, args=(harness,)) for harness in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in range(1, 41):
        assert one.wait(run) == other.wait(run)
        assert one.wait(run).exit_code == run
        assert (tmp_path / f"effect-{run}").read_text() == "\n"
    owners = {tuple(one.records(run)[0]["warden"]) for run in range(1, 41)}
    assert len(owners) >= 2, "both have started some"


def test_two_keepers_are_one(desks: Desks) -> None:
    """Both engines find that there is none, at the same time."""
    one, other = desks(), desks()
    runs = [(harness, harness.start("true", run_id=number)) for number, harness in enumerate((one, other, one, other))]
    assert all(harness.wait(run).exit_code == 0 for harness, run in runs)
    parents = {proc.read_process(warden.pid).parent for warden in one.wardens()}  # pyright: ignore[reportOptionalMemberAccess]
    assert parents == {one.keeper().pid}
    assert len(one.wardens()) >= 2


# -- a warden or the keeper goes


def test_b9_what_a_killed_warden_leaves_behind_is_ended(harness: Harness, said: Marks, gate: Gate, held: Held) -> None:
    """The keeper does it; a run under another warden goes on."""
    spared = harness.sh(f"echo > {said.path}; read x < {gate.path}")
    script = f"exec 9> {held.path}; trap '' TERM; (setsid sleep 1000 &); echo > {said.path}; sleep 1000"
    run = harness.sh(script)
    said.line(), said.line()
    kill(harness.warden(run))
    assert harness.wait(run).kind == "unknown"
    assert held.is_let_go()
    assert harness.supervisor.reap(run, 1).kind == "unknown"
    gate()
    assert harness.wait(spared).exit_code == 0
    assert harness.run("true").exit_code == 0


def test_a_killed_idle_warden_is_replaced(harness: Harness) -> None:
    for _ in range(3):
        assert harness.run("true").exit_code == 0
        (warden,) = harness.wardens()
        kill(warden)
        while harness.wardens():
            pass


def test_runs_outlive_their_keeper(harness: Harness, said: Marks, gate: Gate) -> None:
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; exit 2")
    said.line()
    warden = harness.warden(run)
    kill(harness.keeper())
    later = [harness.start("true") for _ in range(3)]
    assert all(harness.wait(number).exit_code == 0 for number in later)
    assert harness.keeper().pid != warden.parent
    gate()
    assert harness.wait(run).exit_code == 2
    assert harness.run("true").exit_code == 0


@pytest.mark.parametrize("ends", ["wait", "exit", "exec env -i sleep 1000"], ids=["tree", "daemon", "bare"])
def test_what_nobody_watches_is_orphaned_and_can_be_ended(
    desks: Desks, said: Marks, gate: Gate, held: Held, ends: str
) -> None:
    """Keeper, warden and engine are dead; the command lives, or a daemon of it, or one that dropped its environment."""
    first, second = desks(watching=UNWATCHED), desks(watching=UNWATCHED)
    daemon = "" if "env" in ends else "setsid sleep 1000 &"
    run = first.sh(f"exec 9> {held.path}; {daemon} echo > {said.path}; read x < {gate.path}; {ends}")
    said.line()
    keeper, warden, command = first.keeper(), first.warden(run), first.command(run)
    proc.send([warden], signal.SIGSTOP)
    gate()
    first.supervisor.close(leave_running=True)
    while "env" in ends and command in proc.with_variable(f"MATINS_WARDEN={warden.pid}-{warden.start}"):
        pass
    assert ends != "exit" or gone(command)
    kill(keeper)
    kill(warden)
    outcome = second.supervisor.reap(run, 1)
    assert (outcome.kind, outcome.exit_code) == ("orphaned", None)
    assert held.is_held()
    second.supervisor.end(run, 1)
    assert second.wait(run).kind == "unknown"
    assert held.is_let_go()
    assert second.run("true").exit_code == 0


def test_when_keeper_and_warden_die_their_engine_ends_what_is_left(harness: Harness, said: Marks, held: Held) -> None:
    run = harness.sh(f"exec 9> {held.path}; sleep 1000 & echo > {said.path}; wait")
    said.line()
    warden, _ = harness.warden(run), harness.command(run)
    kill(harness.keeper())
    kill(warden)
    assert harness.wait(run).kind == "unknown"
    assert held.is_let_go()
    assert harness.run("true").exit_code == 0
    assert not (harness.folder / f"{warden.pid}-{warden.start}.sock").exists(), "the next keeper has cleared up"


def test_term_to_a_warden_ends_its_run(harness: Harness, said: Marks) -> None:
    """As when a whole service is stopped; the engine still hears how it ended."""
    run = harness.sh(f"echo > {said.path}; exec sleep 1000")
    said.line()
    warden = harness.warden(run)
    proc.send([warden], signal.SIGTERM)
    assert harness.wait(run)[:4] == ("finished", None, signal.SIGTERM, "cancelled")
    assert gone(warden)


def test_term_to_the_keeper_ends_every_run(harness: Harness, said: Marks) -> None:
    runs = [harness.sh(f"echo > {said.path}; exec sleep 1000") for _ in range(3)]
    for _ in runs:
        said.line()
    proc.send([harness.keeper()], signal.SIGTERM)
    assert [harness.wait(run).ended_by for run in runs] == ["cancelled"] * 3
    assert harness.run("true").exit_code == 0


def test_a_warden_that_does_not_answer_is_waited_for(desks: Desks, said: Marks, gate: Gate) -> None:
    first = desks(watching=UNWATCHED)
    run = first.sh(f"echo > {said.path}; read x < {gate.path}; exit 4")
    said.line()
    warden = first.warden(run)
    first.supervisor.close(leave_running=True)
    proc.send([warden], signal.SIGSTOP)
    second = desks(watching=UNWATCHED)
    assert second.supervisor.reap(run, 1).kind == "running"
    proc.send([warden], signal.SIGCONT)
    gate()
    assert second.wait(run).exit_code == 4


# -- what a journal says


def test_pids_of_others_are_not_taken_for_ours(harness: Harness) -> None:
    """Given again, or from another boot: nobody is killed, and nothing is believed to run."""
    me = proc.read_process(os.getpid())
    assert me is not None
    owner = {"boot": proc.boot_id(), "warden": [me.pid, me.start - 1], "nth": 1, "sock": "0-0.sock", "at": 5}
    for run, first in enumerate((owner, owner | {"boot": "another", "warden": [me.pid, me.start]})):
        lines = [first, {"pid": [me.pid, me.start - (run == 0)]}]
        (harness.folder / "runs" / f"{run}-1").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert harness.supervisor.reap(run, 1)[:5] == ("unknown", None, None, None, 5)
        harness.supervisor.end(run, 1)
        assert harness.wait(run).kind == "unknown"


def test_a_journal_lost_with_the_power_is_unknown(harness: Harness) -> None:
    """Without a line, and under another boot, nobody can know; and it stays so."""
    assert harness.supervisor.reap(1, 1, boot="another").kind == "unknown"
    assert harness.supervisor.reap(1, 1, boot=harness.supervisor.boot).kind == "unknown"
    assert harness.supervisor.reap(2, 1, boot=harness.supervisor.boot).kind == "never_started"


@pytest.mark.parametrize("torn", [b'{"boot": "x", "ward', b"\n{\n", b"\0\0\0\0", b"[1]\n", b""])
def test_a_line_that_was_cut_short_is_no_line(harness: Harness, torn: bytes) -> None:
    """It neither owns the run nor swallows the line after it."""
    (harness.folder / "runs" / "1-1").write_bytes(torn)
    (harness.folder / "runs" / "2-1").write_bytes(torn)
    assert harness.supervisor.reap(1, 1).kind == "never_started"
    harness.sh("exit 3", run_id=2)
    assert harness.wait(2).exit_code == 3
    assert harness.supervisor.reap(2, 1).exit_code == 3


def test_one_of_many_is_the_first(tmp_path: Path) -> None:
    """Many append at once; all of them read the same first line."""
    folder = os.open(tmp_path, os.O_RDONLY)
    firsts: list[run_folder.Record] = []
    begun = threading.Barrier(8)

    def claim(n: int) -> None:
        file = run_folder.open_run(folder, "1-1")
        begun.wait(PATIENCE)
        run_folder.append(file, {"n": n})
        firsts.append(run_folder.records(file)[0])
        os.close(file)

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(folder)
    assert len(firsts) == 8
    assert all(first == firsts[0] for first in firsts)


# -- strangers at the door


def test_noise_on_the_sockets_harms_nobody(harness: Harness, said: Marks, gate: Gate) -> None:
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}")
    said.line()
    warden = harness.warden(run)
    for name in ("keeper.sock", f"{warden.pid}-{warden.start}.sock"):
        for noise in (
            b"",
            b"\xff\0\n",
            b"[]\n",
            b'"x"\n',
            b"{}\n",
            b'{"attach": 5}\n',
            b'{"end": "9-9"}\n',
            b"x" * 99_999,
        ):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(f"/proc/self/fd/{harness.supervisor._run_folder.fd}/{name}")  # pyright: ignore[reportPrivateUsage]
                stranger.sendall(noise)
    gate()
    assert harness.wait(run).exit_code == 0
    assert harness.run("true").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_not_served(harness: Harness) -> None:
    """Even where the folder's mode would let it in."""
    harness.run("true")
    script = (
        "import os, socket, sys\n"
        "folder = os.open(sys.argv[1], os.O_PATH); os.setgid(12345); os.setuid(12345)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(f'/proc/self/fd/{folder}/keeper.sock')\n"
        "try: s.send(b'{\"warden\": 1}\\n'); print(s.recv(100))\n"
        "except OSError: print(b'')"
    )
    harness.folder.chmod(0o777)
    (harness.folder / "keeper.sock").chmod(0o777)
    told = subprocess.run([sys.executable, "-c", script, harness.folder], capture_output=True, text=True, check=True)
    assert told.stdout == "b''\n"
    harness.folder.chmod(0o700)
    assert len(harness.wardens()) == 1


def test_descriptors_wait_for_their_line() -> None:
    """A line may come in pieces; what came with its first byte is handed on with its last."""
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    reading, writing = os.pipe()
    socket.send_fds(ours, [b'{"a"'], [reading])
    assert channel.receive() == ([], [], True)
    ours.send(b": 1}\n")
    messages, fds, there = channel.receive()
    assert (messages, len(fds), there) == ([{"a": 1}], 1, True)
    assert not os.get_inheritable(fds[0])
    for fd in (reading, writing, *fds):
        os.close(fd)
    ours.close()
    assert channel.receive() == ([], [], False)
    channel.close()
