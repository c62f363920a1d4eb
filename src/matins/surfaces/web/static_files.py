"""Static files, served under the hash of their content: a browser keeps them for a year."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib import resources
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.surfaces.http.host_check import accepts_gzip
from matins.surfaces.http.problem_json import HttpError, problem

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


_UNREAD = re.compile(rb"/\*[^*]*\*/|\n\s*")
"""What the style sheet has for its readers: comments, lines and indents, a tenth of its packed size."""


class _File(NamedTuple):
    type: str
    plain: bytes
    packed: bytes


class StaticFiles:
    """An ASGI application. One hash covers all files, so that modules may import each other by name."""

    def __init__(self) -> None:
        folder = resources.files("matins.surfaces.web") / "static"
        found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES}
        found |= {name: _UNREAD.sub(b"", content) for name, content in found.items() if name.endswith(".css")}
        self._files = {
            name: _File(_TYPES[name.rpartition(".")[2]], content, gzip.compress(content, mtime=0))
            for name, content in found.items()
        }
        contents = b"".join(name.encode() + content for name, content in sorted(found.items()))
        self.hash = hashlib.sha256(contents).hexdigest()[:16]

    def path(self, name: str) -> str:
        return f"/static/{self.hash}/{name}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._response(scope)(scope, receive, send)

    def _response(self, scope: Any) -> Response:
        file = self._files.get(scope["path_params"]["name"])
        if file is None or scope["path_params"]["hash"] != self.hash:
            error = HttpError(404, "no_such_path", "There is no such file.", hint="Reload the page.")
            return problem(error, scope["path"])
        if accepts_gzip(scope):
            return Response(file.packed, 200, {**_FOREVER, "Content-Encoding": "gzip"}, file.type)
        return Response(file.plain, 200, _FOREVER, file.type)
