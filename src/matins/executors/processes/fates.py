"""What became of a run, as an engine finds it: what its journal says, and who is still alive."""

from __future__ import annotations

import os
import select

from matins.executors.processes import journal, proc
from matins.executors.processes.home import Home
from matins.executors.processes.journal import WARDEN, Record, warden_name
from matins.executors.processes.links import Link, Message, tell
from matins.executors.processes.output import ERR, OUT
from matins.executors.processes.values import Fate, Kind

_ANSWER_MS = 2_000
_DYING_MS = 1_000


def find(home: Home, key: str, boot: str | None = None) -> tuple[Fate, Link | None]:
    """A run that goes on comes with a link to its warden. What nobody had begun, nobody will begin any more.

    `boot` is the boot of the machine under which it was to be started, if that is known.
    """
    records = _fenced(home, key, "never_started" if boot in (None, proc.boot_id()) else "unknown")
    if (fate := told(home, key, records)) is not None:
        return fate, None
    link, answer = _ask(home, records[0]["sock"], key)
    if link is not None:
        return at(home, key, Fate("running", started_at=records[0]["at"])), link
    kind: Kind = "orphaned" if _is_alive(records, answered=bool(answer)) else "unknown"
    # Whoever died wrote its last line before: so this is read after looking who lives.
    records = _read(home, key) + ([answer["ended"]] if "ended" in answer else [])
    return told(home, key, records) or at(home, key, Fate(kind, started_at=records[0]["at"])), None


def end_orphans(home: Home, key: str) -> None:
    """What lives on after keeper and warden are gone."""
    records = _read(home, key)
    proc.kill_all(lambda: _strays(records))


def told(home: Home, key: str, records: list[Record]) -> Fate | None:
    """What the lines alone say; None while the run is open."""
    if "fenced" in records[0]:
        return at(home, key, Fate(records[0]["fenced"]))
    last = next((record for record in records if "exit" in record or "failed" in record), None)
    return None if last is None else told_last(home, key, last)


def told_last(home: Home, key: str, last: Record) -> Fate:
    if "failed" in last:
        return at(home, key, Fate("never_started", ended_at=last["at"], error=last["failed"]))
    max_rss_kb, user_ms, system_ms = last["usage"]
    stdout_bytes, stderr_bytes = last["bytes"]
    fate = Fate(
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
    )
    return at(home, key, fate)


def at(home: Home, key: str, fate: Fate) -> Fate:
    return fate._replace(stdout_path=home.run_path(key + OUT), stderr_path=home.run_path(key + ERR))


def _read(home: Home, key: str) -> list[Record]:
    file = journal.open_run(home.runs, key)
    try:
        return journal.records(file)
    finally:
        os.close(file)


def _fenced(home: Home, key: str, kind: Kind) -> list[Record]:
    """The lines, of which the first one is our fence when there was none."""
    records = _read(home, key)
    if records:
        return records
    file = journal.open_run(home.runs, key)
    try:
        journal.append(file, {"fenced": kind, "at": proc.wall_ms()})
    finally:
        os.close(file)
    return _read(home, key)


def _ask(home: Home, sock: str, key: str) -> tuple[Link | None, Message]:
    """A link when its warden is on this run; else what it says, if it says anything."""
    try:
        link = Link(home.connect(sock))
    except OSError:
        return None, {}
    answer = _answer(link) if tell(link, {"attach": key}) else {}
    if answer is None or answer.get("on"):
        return link, {}
    link.close()
    return None, answer


def _answer(link: Link) -> Message | None:
    """None when it takes too long: it is there, and busy. Empty when it is gone."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while poll.poll(_ANSWER_MS):
        messages, _, there = link.receive()
        if messages or not there:
            return messages[-1] if messages else {}
    return None


def _is_alive(records: list[Record], *, answered: bool) -> bool:
    """Whether anything that it started lives, or a warden that does not answer."""
    owner = records[0]
    if answered or owner["boot"] != proc.boot_id():
        return False
    warden = proc.find(*owner["warden"])
    if warden is not None and not proc.gone_within(warden, _DYING_MS):
        return True
    return bool(_strays(records))


def _strays(records: list[Record]) -> set[proc.Process]:
    """What lives of its tree: whoever has its warden's mark, the command, which may have dropped it, and all below."""
    pids = [record["pid"] for record in records if "pid" in record]
    command = proc.find(*pids[0]) if pids else None
    mark = f"{WARDEN}={warden_name(*records[0]['warden'])}"
    found = {*proc.with_variable(mark), *([command] if command else [])}
    return found | {*proc.descendants(*(process.pid for process in found))}
