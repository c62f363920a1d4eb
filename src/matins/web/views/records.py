"""`/records`: a form for a record of any kind, made from its declared settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from matins.api.approvals import record_path
from matins.api.codec import to_document
from matins.engine.settings import format_setting
from matins.errors import NotFound
from matins.model import settings as kinds
from matins.model.settings import Declared, Kind
from matins.records import record_kinds
from matins.records.kind import RecordKind
from matins.web.templates import words
from matins.web.visit import Page, Visit

NOUNS = ("agents", "budgets", "quiet_hours", "calendars", "destinations", "people")
"""What is made and changed in the page."""
_LISTS = (kinds.Names, kinds.Windows)
_JSON = (
    kinds.Labels, kinds.Variables, kinds.Target, kinds.Options, kinds.Json, kinds.Inputs, kinds.Calls, kinds.Records,
)  # fmt: skip


_EVERYDAY = ("model", "workdir", "environment", "tools", "max_cost", "max_concurrent", "timeout")
"""Shown for an agent, besides what is set; its other settings are folded."""
_LABELS = {"mcp": "Tools of Matins", "url": "URL", "ics": "ICS"}
_FEW = 12


class Field(NamedTuple):
    name: str
    label: str
    help: str
    widget: str
    """text, area, number, choice, flag, list, words, json."""
    choices: tuple[str, ...]
    value: str
    required: bool
    example: str
    is_set: bool


def new(visit: Visit) -> Page:
    kind = _kind(visit)
    values = {"kind": kind, "record_key": None, "place": None, **_fields(visit, kind, {}), **_call(kind, None)}
    return Page("record.html", f"New {kind.one}", values, ())


def show(visit: Visit) -> Page:
    kind, key = _kind(visit), visit.params["key"]
    record = to_document(getattr(visit.api, kind.noun).get(key))
    place = visit.api.file.place(kind.noun, key)
    values = {"kind": kind, "record_key": key, "place": place, **_fields(visit, kind, record), **_call(kind, key)}
    return Page("record.html", key, values, ())


def _kind(visit: Visit) -> RecordKind[Any]:
    noun = visit.params["noun"]
    if noun not in NOUNS:
        raise NotFound(f'There is no form for "{noun}".', value=noun, field="noun", hint="Use matins set, or the file.")
    return record_kinds()[noun]


def _call(kind: RecordKind[Any], key: str | None) -> dict[str, str]:
    """What saves it: all of a new record, or what changed."""
    collection = record_path(kind.noun, "")
    return {"collection": collection, "verb": "PUT" if key is None else "PATCH"}


def _fields(visit: Visit, kind: RecordKind[Any], record: dict[str, Any]) -> dict[str, list[Field]]:
    """The settings; of many, those that are set or often are, and the others apart."""
    declared = [each for name, each in kind.table.items() if name != kind.key]
    fields = [_field(visit, each, record.get(each.name)) for each in declared]
    if len(fields) <= _FEW:
        return {"fields": fields, "others": []}
    first = [field for field in fields if field.required or field.is_set or field.name in _EVERYDAY]
    return {"fields": first, "others": [field for field in fields if field not in first]}


def _field(visit: Visit, declared: Declared, value: Any) -> Field:
    widget, choices = _widget(visit, declared.kind)
    setting = declared.setting
    text, default = _text(value, widget), _text(to_document(format_setting(declared, declared.default)), widget)
    return Field(
        declared.name,
        _LABELS.get(declared.name, words(declared.name)),
        setting.help,
        widget,
        choices,
        text,
        setting.required,
        _text(setting.example, widget),
        text not in ("", default),
    )


def _widget(visit: Visit, kind: Kind) -> tuple[str, tuple[str, ...]]:
    match kind:
        case kinds.Choice():
            return "choice", kind.values
        case kinds.Flag():
            return "flag", ("true", "false")
        case kinds.Int() | kinds.Decimal():
            return "number", ()
        case kinds.Name() if kind.of in NOUNS:
            return "choice", tuple(each.name for each in getattr(visit.api, kind.of).list())
        case kinds.Template():
            return "area", ()
        case kinds.Arguments():
            return "words", ()
        case _ if isinstance(kind, _LISTS):
            return "list", ()
        case _ if isinstance(kind, _JSON):
            return "json", ()
        case _:
            return "text", ()


def _text(value: Any, widget: str) -> str:
    """A value as its field shows it."""
    if value is None or value in ({}, []):
        return ""
    if widget == "json" and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        parts = list(map(str, cast("Sequence[Any]", value)))
        between = " " if widget == "words" else ", "
        return between.join(f'"{each}"' if widget == "words" and " " in each else each for each in parts)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if not isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
