"""What the tests of the file share: a text, read and judged as of one instant."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from matins.config.defining import World
from matins.config.meaning import Entry, Meaning, understand
from matins.config.problems import invalid
from matins.config.reading import read
from matins.testing import instant

NOW = instant("2026-03-27T08:00:00Z")
WORLD = World(NOW, "Asia/Tokyo", {"USD": 1.0}, agents=frozenset({"rover"}))


def judged(text: str, world: World = WORLD) -> Meaning:
    return understand(read(dedent(text)), world)


def wrong(text: str) -> list[str]:
    """All that is wrong with a text, with place and hint."""
    problems = judged(text).problems
    if not problems:
        return []
    return [f"{e.message} ({e.hint})" for e in invalid(Path("matins.yaml"), problems).problems]


def entries(text: str) -> dict[tuple[str, str], Entry]:
    meaning = judged(text)
    assert meaning.problems == ()
    return {entry.key: entry for entry in meaning.entries}


def schedule(text: str, name: str = "/s") -> Any:
    """The definition of one schedule."""
    return entries(text)["schedule", name].meant.definition
