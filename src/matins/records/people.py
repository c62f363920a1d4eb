"""People, destinations, and names that nobody else may have.

People: one principal behind a login, an id in a chat, and the name of an approver.

Names of principals: an agent cannot have the name of a person or of a token, because readers see names only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from matins.errors import Conflict, Example, InvalidInput
from matins.model.access import Person
from matins.model.destination import NOBODY, THREAD, Destination
from matins.model.event import ANSWERS_PREFIX, NOTICES_PREFIX
from matins.records.kind import POLICIES, Column, DestinationStorage, Document, RecordChange, RecordContext, RecordKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.engine.policies import Policies
    from matins.model.access import Token
    from matins.store.transaction import Transaction


def check_token_name(name: str, role: str, policies: Policies, tokens: Iterable[Token], now: int) -> None:
    """Raise if a token would have the name of an agent, or an agent's token that of a person."""
    valid = [token for token in tokens if token.name == name and token.is_valid(now)]
    if role != "agent":
        if name in policies.agents or any(token.role == "agent" for token in valid):
            raise _taken(name, "an agent", "token")
        return
    if name == "owner" or name in policies.people:
        raise _taken(name, "a person", "token")
    if any(token.role != "agent" for token in valid):
        raise _taken(name, "a token", "agent's token")


def check_agent_name(agent: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new agent would have the name of a person or of a token that is no agent's."""
    if before is not None:
        return
    if agent.name == "owner" or agent.name in change.policies.people:
        raise _taken(agent.name, "a person", "agent")
    tokens = change.transaction.tokens()
    if any(one.name == agent.name and one.role != "agent" and one.is_valid(change.now) for one in tokens):
        raise _taken(agent.name, "a token", "agent")


def check_person_name(person: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new person would have the name of an agent."""
    if before is not None:
        return
    tokens = change.transaction.tokens()
    of_agents = {one.name for one in tokens if one.role == "agent" and one.is_valid(change.now)}
    if person.name in change.policies.agents or person.name in of_agents:
        raise _taken(person.name, "an agent", "person")


def _taken(name: str, what: str, other: str) -> Conflict:
    return Conflict(
        f'The name "{name}" belongs to {what}.', value=name, field="name", hint=f"Use another name for the {other}."
    )


_RESERVED = ("owner", "matins")
_UNIQUE = ("slack", "telegram", "discord", "email")


def _complete_person(person: Person, context: RecordContext) -> Person:
    if person.name in _RESERVED:
        message = f'"{person.name}" is the name of another principal.'
        raise InvalidInput(message, value=person.name, field="name", hint="Use the name of a person, such as ada.")
    if person.email is not None and not _is_address(person.email):
        hint = "For example: ada@example.com."
        raise InvalidInput('"email" must be an address.', value=person.email, field="email", hint=hint)
    return person


def _is_address(text: str) -> bool:
    local, at, host = text.rpartition("@")
    return bool(local and at and host) and not any(letter.isspace() or letter in "<>,;" for letter in text)


def _changed(person: Person, before: Person | None, change: RecordChange) -> None:
    check_person_name(person, before, change)
    for other in change.policies.people.values():
        for field in _UNIQUE:
            value = getattr(person, field)
            if other.name != person.name and value is not None and getattr(other, field) == value:
                message = f'"{other.name}" has this {field} already.'
                raise Conflict(message, value=value, field=field, hint="An id belongs to one person.")
    if before is not None and before.role != person.role:
        _end_sessions(person, change)


def _deleted(person: Person, before: Person | None, change: RecordChange) -> None:
    _end_sessions(person, change)


def _end_sessions(person: Person, change: RecordChange) -> None:
    """End the browser sessions of a person, and void links that were not opened."""
    from matins.runtime.tokens import end_sessions

    end_sessions(change.transaction, change.now, change.principal.who, person=person.name)


def _without_addresses(document: Document) -> Document:
    return {**document, **dict.fromkeys(_UNIQUE)}


PEOPLE = RecordKind(
    kind="person",
    noun="people",
    one="person",
    value=Person,
    help="Manage people: who may log in, approve and receive messages.",
    file_help="Who may log in, approve and receive messages, by name.",
    storage=POLICIES,
    complete=_complete_person,
    changed=_changed,
    deleted=_deleted,
    hidden=_without_addresses,
    columns=(
        Column("NAME", "name"),
        Column("ROLE", "role"),
        Column("SLACK", "slack"),
        Column("TELEGRAM", "telegram"),
        Column("DISCORD", "discord"),
        Column("EMAIL", "email"),
        Column("TIMEZONE", "timezone"),
        Column("QUIET HOURS", "quiet_hours"),
    ),
    example="matins people set ada --role operator --slack U0ADA",
)


_REFERENCES = ("env:", "file:")
_STANDING_FOR = {NOBODY: "no destination", THREAD: "the place in chat of a run's thread"}


def _complete_destination(destination: Destination, context: RecordContext) -> Destination:
    from matins.delivery.destinations import destination_kinds
    from matins.engine.validation import nearest

    if destination.name in _STANDING_FOR:
        message = f'The name "{destination.name}" stands for {_STANDING_FOR[destination.name]}.'
        raise Conflict(message, value=destination.name, field="name", hint="Use another name.")
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
        from urllib.parse import urlsplit

        from matins.net.outbound import check_url

        # Its host may have any address, because the owner sets it.
        if destination.url is not None and not destination.url.startswith(_REFERENCES):
            check_url(destination.url, [urlsplit(destination.url).netloc])
    return destination


def _state(transaction: Transaction, now: int) -> Callable[[Destination], Document]:
    found = {subscription.name: subscription for subscription in transaction.subscriptions()}

    def state(destination: Destination) -> Document:
        own = (found.get(f"{prefix}{destination.name}") for prefix in (NOTICES_PREFIX, ANSWERS_PREFIX))
        held = next((each for each in own if each is not None and each.state == "paused"), None)
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
    help="Manage where people hear of incidents, and where answers go.",
    file_help="Where people hear of incidents, and where answers go, by name.",
    storage=DestinationStorage(),
    order=0,
    complete=_complete_destination,
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
    examples={
        "mail": "matins destinations set mail --kind email --to ada@example.com",
        "telegram": "matins destinations set telegram --kind telegram --token env:TELEGRAM_TOKEN --to 81230",
        "slack": "matins destinations set slack --kind slack --url env:SLACK_WEBHOOK",
        "discord": "matins destinations set discord --kind discord --url env:DISCORD_WEBHOOK",
        "desktop": "matins destinations set desktop --kind desktop",
        "report": "matins destinations set reports --kind file --to ~/reports",
        "note": "matins destinations set notes --kind file --to ~/notes",
    },
)
