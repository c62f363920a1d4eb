"""The transcript of a run, read in parts: the same as at once, whatever their size."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matins.api.codec import to_document
from matins.executors.processes.output import OUT
from matins.executors.processes.run_folder import path_in
from matins.service.output import Source, page_of
from matins.surfaces.display import TranscriptText

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings").glob("*/tool_call.out"))


def source(folder: Path, data: bytes, *, live: bool = False) -> Source:
    path = Path(path_in(str(folder), f"run{OUT}"))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    run: Any = SimpleNamespace(id=1, state=SimpleNamespace(live=live))
    return Source(folder, "run", OUT, run, None, None)


def text_of(found: Source, limit: int) -> str:
    text, at, shown = TranscriptText(), 0, ""
    while True:
        page = page_of(found, at, limit)
        shown += text.read(to_document(page.entries))
        assert page.next > at or page.over
        at = page.next
        if page.over:
            return shown + text.rest()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name)
def test_in_parts_it_reads_the_same(tmp_path: Path, path: Path) -> None:
    data = path.read_bytes() + "plain wörds\nno end".encode()
    whole = text_of(source(tmp_path, data), 1 << 20)
    assert "Written.\n" in whole
    assert whole.endswith("plain wörds\nno end\n")
    for limit in (4, 100, random.Random(1).randrange(5, 3_000)):
        assert text_of(source(tmp_path, data), limit) == whole


def test_an_event_waits_for_its_end_and_words_do_not(tmp_path: Path) -> None:
    event = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "whole"}]}}).encode()
    begun = page_of(source(tmp_path, b"begun\n" + event[:30], live=True), 0, 1_000)
    assert [entry.text for entry in begun.entries] == ["begun"]
    ended = page_of(source(tmp_path, b"begun\n" + event + b"\n", live=True), begun.next, 1_000)
    assert [(entry.kind, entry.text) for entry in ended.entries] == [("words", "whole")]
    words = page_of(source(tmp_path, b"half a li", live=True), 0, 1_000)
    rest = page_of(source(tmp_path, b"half a line\n", live=True), words.next, 1_000)
    text = TranscriptText()
    assert text.read(to_document([*words.entries, *rest.entries])) + text.rest() == "half a line\n"


def test_the_end_of_a_long_output_begins_with_a_line(tmp_path: Path) -> None:
    """A line of ten megabytes has no beginning to wait for: its end is shown as it is."""
    lines = b"".join(b"line %d\n" % number for number in range(10_000))
    page = page_of(source(tmp_path, lines), -1_000, 1_000)
    assert page.entries[0].text.startswith("line ")
    assert page.entries[-1].text == "line 9999"
    assert page.offset + sum(len(entry.text) + 1 for entry in page.entries) == page.total == page.next
    long = page_of(source(tmp_path, b"x" * 10_000_000), -1_000, 1_000)
    assert [entry.text for entry in long.entries] == ["x" * 1_000]


def test_an_event_longer_than_the_limit_is_read_whole(tmp_path: Path) -> None:
    event = {"type": "user", "message": {"content": [{"type": "tool_result", "content": "a\n" * 300_000}]}}
    page = page_of(source(tmp_path, json.dumps(event).encode() + b"\nnext\n"), 0, 65_536)
    assert [entry.text for entry in page.entries][:1] == ["a\na\na\na\n… 299996 more lines"]
