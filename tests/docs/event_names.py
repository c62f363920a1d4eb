"""The tables of names in docs/events.md, from the catalogue. Run it to renew the page."""

from __future__ import annotations

import re
from pathlib import Path

from matins.engine.events import ALIASES, EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "events.md"
_NAMES = re.compile(r"(\| name \| what it says \| ends a run \|\n\| --- \| --- \| --- \|\n)(?:\|.*\n)*")
_ALIASES = re.compile(r"(\| theirs \| ours \|\n\| --- \| --- \|\n)(?:\|.*\n)*")


def rendered(page: str) -> str:
    names = "".join(
        f"| `{kind.type}` | {kind.help} |{' yes' if kind.is_terminal else ''} |\n" for kind in EVENTS.values()
    )
    aliases = "".join(
        f"| `{theirs}` | {', '.join(f'`{kind}`' for kind in ours)} |\n" for theirs, ours in ALIASES.items()
    )
    return _ALIASES.sub(lambda match: match[1] + aliases, _NAMES.sub(lambda match: match[1] + names, page))


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
