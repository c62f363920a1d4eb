"""Work sources: the origins of work items."""

from typing import Any

from matins.model.work_source import WorkSourceDefinition
from matins.records.kind import Column, RecordContext, RecordKind
from matins.records.storage import POLICIES


def _check(source: WorkSourceDefinition, context: RecordContext) -> WorkSourceDefinition:
    from matins.work.sources import check_work_source

    return check_work_source(source)


def _place(document: dict[str, Any]) -> str:
    return document["repo"] if document["kind"] == "github" else document["path"]


def _labels(document: dict[str, Any]) -> str:
    return ", ".join(document["labels"]) if document["kind"] == "github" else "–"


WORK_SOURCES = RecordKind(
    kind="work_source",
    noun="work_sources",
    one="work source",
    value=WorkSourceDefinition,
    help="Manage sources of work items.",
    file_help="Where work items come from, by name.",
    storage=POLICIES,
    complete=_check,
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("SOURCE", _place),
        Column("LABELS", _labels),
    ),
    example="matins work-sources set todo --kind tasks --path TASKS.yaml",
)
