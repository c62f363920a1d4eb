"""The app through which people speak to Matins, by service. Annotations are settings, see `settings`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from matins.errors import Example, InvalidInput
from matins.model.destination import ChatChannels
from matins.model.settings import Labels, Secret, Setting, Text, Url
from matins.records.kind import POLICIES, Column, Document, RecordContext, RecordKind

Service = Literal["slack", "telegram", "discord"]


# fmt: off
@dataclass(frozen=True, slots=True)
class ChatApp:
    service: str
    token: Annotated[str,
        Setting(Secret(), "Where the bot's token is: env:NAME or file:/path.", "env:SLACK_BOT_TOKEN", required=True)]
    app_token: Annotated[str | None,
        Setting(Secret(), "Slack: where the app-level token for Socket Mode is.", "env:SLACK_APP_TOKEN")] = None
    signing_secret: Annotated[str | None,
        Setting(Secret(), "Slack: where the signing secret for requests to /chat/slack is.",
                "env:SLACK_SIGNING_SECRET")] = None
    admin: Annotated[str | None,
        Setting(Text(100), "Id of the channel for requests for approval and for notes.", "C0OPS")] = None
    channels: Annotated[dict[str, str] | None,
        Setting(Labels(), "Agents by the id of the channel in which they are spoken to.",
                {"C07ABCDEF": "scout"})] = None
    url: Annotated[str | None,
        Setting(Url(), "URL of the service's API; default: its own.",
                "https://slack-gov.com/api/")] = None
# fmt: on

    def agent_in(self, channel: str) -> str | None:
        return (self.channels or {}).get(channel)


def _complete(app: ChatApp, context: RecordContext) -> ChatApp:
    if app.service != "slack":
        for name in ("app_token", "signing_secret"):
            if getattr(app, name) is not None:
                raise InvalidInput(f'"{name}" is for Slack.', field=name, hint="Omit it.")
    elif app.app_token is None and app.signing_secret is None:
        hint = Example({"app_token": "env:SLACK_APP_TOKEN"})
        message = 'Slack needs "app_token" (Socket Mode) or "signing_secret" (HTTP).'
        raise InvalidInput(message, field="app_token", hint=hint)
    return app


def _how(document: Document) -> str:
    ways = {"app_token": "Socket Mode", "signing_secret": "HTTP"}
    usual = {"telegram": "long polling", "discord": "gateway"}.get(document["service"], "")
    return ", ".join(way for name, way in ways.items() if document[name]) or usual


def _channels(document: Document) -> str:
    held: dict[str, str] = document["channels"] or {}
    return ", ".join(f"{channel}: {agent}" for channel, agent in held.items()) or "none"


CHAT = RecordKind(
    kind="chat",
    noun="chat",
    one="chat",
    key="service",
    keys=get_args(Service),
    value=ChatApp,
    help="Manage the app through which people speak to Matins in chat.",
    file_help="App through which people speak to Matins in chat, by service: slack, telegram, discord.",
    storage=POLICIES,
    complete=_complete,
    columns=(
        Column("SERVICE", "service"),
        Column("BY", _how),
        Column("ADMIN", "admin"),
        Column("CHANNELS", _channels),
    ),
    example="matins chat set telegram --token env:TELEGRAM_TOKEN",
)
SLACK_CHANNELS = ChatChannels("slack", re.compile(r"[CDG][A-Z0-9]{5,}"))
"""Channels, direct messages and private channels."""
TELEGRAM_CHANNELS = ChatChannels("telegram", re.compile(r"-?[0-9]{1,16}"))
"""Private chats have the ids of their users, groups negative ones."""
DISCORD_CHANNELS = ChatChannels("discord", re.compile(r"[0-9]{17,20}"))
"""Channels, direct messages and threads."""
