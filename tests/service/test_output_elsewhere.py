"""Output of runs on another machine: the node sends it to the store, and every node reads it."""

from __future__ import annotations

import os
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from moto.server import ThreadedMotoServer

import postgres_fixtures
from matins import Matins
from matins.errors import InvalidInput, StoreUnavailable
from matins.executors.output_sender import OutputSender
from matins.executors.processes.output import Output
from matins.executors.processes.recovery import RunFiles
from matins.executors.processes.run_folder import RunFolder
from matins.runtime import kept_output
from matins.runtime.kept_output import HEAD_BYTES, PIECE_BYTES, TAIL_BYTES, KeptOutput
from matins.service.output import state_folder
from matins.testing import ManualClock

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
_TALK = 'printf "h\\303\\251llo 1\\n"; echo oops >&2; read go < "$FIFO"; echo "bye $SECRET"; seq 30000'


@pytest.fixture
def nodes(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Matins, Matins]]:
    """Two machines: what one has in its folder, the other one does not have."""
    one = Matins(postgres_url, state_folder=str(tmp_path / "one"))
    two = Matins(postgres_url, state_folder=str(tmp_path / "two"))
    with closing(one), closing(two):
        yield one, two


def until(found: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """It is on its way."""
    for _ in range(3000):
        if holds(seen := found()):
            return seen
        threading.Event().wait(0.02)
    raise AssertionError(found())


def test_h10_output_is_read_on_another_machine(
    nodes: tuple[Matins, Matins], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B18 H10: while the run goes on, and all of it when it has ended; redacted, and also when the machine is gone"""
    one, two = nodes
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    monkeypatch.setenv("KEY", "s3cret-value")
    one.agents.set(
        "sh", runner="shell", command=["sh", "-c", _TALK], environment={"FIFO": str(fifo), "SECRET": "env:KEY"}
    )
    one.add("talk", when="every 1 day", agent="sh", prompt="Talk.")
    ended = threading.Event()
    one.subscribe(lambda event: ended.set(), types=["run.succeeded", "run.failed"])
    with one:
        run = one.run("talk")
        early = until(lambda: two.runs.output(run.id), lambda seen: "héllo" in seen.text)  # each look follows it
        assert (early.text, early.offset, early.over) == ("héllo 1\n", 0, False)
        assert two.runs.transcript(run.id).entries[0].text == "héllo 1"
        fifo.write_text("go\n")
        assert ended.wait(90)
        whole = one.runs.output(run.id, limit=1 << 20)
        text, read = early.text, early
        while not read.over:
            read = two.runs.output(run.id, offset=read.next)
            text += read.text
    assert text == whole.text
    assert whole.text.endswith("29999\n30000\n")
    assert "s3cret-value" not in whole.text
    shutil.rmtree(state_folder(one.store, str(tmp_path / "one")) / "runs")
    assert one.runs.output(run.id, stream="stderr").text == "oops\n"
    assert two.runs.output(run.id, offset=-6).text == "30000\n"
    with one.store.transaction(0) as transaction:
        transaction.delete_runs([int(run.id)])
    with one.store.reading() as transaction:
        assert transaction.kept_output(int(run.id), 1) == []


class Writing:
    """The files of a run, a sender, and the store."""

    def __init__(self, url: str, folder: Path) -> None:
        self.matins = Matins(url)
        self.clock = ManualClock("2026-03-27T08:00:00Z")
        self.kept = KeptOutput(self.matins.store, self.clock)
        self.folder = RunFolder(str(folder))
        self.files = RunFiles(self.folder, lambda run, epoch: f"{run}.{epoch}")
        self.output = Output(self.folder.runs_fd, "7.1.out", 1_000_000, TAIL_BYTES, [b"s3cret"])
        self.sender = self.another()
        self.url = url

    def another(self) -> OutputSender:
        made = OutputSender(self.kept, lambda: self.files, self.clock)
        made.close()  # its thread: the test looks
        made.watch((7, 1))
        return made

    def rows(self) -> list[tuple[int, int]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT at, size FROM outputs ORDER BY at").fetchall()


@pytest.fixture
def writing(postgres_url: str, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(postgres_url, tmp_path)
    yield made
    made.output.close()
    made.folder.close()
    made.matins.close()


def test_h10_the_beginning_and_the_end_are_kept(writing: Writing) -> None:
    """B18 H10: 1 MB of each stream in pieces of 64 KB, of a flood that has passed and of one that comes slowly"""
    whole = b"".join(b"%07d\n" % nth for nth in range(300_000))
    for first in range(0, len(whole), 200_000):
        writing.output.write(whole[first : first + 200_000])
        writing.clock.advance(5_000)
        writing.sender.look()
    writing.sender.finish((7, 1))
    assert all(size <= PIECE_BYTES for _, size in writing.rows())
    assert sum(size for _, size in writing.rows()) <= HEAD_BYTES + TAIL_BYTES + PIECE_BYTES
    found, at = b"", 0
    while at < len(whole):
        data, begin, total = writing.kept.read((7, 1), "stdout", at, 1 << 20)
        assert total == len(whole)
        assert begin == at or at == HEAD_BYTES  # in between, nothing is kept
        assert data == whole[begin : begin + len(data)] != b""
        found, at = found + data, begin + len(data)
    assert found.startswith(whole[:HEAD_BYTES])
    assert found.endswith(whole[-TAIL_BYTES:])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ThreadedMotoServer]]:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    for name, value in {"ENDPOINT": address, "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "no",
                        "REGION": "us-east-1"}.items():  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    httpx2.put(f"{address}/runs").raise_for_status()
    kept_output.object_storage.cache_clear()
    yield "s3://runs/matins", server
    kept_output.object_storage.cache_clear()
    with suppress(Exception):  # a test has stopped it
        server.stop()


def test_b18_whole_output_is_on_object_storage(
    writing: Writing, bucket: tuple[str, ThreadedMotoServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B18: what is longer than the store keeps; it is read from there on every node; storage that does not answer
    costs the middle, and no outcome"""
    url, server = bucket
    writing.kept = KeptOutput(writing.matins.store, writing.clock, url)
    whole = b"".join(b"%07d\n" % nth for nth in range(300_000))
    writing.output.write(whole)
    writing.another().finish((7, 1))
    assert writing.rows()[0] == (0, 1_000_000), "the file, up to its limit; behind it are pieces"
    read = KeptOutput(writing.matins.store, writing.clock).read
    assert read((7, 1), "stdout", 900_000, 1000) == (whole[900_000:901_000], 900_000, len(whole))
    assert read((7, 1), "stdout", 999_999, 10)[1] == 999_999
    assert read((7, 1), "stdout", 1_000_000, 10)[1] == len(whole) - TAIL_BYTES

    server.stop()
    monkeypatch.setattr(kept_output, "_PATIENCE_S", 1)
    kept_output.object_storage.cache_clear()
    writing.kept = KeptOutput(writing.matins.store, writing.clock, url)
    with pytest.raises(StoreUnavailable, match=r"s3://runs/matins/\w+ does not answer") as caught:
        read((7, 1), "stdout", 0, 10)
    assert caught.value.hint == "Check the AWS_… variables here."
    writing.kept.keep((8, 1), [kept_output.Piece("stdout", 0, b"x", 2_000_000)])
    file = Path(writing.files.path(7, 1, ".out"))
    writing.kept.keep_whole((8, 1), "stdout", file)
    assert read((8, 1), "stdout", 0, 10) == (b"x", 0, 2_000_000)


def test_b18_a_url_that_is_none_is_refused(postgres_url: str) -> None:
    """B18: before anything runs"""
    for url in ("runs/matins", "s3://", "s3://key:secret@host/x"):
        with pytest.raises(InvalidInput, match="not the URL of object storage") as caught:
            Matins(postgres_url, output_url=url)
        assert caught.value.field == "output_url"


def test_h10_output_is_sent_when_the_store_is_back(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    """B18 H10: each five seconds, each second while somebody reads, and once, also by the engine that takes over"""
    mark = (7, 1)
    writing.output.write(b"one\n")
    writing.sender.look()
    assert writing.rows() == []
    writing.kept.follow(7)
    writing.sender.look()
    assert writing.rows() == [(0, 4)]
    writing.clock.advance(10_001)  # nobody reads any more
    writing.output.write(b"two\n")
    writing.sender.look()
    writing.output.write(b"three\n")
    writing.sender.look()
    assert writing.rows() == [(0, 4), (4, 4)]

    with monkeypatch.context() as patched:

        def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("away")

        patched.setattr(writing.kept, "keep", away)
        with pytest.raises(StoreUnavailable):
            writing.sender.finish(mark)
    writing.sender.finish(mark)
    assert writing.kept.read(mark, "stdout", 0, 100) == (b"one\ntwo\nthree\n", 0, 14)
    another = writing.another()
    writing.output.write(b"four\n")
    another.finish(mark)
    assert writing.kept.read(mark, "stdout", 2, 100) == (b"e\ntwo\nthree\nfour\n", 2, 19)
    with psycopg.connect(writing.url) as connection:
        (data,) = connection.execute("SELECT data FROM outputs WHERE at = 14").fetchone() or (b"",)
    assert zlib.decompress(data) == b"four\n"
