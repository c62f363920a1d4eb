"""The output of a run, read from its folder while it runs and afterwards."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from matins.api.results import Output
from matins.engine.validation import check_number
from matins.errors import NotFound, StoreError
from matins.executors.processes.output import ERR, OUT
from matins.executors.processes.output_chunks import OutputChunk, last_output_ms, read_output
from matins.executors.processes.run_folder import name_of
from matins.model.access import Principal
from matins.model.run import RunRecord, StepId
from matins.service.core import Core
from matins.store import Store

MAX_BYTES = 1 << 20
_MAX_OFFSET = 1 << 62
_TAIL_BYTES = 4_096
_STREAMS = {"stdout": OUT, "stderr": ERR}
StreamName = Literal["stdout", "stderr"]


class Source(NamedTuple):
    """The output of one attempt."""

    folder: Path
    name: str
    stream: str
    run: RunRecord
    identity: str | None

    def read(self, offset: int, limit: int) -> OutputChunk:
        """Up to `limit` bytes. The beginning of an output and its end are two files, which are read as one."""
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
        if chunk.total == 0:
            check_local(source.run, source.identity)
        return _output(chunk, source.run)

    def source(self, run_id: int | StepId, stream: StreamName, offset: int, limit: int) -> Source:
        check_number("offset", offset, -_MAX_OFFSET, _MAX_OFFSET)
        check_number("limit", limit, 4, MAX_BYTES)
        with self.core.store.reading() as transaction:
            run = self.core.run(transaction, run_id)
            identity = transaction.worker_of(run.id, run.epoch)
        name = name_of(run.id, run.epoch, _part(identity, "incarnation") or "")
        folder = state_folder(self.core.store, self.core.local.state_folder)
        return Source(folder, name, _STREAMS[stream], run, identity)

    def tail(self, run_id: int) -> str:
        """The last lines of a run, for a message: of its output, or its answer, and of its errors. Secrets are redacted
        before they reach the files. Empty where there is nothing on this machine."""
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
    if _part(identity, "host") != socket.gethostname():
        return None
    name = name_of(run.id, run.epoch, _part(identity, "incarnation") or "")
    last = last_output_ms(state_folder(core.store, core.local.state_folder), name)
    return None if last is None else now - last


def _last_bytes(source: Source) -> str:
    return source.read(source.begin(-_TAIL_BYTES), _TAIL_BYTES).data.decode("utf-8", "replace")


def _answer(run: RunRecord) -> str:
    """The answer of an agent; the error of a failed run is told beside it."""
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
    host = _part(identity, "host")
    if host not in (None, socket.gethostname()):
        hint = f"Run there: matins logs {run.id}"
        raise NotFound(f"Run {run.id} ran on {host}; its output is there.", value=run.id, field="run_id", hint=hint)


def _part(identity: str | None, name: str) -> str | None:
    """A part of the identity of a worker; None if there is none."""
    return json.loads(identity).get(name) if identity else None
