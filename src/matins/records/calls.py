"""Endpoints for calls, webhooks out.

Inbound endpoints: where other systems deliver their webhooks.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from matins.errors import Conflict, Example, InvalidInput
from matins.model.access import name_of
from matins.model.call import InboundEndpoint
from matins.model.event import is_reserved
from matins.model.settings import Flag, Names, Secret, Setting, Url
from matins.records.kind import POLICIES, Column, Document, RecordContext, RecordKind, WebhookStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.store.transaction import Transaction


_OF_HMAC = ("header", "prefix", "encoding", "algorithm", "signed", "timestamp")


def _complete_endpoint(endpoint: InboundEndpoint, context: RecordContext) -> InboundEndpoint:
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
        if endpoint.id is None:
            hint = Example({"signed": "{id}.{body}", "id": "X-Delivery-Id"})
            raise InvalidInput('{id} in "signed" needs "id".', value=endpoint.signed, field="id", hint=hint)
        before, _, after = endpoint.signed.partition("{id}")
        if "{id}" in after or before.endswith("}") or after.startswith("{"):
            hint = Example({"signed": "{id}.{body}"})
            message = '"signed" must contain {id} once, apart from {body} and {timestamp}.'
            raise InvalidInput(message, value=endpoint.signed, field="signed", hint=hint)


def _endpoint_state(transaction: "Transaction", now: int) -> "Callable[[InboundEndpoint], Document]":
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
    complete=_complete_endpoint,
    state=_endpoint_state,
    state_types={"path": "str"},
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("PATH", "path"),
        Column("EVENTS", _events),
    ),
    example="matins inbound set github-prs --kind github --secret env:GH_SECRET",
)


@dataclass(frozen=True, slots=True)
class Webhook:
    name: str
    url: Annotated[
        str,
        Setting(Url(private=True), "URL to which signed events are sent.", "https://example.com/hook", required=True),
    ]
    types: Annotated[
        tuple[str, ...],
        Setting(Names(empty=True), "Types of events; default: all.", ["run.failed", "approval.requested"]),
    ] = ()
    secret: Annotated[
        str | None,
        Setting(Secret(), "Where the signing secret is: env:NAME or file:/path.", "env:HOOK_SECRET", required=True),
    ] = None
    """A secret that Matins created is stored itself; only `add` shows it."""
    text: Annotated[
        bool,
        Setting(Flag(), "Whether the event of a success has the answer of the run, which is not in the log.", True),
    ] = False


def _complete_webhook(hook: Webhook, context: RecordContext) -> Webhook:
    from matins.engine.events import canonical_types
    from matins.net.outbound import check_url

    if is_reserved(hook.name):
        message = f'The name "{hook.name}" is reserved.'
        raise Conflict(message, value=hook.name, field="name", hint="Use another name.")
    if hook.secret is None:
        raise InvalidInput('A webhook needs "secret".', field="secret", hint=Example({"secret": "env:HOOK_SECRET"}))
    check_url(hook.url, context.allowed_hosts)
    return replace(hook, types=canonical_types(hook.types or None))


def _webhook_state(transaction: "Transaction", now: int) -> "Callable[[Webhook], Document]":
    from matins.engine.when.triggers import to_datetime

    found = {subscription.name: subscription for subscription in transaction.subscriptions()}

    def state(hook: Webhook) -> Document:
        held = found[hook.name]
        created = {"created_at": to_datetime(held.created_at), "created_by": name_of(held.created_by)}
        return {"state": held.state, "note": held.note, **created}

    return state


def _without_path(document: Document) -> Document:
    from matins.engine.settings import origin

    return {**document, "url": origin(document["url"])}


def _types(document: Document) -> str:
    return ", ".join(document["types"]) or "all"


WEBHOOKS = RecordKind(
    kind="webhook",
    noun="webhooks",
    one="webhook",
    value=Webhook,
    help="Manage webhooks and their deliveries.",
    file_help="Where events are sent, by name.",
    storage=WebhookStorage(),
    complete=_complete_webhook,
    state=_webhook_state,
    state_types={
        "state": "SubscriptionState", "note": "Content[str | None]", "created_at": "datetime", "created_by": "str",
    },
    hidden=_without_path,
    columns=(
        Column("NAME", "name"),
        Column("URL", "url"),
        Column("STATE", "state"),
        Column("EVENTS", _types),
    ),
    example="matins webhooks add ops https://example.com/hook",
)  # fmt: skip
