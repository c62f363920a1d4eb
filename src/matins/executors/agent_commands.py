"""Runs pre-checks and hooks. Agents can change what a command starts or reads, so it runs behind their walls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from matins.engine.policies import Policies
from matins.errors import InvalidInput
from matins.executors.command_checks import from_home
from matins.executors.commands import CommandResult, Commands
from matins.executors.isolation import Isolation, account_of, account_variables, is_at, is_below
from matins.executors.owner_commands import OUTSIDE, OwnerCommands
from matins.executors.processes.launch import Account, EndedBy
from matins.executors.processes.walls import Layout
from matins.executors.secrets import inherited
from matins.model.agent import Agent
from matins.model.schedule import CommandLine
from matins.runtime.agent_folders import folder_of, own_folder
from matins.runtime.command_files import program_at, simple_commands

_NO_AGENT = Agent("", "")
"""Stands for the agent of a schedule that has none: its commands run beside agents, too."""


class _View(NamedTuple):
    """As whom a command runs, and what it sees; without a layout, everything."""

    layout: Layout | None = None
    account: Account | None = None
    variables: Mapping[str, str] = {}


class AgentCommands:
    """The commands around the runs of all agents."""

    def __init__(self, commands: Commands, isolation: Isolation, workdir: str | None) -> None:
        self._commands = commands
        self._isolation = isolation
        self._workdir = str(Path(from_home(workdir or ".")).absolute())

    def of(self, agent: str, policies: Policies) -> CommandsOfRun:
        """Those of one run. What the agent sees is found once, and only if a command needs it."""
        return CommandsOfRun(self._commands, self._isolation, self._workdir, agent, policies)

    def end_all(self, ended_by: EndedBy = "cancelled") -> None:
        self._commands.end_all(ended_by)


class CommandsOfRun:
    def __init__(self, commands: Commands, isolation: Isolation, workdir: str, agent: str, policies: Policies) -> None:
        self._commands = commands
        self._isolation = isolation
        self._workdir = workdir
        self._agent = agent
        self._policies = policies

    def run(
        self,
        command: CommandLine,
        *,
        context: Mapping[str, Any],
        variables: Mapping[str, str],
        limit_ms: int,
        find_first: bool = False,
    ) -> CommandResult:
        """Run it behind the walls of the agent, as its account; outside, if it is the owner's own or the agent is not
        isolated."""
        try:
            view = self._owners_view if self._is_owners(command) else self._view
        except InvalidInput as error:  # the agent does not run either
            return _not_started(str(error))
        if view.layout is not None and (path := _hidden_word(command, self._workdir, view.layout)) is not None:
            return _not_started(
                f"it names {path}, which is out of sight behind the walls of the agent. "
                "Only a script in the home of Matins, with plain arguments, runs outside"
            )
        return self._commands.run(
            command, context=context, variables={**variables, **view.variables}, workdir=self._workdir,
            limit_ms=limit_ms, layout=view.layout, account=view.account, find_first=find_first,
        )  # fmt: skip

    def _is_owners(self, command: CommandLine) -> bool:
        path = inherited().get("PATH", os.defpath)
        return command in OwnerCommands(self._workdir, path, self._isolation.is_owners, self._policies)

    @property
    def _alone(self) -> bool:
        """Whether no agent is isolated, so that walls around commands would protect nothing."""
        return all(agent.isolation == "none" for agent in self._policies.agents.values())

    @property
    def _owners_view(self) -> _View:
        return _View() if self._alone else _View(variables=OUTSIDE)

    @cached_property
    def _view(self) -> _View:
        agents = self._policies.agents
        agent = agents.get(self._agent)
        if agent is not None:
            own = str(Path(self._workdir, own_folder(agent.name)))
            layout = self._isolation.layout(agent, folder_of(agent, self._workdir), own)
            return _View() if layout is None else _View(layout, account_of(agent), account_variables(agent))
        if self._alone or self._isolation.refusal(_NO_AGENT) is not None:
            return _View()
        return _View(self._isolation.layout(_NO_AGENT, "/", "/"))


def _not_started(reason: str) -> CommandResult:
    return CommandResult(None, False, "", "", reason, 0)


def _hidden_word(command: CommandLine, folder: str, layout: Layout) -> str | None:
    """A file or folder that the command names and would not see: it would take it for missing."""
    for word in _data_words(command):
        for text in (word, word.partition("=")[2]):
            path = os.path.realpath(Path(folder, from_home(text))) if text and "\0" not in text else "/"
            covered = any(is_below(path, cover) for cover in layout.hidden)
            seen = any(is_at(path, kept) or is_at(kept, path) for kept in layout.kept)
            if covered and not seen and os.path.lexists(path):
                return text
    return None


def _data_words(command: CommandLine) -> Iterator[str]:
    """The words of a command, without programs that are found on PATH."""
    for words, _ in simple_commands(command):
        at = program_at(words)
        yield from (word for index, word in enumerate(words) if index != at or "/" in word)
