"""Prepares a run: request, command and launch. Problems are found here, before anything is spent (`Preparation`).

`run_variables`: how a process knows its run and reaches Matins. `setup_command`: settings of a tool; the engine writes
none of them, and none goes into the workdir.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matins.engine.answers import SILENCE, asks_for_silence
from matins.engine.inputs import variables_of
from matins.engine.jobs import full_prompt, parse_inputs, retries_unknown
from matins.engine.prompts import build_prompt, fenced, render
from matins.engine.settings import ParseContext
from matins.engine.targets import closing_text
from matins.errors import InvalidInput, MatinsError
from matins.executors.agent_checks import (
    agent_call,
    check_errand,
    check_isolation,
    check_services,
    check_workdir,
    find_program,
    known_agent,
    known_runner,
)
from matins.executors.commands import Commands
from matins.executors.inside import script
from matins.executors.isolation import Isolation, account_of, account_variables
from matins.executors.metering import SessionMeter, session_meter
from matins.executors.processes.launch import Account, Launch, Limits
from matins.executors.processes.walls import Layout
from matins.executors.registry import JobRegistry
from matins.executors.runners.outcomes import EventReader
from matins.executors.runners.protocol import (
    Answer,
    AnyRunner,
    Command,
    EndpointRunner,
    MatinsServer,
    Reader,
    RunInfo,
    RunnerRequest,
    ToolSettings,
    fences,
)
from matins.executors.runners.request_checks import check_effort
from matins.executors.runners.session_files import check_session
from matins.executors.secrets import Environment, environment_of
from matins.executors.work_items import HeldWorkItem, ItemChanged, NoWork, WorkSource, claim_item, find_held, source_of
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.job import Brief, Errand, ErrandPlace, JobType
from matins.model.run import Outcome, Thread
from matins.model.schedule import ScheduleDefinition
from matins.runtime.agent_folders import folder_of, is_own_folder, make_own_folder, own_folder
from matins.runtime.approval_requests import shown_item
from matins.runtime.attempt import Attempt
from matins.runtime.message_runs import prompt_context
from matins.runtime.run_context import RunContext, RunContexts

IN_RUN, URL, TOKEN = "MATINS_IN_RUN", "MATINS_URL", "MATINS_TOKEN"
_PROGRAMS = str(Path(__file__).with_name("bin"))
"""The folder that has `matins` and nothing else: an agent must not find the `pip` of Matins' own environment."""


class Address(NamedTuple):
    """How a run reaches Matins."""

    url: str
    token: str


def run_variables(run: RunInfo, agent: str, address: Address | None) -> Mapping[str, str]:
    """The variables of a run. Without an address, as in a library without a server, the run cannot call Matins."""
    variables = {
        IN_RUN: "1",
        "MATINS_RUN_ID": str(run.run_id),
        "MATINS_SCHEDULE": run.schedule,
        "MATINS_AGENT": agent,
        "MATINS_SLOT": run.slot or "",
        "MATINS_ATTEMPT": str(run.attempt),
        "MATINS_KEY": run.key,
    }
    if run.trace is not None:
        variables["TRACEPARENT"] = run.trace
    return variables if address is None else {**variables, URL: address.url, TOKEN: address.token}


def with_own_program(path: str | None) -> Mapping[str, str]:
    """The variables with which a process finds `matins`, after all programs of its own PATH."""
    return {"PATH": os.pathsep.join([path or os.defpath, _PROGRAMS]), "MATINS_PYTHON": sys.executable}


_SCRIPT = script("tool_setup")
_IF_VISIBLE = """
[ -x "$1" ] && exec "$@"
shift 5
unset MATINS_TOOL_SETTINGS
echo "$1 starts without the tools of Matins: this account cannot run its Python." >&2
exec "$@"
"""


def setup_command(account: Account | None) -> tuple[str, ...]:
    """The words before the tool's command: they write its settings with the rights of the run, then become the tool."""
    return _SCRIPT if account is None else ("/bin/sh", "-c", _IF_VISIBLE, "matins", *_SCRIPT)


def setup_variables(path: str, settings: ToolSettings, given: Mapping[str, str]) -> dict[str, str]:
    """What those words must know, but for the tool: the settings, and where they are written, without an extension."""
    locale = {name: text for name, text in given.items() if name == "LC_CTYPE"}
    document = {**settings._asdict(), "path": path, "locale": locale}
    return {"MATINS_TOOL_SETTINGS": json.dumps(document)}


log = logging.getLogger("matins")
_MAX_EARLIER_LENGTH = 200_000
_SESSIONS = uuid.UUID("6d617469-6e73-5e55-9e55-696f6e000000")
_ASK_MS = 60_000
"""How long a tool may take to print its options."""
_KEEPS_NO_SESSION = Command((), b"")


class Prepared(NamedTuple):
    attempt: Attempt
    runner: AnyRunner
    context: RunContext
    call: RunnerRequest
    limits: Limits
    held_item: HeldWorkItem | None = None
    command: Command | None = None
    """None for a call to an endpoint."""
    launch: Launch | None = None
    """None also for a run that another engine started."""
    meter: SessionMeter = SessionMeter()
    errand: Errand | None = None

    @property
    def ends_by_itself(self) -> bool:
        """Whether the exit code alone decides the outcome: there is no final event."""
        return self.command is not None and not self.command.finals

    @property
    def session_unknown(self) -> tuple[bytes, ...]:
        """The tool's messages for an unknown session."""
        return () if self.command is None else self.command.session_unknown

    def reader(self) -> Reader:
        if isinstance(self.runner, EndpointRunner):
            raise InvalidInput(
                f"The agent now has the runner {self.runner.name}, which starts no process.", field="runner"
            )
        reader = self.runner.reader()
        if isinstance(reader, EventReader):
            reader.notes.show(self.call.prompt)
        return reader


class Preparation:
    def __init__(
        self,
        runners: Mapping[str, AnyRunner],
        clock: Clock,
        loader: RunContexts,
        workdir: str,
        isolation: Isolation,
        commands: Commands,
        url: str | None = None,
        jobs: JobRegistry | None = None,
    ) -> None:
        self._runners = runners
        self._jobs = jobs or JobRegistry()
        self._clock = clock
        self._loader = loader
        self._workdir = workdir
        self._isolation = isolation
        self._commands = commands
        self._url = url
        """The address of the API; None without a server."""

    def prepare(self, attempt: Attempt, context: RunContext) -> Prepared:
        agent, runner = self._agent_and_runner(attempt, context)
        check_services(self._job(attempt), self._jobs)
        held_item = self._claim_item(attempt, context)
        try:
            return self._build(attempt, context, agent, runner, held_item)
        except (MatinsError, NoWork, OSError):
            if held_item is not None:  # no run will work on the item
                held_item.report(Outcome(False, cancelled=True), self._clock)
            raise

    def recall(self, attempt: Attempt, context: RunContext) -> Prepared:
        """The preparation of a run that another engine started: enough to read its output."""
        agent, runner = self._agent_and_runner(attempt, context)
        if isinstance(runner, EndpointRunner):
            call = self._call(attempt, agent, context, runner, None)
            return Prepared(attempt, runner, context, call, _limits(attempt, agent, context))
        held_item, errand = self._find_held_item(attempt, context), self._errand(attempt, agent)
        call = _moved(self._call(attempt, agent, context, runner, held_item), errand)
        command = runner.command(call)
        call = _with_known_environment(call, agent)
        call = replace(call, ask=partial(self._ask, agent, folder_of(agent, self._workdir), call.environment))
        meter = session_meter(runner, call, context.assignment, attempt.started_at)
        limits = _limits(attempt, agent, context)
        return Prepared(attempt, runner, context, call, limits, held_item, command, meter=meter, errand=errand)

    def _agent_and_runner(self, attempt: Attempt, context: RunContext) -> tuple[Agent, AnyRunner]:
        agent = known_agent(context.agent, attempt.compiled.agent)
        return agent, known_runner(agent, self._runners)

    def _build(
        self, attempt: Attempt, context: RunContext, agent: Agent, runner: AnyRunner, held_item: HeldWorkItem | None
    ) -> Prepared:
        limits = _limits(attempt, agent, context)
        folder = folder_of(agent, self._workdir)
        if is_own_folder(agent):
            self._make_own_folder(agent)
        check_workdir(folder)
        resolved = _with_account(environment_of(agent.environment, {}, ()), agent)
        errand = self._errand(attempt, agent)
        check_errand(errand, agent, runner)
        brief = Brief() if errand is None else errand.begin()
        if brief is None:
            raise NoWork
        if errand is not None and errand.folder is not None:
            self._make_own_folder(agent)
        call = _moved(self._call(attempt, agent, context, runner, held_item), errand, brief.material)
        server = self._server(agent)
        ask = partial(self._ask, agent, folder, resolved.values)
        call = replace(call, environment=resolved.values, secrets=resolved.secrets, server=server, ask=ask)
        if call.effort is not None:
            check_effort(runner, call.effort)
        runner.check(call)
        if isinstance(runner, EndpointRunner):
            if runner.chooses_session:
                check_session(call, context.assignment, _KEEPS_NO_SESSION)
            return Prepared(attempt, runner, context, call, limits, held_item, errand=errand)
        command = runner.command(call)
        check_session(call, context.assignment, command)
        launch = self._launch(attempt, agent, call, command, limits, brief.command)
        meter = session_meter(runner, call, context.assignment)
        return Prepared(attempt, runner, context, call, limits, held_item, command, launch, meter, errand)

    def _launch(
        self,
        attempt: Attempt,
        agent: Agent,
        call: RunnerRequest,
        command: Command,
        limits: Limits,
        before: tuple[str, ...],
    ) -> Launch:
        """The process of the run; `before` stands before its program."""
        environment, folder = self._environment(attempt, agent, call, command), folder_of(agent, self._workdir)
        program = find_program(command.argv[0], environment.values.get("PATH"), folder)
        if command.settings is not None:
            before = (*before, *setup_command(account_of(agent)))
        return Launch(
            attempt.run_id,
            attempt.epoch,
            (*before, program, *command.argv[1:]),
            environment.values,
            folder,
            command.stdin,
            limits,
            environment.secrets,
            command.finals,
            command.retries,
            command.stdout_file,
            layout=None if self._is_owners(attempt, agent) else self._layout(agent, folder),
            account=account_of(agent),
            durable=not retries_unknown(attempt.compiled.definition),
        )

    def _ask(
        self, agent: Agent, folder: str, environment: Mapping[str, str], argv: tuple[str, ...], *,
        timeout_ms: int = _ASK_MS, memory_bytes: int | None = None,
    ) -> Answer:  # fmt: skip
        """What a command writes, started as the agent's runs are."""
        result = self._commands.run(
            argv, context={}, variables=environment, workdir=folder, limit_ms=timeout_ms, memory_bytes=memory_bytes,
            layout=self._layout(agent, folder), account=account_of(agent),
        )  # fmt: skip
        return Answer(result.exit_code, result.output, result.errors)

    def _server(self, agent: Agent) -> MatinsServer | None:
        """The tools of Matins for a run; None without an API, or where the agent has none."""
        if self._url is None or not agent.mcp:
            return None
        return MatinsServer(f"{self._url}/mcp/run", (sys.executable, "-P", "-m", "matins", "mcp"))

    def _environment(self, attempt: Attempt, agent: Agent, call: RunnerRequest, command: Command) -> Environment:
        values, secrets = environment_of(agent.environment, command.env_add, command.env_remove)
        is_owners = self._is_owners(attempt, agent)
        address = None if self._url is None or is_owners else Address(self._url, self._loader.run_token(attempt))
        values.update(_account_variables(agent))
        if call.run_info.input is not None:
            values.update(variables_of(call.run_info.input))
        values.update(run_variables(call.run_info, agent.name, address))
        if is_owners:
            del values[IN_RUN]
        if address is not None:
            values.update(with_own_program(values.get("PATH")))
        if command.settings is not None:
            values.update(setup_variables(self._settings_path(agent, values), command.settings, values))
        return Environment(values, secrets if address is None else (*secrets, address.token))

    def _settings_path(self, agent: Agent, variables: Mapping[str, str]) -> str:
        """Where its tool has settings of its own. An agent of another account may not see the folders of Matins."""
        own = Path(self._workdir, own_folder(agent.name)).absolute()
        if account_of(agent) is not None:
            return str(Path(variables["HOME"], ".matins", own.name, agent.runner))
        self._make_own_folder(agent)
        return str(own / ".matins" / agent.runner)

    def _is_owners(self, attempt: Attempt, agent: Agent) -> bool:
        """Whether the run is the owner's own program: a command that a person set, without walls or an account. It may
        work in the home and above it, and calls Matins as the owner, as hooks do."""
        owners = attempt.compiled.creator is None and attempt.compiled.definition.command is not None
        return owners and account_of(agent) is None and agent.isolation == "none"

    def _layout(self, agent: Agent, folder: str) -> Layout | None:
        """What the run does not see; None when it is not isolated."""
        check_isolation(self._isolation, agent, folder)
        return self._isolation.layout(agent, folder, str(Path(self._workdir, own_folder(agent.name))))

    def _claim_item(self, attempt: Attempt, context: RunContext) -> HeldWorkItem | None:
        source = self._source(attempt, context)
        if source is None:
            return None
        held = claim_item(source, attempt.key, self._clock)
        if context.approval is not None and shown_item(held.item) != context.approval.request.get("work_item"):
            raise ItemChanged
        return held

    def _find_held_item(self, attempt: Attempt, context: RunContext) -> HeldWorkItem | None:
        """The work item of the run, by its key. A missing item does not stop the run."""
        try:
            source = self._source(attempt, context)
            return None if source is None else find_held(source, attempt.key, self._clock)
        except MatinsError as error:
            log.warning("run %s continues without its work item: %s", attempt.run_id, error)
            return None

    def _errand(self, attempt: Attempt, agent: Agent) -> Errand | None:
        """What the job of the run does around its agent, if it does anything."""
        definition = attempt.compiled.definition
        return errand_of(definition, agent, self._job(attempt), attempt.key, self._workdir, attempt.started_at)

    def _make_own_folder(self, agent: Agent) -> None:
        make_own_folder(agent.name, self._workdir, _owner(agent))

    def _job(self, attempt: Attempt) -> JobType | None:
        return self._jobs.get(attempt.compiled.definition.job)

    def _source(self, attempt: Attempt, context: RunContext) -> WorkSource | None:
        if context.sent:
            return None
        compiled = attempt.compiled
        return source_of(
            compiled.definition, compiled.agent, context.policies, self._jobs, self._workdir, attempt.started_at
        )

    def _call(
        self, attempt: Attempt, agent: Agent, context: RunContext, runner: AnyRunner, held_item: HeldWorkItem | None
    ) -> RunnerRequest:
        compiled, definition = attempt.compiled, attempt.compiled.definition
        session = context.assignment.thread.session if context.assignment else None
        cap = min((cost for cost in (definition.max_cost, agent.max_cost) if cost is not None), default=None)
        fire = prompt_context(attempt, context.previous_state, context.steps)._replace(call=context.call)
        fire = fire._replace(work=held_item.item if held_item else context.item)
        if definition.command is not None:
            prompt = render(definition.stdin or "", fire, fences=False)
        else:
            prefix = definition.prompt_prefix
            prompt = build_prompt(full_prompt(definition), fire, prefix=prefix, fences=fences(runner))
            if fences(runner) and asks_for_silence(definition, compiled.agent, context.policies):
                prompt = f"{prompt}\n\n{SILENCE}"
        if context.assignment is not None:
            prompt = _in_conversation(prompt, context.assignment.thread, attempt)
        folder, hosts = folder_of(agent, self._workdir), context.policies.allowed_hosts
        new_session = None
        if runner.chooses_session and session is None:
            new_session = str(uuid.uuid5(_SESSIONS, f"{attempt.run_id}-{attempt.epoch}"))
        return replace(
            agent_call(agent, prompt, folder, hosts),
            model=definition.model or agent.model,
            effort=definition.effort or agent.effort,
            session=session,
            new_session=new_session,
            max_cost_usd=None if cap is None else cap / 1_000_000,
            run_info=RunInfo(
                attempt.run_id,
                compiled.schedule_id,
                compiled.name,
                fire.slot,
                attempt.number,
                attempt.key,
                fire.input,
                context.trace,
            ),
            owner=_owner(agent),
            earlier=self._earlier(attempt, context) if isinstance(runner, EndpointRunner) else (),
        )

    def _earlier(self, attempt: Attempt, context: RunContext) -> tuple[tuple[str, str], ...]:
        """The last messages of the thread, without those of this run. The first is a user's message."""
        if context.assignment is None:
            return ()
        kept: list[tuple[str, str]] = []
        remaining = _MAX_EARLIER_LENGTH
        for message in reversed(self._loader.earlier_messages(attempt, context.assignment.thread.id)):
            remaining -= len(message.text)
            if remaining < 0:
                break
            if message.run_id != attempt.run_id and message.id > context.assignment.thread.fresh_message:
                kept.append((message.role, message.text))
        while kept and kept[-1][0] != "user":
            kept.pop()
        return tuple(reversed(kept))


def errand_of(
    definition: ScheduleDefinition, agent: Agent, job: JobType | None, key: str, workdir: str, started_at: int
) -> Errand | None:
    """What is done around the agent of a run: by its job, or with its worktree."""
    folder, own = folder_of(agent, workdir), str(Path(workdir, own_folder(agent.name)))
    place = ErrandPlace(key, agent.name, folder, own, started_at, bool(definition.attach))
    if job is not None and job.errand is not None:
        return job.errand(parse_inputs(job, definition.payload, ParseContext(started_at)), place)
    if agent.worktree != "per_run":
        return None
    from matins.executors.worktrees import RunWorktree

    return RunWorktree(place)


def _moved(call: RunnerRequest, errand: Errand | None, material: str = "") -> RunnerRequest:
    """The call with the folder of the errand, and its material below the prompt."""
    workdir = call.workdir if errand is None or errand.folder is None else errand.folder
    prompt = f"{call.prompt}\n\n{fenced('material', material)}" if material else call.prompt
    return replace(call, workdir=workdir, prompt=prompt)


def _in_conversation(prompt: str, thread: Thread, attempt: Attempt) -> str:
    """The prompt, with what the conversation before has kept, and what this one must keep if it ends with this run."""
    definition = attempt.compiled.definition
    if thread.kept is not None and thread.fresh_run == attempt.run_id:
        prompt = f"{prompt}\n\nYou kept this from the conversation before:\n{fenced('kept', thread.kept)}"
    if definition.keep is not None and thread.closing_run == attempt.run_id:
        prompt = f"{prompt}\n\n{closing_text(definition.keep)}"
    return prompt


def _with_known_environment(call: RunnerRequest, agent: Agent) -> RunnerRequest:
    """The call with its environment, as far as it can still be resolved."""
    try:
        resolved = environment_of(agent.environment, {}, ())
    except InvalidInput:
        resolved = environment_of((), {}, ())
    resolved = _with_account(resolved, agent)
    return replace(call, environment=resolved.values, secrets=resolved.secrets)


def _with_account(environment: Environment, agent: Agent) -> Environment:
    return environment._replace(values={**environment.values, **_account_variables(agent)})


def _account_variables(agent: Agent) -> dict[str, str]:
    """Those of the account that the owner did not set."""
    own = dict(agent.environment)
    return {name: value for name, value in account_variables(agent).items() if name not in own}


def _owner(agent: Agent) -> int | None:
    account = account_of(agent)
    return None if account is None else account.uid


def _limits(attempt: Attempt, agent: Agent, context: RunContext) -> Limits:
    return Limits(
        attempt.compiled.definition.timeout_ms or agent.timeout_ms,
        agent.idle_timeout_ms,
        agent.exit_timeout_ms,
        memory_bytes=agent.memory,
        cpu_s=agent.cpu_seconds,
        files=agent.open_files,
        processes=agent.processes,
        file_bytes=agent.file_size,
        lease_ms=context.lease_ms,
    )
