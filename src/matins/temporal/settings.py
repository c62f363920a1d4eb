"""Connections to Temporal, and the names that engines and workers share there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any
from urllib.parse import urlsplit

from matins.engine.placement import Labels
from matins.engine.settings import load_settings, loaders_of
from matins.errors import InvalidInput
from matins.executors.secrets import resolve
from matins.model.settings import Flag, Secret, Setting, Text, settings_of
from matins.records.kind import POLICIES, Column, RecordContext, RecordKind

PREFIX = "matins"
HEARTBEAT_MS = 15_000
"""Time without a heartbeat after which Temporal considers a worker lost."""
BEAT_S = 3.0
HOST, FENCE, NOT_HERE, OUTPUT = "host", "fence", "not_here", "output"


# fmt: off
@dataclass(frozen=True, slots=True)
class TemporalConnection:
    name: str
    address: Annotated[str,
        Setting(Text(200), "Address of the server: host:port.", "127.0.0.1:7233", required=True)]
    namespace: Annotated[str,
        Setting(Text(200), "Namespace for the runs.", "matins")] = "default"
    api_key: Annotated[str | None,
        Setting(Secret(), "Where the API key is: env:NAME or file:/path.", "env:TEMPORAL_API_KEY")] = None
    tls: Annotated[bool,
        Setting(Flag(), "Whether the connection is encrypted; with an API key it always is.", True)] = False
    prefix: Annotated[str,
        Setting(Text(100), "What the names of the task queues begin with.", "matins-test")] = PREFIX
# fmt: on


def _complete(connection: TemporalConnection, context: RecordContext) -> TemporalConnection:
    host, colon, port = connection.address.rpartition(":")
    if not host or not colon or not port.isdigit() or "/" in host:
        hint = "Name host and port: 127.0.0.1:7233."
        raise InvalidInput("This is not an address.", value=connection.address, field="address", hint=hint)
    return connection


TEMPORAL_RECORDS = RecordKind(
    kind="temporal",
    noun="temporal",
    one="connection to Temporal",
    value=TemporalConnection,
    help="Manage connections to Temporal, whose workers run what names them in runs_on.",
    file_help="Connections to Temporal, whose workers take runs with `runs_on: [temporal:NAME]`.",
    storage=POLICIES,
    complete=_complete,
    columns=(Column("NAME", "name"), Column("ADDRESS", "address"), Column("NAMESPACE", "namespace")),
    example="matins temporal set main --address 127.0.0.1:7233",
)


def connection_of(name: str, record: Mapping[str, Any]) -> TemporalConnection:
    """The connection of a stored record."""
    return TemporalConnection(name, **load_settings(loaders_of(settings_of(TemporalConnection)), record))


def connection_from_url(url: str) -> TemporalConnection:
    """`temporal://HOST:PORT/NAMESPACE`, as `matins worker --from` takes it. TEMPORAL_API_KEY has the key, if the server
    wants one."""
    import os

    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.query:
        hint = "Write temporal://HOST:PORT/NAMESPACE. An API key belongs in TEMPORAL_API_KEY."
        raise InvalidInput("This is not the URL of a Temporal server.", value=url, field="from", hint=hint)
    key = "env:TEMPORAL_API_KEY" if os.environ.get("TEMPORAL_API_KEY") else None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    namespace, _, prefix = parts.path.strip("/").partition("/")
    return TemporalConnection(
        "worker", f"{host}:{parts.port or 7233}", namespace or "default", key, prefix=prefix or PREFIX
    )


def resolved_key(connection: TemporalConnection) -> str | None:
    return None if connection.api_key is None else resolve(connection.api_key, "api_key")


def queue_of(prefix: str, labels: Labels) -> str:
    """The task queue of runs that need these labels of a worker."""
    hosts = sorted(label for label in labels if label.startswith(f"{HOST}:"))
    if hosts:
        return host_queue(prefix, hosts[0].partition(":")[2])
    return f"{prefix}.any" if not labels else f"{prefix}.labels.{'+'.join(sorted(labels))}"


def host_queue(prefix: str, host: str) -> str:
    """The task queue of one worker."""
    return f"{prefix}.{HOST}.{host}"


def queues_of(prefix: str, name: str, labels: Iterable[str]) -> list[str]:
    """The task queues from which a worker takes orders: one for each set of its labels, and its own."""
    own = sorted(set(labels))
    sets = [frozenset(some) for size in range(len(own) + 1) for some in combinations(own, size)]
    return [host_queue(prefix, name), *(queue_of(prefix, some) for some in sets)]
