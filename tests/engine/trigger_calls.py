"""How often a trigger is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from matins.engine.when.triggers import Trigger


def counted(trigger: Trigger) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count_calls(name: str) -> None:
        method = getattr(trigger, name)

        def counting(*arguments: int) -> Any:
            calls[name] += 1
            return method(*arguments)

        setattr(trigger, name, counting)

    for name in ("next_ms", "prev_ms", "count"):
        count_calls(name)
    return calls
