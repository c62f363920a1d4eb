"""Kinds of records: their values, their storage, and the effects of a change.

Storage of records: as policies, limits, subscriptions or throttles.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import orjson

from matins.engine.validation import check_name, check_names_known, nearest
from matins.errors import Conflict, InvalidInput
from matins.model.event import ANSWERS_PREFIX, NOTICES_PREFIX, Subscription, SubscriptionKind
from matins.model.policies import Throttle
from matins.model.rows import NewEvent
from matins.model.settings import Table, settings_of

if TYPE_CHECKING:
    from matins.engine.policies import Policies
    from matins.engine.settings import ParseContext
    from matins.model.access import Principal, Right
    from matins.model.job import JobTypes
    from matins.store.transaction import Transaction


V = TypeVar("V")
Document = dict[str, Any]


class RecordContext(NamedTuple):
    """The context in which the settings of a record are parsed."""

    now: int
    zone: str
    """The time zone of the machine."""
    rates: Mapping[str, float]
    workdir: str | None = None
    allowed_hosts: Sequence[str] = ()
    known: Mapping[str, frozenset[str]] = {}
    """Names of the records that may be referred to, by noun; for schedules, agent/name."""
    jobs: JobTypes | None = None
    """The jobs that schedules may name; None for any."""


class RecordChange(NamedTuple):
    """A change of a record, in a transaction that holds the lock on policies."""

    transaction: Transaction
    principal: Principal
    policies: Policies
    now: int
    given: Collection[str] = ()
    """The settings that a person gave with this change, also those that stay as they are."""


class Column(NamedTuple):
    """A column of a list."""

    title: str
    value: str | Callable[[Document], str]
    """A field of the document, or a function that formats the document."""
    right: bool = False
    instant: bool = False


class Storage(Protocol):
    """The storage of the records of a kind."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        """All records by key."""
        ...

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        """Store the record and its event. Returns the stored value."""
        ...

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool: ...


def _same(value: Any, context: RecordContext) -> Any:
    return value


def _as_held(value: Any) -> Any:
    return value


def _nothing(value: Any, before: Any, change: RecordChange) -> None:
    pass


def _no_notes(value: Any, known: Callable[[str], Collection[str]]) -> list[str]:
    return []


def always(value: V) -> Callable[[str, Policies], V]:
    """A `usual` that is the same for every key."""
    return lambda key, policies: value


def _no_state(transaction: Transaction, now: int) -> Callable[[Any], Document]:
    return lambda value: {}


@dataclass(frozen=True)
class RecordKind(Generic[V]):
    kind: str
    """The name in the store, in events and in entries of the file."""
    noun: str
    """The name of the attribute, path, command, tool and section of the file."""
    one: str
    """The name in sentences: "budget"."""
    value: type[V]
    """A frozen dataclass with settings; its first field is the key, unless there is only one record."""
    help: str
    storage: Storage
    key: str = "name"
    """The argument with the key; empty when there is only one record."""
    key_has_slashes: bool = False
    default_key: str | None = None
    keys: tuple[str, ...] = ()
    """The allowed keys; empty for any."""
    right: Right = "govern"
    fresh: bool = False
    """Whether a browser that changes one must have signed in lately: they give rights away."""
    in_file: bool = True
    file_help: str = ""
    order: int = 1
    """0 for kinds that other records need for parsing."""
    alone: str = ""
    """The setting that a bare value sets."""
    complete: Callable[[V, RecordContext], V] = _same
    """Checks rules over several settings, and sets defaults that depend on the context."""
    as_written: Callable[[V], V] = _as_held
    """Removes what `complete` filled in, before an edit."""
    wakes: str | None = None
    """The reason of waiting runs that pass their gates again when a record changes."""
    changed: Callable[[V, V | None, RecordChange], None] = _nothing
    deleted: Callable[[V, V | None, RecordChange], None] = _nothing
    usual: Callable[[str, Policies], V | None] | None = None
    """The value when no record is stored."""
    listed: Callable[[Policies], Mapping[str, V]] | None = None
    """Values that a list adds to the stored ones."""
    holds: Callable[[V, int], bool] | None = None
    """Whether a record is still valid at an instant; None when all are."""
    state: Callable[[Transaction, int], Callable[[V], Document]] = _no_state
    """Fields that documents add, and ETags leave out. What it reads, it reads once for all records of a list."""
    state_types: Mapping[str, str] | None = None
    notes: Callable[[V, Callable[[str], Collection[str]]], list[str]] = _no_notes
    """What a record does not do, given the names of the other records by noun. Then `state_types` has notes."""
    columns: tuple[Column, ...] = ()
    rows: Callable[[Document], Iterable[Document]] | None = None
    """The fields of each row, when one record is several rows."""
    example: str = ""
    """A command that sets a record."""
    examples: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other such commands, by a word in the name of the record."""
    hidden: Callable[[Document], Document] | None = None
    """The document for principals without the right to govern."""

    def command_for(self, key: str) -> str:
        """A command that sets a record of this name."""
        found = next((command for word, command in self.examples.items() if word in key.lower()), self.example)
        return re.sub(r"(?<= set )\S+", lambda _: shlex.quote(key), found)

    @property
    def table(self) -> Table:
        return settings_of(self.value)

    @property
    def single(self) -> bool:
        return not self.key

    @property
    def referred(self) -> bool:
        """Whether schedules refer to records of this kind."""
        from matins.model.schedule import ScheduleDefinition

        declared = settings_of(ScheduleDefinition).values()
        return self.noun in ("agents", "inbound") or any(
            getattr(setting.kind, "of", "") == self.noun for setting in declared
        )

    @property
    def refers(self) -> Mapping[str, str]:
        """The settings that name records of another kind, with its noun."""
        nouns = {name: getattr(declared.kind, "of", "") for name, declared in self.table.items()}
        return {name: noun for name, noun in nouns.items() if noun}

    @property
    def many(self) -> str:
        return self.noun.replace("_", " ")

    @property
    def owner(self) -> str:
        """The kind in errors: `A budget`."""
        return f"An {self.one}" if self.one[0] in "aeiou" else f"A {self.one}"

    def parse(self, key: str, given: Mapping[str, Any], context: RecordContext) -> V:
        """The record with these settings. An error names the setting and what to type."""
        from matins.engine.settings import check_required, parse_settings

        self.check_key(key)
        check_names_known(self.owner, given, self.table)
        check_required(self.owner, self.table, given)
        fields = parse_settings(self.owner, self.table, given, _parse_context(context))
        return self.complete(self.value(*self._key_values(key), **fields), context)

    def edit(self, value: V, given: Mapping[str, Any], context: RecordContext) -> V:
        """The record with these settings changed; None resets one to its default."""
        from matins.engine.settings import check_required, parse_setting

        check_names_known(self.owner, given, self.table)
        fields: dict[str, Any] = {}
        for name, item in given.items():
            declared = self.table[name]
            if item is None and declared.setting.required:
                check_required(self.owner, {name: declared}, {})
            fields[declared.field] = (
                declared.default if item is None else parse_setting(declared, item, _parse_context(context))
            )
        return self.complete(replace(self.as_written(value), **fields), context)  # type: ignore[type-var]

    def check_key(self, key: str) -> None:
        if self.single:
            return
        try:
            check_name(self.key, key)
        except InvalidInput as error:
            error.hint = f"For example: {self.example}"
            raise
        if self.keys and key not in self.keys:
            allowed = ", ".join(self.keys)
            message = f'There is no {self.one} "{key}".'
            raise InvalidInput(message, value=key, field=self.key, allowed=allowed, hint=nearest(key, self.keys))

    def dump(self, value: V) -> Document:
        """The record as it is stored."""
        from matins.engine.settings import dump_settings

        return dump_settings(value)

    def load(self, key: str, data: Mapping[str, Any]) -> V:
        from matins.engine.settings import load_settings, loaders_of

        return self.value(*self._key_values(key), **load_settings(loaders_of(self.table), data))

    def document(self, value: V) -> Document:
        """All settings as people write them, with the key."""
        from matins.engine.settings import format_setting

        key = {} if self.single else {self.key: getattr(value, self.key)}
        return key | {
            name: format_setting(declared, getattr(value, declared.field)) for name, declared in self.table.items()
        }

    def _key_values(self, key: str) -> tuple[str, ...]:
        return () if self.single else (key,)


def _parse_context(context: RecordContext) -> ParseContext:
    from matins.engine.settings import ParseContext

    return ParseContext(context.now, context.rates, lambda: context.zone, context.zone)


class PolicyStorage:
    """Stores each record in a row. Engines read the rows again after a change."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        held: Mapping[str, Any] = policies.records.get(kind.kind, {})
        return {key: value if isinstance(value, kind.value) else kind.load(key, value) for key, value in held.items()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        from matins.engine.audit import fingerprint
        from matins.engine.settings import redacted

        data = kind.dump(value)
        text = orjson.dumps(data).decode()
        change.transaction.upsert_policy(kind.kind, key, text, change.now, change.principal.who)
        details = {"kind": kind.kind, "name": key, **change.principal.signed, "definition": redacted(kind.table, data)}
        details["fingerprint"] = fingerprint(text)
        change.transaction.events.append(NewEvent(change.now, "policy.set", None, None, details))
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        deleted = change.transaction.delete_policy(kind.kind, key)
        if deleted:
            details = {"kind": kind.kind, "name": key, **change.principal.signed}
            change.transaction.events.append(NewEvent(change.now, "policy.deleted", None, None, details))
        return deleted


class DestinationStorage(PolicyStorage):
    """Stores a destination with the subscriptions that bring messages and answers to it."""

    _KINDS: ClassVar[Mapping[str, SubscriptionKind]] = {NOTICES_PREFIX: "notice", ANSWERS_PREFIX: "answer"}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        """Store the destination. If it was paused because it was gone, it is tried again."""
        transaction, by = change.transaction, change.principal.who
        for prefix, subscribed in self._KINDS.items():
            name = f"{prefix}{key}"
            if find_subscription(transaction, name) is None:
                horizon = transaction.event_horizon()
                transaction.insert_subscription(
                    Subscription(name, subscribed, {}, (), horizon, "active", None, change.now, by)
                )
            else:
                transaction.set_subscription(name, "active", None)
        return super().put(kind, key, value, change)

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        from matins.engine.answers import DELETED

        for prefix in self._KINDS:
            change.transaction.delete_subscription(f"{prefix}{key}")
        change.transaction.discard_answers(key, DELETED)
        return super().delete(kind, key, change)


class LimitStorage:
    """Stores the number of units of each scope. Running runs hold them."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        return {row.scope: kind.value(row.scope, row.size) for row in transaction.limits()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        resize(key, value.size, change)
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        limited = any(row.scope == key and row.size for row in change.transaction.limits())
        if limited:
            resize(key, 0, change)
        return limited


def resize(scope: str, size: int, change: RecordChange) -> None:
    """Set the maximum number of concurrent runs of a scope; 0 for no limit."""
    change.transaction.set_limit(scope, size)
    data = {"scope": scope, "size": size, **change.principal.signed}
    change.transaction.events.append(NewEvent(change.now, "limit.set", None, None, data))


class WebhookStorage:
    """Stores subscriptions with their position in the event stream."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        found = [item for item in transaction.subscriptions() if item.kind == "webhook"]
        return {
            item.name: kind.value(
                item.name, item.target["url"], item.types, item.target["secret"], item.target.get("text", False)
            )
            for item in found
        }

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        """Store the webhook. With another URL, secret or `text`, it starts with new events; else its position stays."""
        transaction, target = change.transaction, {"url": value.url, "secret": value.secret}
        target |= {"text": True} if value.text else {}
        found = find_subscription(transaction, key)
        if found is not None and found.kind != "webhook":
            message = f'There is a subscription "{key}" already.'
            raise Conflict(message, value=key, field="name", hint="Delete it first, or use another name.")
        if found is not None and found.target == target:
            if found.types != value.types:
                transaction.set_types(key, value.types)
                note_subscription("subscription.updated", found._replace(types=value.types), change)
            return value
        if found is not None:
            transaction.delete_subscription(key)
        horizon = transaction.event_horizon()
        made = Subscription(
            key, "webhook", target, value.types, horizon, "active", None, change.now, change.principal.who
        )
        transaction.insert_subscription(made)
        note_subscription("subscription.created", made, change)
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        found = find_subscription(change.transaction, key)
        if found is None or found.kind != "webhook":
            return False
        change.transaction.delete_subscription(key)
        note_subscription("subscription.deleted", found, change)
        return True


def find_subscription(transaction: Transaction, name: str) -> Subscription | None:
    return next((found for found in transaction.subscriptions() if found.name == name), None)


def note_subscription(event: str, found: Subscription, change: RecordChange, note: str | None = None) -> None:
    """Append an event without secret and path, since every principal can read events."""
    from matins.engine.audit import subscription_fingerprint
    from matins.engine.settings import origin

    data: dict[str, Any] = {"subscription": found.name, "kind": found.kind, **change.principal.signed}
    if event != "subscription.deleted":
        data["fingerprint"] = subscription_fingerprint(found)
    if found.kind == "webhook":
        data |= {"to": origin(found.target["url"]), "types": found.types}
    if note is not None:
        data["note"] = note
    change.transaction.events.append(NewEvent(change.now, event, None, None, data))


class ThrottleStorage:
    """Stores rate limits of providers, which expire."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        return {held.provider: _rate_limit(kind, held) for held in transaction.throttles()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        throttle = Throttle(key, value.resets_at, change.now, value.affects, value.reason, change.principal.who)
        held = change.transaction.upsert_throttle(throttle)
        data = {"provider": key, "resets_at": value.resets_at, "reason": value.reason, **change.principal.signed}
        change.transaction.events.append(NewEvent(change.now, "throttle.set", None, None, data))
        return _rate_limit(kind, held)

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        deleted = change.transaction.delete_throttle(key)
        if deleted:
            data = {"provider": key, **change.principal.signed}
            change.transaction.events.append(NewEvent(change.now, "throttle.deleted", None, None, data))
        return deleted


def _rate_limit(kind: RecordKind[Any], held: Throttle) -> Any:
    return kind.value(held.provider, held.resets_at, held.affects, held.reason)


POLICIES = PolicyStorage()
