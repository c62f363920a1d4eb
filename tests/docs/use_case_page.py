"""docs/calls.md, from the declarations: every use case as a method, a route and a command. Run it to renew the page."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import matins.api.schedules as _all_use_cases  # noqa: F401 - declares them
from matins.api.use_case import USE_CASES, UseCase

PAGE = Path(__file__).parents[2] / "docs" / "calls.md"
_HEAD = """# Use cases

Each is a method of `Matins` and of `Client`, a route of the HTTP API, and on the command line `matins call NAME`.
Those of schedules are methods of `Matins` itself. This page is made from the declarations by `make pages`.
"""
_RECORDS = """## Records

These nouns have the same verbs. Reading needs the right `read`, everything else `govern`.
A single record has no `list`.

| verb | what it does | method |
| --- | --- | --- |
| `set` | Create the record, or replace it. | `PUT` |
| `edit` | Change some of its settings; None resets one to its default. | `PATCH` |
| `get`, `list` | Get one; list all, without the last part of the route. | `GET` |
| `delete` | Delete it. False when there is none. | `DELETE` |

| noun | route |
| --- | --- |
"""
_VERBS = {("set", "PUT", "govern"), ("edit", "PATCH", "govern"), ("get", "GET", "read"), ("delete", "DELETE", "govern")}


def rendered() -> str:
    parts, records = [_HEAD], ""
    by_noun = sorted(USE_CASES.values(), key=lambda use_case: (use_case.noun != "schedules", use_case.noun))
    for noun, group in groupby(by_noun, key=lambda use_case: use_case.noun):
        use_cases = {use_case.verb: use_case for use_case in group}
        if {(verb, one.method, one.right) for verb, one in use_cases.items()} >= _VERBS:
            records += f"| `m.{noun}` | `{_path(use_cases['set'])}` |\n"
            use_cases = {
                verb: one for verb, one in use_cases.items() if verb not in ("set", "edit", "get", "delete", "list")
            }
        if use_cases:
            rows = "".join(map(_row, use_cases.values()))
            parts.append(f"## {noun}\n\n| method | what it does | route | right |\n| --- | --- | --- | --- |\n{rows}")
    return "\n".join([parts[0], parts[1], _RECORDS + records, *parts[2:]])


def _row(use_case: UseCase) -> str:
    owner = "m" if use_case.noun == "schedules" else f"m.{use_case.noun}"
    arguments = [name for name, parameter in use_case.parameters.items() if parameter.required]
    given = ", ".join([*arguments, *(["…"] if use_case.settings or len(arguments) < len(use_case.parameters) else [])])
    route = f"{use_case.method} {_path(use_case)}"
    return f"| `{owner}.{use_case.verb}({given})` | {use_case.help} | `{route}` | {use_case.right} |\n"


def _path(use_case: UseCase) -> str:
    return use_case.path.replace(":path}", "}")


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
