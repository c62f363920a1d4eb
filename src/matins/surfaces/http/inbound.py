"""Deliveries of other systems: `/in/NAME`, on the API's address or on one of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.api.results import Call
from matins.errors import MatinsError
from matins.service.calls import PING_PATH, DeliveryRefusedError, InboundReceiver, Received
from matins.surfaces.http.endpoint import headers_of, in_time, read_body
from matins.surfaces.http.parts import DaemonPart
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.router import Route, Router

PATH = "/in/{name}"
BODY_TIMEOUT_S = 10.0
_THREADS = 2
_MAX_PING_BYTES = 8 << 20
"""What is read of a report, so that no client fails; the beginning is kept."""
_JSON = "application/json"
_STATUS = {
    "unknown": 404, "unauthorized": 401, "unreadable": 400, "unsupported": 415, "too_many": 429, "misconfigured": 503,
}  # fmt: skip
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class InboundEndpoints:
    """An ASGI application for the deliveries to all inbound endpoints."""

    def __init__(self, receiver: InboundReceiver, pool: Executor, body_timeout_s: float = BODY_TIMEOUT_S) -> None:
        self._receiver = receiver
        self._pool = pool
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(scope, receive)
        except DeliveryRefusedError as refused:
            response = problem(_error(refused), scope)
        except (HttpError, MatinsError) as error:
            response = problem(error, scope)
        await response(scope, receive, send)

    async def _respond(self, scope: Any, receive: Receive) -> Response:
        loop, name = asyncio.get_running_loop(), scope["path_params"]["name"]
        most = await loop.run_in_executor(self._pool, self._receiver.max_bytes, name)
        body = await in_time(read_body(scope, receive, most), self._body_timeout_s)
        received = await loop.run_in_executor(self._pool, self._receiver.receive, name, headers_of(scope), body)
        return _response(received)


class PingEndpoint:
    """An ASGI application for the reports of work that happens elsewhere: GET, HEAD or POST."""

    def __init__(self, receiver: InboundReceiver, pool: Executor, body_timeout_s: float = BODY_TIMEOUT_S) -> None:
        self._receiver = receiver
        self._pool = pool
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await in_time(read_body(scope, receive, _MAX_PING_BYTES), self._body_timeout_s)
            token, signal = scope["path_params"]["token"], scope["path_params"].get("signal", "success")
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, self._receiver.ping, token, signal, body)
            response = Response("OK", media_type="text/plain")
        except DeliveryRefusedError as refused:
            response = problem(_error(refused), {**scope, "path": PING_PATH})  # the address is a secret
        except (HttpError, MatinsError) as error:
            response = problem(error, {**scope, "path": PING_PATH})
        await response(scope, receive, send)


def inbound_routes(receiver: InboundReceiver, pool: Executor, body_timeout_s: float = BODY_TIMEOUT_S) -> list[Route]:
    """Where other systems reach schedules."""
    ping = PingEndpoint(receiver, pool, body_timeout_s)
    paths = (PING_PATH + "{token}", PING_PATH + "{token}/{signal}")
    pings = [Route(method, path, ping) for method in ("GET", "HEAD", "POST") for path in paths]
    return [Route("POST", PATH, InboundEndpoints(receiver, pool, body_timeout_s)), *pings]


def _response(received: Received) -> Response:
    if received.call is None:
        return Response(orjson.dumps({"challenge": received.challenge}), 200, media_type=_JSON)
    call = received.call
    return Response(orjson.dumps(_document(call)), 202 if call.outcome == "accepted" else 200, media_type=_JSON)


def _document(call: Call) -> dict[str, Any]:
    outcome = "duplicate" if call.duplicate else call.outcome
    return {"delivery": call.id, "outcome": outcome, "runs": [run.id for run in call.runs]}


def _error(refused: DeliveryRefusedError) -> HttpError:
    headers = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
    return HttpError(_STATUS[refused.refusal], refused.refusal, str(refused), headers=headers)


class InboundApp:
    """The ASGI application of a listener that serves inbound endpoints, and nothing else but the routes of parts beside
    them."""

    def __init__(
        self,
        receiver: InboundReceiver,
        body_timeout_s: float = BODY_TIMEOUT_S,
        parts: Sequence[DaemonPart] = (),
    ) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "matins-inbound")
        routes = inbound_routes(receiver, self._pool, body_timeout_s)
        routes += [route for part in parts for route in part.inbound_routes(self._pool)]
        self._router = Router(routes, _nothing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run(receive, send)
        elif scope["type"] == "http":
            scope["path"] = scope["raw_path"].decode("latin-1")

            async def send_with_headers(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), *_HEADERS]
                await send(message)

            await self._router(scope, receive, send_with_headers)

    async def _run(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._pool.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    def close(self) -> None:
        """Do nothing: no response outlasts its request."""


async def _nothing(error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to a path that is not an inbound endpoint, without saying what else there is."""
    refused = HttpError(404, "unknown", "There is no such endpoint.")
    await problem(refused, scope)(scope, receive, send)
