"""Reads the result of an agent from its stored output."""

from __future__ import annotations

from matins.executors.preparation import Prepared
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.processes.run_files import RunFiles
from matins.executors.result_secrets import without_secrets
from matins.executors.runners.protocol import Reader, ReadsErrors, RunnerResult
from matins.runtime.attempt import Mark

_CHUNK = 1 << 20


def read_result(files: RunFiles, started: Prepared, process: ProcessOutcome) -> RunnerResult:
    """The result of a run that is over."""
    reader = started.reader()
    _feed_output(reader, files, started.attempt.mark, process)
    if isinstance(reader, ReadsErrors):
        for line in stderr_tail(files, started).splitlines():
            reader.feed_error(line)
    result = started.meter.explained(started.meter.of_run(reader.close(process.exit_code)))
    return without_secrets(result, started.call.secrets)


def _feed_output(reader: Reader, files: RunFiles, mark: Mark, process: ProcessOutcome) -> None:
    """Feed the reader the stored output: the head, and the tail too where the output was truncated."""
    rest, offset = b"", 0
    while chunk := files.read(*mark, offset, _CHUNK):
        offset += len(chunk)
        rest = _feed(reader, rest + chunk)
    if process.truncated:  # the final event is at the end
        tail = files.tail(*mark)
        missing = process.stdout_bytes - offset - len(tail)
        rest = _feed(reader, rest + tail[-missing:] if missing <= 0 else tail.partition(b"\n")[2])
    if rest:
        reader.feed(rest)


def stderr_tail(files: RunFiles, started: Prepared) -> bytes:
    """The end of the stderr of the process, if there is one."""
    return b"" if started.command is None else files.tail(*started.attempt.mark, stream=".err")


def _feed(reader: Reader, data: bytes) -> bytes:
    """Feed complete lines and return the rest of the last one."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        reader.feed(line)
    return rest
