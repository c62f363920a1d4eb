"""The environment of the templates in `templates/`, and its filters: times in the viewer's zone, how a state looks
(icon, shape, word; colour only repeats them), sentences about results.

`StaticFiles`: served under the hash of their content, so a browser keeps them for a year.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from datetime import date, datetime, tzinfo
from importlib import resources
from typing import Any, NamedTuple, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api.codec import to_document
from matins.api.results import Run, RunStep
from matins.engine.money import format_money
from matins.engine.reasons import sentence
from matins.model.words import counted, joined, runs_per_period, write_out
from matins.records import record_kinds
from matins.surfaces.display import amounts
from matins.surfaces.http.app import accepts_gzip
from matins.surfaces.http.problem_json import HttpError, problem
from matins.web.visit import Visit, full_name

_UNITS = (" d", " h", " min", " s")
_WEEK_S = 6 * 86_400


def clock(at: datetime, zone: tzinfo, now: datetime) -> str:
    """The instant, no longer than needed: 18:45, Fri 02:30, 3 Apr 02:30."""
    local, here = at.astimezone(zone), now.astimezone(zone)
    text = _time_of_day(local)
    if local.toordinal() == here.toordinal():
        return text
    if abs((at - now).total_seconds()) < _WEEK_S:
        return f"{local:%a} {text}"
    year = f" {local.year}" if local.year != here.year else ""
    return f"{local.day} {local:%b}{year} {text}"


def full(at: datetime, zone: tzinfo, now: datetime) -> str:
    """The instant with its date and zone: Fri 27 Mar, 02:30 CET; with the year where it is another."""
    local = at.astimezone(zone)
    year = f" {local.year}" if local.year != now.astimezone(zone).year else ""
    return f"{local:%a} {local.day} {local:%b}{year}, {_time_of_day(local)} {local.tzname()}"


def _time_of_day(local: datetime) -> str:
    seconds = f":{local.second:02}" if local.second else ""
    return f"{local.hour:02}:{local.minute:02}{seconds}"  # a third of the time of a format with %


def relative(at: datetime, now: datetime) -> str:
    """For example: in 3 min, 2 h ago. The page's script says the same."""
    seconds = round((at - now).total_seconds())
    if abs(seconds) < 1:
        return "now"
    return f"in {length(seconds)}" if seconds > 0 else f"{length(-seconds)} ago"


def length(seconds: float) -> str:
    """A duration in its largest units: 45 s, 7 min, 7 h 48 min, 3 d 8 h."""
    parts = amounts(seconds, _UNITS)
    shown = parts[:2] if len(parts) > 1 and not parts[0].endswith("min") else parts[:1]
    return " ".join(shown) or "0 s"


def duration(milliseconds: float | None) -> str:
    """How long something took; with a fraction below ten seconds."""
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else length(milliseconds / 1000)


def time_element(at: datetime | None, text: str, title: str, *, live: bool = False) -> Markup:
    if at is None:
        return Markup("–")
    tick = " data-rel" if live else ""
    return Markup(f'<time datetime="{at.isoformat()}" title="{escape(title)}"{tick}>{escape(text)}</time>')


class Look(NamedTuple):
    icon: str
    word: str


RUNS = {
    "waiting": Look("deferred", "Waiting"),
    "queued": Look("planned", "Queued"),
    "ready": Look("planned", "Ready"),
    "running": Look("running", "Running"),
    "held": Look("unknown", "Held"),
    "succeeded": Look("succeeded", "Succeeded"),
    "failed": Look("failed", "Failed"),
    "skipped": Look("skipped", "Skipped"),
    "missed": Look("missed", "Missed"),
    "cancelled": Look("denied", "Cancelled"),
    "denied": Look("denied", "Denied"),
    "expired": Look("denied", "Expired"),
    "interrupted": Look("failed", "Interrupted"),
    "unknown": Look("unknown", "Unknown"),
    "over_budget": Look("failed", "Over budget"),
    "blocked": Look("denied", "Blocked"),
}
SCHEDULES = {
    "active": Look("succeeded", "Active"),
    "paused": Look("pause", "Paused"),
    "pending": Look("waiting", "Needs approval"),
    "rejected": Look("denied", "Rejected"),
    "broken": Look("failed", "Broken"),
    "completed": Look("succeeded", "Completed"),
    "draft": Look("planned", "Draft"),
    "failed": Look("failed", "Failed"),
    "cancelled": Look("denied", "Cancelled"),
}
BACKFILLS = {
    "running": Look("running", "Running"),
    "paused": Look("pause", "Paused"),
    "done": Look("succeeded", "Done"),
    "cancelled": Look("denied", "Cancelled"),
}
VERDICTS = {
    "runs": Look("planned", "Will run"),
    "deferred": Look("deferred", "Deferred"),
    "coalesced": Look("skipped", "Joined with another"),
    "queued": Look("planned", "Queued"),
    "skipped": Look("skipped", "Skipped"),
    "missed": Look("missed", "Missed"),
}
_APPROVAL = Look("waiting", "Needs approval")


def of_run(run: Any) -> Look:
    """The look of a run, or of a step: what a waiting one waits for, rather than that it waits."""
    if run.state == "waiting" and run.status == "awaiting_approval":
        return _APPROVAL
    if run.state == "waiting" and run.status != "waiting":
        return Look("deferred", words(run.status))
    if run.state == "succeeded" and run.reason == "with_denials":
        return Look("stuck", "Succeeded, with denials")
    return RUNS.get(run.state, Look("planned", words(run.state)))


def of_schedule(state: str) -> Look:
    return SCHEDULES.get(state, Look("planned", words(state)))


def of_verdict(verdict: str) -> Look:
    return VERDICTS.get(verdict) or of_schedule(verdict)


def words(code: str) -> str:
    """A code as words: `no_such_job` is "No such job"."""
    text = code.replace("_", " ")
    return text[:1].upper() + text[1:]


def event_words(kind: str) -> str:
    """The name of an event as words: `run.thread_assigned` is "Run thread assigned"."""
    return words(kind.replace(".", "_"))


def day_of(text: str) -> str:
    """A day, 2026-10-21, as it is said: 21 Oct."""
    found = date.fromisoformat(text)
    return f"{found.day} {found:%b}"


_MAX_LENGTH = 200


def because(run: Run | RunStep, zone: str, stopped_by: str | None = None) -> str:
    """Why a run is as it is; of one that ended well, what it said. `stopped_by`: the step that stopped this one."""
    if run.reason is None:
        return _said(run.outcome)
    evidence: dict[str, Any] = {"error": _error(run.outcome), "attempt": run.attempt, "step": stopped_by}
    if isinstance(run, Run):
        evidence |= {"slots": run.slots, "first": _ms(run.first_slot), "last": _ms(run.slot), **(run.evidence or {})}
    return beside(run.state, sentence(run.reason, evidence, zone).joined)


def beside(state: str, text: str) -> str:
    """A sentence without the name of the state, which is shown beside it."""
    rest = text.removeprefix(f"{words(state)}: ")
    return rest[:1].upper() + rest[1:]


def expected(text: str) -> str:
    """The sentence about a future slot, without the word that is shown beside it."""
    rest = text.partition(": ")[2] if text.startswith("Will be ") else text
    return rest[:1].upper() + rest[1:]


def _said(outcome: Any) -> str:
    match outcome:
        case {"result": {"text": str(text)}}:
            return _first_line(text)
        case {"result": str(text)}:
            return _first_line(text)
        case _:
            return ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


def _error(outcome: Any) -> str | None:
    match outcome:
        case {"error": str(error)}:
            return error.strip().rpartition("\n")[2][:_MAX_LENGTH]
        case _:
            return None


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def usage(run: Run) -> dict[str, str]:
    """What a run used, as its tool reported it."""
    match run.outcome:
        case {"result": {"money": {"micro_dollars": int(cost)}} as result}:
            tokens: dict[str, int] = result.get("tokens") or {}
            found: dict[str, str] = {}
            if cost:
                found["Cost"] = format_money(cost)
            if any(tokens.values()):
                found["Tokens"] = f"{tokens.get('in', 0):,} in · {tokens.get('out', 0):,} out"
            return found | ({"Turns": str(result["turns"])} if result.get("turns") else {})
        case _:
            return {}


_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


_UNREAD = re.compile(rb"/\*[^*]*\*/|\n\s*")
"""What the style sheet has for its readers: comments, lines and indents, a tenth of its packed size."""


class _File(NamedTuple):
    type: str
    plain: bytes
    packed: bytes


class StaticFiles:
    """An ASGI application. One hash covers all files, so that modules may import each other by name."""

    def __init__(self) -> None:
        folder = resources.files("matins.web") / "static"
        found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES}
        found |= {name: _UNREAD.sub(b"", content) for name, content in found.items() if name.endswith(".css")}
        self._files = {
            name: _File(_TYPES[name.rpartition(".")[2]], content, gzip.compress(content, mtime=0))
            for name, content in found.items()
        }
        contents = b"".join(name.encode() + content for name, content in sorted(found.items()))
        self.hash = hashlib.sha256(contents).hexdigest()[:16]

    def path(self, name: str) -> str:
        return f"/static/{self.hash}/{name}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._response(scope)(scope, receive, send)

    def _response(self, scope: Any) -> Response:
        file = self._files.get(scope["path_params"]["name"])
        if file is None or scope["path_params"]["hash"] != self.hash:
            error = HttpError(404, "no_such_path", "There is no such file.", hint="Reload the page.")
            return problem(error, scope)
        if accepts_gzip(scope):
            return Response(file.packed, 200, {**_FOREVER, "Content-Encoding": "gzip"}, file.type)
        return Response(file.plain, 200, _FOREVER, file.type)


_WITHOUT_ZONE = ("interval", "never")
"""Triggers that name no time of day."""
_SHOWN_ELSEWHERE = ("name", "usage")


def environment(files: StaticFiles) -> Environment:
    found = Environment(
        loader=PackageLoader("matins.web"),
        autoescape=True,
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    filters: dict[str, Any] = {
        "shown": shown,
        "marked": marked,
        "as_is": Markup.escape,
        "pretty": pretty,
        "facts": facts,
        "counted": counted,
        "frequency": runs_per_period,
        "without": str.removeprefix,
        "expected": expected,
        "with_quote": joined,
        "words": words,
        "event_words": event_words,
        "day": day_of,
        "duration": duration,
    }
    found.filters.update(filters)
    found.tests["plain_list"] = is_plain_list
    names: dict[str, Any] = {
        "static": files.path,
        "run_look": of_run,
        "schedule_look": of_schedule,
        "backfill_look": BACKFILLS.__getitem__,
        "verdict_look": of_verdict,
        "full_name": full_name,
        "example": example,
    }
    found.globals.update(names)
    return found


def values_of(visit: Visit) -> dict[str, Any]:
    """What every template can use: the visit, and instants in its zone."""

    def at(instant: datetime | None, *, seconds: bool = True) -> Markup:
        text = (
            "" if instant is None else clock(instant if seconds else instant.replace(second=0), visit.zone, visit.now)
        )
        return time_element(instant, text, _title(instant))

    def ago(instant: datetime | None) -> Markup:
        text = "" if instant is None else relative(instant, visit.now)
        return time_element(instant, text, _title(instant), live=True)

    def day(instant: datetime) -> str:
        local = instant.astimezone(visit.zone)
        return f"{local:%A} {local.day} {local:%B}, {local:%H:%M}"

    def _title(instant: datetime | None) -> str:
        return "" if instant is None else full(instant, visit.zone, visit.now)

    def trigger(schedule: Any) -> str:
        """When it fires, with the zone of its times where that is not the viewer's."""
        match schedule.trigger:
            case {"kind": "once", "at": at}:
                return f"once, {_title(datetime.fromisoformat(at))}"
            case {"kind": kind} if kind in _WITHOUT_ZONE or schedule.timezone == visit.zone_name:
                return schedule.trigger_text
            case _:
                return f"{schedule.trigger_text}, {schedule.timezone}"

    def here(**changed: str | None) -> str:
        """The address of Now, with other values in its query; a part of it has an address of its own."""
        return visit.address("/", **{**visit.query, **changed})

    return {
        "visit": visit,
        "here": here,
        "address": visit.address,
        "can": visit.can,
        "trigger": trigger,
        "at": at,
        "ago": ago,
        "day": day,
        "full": _title,
    }


def shown(text: Any) -> Markup:
    """A text from outside. Characters that would hide or reorder others are written out, and marked."""
    return Markup(write_out(str(Markup.escape(str(text))), _marked, keep="\n\t"))


def marked(text: str) -> Markup:
    """A sentence of ours, with what stands in backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(parts)
    )


def _marked(character: str) -> str:
    return f'<span class="hidden-character">{_written(character)}</span>'


def plain(value: Any) -> Any:
    """What a template prints. Of texts, attributes too have hidden characters written out; `as_is` is for the values of
    fields."""
    return write_out(value, _written, keep="\n\t") if type(value) is str else value


def _written(character: str) -> str:
    return "ESC" if character == "\x1b" else f"U+{ord(character):04X}"


def example(noun: str) -> str:
    """A command that makes a record of this kind."""
    return record_kinds()[noun].example


def is_plain_list(value: Any) -> bool:
    """Whether its parts can be shown one by one, instead of as JSON."""
    return isinstance(value, list | tuple) and all(
        isinstance(each, str | int | float) and not isinstance(each, bool) for each in cast("list[Any]", value)
    )


def facts(record: Any) -> list[tuple[str, str]]:
    """The settings of a record that are set, in words."""
    return [
        (words(key), _flat(value))
        for key, value in to_document(record).items()
        if key not in _SHOWN_ELSEWHERE and _is_set(value)
    ]


def _is_set(value: Any) -> bool:
    return value not in (None, "", [], {})


def _flat(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(
                f"{key}: {_flat(item)}" for key, item in cast("dict[str, Any]", value).items() if _is_set(item)
            )
        case list():
            return ", ".join(map(_flat, cast("list[Any]", value)))
        case _:
            return str(value)


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(to_document(value), ensure_ascii=False, indent=2, default=str)
