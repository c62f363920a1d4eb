"""Use cases on records of every kind: set, edit, get, list, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from matins.api import _results
from matins.engine.validation import nearest, referred_names
from matins.errors import Conflict, InvalidInput, NotFound
from matins.executors.isolation import entry_of
from matins.model.access import Principal
from matins.records import record_kinds
from matins.records.kind import Document, RecordContext, RecordKind
from matins.records.limits import scope_of
from matins.service.core import Core
from matins.service.file.write_back import Deleted, FileWriter, Replaced, managed_by_file
from matins.service.permissions import governs
from matins.service.record_changes import Moved, RecordChanges, until_unmoved, users_of
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Records:
    core: Core
    changes: RecordChanges
    writer: FileWriter

    def methods(self) -> dict[str, Callable[..., Any]]:
        """Every use case of every kind, by its name."""
        return {
            f"{noun}.{verb}": partial(function, kind)
            for noun, kind in record_kinds().items()
            for verb, function in (
                ("set", self.set), ("edit", self.edit), ("get", self.get), ("list", self.list), ("delete", self.delete),
            )
        }  # fmt: skip

    def set(self, kind: RecordKind[Any], principal: Principal, key: str = "", /, **settings: Any) -> Any:
        key, settings = _key_of(kind, key, settings)
        value = kind.parse(key, settings, self.context())
        self._check_user(kind, value, settings)
        return self._set(kind, principal, key, lambda transaction: value, Replaced(settings, value))

    def edit(self, kind: RecordKind[Any], principal: Principal, key: str = "", /, **settings: Any) -> Any:
        key, settings = _key_of(kind, key, settings)
        context = self.context()

        def change() -> Any:
            with self.core.store.reading() as transaction:
                before = self._found(kind, transaction, key)
            value = kind.edit(before, settings, context)
            self._check_user(kind, value, settings)

            def unmoved(transaction: Transaction) -> Any:
                if self._found(kind, transaction, key) != before:
                    raise Moved
                return value

            return self._set(kind, principal, key, unmoved, Replaced(settings, value, only=False))

        return until_unmoved(change, f'"{key}"')

    def get(self, kind: RecordKind[Any], principal: Principal, key: str = "", /, **named: Any) -> Any:
        key, _ = _key_of(kind, key, named)
        return self.result(kind, principal, key)

    def list(self, kind: RecordKind[Any], principal: Principal) -> list[Any]:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            held = self.changes.read(transaction, kind)
            if kind.listed is not None:
                held = {**kind.listed(self.core.catalog.policies(transaction)), **held}
            visible = [value for value in held.values() if kind.holds is None or kind.holds(value, now)]
            documents = _documents(kind, principal, transaction, visible, now)
        return [_typed(kind, document) for document in sorted(documents, key=lambda document: document[kind.key])]

    def delete(self, kind: RecordKind[Any], principal: Principal, key: str = "", /, **named: Any) -> bool:
        key, _ = _key_of(kind, key, named)
        now = self.core.clock.now_ms()

        def in_store(transaction: Transaction) -> bool:
            return self.changes.delete(transaction, principal, kind, key, now)

        with self.core.store.reading() as transaction:
            users = users_of(kind.noun, key, self.core.all_schedules(transaction)) if kind.referred else []
            users += self.changes.records_with(transaction, kind, key)
            if users:
                message = f'The {kind.one} "{key}" is used by {", ".join(users[:5])}.'
                raise Conflict(message, value=key, field=kind.key, hint="Edit or delete those first.")
        done = self._change(kind, principal, key, in_store, Deleted())
        return True if done is None else done

    # implementation

    def context(self) -> RecordContext:
        core, policies = self.core, self.core.policies()
        return RecordContext(
            now=core.clock.now_ms(),
            zone=core.clock.local_zone(),
            rates=policies.rates,
            workdir=core.workdir,
            allowed_hosts=policies.allowed_hosts,
        )

    def _set(
        self, kind: RecordKind[Any], principal: Principal, key: str, value: Callable[[Transaction], Any],
        in_file: Replaced,
    ) -> Any:  # fmt: skip
        now = self.core.clock.now_ms()

        def in_store(transaction: Transaction) -> Any:
            new = value(transaction)
            self._check_references(transaction, kind, new)
            self._check_limit_of_file(transaction, kind, key, new)
            held = self.changes.set(transaction, principal, kind, key, new, now, in_file.settings)
            return self._result(kind, principal, transaction, held, now)  # after the commit another may have deleted it

        done = self._change(kind, principal, key, in_store, in_file)
        return self.result(kind, principal, key) if done is None else done

    def _change(
        self, kind: RecordKind[Any], principal: Principal, key: str, in_store: Callable[[Transaction], Any],
        in_file: Replaced | Deleted,
    ) -> Any:  # fmt: skip
        now = self.core.clock.now_ms()

        def lock(transaction: Transaction) -> None:
            self.changes.wake(transaction, kind, now)
            transaction.lock_policies()

        return self.writer.change(principal, kind.kind, key, now, in_store, in_file, lock)

    def _check_references(self, transaction: Transaction, kind: RecordKind[Any], new: Any) -> None:
        for setting, noun in kind.refers.items():
            names, other = referred_names(getattr(new, kind.table[setting].field)), record_kinds()[noun]
            known = self.changes.read(transaction, other) if names else {}
            for name in (name for name in names if name not in known):
                hint = nearest(name, sorted(known)) if known else f"Create one: {other.example}"
                raise InvalidInput(f'There is no {other.one} "{name}".', value=name, field=setting, hint=hint)

    def _check_user(self, kind: RecordKind[Any], new: Any, given: Mapping[str, Any]) -> None:
        """Raise for an agent's account that is not there. Engines on a server may run on machines that have it."""
        if kind.noun == "agents" and given.get("user") is not None and not self.core.store.shared:
            entry_of(new.user)

    def _check_limit_of_file(self, transaction: Transaction, kind: RecordKind[Any], key: str, new: Any) -> None:
        """Raise if a change of an agent would change a limit that the file defines."""
        entry = transaction.file_entry("limit", scope_of(key)) if kind.noun == "agents" else None
        if entry is not None:
            before = self.changes.read(transaction, kind).get(key)
            if new.max_concurrent != (before and before.max_concurrent):
                raise managed_by_file(entry)

    def _found(self, kind: RecordKind[Any], transaction: Transaction, key: str) -> Any:
        held = self.changes.read(transaction, kind).get(key)
        if held is None and kind.usual is not None:
            held = kind.usual(key, self.core.catalog.policies(transaction))
        if held is None:
            known = sorted(self.changes.read(transaction, kind))
            hint = nearest(key, known) if known else f"Create one: {kind.example}"
            name = "" if kind.single else f' "{key}"'
            raise NotFound(f"There is no {kind.one}{name}.", value=key, field=kind.key, hint=hint)
        return held

    def result(self, kind: RecordKind[Any], principal: Principal, key: str) -> Any:
        with self.core.store.reading() as transaction:
            held = self._found(kind, transaction, key)
            return self._result(kind, principal, transaction, held, self.core.clock.now_ms())

    def _result(
        self, kind: RecordKind[Any], principal: Principal, transaction: Transaction, held: Any, now: int
    ) -> Any:
        notes = kind.notes(held, lambda noun: self.changes.read(transaction, record_kinds()[noun]))
        (document,) = _documents(kind, principal, transaction, [held], now)
        return _typed(kind, document | ({"notes": notes} if notes else {}))


def _documents(
    kind: RecordKind[Any], principal: Principal, transaction: Transaction, values: Iterable[Any], now: int
) -> list[Document]:
    state = kind.state(transaction, now)
    documents = [kind.document(value) | state(value) for value in values]
    return documents if kind.hidden is None or governs(principal) else [kind.hidden(each) for each in documents]


def _key_of(kind: RecordKind[Any], key: str, named: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The key, which may be given by its name, and the other arguments."""
    rest = dict(named)
    if kind.single:
        return kind.noun, rest
    return rest.pop(kind.key, key or kind.default_key or ""), rest


def _typed(kind: RecordKind[Any], document: Document) -> Any:
    return msgspec.convert(document, getattr(_results, kind.value.__name__.removesuffix("Definition")))
