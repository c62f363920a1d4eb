"""What importers share: files of other systems, the entries that they become, old times beside new ones, folders.

Old times follow the rules of the other system: a cron expression is matched minute by minute. They share no code with
the time engine, so that the two can be compared.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo

import orjson

from matins.config.presets import PRESETS
from matins.engine.jobs import SHELL, SHELL_AGENT
from matins.engine.schedules import TRIGGER_SETTINGS
from matins.engine.settings import ParseContext, format_settings, parse_setting
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger, to_ms
from matins.engine.when.zones import names_zone
from matins.errors import InvalidInput, MatinsError
from matins.executors.isolation import Isolation, Places
from matins.executors.processes.walls import probe_here
from matins.executors.secrets import from_home
from matins.model.agent import Agent
from matins.model.settings import MAX_NAME_LENGTH
from matins.model.trigger import Interval
from matins.runtime.agent_folders import own_folder

_MAGIC = b"SQLite format 3\0"
_MAX_REASON = 200


def read_text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace")


UNREADABLE = (MatinsError, ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What reading an entry may raise: agents write these files, too, and each entry may hold anything."""


def reason_of(error: Exception) -> str:
    """Why an entry is left out."""
    if isinstance(error, MatinsError):
        return error.message
    return f"it cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON]


class Row(dict[str, Any]):
    """A row of another system. Raises InvalidInput for a column that is missing, or that should be JSON and is not."""

    def __missing__(self, name: str) -> Any:
        raise InvalidInput(f"it has no {name}.", field=name)

    def json(self, name: str) -> Any:
        """The value of a column that holds JSON, in a database as text."""
        value = self.get(name)
        try:
            return orjson.loads(value) if isinstance(value, str) else value
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"its {name} is not JSON: {error}.", field=name) from None


def _rows(path: str, table: str) -> Iterable[Mapping[str, Any]]:
    """The rows of a table: of a SQLite database, or of a JSON file that lists them, bare or under the table's name."""
    data = _bytes(path)
    if data.startswith(_MAGIC):
        return _database_rows(path, table)
    try:
        found: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        hint = "Name the database, or an export of its rows as JSON."
        raise InvalidInput(
            f"{path} is neither SQLite nor JSON: {error}.", value=path, field="path", hint=hint
        ) from None
    listed = cast("dict[str, Any]", found).get(table) if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in cast("list[Any]", listed)):
        hint = f'For example: {{"{table}": [{{…}}]}}.'
        raise InvalidInput(f"{path} has no list of {table}.", value=path, field="path", hint=hint)
    return cast("list[dict[str, Any]]", listed)


def _database_rows(path: str, table: str) -> list[Mapping[str, Any]]:
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')]
        except sqlite3.DatabaseError as error:
            raise InvalidInput(
                f"{path}: {error}.", value=path, field="path", hint=f"It needs a table {table}."
            ) from None


def _bytes(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise InvalidInput(message, value=path, field="path", hint="Check its name and permissions.") from error


_MINUTE = timedelta(minutes=1)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ALIASES = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip


class Every(NamedTuple):
    """A fixed interval from its next fire."""

    every_ms: int
    next_ms: int | None = None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        at = start if self.next_ms is None else max(start, _instant(self.next_ms))
        while at < end:
            yield at
            at += timedelta(milliseconds=self.every_ms)


class Once(NamedTuple):
    at_ms: int

    @classmethod
    def parse(cls, text: str, zone: tzinfo, field: str) -> Once:
        """From an ISO timestamp, which is in the zone where it has no offset."""
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInput(f'"{text}" is no ISO timestamp.', value=text, field=field) from None
        return cls(to_ms(at if at.tzinfo else at.replace(tzinfo=zone)))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        at = _instant(self.at_ms)
        if start <= at < end:
            yield at


class Cron(NamedTuple):
    """Five fields or an alias, matched against the wall clock of a zone."""

    expression: str
    zone: str
    both_days: bool = False
    """Whether day of month and day of week must both match; otherwise either, where both are restricted."""
    debian: bool = False
    """Whether a fixed time that a clock change skips still runs, and one that occurs twice runs once."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        tokens = _ALIASES.get(self.expression.lower(), self.expression).split()
        allowed = [_values(token, n) for n, token in enumerate(tokens)]
        starred = [token.startswith("*") for token in tokens]
        fixed = self.debian and not (starred[0] or starred[1])
        either = not self.both_days and not (starred[2] or starred[4] if self.debian else "*" in (tokens[2], tokens[4]))
        zone, done = ZoneInfo(self.zone), set[datetime]()
        at, before = start.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE, None
        while at < end:
            wall = at.astimezone(zone).replace(tzinfo=None)
            skipped = _between(before, wall) if fixed and before is not None else ()
            walls = [each for each in (*skipped, wall) if _matches(each, allowed, either)]
            if walls and not (fixed and walls[-1] in done):
                yield at
            done.update(walls if fixed else ())
            at, before = at + _MINUTE, wall


class OldTimes(Protocol):
    """The times of the other system."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]: ...


def _between(before: datetime, wall: datetime) -> Iterator[datetime]:
    """The minutes that the wall clock has skipped."""
    before += _MINUTE
    while before < wall:
        yield before
        before += _MINUTE


def _matches(wall: datetime, allowed: list[set[int]], either: bool) -> bool:
    minutes, hours, days, months, weekdays = allowed
    if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
        return False
    by_date, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
    return by_date or by_weekday if either else by_date and by_weekday


def _values(token: str, field: int) -> set[int]:
    low, high = _RANGES[field]
    found: set[int] = set()
    for item in token.lower().split(","):
        base, _, step = item.partition("/")
        first, _, last = base.partition("-")
        start = low if base in "*?" else _number(first, field)
        end = high if base in "*?" or (step and not last) else _number(last or first, field)
        found.update(range(start, end + 1, int(step or 1)))
    return {value % 7 for value in found} if field == 4 else found


def _number(text: str, field: int) -> int:
    names, first = {3: (_MONTHS, 1), 4: (_DAYS, 0)}.get(field, ((), 0))
    return names.index(text[:3]) + first if text[:3] in names else int(text)


def _instant(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


SOURCE, DIGEST = "imported_from", "import_digest"
"""The labels of an imported schedule. By them a second import finds what the first one made."""


class ImportEntry(NamedTuple):
    kind: Literal["agent", "work_source", "inbound", "destination", "schedule"]
    name: str
    settings: Mapping[str, Any]
    """Settings, as they are written in the file."""
    origin: str
    """Its place in the other system's file."""
    old: OldTimes | None = None
    paused: bool = False
    notes: tuple[str, ...] = ()
    """What is different here."""
    instead: ImportEntry | None = None
    """The same as a plain command, for a prompt to an agent."""


class Imported(NamedTuple):
    source: str
    entries: tuple[ImportEntry, ...]
    left_out: tuple[str, ...] = ()
    """What cannot be imported, and why."""
    notes: tuple[str, ...] = ()
    """What is said once."""


class Importer(NamedTuple):
    """Reads the schedules of another system."""

    help: str
    read: Callable[[str, str], Imported]
    """From a path, and the time zone of the machine."""
    target: str = "PATH"
    """How help names the path. In brackets, it may be left out, and `read` gets an empty text."""
    calls_agents: bool = False
    """Whether it makes agents of commands that call one."""


def read_schedules(
    source: str, path: str, table: str, called: str, read: Callable[[Row, str], ImportEntry]
) -> Imported:
    """The schedules of a table. `called` says what a row is: "mission {id}"."""
    entries: list[ImportEntry] = []
    left_out: list[str] = []
    for row in _rows(path, table):
        origin = called.format_map(defaultdict(lambda: None, row))
        try:
            entries.append(read(Row(row), origin))
        except UNREADABLE as error:
            left_out.append(f"{origin}: {reason_of(error)}")
    return Imported(source, tuple(entries), tuple(left_out))


def agents_of(names: Iterable[str], origin: str, note: str) -> list[ImportEntry]:
    """Agents of which the other system's file has only the names."""
    return [ImportEntry("agent", name, {"runner": "claude"}, origin, notes=(note,)) for name in sorted(set(names))]


def with_preset(preset: str, when: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the defaults of another system, written out."""
    defaults = PRESETS[preset].settings_for(parse_trigger(when, now_ms=0).definition.when)
    return {"when": when, **{name: value for name, value in {**defaults, **settings}.items() if value is not None}}


def labelled(source: str, entry: ImportEntry) -> ImportEntry:
    """The entry with the labels by which the next import finds it."""
    if entry.kind != "schedule":
        return entry
    text = orjson.dumps([entry.settings, entry.paused], option=orjson.OPT_SORT_KEYS)
    labels = {**entry.settings.get("labels", {}), SOURCE: source, DIGEST: sha256(text).hexdigest()[:16]}
    return entry._replace(settings={**entry.settings, "labels": labels})


def slug(text: str, taken: set[str], default: str) -> str:
    """A name from the text that is not taken, and is taken from now on."""
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[: MAX_NAME_LENGTH // 4] or default
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def present(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say something."""
    return {name: value for name, value in settings.items() if value not in (None, {}, [], "")}


def jitter_share(when: str, zone: str, spread_ms: int) -> tuple[float | None, str | None]:
    """A random delay as a share of the period; the text says what is less here."""
    trigger = parse_trigger(when, now_ms=0, timezone=None if names_zone(when) else zone)
    first = trigger.next_ms(0)
    second = None if first is None else trigger.next_ms(first)
    if not spread_ms or first is None or second is None:
        return None, None
    share = 100 * spread_ms / (second - first)
    less = f"Theirs is spread over {spread_ms // 1000} s; here, a tenth of the period is the most."
    return round(min(share, _MOST_JITTER), 3), less if share > _MOST_JITTER else None


_MOST_JITTER = 10.0
DAYS = 31
_SHOWN = 5


class Comparison(NamedTuple):
    name: str
    origin: str
    when: str
    timezone: str
    old: int
    """How often the other system fires in the next month."""
    new: int
    only_old: tuple[datetime, ...]
    """The first times at which only the other system fires."""
    only_new: tuple[datetime, ...]
    differences: int


def compare(entry: ImportEntry, now: datetime) -> Comparison | None:
    """The comparison of a schedule; None where the other system has no times."""
    if entry.old is None:
        return None
    trigger, end = _trigger(entry.settings, now), now + timedelta(days=DAYS)
    when = trigger.definition.when
    if isinstance(entry.old, Every) and isinstance(when, Interval) and when.every_ms == entry.old.every_ms:
        count = sum(1 for _ in entry.old.between(now, end))
        return _result(entry, trigger, count, count, (), ())
    old, new = ({at for at in times.between(now, end) if at > now} for times in (entry.old, trigger))
    return _result(entry, trigger, len(old), len(new), old - new, new - old)


def _trigger(settings: Mapping[str, Any], now: datetime) -> Trigger:
    context = ParseContext(to_ms(now))
    options = {
        name: parse_setting(declared, settings[name], context)
        for name, declared in TRIGGER_SETTINGS.items()
        if name in settings
    }
    return parse_trigger(settings["when"], now_ms=context.now, **options)


def _result(
    entry: ImportEntry, trigger: Trigger, old: int, new: int, only_old: Iterable[datetime], only_new: Iterable[datetime]
) -> Comparison:
    before, after = sorted(only_old), sorted(only_new)
    zone = trigger.timezone
    return Comparison(
        entry.name, entry.origin, trigger.describe(), zone, old, new,
        tuple(before[:_SHOWN]), tuple(after[:_SHOWN]), len(before) + len(after),
    )  # fmt: skip


class ImportPlace(NamedTuple):
    """Where the entries are to run."""

    as_commands: bool = False
    """Whether commands that call an agent stay commands."""
    account: Mapping[str, str] = {}
    """`user` and `isolation` of agents, where Matins is root."""
    has_mail: bool = False
    """Whether a mail server is set."""
    home: Path | None = None
    """The home of Matins; None on another machine, which has other folders."""
    agent: str | None = None
    """The agent that gets all prompts, in place of agents that would be made."""


def adapted(found: Imported, place: ImportPlace) -> Imported:
    """The entries as they can run there. What is different is said."""
    if place.agent is not None:
        found = _for_agent(found, place.agent)
    needs_account = place.home is not None and os.geteuid() == 0 and not place.account
    if place.as_commands or needs_account:
        found = _as_commands(found, None if place.as_commands else _ROOT)
    if not place.has_mail:
        found = _without_mail(found)
    found = _with_account(found, place.account)
    if (home := place.home) is None:
        return found
    isolation = Isolation(lambda: Places(runs=home, home=home), probe_here)
    return found._replace(entries=tuple(_with_folder(entry, isolation) for entry in found.entries))


def _for_agent(found: Imported, agent: str) -> Imported:
    """One agent, which is there already, in place of those of the other system."""
    entries = [entry for entry in found.entries if entry.kind != "agent"]
    return found._replace(
        entries=tuple(
            entry._replace(settings={**entry.settings, "agent": agent}) if "agent" in entry.settings else entry
            for entry in entries
        )
    )


_ROOT = "It calls an agent, and stays a command: Matins is root, and an agent needs an account (--user ACCOUNT)."


def _as_commands(found: Imported, why: str | None) -> Imported:
    """Plain commands in place of prompts that were commands; `why`, if nobody asked for it."""
    entries: list[ImportEntry] = []
    for entry in found.entries:
        command = entry.instead
        entries.append(entry if command is None else command._replace(notes=(*command.notes, *([why] if why else []))))
    unused = {entry.settings["agent"] for entry in found.entries if entry.instead is not None}
    return found._replace(entries=tuple(one for one in entries if one.kind != "agent" or one.name not in unused))


def _without_mail(found: Imported) -> Imported:
    """No destinations, where no mail server is set; said once, with who would have got mail."""
    mails = {
        entry.name: ", ".join(entry.settings["to"])
        for entry in found.entries
        if entry.kind == "destination" and entry.settings["kind"] == "email"
    }
    if not mails:
        return found
    entries: list[ImportEntry] = []
    for entry in found.entries:
        settings = entry.settings
        if not mails.keys().isdisjoint(settings.get("deliver", ())):
            settings = {name: value for name, value in settings.items() if name not in ("deliver", "deliver_on")}
        if entry.name not in mails or entry.kind != "destination":
            entries.append(entry._replace(settings=settings))
    note = (
        f"MAILTO is left out ({', '.join(mails.values())}): no mail server is set. Set one, and import again: {_SMTP}"
    )
    return found._replace(entries=tuple(entries), notes=(*found.notes, note))


_SMTP = "matins smtp set --host mail.example.com --sender matins@example.com"


def _with_account(found: Imported, account: Mapping[str, str]) -> Imported:
    """Agents with the account that they run as, where Matins is root; commands too."""
    user = account.get("user")
    name = SHELL if user is None else f"{SHELL}-{user}"
    entries: list[ImportEntry] = []
    for entry in found.entries:
        settings = {**entry.settings, **account} if entry.kind == "agent" else entry.settings
        if "command" in settings and entry.kind == "schedule":
            settings = {**settings, "agent": name}
        entries.append(entry._replace(settings=settings))
    if user is not None and any(entry.settings.get("agent") == name for entry in entries):
        agent = {**format_settings(SHELL_AGENT), "workdir": from_home(f"~{user}"), "isolation": "auto", **account}
        entries.insert(0, ImportEntry("agent", name, agent, f"--user {user}"))
    return found._replace(entries=tuple(entries))


def _with_folder(entry: ImportEntry, isolation: Isolation) -> ImportEntry:
    """The entry, with the agent's own folder in place of one in which its runs would be refused."""
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
