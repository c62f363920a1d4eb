"""A copy of the store, made while the engine runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from matins.engine.given import check_texts
from matins.errors import Conflict, InvalidInput
from matins.model.principal import Principal
from matins.model.records import NewEvent
from matins.service.base import UseCases
from matins.service.rights import needs


class Backup(NamedTuple):
    path: str
    bytes: int


class Backups(UseCases):
    @needs("govern")
    def backup(self, principal: Principal, path: str) -> Backup:
        """A whole and consistent copy in a new file, on the machine of whoever does this."""
        target = Path(check_texts("path", [path], "the path of a new file")[0])
        if not target.is_absolute():
            hint = str(target.absolute())
            raise InvalidInput(f'"{path}" does not say where', value=path, field="path", hint=f"a whole path: {hint}")
        if target.exists():
            raise Conflict(f"{target} is there already", value=path, field="path", hint="name a new file")
        self._store.backup(target)
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            data = {"by": principal.name, "path": str(target)}
            transaction.events.append(NewEvent(now, "store.copied", None, None, data))
        return Backup(str(target), target.stat().st_size)
