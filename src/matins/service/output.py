"""The output of a run, read while it runs and afterwards: from its folder, and on other machines from the store
(`Outputs`). No supervisor is needed.

`Transcripts`: the same as people read it, with what was said, which tool was called and what came back. A line that no
tool prints stays as it is.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from matins.api.results import Output, Transcript, TranscriptEntry
from matins.engine.validation import check_number
from matins.errors import NotFound, StoreError
from matins.executors.processes import output, proc, run_folder
from matins.executors.processes.output import ERR, OUT, SUFFIXES
from matins.executors.processes.run_folder import Record, name_of, path_in
from matins.executors.registry import runners
from matins.executors.runners.protocol import TellsEntries
from matins.executors.runners.tool_events import MAX_LINE_BYTES, read_event
from matins.model.access import Principal
from matins.model.run import Entry, RunRecord, StepId
from matins.runtime.kept_output import KeptOutput
from matins.service.core import Core
from matins.store import Store


class OutputChunk(NamedTuple):
    data: bytes
    """Secrets are redacted before they reach the files. A character may be cut at both ends."""
    at: int
    """Where the data begins: later than requested when that is not kept. The next offset is `at + len(data)`."""
    total: int
    """Number of bytes so far."""
    complete: bool
    """Nothing more will be written. With `at + len(data) >= total`, this is the end."""


def read_output(folder: Path, name: str, offset: int, limit: int, *, stream: str = output.OUT) -> OutputChunk:
    """Up to `limit` bytes of an attempt: stdout (".out") or stderr (".err"), while it runs and afterwards.

    The first `head_bytes` and the last `tail_bytes` of a run are kept. A run without a journal may still begin, so it
    is not complete.
    """
    complete = _is_complete(path_in(str(folder), name))  # before reading, so that the data read is complete
    return OutputChunk(*output.read_after(path_in(str(folder), name + stream), offset, limit), complete)


def last_output_ms(folder: Path, name: str) -> int | None:
    """When an attempt last wrote to stdout or stderr, in milliseconds of the wall clock. For one that has not, when its
    journal was written; None if it has no files: then it is no process."""
    written = [at for file in output.file_names(name) if (at := _written_ms(folder, file)) is not None]
    return max(written) if written else _written_ms(folder, name)


def _written_ms(folder: Path, file: str) -> int | None:
    try:
        return Path(path_in(str(folder), file)).lstat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None


def _is_complete(path: str) -> bool:
    records = _records(path)
    if not records:
        return False
    # A fence counts only as the first line.
    ended = "fenced" in records[0] or any("exit" in record or "failed" in record for record in records)
    return ended or not _may_write(records[0])


def _may_write(owner: Record) -> bool:
    """Whether the warden lives. Without /proc, it may."""
    if not proc.HAS_PROC:
        return True
    return owner["boot"] == proc.boot_id() and proc.find(*owner["warden"]) is not None


def _records(path: str) -> list[Record]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    try:
        return run_folder.records(file)
    finally:
        os.close(file)


MAX_BYTES = 1 << 20
_MAX_OFFSET = 1 << 62
_TAIL_BYTES = 4_096
StreamName = Literal["stdout", "stderr"]


class Source(NamedTuple):
    """The output of one attempt."""

    folder: Path
    name: str
    stream: str
    run: RunRecord
    identity: str | None
    kept: KeptOutput | None
    """Where the output is that its machine has sent; None if the files are here."""

    def read(self, offset: int, limit: int) -> OutputChunk:
        """Read up to `limit` bytes. The beginning and the end of an output are two files, which are read as one."""
        if self.kept is not None:
            if self.run.state.live:
                self.kept.follow(self.run.id)
            stream = next(name for name, suffix in SUFFIXES.items() if suffix == self.stream)
            found = self.kept.read((self.run.id, self.run.epoch), stream, offset, limit)
            return OutputChunk(*found, complete=not self.run.state.live)
        chunk = read_output(self.folder, self.name, offset, limit, stream=self.stream)
        end = chunk.at + len(chunk.data)
        if not chunk.data or len(chunk.data) == limit or end >= chunk.total:
            return chunk
        rest = read_output(self.folder, self.name, end, limit - len(chunk.data), stream=self.stream)
        return rest._replace(data=chunk.data + rest.data, at=chunk.at) if rest.at == end else chunk

    def begin(self, offset: int) -> int:
        """The offset from the beginning; a negative one is from the end."""
        return offset if offset >= 0 else max(0, self.read(0, 4).total + offset)


@dataclass(frozen=True)
class Outputs:
    core: Core

    def output(
        self,
        principal: Principal,
        run_id: int | StepId,
        *,
        offset: int = 0,
        limit: int = 65_536,
        stream: StreamName = "stdout",
    ) -> Output:
        source = self.source(run_id, stream, offset, limit)
        chunk = source.read(source.begin(offset), limit)
        if chunk.total == 0 and not self.core.store.shared:
            check_local(source.run, source.identity)
        return _output(chunk, source.run)

    def source(self, run_id: int | StepId, stream: StreamName, offset: int, limit: int) -> Source:
        check_number("offset", offset, -_MAX_OFFSET, _MAX_OFFSET)
        check_number("limit", limit, 4, MAX_BYTES)
        with self.core.store.reading() as transaction:
            run = self.core.run(transaction, run_id)
            identity = transaction.worker_of(run.id, run.epoch)
        name = name_of(run.id, run.epoch, part_of(identity, "incarnation") or "")
        folder, store = state_folder(self.core.store, self.core.local.state_folder), self.core.store
        here = any(os.path.lexists(path_in(str(folder), file)) for file in (name, *output.file_names(name)))
        kept = None if here else KeptOutput(store, self.core.clock)
        return Source(folder, name, SUFFIXES[stream], run, identity, kept)

    def tail(self, run_id: int) -> str:
        """The last lines of a run, for a message: of its output, or its answer, and of its errors. Secrets are redacted
        before they reach the files. Empty where there is nothing."""
        try:
            source = self.source(run_id, "stdout", 0, _TAIL_BYTES)
        except NotFound:
            return ""
        run = source.run
        printed, errors = (_last_bytes(source._replace(stream=stream)) for stream in (OUT, ERR))
        words = [line for line in printed.splitlines() if not line.startswith("{")]  # others are events of a tool
        said = "\n".join(words) if words else _answer(run)
        return f"{said}\n{errors}"


def silence_ms(core: Core, run: RunRecord, identity: str | None, now: int) -> int | None:
    """How long a run has written nothing; None if it is no process of this machine. `identity`: of its worker."""
    if part_of(identity, "host") != socket.gethostname():
        return None
    name = name_of(run.id, run.epoch, part_of(identity, "incarnation") or "")
    last = last_output_ms(state_folder(core.store, core.local.state_folder), name)
    return None if last is None else now - last


def _last_bytes(source: Source) -> str:
    return source.read(source.begin(-_TAIL_BYTES), _TAIL_BYTES).data.decode("utf-8", "replace")


def _answer(run: RunRecord) -> str:
    """The answer of an agent; the error of a failed run is a field of its own."""
    match run.outcome:
        case {"result": {"text": str(text)}}:
            return text
        case _:
            return ""


def state_folder(store: Store, named: str | None) -> Path:
    """The folder of journals and output: the named one, or beside the file of the store. It outlives a restart, so it
    is in the temporary directory only for a store in memory."""
    if named is not None:
        return Path(named).expanduser().absolute() / store.store_id
    if store.path is not None:
        return store.path.with_name(f"{store.path.name}.runs")
    if store.shared:
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(base).expanduser() / "matins" / store.store_id
    return _own_folder(Path(tempfile.gettempdir()) / f"matins-{os.getuid()}") / store.store_id


def _own_folder(path: Path) -> Path:
    """Create the folder. Raises StoreError if another user may have created it, since its name can be guessed."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IWOTH:
        hint = "Remove it, or set TMPDIR to another directory."
        raise StoreError(f"{path} is not a private directory of this user.", hint=hint)
    return path


def _output(chunk: OutputChunk, run: RunRecord) -> Output:
    end = chunk.at + len(chunk.data)
    complete = end >= chunk.total and (chunk.complete or not run.state.live)
    data = chunk.data if complete else whole_characters(chunk.data)
    return Output(data.decode("utf-8", "replace"), chunk.at, chunk.at + len(data), chunk.total, complete)


def whole_characters(data: bytes) -> bytes:
    """The data without an incomplete character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def check_local(run: RunRecord, identity: str | None) -> None:
    host = part_of(identity, "host")
    if host not in (None, socket.gethostname()):
        hint = f"Run there: matins logs {run.id}"
        raise NotFound(f"Run {run.id} ran on {host}; its output is there.", value=run.id, field="run_id", hint=hint)


def part_of(identity: str | None, name: str) -> str | None:
    """A part of the identity of a worker; None if there is none."""
    return json.loads(identity).get(name) if identity else None


@cache
def _tools() -> tuple[TellsEntries, ...]:
    """Each recognises its events by their form, so a tool is read the same behind a shell command."""
    return tuple(runner for runner in runners().values() if isinstance(runner, TellsEntries))


def entries_of(line: bytes) -> list[Entry]:
    """The entries of one line, without its end."""
    event = read_event(line) if line.rstrip().endswith(b"}") else None
    if event is not None and event.text("type") is not None:
        for tool in _tools():
            found = tool.entries(event)
            if found is not None:
                return found
    return [plain(line)]


def plain(line: bytes) -> Entry:
    return Entry("line", line.decode("utf-8", "replace").removesuffix("\r"))


def may_be_event(line: bytes) -> bool:
    """Whether the beginning of a line may become an event."""
    return line.lstrip().startswith(b"{")


def joined(entries: Iterable[Entry]) -> list[Entry]:
    """The entries, with the pieces of a message as one."""
    found: list[Entry] = []
    for entry in entries:
        if found and entry.part_of is not None and found[-1].part_of == entry.part_of:
            found[-1] = found[-1]._replace(text=found[-1].text + entry.text)
        else:
            found.append(entry)
    return found


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
        if page.total == 0 and not self.outputs.core.store.shared:
            check_local(source.run, source.identity)
        return page


def page_of(source: Source, offset: int, limit: int) -> Transcript:
    """About `limit` bytes of lines from an offset on. An event is read whole, up to its own limit; another line that is
    not complete yet is shown as far as it is."""
    from_end, offset = offset < 0, source.begin(offset)
    back = min(offset, _LOOK_BACK)
    chunk = source.read(offset - back, limit + back)
    before, data = chunk.data[: max(0, offset - chunk.at)], chunk.data[max(0, offset - chunk.at) :]
    at, inside = max(offset, chunk.at), (not before.endswith(b"\n") if before else offset > 0)
    if from_end and inside and b"\n" in data:  # the rest of a line means nothing
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
