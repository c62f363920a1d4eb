"""What Discord sends, read: messages, slash commands and clicks; and the slash commands that it offers. Nothing of it
is trusted but its shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from matins.chat.messages import HELP
from matins.chat.service import Heard
from matins.engine.calls import mapping_of

COMMAND = "matins"
_COMMAND, _CLICK = 2, 3
"""Types of interactions."""
_PLAIN, _REPLY = 0, 19
"""Types of messages that people write."""
_FORWARD = 1
_SUBCOMMAND, _TEXT = 1, 3
_MAX_TEXT = 4_000
_ID = re.compile(r"[0-9]{1,20}")
_ARGUMENT = re.compile(r"\[(?:(?P<word>[a-z]+) )?(?P<optional>[^\[\]]+)\]|(?P<required>[A-Z]+)")


class Argument(NamedTuple):
    """A part of a command: `[until TIME]`, `NAME`."""

    name: str
    word: str
    """What precedes its value in the command."""
    shown: str
    required: bool


def arguments_of(usage: str) -> Iterator[Argument]:
    for found in _ARGUMENT.finditer(usage):
        word, shown = found["word"] or "", found["optional"] or found["required"]
        yield Argument(word or shown.split()[0].strip(":").lower(), word, shown, found["required"] is not None)


def offered() -> dict[str, Any]:
    """The slash command, with a subcommand for each command of the dialogue."""
    options = [{"type": _SUBCOMMAND, **_described(usage, help_)} for usage, help_ in HELP]
    return {"type": 1, "name": COMMAND, "description": "Schedules of agents.", "options": options}


def _described(usage: str, help_: str) -> dict[str, Any]:
    texts = [
        {"type": _TEXT, "name": one.name, "description": one.shown, "required": one.required, "max_length": _MAX_TEXT}
        for one in arguments_of(usage)
    ]
    return {"name": usage.split()[0], "description": help_[:100], "options": texts}


def heard(event: str, data: Mapping[str, Any]) -> Heard | None:
    """A message, a slash command or a click; None for what is of no concern."""
    read = _READERS.get(event)
    return None if read is None else read(data)


def _message(data: Mapping[str, Any]) -> Heard | None:
    author, reference, channel = (
        mapping_of(data.get("author")),
        mapping_of(data.get("message_reference")),
        _id(data, "channel_id"),
    )
    said = data.get("content")
    # What a user only sends on is not the user's word.
    if not isinstance(said, str) or data.get("type") not in (_PLAIN, _REPLY) or reference.get("type") == _FORWARD:
        return None
    return Heard(
        kind="message",
        key=f"message:{channel}:{_id(data, 'id')}",
        user=_id(author, "id"),
        channel=channel,
        ts=_id(data, "id"),
        thread=_id(reference, "message_id"),
        text=said,
        direct="guild_id" not in data,
        by_bot=author.get("bot") is True or "webhook_id" in data,
    )


def _interaction(data: Mapping[str, Any]) -> Heard | None:
    if data.get("type") not in (_COMMAND, _CLICK):
        return None
    user = mapping_of(mapping_of(data.get("member")).get("user")) or mapping_of(data.get("user"))
    given, custom = mapping_of(data.get("data")), mapping_of(data.get("data")).get("custom_id")
    click = data.get("type") == _CLICK
    action, _, value = custom.partition(":") if isinstance(custom, str) else ("", "", "")
    token = data.get("token")
    return Heard(
        kind="click" if click else "command",
        key=f"interaction:{_id(data, 'id')}",
        user=_id(user, "id"),
        channel=_id(data, "channel_id"),
        ts=_id(mapping_of(data.get("message")), "id"),
        text="" if click else command_of(given),
        direct="guild_id" not in data,
        by_bot=user.get("bot") is True,
        action=action,
        value=value,
        trigger=token if isinstance(token, str) and re.fullmatch(r"[\w.-]{1,500}", token) else "",
    )


_READERS = {"MESSAGE_CREATE": _message, "INTERACTION_CREATE": _interaction}


def command_of(given: Mapping[str, Any]) -> str:
    """A slash command as people write it: `pause nightly until 9am`."""
    verb = mapping_of(_first(given.get("options")))
    usage = next((usage for usage, _ in HELP if usage.split()[0] == verb.get("name")), "help")
    options = [mapping_of(one) for one in _list(verb.get("options"))]
    values = {str(one.get("name")): str(one.get("value", "")).strip() for one in options}
    parts = [f"{one.word} {values[one.name]}".strip() for one in arguments_of(usage) if values.get(one.name)]
    return " ".join([usage.split()[0], *parts])


def mentioned(said: str, bot: str) -> str | None:
    """The text without the mentions of the bot; None when it mentions others, or nobody."""
    parts = re.split(rf"<@!?{re.escape(bot)}>[:,]?", said)
    return " ".join(part.strip() for part in parts).strip() if len(parts) > 1 else None


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _first(value: object) -> Any:
    return next(iter(_list(value)), None)


def _id(held: Mapping[str, Any], name: str) -> str:
    """A snowflake, which is a text of digits; empty for anything else."""
    value = held.get(name)
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""
