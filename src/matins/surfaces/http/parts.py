"""Parts of the daemon beside its API, such as the page. Each is registered by entry point."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from matins.api.events import Subscriptions
from matins.api.use_case import Caller
from matins.delivery.answers import ThreadChannel
from matins.model.clock import Clock
from matins.plugins import installed
from matins.store import Store
from matins.surfaces.http.endpoint import EndpointContext
from matins.surfaces.http.router import Route, Unknown
from matins.surfaces.http.stream import Stream

PARTS = "matins.parts"


class Scheduler(Caller, Protocol):
    """The scheduler of the daemon, as parts use it."""

    clock: Clock
    url: str | None

    @property
    def store(self) -> Store: ...
    @property
    def subscriptions(self) -> Subscriptions: ...

    def subscribe(
        self, callback: Callable[[dict[str, Any]], Any], types: tuple[str, ...] = (), name: str | None = None
    ) -> Callable[[], None]: ...
    def post_answers(self, service: str, channel: ThreadChannel) -> Callable[[], None]: ...

    def holds(self, name: str) -> bool:
        """Whether this process calls the function of a named subscription: of several processes, one does."""
        ...


class DaemonPart:
    """A subclass overrides what it has."""

    def routes(self, context: EndpointContext, stream: Stream) -> list[Route]:
        """Routes in the API's server. They replace the server's own of the same path."""
        return []

    def unknown_page(self) -> Unknown | None:
        """What responds to a browser that asks for an address that no route has."""
        return None

    def inbound_routes(self, pool: Executor) -> list[Route]:
        """Routes beside the inbound endpoints, wherever those are served."""
        return []

    def start(self) -> None:
        """Called when the server listens."""

    def stop(self) -> None:
        """Called before the server stops."""


def daemon_parts(scheduler: Scheduler, public_url: str | None) -> list[DaemonPart]:
    """All parts, not started. `public_url` is the address of a proxy in front of the daemon."""
    return [part(scheduler, public_url) for part in installed(PARTS).values()]
