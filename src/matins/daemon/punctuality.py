"""A process whose fires are punctual beside its other threads."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005
"""A thread keeps the interpreter for at most this long while another one waits. A fire waits for it several times, and
Python's own value is ten times as long."""


def favour_fires() -> None:
    """Call it when everything is loaded: the garbage collector stops the threads no more to look at that."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
