"""What a run has written, read by a process that has only the folder: while it runs, and afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from process_harness import PYTHON, Gate, Harness, Marks, kill

from matins.executors.processes.output import CHUNK, Output
from matins.executors.processes.run_folder import name_of
from matins.service.output import OutputChunk, read_output


def follow(folder: Path, run: int, offset: int = 0, *, stream: str = ".out", limit: int = 7) -> tuple[bytes, int]:
    """All there is to come, as somebody does who follows it to its end, and the offset behind it."""
    seen = b""
    while True:
        chunk = read_output(folder, name_of(run, 1), offset, limit, stream=stream)
        assert len(chunk.data) <= limit
        seen, offset = seen + chunk.data, chunk.at + len(chunk.data)
        if chunk.complete and offset >= chunk.total:
            return seen, offset


def wait_for(folder: Path, run: int, total: int, stream: str = ".out") -> OutputChunk:
    while (chunk := read_output(folder, name_of(run, 1), 0, 1_000, stream=stream)).total < total:
        pass
    return chunk


@pytest.mark.parametrize("stream", [".out", ".err"])
def test_b9_a_run_is_read_while_it_runs(harness: Harness, said: Marks, gate: Gate, stream: str) -> None:
    """B9: from any offset on; it is over when the run is, and not before"""
    end = 1 if stream == ".out" else 2
    run = harness.sh(f"echo first >&{end}; echo > {said.path}; read x < {gate.path}; echo second >&{end}")
    said.line()
    assert wait_for(harness.folder, run, 6, stream) == OutputChunk(b"first\n", 0, 6, False)
    assert read_output(harness.folder, name_of(run, 1), 2, 3, stream=stream) == OutputChunk(b"rst", 2, 6, False)
    assert read_output(harness.folder, name_of(run, 1), 6, 100, stream=stream) == OutputChunk(b"", 6, 6, False)
    gate()
    assert follow(harness.folder, run, 6, stream=stream) == (b"second\n", 13)
    assert harness.wait(run).exit_code == 0
    assert read_output(harness.folder, name_of(run, 1), 0, 100, stream=stream) == OutputChunk(
        b"first\nsecond\n", 0, 13, True
    )


def test_b9_secrets_are_redacted_while_it_runs(harness: Harness, said: Marks, gate: Gate) -> None:
    """B9: half of one is held back until it is clear what it becomes"""
    script = f"printf 'a s3cr3t-'; echo > {said.path}; read x < {gate.path}; printf 't0k3n b'"
    run = harness.sh(script, secrets=("s3cr3t-t0k3n",))
    said.line()
    assert wait_for(harness.folder, run, 2).data == b"a "
    gate()
    assert follow(harness.folder, run)[0] == b"a [redacted] b"


def test_what_lies_between_the_beginning_and_the_end_is_skipped(harness: Harness) -> None:
    """The file is full and the ring has turned: where a piece begins, it says."""
    lines = "".join(f"{n:09d}\n" for n in range(100_000)).encode()
    script = "import sys\nfor n in range(100_000): sys.stdout.write(f'{n:09d}\\n')"
    run = harness.start(*PYTHON, script, head_bytes=1_000, tail_bytes=1_000)
    assert harness.wait(run).stdout_bytes == len(lines)
    assert read_output(harness.folder, name_of(run, 1), 0, 5_000) == OutputChunk(lines[:1_000], 0, len(lines), True)
    data, at, total, over = read_output(harness.folder, name_of(run, 1), 1_000, 5_000)
    assert at > 1_000
    assert data == lines[at : at + 5_000]
    assert (total, over) == (len(lines), True)
    assert follow(harness.folder, run, at, limit=CHUNK) == (lines[at:], len(lines))


def test_every_piece_is_a_piece_of_the_stream(tmp_path: Path) -> None:
    """Whatever is written in whatever pieces: nothing twice, nothing invented, and no gap untold."""
    (tmp_path / "runs").mkdir()
    folder = os.open(tmp_path / "runs", os.O_RDONLY)
    kept = Output(folder, "1-1.out", 3_000, 2_000, [])
    whole, offset, gaps = b"", 0, 0
    for size in (10, 2_989, 1, 1, 70_000, 5, 400_000, 0, CHUNK, 3):
        written = b"".join(b"%09d\n" % (len(whole) + n) for n in range(0, size, 10))[:size]
        for begin in range(0, size, CHUNK):
            kept.write(written[begin : begin + CHUNK])
        whole += written
        while (chunk := read_output(tmp_path, name_of(1, 1), offset, 30_000)).data:
            assert whole[chunk.at : chunk.at + len(chunk.data)] == chunk.data
            assert chunk.at >= offset
            assert chunk.total == len(whole)
            gaps += chunk.at > offset
            offset = chunk.at + len(chunk.data)
        assert offset == len(whole)
    kept.close()
    os.close(folder)
    assert gaps >= 1


def test_one_that_has_not_begun_is_not_over(harness: Harness, tmp_path: Path) -> None:
    """It may begin yet; nobody makes a file by looking."""
    assert read_output(tmp_path / "nowhere", name_of(1, 1), 0, 10) == OutputChunk(b"", 0, 0, False)
    assert read_output(harness.folder, name_of(99, 1), 0, 10) == OutputChunk(b"", 0, 0, False)
    assert not (tmp_path / "nowhere").exists()
    assert not list((harness.folder / "runs").iterdir())


def test_one_that_could_not_be_started_or_was_fenced_is_over(harness: Harness) -> None:
    assert harness.run("/nowhere/at/all", run_id=5).kind == "never_started"
    assert read_output(harness.folder, name_of(5, 1), 0, 10).complete
    assert harness.supervisor.reap(6, 1).kind == "never_started"
    assert read_output(harness.folder, name_of(6, 1), 0, 10).complete


def test_b9_one_whose_warden_was_killed_is_over(harness: Harness, said: Marks) -> None:
    """B9: nobody would write any more, and nobody wrote that it ended"""
    run = harness.sh(f"echo x; echo > {said.path}; sleep 1000")
    said.line()
    assert not wait_for(harness.folder, run, 2).complete
    kill(harness.warden(run))
    assert read_output(harness.folder, name_of(run, 1), 0, 10) == OutputChunk(b"x\n", 0, 2, True)
    assert harness.wait(run).kind == "unknown"
