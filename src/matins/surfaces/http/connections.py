"""Limits of connections: in all, for each address, and of requests that have not arrived completely.

At a limit, a connection that waits makes room for a new one; where all are being answered, the new one is closed as it
is accepted, before it costs more than a moment. Half of the process's descriptors stay with runs, files and the store.

Reads that take turns: threads that share the interpreter take more time together than one after the other.
"""

from __future__ import annotations

import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from matins.records.file_settings import HttpServer

_MAX_IN_TURN = 16
"""Connections that one turn of the loop accepts. The first is read from three turns later, so that a request which was
sent at once is read before many others are accepted and displace it."""
ARRIVED = "matins.arrived"
"""Set in the scope of a request that has arrived completely."""
_PROBLEM = (
    b'{"type":"about:blank","title":"Service Unavailable","status":503,"code":"too_many_connections",'
    b'"detail":"Matins has too many connections.","hint":"Try again in a second."}'
)
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    b"Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b"
) % (len(_PROBLEM), _PROBLEM)


class Connection:
    """One connection, as it is counted."""

    __slots__ = ("closed", "disconnect", "key", "unfinished")

    def __init__(self, key: str, disconnect: Callable[[], None]) -> None:
        self.key = key
        self.disconnect = disconnect
        """Ends it; called in any thread."""
        self.unfinished = True
        """Whether it owes a request, or the rest of one."""
        self.closed = False
        """Whether it no longer counts."""


class Connections:
    """Counts the connections of all listeners of the process; each has a thread of its own.

    At a limit, the connection that has waited longest for a request, or for the rest of one, makes room: otherwise
    a program that opens connections and sends nothing would lock everyone else at its address out.
    """

    def __init__(self, settings: HttpServer) -> None:
        self.settings = settings
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        descriptors = 1 << 20 if soft == resource.RLIM_INFINITY else soft
        self._max = min(settings.max_connections, max(8, descriptors // 2))
        self._max_per_address = min(settings.max_connections_per_address, self._max // 2)
        self._is_proxy = proxy_test(settings)
        self._lock = threading.Lock()
        self._count = 0
        self._open: Counter[str] = Counter()
        self._unfinished: Counter[str] = Counter()
        self._waiting: dict[Connection, None] = {}
        """Those without a request that is being answered, in the order in which they began to wait."""

    def admit(self, address: str, disconnect: Callable[[], None] = lambda: None) -> Connection | None:
        """Count a new connection, which owes a request. None when it is above a limit, and none can make room."""
        key, by_proxy = _counted_as(address), self._is_proxy(address)
        with self._lock:
            while (in_the_way := self._in_the_way(key, by_proxy=by_proxy)) is not None:
                oldest = next((found for found in self._waiting if in_the_way(found)), None)
                if oldest is None:
                    return None
                self._discount(oldest)
                oldest.disconnect()
            self._count += 1
            self._open[key] += 1
            self._unfinished[key] += 1
            found = Connection(key, disconnect)
            self._waiting[found] = None
            return found

    def _in_the_way(self, key: str, *, by_proxy: bool) -> Callable[[Connection], bool] | None:
        """Which connections keep a new one of this address out; None when there is room."""
        if self._count >= self._max:
            return lambda found: True
        if by_proxy:
            return None
        if self._open[key] >= self._max_per_address:
            return lambda found: found.key == key
        if self._unfinished[key] >= self.settings.max_unfinished_per_address:
            return lambda found: found.key == key and found.unfinished
        return None

    def begin(self, connection: Connection) -> None:
        """It sends another request, which has not arrived completely."""
        with self._lock:
            if not connection.closed and not connection.unfinished:
                connection.unfinished = True
                self._unfinished[connection.key] += 1
                if connection in self._waiting:  # it rested; from now on it waits for the rest of this request
                    del self._waiting[connection]
                    self._waiting[connection] = None

    def complete(self, connection: Connection) -> None:
        """Its request has arrived, and is being answered."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._finish(connection)

    def rest(self, connection: Connection) -> None:
        """Its request is answered; it may send another."""
        with self._lock:
            if not connection.closed:
                self._waiting.setdefault(connection)

    def close(self, connection: Connection) -> None:
        with self._lock:
            self._discount(connection)

    def _discount(self, connection: Connection) -> None:
        if not connection.closed:
            self._finish(connection)
            connection.closed = True
            self._waiting.pop(connection, None)
            self._count -= 1
            _decrease(self._open, connection.key)

    def _finish(self, connection: Connection) -> None:
        if connection.unfinished and not connection.closed:
            connection.unfinished = False
            _decrease(self._unfinished, connection.key)


class LimitedListener(socket.socket):
    """A listening socket that closes connections above a limit."""

    connections: Connections
    accepted: dict[int, Connection]
    """Accepted connections by descriptor, until their protocols take them."""
    in_turn: int
    """Connections that this turn of the loop has accepted."""

    def accept(self) -> tuple[socket.socket, Any]:
        if self.in_turn == _MAX_IN_TURN:
            self.in_turn = 0
            raise BlockingIOError  # asyncio reads from those that it has, and accepts again
        try:
            connection, address = super().accept()
        except OSError:  # there is none
            self.in_turn = 0
            raise
        self.in_turn += 1
        if (counted := self.connections.admit(address[0], partial(_disconnect, connection))) is not None:
            self.accepted[connection.fileno()] = counted
            return connection, address
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(REFUSAL)
        self.in_turn = 0
        raise ConnectionAbortedError  # asyncio continues with its other work, and accepts again


def _disconnect(connection: socket.socket) -> None:
    with suppress(OSError):  # it is gone
        connection.shutdown(socket.SHUT_RDWR)  # the loop of its listener reads the end, and closes it


def limited(listening: socket.socket, connections: Connections) -> LimitedListener:
    """The same socket, with limits."""
    made = LimitedListener(listening.family, listening.type, listening.proto, fileno=listening.detach())
    made.connections, made.accepted, made.in_turn = connections, {}, 0
    return made


def proxy_test(settings: HttpServer) -> Callable[[str], bool]:
    """Whether an address belongs to a trusted proxy."""
    networks = [ip_network(proxy, strict=False) for proxy in settings.trusted_proxies]

    def is_proxy(address: str) -> bool:
        return bool(networks) and any(_plain(address) in network for network in networks)

    return is_proxy


def _counted_as(address: str) -> str:
    """What an address is counted as: every machine has a whole /64 of IPv6, so all addresses of one count together."""
    found = _plain(address)
    return found.packed[:8].hex() if isinstance(found, IPv6Address) else str(found)


def _plain(address: str) -> IPv4Address | IPv6Address:
    """The address without its zone. A listener for IPv6 sees addresses of IPv4 as a part of IPv6."""
    found = ip_address(address.partition("%")[0])
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _decrease(counter: Counter[str], address: str) -> None:
    counter[address] -= 1
    if counter[address] <= 0:
        del counter[address]


_PATIENCE_S = 0.05


class Turns:
    """`needed` is False where a read waits for another machine: others go on meanwhile."""

    def __init__(self, *, needed: bool, patience_s: float = _PATIENCE_S) -> None:
        self._needed = needed
        self._patience_s = patience_s
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Generator[None]:
        """One at a time. A long read delays each of the others by the patience at most."""
        taken = self._needed and self._lock.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if taken:
                self._lock.release()
