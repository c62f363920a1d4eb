"""Webhooks: signed HTTP requests for events."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from matins.errors import Conflict, Example, InvalidInput
from matins.model.access import name_of
from matins.model.settings import Names, Secret, Setting, Url
from matins.model.subscription import is_reserved
from matins.records.kind import Column, Document, RecordContext, RecordKind
from matins.records.storage import WebhookStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.store.transaction import Transaction


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


def _complete(hook: Webhook, context: RecordContext) -> Webhook:
    from matins.engine.events import canonical_types
    from matins.net.outbound import check_url

    if is_reserved(hook.name):
        message = f'The name "{hook.name}" is reserved.'
        raise Conflict(message, value=hook.name, field="name", hint="Use another name.")
    if hook.secret is None:
        raise InvalidInput('A webhook needs "secret".', field="secret", hint=Example({"secret": "env:HOOK_SECRET"}))
    check_url(hook.url, context.allowed_hosts)
    return replace(hook, types=canonical_types(hook.types or None))


def _state(transaction: "Transaction", now: int) -> "Callable[[Webhook], Document]":
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
    complete=_complete,
    state=_state,
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
