"""The output of a run, as people read it."""

from __future__ import annotations

from dataclasses import dataclass

from matins.api.results import Transcript, TranscriptEntry
from matins.executors.runners.tool_events import MAX_LINE_BYTES
from matins.executors.transcript import entries_of, joined, may_be_event, plain
from matins.model.access import Principal
from matins.model.run import Entry, StepId
from matins.service.output import Outputs, Source, StreamName, check_local, whole_characters

_LOOK_BACK = 8_192
"""Bytes before the requested ones that are read too: pieces of a message may begin there."""


@dataclass(frozen=True)
class Transcripts:
    outputs: Outputs

    def transcript(
        self,
        principal: Principal,
        run_id: int | StepId,
        *,
        offset: int = 0,
        limit: int = 65_536,
        stream: StreamName = "stdout",
    ) -> Transcript:
        source = self.outputs.source(run_id, stream, offset, limit)
        page = page_of(source, offset, limit)
        if page.total == 0:
            check_local(source.run, source.identity)
        return page


def page_of(source: Source, offset: int, limit: int) -> Transcript:
    """About `limit` bytes of lines from an offset on. An event is read whole, up to its own limit; another line that is
    not complete yet is shown as far as it is."""
    from_end, offset = offset < 0, source.begin(offset)
    back = min(offset, _LOOK_BACK)
    chunk = source.read(offset - back, limit + back)
    before, data = chunk.data[: max(0, offset - chunk.at)], chunk.data[max(0, offset - chunk.at) :]
    at, inside = max(offset, chunk.at), _is_inside(before, offset)
    if from_end and inside and b"\n" in data:  # the rest of a line tells nothing
        at, inside, data = at + data.index(b"\n") + 1, False, data.partition(b"\n")[2]
    if not inside and b"\n" not in data and may_be_event(data) and at + len(data) < chunk.total:
        chunk = source.read(at, MAX_LINE_BYTES)
        data = chunk.data[: chunk.data.find(b"\n") + 1] or chunk.data
    over = at + len(data) >= chunk.total and (chunk.complete or not source.run.state.live)
    data = data[: _readable(data, inside=inside, over=over)]
    missing = [_missing(at - offset)] if at > offset and not from_end else []
    entries = _entries(data, inside=inside, over=over)
    continues = not missing and (inside or _is_piece(entries, before))
    return Transcript(_results(missing + entries, continues=continues), at, at + len(data), chunk.total, over)


def _results(entries: list[Entry], *, continues: bool) -> list[TranscriptEntry]:
    return [
        TranscriptEntry(entry.kind, entry.text, continues=continues and index == 0)
        for index, entry in enumerate(joined(entries))
    ]


def _is_inside(before: bytes, offset: int) -> bool:
    """Whether the offset is inside a line."""
    return not before.endswith(b"\n") if before else offset > 0


def _readable(data: bytes, *, inside: bool, over: bool) -> int:
    """How many bytes to show: an event that is not complete waits for its end."""
    end = data.rfind(b"\n") + 1
    rest = data[end:]
    waits = may_be_event(rest) and not (inside and end == 0) and len(rest) < MAX_LINE_BYTES
    return len(data) if over else end if waits else end + len(whole_characters(rest))


def _entries(data: bytes, *, inside: bool, over: bool) -> list[Entry]:
    *lines, rest = data.split(b"\n")
    found = [entry for line in lines[inside:] for entry in entries_of(line)]
    if inside and lines:
        found.insert(0, plain(lines[0]))
    if rest:
        found += entries_of(rest) if over and (lines or not inside) else [plain(rest)]
    return found


def _is_piece(entries: list[Entry], before: bytes) -> bool:
    """Whether the first entry is a piece of the message that the last line before belongs to."""
    if not entries or entries[0].part_of is None or not before.endswith(b"\n"):
        return False
    last = entries_of(before[:-1].rpartition(b"\n")[2])
    return bool(last) and last[-1].part_of == entries[0].part_of


def _missing(count: int) -> Entry:
    return Entry("note", f"{count:,} bytes were not kept")
