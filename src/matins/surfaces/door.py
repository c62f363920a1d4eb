"""Where a surface takes its questions: arguments and answers are JSON documents, whoever answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from matins.model.principal import OWNER, Principal
from matins.service.documents import document, inside


class Caller(Protocol):
    """Whoever can have a use case done: `Matins` itself."""

    def call_as(self, principal: Principal, use_case: str, /, *arguments: Any, **options: Any) -> Any: ...


class Door(Protocol):
    """A daemon over HTTP, or the store itself."""

    whereabouts: str
    """Who answers, in words."""

    def call(self, use_case: str, /, **arguments: Any) -> Any: ...


class OwnDoor:
    """The store itself, where no daemon runs."""

    def __init__(self, caller: Caller, whereabouts: str, principal: Principal = OWNER) -> None:
        self.whereabouts = whereabouts
        self._caller = caller
        self._principal = principal

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        return answer(self._caller, self._principal, use_case, arguments)


def answer(caller: Caller, principal: Principal, use_case: str, arguments: Mapping[str, Any]) -> Any:
    """Have a use case done; what it gives back, as a document."""
    given = {name: inside(name, value) for name, value in arguments.items()}
    return document(caller.call_as(principal, use_case, **given))
