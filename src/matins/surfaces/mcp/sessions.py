"""Sessions of clients that can ask their person, in the revisions with a handshake. The form is a request of the server
within the answer to a call; the client posts its response."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson

from matins.model.access import Principal
from matins.surfaces.mcp.json_rpc import Json

HEADER = "mcp-session-id"
Ask = Callable[[Json], Awaitable[Any]]
"""Shows a form to the person, and returns the answer; None without one."""
_MAX_SESSIONS = 1_000
_ANSWER_S = 600
_HEARTBEAT_S = 15
_HEARTBEAT = b": waiting for the person\n\n"


class Session:
    """A client of one principal. Another principal cannot answer its forms."""

    def __init__(self, principal: Principal) -> None:
        self._owner = _identity(principal)
        self._asked: dict[str, asyncio.Future[Any]] = {}

    def belongs_to(self, principal: Principal) -> bool:
        return self._owner == _identity(principal)

    def answer(self, response: Json) -> None:
        """Take the client's response to a form. One that nothing waits for is ignored."""
        waiting = self._asked.get(str(response.get("id")))
        if waiting is not None and not waiting.done():
            waiting.set_result(response.get("result"))

    async def stream(self, answer: Callable[[Ask], Awaitable[Json]]) -> AsyncIterator[bytes]:
        """The forms that the answer asks for, then the answer, as events."""
        messages: asyncio.Queue[tuple[Json, bool]] = asyncio.Queue()

        async def ask(form: Json) -> Any:
            number = secrets.token_hex(16)
            self._asked[number] = asyncio.get_running_loop().create_future()
            await messages.put(
                ({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": form}, False)
            )
            try:
                return await asyncio.wait_for(self._asked[number], _ANSWER_S)
            except TimeoutError:
                return None
            finally:
                del self._asked[number]

        async def finish() -> None:
            await messages.put((await answer(ask), True))

        task = asyncio.create_task(finish())
        try:
            is_last = False
            while not is_last:
                try:
                    message, is_last = await asyncio.wait_for(messages.get(), _HEARTBEAT_S)
                except TimeoutError:
                    yield _HEARTBEAT
                else:
                    yield b"event: message\ndata: " + orjson.dumps(message) + b"\n\n"
        finally:
            task.cancel()


class Sessions:
    """The newest sessions of this process. After a restart, a client is given the link in place of a form."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def begin(self, principal: Principal) -> str:
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(24)
        self._sessions[name] = Session(principal)
        return name

    def find(self, name: str | None, principal: Principal) -> Session | None:
        found = self._sessions.get(name or "")
        return found if found is not None and found.belongs_to(principal) else None


def _identity(principal: Principal) -> tuple[object, ...]:
    return principal.who, principal.run_id, principal.token
