"""The routes of the page: authenticate, call a view, render. Scripts change things by the API.

`LiveNames`, `GET /ui/stream`: only the names of what changed; the page fetches itself again, so nobody's text is in the
stream. `exported_parts`: the selected events as JSON lines or CSV, a page in memory at a time.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from matins.api import codec
from matins.api.results import Event
from matins.errors import MatinsError
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.surfaces.http.authentication import header
from matins.surfaces.http.endpoint import EndpointContext, is_unchanged
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.problem_json import HttpError, log, status_of
from matins.surfaces.http.router import Route, Unknown
from matins.surfaces.http.sign_in import login_code
from matins.surfaces.http.stream import EventFrame, Manner, Stream
from matins.web.templates import StaticFiles, environment, values_of
from matins.web.views import FRAGMENTS, VIEWS
from matins.web.views.system import chosen
from matins.web.visit import (
    BOUNCED,
    THEME_COOKIE,
    ZONE_COOKIE,
    Page,
    View,
    Visit,
    address,
    cookies_of,
    query_of,
    theme_of,
    zone_of,
)

_GATHER_S = 0.25
_HEARTBEAT_S = 4.0
"""A page says that it is not live after ten seconds of silence."""
_PING = b"event: ping\ndata:\n\n"
_GROUPS = {"approval": "approvals", "mission": "missions", "incident": "incidents", "throttle": "now"}


class LiveNames:
    """An ASGI application: the stream of events, reduced to names."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._stream.serve(scope, receive, send, Manner(names_text, _HEARTBEAT_S, _GATHER_S))


def names_text(frames: list[EventFrame]) -> bytes:
    """The names that the events concern, as one message."""
    if not frames:
        return _PING
    names = sorted({name for frame in frames for name in _names(frame)})
    return b"id: %d\ndata: %b\n\n" % (frames[-1].number, orjson.dumps(names))


def _names(frame: EventFrame) -> set[str]:
    group = frame.type.partition(".")[0]
    names = {"now", _GROUPS.get(group, f"{group}s")}
    if frame.schedule_id is not None:
        names.add(f"schedule-{frame.schedule_id}")
    if frame.run_id is not None:
        names.add(f"run-{frame.run_id}")
    return names


_PAGE = 500
_COLUMNS = ("id", "at", "type", "schedule", "agent", "run", "data")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would run a cell that begins like this."""
FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


def exported_parts(visit: Visit) -> Iterator[bytes]:
    """The file, the oldest event first, up to the newest when it was asked for."""
    written: Callable[[list[Event]], bytes] = _csv if visit.query.get("format") == "csv" else _json_lines
    listed, filters = visit.api.events.list, chosen(visit.query)
    newest = listed(limit=1)
    last, after = int(newest[-1].id) if newest else 0, 0
    if written is _csv:
        yield _rows([_COLUMNS])
    while page := [event for event in listed(after=str(after), limit=_PAGE, **filters) if int(event.id) <= last]:
        yield written(page)
        after = int(page[-1].id)


def _json_lines(page: list[Event]) -> bytes:
    return b"".join(codec.encode(event) + b"\n" for event in page)


def _csv(page: list[Event]) -> bytes:
    return _rows([
        (event.id, event.at.isoformat(), event.type, *map(_cell, (event.schedule, event.agent, event.run_id)),
         codec.encode(event.data).decode())
        for event in page
    ])  # fmt: skip


def _cell(text: str | None) -> str:
    return f"'{text}" if text and text.startswith(_FORMULA) else text or ""


def _rows(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "Vary": "Cookie, HX-Request, Accept-Encoding"}
_TITLES = {404: "Not found", 500: "Something failed", 503: "Not available at the moment"}
_RELATIVE = re.compile(r"(<time [^<>]*data-rel>)[^<]*")
"""The text of a relative time changes by itself, and is no reason to send a page again."""


class Pages(DaemonPart):
    """The page."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._files = StaticFiles()
        self._templates = environment(self._files)

    def routes(self, context: EndpointContext, stream: Stream) -> list[Route]:
        self._context = context
        routes = [
            Route("GET", "/static/{hash}/{name}", self._files),
            Route("GET", "/ui/stream", LiveNames(stream)),
            Route("GET", "/login", partial(_respond, self._sign_in)),
            Route("GET", "/events/export", partial(_respond, self._export)),
        ]
        views = [*VIEWS.items(), *FRAGMENTS.items()]
        return routes + [Route("GET", path, partial(_respond, partial(self._get, view))) for path, view in views]

    def unknown_page(self) -> Unknown:
        return self._unknown

    async def _unknown(self, error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an address that no route has, and to a sign-in that was refused."""
        if scope["path"].startswith("/login"):
            page = partial(self._sign_in_page, scope, error)
            response = await asyncio.get_running_loop().run_in_executor(self._context.pool, page)
            await response(scope, receive, send)
            return

        def view(visit: Visit) -> Page:
            raise error

        await _respond(partial(self._get, view), scope, receive, send)

    async def _get(self, view: View, scope: Scope) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._context.pool, self._read, view, scope)

    def _read(self, view: View, scope: Any) -> Response:
        with self._context.turns.turn():
            return self._answer(view, scope)

    async def _export(self, scope: Scope) -> Response:
        """A file that is sent while it is read. What refuses it, refuses it before the first byte."""
        parts = await asyncio.get_running_loop().run_in_executor(self._context.pool, self._begun, scope)
        if isinstance(parts, Response):
            return parts
        kind = query_of(scope).get("format", "")
        name = kind if kind in FORMATS else "jsonl"
        headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="matins-events.{name}"'}
        return StreamingResponse(self._sent(*parts), 200, headers, FORMATS[name])

    def _begun(self, scope: Any) -> tuple[bytes, Iterator[bytes]] | Response:
        try:
            parts = exported_parts(self._visit(scope, self._context.authenticator.principal_of(scope)))
            return next(parts, b""), parts
        except HttpError as error:
            return self._refused(scope, error)
        except Exception as error:
            return self._bare(scope, "failed.html", _error_page(_known(error, scope)))

    async def _sent(self, part: bytes | None, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while part is not None:
            yield part
            part = await loop.run_in_executor(self._context.pool, next, parts, None)

    def _answer(self, view: View, scope: Any) -> Response:
        """The response. It runs in a thread of the pool, from the session to the bytes."""
        try:
            visit = self._visit(scope, self._context.authenticator.principal_of(scope))
        except HttpError as error:
            return self._refused(scope, error)
        except Exception as error:
            return self._bare(scope, "failed.html", _error_page(_known(error, scope)))
        try:
            page = view(visit)
        except Exception as error:
            page = _error_page(_known(error, scope))
        return self._rendered(visit, page, scope)

    def _visit(self, scope: Any, principal: Principal) -> Visit:
        cookies, query = cookies_of(scope), query_of(scope)
        zone, zone_name = zone_of(cookies.get(ZONE_COOKIE), self._clock.local_zone())
        return Visit(
            root=scope["root_path"],
            path=scope["path"],
            params=scope.get("path_params", {}),
            query=query,
            principal=principal,
            caller=self._context.caller,
            now=datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC),
            zone=zone,
            zone_name=zone_name,
            theme=theme_of(cookies.get(THEME_COOKIE)),
        )

    def _rendered(self, visit: Visit, page: Page, scope: Any) -> Response:
        values = {**values_of(visit), "title": page.title, "names": " ".join(page.names), **page.values}
        try:
            if not page.template.startswith(("_", "parts/")):
                values["stats"] = visit.stats
            text = self._templates.get_template(page.template).render(values)
        except Exception as error:
            return self._bare(scope, "failed.html", _error_page(_known(error, scope)))
        body, steady = text.encode("utf-8", "replace"), _RELATIVE.sub(r"\1", text).encode("utf-8", "replace")
        tag = f'"{hashlib.sha256(steady).hexdigest()[:24]}"'
        headers = {**_HEADERS, "ETag": tag}
        if page.status == 200 and is_unchanged(scope, tag):
            return Response(b"", 304, headers)
        return Response(body, page.status, headers, "text/html")

    # -- without a session

    def _refused(self, scope: Any, error: HttpError) -> Response:
        """Ask for a sign-in. A link from another site comes without the cookie, so the page asks for itself again
        first: then the request comes from our own site, and the cookie with it."""
        again = _address_again(scope) if error.status == 401 else None
        if again is not None:
            return self._bare(scope, "bounce.html", Page("bounce.html", "Matins", {"again": again}))
        return self._sign_in_page(scope, error)

    async def _sign_in(self, scope: Scope) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._context.pool, self._login, scope)

    def _login(self, scope: Any) -> Response:
        """A link with its button, an invitation, or the ways to sign in."""
        try:
            query = query_of(scope)
            if "code" not in query:
                return self._sign_in_page(scope, None, asked="asked" in query)
            code = login_code(query)
        except HttpError as error:
            return self._sign_in_page(scope, error)
        invited = self._context.sign_in.invited(code)
        return self._bare(scope, "login.html", Page("", "Sign in", {"code": code, "invited": invited}))

    def _sign_in_page(self, scope: Any, error: HttpError | None, *, asked: bool = False) -> Response:
        values = {"error": error, "ways": self._context.sign_in.ways(), "asked": asked}
        return self._bare(
            scope, "sign_in.html", Page("", "Sign in", values, status=200 if error is None else error.status)
        )

    def _bare(self, scope: Any, template: str, page: Page) -> Response:
        """A page of its own, without the frame."""
        values = {
            "title": page.title,
            "theme": theme_of(cookies_of(scope).get(THEME_COOKIE)),
            "address": partial(address, scope["root_path"]),
            **page.values,
        }
        text = self._templates.get_template(template).render(values)
        return Response(text.encode(), page.status, _HEADERS, "text/html")


def page(scheduler: Scheduler, public_url: str | None) -> Pages:
    return Pages(scheduler.clock)


def _address_again(scope: Any) -> str | None:
    """Our own address, to ask for it once more. None for one that no route has: `//host` is another site's."""
    if "route" not in scope or header(scope, b"hx-request") is not None:
        return None
    try:
        query = query_of(scope)
    except HttpError:
        return None
    return None if BOUNCED in query else address(scope["root_path"], scope["path"], **query, **{BOUNCED: "1"})


async def _respond(handler: Callable[[Scope], Any], scope: Scope, receive: Receive, send: Send) -> None:
    response = await handler(scope)
    await response(scope, receive, send)


def _known(error: Exception, scope: Any) -> HttpError | MatinsError:
    """The error to show. An internal one is logged, and its text is not shown."""
    if isinstance(error, (HttpError, MatinsError)):
        return error
    log.error("%s failed", scope["path"], exc_info=error)
    return HttpError(500, "internal", "The server failed.", hint="See its log.")


def _error_page(error: HttpError | MatinsError) -> Page:
    status = error.status if isinstance(error, HttpError) else status_of(error)
    message = error.detail if isinstance(error, HttpError) else error.message
    hint = None if status == 404 and isinstance(error, HttpError) else error.hint  # that one is for callers of the API
    values = {"message": message, "hint": hint, "status": status, "value": None}
    return Page("error.html", _TITLES.get(status) or HTTPStatus(status).phrase, values, status=status)
