"""Calls of a principal, and what tools say in their answers.

Content in answers: text that Matins did not write is between marks, so that a model can tell them from ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

import orjson

from matins.api.codec import to_document
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES, Caller
from matins.engine.prompts import fenced
from matins.model.access import Principal
from matins.surfaces.display import as_data, input_line
from matins.surfaces.transports.in_process import InProcess

MAX_TEXT = 2_000


class Quoted(str):
    """Content between marks that it does not contain. It is neither cut nor cleaned again."""

    __slots__ = ()


def quoted(what: str, value: Any, limit: int = MAX_TEXT) -> Quoted | None:
    """The content between marks, other values than texts as JSON; None without content."""
    if value is None or value in ("", [], {}):
        return None
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return Quoted(fenced(what, str(cut(as_data(text), limit))))


def cut(text: str | None, length: int = MAX_TEXT) -> str | None:
    if text is None or len(text) <= length:
        return text
    return f"{text[:length]} … ({len(text) - length} more characters)"


Document = dict[str, Any]


@dataclass(frozen=True)
class PrincipalCalls:
    """The use cases, called by one principal."""

    caller: Caller
    principal: Principal
    url: str
    """Where people find the page."""
    note: str = ""
    """What every answer says besides."""

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        """The document of a use case; arguments that are None are left out."""
        return self.send(use_case, {name: value for name, value in arguments.items() if value is not None})

    def send(self, use_case: str, arguments: Mapping[str, Any]) -> Any:
        return to_document(self.caller.invoke(self.principal, USE_CASES[use_case], arguments))

    @property
    def api(self) -> Api:
        """The same use cases, with typed results."""
        return Api(InProcess(self.caller, self.principal))

    @property
    def zone(self) -> str:
        """The time zone of the person: of times that say none."""
        return self.call("system.whoami")["timezone"]

    def now(self) -> datetime:
        return datetime.fromisoformat(self.call("system.whoami")["now"])

    # -- parts of answers

    def approval_of(self, schedule: Document) -> Document | None:
        """The pending request about a proposal."""
        asked = [one for one in self.call("approvals.list") if one["schedule_id"] == schedule["id"]]
        return self.approval(asked[-1]) if asked else None

    def approval(self, asked: Document) -> Document:
        return {
            "id": asked["id"],
            "digest": asked["digest"],
            "state": asked["state"],
            "expires_at": asked["expires_at"],
            "url": f"{self.url}/approvals/{asked['id']}",
            "command": f"matins approve {asked['id']}",
        }


def brief(schedule: Document) -> Document:
    """A schedule in a list."""
    zone, last = schedule["timezone"], schedule["last_run"]
    found: Document = {
        "name": schedule["name"],
        "agent": schedule["agent"] or None,
        "state": schedule["state"],
        "when": schedule["trigger_text"],
        "timezone": zone,
        "next": local(schedule["next_run_at"], zone),
        "made_by": schedule["created_by"],
    }
    if last is not None:
        found["last"] = run_brief(last, zone)
    return found


def whole(schedule: Document) -> Document:
    """A schedule with its prompt and settings."""
    settings = {name: value for name, value in schedule["settings"].items() if name not in ("when", "prompt")}
    more = {
        "prompt": quoted("the prompt", schedule["prompt"]),
        "note": quoted("the note", schedule["note"]),
        "rev": schedule["rev"],
        "settings": quoted("the settings", settings),
    }
    return {**brief(schedule), **{name: value for name, value in more.items() if value}}


def run_brief(run: Document, zone: str = "UTC") -> Document:
    found: Document = {
        "run": run["id"],
        "schedule": run["schedule"],
        "state": run["status"],
        "slot": local(run["slot"], zone),
        "started_at": local(run["started_at"], zone),
        "ended_at": local(run["ended_at"], zone),
        "reason": run["reason"],
        "input": quoted("the input", None if run["input"] is None else input_line(run["input"]), 300),
    }
    found["error"] = quoted("the error", outcome_of(run).get("error"), 300)
    return {name: value for name, value in found.items() if value is not None}


def quote_of(found: Document) -> Document:
    """What others wrote about a sentence, as a part of an answer."""
    quote = quoted("what others wrote", found["quote"], 500)
    return {} if quote is None else {"quote": quote}


def outcome_of(run: Document) -> Document:
    outcome = run["outcome"]
    return cast("Document", outcome) if isinstance(outcome, dict) else {}


def local(at: str | None, zone: str) -> str | None:
    """The instant in a time zone, with its offset."""
    if at is None:
        return None
    return datetime.fromisoformat(at).astimezone(ZoneInfo(zone)).isoformat(timespec="seconds")


def count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
