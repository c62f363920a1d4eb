"""What Slack sends, read: messages, slash commands, clicks and forms. Nothing of it is trusted but its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from matins.chat.service import Heard
from matins.engine.calls import mapping_of

_SUBTYPES = (None, "thread_broadcast", "file_share")


def heard(payload: Mapping[str, Any]) -> Heard | None:
    """The payload of an event, a slash command or an interaction; None for what is of no concern."""
    kind = payload.get("type")
    if kind == "event_callback":
        return _message(payload, mapping_of(payload.get("event")))
    if kind == "block_actions":
        return _click(payload)
    if kind == "view_submission":
        return _form(payload)
    return _command(payload) if "command" in payload else None


def _message(payload: Mapping[str, Any], event: Mapping[str, Any]) -> Heard | None:
    if event.get("type") not in ("message", "app_mention") or event.get("subtype") not in (*_SUBTYPES, "bot_message"):
        return None
    channel, ts = _text(event, "channel"), _text(event, "ts")
    return Heard(
        kind="message",
        key=f"message:{channel}:{ts}",
        teams=_given(payload.get("team_id"), event.get("team"), event.get("user_team"), event.get("source_team")),
        user=_text(event, "user"),
        channel=channel,
        ts=ts,
        thread=_text(event, "thread_ts"),
        text=_text(event, "text"),
        direct=event.get("channel_type") == "im",
        by_bot="bot_id" in event or event.get("subtype") == "bot_message",
    )


def _command(payload: Mapping[str, Any]) -> Heard:
    trigger = _text(payload, "trigger_id")
    return Heard(
        kind="command",
        key=f"command:{trigger}",
        teams=_given(payload.get("team_id")),
        user=_text(payload, "user_id"),
        channel=_text(payload, "channel_id"),
        text=_text(payload, "text"),
        trigger=trigger,
    )


def _click(payload: Mapping[str, Any]) -> Heard | None:
    actions: Any = payload.get("actions")
    action = mapping_of(cast("list[Any]", actions)[0] if isinstance(actions, list) and actions else None)
    container, user = mapping_of(payload.get("container")), mapping_of(payload.get("user"))
    ts = _text(container, "message_ts")
    return Heard(
        kind="click",
        key=f"click:{_text(payload, 'trigger_id') or _text(action, 'action_ts')}",
        teams=_given(mapping_of(payload.get("team")).get("id"), user.get("team_id")),
        user=_text(user, "id"),
        channel=_text(container, "channel_id"),
        ts=ts,
        thread=_text(container, "thread_ts"),
        action=_text(action, "action_id"),
        value=_text(action, "value"),
        trigger=_text(payload, "trigger_id"),
    )


def _form(payload: Mapping[str, Any]) -> Heard:
    view, user = mapping_of(payload.get("view")), mapping_of(payload.get("user"))
    state = mapping_of(mapping_of(view.get("state")).get("values"))
    fields = {str(name): _input(mapping_of(state.get(name)), str(name)) for name in state}
    return Heard(
        kind="form",
        key=f"form:{_text(view, 'id')}:{_text(view, 'hash')}",
        teams=_given(mapping_of(payload.get("team")).get("id"), user.get("team_id")),
        user=_text(user, "id"),
        action=_text(view, "callback_id"),
        value=_text(view, "private_metadata"),
        fields=fields,
    )


def _input(held: Mapping[str, Any], name: str) -> str:
    return _text(mapping_of(held.get(name)), "value")


def mentioned(text: str, bot: str) -> str | None:
    """The text after a mention of the bot at its beginning or end; None when it mentions someone else, or nobody."""
    parts = re.split(rf"<@{re.escape(bot)}(?:\|[^<>]{{0,200}})?>[:,]?", text)
    return " ".join(part.strip() for part in parts).strip() if len(parts) > 1 else None


def _given(*teams: object) -> tuple[str, ...]:
    return tuple(team for team in teams if isinstance(team, str) and team)


def _text(held: Mapping[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""
