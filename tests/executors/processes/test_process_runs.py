"""Commands as real processes: what they are given, what they say, and what is known about them afterwards."""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from process_harness import PYTHON, Gate, Harness, Marks, gone

from matins.errors import Conflict, InvalidInput, MatinsError
from matins.executors.processes.launch import Limits
from matins.executors.processes.supervisor import Supervisor
from matins.runtime.clock import SystemClock


def test_b9_a_command_runs_and_everything_about_it_is_known(harness: Harness) -> None:
    before = SystemClock().now_ms()
    run = harness.sh("cat; echo out; echo err >&2; exit 3", stdin=b"the prompt\n")
    outcome = harness.wait(run)
    assert (outcome.kind, outcome.exit_code, outcome.signal, outcome.ended_by) == ("finished", 3, None, None)
    assert outcome.started_at is not None
    assert outcome.ended_at is not None
    assert before <= outcome.started_at <= outcome.ended_at <= SystemClock().now_ms()
    assert Path(outcome.stdout_path).read_bytes() == b"the prompt\nout\n" == harness.supervisor.files.tail(run, 1)
    assert Path(outcome.stderr_path).read_bytes() == b"err\n" == harness.supervisor.files.tail(run, 1, stream=".err")
    assert (outcome.stdout_bytes, outcome.stderr_bytes, outcome.truncated, outcome.leftovers) == (15, 4, False, 0)
    assert harness.supervisor.running() == 0


def test_b9_usage_is_that_of_the_whole_tree(harness: Harness) -> None:
    burn = "import os; x = b'1' * 150_000_000\nwhile os.times().user < 0.3: pass"
    outcome = harness.run("sh", "-c", f'{" ".join(PYTHON)} "{burn}" & wait', env={"PATH": os.environ["PATH"]})
    assert outcome.max_rss_kb > 140_000
    assert outcome.user_ms >= 300


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 0", 0, None), ("exit 255", 255, None), ("kill -9 $$", None, 9)]
)
def test_exit_codes_and_signals_are_told_apart(
    harness: Harness, script: str, code: int | None, number: int | None
) -> None:
    outcome = harness.run("sh", "-c", script)
    assert (outcome.exit_code, outcome.signal) == (code, number)


def test_a_command_gets_its_own_environment_folder_and_session_and_no_more(harness: Harness, tmp_path: Path) -> None:
    """Nothing of the engine's environment, no descriptor but the three, a session of its own."""
    os.environ["MATINS_CANARY"] = "do not hand on"
    core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (core[1], core[1]))
    status = 'grep -E "^(SigIgn|NoNewPrivs|NSsid)" /proc/$$/status'
    script = f"env; pwd; cat; ulimit -c; {status}; echo $$"
    try:
        run = harness.sh(script, env={"PATH": "/bin:/usr/bin", "ONE": "1"}, cwd=str(tmp_path))
        outcome = harness.wait(run)
    finally:
        del os.environ["MATINS_CANARY"]
        resource.setrlimit(resource.RLIMIT_CORE, core)
    assert outcome.exit_code == 0, harness.supervisor.files.tail(run, 1, stream=".err")
    said = harness.output(run).decode().split("\n")
    own = {"PWD", "OLDPWD", "SHLVL", "_"}  # the shell's
    assert {line.partition("=")[0] for line in said if "=" in line} - own == {"MATINS_WARDEN", "ONE", "PATH"}
    folder, core_blocks, *status, pid, _ = (line for line in said if "=" not in line)
    assert (folder, core_blocks) == (str(tmp_path), "0")
    facts = dict(line.split(":\t") for line in status)
    assert (facts["NSsid"], facts["NoNewPrivs"]) == (pid, "1")
    assert not int(facts["SigIgn"], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    run = harness.start("ls", "/proc/self/fd")
    harness.wait(run)
    assert harness.output(run).split() == [b"0", b"1", b"2", b"3"]  # the last one is the folder that it lists


def test_the_program_is_looked_for_on_the_command_s_own_path(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "sometool"
    tool.write_text('#!/bin/sh\necho found "$@"\n')
    tool.chmod(0o700)
    run = harness.start("sometool", "a b", "", "-c", env={"PATH": f"/nowhere:{tmp_path}/bin:/bin"})
    assert harness.wait(run).exit_code == 0
    assert harness.output(run) == b"found a b  -c\n"
    assert harness.run("./sometool", cwd=str(tmp_path / "bin"), env={}).exit_code == 0


@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        (["no-such-tool"], "/", "No such file or directory: no-such-tool"),
        (["/no/such/tool"], "/", "No such file or directory: /no/such/tool"),
        (["true"], "/no/such/folder", "No such file or directory: /no/such/folder"),
        (["/etc/passwd"], "/", "Permission denied: /etc/passwd"),
    ],
)
def test_what_cannot_be_started_says_why(harness: Harness, argv: list[str], cwd: str, error: str) -> None:
    outcome = harness.run(*argv, cwd=cwd)
    assert (outcome.kind, outcome.error) == ("never_started", error)
    assert harness.supervisor.reap(1, 1)[:1] == ("never_started",)
    assert harness.supervisor.reap(1, 1).error == error


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"argv": ()}, "argv"),
        ({"argv": ("",)}, "argv"),
        ({"argv": ("echo", "a\0b")}, "argv"),
        ({"argv": ("echo", "\ud800")}, "argv"),
        ({"argv": ("echo", "key=sk-12345678"), "secrets": ("sk-12345678",)}, "argv"),
        ({"env": {"A=B": "c"}}, "env"),
        ({"env": {"": "c"}}, "env"),
        ({"env": {"A": "\0"}}, "env"),
        ({"cwd": "relative"}, "cwd"),
        ({"cwd": "/a\0"}, "cwd"),
        ({"secrets": ("\ud800",)}, "secrets"),
        ({"tail_bytes": 0}, "tail_bytes"),
        ({"head_bytes": -1}, "head_bytes"),
        ({"limits": Limits(timeout_ms=0)}, "timeout_ms"),
        ({"limits": Limits(grace_ms=-1)}, "grace_ms"),
        ({"limits": Limits(files=3)}, "files"),
        ({"limits": Limits(memory_bytes=1000)}, "memory_bytes"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(harness: Harness, given: dict[str, Any], field: str) -> None:
    launch = harness.launch("true")._replace(**given)
    with pytest.raises(InvalidInput) as caught:
        harness.supervisor.start(launch)
    assert caught.value.field == field
    assert caught.value.hint or caught.value.allowed
    assert "sk-12345678" not in str(caught.value) + str(caught.value.value)
    assert not list((harness.folder / "runs").iterdir())
    assert harness.supervisor.running() == 0


def test_a_launch_may_be_long(harness: Harness) -> None:
    """Longer than a socket's buffer; what is on stdin too, whether it is read or not."""
    long = "x" * 100_000
    run = harness.start(
        "sh", "-c", 'echo "${#LONG} ${#1}"; wc -c', "sh", long, env={"LONG": long}, stdin=b"y" * 3_000_000
    )
    assert harness.wait(run).exit_code == 0
    assert harness.output(run).split() == [b"100000", b"100000", b"3000000"]
    assert harness.run("true", stdin=b"y" * 3_000_000).exit_code == 0


def test_files_are_for_their_owner_only(harness: Harness) -> None:
    """Whatever the umask is; and the command keeps the usual one."""
    run = harness.start(
        "sh", "-c", "umask; yes | head -c 5000; yes | head -c 5000 >&2", head_bytes=1000, secrets=("hush",)
    )
    assert harness.wait(run).exit_code == 0
    names = sorted(path.name for path in (harness.folder / "runs").iterdir())
    assert names == ["1-1", "1-1.err", "1-1.err.tail", "1-1.out", "1-1.out.tail"]
    for path in harness.folder.rglob("*"):
        if not path.is_socket():
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(harness.folder.stat().st_mode) == 0o700
    mask = os.umask(0)
    os.umask(mask)
    assert int(harness.output(run).split()[0], 8) == mask


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    Supervisor(folder, lambda: None).close(leave_running=False)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_else_s_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(InvalidInput, match="belongs to another user"):
        Supervisor(folder, lambda: None)


def test_a_folder_may_have_a_long_name(tmp_path: Path) -> None:
    """Longer than the 107 bytes of a socket's address."""
    harness = Harness(tmp_path / ("x" * 120) / ("y" * 120))
    assert harness.run("true").exit_code == 0
    keeper = harness.keeper()
    harness.supervisor.close(leave_running=False)
    assert gone(keeper)


def test_output_can_be_read_as_it_comes(harness: Harness, said: Marks, gate: Gate) -> None:
    run = harness.sh(f"echo one; echo > {said.path}; read x < {gate.path}; echo two")
    said.line()
    while not (seen := harness.supervisor.files.read(run, 1, 0, 100)):
        pass
    assert seen == b"one\n" == harness.supervisor.files.tail(run, 1)
    gate()
    harness.wait(run)
    assert harness.supervisor.files.read(run, 1, 4, 100) == b"two\n"
    assert harness.supervisor.files.read(run, 1, 8, 100) == b""
    assert harness.supervisor.files.read(99, 1, 0, 100) == b"" == harness.supervisor.files.tail(99, 1)


def test_many_run_side_by_side(harness: Harness, said: Marks, gate: Gate) -> None:
    runs = [harness.sh(f"echo > {said.path}; read x < {gate.path}; exit {n}") for n in range(20)]
    assert harness.supervisor.running() == 20
    for _ in runs:
        said.line()
    assert len({harness.warden(run) for run in runs}) == 20
    gate(20)
    assert [harness.wait(run).exit_code for run in runs] == list(range(20))
    assert harness.supervisor.running() == 0


def test_wardens_are_reused_and_a_surplus_goes(harness: Harness, said: Marks, gate: Gate) -> None:
    runs = [harness.sh(f"echo > {said.path}; read x < {gate.path}") for _ in range(12)]
    for _ in runs:
        said.line()
    at_first = harness.wardens()
    gate(12)
    for run in runs:
        harness.wait(run)
    later = harness.start("true")
    harness.wait(later)
    assert tuple(harness.records(later)[0]["warden"]) in {(warden.pid, warden.start) for warden in at_first}
    assert len(at_first) == 12
    while len(harness.wardens()) > 8:
        pass


def test_one_run_is_not_started_twice_by_one_engine(harness: Harness, gate: Gate) -> None:
    run = harness.sh(f"read x < {gate.path}")
    with pytest.raises(Conflict, match="Run 1 was already started with epoch 1"):
        harness.sh("true", run_id=run)
    gate()
    assert harness.wait(run).exit_code == 0
    del harness.outcomes[run, 1]
    assert harness.sh("exit 9", run_id=run) == run
    assert harness.wait(run).exit_code == 0, "what became of it is told again"
    assert harness.sh("exit 9", run_id=run, epoch=2) == run
    assert harness.wait(run, 2).exit_code == 9


def test_what_is_forgotten_leaves_no_file(harness: Harness) -> None:
    run = harness.start("sh", "-c", "yes | head -c 9000; echo >&2", head_bytes=10)
    harness.wait(run)
    harness.supervisor.files.delete(run, 1)
    harness.supervisor.files.delete(run, 1)
    assert not list((harness.folder / "runs").iterdir())


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/bin/false", "no keeper could be started: "),
        ("/no/such/python", "No such file or directory: '/no/such/python'"),
    ],
)
def test_a_keeper_that_cannot_be_started_is_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, python: str, why: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    outcome = harness.run("true")
    assert outcome.kind == "never_started"
    assert outcome.error is not None
    assert why in outcome.error
    monkeypatch.undo()
    assert harness.run("true").exit_code == 0


def test_nothing_starts_after_the_end(desks: Callable[..., Harness]) -> None:
    harness = desks()
    harness.supervisor.close(leave_running=True)
    harness.supervisor.close(leave_running=True)
    with pytest.raises(MatinsError, match="closed"):
        harness.start("true")


def test_with_fsync_the_journal_says_the_same(desks: Callable[..., Harness]) -> None:
    harness = desks(fsync=True)
    run = harness.start("sh", "-c", "exit 4")
    assert harness.wait(run).exit_code == 4
    assert [next(iter(record)) for record in harness.records(run)] == ["boot", "pid", "exit"]
