"""One door for every HTTP request that leaves: it judges where a URL leads, and goes exactly there."""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from http.client import HTTPConnection, HTTPException, IncompleteRead
from typing import Any
from urllib.parse import urljoin, urlsplit

from matins._version import __version__
from matins.errors import InvalidInput, MatinsError
from matins.net.addresses import canonical_host, forbidden, known_addresses

Resolve = Callable[[str, int], Sequence[str]]
"""From a host name and a port to IP addresses; OSError when there are none."""

BODY_LIMIT = 64 * 1024
REDIRECT_LIMIT = 3
_WIRE_LIMIT = 1024 * 1024
_PORTS = {"http": 80, "https": 443}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_REDIRECTS = (301, 302, 303, 307, 308)

_URL = re.compile(r"[!-\[\]-~]+")
_NETLOC = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{0,5}))?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_OWN_HEADERS = ("host", "content-length", "transfer-encoding", "connection")
# What another origin may see after a redirect: anything else could be a key.
_PUBLIC_HEADERS = ("accept", "content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature")


class AddressRefused(InvalidInput):
    """A URL that Matins does not go to."""

    code = "address_refused"
    retryable = False


class Unreachable(MatinsError):  # noqa: N818 - it names the place, not a fault of ours
    """A place that did not answer, or not properly: try again."""

    code = "unreachable"
    retryable = True


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    """The first 64 KB."""
    headers: dict[str, str]
    """Names in lower case."""


class Door:
    """Sends requests; threads may share one. `allowed_hosts` ("host" or "host:port") may have any address."""

    def __init__(
        self, allowed_hosts: Iterable[str] = (), resolve: Resolve | None = None, timeout_s: float = 15
    ) -> None:
        self._allowed = _read_allowed(allowed_hosts)
        self._resolve = resolve or _resolve
        self._timeout_s = timeout_s

    def send(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """One request, and what came back from where it led; `timeout_s` holds for all of it together."""
        request = _request(method, body, headers or {})
        target = _target(url)
        deadline = _Deadline(self._timeout_s)
        for _ in range(REDIRECT_LIMIT + 1):
            answer = self._exchange(target, request, deadline)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target, request = _follow(target, request, answer.status, location)
        raise _refusal(f"{_target(url)} redirects more than {REDIRECT_LIMIT} times", hint="give its last address")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _exchange(self, target: _Target, request: _Request, deadline: _Deadline) -> Answer:
        try:
            with closing(self._connect(target, self._addresses(target), deadline)) as sock:
                return _converse(sock, target, request, deadline)
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a chunk of negative length
            raise Unreachable(f"{target} cannot be reached: {_reason(error)}", hint=_unreachable_hint(error)) from error

    def _addresses(self, target: _Target) -> Sequence[str]:
        """Asked for once and judged; nothing after this looks at the name to find the way."""
        addresses = known_addresses(target.host) or self._resolve(target.host, target.port)
        if not target.is_among(self._allowed):
            _judge(target, addresses)
        return addresses

    def _connect(self, target: _Target, addresses: Sequence[str], deadline: _Deadline) -> socket.socket:
        """To the first address that lets us in; each has its share of the time that is left."""
        error = OSError("its name has no address")
        for tried, address in enumerate(addresses):
            share = deadline.left() / (len(addresses) - tried)
            try:
                return self._secured(socket.create_connection((address, target.port), share), target, deadline)
            except OSError as failure:
                error = failure
        raise error

    def _secured(self, sock: socket.socket, target: _Target, deadline: _Deadline) -> socket.socket:
        if target.scheme == "http":
            return sock
        try:
            sock.settimeout(deadline.left())
            return self._tls.wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise


def check_url(url: str, allowed_hosts: Iterable[str] = ()) -> None:
    """Refuse what can be refused without asking the network."""
    target = _target(url)
    if not target.is_among(_read_allowed(allowed_hosts)):
        _judge(target, known_addresses(target.host))


# where a URL leads


@dataclass(frozen=True)
class _Target:
    url: str
    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        """Without path and query, where people keep keys."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    def is_among(self, allowed: frozenset[tuple[str, int | None]]) -> bool:
        return not allowed.isdisjoint([(self.host, None), (self.host, self.port)])


def _target(url: str, base: str = "") -> _Target:
    what = "The redirect's URL" if base else "The URL"
    if not _URL.fullmatch(url):
        raise _refusal(
            f"{what} is empty or holds spaces, backslashes or letters beyond ASCII", hint="percent-encode it"
        )
    try:
        parts = urlsplit(urljoin(base, url))
    except ValueError:
        raise _refusal(f"{what} cannot be read", hint="write it as https://host/path") from None
    if parts.scheme not in _PORTS:
        raise _refusal(f"{what} begins with {parts.scheme or 'no scheme'}", hint="begin it with https:// or http://")
    if "@" in parts.netloc:
        raise _refusal(f"{what} carries a user name or password", hint="send them in a header")
    host, port = _read_place(parts.netloc, "url")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Target(parts.geturl(), parts.scheme, host, port or _PORTS[parts.scheme], path)


def _read_place(text: str, field: str) -> tuple[str, int | None]:
    """`host` or `host:port`."""
    place = _NETLOC.fullmatch(text)
    try:
        if not place:
            raise ValueError("is not a host")
        host = canonical_host(place[1])
    except ValueError as error:
        hint = "write a name, four plain decimal numbers, or an IPv6 address in brackets"
        raise _refusal(f"{text!r} {error}", value=text, field=field, hint=hint) from None
    port = int(place[2]) if place[2] else None
    if port is not None and not 0 < port < 65536:
        raise _refusal(f"{port} is not a port", value=text, field=field, hint="ports go from 1 to 65535")
    return host, port


def _read_allowed(hosts: Iterable[str]) -> frozenset[tuple[str, int | None]]:
    bracketed = (f"[{host}]" if host.count(":") > 1 and "[" not in host else host for host in hosts)
    return frozenset(_read_place(host, "allowed_hosts") for host in bracketed)


def _judge(target: _Target, addresses: Iterable[str]) -> None:
    for address in addresses:
        if why := forbidden(address):
            raise _refusal(
                f"{target} leads to {address}, {why}",
                value=target.host,
                hint=f'if it is meant, name "{target.host}" in allowed_hosts',
            )


def _refusal(message: str, *, hint: str, value: str | None = None, field: str = "url") -> AddressRefused:
    return AddressRefused(f"{message}.", value=value, field=field, hint=hint)


def _resolve(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


# what is sent


@dataclass(frozen=True)
class _Request:
    method: str
    body: bytes
    headers: dict[str, str]


def _request(method: str, body: bytes, headers: Mapping[str, str]) -> _Request:
    if method not in _METHODS:
        raise InvalidInput(f"{method!r} is not a method.", value=method, field="method", allowed=", ".join(_METHODS))
    lower = {name.lower(): value for name, value in headers.items()}
    for name, value in lower.items():
        _check_header(name, value)
    return _Request(method, body, {"user-agent": f"matins/{__version__}", **lower, "connection": "close"})


def _check_header(name: str, value: str) -> None:
    if name in _OWN_HEADERS:
        raise InvalidInput(f"The header {name} is set by Matins.", value=name, field="headers", hint="leave it out")
    if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
        raise InvalidInput(
            f"The header {name!r} cannot be sent.",
            value=name,
            field="headers",
            allowed="a name without spaces, and a value of printable ASCII on one line",
        )


def _follow(target: _Target, request: _Request, status: int, location: str) -> tuple[_Target, _Request]:
    """Where a redirect leads. Method and body stay, or an event would count as delivered without having been sent."""
    onward = _target(location, base=target.url)
    if target.scheme == "https" and onward.scheme == "http":
        raise _refusal(f"{target} redirects to {onward}, which is not encrypted", hint="give an address with https://")
    if status == 303 and request.method != "HEAD":
        request = replace(request, method="GET", body=b"")
    if str(onward) != str(target):
        public = {name: value for name, value in request.headers.items() if name in _PUBLIC_HEADERS}
        request = replace(request, headers={**public, "connection": "close"})
    return onward, request


# the conversation


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Wire:
    """The part of a socket that http.client uses, held to the deadline. Who opened the socket closes it."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline))

    def close(self) -> None:
        pass


class _Incoming(io.RawIOBase):
    """What the other side says, up to the deadline and to a size, however it doles it out."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._room = _WIRE_LIMIT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        count = self._sock.recv_into(buffer)
        self._room -= count
        if self._room < 0:
            raise OSError("the answer does not end")
        return count


def _converse(sock: socket.socket, target: _Target, request: _Request, deadline: _Deadline) -> Answer:
    connection = HTTPConnection(target.host, target.port)
    connection.default_port = _PORTS[target.scheme]
    connection.auto_open = 0  # never a connection of its own, to wherever the name leads by then
    connection.sock = _Wire(sock, deadline)
    connection.request(request.method, target.path, request.body or None, request.headers)
    with closing(connection.getresponse()) as response:
        body = response.read(BODY_LIMIT)
        if response.length and len(body) < BODY_LIMIT:
            raise IncompleteRead(body, response.length)
        return Answer(response.status, body, {name.lower(): response.getheader(name, "") for name in response.headers})


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no full answer in time"
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return "the answer is not proper HTTP"


def _unreachable_hint(error: Exception) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the environment variable SSL_CERT_FILE names the authorities to trust"
    return None
