"""People: one principal behind a login, an id in a chat, and the name of an approver."""

from __future__ import annotations

from matins.errors import Conflict, InvalidInput
from matins.model.person import Person
from matins.records.kind import Column, Document, RecordChange, RecordContext, RecordKind
from matins.records.names import check_person_name
from matins.records.storage import POLICIES

_RESERVED = ("owner", "matins")
_UNIQUE = ("slack", "discord", "email")


def _complete(person: Person, context: RecordContext) -> Person:
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
    from matins.runtime.browser_sessions import end_sessions

    end_sessions(change.transaction, change.now, change.principal.who, person=person.name)


def _without_addresses(document: Document) -> Document:
    return {**document, "slack": None, "discord": None, "email": None}


PEOPLE = RecordKind(
    kind="person",
    noun="people",
    one="person",
    value=Person,
    help="Manage people: who may log in, approve and receive messages.",
    file_help="Who may log in, approve and receive messages, by name.",
    storage=POLICIES,
    complete=_complete,
    changed=_changed,
    deleted=_deleted,
    hidden=_without_addresses,
    columns=(
        Column("NAME", "name"),
        Column("ROLE", "role"),
        Column("SLACK", "slack"),
        Column("DISCORD", "discord"),
        Column("EMAIL", "email"),
        Column("TIMEZONE", "timezone"),
        Column("QUIET HOURS", "quiet_hours"),
    ),
    example="matins people set ada --role operator --slack U0ADA",
)
