"""What a child of `fork` must neither use nor close: the connections of its parent."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def after_fork(owner: T, call: Callable[[T], None]) -> None:
    """Call it in every child that is forked while the owner exists."""
    held = weakref.ref(owner)

    def forked() -> None:
        found = held()
        if found is not None:
            call(found)

    os.register_at_fork(after_in_child=forked)


def keep_forever(connection: Any) -> None:
    """Never close a connection of the parent: that would end a session, or remove a log, that the parent uses."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
