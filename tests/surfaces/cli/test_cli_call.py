"""`matins call`: the command line drives every use case."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_user import User

from matins.surfaces.routes import BY_USE_CASE, ROUTES

CALLS = [
    ("set_price", ["model=gpt-5", "input=$1", "output=$8"], "model"),
    ("set_rate", ["currency=EUR", "usd=1.1"], None),
    ("set_hook", ["event=before:schedule:trigger", 'command=["true"]'], None),
    ("limit", ["scope=global", "size=4"], None),
    ("set_agent_rules", ["agent=scout", "quota=3"], "quota"),
    ("set_work_source", ["name=todo", "kind=tasks"], "kind"),
    ("set-quiet-hours", ["name=night", 'windows=["22:00-07:00"]'], "mode"),
]


@pytest.mark.parametrize(("use_case", "words", "field"), CALLS, ids=[name for name, _, _ in CALLS])
def test_v12_what_has_no_command_is_called_by_its_name(
    user: User, use_case: str, words: list[str], field: str | None
) -> None:
    """V12 B2: what it prints is what the API answers"""
    answer: Any = json.loads(user.says("call", use_case, *words))
    assert answer is None if field is None else answer[field]
    assert user.json("call", use_case, *words) == answer


@pytest.mark.parametrize("use_case", sorted(route.use_case for route in ROUTES if route.method == "GET"))
def test_every_look_can_be_called(user: User, use_case: str) -> None:
    """Those that need a name say which"""
    needed = BY_USE_CASE[use_case].in_path
    if use_case == "next_times":
        assert user.json("call", use_case, "text=5m")["kind"] == "interval"
    elif needed and use_case != "agent_rules":
        assert f'"{needed[0]}"' in user.types("call", use_case, code=2).stderr
    elif use_case == "plan":
        assert "No file" in user.types("call", use_case, code=2).stderr
    else:
        user.json("call", use_case)


@pytest.mark.parametrize(
    ("words", "says"),
    [(["overvew"], 'did you mean "overview"?'), (["overview", "limit"], "word=value"), (["overview", "x=1"], '"x"')],
)
def test_a_slip_is_told(user: User, words: list[str], says: str) -> None:
    assert says in user.types("call", *words, code=2).stderr
