"""What is kept of a command's output: the beginning, the end, no secret, and nothing that keeps the command waiting."""

from __future__ import annotations

import json
import os
import re
import resource
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_harness import PYTHON, Gate, Harness, Marks, gone

from matins.executors.processes import output, proc
from matins.executors.processes.launch import Limits
from matins.executors.processes.output import CHUNK, MARK, Output, Redactor

# -- redaction


def redacted(secrets: list[bytes], chunks: list[bytes]) -> bytes:
    redactor = Redactor(secrets)
    return b"".join([*map(redactor.feed, chunks), redactor.finish()])


def by_hand(secrets: list[bytes], data: bytes) -> bytes:
    """Mark every byte of every secret, then write one mark for each stretch of them."""
    covered = bytearray(len(data))
    for secret in secrets:
        for at in range(len(data) - len(secret) + 1):
            if data[at : at + len(secret)] == secret:
                covered[at : at + len(secret)] = b"\1" * len(secret)
    out = bytearray()
    for at, byte in enumerate(data):
        if not covered[at]:
            out.append(byte)
        elif at == 0 or not covered[at - 1]:
            out += MARK
    return bytes(out)


few_letters = st.binary(min_size=1, max_size=6).map(lambda data: bytes(97 + byte % 3 for byte in data))


@given(st.lists(few_letters, max_size=4), st.lists(few_letters, max_size=12))
def test_redaction_does_not_depend_on_where_chunks_begin(secrets: list[bytes], chunks: list[bytes]) -> None:
    assert redacted(secrets, chunks) == by_hand(secrets, b"".join(chunks))


@given(st.lists(few_letters, min_size=1, max_size=4), st.lists(few_letters, max_size=12))
def test_redaction_holds_back_only_what_may_become_a_secret(secrets: list[bytes], chunks: list[bytes]) -> None:
    redactor = Redactor(secrets)
    for chunk in chunks:
        redactor.feed(chunk)
        held = redactor._held  # pyright: ignore[reportPrivateUsage]
        assert not held or any(secret.startswith(held) and secret != held for secret in secrets)


def test_a_long_secret_that_repeats_itself_costs_little() -> None:
    chunks = [b"ab" * 32_768] * 3
    assert redacted([b"ab" * 50], chunks) == MARK


# -- head and ring


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[int]:
    folder = os.open(tmp_path, os.O_RDONLY)
    yield folder
    os.close(folder)


@given(data=st.data())
def test_head_and_tail_are_the_first_and_last_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever is written in whatever pieces, and looked at after each of them."""
    path = tmp_path_factory.mktemp("runs")
    folder = os.open(path, os.O_RDONLY)
    head, tail = data.draw(st.integers(0, 3_000)), data.draw(st.integers(1, 3_000))
    kept = Output(folder, "1.out", head, tail, [])
    whole = b""
    for size in data.draw(st.lists(st.sampled_from([0, 1, 7, 999, 5_000, CHUNK - 1, CHUNK]), max_size=8)):
        chunk = bytes((len(whole) + n) % 120 for n in range(size))
        kept.write(chunk)
        whole += chunk
        assert output.tail(f"{path}/1.out", tail) == whole[-tail:]
    kept.close()
    os.close(folder)
    assert output.read(f"{path}/1.out", 0, 10_000) == whole[:head]
    assert output.tail(f"{path}/1.out", tail) == whole[-tail:]
    assert (kept.total_bytes, kept.truncated) == (len(whole), len(whole) > head)
    assert sum(file.stat().st_size for file in path.iterdir()) <= head + tail + CHUNK + 16


def test_a_tail_begins_with_a_whole_character(tmp_path: Path, runs: int) -> None:
    kept = Output(runs, "1.out", 1_000, 10, [])
    kept.write("x€€€€".encode())  # 13 bytes
    kept.close()
    assert [output.tail(f"{tmp_path}/1.out", limit).decode() for limit in (13, 12, 11, 10, 9)] == [
        "x€€€€",
        "€€€€",
        "€€€",
        "€€€",
        "€€€",
    ]


def test_a_reader_never_sees_what_was_never_there(tmp_path: Path, runs: int) -> None:
    """The ring is read while it is written: what is seen must be one piece of the stream."""
    kept = Output(runs, "1.out", 0, 3 * CHUNK, [])
    numbers = iter(range(10**9))
    for _ in range(60):
        kept.write(b"".join(b"%09d\n" % next(numbers) for _ in range(5_000)))
        seen = [int(line) for line in output.tail(f"{tmp_path}/1.out", 3 * CHUNK).split(b"\n")[1:-1]]
        assert all(b - a == 1 for a, b in pairwise(seen))
    kept.close()


def test_a_full_disk_keeps_nobody_waiting(tmp_path: Path, runs: int) -> None:
    """What fits is kept; what comes when there is room again is in the tail."""
    kept = Output(runs, "1.out", 100_000, 1_000, [])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, before[1]))
        for _ in range(50):
            kept.write(b"early" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept.write(b"late" * 250)
    kept.close()
    assert output.read(f"{tmp_path}/1.out", 0, 100_000) == b"early" * 300
    assert output.tail(f"{tmp_path}/1.out", 1_000) == b"late" * 250
    assert (kept.total_bytes, kept.truncated) == (26_000, True)


# -- with real commands


def test_b9_secrets_are_redacted_across_writes_in_both_streams(harness: Harness) -> None:
    """Split over two writes, inside JSON, on stdout and stderr; and a beginning that goes on otherwise is kept."""
    secret, quoted = "s3cr3t-t0k3n", 'pass"word\\1'
    script = (
        "import json, os, sys\n"
        "a, b = os.environ['A'], os.environ['B']\n"
        "for end in (1, 2):\n"
        "    for piece in (a[:5], a[5:], ' ', a[:6], 'x ', *a, ' ', json.dumps(b)):\n"
        "        os.write(end, piece.encode()); os.sched_yield()\n"
    )
    run = harness.start(*PYTHON, script, env={"A": secret, "B": quoted}, secrets=(secret, quoted, ""))
    outcome = harness.wait(run)
    assert outcome.exit_code == 0
    wanted = b'[redacted] s3cr3tx [redacted] "[redacted]"'
    assert Path(outcome.stdout_path).read_bytes() == wanted == Path(outcome.stderr_path).read_bytes()
    for file in harness.folder.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_secrets_stand_in_no_command_line(harness: Harness, said: Marks, gate: Gate) -> None:
    """By environment they reach the command, and nobody's cmdline shows them."""
    run = harness.sh(
        f"echo $TOKEN > {said.path}; read x < {gate.path}", env={"TOKEN": "tok-12345678"}, secrets=("tok-12345678",)
    )
    assert said.line() == "tok-12345678"
    for process in proc.living():
        line = Path(f"/proc/{process.pid}/cmdline")
        assert b"tok-12345678" not in (line.read_bytes() if line.exists() else b""), process
    gate()
    assert harness.wait(run).exit_code == 0


def test_bytes_that_are_no_text_are_kept_as_they_are(harness: Harness) -> None:
    """Wrong and partial UTF-8, NUL, ANSI."""
    run = harness.sh(r"printf 'a\303'; printf '\251\377\000\033[1m\342\202'")
    harness.wait(run)
    assert harness.output(run) == b"a\xc3\xa9\xff\x00\x1b[1m\xe2\x82"


def test_yes_goes_on_until_somebody_ends_it(harness: Harness) -> None:
    """Both streams at once; while it floods, others run, its tail can be read, and its end is heard."""
    run = harness.start("sh", "-c", "yes out & yes err >&2", head_bytes=10_000)
    assert harness.run("true").exit_code == 0
    files = harness.supervisor.files
    while len(files.tail(run, 1)) < 200_000 or len(files.tail(run, 1, stream=output.ERR)) <= 10_000:
        pass
    assert b"out\nout\nout\n" in files.tail(run, 1)
    outcome = harness.end(run)
    assert (outcome.ended_by, outcome.truncated) == ("cancelled", True)
    assert outcome.stderr_bytes > 10_000


def test_a_full_disk_does_not_stop_a_run(harness: Harness, said: Marks, gate: Gate) -> None:
    """Neither the drain nor the end: the engine hears it, and the journal has it as soon as there is room."""
    run = harness.sh(f"echo > {said.path}; read x < {gate.path}; yes | head -c 3000000; exit 7")
    said.line()
    warden = harness.warden(run)
    hard = resource.prlimit(warden.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(warden.pid, resource.RLIMIT_FSIZE, (0, hard))
    gate()
    outcome = harness.wait(run)
    assert (outcome.exit_code, outcome.stdout_bytes, outcome.truncated) == (7, 3_000_000, True)
    assert "exit" not in harness.records(run)[-1]
    assert harness.supervisor.reap(run, 1) == outcome, "the warden still knows"
    resource.prlimit(warden.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert gone(warden)
    assert harness.records(run)[-1]["exit"] == 7
    assert harness.supervisor.reap(run, 1) == outcome


def test_a_full_disk_before_the_first_line_starts_nothing(desks: Callable[..., Harness]) -> None:
    harness = desks()
    assert harness.run("true").exit_code == 0
    (warden,) = harness.wardens()
    hard = resource.prlimit(warden.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(warden.pid, resource.RLIMIT_FSIZE, (0, hard))
    outcome = harness.run("sh", "-c", f"echo > {harness.folder}/canary")
    assert (outcome.kind, outcome.error) == ("never_started", "[Errno 27] File too large")
    assert not (harness.folder / "canary").exists()
    resource.prlimit(warden.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert harness.run("true").exit_code == 0


def test_who_closes_its_output_still_runs(harness: Harness, said: Marks, gate: Gate) -> None:
    run = harness.sh(f"exec >&- 2>&-; echo > {said.path}; read x < {gate.path}; exit 5")
    said.line()
    assert harness.supervisor.running() == 1
    gate()
    assert harness.wait(run).exit_code == 5


def test_output_that_somebody_else_keeps_open_does_not_hold_a_run(harness: Harness, tmp_path: Path) -> None:
    """The pipe was handed to a process that is not of the tree."""
    receive = (
        "import socket, sys, os\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); open(sys.argv[2], 'w').write('up\\n')\n"
        "c, _ = s.accept(); fds = socket.recv_fds(c, 1, 1)[1]; c.send(b'k'); c2, _ = s.accept()"
    )
    hand_over = (
        "import socket, sys\n"
        "c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); socket.send_fds(c, [b'x'], [1]); c.recv(1)"
    )
    other, path = Marks(tmp_path / "up"), str(tmp_path / "s")
    keeping = harness.start(*PYTHON, receive, path, str(other.path))
    other.line()
    other.close()
    assert harness.run(*PYTHON, hand_over, path).exit_code == 0
    assert harness.end(keeping).ended_by == "cancelled"


def test_limits_on_output_hold_with_none_of_it_kept(harness: Harness) -> None:
    run = harness.start(
        "sh", "-c", "yes | head -c 1000000", head_bytes=0, tail_bytes=4, limits=Limits(idle_timeout_ms=60_000)
    )
    outcome = harness.wait(run)
    assert (outcome.exit_code, outcome.stdout_bytes, outcome.truncated) == (0, 1_000_000, True)
    assert harness.output(run) == b""
    assert harness.supervisor.files.tail(run, 1, limit=4) == b"y\ny\n"


# -- a file instead of a pipe

LEAVES_EARLY = """
import fcntl, os, sys
data = b"".join(b'{"line": %d}' % n + b"\\n" for n in range(60_000)) + b'{"type": "done"}\\n'
fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK)
at = 0
try:
    while at < len(data):
        at += os.write(1, data[at : at + 65_536])
except BlockingIOError:
    pass  # as tools do that write without waiting, and exit
os._exit(0)
"""


def test_b9_a_command_that_leaves_before_it_is_read_loses_nothing(harness: Harness) -> None:
    """B9: opencode, Gemini and Qwen lose the end of a long answer in a pipe, and nothing in a file"""
    run = harness.start(*PYTHON, LEAVES_EARLY, stdout_file=True, secrets=('"line": 4711',))
    outcome = harness.wait(run)
    lines = harness.output(run).splitlines()
    assert (outcome.exit_code, len(lines), lines[-1]) == (0, 60_001, b'{"type": "done"}')
    assert lines[4711] == b"{" + MARK + b"}"
    assert outcome.stdout_bytes > 900_000


def test_b9_the_final_event_in_a_file_is_seen(harness: Harness) -> None:
    """B9"""
    script = 'echo \'{"type": "done"}\'; sleep 1000'
    outcome = harness.run(
        "sh",
        "-c",
        script,
        stdout_file=True,
        finals=({"type": "done"},),
        limits=Limits(exit_timeout_ms=50, idle_timeout_ms=60_000),
    )
    assert outcome.ended_by == "exit_timeout"


# -- spellings of a secret

KEY = '-----BEGIN/KEY-----\nabäc/"d\\e\n\N{GRINNING FACE}end'
UNITS = KEY.encode("utf-16-be")
SPELLINGS = {
    "plain": KEY,
    "ascii": json.dumps(KEY)[1:-1],
    "unicode": json.dumps(KEY, ensure_ascii=False)[1:-1],
    "slashes": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "upper case": re.sub(r"\\u....", lambda m: "\\u" + m[0][2:].upper(), json.dumps(KEY)[1:-1]),
    "all escaped": "".join(f"\\u{unit:04X}" for unit in struct.unpack(f">{len(UNITS) // 2}H", UNITS)),
    "CRLF": KEY.replace("\n", "\r\n"),
    "indented": KEY.replace("\n", "\n        "),
    "indented CRLF": KEY.replace("\n", "\r\n\t"),
    "CRLF in JSON": json.dumps(KEY.replace("\n", "\r\n"))[1:-1],
    "indented in JSON": json.dumps(KEY.replace("\n", "\n    "))[1:-1],
    "indented by tabs in JSON": json.dumps(KEY.replace("\n", "\r\n\t\t"))[1:-1],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_b16_secrets_are_found_in_every_spelling(spelling: str, size: int) -> None:
    """B16: of JSON, with escapes in any case, and across indentation and CRLF; in chunks of any size"""
    redactor = Redactor([KEY.encode() + b"\n"])
    data = b"x " + SPELLINGS[spelling].encode() + b" y"
    chunks = [redactor.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(chunks) + redactor.finish() == b"x [redacted] y"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("written", ['{\n  "key": "abc"\n}', '{\n"key": "abc"\n}', '{\r\n\t"key": "abc"\n  }'])
def test_b16_a_secret_that_is_indented_itself_is_found(written: str, size: int) -> None:
    """B16: a key file of JSON, with its own indentation, another or none, in chunks of any size"""
    redactor = Redactor([b'{\n  "key": "abc"\n}\n'])
    data = f"x {written} y".encode()
    chunks = [redactor.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(chunks) + redactor.finish() == b"x [redacted] y"
