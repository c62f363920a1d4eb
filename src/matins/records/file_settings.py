"""Single records: top-level keys of the file."""

from dataclasses import dataclass
from typing import Annotated

from matins.errors import InvalidInput
from matins.model.settings import Names, Setting, Url
from matins.records.kind import Column, Document, RecordContext, RecordKind, always
from matins.records.storage import POLICIES


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
    from matins.runtime.external_heartbeat import check_heartbeat

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
