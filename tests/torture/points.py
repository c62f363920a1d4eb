"""Points at which a process can be told to die: both sides of every statement, of every commit, and of every job."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Set

from diary import Diary

_ANYWHERE = {"session", "rollback", "insert_writer"}
"""Statements that follow from a lost connection or an error, whatever was being done."""


class Points:
    """Notes each point when it is first passed, and ends the process where it was ordered to.

    One moment can be two points: after one statement and before the next. `at` orders a death at a point, `unless` at
    the first moment that has a point not among these, nor on behalf of a function that is.
    """

    def __init__(self, diary: Diary, at: str | None = None, passage: int = 1, unless: Set[str] | None = None) -> None:
        self._diary = diary
        self._at = at
        self._left = passage
        self._unless = unless
        self._seen: set[str] = set()

    def passed(self, *points: str) -> None:
        for point in points:
            if point not in self._seen:
                self._seen.add(point)
                self._diary.tell("passed", point=point)
        if self._ordered(points):
            for point in points:
                self._diary.tell("died", point=point)
            os.kill(os.getpid(), signal.SIGKILL)

    def _ordered(self, points: tuple[str, ...]) -> bool:
        if self._at in points:
            self._left -= 1
            return self._left <= 0
        unless = self._unless
        return unless is not None and any(point not in unless and whose(point) not in unless for point in points)


def whose(point: str) -> str:
    """The function on whose behalf it is passed, or what else it belongs to."""
    return point.partition(":")[0]


class Statements:
    """Turns the statements of one connection into points: before each, and after each once the next one comes."""

    def __init__(self, points: Points, names: dict[str, str]) -> None:
        self._points = points
        self._names = names
        self._last: str | None = None

    def before(self, sql: str) -> None:
        """A statement is about to be executed."""
        on_behalf = duty()
        if on_behalf is None:
            return  # not of Matins
        after = [] if self._last is None else [f"{self._last}: after"]
        name = self._names.get(sql) or spoken(sql)
        self._last = f"{'connection' if name in _ANYWHERE else on_behalf}: {name}"
        self._points.passed(*after, f"{self._last}: before")

    def over(self) -> None:
        """The transaction is over, one way or the other."""
        if self._last is not None:
            self._points.passed(f"{self._last}: after")
        self._last = None


def duty() -> str | None:
    """The function of Matins, if possible outside of the stores, on whose behalf the present statement is executed."""
    frame = sys._getframe(1)
    found = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("matins.store"):
            found = "store"
        elif module.startswith("matins."):
            return f"{module.rpartition('.')[2]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return found


def spoken(sql: str) -> str:
    """A short name for a statement that has none: its first words, without values."""
    words = re.findall(r"\w+", re.sub(r"--.*", "", sql).lower())
    most = {"create": 4, "notify": 1, "rollback": 1}.get(words[0], 3)
    return " ".join(words[:most])
