"""The client for all outgoing HTTP requests: it checks the addresses of a URL, and connects only to those.

Which addresses may be reached, and which addresses a host in a URL means.

The time limit of a request, and the socket that respects it.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from matins._version import __version__
from matins.errors import InvalidInput, MatinsError

# The first network that holds the address gives the reason, so the narrow ones come first.
_FORBIDDEN_V4 = [
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", "an address of this network"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address behind a carrier's NAT"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.169.254/32", "a cloud's metadata service"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
]
_FORBIDDEN_V6 = [
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "the unspecified address"),
        ("::1/128", "a loopback address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("2001::/32", "a Teredo address"),
        ("2001:2::/48", "a benchmarking address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a documentation address"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "a documentation address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
]
_GLOBAL_V6 = IPv6Network("2000::/3")

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


def refusal_reason(address: str) -> str | None:
    """Why an IP address may not be reached; None when it may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an IP address"
    if isinstance(parsed, IPv4Address):
        return _refusal_reason_v4(parsed)
    why = next((why for network, why in _FORBIDDEN_V6 if parsed in network), None)
    if why:
        return why
    # `::a.b.c.d` is the old way to write IPv4 as IPv6.
    inner = parsed.ipv4_mapped or (IPv4Address(int(parsed)) if int(parsed) < 2**32 else None)
    if inner:
        return _refusal_reason_v4(inner)
    return None if parsed in _GLOBAL_V6 else "a reserved address"


def canonical_host(host: str) -> str:
    """The canonical spelling of a host, IPv6 with or without brackets. Raises ValueError for anything but a name or
    a plain address."""
    name = host.lower().removesuffix(".")
    if ":" in name:
        return _canonical_v6(name)
    if _NUMBER.fullmatch(name.rpartition(".")[2]):  # four plain numbers: resolvers read 127.1 and 0177.0.0.1 otherwise
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise ValueError("is a number that is not a plain IPv4 address") from None
    if not _NAME.fullmatch(name):
        raise ValueError("is not a host name")
    return name


def literal_addresses(host: str) -> list[str]:
    """The addresses of a canonical host that needs no resolver; empty for other hosts."""
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1", "::1"]
    is_address = ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2])
    return [host] if is_address else []


def _refusal_reason_v4(address: IPv4Address) -> str | None:
    return next((why for network, why in _FORBIDDEN_V4 if address in network), None)


def _canonical_v6(name: str) -> str:
    text = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError("is not an IPv6 address") from None
    if address.scope_id:
        raise ValueError("names a network interface")
    return address.compressed


class Deadline(Protocol):
    """How long to wait for the response to a request."""

    def left(self) -> float:
        """Seconds left for the next wait. Raises TimeoutError when there are none."""
        ...

    def expired(self) -> None:
        """Called when a wait used all the time left."""
        ...

    def attach(self, sock: socket.socket) -> None:
        """Called with the socket in use: shutting it down ends the wait."""
        ...


class DeadlineSocket:
    """The part of a socket that http.client uses, with a time limit. The caller closes the socket."""

    def __init__(self, sock: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        self._sock = sock
        self._deadline = deadline
        self._max_bytes = max_bytes
        self.sent = False
        """Whether data may have reached the server."""

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self.sent = True
        with _timed(self._deadline):
            self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(SocketReader(self._sock, self._deadline, self._max_bytes))

    def close(self) -> None:
        pass


class SocketReader(io.RawIOBase):
    """The data of the server, up to a time limit and a size."""

    def __init__(self, sock: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        self._sock = sock
        self._deadline = deadline
        self._bytes_left = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        with _timed(self._deadline):
            count = self._sock.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OSError("the answer is too long")
        return count


@contextmanager
def _timed(deadline: Deadline) -> Generator[None]:
    try:
        yield
    except TimeoutError:
        deadline.expired()
        raise


Resolve = Callable[[str, int], Sequence[str]]
"""Resolves a host name and a port to IP addresses. Raises OSError when there are none."""

MAX_BODY_BYTES = 64 * 1024
MAX_REDIRECTS = 3
_MAX_RESPONSE_BYTES = 1024 * 1024
_MAX_STREAM_BYTES = 256 * 1024 * 1024
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
    """A URL that Matins does not call."""

    code = "address_refused"
    retryable = False


class Unreachable(MatinsError):  # noqa: N818 - it names a state of the server
    """A server did not answer, or its answer was invalid. The call may be retried. `sent`: the request, or a part of
    it, may have reached the server."""

    code = "unreachable"
    retryable = True

    def __init__(self, message: str, *, hint: str | None = None, sent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    """Its beginning."""
    headers: dict[str, str]
    """Names in lower case."""


class StreamedResponse:
    """A response that is read as it arrives. Raises Unreachable when it breaks off."""

    def __init__(self, target: _Target, response: HTTPResponse, clean: Callable[[bytes], bytes]) -> None:
        self.status = response.status
        self.headers = {name.lower(): response.getheader(name, "") for name in response.headers}
        """Names in lower case."""
        self._target = target
        self._response = response
        self._clean = clean

    def lines(self, max_length: int) -> Iterator[bytes]:
        """Lines with their line ends; longer lines are skipped."""
        whole = True
        while line := self._read(lambda: self._response.readline(max_length)):
            ended = line.endswith(b"\n")
            if whole and (ended or len(line) < max_length):
                yield self._clean(line)
            whole = ended
        self._check_end(b"")

    def read(self, limit: int) -> bytes:
        body = self._read(lambda: self._response.read(limit))
        if len(body) < limit:
            self._check_end(body)
        return self._clean(body)

    def _read(self, read: Callable[[], bytes]) -> bytes:
        with _reaching(self._target, lambda: True):
            return read()

    def _check_end(self, body: bytes) -> None:
        with _reaching(self._target, lambda: True):
            if self._response.length:
                raise IncompleteRead(body, self._response.length)


class HttpClient:
    """Sends requests; threads may share one. Hosts in `allowed_hosts` ("host" or "host:port") may have any address."""

    def __init__(
        self, allowed_hosts: Iterable[str] = (), resolve: Resolve | None = None, timeout_s: float = 15
    ) -> None:
        self._allowed = _read_allowed(allowed_hosts)
        self._resolve = resolve or _resolve
        self._timeout_s = timeout_s

    def send(
        self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None,
        limit: int = MAX_BODY_BYTES,
    ) -> Response:  # fmt: skip
        """Send a request, follow redirects, and return the response, with so much of its body. `timeout_s` limits all
        of it together."""
        with self.open(
            method, url, _FixedDeadline(self._timeout_s), body=body, headers=headers, max_bytes=_MAX_RESPONSE_BYTES
        ) as reply:
            return Response(reply.status, reply.read(limit), reply.headers)

    @contextmanager
    def open(
        self,
        method: str,
        url: str,
        deadline: Deadline,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        max_bytes: int = _MAX_STREAM_BYTES,
        clean: Callable[[bytes], bytes] = lambda data: data,
    ) -> Generator[StreamedResponse]:
        """Send a request, follow redirects, and yield the response, of at most `max_bytes`. `timeout_s` limits the
        connection, `deadline` the whole exchange. `clean` is applied to every chunk that is read."""
        request = _request(method, body, headers or {})
        target = _target(url)
        for _ in range(MAX_REDIRECTS + 1):
            with _reaching(target):
                sock = self._connect(target, self._addresses(target), deadline)
            with closing(sock), closing(_send(sock, target, request, deadline, max_bytes)) as response:
                reply = StreamedResponse(target, response, clean)
                location = reply.headers.get("location")
                if reply.status not in _REDIRECTS or not location:
                    yield reply
                    return
            target, request = _follow(target, request, reply.status, location)
        raise _address_refused(f"{_target(url)} redirects more than {MAX_REDIRECTS} times", hint="Use the final URL.")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _addresses(self, target: _Target) -> Sequence[str]:
        """Resolve the host once and check its addresses; nothing later resolves the name again."""
        addresses = literal_addresses(target.host) or self._resolve(target.host, target.port)
        if not target.is_among(self._allowed):
            _check_addresses(target, addresses)
        return addresses

    def _connect(self, target: _Target, addresses: Sequence[str], deadline: Deadline) -> socket.socket:
        """Connect to the first address that accepts; each gets a share of the remaining time."""
        connecting = _FixedDeadline(min(self._timeout_s, deadline.left()))
        error = OSError("the name has no address")
        for tried, address in enumerate(addresses):
            share = connecting.left() / (len(addresses) - tried)
            try:
                return self._secured(socket.create_connection((address, target.port), share), target, connecting)
            except OSError as failure:
                error = failure
        raise error

    def _secured(self, sock: socket.socket, target: _Target, deadline: _FixedDeadline) -> socket.socket:
        if target.scheme == "http":
            return sock
        try:
            sock.settimeout(deadline.left())
            return self._tls.wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise


def check_url(url: str, allowed_hosts: Iterable[str] = ()) -> None:
    """Raise AddressRefused for a URL that can be refused without a network request."""
    target = _target(url)
    if not target.is_among(_read_allowed(allowed_hosts)):
        _check_addresses(target, literal_addresses(target.host))


def check_allowed_hosts(hosts: Iterable[str]) -> None:
    """Raise unless each is "host" or "host:port"."""
    _read_allowed(hosts)


# the target of a URL


@dataclass(frozen=True)
class _Target:
    url: str
    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        """The origin, without path and query, which may hold keys."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    def is_among(self, allowed: frozenset[tuple[str, int | None]]) -> bool:
        return not allowed.isdisjoint([(self.host, None), (self.host, self.port)])


def _target(url: str, base: str = "") -> _Target:
    what = "The redirect's URL" if base else "The URL"
    if not _URL.fullmatch(url):
        raise _address_refused(
            f"{what} is empty or contains spaces, backslashes or non-ASCII characters", hint="Percent-encode it."
        )
    try:
        parts = urlsplit(urljoin(base, url))
    except ValueError:
        raise _address_refused(f"{what} cannot be read", hint="Write it as https://host/path.") from None
    if parts.scheme not in _PORTS:
        raise _address_refused(
            f"{what} begins with {parts.scheme or 'no scheme'}", hint="Begin it with https:// or http://."
        )
    if "@" in parts.netloc:
        raise _address_refused(f"{what} contains a user name or password", hint="Send them in a header.")
    host, port = _read_host(parts.netloc, "url")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Target(parts.geturl(), parts.scheme, host, port or _PORTS[parts.scheme], path)


def _read_host(text: str, field: str) -> tuple[str, int | None]:
    """`host` or `host:port`."""
    place = _NETLOC.fullmatch(text)
    try:
        if not place:
            raise ValueError("is not a host")
        host = canonical_host(place[1])
    except ValueError as error:
        hint = "Write a name, four plain decimal numbers, or an IPv6 address in brackets."
        raise _address_refused(f"{text!r} {error}", value=text, field=field, hint=hint) from None
    port = int(place[2]) if place[2] else None
    if port is not None and not 0 < port < 65536:
        raise _address_refused(f"{port} is not a port", value=text, field=field, hint="Use a port from 1 to 65535.")
    return host, port


def _read_allowed(hosts: Iterable[str]) -> frozenset[tuple[str, int | None]]:
    bracketed = (f"[{host}]" if host.count(":") > 1 and "[" not in host else host for host in hosts)
    return frozenset(_read_host(host, "allowed_hosts") for host in bracketed)


def _check_addresses(target: _Target, addresses: Iterable[str]) -> None:
    for address in addresses:
        if why := refusal_reason(address):
            raise _address_refused(
                f"{target} leads to {address}, {why}",
                value=target.host,
                hint=f'If this is intended, add "{target.host}" to allowed_hosts.',
            )


def _address_refused(message: str, *, hint: str, value: str | None = None, field: str = "url") -> AddressRefused:
    return AddressRefused(f"{message}.", value=value, field=field, hint=hint)


def _resolve(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


# the request


@dataclass(frozen=True)
class _Request:
    method: str
    body: bytes
    headers: dict[str, str]


def _request(method: str, body: bytes, headers: Mapping[str, str]) -> _Request:
    if method not in _METHODS:
        raise InvalidInput(
            f"{method!r} is not an HTTP method.", value=method, field="method", allowed=", ".join(_METHODS)
        )
    lower = {name.lower(): value for name, value in headers.items()}
    for name, value in lower.items():
        if name in _OWN_HEADERS:
            raise InvalidInput(f"The header {name} is set by Matins.", value=name, field="headers", hint="Omit it.")
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise InvalidInput(
                f"The header {name!r} cannot be sent.",
                value=name,
                field="headers",
                allowed="a name without spaces, and a value of printable ASCII on one line",
            )
    return _Request(method, body, {"user-agent": f"matins/{__version__}", **lower, "connection": "close"})


def _follow(target: _Target, request: _Request, status: int, location: str) -> tuple[_Target, _Request]:
    """The target and request of a redirect. Method and body stay, or an event would count as delivered unsent."""
    onward = _target(location, base=target.url)
    if target.scheme == "https" and onward.scheme == "http":
        raise _address_refused(
            f"{target} redirects to {onward}, which is not encrypted", hint="Use a URL with https://."
        )
    if status == 303 and request.method != "HEAD":
        request = replace(request, method="GET", body=b"")
    if str(onward) != str(target):
        public = {name: value for name, value in request.headers.items() if name in _PUBLIC_HEADERS}
        request = replace(request, headers={**public, "connection": "close"})
    return onward, request


# the exchange


class _FixedDeadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def expired(self) -> None:
        """Do nothing: the wait raises TimeoutError."""

    def attach(self, sock: socket.socket) -> None:
        """Do nothing: the wait ends by itself."""


class EndableDeadline(_FixedDeadline):
    """A time limit that another thread can end before."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._ended = False

    def attach(self, sock: socket.socket) -> None:
        with self._lock:
            self._socket = sock
            self._shut()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            self._shut()

    def _shut(self) -> None:
        if self._ended and self._socket is not None:
            with suppress(OSError):  # it may be closed already
                self._socket.shutdown(socket.SHUT_RDWR)


def _send(sock: socket.socket, target: _Target, request: _Request, deadline: Deadline, max_bytes: int) -> HTTPResponse:
    connection = HTTPConnection(target.host, target.port)
    connection.default_port = _PORTS[target.scheme]
    connection.auto_open = 0  # never a second connection, which would resolve the name again
    connection.sock = wire = DeadlineSocket(sock, deadline, max_bytes)
    with _reaching(target, lambda: wire.sent):
        deadline.attach(sock)
        connection.request(request.method, target.path, request.body or None, request.headers)
        return connection.getresponse()


@contextmanager
def _reaching(target: _Target, sent: Callable[[], bool] = lambda: False) -> Generator[None]:
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a chunk of negative length
        hint = None
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "Set SSL_CERT_FILE to a file with the certificate authorities to trust."
        raise Unreachable(f"{target} cannot be reached: {_reason(error)}.", hint=hint, sent=sent()) from error


def _reason(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no complete answer in time"
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return "the answer is not valid HTTP"
