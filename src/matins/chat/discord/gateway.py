"""The connection to Discord's gateway, which the library `discord.py` holds, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import orjson

from matins.chat.discord.web_api import UNKNOWN_TOKEN
from matins.engine.calls import mapping_of
from matins.errors import InvalidInput, MatinsError

log = logging.getLogger("matins")
_EVENTS = ("MESSAGE_CREATE", "INTERACTION_CREATE")
_LATER_S = 2.0
_LONGEST_S = 60.0
_GATEWAY = "wss://gateway.discord.gg/"
_AWAY = "There is no connection to Discord."
NO_TEXTS = "Discord does not show the texts of messages to this bot: enable its Message Content Intent (4014)."
Hear = Callable[[str, Mapping[str, Any]], object]


class Gateway:
    """Connected while this process `holds` the bot. `hear` gets events, `tell` a problem, or None once it has ended,
    in a thread of their own: none of them delays the heartbeat. `connected` is called with each new session."""

    def __init__(
        self,
        token: str,
        base: str | None,
        hear: Hear,
        tell: Callable[[str | None], None],
        connected: Callable[[], None],
    ) -> None:
        """`base`: another server's API; None for Discord's."""
        self._library = _library()
        self._token = token
        self._base = base
        self._hear = hear
        self._tell = tell
        self._connected = connected
        self._ending = threading.Event()
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stop: Callable[[], object] = lambda: None
        self._told = ""

    def start(self, holds: Callable[[], bool]) -> None:
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in (
                (lambda: asyncio.run(self._run(holds)), "matins-discord"),
                (self._handle, "matins-discord-events"),
            )
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._stop()
        self._work.put(None)
        for thread in self._threads:
            thread.join()

    # -- in the loop

    async def _run(self, holds: Callable[[], bool]) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._stop = partial(loop.call_soon_threadsafe, ended.set)
        later = _LATER_S
        while not self._ending.is_set():
            if holds():
                problem = await self._session(holds, ended)
                later = _LATER_S if problem is None else min(_LONGEST_S, later * 2)
                if problem is not None:
                    self._work.put(partial(self._say, problem))
            await _wait(ended, later)
        self._stop = lambda: None

    async def _session(self, holds: Callable[[], bool], ended: asyncio.Event) -> str | None:
        """Be connected until it is over, and return why; None where Matins ends it."""
        client = self._client()
        session = asyncio.create_task(client.start(self._token))
        try:
            while not session.done() and not ended.is_set() and holds():
                waiting = asyncio.create_task(ended.wait())
                await asyncio.wait({session, waiting}, timeout=_LATER_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            return self._problem(session.exception()) if session.done() else None
        finally:
            await client.close()
            session.cancel()
            await asyncio.gather(session, return_exceptions=True)

    def _client(self) -> Any:
        """A client that hands on what it receives, as text, and keeps nothing of it."""
        library, gateway = self._library, self

        class Client(library.Client):
            async def on_socket_raw_receive(self, message: str) -> None:
                gateway.received(message)

            async def on_disconnect(self) -> None:
                gateway.lost()

        intents = library.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        client = Client(
            intents=intents, enable_debug_events=True, max_messages=None, chunk_guilds_at_startup=False,
            member_cache_flags=library.MemberCacheFlags.none(),
        )  # fmt: skip
        if self._base is not None:
            lead_elsewhere(client.http, library.http.Route, self._base)
        return client

    def received(self, message: str) -> None:
        found = mapping_of(orjson.loads(message))
        event, data = found.get("t"), mapping_of(found.get("d"))
        if event == "READY":
            self._work.put(self._connected)
        if event in ("READY", "RESUMED"):
            self._work.put(partial(self._say, None))
        elif event in _EVENTS:
            self._work.put(partial(self._hear, str(event), data))

    def lost(self) -> None:
        if not self._ending.is_set():
            self._work.put(partial(self._say, _AWAY))

    def _problem(self, error: Any) -> str:
        if isinstance(error, self._library.LoginFailure):
            return UNKNOWN_TOKEN
        if isinstance(error, self._library.PrivilegedIntentsRequired):
            return NO_TEXTS
        if isinstance(error, self._library.ConnectionClosed):
            return UNKNOWN_TOKEN if error.code == 4004 else f"Discord ended the connection ({error.code})."
        return _AWAY if error is None else f"{_AWAY[:-1]} ({type(error).__name__})."

    # -- in the thread of events

    def _handle(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except MatinsError as error:
                log.error("Discord: %s", error)
            except Exception:
                log.exception("Discord: an event was not heard.")

    def _say(self, problem: str | None) -> None:
        """Tell a problem once, and that it is over."""
        if problem is not None and problem != self._told:
            log.error("Discord: %s Matins tries again.", problem)
        elif problem is None and self._told:
            log.info("Discord: all is well again.")
        if (problem or "") != self._told:
            self._tell(problem)
        self._told = problem or ""


async def _wait(ended: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)


def _library() -> Any:
    try:
        import discord
    except ModuleNotFoundError as error:
        hint = 'pip install "matins[discord]"'
        raise InvalidInput(f"Discord needs the package {error.name}, which is not installed.", hint=hint) from error
    logger = logging.getLogger("discord")  # its errors are raised too, and Matins logs them once
    logger.setLevel(logging.CRITICAL)
    return discord


def lead_elsewhere(http: Any, route_type: Any, base: str) -> None:
    """Have the client call another server than Discord's: its addresses are constants of the library."""
    request, connect = http.request, http.ws_connect

    async def requested(route: Any, **given: Any) -> Any:
        route.url = base + route.url.removeprefix(route.BASE)
        return await request(route, **given)

    async def connected(url: str, **given: Any) -> Any:
        if url.startswith(_GATEWAY):
            server = (await requested(route_type("GET", "/gateway")))["url"]
            url = f"{server.rstrip('/')}/{url.removeprefix(_GATEWAY)}"
        return await connect(url, **given)

    http.request, http.ws_connect = requested, connected
