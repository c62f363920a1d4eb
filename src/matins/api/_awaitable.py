"""All nouns with awaitable calls, made from the declarations. Checkers and editors read `_awaitable.pyi`, which has the
same names with types; `make pages` generates it."""

from __future__ import annotations

from typing import Any

from matins.api.awaitable import AwaitableEventsCalls, AwaitableNoun, AwaitableRunsCalls, awaitable
from matins.api.schedules import Api
from matins.api.use_case import NOUNS, USE_CASES

_MORE: dict[str, type[AwaitableNoun]] = {"runs": AwaitableRunsCalls, "events": AwaitableEventsCalls}


def _class(noun: str, base: type[AwaitableNoun]) -> type[AwaitableNoun]:
    calls = {case.verb: awaitable(case) for case in USE_CASES.values() if case.noun == noun}
    return type(f"Awaitable{NOUNS[noun].__name__}", (base,), {"__doc__": NOUNS[noun].__doc__, **calls})


_CLASSES = {noun: _class(noun, _MORE.get(noun, AwaitableNoun)) for noun in NOUNS if noun != Api.noun}


class AwaitableApi(_class(Api.noun, AwaitableNoun)):
    """The calls of `Api`, to be awaited: `await m.add(…)`, `await m.runs.cancel(7)`."""

    def __getattr__(self, name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        bound = self.__dict__[name] = _CLASSES[name](self._transport)
        return bound

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_CLASSES]
