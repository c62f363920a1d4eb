"""Limits of connections: in all, for each address, and of requests that have not arrived completely.

A connection above a limit is closed as it is accepted, before it costs more than a moment. Half of the process's
descriptors stay with runs, files and the store.
"""

from __future__ import annotations

import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from matins.records.http_server import HttpServer

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


class Connections:
    """Counts the connections of all listeners of the process; each has a thread of its own."""

    def __init__(self, settings: HttpServer) -> None:
        self.settings = settings
        self._max = min(settings.max_connections, max(8, _descriptors() // 2))
        self._max_per_address = min(settings.max_connections_per_address, self._max // 2)
        self._is_proxy = proxy_test(settings)
        self._lock = threading.Lock()
        self._count = 0
        self._open: Counter[str] = Counter()
        self._unfinished: Counter[str] = Counter()

    def admit(self, address: str) -> bool:
        """Count a new connection, which owes a request. False when it is above a limit."""
        key = _counted_as(address)
        with self._lock:
            if self._count >= self._max or (self._is_full(key) and not self._is_proxy(address)):
                return False
            self._count += 1
            self._open[key] += 1
            self._unfinished[key] += 1
            return True

    def begin(self, address: str) -> None:
        """Count another request that has not arrived completely."""
        with self._lock:
            self._unfinished[_counted_as(address)] += 1

    def complete(self, address: str) -> None:
        with self._lock:
            _decrease(self._unfinished, _counted_as(address))

    def close(self, address: str) -> None:
        with self._lock:
            self._count -= 1
            _decrease(self._open, _counted_as(address))

    def _is_full(self, key: str) -> bool:
        unfinished = self._unfinished[key]
        return self._open[key] >= self._max_per_address or unfinished >= self.settings.max_unfinished_per_address


class LimitedListener(socket.socket):
    """A listening socket that closes connections above a limit."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if self.connections.admit(address[0]):
            return connection, address
        with connection, suppress(OSError):
            connection.setblocking(False)
            connection.send(REFUSAL)
        raise ConnectionAbortedError  # asyncio goes on with its other work, and accepts again


def limited(listening: socket.socket, connections: Connections) -> LimitedListener:
    """The same socket, with limits."""
    made = LimitedListener(listening.family, listening.type, listening.proto, fileno=listening.detach())
    made.connections = connections
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


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def _decrease(counter: Counter[str], address: str) -> None:
    counter[address] -= 1
    if counter[address] <= 0:
        del counter[address]
