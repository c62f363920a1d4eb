"""Where imported agents work: in a folder in which their runs start."""

from __future__ import annotations

from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.isolation import Isolation, Places
from matins.executors.processes.probing import probe_here
from matins.importers.entries import Imported, ImportEntry
from matins.model.agent import Agent
from matins.runtime.agent_folders import own_folder


def with_folders(found: Imported, home: Path) -> Imported:
    """The entries, with the agent's own folder in place of one in which its runs would be refused. `home` is that of
    Matins."""
    isolation = Isolation(lambda: Places(runs=home, home=home), probe_here)
    return found._replace(entries=tuple(_with_folder(entry, isolation) for entry in found.entries))


def _with_folder(entry: ImportEntry, isolation: Isolation) -> ImportEntry:
    folder = entry.settings.get("workdir")
    if entry.kind != "agent" or not isinstance(folder, str):
        return entry
    agent = Agent(
        entry.name,
        runner=entry.settings["runner"],
        user=entry.settings.get("user"),
        isolation=entry.settings.get("isolation", "auto"),
    )
    refusal = isolation.refusal(agent)
    try:
        isolation.check_workdir(agent, str(Path(folder).expanduser()), isolated=refusal is None)
    except InvalidInput as error:
        own = own_folder(entry.name)
        reason = f" The agent is not isolated: {refusal}." if refusal is not None else ""
        note = f"It works in its own directory ({own}), not in {folder}. {error.message}{reason}"
        return entry._replace(settings={**entry.settings, "workdir": own}, notes=(*entry.notes, note))
    return entry
