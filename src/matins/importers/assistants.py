"""Assistants with schedules of their own: OpenClaw and Hermes. What they share: their chats become destinations."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from matins.engine.prompts import escaped
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput, TriggerError
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    Row,
    agents_of,
    jitter_share,
    present,
    read_schedules,
    slug,
)

_CHATS = {"telegram": "TELEGRAM_BOT_TOKEN", "slack": "SLACK_BOT_TOKEN", "discord": "DISCORD_BOT_TOKEN"}
"""The kinds of destinations that are sent to with the token of a bot, and where its token usually is."""
_FIELDS = 5
_TOOL = "Its tool is not known here: it wakes Claude Code. --agent NAME gives the prompts to an agent that you have."


class _Reader:
    """What the jobs of one file have in common."""

    def __init__(self, source: str, zone: str) -> None:
        self.source, self.zone = source, zone
        self.names: set[str] = set()
        self.agents: set[str] = set()
        self.destinations: dict[str, ImportEntry] = {}

    def agent(self, name: str) -> str:
        """The agent that gets a prompt."""
        made = slug(f"{self.source} {name}", set(), self.source)
        self.agents.add(made)
        return made

    def deliver(self, platform: str, chat: str, origin: str) -> tuple[list[str] | None, str | None]:
        """The destination of a chat, or why there is none."""
        secret = _CHATS.get(platform)
        if secret is None or not chat:
            return None, f"Its answers went to {platform}{f' {chat}' if chat else ''}: say deliver yourself."
        chat = chat.removeprefix("channel:").removeprefix("user:")
        name = slug(f"{platform} {chat}", set(), platform)
        settings = {"kind": platform, "to": [chat], "token": f"env:{secret}"}
        note = f"It sends by the bot whose token is in {secret}."
        self.destinations[name] = ImportEntry("destination", name, settings, origin, notes=(note,))
        return [name], None

    def cron(self, expression: str, zone: str) -> tuple[str, OldTimes | None]:
        try:
            parse_trigger(expression, now_ms=0, timezone=zone)
        except TriggerError as error:
            raise InvalidInput(f"its times cannot be read: {error.message}", field="schedule") from None
        old = Cron(expression, zone) if len(expression.split()) == _FIELDS else None
        return expression, old

    def found(self, imported: Imported, path: str) -> Imported:
        """With the agents and destinations that the schedules need before them."""
        before = [*agents_of(self.agents, path, _TOOL), *self.destinations.values()]
        return imported._replace(entries=(*before, *imported.entries))


def _mapping(row: Row, name: str) -> dict[str, Any]:
    found = row.json(name)
    if not isinstance(found, dict):
        raise InvalidInput(f"its {name} is no object.", field=name)
    return cast("dict[str, Any]", found)


# -- OpenClaw


def read_openclaw(path: str, zone: str) -> Imported:
    """The jobs of `openclaw cron list --json --all`, or of a former `cron/jobs.json`."""
    reader = _Reader("openclaw", zone)
    listed = read_schedules("openclaw", path, "jobs", "job {name}", lambda row, origin: _claw(reader, row, origin))
    return reader.found(listed, path)


def _claw(reader: _Reader, row: Row, origin: str) -> ImportEntry:
    schedule, payload = _mapping(row, "schedule"), _mapping(row, "payload")
    zone = str(schedule.get("tz") or reader.zone)
    when, old, notes = _claw_times(reader, schedule, zone)
    settings: dict[str, Any] = {"when": when, "timezone": zone, "description": row.get("description")}
    settings["jitter"], less = jitter_share(when, zone, int(schedule.get("staggerMs") or 0))
    notes += [less] if less else []
    kind = payload.get("kind")
    if kind == "command":
        command = payload.get("argv") or payload.get("command")
        settings["command"] = command
    elif kind in ("agentTurn", "systemEvent"):
        settings["prompt"] = escaped(str(payload.get("message") or payload.get("text") or ""))
        settings["agent"], settings["prompt_prefix"] = reader.agent(str(row.get("agentId") or "main")), False
        settings["model"] = payload.get("model")
        seconds = payload.get("timeoutSeconds")
        settings["timeout"] = f"{seconds}s" if seconds else None
        target = str(row.get("sessionTarget") or "isolated")
        if target != "isolated":
            settings["target"] = {"kind": "channel", "channel": f"openclaw-{target.replace(':', '-')}"}
            notes.append(f'It spoke in the session "{target}": here, its runs share a conversation of their own.')
    else:
        raise InvalidInput(f'its payload is a "{kind}", which is not known here.', field="payload")
    _claw_delivery(reader, row, settings, notes, origin)
    name = slug(str(row.get("name") or row["id"]), reader.names, "job")
    paused = row.get("enabled") is False
    return ImportEntry("schedule", name, present(settings), origin, old, paused, tuple(notes))


def _claw_times(reader: _Reader, schedule: Mapping[str, Any], zone: str) -> tuple[str, OldTimes | None, list[str]]:
    kind, notes = schedule.get("kind"), list[str]()
    if kind == "cron" and schedule.get("expr"):
        return (*reader.cron(str(schedule["expr"]).strip(), zone), notes)
    if kind == "every" and schedule.get("everyMs"):
        notes.append("Theirs counts from a fixed instant, and here from the last run: set anchor to choose.")
        return f"{schedule['everyMs']}ms", Every(int(schedule["everyMs"])), notes
    if kind == "at" and (at := schedule.get("at") or schedule.get("atMs")):
        if isinstance(at, int):
            return datetime.fromtimestamp(at / 1000, ZoneInfo("UTC")).isoformat(), Once(at), notes
        once = Once.parse(str(at), ZoneInfo(str(schedule.get("tz") or "UTC")), "schedule")
        return datetime.fromtimestamp(once.at_ms / 1000, ZoneInfo("UTC")).isoformat(), once, notes
    raise InvalidInput("it has no times.", field="schedule")


def _claw_delivery(reader: _Reader, row: Row, settings: dict[str, Any], notes: list[str], origin: str) -> None:
    delivery = _mapping(row, "delivery") if row.get("delivery") else {}
    mode = delivery.get("mode")
    if mode == "announce":
        settings["deliver"], note = reader.deliver(
            str(delivery.get("channel") or "the last chat"), str(delivery.get("to") or ""), origin
        )
        notes += [note] if note else []
    elif mode == "webhook":
        notes.append("Its result was posted to a URL. A destination of kind webhook does so: say deliver yourself.")


# -- Hermes


def read_hermes(path: str, zone: str) -> Imported:
    """The jobs of a `~/.hermes/cron/jobs.json`."""
    reader = _Reader("hermes", zone)
    listed = read_schedules("hermes", path, "jobs", "job {name}", lambda row, origin: _herm(reader, row, origin, path))
    return reader.found(listed, path)


def _herm(reader: _Reader, row: Row, origin: str, path: str) -> ImportEntry:
    if row.get("state") == "completed":
        raise InvalidInput("it is completed.", field="state")
    schedule, notes = _mapping(row, "schedule"), list[str]()
    when, old = _herm_times(reader, schedule)
    repeat = cast("dict[str, Any]", row.json("repeat") or {})
    left = None if repeat.get("times") is None else int(repeat["times"]) - int(repeat.get("completed") or 0)
    settings: dict[str, Any] = {
        "when": when, "timezone": reader.zone, "max_executions": None if left is None else max(1, left),
    }  # fmt: skip
    script = row.get("script")
    command = None if not script else _script(str(script), path)
    if command is not None and row.get("no_agent"):
        settings["command"] = command
    else:
        settings["prompt"] = escaped(_with_skills(row))
        settings["agent"], settings["prompt_prefix"] = reader.agent(str(row.get("profile") or "default")), False
        settings["model"] = row.get("model")
        if command is not None:
            settings["pre_check"] = command
            notes.append("Its script ran before the prompt, with its output; here it is a pre-check without it.")
    monitor = row.get("monitor_command") or row.get("monitor_script")
    if monitor:
        settings["pre_check"] = shlex.split(str(monitor))
    if row.get("context_from"):
        notes.append("It began with the answers of other jobs: make it follow them, with on and {{call.text}}.")
    for place in _places(row):
        platform, _, chat = place.partition(":")
        if platform != "local":
            there, note = reader.deliver(platform, chat, origin)
            settings["deliver"] = [*settings.get("deliver", ()), *(there or ())]
            notes += [note] if note else []
    name = slug(str(row.get("name") or row["id"]), reader.names, "job")
    paused = row.get("enabled") is False or row.get("state") == "paused"
    return ImportEntry("schedule", name, present(settings), origin, old, paused, tuple(notes))


def _herm_times(reader: _Reader, schedule: Mapping[str, Any]) -> tuple[str, OldTimes | None]:
    kind = schedule.get("kind")
    if kind == "cron" and schedule.get("expr"):
        return reader.cron(str(schedule["expr"]).strip(), reader.zone)
    if kind == "interval" and schedule.get("minutes"):
        return f"{schedule['minutes']}m", Every(int(schedule["minutes"]) * 60_000)
    if kind == "once" and schedule.get("run_at"):
        once = Once.parse(str(schedule["run_at"]), ZoneInfo(reader.zone), "schedule")
        return datetime.fromtimestamp(once.at_ms / 1000, ZoneInfo("UTC")).isoformat(), once
    raise InvalidInput("it has no times.", field="schedule")


def _script(script: str, path: str) -> list[str]:
    """The command of a script, which stands in `scripts` beside the folder of the jobs unless it has a path."""
    file = Path(script).expanduser()
    if not file.is_absolute():
        file = Path(path).expanduser().absolute().parent.parent / "scripts" / script
    return (
        ["python3", str(file)] if file.suffix == ".py" else ["bash", str(file)] if file.suffix == ".sh" else [str(file)]
    )


def _with_skills(row: Row) -> str:
    skills = row.json("skills") or ([row["skill"]] if row.get("skill") else [])
    prompt = str(row.get("prompt") or "")
    return f"Use these skills: {', '.join(map(str, skills))}.\n\n{prompt}" if skills else prompt


def _places(row: Row) -> Iterator[str]:
    """Where its answers go, each as platform:chat."""
    for place in str(row.get("deliver") or "local").split(","):
        place = place.strip()
        if place == "origin":
            origin = cast("dict[str, Any]", row.json("origin") or {})
            yield f"{origin.get('platform') or 'the chat of its origin'}:{origin.get('chat_id') or ''}"
        elif place:
            yield place


OPENCLAW = Importer("Import the jobs of OpenClaw: the output of openclaw cron list --json --all.", read_openclaw)
HERMES = Importer("Import the jobs of Hermes: ~/.hermes/cron/jobs.json.", read_hermes)
