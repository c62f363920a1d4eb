"""Chat: the app through which people speak to Matins, by service."""

from __future__ import annotations

from matins.errors import Example, InvalidInput
from matins.model.chat import ChatApp
from matins.records.kind import POLICIES, Column, Document, RecordContext, RecordKind


def _complete(app: ChatApp, context: RecordContext) -> ChatApp:
    if app.app_token is None and app.signing_secret is None:
        hint = Example({"app_token": "env:SLACK_APP_TOKEN"})
        message = 'A chat needs "app_token" (Socket Mode) or "signing_secret" (HTTP).'
        raise InvalidInput(message, field="app_token", hint=hint)
    return app


def _how(document: Document) -> str:
    ways = {"app_token": "Socket Mode", "signing_secret": "HTTP"}
    return ", ".join(way for name, way in ways.items() if document[name])


def _channels(document: Document) -> str:
    held: dict[str, str] = document["channels"] or {}
    return ", ".join(f"{channel}: {agent}" for channel, agent in held.items()) or "none"


CHAT = RecordKind(
    kind="chat",
    noun="chat",
    one="chat",
    key="service",
    keys=("slack",),
    value=ChatApp,
    help="Manage the app through which people speak to Matins in chat.",
    file_help="App through which people speak to Matins in chat, by service: slack.",
    storage=POLICIES,
    complete=_complete,
    columns=(
        Column("SERVICE", "service"),
        Column("BY", _how),
        Column("ADMIN", "admin"),
        Column("CHANNELS", _channels),
    ),
    example="matins chat set slack --bot-token env:BOT_TOKEN --app-token env:APP_TOKEN",
)
