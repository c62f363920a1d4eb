"""The outermost layer: which hosts and sites are answered, and what every answer carries. Plain ASGI, since it is in
every request's way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from matins.surfaces.http.identity import header
from matins.surfaces.http.problems import Refused, problem

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SECRETS = re.compile(rb"(?:^|&)(?:token|access_token|api_key|apikey|authorization|bearer)=", re.IGNORECASE)


class Gate:
    """`hosts` are what a Host header may say, to the letter; `origins` are those of our own pages."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], answered: Counter[tuple[str, str, int]]
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._answered = answered
        """How often, by route, method and status."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        # An encoded slash belongs to a name: routes look at what was sent, and decode its parts.
        scope["path"] = scope["raw_path"].decode("latin-1")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
                route = getattr(scope.get("route"), "path", "other")
                self._answered[route, scope["method"], message["status"]] += 1
            await send(message)

        try:
            self._check(scope)
        except Refused as refused:
            await problem(refused, scope["path"])(scope, receive, sending)
            return
        await self._app(scope, receive, sending)

    def _check(self, scope: Any) -> None:
        host = header(scope, b"host")
        if host is None or host.lower() not in self._hosts:
            hint = f"known here: {', '.join(sorted(self._hosts))}"
            raise Refused(421, "wrong_host", "This server does not go by that name", field="Host", hint=hint)
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._origins:
            raise Refused(403, "wrong_origin", "Pages of other sites are not served", field="Origin", value=origin)
        if _SECRETS.search(scope["query_string"]):
            hint = "send it as Authorization: Bearer, and revoke this one"
            raise Refused(400, "token_in_address", "A token in an address ends up in logs", field="query", hint=hint)
