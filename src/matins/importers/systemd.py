"""Timers of systemd: units `NAME.timer`, with the services that they start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from matins.engine.when.parse import parse_trigger
from matins.engine.when.zones import names_zone
from matins.errors import InvalidInput, TriggerError
from matins.importers.entries import (
    UNREADABLE,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    jitter_share,
    present,
    read_text,
    reason_of,
    slug,
)

SOURCE = "systemd"
_FOLDERS = ("~/.config/systemd/user", "/etc/systemd/system")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
_UNITS = {
    "us": 0.001, "usec": 0.001, "ms": 1, "msec": 1, "": 1000, "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000, "h": 3_600_000, "hr": 3_600_000,
    "hour": 3_600_000, "hours": 3_600_000, "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000, "M": 2_629_800_000, "month": 2_629_800_000,
    "months": 2_629_800_000, "y": 31_557_600_000, "year": 31_557_600_000, "years": 31_557_600_000,
}  # fmt: skip
_PLAIN_SERVICE = {"Type", "ExecStart", "WorkingDirectory", "Environment"}
_PLAIN_TYPES = ("oneshot", "simple", "exec")
_MAX_TIMES = 3_000
_MONTH_MS = 31 * 86_400_000
_TIME = re.compile(r"(?:Next elapse|Iter\. #\d+): \w+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")

Unit = dict[str, dict[str, list[str]]]
"""The values of each name, by section. An empty value takes back those before it."""


class OnCalendar(NamedTuple):
    """The times of an event as `systemd-analyze` says them."""

    expression: str

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        base = f"--base-time={start.astimezone(UTC) - timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"
        found: list[datetime] = []
        for count in (60, 400, _MAX_TIMES):  # it takes two milliseconds for each
            command = ["systemd-analyze", "calendar", f"--iterations={count}", base, self.expression]
            environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
            text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            found = [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in _TIME.findall(text)]
            if len(found) < count or found[-1] >= end:
                break
        return (at for at in found if start <= at < end)


def read(target: str, zone: str) -> Imported:
    """The timers of a unit, or of a folder of units; without a target those that a person or an admin wrote."""
    paths = _paths(target)
    entries: list[ImportEntry] = []
    left_out: list[str] = []
    names: set[str] = set()
    for path in paths:
        try:
            entries += _timer(path, zone, names, left_out)
        except UNREADABLE as error:
            left_out.append(f"{path}: {reason_of(error)}")
    note = "The timers go on until you stop them: systemctl disable --now NAME.timer (with --user for your own)."
    return Imported(SOURCE, tuple(entries), tuple(left_out), (note,) if entries else ())


def _paths(target: str) -> list[Path]:
    folders = [Path(target).expanduser()] if target else [Path(folder).expanduser() for folder in _FOLDERS]
    if target and folders[0].is_file():
        return folders
    found = [path for folder in folders for path in sorted(folder.glob("*.timer"))]
    if not found:
        where = " or ".join(map(str, folders))
        hint = "Name a folder of units or a timer: matins import systemd /usr/lib/systemd/system"
        raise InvalidInput(f"There are no timers in {where}.", value=target or None, field="path", hint=hint)
    return found


def _timer(path: Path, zone: str, names: set[str], left_out: list[str]) -> Iterator[ImportEntry]:
    if path.stem.endswith("@"):
        raise InvalidInput("it is a template, which only its instances start.", field="path")
    unit = _read_unit(path)
    timer = unit.get("Timer", {})
    service = _last(timer, "Unit") or f"{path.stem}.service"
    settings, notes = _service(path, service)
    persistent = (_last(timer, "Persistent") or "no").lower() in ("1", "yes", "true", "on")
    settings |= {
        "description": _last(unit.get("Unit", {}), "Description"), "overlap": "skip",
        "catch_up": "run_once" if persistent else "skip",
    }  # fmt: skip
    spread = _milliseconds(_last(timer, "RandomizedDelaySec") or "0", "RandomizedDelaySec")
    after_boot = [name for name in ("OnBootSec", "OnStartupSec", "OnActiveSec") if name in timer]
    left_out += [f"{path}: {name} is left out: Matins has no times after the boot." for name in after_boot]
    times = list(_times(timer, zone))
    if not times:
        raise InvalidInput("it has no times that can be imported.", field="Timer")
    for when, old, extra, also in times:
        share, too_far = jitter_share(when, zone, spread)
        more = [*notes, *also, *([too_far] if too_far else [])]
        given = present({"when": when, "timezone": zone, **settings, **extra, "jitter": share})
        yield ImportEntry("schedule", slug(path.stem, names, "timer"), given, str(path), old, notes=tuple(more))


def _times(timer: dict[str, list[str]], zone: str) -> Iterator[tuple[str, OldTimes | None, dict[str, Any], list[str]]]:
    for expression in timer.get("OnCalendar", ()):
        try:
            trigger = parse_trigger(f"OnCalendar={expression}", now_ms=0)
        except TriggerError as error:
            raise InvalidInput(f"its times cannot be read: {error.message}", field="OnCalendar") from None
        in_zone = names_zone(f"OnCalendar={expression}")
        old, notes = OnCalendar(expression if in_zone else f"{expression} {zone}"), list[str]()
        if shutil.which("systemd-analyze") is None:
            old, notes = None, ["Its times are not compared: systemd-analyze is not on this machine."]
        elif trigger.count(0, _MONTH_MS) > _MAX_TIMES - 100:
            old, notes = None, ["Its times are not compared: they are too many."]
        yield f"OnCalendar={expression}", old, {"timezone": trigger.timezone if in_zone else zone}, notes
    for name, anchor in (("OnUnitActiveSec", "start"), ("OnUnitInactiveSec", "completion")):
        for text in timer.get(name, ()):
            every = _milliseconds(text, name)
            yield f"{every}ms", Every(every), {"anchor": anchor, "first": "immediately"}, []


def _service(path: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    """The command of a service: its own where it is plain, otherwise one that starts the service and waits."""
    user = "/user" in str(path.absolute().parent)
    start = {"command": ["systemctl", *(["--user"] if user else []), "start", "--wait", name]}
    file = path.with_name(name)
    if not file.is_file():
        return start, [f"{name} is not beside it: it is started by systemctl."]
    service = _read_unit(file).get("Service", {})
    lines = service.get("ExecStart", [])
    text = lines[0] if lines else ""
    odd = sorted(service.keys() - _PLAIN_SERVICE)
    reason = None
    if len(lines) != 1:
        reason = f"{len(lines)} commands"
    elif odd:
        reason = ", ".join(odd)
    elif (_last(service, "Type") or "simple") not in _PLAIN_TYPES:
        reason = f"Type={_last(service, 'Type')}"
    elif text[0] in "-@:+!" or re.search(r"[%$\\]|(?:^|\s);(?:\s|$)", text):
        reason = "a command that systemd fills in"
    if reason is not None:
        return start, [f"{name} has {reason}: it is started by systemctl, and its output stays in the journal."]
    pairs = [word.partition("=") for line in service.get("Environment", ()) for word in shlex.split(line)]
    variables = {name: value for name, _, value in pairs}
    return {
        "command": shlex.split(text), "environment": variables,
        "workdir": _last(service, "WorkingDirectory") or ("~" if user else "/"),
    }, []  # fmt: skip


def _read_unit(path: Path) -> Unit:
    unit: Unit = {}
    section: dict[str, list[str]] = {}
    text = re.sub(r"\\\n(?:[ \t]*[#;][^\n]*\n)*", " ", read_text(str(path)))
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = unit.setdefault(line[1:-1], {})
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidInput(f"this line is not NAME=VALUE: {line[:60]}", field="path")
        kept = section.get(name.strip(), []) if value.strip() else []
        section[name.strip()] = [*kept, value.strip()] if value.strip() else []
    return unit


def _last(section: dict[str, list[str]], name: str) -> str | None:
    values = section.get(name, [])
    return values[-1] if values else None


def _milliseconds(text: str, name: str) -> int:
    total, at = 0.0, 0
    for found in _SPAN.finditer(text):
        if found.start() != at or found[2] not in _UNITS:
            break
        total, at = total + float(found[1]) * _UNITS[found[2]], found.end()
    if at != len(text) or not text:
        raise InvalidInput(f"its {name} {text!r} is not a time span.", value=text, field=name)
    return round(total)


IMPORTER = Importer(
    "Import timers of systemd. TARGET: a folder of units, or a .timer; default: your own and those of /etc.",
    read,
    target="[TARGET]",
)
