"""`matins export`: what is in the store, as a configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import click

from matins.engine.policies import Policies
from matins.engine.settings import REDACTED, REFERENCES, format_setting
from matins.errors import NotFound
from matins.model.words import counted
from matins.records import record_kinds
from matins.records.kind import RecordKind
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import pass_context, root_command
from matins.surfaces.display import one_line
from matins.texts.yaml_nodes import to_yaml

_LEFT = ("removed", "expired", "rejected", "pending")
"""What the owner applies needs no approval, so what waits for one is left out."""
_PAGE = 500


@root_command("export")
@click.argument("select", metavar="[SELECTOR]", required=False)
@pass_context
def export(context: CliContext, select: str | None) -> None:
    """Print matins.yaml with all records and schedules, or only with the schedules of a selector: label.team=ops.

    Applied to an empty store, it makes the same ones: matins export > matins.yaml. Values of secrets are not in it, but
    references, which are listed. What ran is not in it: that is matins backup.
    """
    secrets: list[str] = []
    document: Document = {}
    if select is None:
        for noun, kind in sorted(record_kinds().items()):
            if kind.in_file and (found := _records(context, kind)):
                document[noun] = _hidden(found, secrets)
    limited = {f"agent:{name}" for name, agent in document.get("agents", {}).items() if "max_concurrent" in agent}
    if "limits" in document:  # those are settings of their agents
        document["limits"] = {name: limit for name, limit in document["limits"].items() if name not in limited}
    every = list(_schedules(context, select))
    schedules = [item for item in every if item["state"] not in _LEFT]
    for item in sorted(schedules, key=lambda item: (item["agent"] or "", item["name"])):
        settings = _hidden(_settings(item), secrets)
        if item["agent"]:
            of_agent = document.setdefault("agents", {}).setdefault(item["agent"], {})
            of_agent.setdefault("schedules", {})[item["name"]] = settings
        else:
            document.setdefault("schedules", {})[item["name"]] = settings
    context.show(document, lambda: list(_lines(document, "")))
    context.note(f"{counted(len(schedules), 'schedule')}. Intervals count from the time of the apply.")
    if waiting := [item["name"] for item in every if item["state"] == "pending"]:
        context.note(one_line(f"Not in it, because they wait for an approval: {', '.join(waiting)}"))
    if secrets:
        context.note(f"Values of secrets are not in it. Set these variables there: {', '.join(sorted(set(secrets)))}")


def _records(context: CliContext, kind: RecordKind[Any]) -> Any:
    if kind.single:
        try:
            return _given(kind, context.call(f"{kind.noun}.get"))
        except NotFound:  # one that has no usual value
            return {}
    usual: Mapping[str, Any] = {} if kind.listed is None else kind.listed(Policies())
    known = {key: kind.document(value) for key, value in usual.items()}
    return {
        item[kind.key]: _given(kind, item)
        for item in context.call(f"{kind.noun}.list")
        if (built_in := known.get(item[kind.key])) is None or any(item[name] != built_in[name] for name in built_in)
    }


def _given(kind: RecordKind[Any], item: Mapping[str, Any]) -> Document:
    """The settings that are not the usual ones, and those that every record needs."""
    return {
        name: item[name]
        for name, declared in kind.table.items()
        if item[name] is not None
        and (declared.setting.required or item[name] != format_setting(declared, declared.default))
    }


def _schedules(context: CliContext, select: str | None) -> Iterator[Document]:
    after = None
    while some := context.call("schedules.list", select=select, after=after, limit=_PAGE):
        yield from some
        after = some[-1]["id"]


def _settings(item: Document) -> Document:
    settings = {name: value for name, value in item["settings"].items() if value is not None}
    if settings.get("job") is None and settings.get("prompt") is None and item["job"] and not item["agent"]:
        settings["job"] = item["job"]
    return settings | ({"paused": True} if item["state"] == "paused" else {})


def _hidden(value: Any, secrets: list[str], name: str = "") -> Any:
    """The value with references in place of secrets that are kept as they are."""
    if isinstance(value, dict):
        return {key: _hidden(item, secrets, key) for key, item in cast("Document", value).items()}
    if isinstance(value, list):
        return [_hidden(item, secrets, name) for item in cast("list[Any]", value)]
    if value == REDACTED:
        secrets.append(name.upper())
        return f"{REFERENCES[0]}{name.upper()}"
    return value


def _lines(document: Document, indent: str) -> Iterator[str]:
    for name, value in document.items():
        key = to_yaml(name, flow=False)
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:"
            yield from _lines(cast("Document", value), indent + "  ")
        else:
            yield f"{indent}{key}: {to_yaml(value, flow=not isinstance(value, str))}"
