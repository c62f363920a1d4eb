"""Cards of approvals: exactly what would run, who asked, and buttons that are bound to the digest."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

import orjson

from matins.api.results import Approval
from matins.chat.messages import Button, Buttons, ChatMessage, Code, Fields, Heading, Part, Text
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import to_ms

MAX_TEXT, MAX_TEXTS = 2_900, 9_000
"""The longest text of a card, and of all its texts. What is longer is read elsewhere, and decided there."""
APPROVE, DENY, READ, OPEN = "approve", "deny", "read", "open"
_TITLES = {"run": "Run of {}", "schedule": "New schedule {}", "budget": "More budget for {}"}
_BLOCKS = ("prompt", "payload", "call", "steps")
_BESIDE = (*_BLOCKS, "involved", "schedule", "unusual", "outside", "instead_of", "edited_by")
_MAX_FIELD = 300
_ENDS = {"approved": "Approved", "used": "Approved", "denied": "Denied", "expired": "Expired", "void": "Void"}


def approval_card(approval: Approval, now: int, zone: str, url: str | None, via: str | None = None) -> ChatMessage:
    """The card of a request: with buttons while it is open, with its end after that."""
    heading = Heading(f"{title(approval)}: {approval.requested_by} asks for approval")
    subject = subject_of(approval.id)
    parts: list[Part] = [heading, Fields(tuple(_fields(approval, now, zone)))]
    if approval.state != "pending":
        return ChatMessage((*parts, Text(end_text(approval, zone, via))), subject, approval.digest)
    fits = is_readable(approval)
    if fits:
        parts += [part for name, text in request_texts(approval) for part in (Text(f"{name}:"), Code(text))]
    else:
        parts.append(Text("The request does not fit here. Read all of it, then decide."))
    value = button_value(approval)
    first = Button(APPROVE, "Approve", value, "primary") if fits else Button(READ, "Read and decide…", value, "primary")
    more = (Button(OPEN, "Open", url=f"{url}/approvals/{approval.id}"),) if url else ()
    parts += [
        Text(f"Bound to sha256:{approval.digest[:16]}…"),
        Buttons((first, Button(DENY, "Deny…", value, "danger"), *more)),
    ]
    return ChatMessage(tuple(parts), subject, approval.digest)


def subject_of(approval_id: str | int) -> str:
    return f"approval:{approval_id}"


def title(approval: Approval) -> str:
    return _TITLES[approval.kind].format(approval.schedule)


def is_readable(approval: Approval) -> bool:
    """Whether a card shows all that would run. Nobody approves what they could not read."""
    lengths = [len(text) for _, text in request_texts(approval)]
    return max(lengths, default=0) <= MAX_TEXT and sum(lengths) <= MAX_TEXTS


def request_texts(approval: Approval) -> list[tuple[str, str]]:
    """The long texts of a request by name: prompt, payload, call, steps, and what is too long for a field."""
    request = approval.request
    found = [(name, _text(request[name])) for name in _BLOCKS if request.get(name) is not None]
    return found + [(name, value) for name, value in _rest(approval).items() if len(value) > _MAX_FIELD]


def button_value(approval: Approval) -> str:
    return orjson.dumps({"a": int(approval.id), "d": approval.digest}).decode()


def end_text(approval: Approval, zone: str, via: str | None) -> str:
    """Who decided, when, and where."""
    votes = [vote for vote in approval.votes if vote.digest == approval.digest]
    voters = ", ".join(vote.voter for vote in votes)
    at = "" if approval.decided_at is None else f" at {_local(approval.decided_at, zone)}"
    by = f" by {voters}" if voters and approval.state not in ("expired", "void") else ""
    where = "" if not by else " in Slack" if via else " outside Slack"
    notes = "".join(f"\n{vote.voter}: {vote.note}" for vote in votes if vote.note)
    why = {"expired": ": there was no answer in time", "void": ": its subject has changed or ended"}
    return f"{_ENDS[approval.state]}{by}{at}{where}{why.get(approval.state, '')}.{notes}"


def _fields(approval: Approval, now: int, zone: str) -> list[tuple[str, str]]:
    request = approval.request
    involved: list[tuple[str, str]] = request.get("involved") or []
    left = max(0, to_ms(approval.expires_at) - now)
    pairs: list[tuple[str, str | None]] = [
        ("approval", approval.id),
        ("asked by", f"{approval.requested_by} ({approval.requester_role})"),
        ("provenance", " → ".join(f"{name} ({role})" for name, role in reversed(involved)) or None),
        ("run", approval.run_id),
        *((name.replace("_", " "), value) for name, value in _rest(approval).items() if len(value) <= _MAX_FIELD),
        ("unusual", ", ".join(map(str, request.get("unusual") or [])) or None),
        ("not covered by the digest", "; ".join(map(str, request.get("outside") or [])) or None),
        ("edited by", request.get("edited_by")),
        ("replaces approval", request.get("instead_of")),
        ("needs", f"{approval.required} of {', '.join(approval.approvers) or 'the owner'}"),
    ]
    if approval.state == "pending":
        votes = [vote for vote in approval.votes if vote.digest == approval.digest]
        pairs.append(("votes", ", ".join(f"{vote.vote} by {vote.voter}" for vote in votes)))
        span = f" (in {format_duration(left // 60_000 * 60_000)})" if left >= 60_000 else ""
        pairs.append(("expires", f"{_local(approval.expires_at, zone)}{span}, then {approval.default}"))
    return [(name, value) for name, value in pairs if value]


def _rest(approval: Approval) -> dict[str, str]:
    found = {name: value for name, value in approval.request.items() if name not in _BESIDE and value is not None}
    return {name: _value(name, value) for name, value in found.items()}


def _value(name: str, value: Any) -> str:
    return _text(value) if name != "slot" else datetime.fromtimestamp(value / 1000, ZoneInfo("UTC")).isoformat()


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: item for key, item in cast("dict[str, Any]", value).items() if item not in (None, [], {})}
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _local(at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).strftime("%a %d %b %H:%M %Z")
