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
from typing import Literal

from matins.api.results import Output
from matins.engine.validation import check_number
from matins.errors import NotFound, StoreError
from matins.executors.processes.journal import name_of
from matins.executors.processes.output import ERR, OUT
from matins.executors.processes.output_chunks import OutputChunk, read_output
from matins.model.access import Principal
from matins.model.run import RunRecord, StepId
from matins.ports import Store
from matins.service.core import Core

MAX_BYTES = 1 << 20
_MAX_OFFSET = 1 << 62
_TAIL_BYTES = 4_096
_STREAMS = {"stdout": OUT, "stderr": ERR}


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
        stream: Literal["stdout", "stderr"] = "stdout",
    ) -> Output:
        check_number("offset", offset, 0, _MAX_OFFSET)
        check_number("limit", limit, 4, MAX_BYTES)
        with self.core.store.reading() as transaction:
            run = self.core.run(transaction, run_id)
            identity = transaction.worker_of(run.id, run.epoch)
        name = name_of(run.id, run.epoch, _part(identity, "incarnation") or "")
        folder = state_folder(self.core.store, self.core.local.state_folder)
        chunk = read_output(folder, name, offset, limit, stream=_STREAMS[stream])
        if chunk.total == 0:
            _check_local(run, identity)
        return _output(chunk, run)

    def tail(self, run_id: int) -> str:
        """The last lines of a run, for a message: of its output, or its answer, and of its errors. Secrets are redacted
        before they reach the files. Empty where there is nothing on this machine."""
        try:
            with self.core.store.reading() as transaction:
                run = self.core.run(transaction, run_id)
                identity = transaction.worker_of(run.id, run.epoch)
        except NotFound:
            return ""
        name = name_of(run.id, run.epoch, _part(identity, "incarnation") or "")
        folder = state_folder(self.core.store, self.core.local.state_folder)
        printed, errors = (_last_bytes(folder, name, stream) for stream in (OUT, ERR))
        plain = [line for line in printed.splitlines() if not line.startswith("{")]  # others are events of a tool
        said = "\n".join(plain) if plain else _answer(run)
        return f"{said}\n{errors}"


def _last_bytes(folder: Path, name: str, stream: str) -> str:
    total = read_output(folder, name, 0, 4, stream=stream).total
    return read_output(folder, name, max(0, total - _TAIL_BYTES), _TAIL_BYTES, stream=stream).data.decode(
        "utf-8", "replace"
    )


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
    data = chunk.data if complete else _whole_characters(chunk.data)
    return Output(data.decode("utf-8", "replace"), chunk.at, chunk.at + len(data), chunk.total, complete)


def _whole_characters(data: bytes) -> bytes:
    """The data without an incomplete character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _check_local(run: RunRecord, identity: str | None) -> None:
    host = _part(identity, "host")
    if host not in (None, socket.gethostname()):
        hint = f"Run there: matins logs {run.id}"
        raise NotFound(f"Run {run.id} ran on {host}; its output is there.", value=run.id, field="run_id", hint=hint)


def _part(identity: str | None, name: str) -> str | None:
    """A part of the identity of a worker; None if there is none."""
    return json.loads(identity).get(name) if identity else None
