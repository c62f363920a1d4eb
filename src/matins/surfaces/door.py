"""Where a surface takes its questions: arguments and answers are JSON documents, whoever answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, signature
from typing import Any, Protocol

from matins.errors import InvalidInput
from matins.model.principal import OWNER, Principal
from matins.service import RIGHTS, Service
from matins.service.documents import answer_document, inside

_RESERVED = frozenset({"self", "principal"})


class Caller(Protocol):
    """Whoever can have a use case done: `Matins` itself."""

    def call_as(self, principal: Principal, use_case: str, /, *arguments: Any, **options: Any) -> Any: ...


class Door(Protocol):
    """A daemon over HTTP, or the store itself."""

    whereabouts: str
    """Who answers, in words."""

    def call(self, use_case: str, /, **arguments: Any) -> Any: ...

    def follow(self, after: str, types: list[str]) -> Iterator[dict[str, Any]] | None:
        """Events after one, as they happen, for ever; None where one has to look."""
        ...


class OwnDoor:
    """The store itself, where no daemon runs."""

    def __init__(self, caller: Caller, whereabouts: str, principal: Principal = OWNER) -> None:
        self.whereabouts = whereabouts
        self._caller = caller
        self._principal = principal

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        return answer(self._caller, self._principal, use_case, arguments)

    def follow(self, after: str, types: list[str]) -> None:
        return None


def answer(caller: Caller, principal: Principal, use_case: str, arguments: Mapping[str, Any]) -> Any:
    """Have a use case done; what it gives back, as a document."""
    check_arguments(use_case, arguments)
    given = {name: inside(use_case, name, value) for name, value in arguments.items()}
    return answer_document(use_case, caller.call_as(principal, use_case, **given))


def check_arguments(use_case: str, arguments: Mapping[str, Any]) -> None:
    """What is missing, and what it does not take, before anybody is called. Words of one's own the service checks."""
    known, free = parameters_of(use_case)
    needed = [name for name, parameter in known.items() if parameter.default is Parameter.empty]
    for name in needed:
        if name not in arguments:
            raise InvalidInput(f'"{name}" is missing', field=name, hint=f"{use_case} needs: {', '.join(needed)}")
    for name in arguments:
        if name in _RESERVED or (name not in known and not free):
            close = get_close_matches(name, known, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known) or 'none'}"
            raise InvalidInput(f'{use_case} has no "{name}"', value=name, field=name, hint=hint)


@cache
def parameters_of(use_case: str) -> tuple[Mapping[str, Parameter], bool]:
    """The arguments of a use case, and whether it takes other words too."""
    if use_case not in RIGHTS:
        raise InvalidInput(f'There is no use case "{use_case}"', value=use_case, field="use_case")
    found = list(signature(getattr(Service, use_case)).parameters.values())[2:]
    if use_case == "next_times":  # its options are those of the calculator behind it
        found = [found[0], *list(signature(Service.next_fires).parameters.values())[2:]]
    free = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in found)
    return {p.name: p for p in found if p.kind is not Parameter.VAR_KEYWORD}, free
