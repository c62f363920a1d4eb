"""`matins rules`: what agents may schedule."""

from __future__ import annotations

from typing import Any

import click

from matins.surfaces.cli.commands import Noun, complete_agents, pass_desk
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.text import one_line, plain
from matins.surfaces.cli.times import took
from matins.surfaces.cli.words import RULES, given, word_options

_ALL = "*"


class _Rules(Noun):
    usual = "show"


@click.group(cls=_Rules)
def rules() -> None:
    """What agents may schedule by themselves: show, set."""


@rules.command()
@click.argument("agent", default=_ALL, shell_complete=complete_agents)
@pass_desk
def show(desk: Desk, agent: str) -> None:
    """The rules of an agent, or those of every agent that has none of its own."""
    found = desk.ask("agent_rules", agent=agent)
    desk.show(found, lambda: _shown(desk, found))


@rules.command("set")
@click.argument("agent", default=_ALL, shell_complete=complete_agents)
@word_options(RULES)
@pass_desk
def set_rules(desk: Desk, agent: str, **options: Any) -> None:
    """Say the rules of an agent, or of all, anew.

    What is not said is as usual.

    \b
    matins rules set scout --quota 5 --floor 10m
    """
    found = desk.ask("set_agent_rules", agent=agent, **given(RULES, options))
    whose = "all agents" if agent == _ALL else f"the agent {agent}"
    desk.show(found, lambda: [one_line(f"Set the rules of {whose}:"), *_shown(desk, found)])


def _shown(desk: Desk, found: dict[str, Any]) -> list[str]:
    return desk.fields(
        ("quota", f"{found['quota']} schedules at once"),
        ("depth", found["depth"]),
        ("floor", f"every {took(found['floor_ms'])} at the most"),
        ("expiry", f"after {took(found['expiry_ms'])}"),
        ("approval expires", f"after {took(found['approval_ms'])}"),
        ("auto one shots", plain(found["auto_one_shots"])),
        ("auto jobs", plain(found["auto_jobs"])),
    )
