"""Messages of a chat service over HTTP: `/chat/slack`. They are acknowledged at once, and answered by workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.errors import MatinsError
from matins.net.inbound import Delivery
from matins.service.calls import DeliveryRefusedError, parse_body
from matins.surfaces.http.endpoint import headers_of, in_time, read_body
from matins.surfaces.http.problem_json import HttpError, problem

PATH = "/chat/slack"
MAX_BYTES = 1 << 20
BODY_TIMEOUT_S = 2.0
"""Slack waits three seconds."""
_JSON = "application/json"


class Chat(Protocol):
    def is_signed(self, delivery: Delivery) -> bool: ...
    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None: ...


class ChatEndpoint:
    """An ASGI application for the requests of Slack. `chat` gives the present chat; None when there is none."""

    def __init__(self, chat: Callable[[], Chat | None], pool: Executor) -> None:
        self._chat = chat
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await in_time(read_body(scope, receive, MAX_BYTES), BODY_TIMEOUT_S)
            delivery = Delivery(headers_of(scope), body)
            response = await asyncio.get_running_loop().run_in_executor(self._pool, self._respond, delivery)
        except HttpError as error:
            response = problem(error, scope["path"])
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

    def _acknowledged(self, chat: Chat, payload: Mapping[str, Any]) -> Response:
        if payload.get("type") == "url_verification":
            return _json({"challenge": str(payload.get("challenge", ""))[:1_000]})
        try:
            body = chat.accept(payload)
        except MatinsError as error:
            raise HttpError(503, "busy", str(error), headers={"Retry-After": "5"}) from None
        return Response(status_code=200) if body is None else _json(body)


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), 200, media_type=_JSON)
