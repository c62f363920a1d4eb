"""The table of gates in docs/gates.md, from the gates. Run it to renew the page."""

from __future__ import annotations

import re
from pathlib import Path

from matins.engine.gates import GATES

PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
_TABLE = re.compile(
    r"(\| gate \| settings and calls \| when it does not pass \|\n\| --- \| --- \| --- \|\n)(?:\|.*\n)*"
)


def rendered(page: str) -> str:
    rows = "".join(f"| {gate.name} | {gate.settings} | {gate.refusal} |\n" for gate in GATES if gate.explained)
    return _TABLE.sub(lambda match: match[1] + rows, page)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
