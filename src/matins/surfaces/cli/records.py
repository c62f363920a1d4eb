"""Commands of records: `matins NOUN list`, `show`, `set`, `edit` and `rm`, from the declaration of a kind."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import click

from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.records import record_kind
from matins.records.kind import Column as RecordColumn
from matins.records.kind import RecordKind
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import NounGroup, complete_keys, deletion, pass_context
from matins.surfaces.cli.options import check_any, given_settings, read_setting, setting_options
from matins.surfaces.cli.tables import LAYOUTS, Cell, Column, Layout, moment, plain, state_text
from matins.surfaces.display import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from matins.surfaces.cli.framework import Completer


Settings = dict[str, Any]
Prepare = Callable[[CliContext, Settings], Settings]
"""From the settings as typed to the settings to send."""
_VALUE = "value"
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def _as_typed(context: CliContext, settings: Settings) -> Settings:
    return settings


@cache
def record_group(noun: str, prepare: Prepare = _as_typed) -> NounGroup:
    """The commands of one kind of record."""
    return RecordCommands(record_kind(noun), prepare).group()


class RecordCommands:
    def __init__(self, kind: RecordKind[Any], prepare: Prepare) -> None:
        self._kind = kind
        self._prepare = prepare
        self._one = f"the {kind.one}" if kind.single else kind.owner[0].lower() + kind.owner[1:]
        self._bare = kind.alone if kind.alone and len(kind.table) == 1 else ""
        """The only setting of the kind, whose value is given without an option."""

    def group(self) -> NounGroup:
        kind, one = self._kind, self._one
        shows = kind.single or kind.default_key is not None  # without a record, the defaults are shown
        group = NounGroup(kind.noun.replace("_", "-"), kind.help, default="show" if shows else "list")
        if not kind.single:
            group.command("list", help=f"List {kind.many}.")(pass_context(self._list))
        group.command("show", help=self._key_help(f"Show {one}."))(self._with_key(pass_context(self._show)))
        group.command("set", help=self._set_help())(self._with_key(self._with_value(pass_context(self._set))))
        if not self._bare:
            text = self._key_help(f"Change settings of {one}. The others stay.")
            options = setting_options(kind.table, unset=True)
            group.command("edit", help=text)(self._with_key(options(pass_context(self._edit))))
        group.command("rm", help=self._key_help(f"Delete {one}."))(self._with_key(pass_context(self._delete)))
        return group

    def _set_help(self) -> str:
        text = f"Create {self._one}, or replace it."
        if self._bare:
            text += f"\n\n{self._bare.upper()}: {self._kind.table[self._bare].setting.help}"
        example = self._kind.example
        return self._key_help(text) + (f"\n\n\b\n{example}" if " set " in example else "")

    def _key_help(self, text: str) -> str:
        key, default = self._kind.key, self._kind.default_key
        return text if default is None else f"{text}\n\nWithout {key.upper()}, this is about all {key}s ({default})."

    def _with_key(self, function: Callable[..., Any]) -> Callable[..., Any]:
        kind = self._kind
        if kind.single:
            return function
        complete = _complete_from(kind.keys) if kind.keys else complete_keys(kind.noun)
        more: dict[str, Any] = {} if kind.default_key is None else {"default": kind.default_key}
        metavar = f"[{kind.key.upper()}]" if more else kind.key.upper()
        return click.argument("key", metavar=metavar, shell_complete=complete, **more)(function)

    def _with_value(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self._bare:
            return click.argument(_VALUE, metavar=self._bare.upper())(function)
        return setting_options(self._kind.table)(function)

    # -- verbs

    def _list(self, context: CliContext) -> None:
        kind = self._kind
        items: list[Document] = context.call(f"{kind.noun}.list")
        empty = f"No {kind.many}. Create one: {kind.example}"
        context.show(items, lambda: self._table(context, items) if items else empty)

    def _show(self, context: CliContext, key: str = "") -> None:
        document = context.send(f"{self._kind.noun}.get", self._named(key))
        context.show(document, lambda: self._fields(context, document))

    def _set(self, context: CliContext, key: str = "", **options: Any) -> None:
        settings = self._given(context, options)
        try:
            document = context.send(f"{self._kind.noun}.set", self._named(key) | settings)
        except InvalidInput as error:
            if self._bare and error.field == self._bare:  # the setting has no option
                error.hint = f"For example: {self._kind.example}"
            raise
        for note in document.get("notes") or ():
            context.note(note)
        context.show(document, lambda: self._summary(context, key, settings, document))

    def _edit(self, context: CliContext, key: str = "", **options: Any) -> None:
        kind, named, settings = self._kind, self._named(key), self._given(context, options)
        check_any(settings)
        before = context.send(f"{kind.noun}.get", named)
        after = context.send(f"{kind.noun}.edit", named | settings)
        changes = _changes(kind, before, after)
        done = one_line(f"{'Changed' if changes else 'Unchanged:'} the {kind.one} {key}".rstrip() + ".")
        context.show(after, lambda: [*changes, done])

    def _delete(self, context: CliContext, key: str = "") -> None:
        deleted = bool(context.send(f"{self._kind.noun}.delete", self._named(key)))
        context.show(*deletion(self._kind.one, one_line(key), deleted=deleted))

    def _named(self, key: str) -> dict[str, Any]:
        return {} if self._kind.single else {self._kind.key: key}

    def _given(self, context: CliContext, options: Mapping[str, Any]) -> Settings:
        table = self._kind.table
        if self._bare:
            return {self._bare: read_setting(table, self._bare, options[_VALUE])}
        return self._prepare(context, given_settings(table, options, self._kind.owner))

    # -- documents as text

    def _summary(self, context: CliContext, key: str, settings: Settings, document: Document) -> str:
        """For example: Set the budget daily: max cost $5.00, period day."""
        pairs = [f"{state_text(name)} {text}" for name, text in self._texts(context, document) if name in settings]
        return one_line(f"Set the {self._kind.one} {key}".rstrip() + (f": {', '.join(pairs)}" if pairs else "."))

    def _table(self, context: CliContext, items: Iterable[Document]) -> list[str]:
        kind, layouts = self._kind, LAYOUTS.get(self._kind.noun, {})
        columns = [
            Column(
                column.title,
                partial(_cell, column),
                right=column.right,
                **layouts.get(column.title, Layout())._asdict(),
            )
            for column in kind.columns
        ]
        return context.table(columns, items if kind.rows is None else chain.from_iterable(map(kind.rows, items)))

    def _fields(self, context: CliContext, document: Document) -> list[str]:
        kind = self._kind
        if kind.single:  # the columns have a text for an empty record
            return context.fields(*((column.title.lower(), _cell_text(column, document)) for column in kind.columns))
        lines = context.fields(*((state_text(name), text) for name, text in self._texts(context, document)))
        return [*lines, "", *self._table(context, [document])] if kind.rows is not None else lines

    def _texts(self, context: CliContext, document: Document) -> Iterator[tuple[str, str]]:
        """Names and texts of the fields. If one record is several rows, the table shows the rest."""
        kind = self._kind
        for name, value in document.items():
            declared = kind.table.get(name)
            if value in _EMPTY or (declared is None and kind.rows is not None and name != kind.key):
                continue
            instant = isinstance(declared.kind, kinds.Instant) if declared else name.endswith("_at")
            yield name, context.until(value) if instant else _text(declared, value)


def _complete_from(keys: tuple[str, ...]) -> Completer:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(key) for key in keys if key.startswith(incomplete)]

    return complete


def _cell(column: RecordColumn, item: Document, now: datetime) -> str | Cell:
    text = _cell_text(column, item)
    return moment(text, now) if column.instant else text


def _cell_text(column: RecordColumn, item: Document) -> str:
    value = item[column.value] if isinstance(column.value, str) else column.value(item)
    if isinstance(value, float):
        return f"{value:.15g}"
    return "–" if value is None else plain(value)


def _text(declared: kinds.Declared | None, value: Any) -> str:
    program = declared is not None and isinstance(declared.kind, (kinds.Command, kinds.Arguments))
    return shlex.join(cast("list[str]", value)) if program and isinstance(value, list) else plain(value)


def _changes(kind: RecordKind[Any], before: Document, after: Document) -> list[str]:
    def shown(name: str, document: Document) -> str:
        return _text(kind.table[name], document.get(name))

    changed = [name for name in kind.table if before.get(name) != after.get(name)]
    return [f"  {state_text(name)}: {shown(name, before)} → {shown(name, after)}" for name in changed]
