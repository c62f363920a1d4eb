"""herdctl's files: a fleet, which names its agents' files, or one agent with its schedules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from matins.config.reader import conversation_of, github_source
from matins.engine.when.durations import parse_duration
from matins.errors import InvalidInput
from matins.importers.entries import Cron, Every, Imported, ImportEntry, Importer, OldTimes, read_text, with_preset
from matins.model.call import ANY_CHANNEL
from matins.texts.yaml_nodes import parse, to_python

SOURCE = "herdctl"
_AGENT = {
    "model": "model", "permission_mode": "permission_mode", "allowed_tools": "tools", "max_turns": "max_turns",
}  # fmt: skip
_UNTIMED = ("webhook", "chat")


def read(path: str, zone: str) -> Imported:
    """The agents of a fleet or of one agent's file. herdctl has the times of its machine."""
    entries: list[ImportEntry] = []
    left_out: list[str] = []
    for origin, agent in _agents(Path(path).expanduser(), {}):
        entries += _of_agent(agent, origin, zone, left_out)
    return Imported(SOURCE, tuple(entries), tuple(left_out))


def _agents(path: Path, defaults: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    found = _mapping(path)
    if "schedules" in found or ("name" in found and "agents" not in found):
        yield path.name, {**defaults, **found}
        return
    shared: dict[str, Any] = {**defaults, **(found.get("defaults") or {})}
    for each in cast("list[dict[str, Any]]", found.get("agents") or ()):
        if "path" in each:
            for origin, agent in _agents(path.parent / each["path"], shared):
                yield origin, {**agent, **(each.get("overrides") or {})}
        else:
            yield path.name, {**shared, **each}


def _mapping(path: Path) -> dict[str, Any]:
    root = parse(read_text(str(path)))
    found: Any = None if root is None else to_python(root)
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} is not a mapping.", value=str(path), field="path", hint="Name a herdctl.yaml.")
    return cast("dict[str, Any]", found)


def _of_agent(agent: Mapping[str, Any], origin: str, zone: str, left_out: list[str]) -> Iterator[ImportEntry]:
    name = agent.get("name")
    if not isinstance(name, str):
        left_out.append(f"{origin}: the agent has no name.")
        return
    yield ImportEntry("agent", name, _agent(agent), origin)
    for schedule, entry in cast("dict[str, dict[str, Any]]", agent.get("schedules") or {}).items():
        where = f"{origin}, {name}/{schedule}"
        try:
            yield from _schedule(name, schedule, entry, where, zone)
        except InvalidInput as error:
            left_out.append(f"{where}: {error.message}")


def _agent(agent: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"runner": "claude"}
    settings |= {ours: agent[theirs] for theirs, ours in _AGENT.items() if agent.get(theirs)}
    folder: Any = agent.get("working_directory") or agent.get("workspace")
    folder = cast("dict[str, Any]", folder).get("root") if isinstance(folder, dict) else folder
    settings |= {"workdir": folder} if folder else {}
    instances: dict[str, Any] = agent.get("instances") or {}
    return {**settings, "max_concurrent": instances.get("max_concurrent") or 1}


def _schedule(agent: str, name: str, entry: dict[str, Any], origin: str, zone: str) -> Iterator[ImportEntry]:
    kind = entry.get("type")
    settings: dict[str, Any] = {"agent": agent, "timezone": zone, "prompt": entry.get("prompt")}
    source = entry.get("work_source")
    if isinstance(source, dict):
        settings["work_source"] = f"{agent}-{name}"
        yield ImportEntry("work_source", f"{agent}-{name}", github_source(cast("dict[str, Any]", source)), origin)
    if entry.get("resume_session") is not False:
        settings["target"] = conversation_of(agent)
    paused = entry.get("enabled") is False
    if kind in _UNTIMED:
        yield from _called(f"{agent}-{name}", name, str(kind), settings, origin, paused=paused)
        return
    when, old = _when(entry, zone)
    yield ImportEntry("schedule", name, with_preset("herdctl", when, settings), origin, old, paused)


def _called(
    endpoint: str, name: str, kind: str, settings: dict[str, Any], origin: str, *, paused: bool
) -> Iterator[ImportEntry]:
    """A schedule that no time triggers. herdctl's file names neither the endpoint nor the channel."""
    given = {key: value for key, value in settings.items() if value is not None and key != "timezone"}
    given["prompt_prefix"] = False
    if kind == "chat":
        note = "Any channel: restrict it with on."
        yield ImportEntry("schedule", name, {"on": {"chat": ANY_CHANNEL}, **given}, origin, None, paused, (note,))
        return
    variable = re.sub(r"\W", "_", endpoint).upper() + "_SECRET"
    note = f"The sender gives the secret in {variable} as a bearer token."
    yield ImportEntry("inbound", endpoint, {"kind": "bearer", "secret": f"env:{variable}"}, origin, notes=(note,))
    yield ImportEntry("schedule", name, {"on": {"webhook": endpoint}, **given}, origin, None, paused)


def _when(entry: dict[str, Any], zone: str) -> tuple[str, OldTimes]:
    expression = entry.get("expression") or entry.get("cron")
    if entry.get("type") == "cron" and expression:
        return str(expression).strip(), Cron(str(expression).strip(), zone)
    if entry.get("type") == "interval" and entry.get("interval"):
        text = str(entry["interval"]).strip().lower()
        return text, Every(parse_duration(text))
    raise InvalidInput("it has neither an interval nor a cron expression.", field="type")


IMPORTER = Importer("Import a herdctl.yaml, or an agent's file.", read)
