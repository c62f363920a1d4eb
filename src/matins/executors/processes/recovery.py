"""Finds the outcome of a run: from its journal, and from the processes that are still alive."""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matins.errors import InvalidInput
from matins.executors.processes import output, proc
from matins.executors.processes import run_folder as journal
from matins.executors.processes.channel import Channel, Message, try_send
from matins.executors.processes.launch import HEAD_BYTES, TAIL_BYTES, EndedBy, OutcomeKind, ProcessOutcome
from matins.executors.processes.output import ERR, OUT, stored_bytes
from matins.executors.processes.run_folder import WARDEN, Record, RunFolder, warden_name

_REPLY_TIMEOUT_MS = 2_000
_EXIT_TIMEOUT_MS = 1_000
_MAX_ROUNDS = 50
"""A tree that forks faster than it is found must not keep the caller; it is tried again."""
log = logging.getLogger("matins")
_OF_MACHINE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
)
"""No space or inodes, a disk that fails or takes nothing, no memory, processes or files left."""


class Attached(NamedTuple):
    """The warden of a running run."""

    channel: Channel
    warden: tuple[int, int]
    """Its pid and start time."""
    times: Message
    """What it said about the times of the run; empty while it has not answered."""


def open_private(folder: Path) -> RunFolder:
    """The folder, for this user alone."""
    run_folder = RunFolder(str(folder))
    if os.fstat(run_folder.fd).st_uid != os.geteuid():
        run_folder.close()
        raise InvalidInput(f"{folder} belongs to another user.", value=str(folder), hint="Use your own folder.")
    os.fchmod(run_folder.fd, 0o700)
    return run_folder


def evidence_in(folder: Path) -> dict[str, Any]:
    """What the evidence in a folder depends on: this boot of the machine, and the folder itself. And what identifies
    this process on it: pids have a meaning in their namespace only, and are used again."""
    run_folder = open_private(folder)
    try:
        return {
            "boot": proc.kernel_boot_id(),
            "nonce": run_folder.nonce,
            "namespace": proc.boot_id().partition(" ")[2],
            "pid": os.getpid(),
            "start": proc.start_of(os.getpid()),
        }
    finally:
        run_folder.close()


def is_gone(own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the process with the other evidence has ended, and left its runs in the folder of this one. False if
    that cannot be known: the system does not say when a process began, or the machine was restarted."""
    same_place = all(own[name] == other.get(name) for name in ("boot", "nonce", "namespace"))
    pid, start = other.get("pid"), other.get("start")
    return same_place and bool(pid) and bool(start) and proc.find(pid, start) is None


def machine_error(number: int | None) -> str | None:
    """The text of this errno, if it is a reason of the machine: another one could have started the run."""
    return os.strerror(number) if number in _OF_MACHINE else None


def find_outcome(run_folder: RunFolder, key: str, *, evident: bool = True) -> tuple[ProcessOutcome, Attached | None]:
    """The outcome, and the warden of a running run. A run without an owner can never start afterwards.

    `evident`: whether a missing journal proves that the run was not started.
    """
    records = _fenced(run_folder, key, "never_started" if evident else "unknown")
    if (outcome := outcome_from(run_folder, key, records)) is not None:
        return outcome, None
    channel, answer = _attach(run_folder, records[0]["sock"], key)
    if channel is not None:
        running = with_paths(run_folder, key, ProcessOutcome("running", started_at=records[0]["at"]))
        return running, Attached(channel, tuple(records[0]["warden"]), answer)
    kind: OutcomeKind = "orphaned" if _is_alive(records, answered=bool(answer)) else "unknown"
    # Read after the check for life: a process writes its last line before it exits.
    records = _read(run_folder, key) + ([answer["ended"]] if "ended" in answer else [])
    return outcome_from(run_folder, key, records) or with_paths(
        run_folder, key, ProcessOutcome(kind, started_at=records[0]["at"])
    ), None


def end_orphans(run_folder: RunFolder, key: str) -> None:
    """End the processes that survive both keeper and warden."""
    records = _read(run_folder, key)
    proc.kill_all(lambda: _strays(records))


def take_over(run_folder: RunFolder, key: str, warden: tuple[int, int], ended_by: EndedBy) -> Record | None:
    """End a run in the place of its warden, and the warden, and return the last record.

    It is None when it must be tried again, and empty when the warden had not started the run."""
    process = proc.find(*warden)
    records = _read(run_folder, key)
    owned = bool(records) and records[0].get("warden") == list(warden)

    def below() -> list[proc.Process]:
        return [] if process is None else proc.descendants(process.pid)

    if process is not None and not proc.is_stopped(process) and _kernel_keeps(below()):
        return None  # the warden has done what can be done
    watcher = [] if process is None else [process]
    proc.send(watcher, signal.SIGSTOP)
    tree, _ = proc.stop_all(below, _MAX_ROUNDS)  # before every environment of the machine is read
    strays, are_all = proc.stop_all(lambda: {*below(), *(_strays(records) if owned else ())}, _MAX_ROUNDS)
    if are_all:
        proc.send(watcher, signal.SIGKILL)  # first, so that it does not see them end, and writes nothing
    proc.send(tree | strays, signal.SIGKILL)
    _end_group(records)
    if not are_all:
        return None
    until = proc.boot_ms() + _EXIT_TIMEOUT_MS
    for killed in (*watcher, *tree, *strays):  # one that takes longer runs no more code either
        proc.wait_gone(killed, max(0, until - proc.boot_ms()))
    run_folder.remove(f"{warden_name(*warden)}.sock")
    return _last_line(run_folder, key, ended_by, len(tree | strays)) if owned else {}


def _kernel_keeps(tree: list[proc.Process]) -> bool:
    """Whether only processes are left that no signal ends, as on a network disk that is gone."""
    return bool(tree) and all(proc.state_of(process) == "D" for process in tree)


def _end_group(records: list[Record]) -> None:
    """End the group of the command and its warden, where the system lists no processes. The warden is stopped and reaps
    no child, so the pid of the command is still its own."""
    pids = [record["pid"][0] for record in records if "pid" in record]
    if not proc.HAS_PROC and pids:
        os.killpg(pids[0], signal.SIGKILL)
        os.kill(records[0]["warden"][0], signal.SIGKILL)


def _last_line(run_folder: RunFolder, key: str, ended_by: EndedBy, killed: int) -> Record:
    """The last record: the warden's own, if it wrote one before it stopped."""
    records = _read(run_folder, key)
    if (last := _last_of(records)) is not None:
        return last
    stdout_bytes, truncated = stored_bytes(run_folder.run_path(key + OUT))
    last = {
        "exit": None,
        "signal": int(signal.SIGKILL),
        "ended_by": ended_by,
        "isolated": records[0]["isolated"],
        "from": records[0]["at"],
        "at": proc.wall_ms(),
        "usage": [0, 0, 0],
        "bytes": [stdout_bytes, stored_bytes(run_folder.run_path(key + ERR))[0]],
        "truncated": truncated,
        "leftovers": max(0, killed - 1),
    }
    file = journal.open_run(run_folder.runs_fd, key)
    try:
        journal.append(file, last)
    except OSError as error:  # a full disk must not keep the run
        log.warning("The end of %s could not be written: %s", key, error)
    finally:
        os.close(file)
    return last


def outcome_from(run_folder: RunFolder, key: str, records: list[Record]) -> ProcessOutcome | None:
    """The outcome by the records alone; None while the run is open."""
    if "fenced" in records[0]:
        return with_paths(run_folder, key, ProcessOutcome(records[0]["fenced"]))
    last = _last_of(records)
    return None if last is None else outcome_from_last(run_folder, key, last)


def outcome_from_last(run_folder: RunFolder, key: str, last: Record) -> ProcessOutcome:
    if "failed" in last:
        reason = machine_error(last.get("errno"))
        outcome = ProcessOutcome("never_started", ended_at=last["at"], error=last["failed"], machine_error=reason)
        return with_paths(run_folder, key, outcome)
    max_rss_kb, user_ms, system_ms = last["usage"]
    stdout_bytes, stderr_bytes = last["bytes"]
    outcome = ProcessOutcome(
        "finished",
        last["exit"],
        last["signal"],
        last["ended_by"],
        last["from"],
        last["at"],
        max_rss_kb,
        user_ms,
        system_ms,
        stdout_bytes=stdout_bytes,
        stderr_bytes=stderr_bytes,
        truncated=last["truncated"],
        leftovers=last["leftovers"],
        isolated=last["isolated"],
    )
    return with_paths(run_folder, key, outcome)


def with_paths(run_folder: RunFolder, key: str, outcome: ProcessOutcome) -> ProcessOutcome:
    return outcome._replace(stdout_path=run_folder.run_path(key + OUT), stderr_path=run_folder.run_path(key + ERR))


def _last_of(records: list[Record]) -> Record | None:
    return next((record for record in records if "exit" in record or "failed" in record), None)


def _read(run_folder: RunFolder, key: str) -> list[Record]:
    file = journal.open_run(run_folder.runs_fd, key)
    try:
        return journal.records(file)
    finally:
        os.close(file)


def _fenced(run_folder: RunFolder, key: str, kind: OutcomeKind) -> list[Record]:
    """The records. Without an owner, a fence becomes the first of them."""
    records = _read(run_folder, key)
    if records:
        return records
    file = journal.open_run(run_folder.runs_fd, key)
    try:
        journal.append(file, {"fenced": kind, "at": proc.wall_ms()})
    finally:
        os.close(file)
    return _read(run_folder, key)


def _attach(run_folder: RunFolder, sock: str, key: str) -> tuple[Channel | None, Message]:
    """A channel when the warden runs this run; otherwise its reply, if any."""
    try:
        channel = Channel(run_folder.connect(sock))
    except OSError:
        return None, {}
    answer = _wait_for_reply(channel) if try_send(channel, {"attach": key}) else {}
    if answer is None or answer.get("on"):
        return channel, answer or {}
    channel.close()
    return None, answer


def _wait_for_reply(channel: Channel) -> Message | None:
    """The reply. None when the warden is busy; empty when it is gone."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while poll.poll(_REPLY_TIMEOUT_MS):
        messages, _, connected = channel.receive()
        if messages or not connected:
            return messages[-1] if messages else {}
    return None


def _is_alive(records: list[Record], *, answered: bool) -> bool:
    """Whether a process of the run lives, or a warden that does not answer."""
    owner = records[0]
    if answered or owner["boot"] != proc.boot_id():
        return False
    warden = proc.find(*owner["warden"])
    if warden is not None and not proc.wait_gone(warden, _EXIT_TIMEOUT_MS):
        return True
    return bool(_strays(records))


def _strays(records: list[Record]) -> set[proc.Process]:
    """Live processes of the tree: those with the warden's mark, the command (it may drop the mark), descendants."""
    pids = [record["pid"] for record in records if "pid" in record]
    command = proc.find(*pids[0]) if pids else None
    mark = f"{WARDEN}={warden_name(*records[0]['warden'])}"
    found = {*proc.with_variable(mark), *([command] if command else [])}
    return found | {*proc.descendants(*(process.pid for process in found))}


class RunFiles:
    def __init__(self, run_folder: RunFolder, name: Callable[[int, int], str]) -> None:
        self._run_folder = run_folder
        self._name = name
        """Names the files of a run, by run and epoch."""

    @property
    def folder(self) -> str:
        return self._run_folder.path

    def open_output(self, run_id: int, epoch: int, secrets: Iterable[str]) -> output.Output:
        """The stored stdout of a run without a process."""
        needles = [secret.encode() for secret in secrets]
        return output.Output(
            self._run_folder.runs_fd, self._name(run_id, epoch) + output.OUT, HEAD_BYTES, TAIL_BYTES, needles
        )

    def tail(self, run_id: int, epoch: int, *, stream: str = output.OUT, limit: int = TAIL_BYTES) -> bytes:
        """The last bytes of stdout."""
        return output.tail(self.path(run_id, epoch, stream), limit)

    def read(self, run_id: int, epoch: int, offset: int, limit: int, *, stream: str = output.OUT) -> bytes:
        """The first bytes, from the capped file, as they arrive. A character may be cut at both ends."""
        return output.read(self.path(run_id, epoch, stream), offset, limit)

    def read_after(
        self, run_id: int, epoch: int, offset: int, limit: int, *, stream: str = output.OUT
    ) -> tuple[bytes, int, int]:
        """A stream from an offset on, where it begins, and the total. Beyond the capped file, the ring is read."""
        return output.read_after(self.path(run_id, epoch, stream), offset, limit)

    def delete(self, run_id: int, epoch: int) -> None:
        """Delete the files of a run that will not be started or read again."""
        self.delete_named(self._name(run_id, epoch))

    def delete_named(self, key: str) -> None:
        for name in (key, *output.file_names(key)):
            Path(self._run_folder.run_path(name)).unlink(missing_ok=True)

    def path(self, run_id: int, epoch: int, stream: str) -> str:
        return self._run_folder.run_path(self._name(run_id, epoch) + stream)
