"""Finds the outcome of a run: from its journal, and from the processes that are still alive."""

from __future__ import annotations

import os
import select
from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.processes import journal, proc
from matins.executors.processes.channel import Channel, Message, try_send
from matins.executors.processes.journal import WARDEN, Record, warden_name
from matins.executors.processes.launch import OutcomeKind, ProcessOutcome
from matins.executors.processes.output import ERR, OUT
from matins.executors.processes.run_folder import RunFolder

_REPLY_TIMEOUT_MS = 2_000
_EXIT_TIMEOUT_MS = 1_000


def open_private(folder: Path) -> RunFolder:
    """The folder, for this user alone."""
    run_folder = RunFolder(str(folder))
    if os.fstat(run_folder.fd).st_uid != os.geteuid():
        run_folder.close()
        raise InvalidInput(f"{folder} belongs to another user.", value=str(folder), hint="Use your own folder.")
    os.fchmod(run_folder.fd, 0o700)
    return run_folder


def evidence_in(folder: Path) -> dict[str, str]:
    """What the evidence in a folder depends on: this boot of the machine, and the folder itself."""
    run_folder = open_private(folder)
    try:
        return {"boot": proc.kernel_boot_id(), "nonce": run_folder.nonce}
    finally:
        run_folder.close()


def find_outcome(run_folder: RunFolder, key: str, *, evident: bool = True) -> tuple[ProcessOutcome, Channel | None]:
    """The outcome, and a channel to the warden of a running run. A run without an owner can never start afterwards.

    `evident`: whether a missing journal proves that the run was not started.
    """
    records = _fenced(run_folder, key, "never_started" if evident else "unknown")
    if (outcome := outcome_from(run_folder, key, records)) is not None:
        return outcome, None
    channel, answer = _attach(run_folder, records[0]["sock"], key)
    if channel is not None:
        return with_paths(run_folder, key, ProcessOutcome("running", started_at=records[0]["at"])), channel
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


def outcome_from(run_folder: RunFolder, key: str, records: list[Record]) -> ProcessOutcome | None:
    """The outcome by the records alone; None while the run is open."""
    if "fenced" in records[0]:
        return with_paths(run_folder, key, ProcessOutcome(records[0]["fenced"]))
    last = next((record for record in records if "exit" in record or "failed" in record), None)
    return None if last is None else outcome_from_last(run_folder, key, last)


def outcome_from_last(run_folder: RunFolder, key: str, last: Record) -> ProcessOutcome:
    if "failed" in last:
        return with_paths(run_folder, key, ProcessOutcome("never_started", ended_at=last["at"], error=last["failed"]))
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
        return channel, {}
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
