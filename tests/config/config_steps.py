"""What the tests of the file share: a text, read and interpreted as of one instant."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from matins.config.interpretation import Entry, Interpretation, interpret
from matins.config.reader import invalid_file, read
from matins.records.kind import RecordContext
from matins.testing import instant

NOW = instant("2026-03-27T08:00:00Z")
CONTEXT = RecordContext(NOW, "Asia/Tokyo", {"USD": 1.0}, known={"agents": frozenset({"rover"})})
EXAMPLES_KNOWN = CONTEXT._replace(
    known={
        "agents": frozenset({"scout", "coder", "ops"}),
        "quiet_hours": frozenset({"nights"}),
        "calendars": frozenset({"holidays-de"}),
        "work_sources": frozenset({"backlog"}),
        "inbound": frozenset({"github-prs"}),
        "destinations": frozenset({"phone", "ops"}),
        "people": frozenset({"ada"}),
    }
)
"""With the records that the examples of settings name."""


def interpreted(text: str, context: RecordContext = CONTEXT) -> Interpretation:
    return interpret(read(dedent(text)), context)


def wrong(text: str) -> list[str]:
    """All that is wrong with a text, with place and hint."""
    problems = interpreted(text).problems
    if not problems:
        return []
    return [f"{e.message} ({e.hint})" for e in invalid_file(Path("matins.yaml"), problems).problems]


def entries(text: str) -> dict[tuple[str, str], Entry]:
    found = interpreted(text)
    assert found.problems == ()
    return {entry.key: entry for entry in found.entries}


def schedule(text: str, name: str = "/s") -> Any:
    """The definition of one schedule."""
    return entries(text)["schedule", name].meant.definition
