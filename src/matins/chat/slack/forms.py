"""Forms in Slack: a draft, a reason to deny, and a request that is too long for a card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from matins.api.results import Approval
from matins.chat import drafts
from matins.chat.approval_cards import check_shown, request_parts, title, too_long
from matins.chat.dialogue import Place
from matins.chat.drafts import Draft
from matins.chat.messages import Text, check_length
from matins.chat.slack.rendering import MAX_MODAL_BLOCKS, blocks, modal, text_input
from matins.engine.calls import mapping_of
from matins.errors import InvalidInput, MatinsError

DRAFT, DENY_FORM, READ_FORM = "draft_form", "deny_form", "read_form"
_READERS = {"when": "when", "message": "message", "agent": "agent", "name": "name"}


def draft_form(draft: Draft, place: Place) -> dict[str, Any]:
    """What a draft has, and inputs for what it lacks."""
    inputs = [
        text_input("when", "When? For example: every weekday at 9am", value=draft.when or ""),
        text_input("message", "What should the agent do?", value=draft.message or "", lines=True),
        text_input("agent", "Agent", value=draft.agent or "", optional=True),
        text_input("name", "Name", value=draft.name or "", optional=True),
    ]
    return modal(DRAFT, "New schedule", "Preview", inputs, _metadata(c=place.channel, p=place.thread))


def draft_of(fields: Mapping[str, str], clock: drafts.Clock) -> Draft:
    """The draft of a form. Raises InvalidInput for the first field that is wrong."""
    wrong = errors_of(fields, clock)
    if wrong:
        field, message = next(iter(wrong.items()))
        raise InvalidInput(message, field=field)
    draft = Draft()
    for field in _READERS:
        if fields.get(field, "").strip():
            draft = drafts.changed(draft, field, fields[field], clock)
    return draft


def errors_of(fields: Mapping[str, str], clock: drafts.Clock) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in _READERS:
        if not fields.get(field, "").strip():
            continue
        try:
            check_length(fields[field])
            drafts.changed(Draft(), field, fields[field], clock)
        except MatinsError as error:
            found[field] = f"{error.message} {error.hint or ''}".strip()
    return found


def deny_form(asked: Approval, digest: str, channel: str, ts: str) -> dict[str, Any]:
    shown = blocks((Text(f"{title(asked)} (approval {asked.id})"),))
    reason = text_input("note", "Why?", lines=True, optional=True)
    return modal(DENY_FORM, "Deny", "Deny", [*shown, reason], _metadata(a=asked.id, d=digest, c=channel, m=ts))


def read_form(asked: Approval, digest: str, channel: str, ts: str) -> dict[str, Any]:
    """All of a request. Raises InvalidInput when it does not fit, or is no longer the one that the card showed."""
    check_shown(asked, digest)
    head = Text(f"{title(asked)} (approval {asked.id}), bound to sha256:{digest[:16]}…")
    body = blocks((head, *request_parts(asked)))
    if len(body) > MAX_MODAL_BLOCKS:
        raise too_long(asked, "Slack")
    return modal(READ_FORM, "Read and decide", "Approve", body, _metadata(a=asked.id, d=digest, c=channel, m=ts))


def _metadata(**values: str) -> str:
    return orjson.dumps(values).decode()


def metadata_of(value: str) -> Mapping[str, Any]:
    """What a form was opened with."""
    try:
        return mapping_of(orjson.loads(value))
    except orjson.JSONDecodeError:
        return {}
