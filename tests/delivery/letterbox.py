"""A kind of destination that takes letters as a test says: it confirms, refuses, is away, or loses its confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from matins.delivery.destinations import (
    Address,
    Answer,
    DestinationKind,
    NotDelivered,
    Part,
    Receipt,
    destination_kinds,
)


class Killed(BaseException):
    """The process ends here."""


class Letterbox:
    """What arrived, each as (key, text). `on_send` is called with the number of the attempt, before a letter arrives;
    `on_arrival` after it."""

    def __init__(self) -> None:
        self.letters: list[tuple[str, str]] = []
        self.attempts = 0
        self.on_send: Callable[[int], None] = lambda attempt: None
        self.on_arrival: Callable[[int], None] = lambda attempt: None

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.letters]

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.letters]

    def parts(self, address: Address, answer: Answer) -> list[Part]:
        again = "Sent again. " if answer.again else ""
        return [Part(f"{again}{answer.title}|{text}") for text in answer.text.split("\n---\n")]

    def answer(self, address: Address, part: Part, key: str) -> Receipt:
        self.attempts += 1
        self.on_send(self.attempts)
        self.letters.append((key, part.body))
        self.on_arrival(self.attempts)
        return Receipt(f"m{len(self.letters)}")


def installed(monkeypatch: pytest.MonkeyPatch, *, keyed: bool, name: str = "letterbox") -> Letterbox:
    box = Letterbox()
    kind = DestinationKind(
        name, "For tests.", lambda address, message: None, parts=box.parts, answer=box.answer, keyed=keyed
    )
    monkeypatch.setitem(destination_kinds(), name, replace(kind))
    return box


def lost(attempt: int) -> None:
    raise NotDelivered("the response was lost", sent=True)


def away(attempt: int) -> None:
    raise NotDelivered("no connection")


def killed(attempt: int) -> None:
    raise Killed
