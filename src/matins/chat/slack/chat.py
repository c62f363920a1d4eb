"""Slack: what a user does there, by Socket Mode or over HTTP (`/chat/slack`), and its forms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api.results import Approval
from matins.chat import drafts
from matins.chat.messages import ChatMessage, Manner
from matins.chat.service import ChatService, Heard, Kind
from matins.chat.settings import SLACK_CHANNELS, ChatApp
from matins.chat.slack.forms import (
    DENY_FORM,
    DRAFT,
    READ_FORM,
    deny_form,
    draft_form,
    draft_of,
    errors_of,
    metadata_of,
    read_form,
)
from matins.chat.slack.payloads import heard, mentioned
from matins.chat.slack.rendering import fits, plain_text
from matins.chat.slack.web_api import SocketMode, WebApi
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.errors import MatinsError
from matins.net.inbound import Delivery, verify_slack
from matins.service.calls import DeliveryRefusedError, parse_body
from matins.surfaces.http.endpoint import headers_of, in_time, read_body
from matins.surfaces.http.problem_json import HttpError, problem

log = logging.getLogger("matins")


class SlackChat(ChatService):
    manner = Manner(
        title="Slack",
        prefix="!schedule ",
        help="Write !schedule, /matins or a mention, then:",
        stranger="You are not known to Matins. Ask its owner to add you: "
        "matins people set NAME --role operator --slack {}",
        fits=fits,
        deny="Deny…",
    )
    channels = SLACK_CHANNELS

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        token = records.secret(app, "token")
        assert token is not None
        self._signing_secret, app_token = records.secret(app, "signing_secret"), records.secret(app, "app_token")
        self.voice = self._api = WebApi(token, app.url, records.clock)
        self._socket = None if app_token is None else SocketMode(app_token, self._api.client, self.accept)
        super().__init__(app, records, url)

    def connect(self, holds: Callable[[], bool]) -> None:
        self.records.set_bot(None, None)
        if self._socket is not None:
            self._socket.start()

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.stop()

    def is_signed(self, delivery: Delivery) -> bool:
        """Whether Slack sent a request over HTTP, within five minutes."""
        now_s = self.records.clock.now_ms() // 1000
        return self._signing_secret is not None and verify_slack(self._signing_secret, delivery, now_s)

    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take in what Slack sent, and return the body of the acknowledgement."""
        found = heard(payload)
        if found is None:
            return None
        if found.kind == "form" and found.action == DRAFT:
            clock = drafts.Clock(self.records.clock.now_ms(), self.records.clock.local_zone())
            if wrong := errors_of(found.fields, clock):
                return {"response_action": "errors", "errors": wrong}
        self.hear(found)
        return None

    def team(self) -> str:
        return self._api.whoami().team

    def recognised(self, heard: Heard) -> Heard | None:
        us = self._api.whoami()
        if heard.by_bot or not heard.user or heard.user == us.user:
            return None
        if any(team != us.team for team in heard.teams) or not heard.teams:
            log.warning("Slack: a %s of another workspace was ignored.", heard.kind)
            return None
        mention = mentioned(heard.text, us.user)
        return heard._replace(text=plain_text(heard.text), mention=None if mention is None else plain_text(mention))

    def refusal(self, heard: Heard) -> str | None:
        return None if self._api.is_member(heard.user) else "Guests and bots cannot use Matins."

    def whisper(self, heard: Heard, message: ChatMessage) -> None:
        self._api.whisper(heard.channel, heard.user, message, heard.thread or None)

    # -- slash commands and forms

    def kinds(self) -> Mapping[Kind, Callable[[Heard, ChatPerson], None]]:
        return {**super().kinds(), "command": self._command, "form": self._form}

    def _command(self, heard: Heard, person: ChatPerson) -> None:
        place = self.place(heard.channel, heard.key)
        asked = self.incoming(heard, person, place, heard.text)
        verb, _, rest = asked.text.strip().partition(" ")
        if verb.lower() == "add":
            draft = drafts.begin(rest, asked.agent, self.clock_of(person))
            if drafts.question(draft) is not None:
                self._api.open_modal(heard.trigger, draft_form(draft, place))
                return
        self.say(heard, self.dialogue.command(asked), private=True)

    def _form(self, heard: Heard, person: ChatPerson) -> None:
        held = metadata_of(heard.value)
        heard = heard._replace(channel=str(held.get("c", "")), ts=str(held.get("m", "")))
        number, digest = str(held.get("a")), str(held.get("d"))
        if heard.action == DRAFT:
            place = self.place(heard.channel, str(held.get("p", "")))
            draft = draft_of(heard.fields, self.clock_of(person))
            self.say(heard, self.dialogue.begin(self.incoming(heard, person, place, ""), draft), private=True)
        elif heard.action == DENY_FORM:
            self.decide(heard, person, number, digest, approve=False, note=heard.fields.get("note") or None)
        elif heard.action == READ_FORM:
            self.decide(heard, person, number, digest, approve=True)

    def ask_reason(self, heard: Heard, person: ChatPerson, asked: Approval, digest: str) -> None:
        self._api.open_modal(heard.trigger, deny_form(asked, digest, heard.channel, heard.ts))

    def show_all(self, heard: Heard, asked: Approval, digest: str) -> None:
        self._api.open_modal(heard.trigger, read_form(asked, digest, heard.channel, heard.ts))


MAX_BYTES = 1 << 20
BODY_TIMEOUT_S = 2.0
"""Slack waits three seconds."""
_JSON = "application/json"


class Signed(Protocol):
    def is_signed(self, delivery: Delivery) -> bool: ...
    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None: ...


class SlackEndpoint:
    """An ASGI application for the requests of Slack. `chat` gives the present chat; None when there is none."""

    def __init__(self, chat: Callable[[], Signed | None], pool: Executor) -> None:
        self._chat = chat
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await in_time(read_body(scope, receive, MAX_BYTES), BODY_TIMEOUT_S)
            delivery = Delivery(headers_of(scope), body)
            response = await asyncio.get_running_loop().run_in_executor(self._pool, self._respond, delivery)
        except HttpError as error:
            response = problem(error, scope)
        await response(scope, receive, send)

    def _respond(self, delivery: Delivery) -> Response:
        chat = self._chat()
        if chat is None:
            raise HttpError(404, "unknown", "There is no chat here.")
        if not chat.is_signed(delivery):
            raise HttpError(401, "unauthorized", "The request is not signed as it should be.")
        try:
            payload = parse_body(delivery)
        except DeliveryRefusedError as refused:
            raise HttpError(400, refused.refusal, str(refused)) from None
        if not isinstance(payload, dict):
            raise HttpError(400, "unreadable", "The body is not an object.")
        return self._acknowledged(chat, payload)  # pyright: ignore[reportUnknownArgumentType]

    def _acknowledged(self, chat: Signed, payload: Mapping[str, Any]) -> Response:
        if payload.get("type") == "url_verification":
            return _json({"challenge": str(payload.get("challenge", ""))[:1_000]})
        try:
            body = chat.accept(payload)
        except MatinsError as error:
            raise HttpError(503, "busy", str(error), headers={"Retry-After": "5"}) from None
        return Response(status_code=200) if body is None else _json(body)


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), 200, media_type=_JSON)
