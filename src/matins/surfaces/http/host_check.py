"""The outermost layer: allowed hosts and origins, and the headers of every response. Plain ASGI for speed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from matins.surfaces.http.authentication import header
from matins.surfaces.http.problems import HttpError, problem

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SECRETS = re.compile(rb"(?:^|&)(?:token|access_token|api_key|apikey|authorization|bearer)=", re.IGNORECASE)


class HostCheck:
    """Checks Host and Origin. `hosts` are the exact allowed hosts, `origins` those of Matins' own pages. `responses`
    counts by route, method and status."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], responses: Counter[tuple[str, str, int]]
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An encoded slash belongs to a name: routes match the raw path, and decode its parts.
        scope["path"] = scope["raw_path"].decode("latin-1")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
                route = getattr(scope.get("route"), "path", "other")
                self._responses[route, scope["method"], message["status"]] += 1
            await send(message)

        try:
            self._check(scope)
        except HttpError as error:
            await problem(error, scope["path"])(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Any) -> None:
        host = header(scope, b"host")
        if host is None or host.lower() not in self._hosts:
            hint = f"Use one of: {', '.join(sorted(self._hosts))}."
            raise HttpError(421, "wrong_host", "This server does not serve that host.", field="Host", hint=hint)
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._origins:
            message = "This server does not serve pages of other sites."
            raise HttpError(403, "wrong_origin", message, field="Origin", value=origin)
        if _SECRETS.search(scope["query_string"]):
            message = "A token in a URL ends up in logs."
            hint = "Send it as Authorization: Bearer, and revoke this one."
            raise HttpError(400, "token_in_url", message, field="query", hint=hint)
