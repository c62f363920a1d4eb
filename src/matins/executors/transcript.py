"""The output of agents' tools, as people read it: what was said, which tool was called with what, and what came back.

Many tools print events as JSON, one per line. A line that no tool prints stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from matins.executors.registry import runners
from matins.executors.runners.protocol import TellsEntries
from matins.executors.runners.tool_events import read_event
from matins.model.run import Entry


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
