"""Records of which there is one: settings of the file.

The HTTP server: its public address, the proxies in front of it, and the limits of its clients.

Who gets which messages, and the server that sends e-mail: single records of the file.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated

from matins.errors import Example, InvalidInput
from matins.model.destination import Deliver, Notify, Smtp
from matins.model.settings import Duration, Int, Names, Setting, Text, Url
from matins.records.kind import POLICIES, Column, Document, RecordContext, RecordKind, always


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    hosts: Annotated[
        tuple[str, ...],
        Setting(
            Names(empty=True), "Hosts of your own network that webhooks may lead to.", ["localhost:11434"],
            required=True,
        ),
    ] = ()  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeartbeatUrl:
    url: Annotated[
        str | None,
        Setting(
            Url(private=True), "URL outside that is called every minute while all is well.",
            "https://hc.example.com/ping/0f3a", required=True,
        ),
    ] = None  # fmt: skip


def _check_hosts(value: AllowedHosts, context: RecordContext) -> AllowedHosts:
    from matins.net.outbound import check_allowed_hosts

    try:
        check_allowed_hosts(value.hosts)
    except InvalidInput as error:
        error.field = "hosts"
        raise
    return value


def _check_heartbeat(value: HeartbeatUrl, context: RecordContext) -> HeartbeatUrl:
    from matins.runtime.heartbeat import check_heartbeat

    if value.url is not None:
        check_heartbeat(value.url)
    return value


def _without_path(document: Document) -> Document:
    from matins.engine.settings import origin

    return {**document, "url": document["url"] and origin(document["url"])}


def _hosts(document: Document) -> str:
    return ", ".join(document["hosts"]) or "none"


def _url(document: Document) -> str:
    return document["url"] or "none"


ALLOWED_HOSTS = RecordKind(
    kind="allowed_hosts",
    noun="allowed_hosts",
    one="list of allowed hosts",
    key="",
    value=AllowedHosts,
    help="Manage hosts that webhooks may lead to.",
    file_help="Hosts of your own network that webhooks may lead to, whatever their address.",
    storage=POLICIES,
    order=0,
    alone="hosts",
    complete=_check_hosts,
    usual=always(AllowedHosts()),
    columns=(Column("HOSTS", _hosts),),
    example="matins allowed-hosts set models.lan:8080",
)
HEARTBEAT = RecordKind(
    kind="heartbeat",
    noun="heartbeat",
    one="heartbeat",
    key="",
    value=HeartbeatUrl,
    help="Manage the URL that is called while all is well.",
    file_help="URL outside that is called every minute while all is well.",
    storage=POLICIES,
    alone="url",
    complete=_check_heartbeat,
    usual=always(HeartbeatUrl()),
    hidden=_without_path,
    columns=(Column("URL", _url),),
    example="matins heartbeat set https://hc.example.com/ping/0f3a",
)


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


def _complete_http(value: HttpServer, context: RecordContext) -> HttpServer:
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
    complete=_complete_http,
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


_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class InboundListen:
    address: Annotated[
        str | None,
        Setting(
            Text(100), "Address that serves inbound endpoints and nothing else, from the next start of the daemon on.",
            "127.0.0.1:7412", required=True,
        ),
    ] = None  # fmt: skip

    @property
    def parts(self) -> tuple[str, int] | None:
        """Host and port; None for the API's own address."""
        match = _ADDRESS.fullmatch(self.address or "")
        return (match["host"].strip("[]"), int(match["port"])) if match else None


def _complete_listen(value: InboundListen, context: RecordContext) -> InboundListen:
    if value.address is not None and (value.parts is None or value.parts[1] > 65_535):
        message = f'"address" must be HOST:PORT, not {value.address!r}.'
        raise InvalidInput(message, value=value.address, field="address", hint=Example({"address": "127.0.0.1:7412"}))
    return value


def _address(document: Document) -> str:
    return document["address"] or "the API's"


INBOUND_LISTEN = RecordKind(
    kind="inbound_listen",
    noun="inbound_listen",
    one="address of inbound endpoints",
    key="",
    value=InboundListen,
    help="Manage the address that serves inbound endpoints alone.",
    file_help="Address that serves inbound endpoints and nothing else.",
    storage=POLICIES,
    alone="address",
    complete=_complete_listen,
    usual=always(InboundListen()),
    columns=(Column("ADDRESS", _address),),
    example="matins inbound-listen set 127.0.0.1:7412",
)


def _joined(field: str, none: str = "") -> Callable[[Document], str]:
    def text(document: Document) -> str:
        return ", ".join(document[field]) or none

    return text


NOTIFY = RecordKind(
    kind="notify",
    noun="notify",
    one="notification settings",
    key="",
    value=Notify,
    help="Manage what messages are sent for, and to which destinations.",
    file_help="What messages are sent for, and where to, unless a schedule has its own settings.",
    storage=POLICIES,
    usual=always(Notify()),
    columns=(
        Column("TO", _joined("to", "all destinations")),
        Column("ON", _joined("on")),
    ),
    example="matins notify set --to ops,phone",
)
DELIVER = RecordKind(
    kind="deliver",
    noun="deliver",
    one="delivery settings",
    key="",
    value=Deliver,
    help="Manage which answers of runs are delivered, and to which destinations.",
    file_help="Which answers of runs are delivered, and where to, unless a schedule or its agent has its own settings.",
    storage=POLICIES,
    usual=always(Deliver()),
    columns=(
        Column("TO", _joined("to", "no destination")),
        Column("ON", _joined("on")),
        Column("IF", "if"),
    ),
    example="matins deliver set --to phone",
)
SMTP = RecordKind(
    kind="smtp",
    noun="smtp",
    one="mail server",
    key="",
    value=Smtp,
    help="Manage the server that sends e-mail.",
    file_help="The server that sends e-mail.",
    storage=POLICIES,
    usual=always(Smtp()),
    columns=(
        Column("HOST", "host"),
        Column("PORT", "port", right=True),
        Column("SENDER", "sender"),
        Column("TLS", "tls"),
    ),
    example="matins smtp set --host mail.example.com --sender matins@example.com",
)
