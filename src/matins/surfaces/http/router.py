"""Routing: from a method and a path to an application."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from matins.api.use_case import path_pattern
from matins.surfaces.http.problem_json import HttpError

Unknown = Callable[[HttpError, Scope, Receive, Send], Awaitable[None]]
"""Responds to a request that no route matches."""


class Route(NamedTuple):
    method: str
    path: str
    """The path as declared: `/v1/runs/{run_id}/cancel`."""
    app: ASGIApp


class _Pattern(NamedTuple):
    route: Route
    start: str
    end: str
    match: Callable[[str], re.Match[str] | None]


class Router:
    """Finds the route of a request: exact paths first, then patterns by their first two segments. `{name:path}` matches
    slashes too, so a longer path after such a name is tried before the name alone."""

    def __init__(self, routes: Iterable[Route], unknown: Unknown) -> None:
        self._unknown = unknown
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: dict[tuple[str, str], list[_Pattern]] = {}
        for route in routes:
            if "{" not in route.path:
                self._exact[route.method, route.path] = route
                continue
            start, end = route.path.partition("{")[0], route.path.rpartition("}")[2]
            pattern = _Pattern(route, start, end, path_pattern(route.path).fullmatch)
            self._patterns.setdefault((route.method, _head(start)), []).append(pattern)
        for patterns in self._patterns.values():
            patterns.sort(key=lambda pattern: (-len(pattern.end), -len(pattern.start)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        exact = self._exact.get((method, path))
        if exact is not None:
            scope["path_params"], scope["route"] = {}, exact
            return await exact.app(scope, receive, send)
        for pattern in self._candidates(method, path):
            if path.startswith(pattern.start) and path.endswith(pattern.end) and (match := pattern.match(path)):
                values = {name: unquote(value) for name, value in match.groupdict().items()}
                scope["path_params"], scope["route"] = values, pattern.route
                return await pattern.route.app(scope, receive, send)
        return await self._unknown(self._error(path, scope["root_path"]), scope, receive, send)

    def _candidates(self, method: str, path: str) -> Iterator[_Pattern]:
        for head in _heads(path):
            yield from self._patterns.get((method, head), ())

    def _error(self, path: str, root: str) -> HttpError:
        """The error for a path that no route has, or not with this method."""
        see = f"See {root}/openapi.json."
        methods = {method for method, known in self._exact if known == path}
        for (method, head), patterns in self._patterns.items():
            if head in _heads(path) and any(pattern.match(path) for pattern in patterns):
                methods.add(method)
        if methods:
            allowed = ", ".join(sorted(methods))
            message, hint = "This path does not support that method.", f"Use one of: {allowed}."
            return HttpError(405, "no_such_method", message, hint=hint, headers={"Allow": allowed})
        known = {known for _, known in self._exact} | {p.route.path for ps in self._patterns.values() for p in ps}
        close = get_close_matches(path[:_MAX_COMPARED], known, n=1)
        hint = f"Did you mean {root}{close[0]}? {see}" if close else see
        return HttpError(404, "no_such_path", "There is nothing at this path.", hint=hint)


_MAX_COMPARED = 200


def _heads(path: str) -> tuple[str, str]:
    """The heads of the patterns that may match: the second segment may be a parameter."""
    return _head(path), f"/{path.split('/', 2)[1]}/"


def _head(path: str) -> str:
    """The first two segments: `/v1/runs`."""
    parts = path.split("/", 3)
    return "/".join(parts[:3])
