"""docs/calls.md, from the declarations: every use case as a call, a route and a command. Run it to renew the page."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import matins.api.schedules as _all_use_cases  # noqa: F401 - declares them
from matins.api.use_case import USE_CASES, UseCase

PAGE = Path(__file__).parents[2] / "docs" / "calls.md"
_HEAD = """# Calls

Every use case under one name: a method of `Matins` and of `Client`, a route of the HTTP API, and on the command line
`matins call NAME`. Schedules are methods of `Matins` itself. This page is made from the declarations by `make pages`.
"""


def rendered() -> str:
    parts = [_HEAD]
    by_noun = sorted(USE_CASES.values(), key=lambda use_case: (use_case.noun != "schedules", use_case.noun))
    for noun, group in groupby(by_noun, key=lambda use_case: use_case.noun):
        rows = "".join(_row(use_case) for use_case in group)
        parts.append(f"## {noun}\n\n| call | what it does | route | right |\n| --- | --- | --- | --- |\n{rows}")
    return "\n".join(parts)


def _row(use_case: UseCase) -> str:
    owner = "m" if use_case.noun == "schedules" else f"m.{use_case.noun}"
    arguments = [name for name, parameter in use_case.parameters.items() if parameter.required]
    given = ", ".join([*arguments, *(["…"] if use_case.settings or len(arguments) < len(use_case.parameters) else [])])
    path = use_case.path.replace(":path}", "}")
    return f"| `{owner}.{use_case.verb}({given})` | {use_case.help} | `{use_case.method} {path}` | {use_case.right} |\n"


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
