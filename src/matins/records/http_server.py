"""The HTTP server: its public address, the proxies in front of it, and the limits of its clients."""

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated

from matins.errors import Example, InvalidInput
from matins.model.settings import Duration, Int, Names, Setting, Url
from matins.records.kind import Column, RecordContext, RecordKind, always
from matins.records.storage import POLICIES


@dataclass(frozen=True, slots=True)
class HttpServer:
    """Settings of the server. They apply from the next start of the daemon on."""

    public_url: Annotated[
        str | None, Setting(Url(), "URL of a proxy in front of the daemon.", "https://matins.example.com")
    ] = None
    trusted_proxies: Annotated[
        tuple[str, ...],
        Setting(
            Names(empty=True), "Addresses of proxies whose X-Forwarded-Proto is believed; one may open any number.",
            ["10.0.0.2"],
        ),
    ] = ()  # fmt: skip
    max_connections: Annotated[
        int, Setting(Int(8, 100_000), "Most open connections; half of the process's open files at most.", 512)
    ] = 512
    max_connections_per_address: Annotated[
        int, Setting(Int(4, 100_000), "Most open connections of one address; half of all at most.", 256)
    ] = 256
    max_unfinished_per_address: Annotated[
        int, Setting(Int(2, 100_000), "Most requests of one address that have not arrived completely.", 128)
    ] = 128
    header_timeout_ms: Annotated[
        int, Setting(Duration(), "How long the headers of a request may take.", "20s", "header_timeout")
    ] = 20_000
    body_timeout_ms: Annotated[
        int, Setting(Duration(), "How long the body of a request may take.", "1m", "body_timeout")
    ] = 60_000
    max_streams_per_token: Annotated[
        int, Setting(Int(1, 500), "Most streams of events that one token may follow at once.", 32)
    ] = 32


def _complete(value: HttpServer, context: RecordContext) -> HttpServer:
    for proxy in value.trusted_proxies:
        try:
            ip_network(proxy, strict=False)
        except ValueError:
            message = f'"trusted_proxies" must be IP addresses or networks, not {proxy!r}.'
            hint = Example({"trusted_proxies": ["10.0.0.2"]})
            raise InvalidInput(message, value=proxy, field="trusted_proxies", hint=hint) from None
    return value


HTTP_SERVER = RecordKind(
    kind="http_server",
    noun="http_server",
    one="HTTP server",
    key="",
    value=HttpServer,
    help="Manage the limits and the public address of the HTTP server.",
    file_help="Public address, proxies and limits of the HTTP server, from the next start of the daemon on.",
    storage=POLICIES,
    complete=_complete,
    usual=always(HttpServer()),
    columns=(
        Column("PUBLIC URL", "public_url"),
        Column("CONNECTIONS", "max_connections"),
        Column("PER ADDRESS", "max_connections_per_address"),
        Column("UNFINISHED", "max_unfinished_per_address"),
        Column("HEADERS", "header_timeout"),
        Column("BODY", "body_timeout"),
        Column("STREAMS", "max_streams_per_token"),
    ),
    example="matins http-server set --max-connections 200 --header-timeout 10s",
)
