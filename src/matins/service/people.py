"""People as principals: by name, or by their id in a chat."""

from __future__ import annotations

from typing import Literal

from matins.engine.policies import Policies
from matins.engine.validation import nearest
from matins.errors import NotFound
from matins.model.access import Principal
from matins.model.person import Person


def find_person(policies: Policies, name: str) -> Principal:
    """The principal of a person. Raises NotFound when there is none of this name."""
    person = policies.people.get(name)
    if person is None:
        hint = (
            nearest(name, policies.people) if policies.people else f"Create one: matins people set {name} --role viewer"
        )
        raise NotFound(f'There is no person "{name}".', value=name, field="person", hint=hint)
    return principal_of(person)


def person_in_chat(policies: Policies, chat: Literal["slack", "discord"], user: str) -> Person | None:
    """The person behind the id of a chat's user; None for strangers, who may do nothing."""
    return next((person for person in policies.people.values() if getattr(person, chat) == user), None)


def principal_of(person: Person) -> Principal:
    return Principal(person.role, person.name)
