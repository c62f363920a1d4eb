"""`/mcp` in the API's server: authentication, and the SDK, which is loaded beside everything else."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from matins.api.use_case import USE_CASES
from matins.errors import MatinsError
from matins.model.access import OWNER, Principal
from matins.surfaces.http.endpoint import EndpointContext, in_time, read_body
from matins.surfaces.http.problems import HttpError, problem
from matins.surfaces.http.router import Route
from matins.surfaces.mcp.desk import Desk
from matins.surfaces.mcp.toolsets import TOOLSETS

log = logging.getLogger("matins")
PATH = "/mcp"
_MAX_BYTES = 1 << 20
_PRELOAD_S = 15.0
"""How long after the start the SDK is loaded where there are no agents yet, if no request comes before. Loading takes a
second of another thread."""
_LOOK_S = 0.5
"""How long after the start agents are looked for: Codex does not wait for a server that is slow to answer."""
_PRINCIPAL, _TOOLSET = "matins.principal", "matins.toolset"


def is_installed() -> bool:
    return find_spec("mcp") is not None


class McpApp:
    """The endpoint, and the life of the SDK's session manager. `url` is where people find the page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._context: EndpointContext | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def routes(self, context: EndpointContext) -> list[Route]:
        self._context = context
        paths = [(PATH, ""), *((f"{PATH}/{name}", name) for name in TOOLSETS)]
        return [Route("POST", path, self._endpoint(toolset)) for path, toolset in paths]

    def start(self) -> None:
        """Load the SDK some time after the start of the server, on its event loop; at once where there are agents."""
        if is_installed():
            loop = asyncio.get_running_loop()
            loop.call_later(_PRELOAD_S, self._begin)
            self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        assert self._context is not None
        caller = self._context.caller
        await asyncio.sleep(_LOOK_S)
        with suppress(MatinsError):  # a store that is away has no agents to start
            if await self._in_thread(lambda: caller.call(OWNER, USE_CASES["agents.list"], {})):
                self._begin()

    async def close(self) -> None:
        self._stop.set()
        if self._looking is not None:
            self._looking.cancel()
        if self._serving is not None:
            with suppress(asyncio.CancelledError):
                await self._serving

    def _endpoint(self, toolset: str) -> Callable[[Scope, Receive, Send], Any]:
        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                manager, body = await self._prepare(scope, receive, toolset)
            except Exception as error:
                await problem(error, scope["path"])(scope, receive, send)
                return
            await manager.handle_request(scope, _again(body, receive), send)

        return endpoint

    async def _prepare(self, scope: Scope, receive: Receive, toolset: str) -> tuple[Any, bytes]:
        """Authenticate, read the body, and wait for the SDK."""
        assert self._context is not None
        scope[_PRINCIPAL] = await self._in_thread(self._context.authenticator.principal_of, scope)
        scope[_TOOLSET] = toolset
        body = await in_time(read_body(scope, receive, _MAX_BYTES), self._context.body_timeout_s)
        if not is_installed():
            hint = "Install it: pip install 'matins[mcp]'"
            raise HttpError(501, "not_installed", "MCP is not installed here.", hint=hint)
        return await asyncio.shield(self._begin()), body

    def _begin(self) -> asyncio.Future[Any]:
        """The session manager, once it serves. The first call starts it."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._ready))
        return self._ready

    async def _serve(self, ready: asyncio.Future[Any]) -> None:
        try:
            manager = await _in_own_thread(self._load)
            async with manager.run():
                ready.set_result(manager)
                await self._stop.wait()
        except Exception as error:
            log.exception("MCP cannot be served")
            if not ready.done():
                ready.set_exception(error)

    def _load(self) -> Any:
        """The session manager of the SDK, which is imported here, in a thread of its own."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        from matins.surfaces.mcp.server import ToolServer

        for name in ("mcp", "mcp.server"):
            logging.getLogger(name).setLevel(logging.WARNING)
        server = ToolServer(self._desk_of, self._in_thread).server
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # our own check comes before
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, security_settings=security)

    def _desk_of(self, ctx: Any) -> tuple[Desk, str]:
        assert self._context is not None
        scope = ctx.request.scope
        principal: Principal = scope[_PRINCIPAL]
        return Desk(self._context.caller, principal, self._url), scope[_TOOLSET]

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        assert self._context is not None
        return await asyncio.get_running_loop().run_in_executor(self._context.pool, function, *arguments)


async def _in_own_thread(function: Callable[[], Any]) -> Any:
    """The result of a function in a thread that ends with it: the pool's threads are for calls."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def report(result: Any, error: Exception | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the server has stopped meanwhile
            loop.call_soon_threadsafe(report, result, error)

    threading.Thread(target=run, name="matins-mcp-load", daemon=True).start()
    return await done


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then what the connection brings."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return messages.pop() if messages else await receive()

    return read
