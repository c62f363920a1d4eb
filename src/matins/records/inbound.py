"""Inbound endpoints: where other systems deliver their webhooks."""

from typing import TYPE_CHECKING

from matins.errors import Example, InvalidInput
from matins.model.inbound import InboundEndpoint
from matins.records.kind import Column, Document, RecordContext, RecordKind
from matins.records.storage import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.store.transaction import Transaction

_OF_HMAC = ("header", "prefix", "encoding", "algorithm", "signed", "timestamp")


def _complete(endpoint: InboundEndpoint, context: RecordContext) -> InboundEndpoint:
    plain = InboundEndpoint(endpoint.name, endpoint.kind, endpoint.secret)
    for name in _OF_HMAC if endpoint.kind != "hmac" else ():
        if getattr(endpoint, name) != getattr(plain, name):
            raise InvalidInput(f'"{name}" is for the kind hmac only.', field=name, hint="Omit it.")
    if endpoint.id is not None and endpoint.kind not in ("hmac", "bearer"):
        message = f'The kind {endpoint.kind} has an id of its own, and no "id".'
        raise InvalidInput(message, field="id", hint="Omit it.")
    if endpoint.kind == "hmac":
        _check_hmac(endpoint)
    return endpoint


def _check_hmac(endpoint: InboundEndpoint) -> None:
    if endpoint.header is None:
        hint = Example({"header": "X-Signature"})
        raise InvalidInput('The kind hmac needs "header".', field="header", hint=hint)
    if endpoint.signed.count("{body}") != 1:
        hint = Example({"signed": "{timestamp}.{body}"})
        raise InvalidInput('"signed" must contain {body} once.', value=endpoint.signed, field="signed", hint=hint)
    if ("{timestamp}" in endpoint.signed) != (endpoint.timestamp is not None):
        hint = Example({"signed": "{timestamp}.{body}", "timestamp": "X-Timestamp"})
        message = '"timestamp" and {timestamp} in "signed" belong together.'
        raise InvalidInput(message, value=endpoint.timestamp, field="timestamp", hint=hint)
    if "{id}" in endpoint.signed:
        _check_signed_id(endpoint)


def _check_signed_id(endpoint: InboundEndpoint) -> None:
    if endpoint.id is None:
        hint = Example({"signed": "{id}.{body}", "id": "X-Delivery-Id"})
        raise InvalidInput('{id} in "signed" needs "id".', value=endpoint.signed, field="id", hint=hint)
    before, _, after = endpoint.signed.partition("{id}")
    if "{id}" in after or before.endswith("}") or after.startswith("{"):
        hint, message = (
            Example({"signed": "{id}.{body}"}),
            '"signed" must contain {id} once, apart from {body} and {timestamp}.',
        )
        raise InvalidInput(message, value=endpoint.signed, field="signed", hint=hint)


def _state(transaction: "Transaction", now: int) -> "Callable[[InboundEndpoint], Document]":
    from urllib.parse import quote

    return lambda endpoint: {"path": f"/in/{quote(endpoint.name, safe='')}"}


def _events(document: Document) -> str:
    return ", ".join(document["events"]) or "all"


INBOUND = RecordKind(
    kind="inbound",
    noun="inbound",
    one="inbound endpoint",
    value=InboundEndpoint,
    help="Manage inbound endpoints, where other systems deliver webhooks.",
    file_help="Where other systems deliver webhooks, by name.",
    storage=POLICIES,
    complete=_complete,
    state=_state,
    state_types={"path": "str"},
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("PATH", "path"),
        Column("EVENTS", _events),
    ),
    example="matins inbound set github-prs --kind github --secret env:GH_SECRET",
)
