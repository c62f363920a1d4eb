"""Named SQL: `.sql` files in which each statement follows a line `-- name: purpose`.

States of runs are written by name: `state = {ready}`, `state {live}`. A part that several statements share has a name
like them, and stands in them as `{{name}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

from matins.model.run import RunState

_NAMED = re.compile(r"^-- (\w+): .*\n", re.MULTILINE)
_PART = re.compile(r"\{\{(\w+)\}\}")
_STATE = re.compile(r"\{(\w+)\}")
_STATES = {state.label: str(int(state)) for state in RunState} | {
    "live": f"BETWEEN {RunState.WAITING:d} AND {RunState.HELD:d}",
    "ended": f">= {RunState.SUCCEEDED:d}",
}


def load_queries(*packages: str) -> dict[str, str]:
    """The statements of the packages' `.sql` files, by name, with the numbers of the states."""
    files = [file for package in packages for file in resources.files(package).iterdir() if file.name.endswith(".sql")]
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    for file in files:
        _, *pieces = _NAMED.split(file.read_text(encoding="utf-8"))
        for name, body in zip(pieces[::2], pieces[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file}: the name {name} occurs twice.")
            found[name], places[name] = body.strip().rstrip(";"), f"{file}: {name}"
    return {name: _with_states(places[name], _with_parts(places[name], body, found)) for name, body in found.items()}


def _with_parts(where: str, sql: str, parts: Mapping[str, str]) -> str:
    unknown = set(_PART.findall(sql)) - parts.keys()
    if unknown:
        raise ValueError(f'{where} has a part "{min(unknown)}" that no file has.')
    return _PART.sub(lambda found: _with_parts(where, parts[found[1]], parts), sql)


def _with_states(where: str, sql: str) -> str:
    unknown = set(_STATE.findall(sql)) - _STATES.keys()
    if unknown:
        raise ValueError(f'{where} names a state "{min(unknown)}" that runs do not have.')
    return _STATE.sub(lambda found: _STATES[found[1]], sql)
