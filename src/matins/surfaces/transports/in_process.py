"""Calls of a service in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from matins.api.codec import to_document
from matins.api.use_case import Caller, UseCase
from matins.model.access import OWNER, Principal

POLL_S = 0.5


class InProcess:
    """Calls a service in this process. `described` names it for people."""

    def __init__(
        self,
        caller: Caller,
        principal: Principal = OWNER,
        described: str = "this process",
        wait: Callable[[float], Any] | None = None,
    ) -> None:
        self.described = described
        self.caller = caller
        self._principal = principal
        self._wait = wait or threading.Event().wait

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return self.caller.invoke(self._principal, use_case, arguments)

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return to_document(self.call(use_case, arguments))

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        """New items, by listing repeatedly."""
        return follow(lambda given: self.call(use_case, given), use_case, arguments, lambda item: item.id, self._wait)


def follow(
    call: Callable[[Mapping[str, Any]], list[Any]],
    use_case: UseCase,
    arguments: Mapping[str, Any],
    id_of: Callable[[Any], str],
    wait: Callable[[float], Any],
) -> Iterator[Any]:
    """The items of a growing collection: list, wait, list after the last."""
    given = first_arguments(use_case, arguments)
    if given is None:
        given = after_last(use_case, arguments, call({"limit": 1}), id_of)
    while True:
        items = call(given)
        yield from items
        if items:
            given = after_last(use_case, given, items, id_of)
        else:
            wait(POLL_S)


def first_arguments(use_case: UseCase, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of the first list; None when it begins after the newest item of all."""
    assert use_case.page is not None, use_case
    return None if arguments.get(use_case.page[0]) is None else dict(arguments)


def after_last(
    use_case: UseCase,
    arguments: Mapping[str, Any],
    items: list[Any],
    id_of: Callable[[Any], str] = lambda item: item.id,
) -> dict[str, Any]:
    """The arguments of the list after these items."""
    assert use_case.page is not None, use_case
    return {**arguments, use_case.page[0]: id_of(items[-1]) if items else "0"}
