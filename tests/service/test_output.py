"""What a run has written, while it runs and afterwards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postgres_fixtures
from matins import Matins
from matins.api.results import Output
from matins.errors import InvalidInput, NotFound, StoreError
from matins.service.output import state_folder, whole_characters
from matins.testing import Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
_TALK = 'printf "h\\303\\251llo 1\\n"; echo oops >&2; read go < "$FIFO"; echo "bye $SECRET"'


@pytest.fixture
def matins(tmp_path: Path) -> Iterator[Matins]:
    made = Matins(f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()


class Talk:
    """An agent that says something, waits to be let on, and says the rest."""

    def __init__(self, matins: Matins, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        monkeypatch.setenv("KEY", "s3cret-value")
        environment = {"FIFO": str(self.fifo), "SECRET": "env:KEY"}
        matins.agents.set("sh", runner="shell", command=["sh", "-c", _TALK], environment=environment)
        matins.add("talk", when="every 1 day", agent="sh", prompt="Talk.")
        self.matins = matins
        self.ended = threading.Event()
        matins.subscribe(lambda event: self.ended.set(), types=["run.succeeded", "run.failed"])

    def let_on(self) -> None:
        self.fifo.write_text("go\n")  # returns when it reads: all before it is written
        assert self.ended.wait(90)

    def until(self, run_id: str, text: str) -> Any:
        """Reads on until it is there: it is on its way."""
        for _ in range(9000):
            found = self.matins.runs.output(run_id)
            if text in found.text:
                return found
            threading.Event().wait(0.01)
        raise AssertionError(found)


def test_what_is_written_can_be_read_while_it_runs_and_afterwards(
    matins: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(matins, tmp_path, monkeypatch)
    with matins:
        run = matins.run("talk")
        early = talk.until(run.id, "héllo")
        assert (early.text, early.offset, early.over) == ("héllo 1\n", 0, False)
        assert early.next == early.total == len("héllo 1\n".encode())
        talk.let_on()
    late = matins.runs.output(run.id, offset=early.next)
    assert late.text.startswith("bye ")
    assert "s3cret-value" not in late.text
    assert late.over
    assert late.next == late.total
    assert matins.runs.output(run.id, stream="stderr").text == "oops\n"
    whole = matins.runs.output(run.id)
    assert whole.text == early.text + late.text
    assert matins.runs.output(run.id, offset=10_000).text == ""
    assert matins.runs.output(run.id, offset=-3).text == whole.text[-3:]
    assert [entry.text for entry in matins.runs.transcript(run.id).entries] == whole.text.splitlines()


def test_outputs_are_searched_without_secrets(matins: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: the index has the ends of stdout and stderr; lines of all outputs are found as they are read"""
    talk = Talk(matins, tmp_path, monkeypatch)
    with matins:
        run = matins.run("talk")
        talk.let_on()
    matins.outbox.run_once(matins.clock.now_ms())
    for words in ("bye", "oops", "héllo"):
        assert [found.id for found in matins.runs.list(text=words)] == [run.id]
    assert matins.runs.list(text="s3cret") == []
    found = matins.runs.grep("h*LLO")
    assert [(one.run_id, one.schedule, one.stream, one.line) for one in found.lines] == [
        (run.id, "talk", "stdout", "héllo 1")
    ]
    assert (found.runs, found.before) == (1, None)
    assert [one.stream for one in matins.runs.grep("oops", schedule="talk").lines] == ["stderr"]
    assert matins.runs.grep("s3cret").lines == []
    assert matins.runs.grep("bye", until=run.planned_at).lines == []
    for wrong in ("", "*"):
        with pytest.raises(InvalidInput, match=r'"text" is'):
            matins.runs.grep(wrong)


def test_a_run_with_many_lines_costs_no_more_than_is_asked_for(matins: Matins) -> None:
    """B7: a run may have five million lines of one letter"""
    matins.agents.set("sh", runner="shell", command=["sh", "-c", "yes a | head -c 5000000; echo b"])
    matins.add("talk", when="every 1 day", agent="sh", prompt="Talk.")
    with matins:
        run = matins.runs.wait(matins.run("talk").id, timeout=90)
    found = matins.runs.grep("a", limit=10)
    assert ([one.line for one in found.lines], found.cut, found.runs) == (["a"] * 10, [run.id], 1)
    assert found.bytes <= 2 << 20
    assert matins.runs.grep("b", limit=1).cut == []


def test_read_in_small_pieces_it_is_the_same(matins: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece cuts a character."""
    talk = Talk(matins, tmp_path, monkeypatch)
    with matins:
        run = matins.run("talk")
        talk.let_on()
    whole, seen, at = matins.runs.output(run.id).text, "", 0
    for _ in range(100):
        piece = matins.runs.output(run.id, offset=at, limit=4)
        seen += piece.text
        at = piece.next
        if piece.over:
            break
    assert seen == whole
    assert "\N{REPLACEMENT CHARACTER}" not in seen


@pytest.mark.parametrize("text", ["", "a", "é", "aé", "€", "a€", "🙂", "ab🙂", "é€🙂"])
def test_a_piece_ends_with_a_whole_character(text: str) -> None:
    data = text.encode()
    for end in range(len(data) + 1):
        kept = whole_characters(data[:end])
        assert text.startswith(kept.decode())
        assert end - len(kept) < 4
    assert whole_characters(data) == data
    assert whole_characters(b"\x80\x80\x80\x80\x80") == b"\x80\x80\x80\x80\x80"


def test_a_run_that_has_nothing_to_say(tmp_path: Path) -> None:
    bench = Sandbox(f"sqlite:///{tmp_path}/matins.db")
    bench.job("work")(lambda run: None)
    bench.add("s", when="every 1h", job="work")
    run = bench.run("s")
    assert bench.runs.output(run.id) == Output("", 0, 0, 0, False)
    bench.settle()
    assert bench.runs.output(run.id) == Output("", 0, 0, 0, True)
    bench.close()


def test_one_that_ran_on_another_machine_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Sandbox(f"sqlite:///{tmp_path}/matins.db")
    bench.job("work")(lambda run: None)
    bench.add("s", when="every 1h", job="work")
    run = bench.run("s")
    bench.settle()
    store: Any = bench.store
    store._connection.execute("UPDATE workers SET identity = json_object('host', 'far-away', 'pid', 7)")
    with pytest.raises(NotFound, match=f"Run {run.id} ran on far-away"):
        bench.runs.output(run.id)
    store._connection.execute("UPDATE workers SET identity = json_object('host', ?, 'pid', 7)", (socket.gethostname(),))
    assert bench.runs.output(run.id).over
    bench.close()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"offset": 1 << 63}, "offset"),
        ({"limit": 3}, "limit"),
        ({"limit": 1 << 21}, "limit"),
        ({"stream": "log"}, "stream"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(matins: Matins, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        matins.runs.output(1, **arguments)
    assert refused.value.field == field
    with pytest.raises(NotFound, match="There is no run 1"):
        matins.runs.output(1)


def test_journals_are_never_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """S2, H8: they prove what ran, also after a restart of the machine. They may be where the owner says."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        assert state_folder(m.store, None) == tmp_path / "matins.db.runs"
        assert state_folder(m.store, str(tmp_path / "named")) == tmp_path / "named" / m.store.store_id
    with closing(Matins(postgres_url)) as m:
        assert state_folder(m.store, None) == tmp_path / "state" / "matins" / m.store.store_id
        assert state_folder(m.store, str(tmp_path / "named")) == tmp_path / "named" / m.store.store_id


@pytest.mark.parametrize("planted", ["open", "link", "file"])
def test_a_temporary_folder_that_others_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """Its name can be guessed, and the temporary folder is everybody's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with closing(Sandbox()) as bench:
        folder = state_folder(bench.store, None).parent
        assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
        if planted == "open":
            folder.chmod(0o777)
        else:
            folder.rmdir()
            folder.symlink_to(tmp_path) if planted == "link" else folder.touch()
        with pytest.raises(StoreError, match="not a private directory of this user"):
            state_folder(bench.store, None)
