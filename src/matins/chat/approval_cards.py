"""Cards of approvals: exactly what would run, who asked, and buttons that are bound to the digest."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from matins.api.results import Approval
from matins.chat.messages import MIN_DIGEST, Button, Buttons, ChatMessage, Code, Fields, Heading, Manner, Part, Text
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput

APPROVE, DENY, READ, OPEN = "approve", "deny", "read", "open"
_TITLES = {"run": "Run of {}", "schedule": "New schedule {}", "budget": "More budget for {}"}
_BLOCKS = ("prompt", "command", "stdin", "payload", "call", "steps")
_BESIDE = (*_BLOCKS, "involved", "schedule", "unusual", "outside", "instead_of", "edited_by")
_MAX_FIELD = 300
_ENDS = {"approved": "Approved", "used": "Approved", "denied": "Denied", "expired": "Expired", "void": "Void"}


def approval_card(approval: Approval, now: int, zone: str, url: str | None, manner: Manner) -> ChatMessage:
    """The card of an open request, with buttons. Nobody approves what they could not read: one that does not fit is
    read elsewhere, and decided there."""
    head, open_page = _head(approval, now, zone), Button(OPEN, "Open", url=f"{url}/approvals/{approval.id}")
    more = (open_page,) if url else ()
    card = _with_buttons(approval, (*head, *request_parts(approval)), APPROVE, "Approve", manner, more)
    if manner.fits(card):
        return card
    parts = (*head, Text("The request does not fit here. Read all of it, then decide."))
    return _with_buttons(approval, parts, READ, "Read and decide…", manner, more)


def decision_card(approval: Approval, manner: Manner) -> ChatMessage:
    """The end of a request of which all was shown."""
    parts = (Text(f"This was all of {title(approval)} (approval {approval.id})."),)
    return _with_buttons(approval, parts, APPROVE, "Approve", manner, ())


def ended_card(approval: Approval, now: int, zone: str, where: str) -> ChatMessage:
    """The card of a request that was decided, or expired."""
    return ChatMessage((*_head(approval, now, zone), Text(end_text(approval, zone, where))), *_about(approval))


def can_approve(card: ChatMessage) -> bool:
    """Whether a card shows all that would run."""
    buttons = [button for part in card.parts if isinstance(part, Buttons) for button in part.buttons]
    return any(button.action == APPROVE for button in buttons)


def _with_buttons(
    approval: Approval, parts: tuple[Part, ...], action: str, label: str, manner: Manner, more: tuple[Button, ...]
) -> ChatMessage:
    bound = {"of": approval.id, "digest": approval.digest}
    first, deny = Button(action, label, style="primary", **bound), Button(DENY, manner.deny, style="danger", **bound)
    end = (Text(f"Bound to sha256:{approval.digest[:16]}…"), Buttons((first, deny, *more)))
    return ChatMessage((*parts, *end), *_about(approval))


def _head(approval: Approval, now: int, zone: str) -> tuple[Part, ...]:
    heading = Heading(f"{title(approval)}: {approval.requested_by} asks for approval")
    return heading, Fields(tuple(_fields(approval, now, zone)))


def _about(approval: Approval) -> tuple[str, str]:
    return subject_of(approval.id), approval.digest


def subject_of(approval_id: str | int) -> str:
    return f"approval:{approval_id}"


def title(approval: Approval) -> str:
    return _TITLES[approval.kind].format(approval.schedule)


def request_texts(approval: Approval) -> list[tuple[str, str]]:
    """The long texts of a request by name: prompt, command, payload, call, steps, and what is too long for a field."""
    request = approval.request
    found = [(name, _text(request[name])) for name in _BLOCKS if request.get(name) is not None]
    return found + [(name, value) for name, value in _rest(approval).items() if len(value) > _MAX_FIELD]


def request_parts(approval: Approval) -> tuple[Part, ...]:
    return tuple(part for name, text in request_texts(approval) for part in (Text(f"{name}:"), Code(text)))


def check_shown(approval: Approval, digest: str) -> None:
    """Raise unless the request is open, and the one with this digest, or with a digest that begins so."""
    if approval.state != "pending" or len(digest) < MIN_DIGEST or not approval.digest.startswith(digest):
        message = (
            f"Approval {approval.id} has changed since." if approval.state == "pending" else f"It is {approval.state}."
        )
        raise InvalidInput(message, field="approval", hint="Use the newest card.")


def too_long(approval: Approval, title: str) -> InvalidInput:
    hint = f"Read and decide there: matins approvals show {approval.id}"
    return InvalidInput(f"The request is too long for {title}.", field="approval", hint=hint)


def end_text(approval: Approval, zone: str, where: str) -> str:
    """Who decided, when, and where: "in Slack"."""
    votes = [vote for vote in approval.votes if vote.digest == approval.digest]
    voters = ", ".join(vote.voter for vote in votes)
    at = "" if approval.decided_at is None else f" at {_local(approval.decided_at, zone)}"
    by = f" by {voters}" if voters and approval.state not in ("expired", "void") else ""
    where = f" {where}" if by else ""
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
