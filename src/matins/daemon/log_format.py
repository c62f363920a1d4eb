"""The daemon's log on stderr: plain lines, or a JSON document per line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from matins.errors import InvalidInput
from matins.model.words import joined, write_out

_STYLES = ("plain", "json")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LOUD = frozenset({"schedule", "run", "approval", "throttle", "budget", "delivery", "hook", "token", "incident"})
_QUIET = frozenset(
    {
        "run.planned",
        "run.checking",
        "run.ready",
        "run.thread_assigned",
        "approval.requested",
        "approval.voted",
        "approval.used",
    }
)
"""Intermediate steps, which are not logged: their result is."""


def set_up(style: str) -> None:
    if style not in _STYLES:
        allowed = ", ".join(_STYLES)
        message = f'There is no log style "{style}".'
        raise InvalidInput(message, value=style, field="log", allowed=allowed, hint=f"Use one of: {allowed}.")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines() if style == "plain" else Documents())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("matins").setLevel(logging.INFO)


class Lines(logging.Formatter):
    """`09:00:00 run.succeeded morning (run 12)`, with the level for warnings and errors."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in the standard library
        loud = record.levelno >= logging.WARNING
        text = _printable(record.message)
        return f"{record.asctime} {record.levelname.lower()}: {text}" if loud else f"{record.asctime} {text}"

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(map(_printable, super().formatException(ei).split("\n")))


class Documents(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        document |= getattr(record, "event", {})
        if record.exc_info:
            document["trace"] = self.formatException(record.exc_info)
        return json.dumps(document)  # in ASCII, without control characters


def log_event(event: dict[str, Any]) -> None:
    """Log an event: its type, schedule, run and reason."""
    kind = str(event["type"]).removeprefix("matins.")
    if kind in _QUIET or kind.partition(".")[0] not in _LOUD:
        return
    data: dict[str, Any] = event["data"]
    subject = event.get("schedulename") or data.get("schedule") or data.get("name") or ""
    run = f" (run {event['runid']})" if "runid" in event else ""
    reason = _reason(data, kind)
    fields = {"event": {"type": kind, "schedule": subject or None, "run_id": event.get("runid"), "id": event["id"]}}
    logging.getLogger("matins.events").info("%s", f"{kind} {subject}{run}{reason}", extra=fields)


def _reason(data: dict[str, Any], kind: str) -> str:
    """The sentence of the event, or the first field that says why."""
    if data.get("summary"):
        return f": {joined(data['summary'], data.get('quote'))}"
    text = next((str(data[name]) for name in ("note", "reason", "error") if data.get(name)), "")
    return f": {text.replace('_', ' ')}" if text and text not in kind else ""


def _printable(text: str) -> str:
    """The text without line breaks and control characters."""
    printable = "".join(character if character.isprintable() else _REPLACEMENT for character in text)
    return write_out(printable, lambda _: _REPLACEMENT)
