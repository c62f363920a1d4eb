"""Destinations: where people hear of incidents."""

from typing import TYPE_CHECKING

from matins.errors import Conflict, Example, InvalidInput
from matins.model.destination import Destination
from matins.model.notice import NOBODY
from matins.records.kind import Column, Document, RecordContext, RecordKind
from matins.records.storage import DestinationStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.store.transaction import Transaction

_REFERENCES = ("env:", "file:")


def _complete(destination: Destination, context: RecordContext) -> Destination:
    from matins.engine.validation import nearest
    from matins.executors.destinations.protocol import destination_kinds

    if destination.name == NOBODY:
        message = f'The name "{NOBODY}" stands for no destination.'
        raise Conflict(message, value=NOBODY, field="name", hint="Use another name.")
    kinds = destination_kinds()
    kind = kinds.get(destination.kind)
    if kind is None:
        message, allowed = f'There is no kind of destination "{destination.kind}".', ", ".join(sorted(kinds))
        hint = nearest(destination.kind, sorted(kinds))
        raise InvalidInput(message, value=destination.kind, field="kind", allowed=allowed, hint=hint)
    for name in kind.needs:
        if not getattr(destination, name):
            hint = Example({name: DESTINATIONS.table[name].setting.example})
            raise InvalidInput(f'The kind {kind.name} needs "{name}".', field=name, hint=hint)
    kind.check(destination)
    if kind.url_kind == "http":
        _check_url(destination.url)
    return destination


def _check_url(url: str | None) -> None:
    """Check the URL. Its host may have any address, because the owner sets it."""
    from urllib.parse import urlsplit

    from matins.net.outbound import check_url

    if url is not None and not url.startswith(_REFERENCES):
        check_url(url, [urlsplit(url).netloc])


def _state(transaction: "Transaction", now: int) -> "Callable[[Destination], Document]":
    found = {subscription.name: subscription for subscription in transaction.subscriptions()}

    def state(destination: Destination) -> Document:
        held = found.get(f"notify:{destination.name}")
        return {"state": "active" if held is None else held.state, "note": None if held is None else held.note}

    return state


def _without_path(document: Document) -> Document:
    from matins.engine.settings import origin

    url = document["url"]
    return {**document, "url": url if url is None or url.startswith(_REFERENCES) else origin(url)}


def _to(document: Document) -> str:
    return ", ".join(document["to"]) or document["url"] or "–"


DESTINATIONS = RecordKind(
    kind="destination",
    noun="destinations",
    one="destination",
    value=Destination,
    help="Manage where people hear of incidents.",
    file_help="Where people hear of incidents, by name.",
    storage=DestinationStorage(),
    order=0,
    complete=_complete,
    state=_state,
    state_types={"state": "SubscriptionState", "note": "Content[str | None]"},
    hidden=_without_path,
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("TO", _to),
        Column("STATE", "state"),
    ),
    example="matins destinations set phone --kind ntfy --to env:NTFY_TOPIC",
)
