"""What the file defines, changed elsewhere: written into the file, where it allows that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from matins.config.file import FileState
from matins.config.meaning import Entry, Meaning
from matins.config.reading import Spot
from matins.config.writing import misunderstood, saying, with_words, without
from matins.errors import BelongsToFile, Conflict
from matins.model.principal import Principal
from matins.model.schedule import Schedule
from matins.model.subscription import SubscriptionKind
from matins.service.files import Files
from matins.service.rights import needs
from matins.service.schedules import refuse_stale


class WrittenBack(Files):
    @needs("change")
    def edit(
        self, principal: Principal, name: str, agent: str | None = None, if_rev: int | None = None, **words: Any
    ) -> Schedule:
        """Change what a schedule says; one that the file defines, in the file, where it allows that."""
        try:
            return super().edit(principal, name, agent, if_rev, **words)
        except BelongsToFile as refused:
            schedule = self.get(principal, name, agent)
            self._write_back(
                principal, _key_of(schedule), refused, lambda text, spot: with_words(text, spot, words),
                check=lambda: refuse_stale(self._by_id(schedule.id), if_rev),
            )  # fmt: skip
            return self._by_id(schedule.id)

    @needs("change")
    def remove(self, principal: Principal, name: str, agent: str | None = None) -> bool:
        """Gone from every list, its history stays; from the file too, where it allows that. False when there is no
        such schedule."""
        try:
            return super().remove(principal, name, agent)
        except BelongsToFile as refused:
            self._write_back(principal, _key_of(self.get(principal, name, agent)), refused, without, _is_gone)
            return True

    def _put(
        self, principal: Principal, kind: str, name: str, data: Any, words: Mapping[str, Any] | None = None,
        *, only: bool = True,
    ) -> None:  # fmt: skip
        """What governs schedules likewise; it must then mean the same as it would beside the file."""
        try:
            super()._put(principal, kind, name, data, words, only=only)
        except BelongsToFile as refused:
            meant = data(self._policies()) if callable(data) else data
            said = {"value": meant} if words is None else words
            self._write_back(
                principal, (kind, name), refused,
                lambda text, spot: saying(text, spot, said, only=only, zone=_zone_of(kind, meant)),
                lambda entry: entry is not None and _comparable(kind, entry.meant) == _comparable(kind, meant),
            )  # fmt: skip

    def _drop(self, principal: Principal, kind: str, name: str) -> bool:
        try:
            return super()._drop(principal, kind, name)
        except BelongsToFile as refused:
            self._write_back(principal, (kind, name), refused, without, _is_gone)
            return True

    def _drop_subscription(self, principal: Principal, name: str, kind: SubscriptionKind) -> bool:
        try:
            return super()._drop_subscription(principal, name, kind)
        except BelongsToFile as refused:
            self._write_back(principal, ("webhook", name), refused, without, _is_gone)
            return True

    def _write_back(
        self, principal: Principal, key: tuple[str, str], refused: BelongsToFile, change: Callable[[str, Spot], str],
        as_asked: Callable[[Entry | None], bool] = lambda entry: entry is not None,
        check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Into the text, and from there into the store: the file stays the one place where it is said. `check` once it
        is read: whatever changes later, the file is no longer the one that was read."""
        file = self.file
        content = file.read() if file is not None and not file.cortex else None
        meaning = self._understood(file, content) if file and content and content.file else None
        entry = _entry(meaning, key)
        if not file or not content or not meaning or entry is None or meaning.edits != "write_back":
            raise refused
        with self._store.reading() as transaction:
            if self._drawn(transaction, file, content, meaning).moves:
                message = f"{file.path} says other things than what was applied"
                raise Conflict(message, value=str(file.path), hint="apply it first")
        check()
        new = content._replace(text=change(content.text, entry.spot))
        after = self._understood(file, new)
        if not after.problems and not as_asked(_entry(after, key)):  # problems are told with their lines below
            raise misunderstood(entry.spot)
        with file.writing():
            self._applied(principal, file, new, lambda: file.replace(content, new.text))
            file.state = FileState("applied", digest=file.written or "")


def _entry(meaning: Meaning | None, key: tuple[str, str]) -> Entry | None:
    return next((entry for entry in meaning.entries if entry.key == key), None) if meaning else None


def _key_of(schedule: Schedule) -> tuple[str, str]:
    return "schedule", f"{schedule.agent}/{schedule.name}"


def _is_gone(entry: Entry | None) -> bool:
    return entry is None


def _zone_of(kind: str, data: Any) -> str | None:
    return data["timezone"] if kind in ("quiet_hours", "budget") else None


def _comparable(kind: str, data: Any) -> bytes:
    """As the store keeps it; the order of an agent's variables means nothing."""
    if kind == "agent":
        data = {**data, "environment": sorted(data.get("environment", ()))}
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
