"""herdctl's intervals and cron expressions, and the importer of its files.

A datetime without a zone is local time, as in its own `new Date(…)`. A file is a fleet, which names its agents' files,
or one agent with its schedules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from matins.app import parse_trigger
from matins.config.presets import PRESETS
from matins.config.reader import conversation_of, github_source
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import EPOCH, Trigger, jitter_ms, to_ms
from matins.errors import CronParseError, IntervalParseError, InvalidInput
from matins.importers.entries import Cron, Every, Imported, ImportEntry, Importer, OldTimes, read_text, with_preset
from matins.model.call import ANY_CHANNEL
from matins.runtime.clock import SystemClock
from matins.seeds.herdctl.types import UNTIMED
from matins.texts.yaml_nodes import parse, to_python

_EXAMPLE = 'For example: "0 9 * * 1-5".'
_ONE_UNIT = re.compile(r"\s*([0-9]+)\s*([smhd])\s*", re.IGNORECASE)


def parse_interval(interval: str) -> int:
    """Milliseconds of `{number}{unit}`, such as `5m` or `1H`. The value of an error is the text as given."""
    found = _ONE_UNIT.fullmatch(interval)
    try:
        if found is not None:
            return parse_duration(f"{found[1]}{found[2].lower()}", compound=False)
        parse_duration(interval, compound=False)
    except IntervalParseError as error:
        error.value = interval
        raise
    unit = interval.strip().lstrip("+0123456789 ")  # a duration that only Matins understands
    message = f'Invalid time unit "{unit}". Valid units are: s, m, h, d'
    hint = "Use one number and one unit: 90m for 1h30m."
    raise IntervalParseError(message, value=interval, field="interval", allowed="{number}{s|m|h|d}", hint=hint)


def parse_cron_expression(expression: str, *, timezone: str = "local") -> Trigger:
    """Five fields or an alias, in the machine's zone unless another is named; six fields are refused. The error has the
    `expression` as given."""
    text = expression.strip()
    try:
        cron = parse_cron(text)  # whatever else the text could be, here it is cron
        if cron.seconds is not None:
            PRESETS["herdctl"].check_fields(text, parse_trigger(text).definition.when)
        return parse_trigger(text, timezone=timezone)
    except CronParseError as error:
        error.expression = expression
        error.hint = f"{error.hint} {_EXAMPLE}" if error.hint and _EXAMPLE not in error.hint else _EXAMPLE
        raise


def is_valid_cron_expression(expression: str) -> bool:
    """Whether `parse_cron_expression` takes it."""
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def calculate_next_cron_trigger(
    expression: str, after: datetime | None = None, *, timezone: str = "local"
) -> datetime | None:
    """The next match after a date, or after now. Missed ones are not caught up."""
    return parse_cron_expression(expression, timezone=timezone).next_after(aware(after or _now(), timezone))


def calculate_next_trigger(
    last_completed_at: datetime | None, interval: str, jitter: float = 0, *, now: datetime | None = None
) -> datetime:
    """The first run is at once, the next an interval after the last completion (and up to `jitter` percent of it
    later, 0 to 10, the same for the same completion); what is past already is due now."""
    now = aware(now or _now())
    period = parse_interval(interval)
    if last_completed_at is None:
        return now
    last = aware(last_completed_at)
    late = period + jitter_ms(interval, to_ms(last) + period, period, jitter)
    return max(last + timedelta(milliseconds=late), now)


def is_schedule_due(next_trigger_at: datetime, now: datetime | None = None) -> bool:
    """Whether the instant has come."""
    return aware(next_trigger_at) <= aware(now or _now())


def aware(at: datetime, timezone: str = "local") -> datetime:
    """The instant. A datetime without a zone is local time."""
    if at.tzinfo is not None:
        return at
    return at.replace(tzinfo=ZoneInfo(SystemClock().local_zone() if timezone == "local" else timezone))


def _now() -> datetime:
    return EPOCH + timedelta(milliseconds=SystemClock().now_ms())


SOURCE = "herdctl"
_AGENT = {
    "model": "model", "permission_mode": "permission_mode", "allowed_tools": "tools", "max_turns": "max_turns",
}  # fmt: skip


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
    if kind in UNTIMED:
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
