"""What a file would change: its entries against what was applied before, and whether a person should look first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from matins.config.file import Content
from matins.config.meaning import Entry, Meaning
from matins.config.problems import Problem
from matins.engine.money import format_money
from matins.engine.when.durations import format_duration
from matins.model.desk import FileEntry
from matins.model.schedule import Schedule
from matins.ports import Transaction
from matins.runtime.rows import schedule_of
from matins.service.governing import origin, without_secrets
from matins.service.wording import words_of

How = Literal["added", "changed", "removed", "same", "past"]
APPLIED = ("file", "applied")
"""The policy that keeps the text that was applied last."""
_MONEY = ("money", "max_cost", "input", "output", "cached")
_OTHERWISE = {"period": "per", "approval_ms": "approval_expires"}
_ADDRESSES = (("webhook", "url"), ("setting", "value"))
"""Their paths may hold keys."""
_USES = {"agent": "agent", "quiet_hours": "quiet_hours", "work": "work"}


class Change(NamedTuple):
    kind: str
    name: str
    how: How
    line: int
    words: tuple[tuple[str, Any, Any], ...]
    """What is said otherwise: the word, before and after."""
    entry: Entry | None
    """None where the file has it no more."""
    known: FileEntry | None
    """None where it was not there before."""


class Plan(NamedTuple):
    path: Path
    content: Content
    changes: tuple[Change, ...]
    waits: str | None
    """Why a person should look before it is applied."""

    def of(self, *hows: How) -> list[Change]:
        return [change for change in self.changes if change.how in hows]

    @property
    def moves(self) -> list[Change]:
        return self.of("added", "changed", "removed")

    def count(self, how: How, kind: str | None = None) -> int:
        return sum(1 for change in self.of(how) if kind in (None, change.kind))

    def note(self, kind: str | None = None) -> str:
        return f"+{self.count('added', kind)} -{self.count('removed', kind)} ~{self.count('changed', kind)}"

    def document(self, state: str | None = None, *, whole: bool = True) -> dict[str, Any]:
        """`whole`: for those who govern."""
        waits = self.waits if state is None else None
        return {
            "path": str(self.path),
            "state": state or ("waits" if waits else "ready" if self.moves else "same"),
            "added": self.count("added"),
            "removed": self.count("removed"),
            "changed": self.count("changed"),
            "same": self.count("same"),
            "note": self.note(),
            "waits": waits,
            "entries": [_told(change, whole=whole) for change in self.of("added", "changed", "removed", "past")],
            "digest": self.content.digest,
        }


def _told(change: Change, *, whole: bool) -> dict[str, Any]:
    def shown(word: str, value: Any) -> Any:
        hidden = (change.kind, word) in _ADDRESSES and not whole
        return origin(value) if hidden and isinstance(value, str) else value

    words = [{"word": w, "before": shown(w, before), "after": shown(w, after)} for w, before, after in change.words]
    name = change.name.removeprefix("/")
    return {"kind": change.kind, "name": name, "change": change.how, "line": change.line, "words": words}


def defined_by(transaction: Transaction, path: Path) -> bool:
    """Whether anything was applied from there: what another daemon's file defines is not missed here."""
    return any(entry.path == str(path) for entry in transaction.file_entries())


def draw(transaction: Transaction, path: Path, content: Content, meaning: Meaning, now: int) -> Plan:
    """Nothing is written, and what the file says as before is not looked at twice."""
    known = {(entry.kind, entry.name): entry for entry in transaction.file_entries()}
    said = {entry.key: entry for entry in meaning.entries}
    changes = [_change(transaction, entry, known.get(entry.key), now) for entry in meaning.entries]
    for key, before in known.items():
        if key not in said:
            told = before_words(transaction, *key)
            words = tuple((word, value, None) for word, value in told.items())
            changes.append(Change(*key, "removed", before.line, words, None, before))
    plan = Plan(path, content, tuple(changes), None)
    return plan._replace(waits=_waits(transaction, plan, meaning, known))


def _change(transaction: Transaction, entry: Entry, known: FileEntry | None, now: int) -> Change:
    if known is not None and known.digest == entry.digest:
        return Change(*entry.key, "same", entry.line, (), entry, known)
    before = {} if known is None else before_words(transaction, *entry.key)
    after = after_words(entry)
    both = [*after, *(word for word in before if word not in after)]
    words = tuple((w, before.get(w), after.get(w)) for w in both if before.get(w) != after.get(w))
    new = known is None
    past = new and entry.kind == "schedule" and entry.meant.trigger.first_ms(now) is None
    return Change(*entry.key, "past" if past else "added" if new else "changed", entry.line, words, entry, known)


def _waits(
    transaction: Transaction, plan: Plan, meaning: Meaning, known: Mapping[tuple[str, str], FileEntry]
) -> str | None:
    if not plan.moves or not known:
        return None
    if plan.content.file is None:
        return "the file is gone"
    if meaning.empty:
        return "the file is empty"
    total, dropped = sum(1 for kind, _ in known if kind == "schedule"), plan.count("removed", "schedule")
    if total >= 2 and dropped * 2 > total:
        return f"it drops {dropped} of its {total} schedules"
    applied = applied_text(transaction)
    if applied is not None and applied != plan.content.text and applied.startswith(plan.content.text):
        return "it is the beginning of what was applied last, as if it had been cut off"
    return None


def applied_text(transaction: Transaction) -> str | None:
    for kind, name, text in transaction.policies():
        if (kind, name) == APPLIED:
            return orjson.loads(text)
    return None


def find_schedule(transaction: Transaction, name: str) -> Schedule | None:
    """By agent/name."""
    agent, _, own = name.partition("/")
    ids = transaction.schedules_named(own, agent)
    row = transaction.schedule(ids[0]) if ids else None
    return None if row is None else schedule_of(row)


# what stands in the way


def conflicts(transaction: Transaction, meaning: Meaning) -> Iterator[Problem]:
    """What exists already, and was made by somebody else."""
    known = {(entry.kind, entry.name) for entry in transaction.file_entries()}
    new = [entry for entry in meaning.entries if entry.key not in known]
    if not new:
        return
    taken = {(kind, name) for kind, name, _ in transaction.policies()}
    taken |= {("webhook", found.name) for found in transaction.subscriptions()}
    taken |= {("limit", scope) for scope, _, _ in transaction.scopes()}
    for entry in new:
        by = _maker(transaction, entry.name) if entry.kind == "schedule" else "" if entry.key in taken else None
        if by is not None:
            what = f'there is a {entry.kind.replace("_", " ")} "{entry.name.removeprefix("/")}" already{by}'
            hint = "remove that one, or use another name here: what is beside the file stays as it is"
            yield Problem(entry.spot.key.place, entry.spot.path, what, entry.name, hint=hint)


def _maker(transaction: Transaction, name: str) -> str | None:
    found = find_schedule(transaction, name)
    return None if found is None else f", which {found.created_by} made"


def users(schedules: Iterable[Schedule], kind: str, name: str, removed: set[str]) -> list[str]:
    """The schedules, not of the file, that need what it drops."""
    word = _USES.get(kind)
    if word is None:
        return []
    others = [s for s in schedules if f"{s.agent}/{s.name}" not in removed]
    return [s.name for s in others if (s.agent if word == "agent" else getattr(s.definition, word)) == name]


# in words


def before_words(transaction: Transaction, kind: str, name: str) -> dict[str, Any]:
    """What the store has."""
    if kind == "schedule":
        found = find_schedule(transaction, name)
        return {} if found is None else words_of(found.definition) | _paused(found.state == "paused")
    if kind == "webhook":
        targets = {s.name: s for s in transaction.subscriptions()}
        return _webhook(targets[name].target, targets[name].types) if name in targets else {}
    if kind == "limit":
        sizes = [size for scope, size, _ in transaction.scopes() if scope == name]
        return {"size": sizes[0]} if sizes else {}
    data = {(k, n): text for k, n, text in transaction.policies()}.get((kind, name))
    return {} if data is None else _words(kind, orjson.loads(data))


def after_words(entry: Entry) -> dict[str, Any]:
    if entry.kind == "schedule":
        return words_of(entry.meant.definition) | _paused(bool(entry.paused))
    if entry.kind == "webhook":
        return _webhook(entry.meant, entry.meant["types"])
    return {"size": entry.meant} if entry.kind == "limit" else _words(entry.kind, entry.meant)


def _paused(paused: bool) -> dict[str, Any]:
    return {"paused": True} if paused else {}


def _webhook(target: Mapping[str, Any], types: Iterable[str]) -> dict[str, Any]:
    secret = str(target.get("secret"))
    return {"url": target.get("url"), "types": list(types),
            "secret": secret if secret.startswith(("env:", "file:")) else "…"}  # fmt: skip


def _words(kind: str, data: Any) -> dict[str, Any]:
    """As people write them."""
    if not isinstance(data, dict):
        return {"value": data}
    plain: dict[str, Any] = orjson.loads(orjson.dumps(without_secrets(kind, data)))
    told: dict[str, Any] = {}
    for word, value in plain.items():
        if value is None or word in ("name", "model" if kind == "price" else ""):
            continue
        if word.endswith("_ms"):
            told[_OTHERWISE.get(word, word.removesuffix("_ms"))] = format_duration(value)
        else:
            told[_OTHERWISE.get(word, word)] = format_money(value) if word in _MONEY else value
    return told
