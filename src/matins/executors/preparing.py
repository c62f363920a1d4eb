"""What a run needs before it may begin: whatever is wrong is found here, before anything is spent."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matins.engine.policies import Policies
from matins.engine.prompts import build_prompt
from matins.errors import InvalidInput, MatinsError
from matins.executors.errands import Errand, Source, claim, held
from matins.executors.processes.values import Launch, Limits
from matins.executors.runners.base import AnyRunner, Call, Command, Occasion, Reader, Speaker
from matins.executors.runners.sessions import check_session
from matins.executors.secrets import environment_of
from matins.model.agent import Agent
from matins.model.run import Outcome, RunState
from matins.model.thread import Landing, Message
from matins.ports import Clock
from matins.runtime.messages import fire_of
from matins.runtime.work import Work

log = logging.getLogger("matins")
MOST_EARLIER = 100
_EARLIER_ROOM = 200_000
_SESSIONS = uuid.UUID("6d617469-6e73-5e55-9e55-696f6e000000")
_KEEPS_NO_SESSION = Command((), b"")


class Brief(NamedTuple):
    """What the store knows about a run that is about to be told to an agent."""

    agent: Agent | None
    landing: Landing | None
    previous: RunState | None
    policies: Policies
    earlier: Callable[[], list[Message]] = list
    """What was said last in the thread, at most MOST_EARLIER messages."""
    approved: bool = True
    """Whether people said yes to this agent as it is now, where anybody had to."""


class Prepared(NamedTuple):
    work: Work
    runner: AnyRunner
    brief: Brief
    call: Call
    limits: Limits
    errand: Errand | None = None
    command: Command | None = None
    """None where nothing is started, but called."""
    launch: Launch | None = None
    """None also for a run that another engine has started."""

    @property
    def ends_by_itself(self) -> bool:
        """Whether its exit is all that says how it went: it has no final event."""
        return self.command is not None and not self.command.finals

    @property
    def gone(self) -> tuple[bytes, ...]:
        """How its tool says that it does not know a session."""
        return () if self.command is None else self.command.gone

    def reader(self) -> Reader:
        if isinstance(self.runner, Speaker):
            raise InvalidInput(f"its agent's runner is {self.runner.name} now, which starts no process", field="runner")
        return self.runner.reader()


class Preparation:
    def __init__(
        self,
        runners: Mapping[str, AnyRunner],
        clock: Clock,
        *,
        workdir: str,
        key_prefix: str,
        open_source: Callable[[str], Source] | None,
    ) -> None:
        self._runners = runners
        self._clock = clock
        self._workdir = workdir
        self._key_prefix = key_prefix
        self._open_source = open_source

    def prepare(self, work: Work, brief: Brief) -> Prepared:
        agent, runner = self._who(work, brief)
        errand = self._errand(work)
        try:
            return self._prepared(work, brief, agent, runner, errand)
        except MatinsError:
            if errand is not None:  # nobody will work on it now
                errand.report(Outcome(False, cancelled=True), self._clock)
            raise

    def recall(self, work: Work, brief: Brief) -> Prepared:
        """Of a run that another engine has started: what reads its output, whatever has changed around it since."""
        agent, runner = self._who(work, brief)
        if isinstance(runner, Speaker):
            return Prepared(work, runner, brief, self._call(work, agent, brief, runner, None), _limits(work, agent))
        errand = self._errand_again(work)
        call = self._call(work, agent, brief, runner, errand)
        return Prepared(work, runner, brief, call, _limits(work, agent), errand, runner.command(call))

    def _who(self, work: Work, brief: Brief) -> tuple[Agent, AnyRunner]:
        agent = brief.agent
        if agent is None:
            raise InvalidInput(
                f'There is no agent "{work.known.agent}"',
                field="agent",
                hint="Create it: matins agents set; or name another.",
            )
        runner = self._runners.get(agent.runner)
        if runner is None:
            known = ", ".join(sorted(self._runners))
            raise InvalidInput(f'There is no runner "{agent.runner}"', field="runner", hint=f"known: {known}")
        return agent, runner

    def _prepared(self, work: Work, brief: Brief, agent: Agent, runner: AnyRunner, errand: Errand | None) -> Prepared:
        limits = _limits(work, agent)
        folder = folder_of(agent, self._workdir)
        if is_own_folder(agent):
            make_folder(Path(folder))
        check_workdir(folder)
        given = environment_of(agent.environment, {}, ())
        call = self._call(work, agent, brief, runner, errand)
        call = replace(call, environment=given.values, secrets=given.secrets)
        runner.refuse(call)
        if isinstance(runner, Speaker):
            if runner.chooses_session:
                check_session(call, brief.landing, _KEEPS_NO_SESSION)
            return Prepared(work, runner, brief, call, limits, errand)
        command = runner.command(call)
        check_session(call, brief.landing, command)
        environment = environment_of(agent.environment, command.env_add, command.env_drop)
        argv = (found_program(command.argv[0], environment.values.get("PATH")), *command.argv[1:])
        launch = Launch(
            work.run_id,
            work.epoch,
            argv,
            environment.values,
            call.workdir,
            command.stdin,
            limits,
            environment.secrets,
            command.finals,
        )
        return Prepared(work, runner, brief, call, limits, errand, command, launch)

    def _errand(self, work: Work) -> Errand | None:
        name = work.known.definition.work_source
        if name is None or self._open_source is None:
            return None
        return claim(self._open_source, name, self._key(work), self._clock)

    def _errand_again(self, work: Work) -> Errand | None:
        """Its item, by its key. That somebody has taken it away is no reason to leave the run alone."""
        name = work.known.definition.work_source
        if name is None or self._open_source is None:
            return None
        try:
            return held(self._open_source, name, self._key(work), self._clock)
        except MatinsError as error:
            log.warning("run %s goes on without its work item: %s", work.run_id, error)
            return None

    def _key(self, work: Work) -> str:
        return f"{self._key_prefix}-{work.run_id}"

    def _call(self, work: Work, agent: Agent, brief: Brief, runner: AnyRunner, errand: Errand | None) -> Call:
        words = work.known.definition
        session = brief.landing.thread.session if brief.landing else None
        cap = min((cost for cost in (words.max_cost, agent.max_cost) if cost is not None), default=None)
        fire = fire_of(work, brief.previous)
        return Call(
            prompt=build_prompt(words.prompt, fire._replace(work=errand.item if errand else None)),
            workdir=folder_of(agent, self._workdir),
            model=agent.model,
            session=session,
            new_session=_new_session(work) if runner.chooses_session and session is None else None,
            permission_mode=agent.permission_mode,
            allowed_tools=agent.tools,
            max_turns=agent.max_turns,
            max_cost_usd=None if cap is None else cap / 1_000_000,
            extra_args=agent.command + agent.arguments,
            options=agent.options,
            occasion=Occasion(
                work.run_id, work.known.schedule_id, work.known.name, fire.slot, work.attempt, self._key(work)
            ),
            url=agent.url,
            allowed_hosts=brief.policies.allowed_hosts,
            earlier=_earlier(work, brief) if isinstance(runner, Speaker) else (),
        )


def _earlier(work: Work, brief: Brief) -> tuple[tuple[str, str], ...]:
    """The last of what was said there, but not by this very run; it begins with a question."""
    kept: list[tuple[str, str]] = []
    room = _EARLIER_ROOM
    for message in reversed(brief.earlier()):
        room -= len(message.text)
        if room < 0:
            break
        if message.run_id != work.run_id:
            kept.append((message.role, message.text))
    while kept and kept[-1][0] != "user":
        kept.pop()
    return tuple(reversed(kept))


def _limits(work: Work, agent: Agent) -> Limits:
    return Limits(work.known.definition.timeout_ms or agent.timeout_ms, agent.idle_timeout_ms, agent.exit_timeout_ms)


def _new_session(work: Work) -> str:
    return str(uuid.uuid5(_SESSIONS, f"{work.run_id}-{work.epoch}"))


def folder_of(agent: Agent, workdir: str) -> str:
    """Where it works: a relative folder counts from `workdir`, which is where agents work that name none."""
    return str(Path(workdir, Path(agent.workdir or "").expanduser()))


def is_own_folder(agent: Agent) -> bool:
    """Whether its folder is ours to make: any other that is missing may be a slip of the hand."""
    return agent.workdir is not None and Path(agent.workdir).parts == ("agents", agent.name)


def make_folder(folder: Path) -> None:
    """And those above it that are missing: for this user alone."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        hint = "name another folder: workdir"
        raise InvalidInput(f"{folder} cannot be made: {why}", value=str(folder), field="workdir", hint=hint) from error


def check_workdir(folder: str) -> None:
    if not Path(folder).is_dir():
        raise InvalidInput(f"{folder} is not a folder", value=folder, field="workdir", hint=f"mkdir -p {folder}")


def found_program(program: str, path: str | None) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        hint = "install it, or give its full path"
        raise InvalidInput(f'"{program}" is not on PATH', value=program, field="runner", hint=hint)
    return found
