"""`matins call`: the command line drives every use case."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cli_user import User

from matins.surfaces.cli.context import use_cases

CALLS = [
    ("prices.set", ["model=gpt-5", "input=$1", "output=$8"], "model"),
    ("rates.set", ["currency=EUR", "usd=1.1"], "usd"),
    ("hooks.set", ["event=before:schedule:trigger", 'command=["true"]'], "command"),
    ("limits.set", ["scope=global", "size=4"], "size"),
    ("agent_rules.set", ["agent=scout", "max_schedules=3"], "max_schedules"),
    ("work_sources.set", ["name=todo", "kind=tasks"], "kind"),
    ("quiet-hours.set", ["name=night", 'windows=["22:00-07:00"]'], "mode"),
]


@pytest.mark.parametrize(("use_case", "words", "field"), CALLS, ids=[name for name, _, _ in CALLS])
def test_v12_what_has_no_command_is_called_by_its_name(user: User, use_case: str, words: list[str], field: str) -> None:
    """V12 B2: what it prints is what the API answers"""
    answer: Any = json.loads(user.says("call", use_case, *words))
    assert answer[field]
    assert user.json("call", use_case, *words) == answer


@pytest.mark.parametrize("use_case", sorted(name for name, found in use_cases().items() if found.method == "GET"))
def test_every_look_can_be_called(user: User, use_case: str) -> None:
    """Those that need a name say which"""
    needed = [name for name, parameter in use_cases()[use_case].parameters.items() if parameter.required]
    if use_case == "schedules.next_times":
        assert user.json("call", use_case, "text=5m")["kind"] == "interval"
    elif needed:
        assert f'"{needed[0]}"' in user.complains("call", use_case)
    elif use_case == "file.plan":
        assert "There is no file." in user.complains("call", use_case)
    elif use_case == "sign_in.get":
        assert "There is no sign-in provider." in user.complains("call", use_case)
    else:
        user.json("call", use_case)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["schedules.lst"], 'Did you mean "schedules.list"?'),
        (["overview"], "List them: matins call --help"),
        (["schedules.list", "limit"], '"limit" is not NAME=VALUE.'),
        (["schedules.list", "x=1"], 'schedules.list has no argument "x".'),
    ],
)
def test_a_slip_is_told(user: User, words: list[str], says: str) -> None:
    assert says in user.complains("call", *words)


def test_p4_help_lists_every_use_case(user: User) -> None:
    """P4: by noun, each with what it does"""
    text = user.says("call", "--help")
    for name, found in use_cases().items():
        first = found.help.split()[:3]
        assert re.search(rf"^  {re.escape(name)}\s+{re.escape(' '.join(first))}", text, re.MULTILINE), name
    assert text.index("\nSchedules:\n") < text.index("\nRuns:\n") < text.index("\nQuiet hours:\n")
