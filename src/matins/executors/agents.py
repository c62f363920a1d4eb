"""Agents: a run's prompt is told to its agent's tool, in a process tree of its own."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from matins.engine.policies import Policies
from matins.engine.prompts import Fire, build_prompt
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput, ProviderLimited
from matins.executors.errands import Errand, NoWork, Source, claim
from matins.executors.processes.supervisor import Supervisor
from matins.executors.processes.values import Fate, Launch, Limits
from matins.executors.reports import outcome_of
from matins.executors.runners.base import Call, Reader, Runner, Told
from matins.executors.secrets import environment_of
from matins.model.agent import Agent
from matins.model.run import Outcome, ProviderLimit, RunState
from matins.model.thread import Landing
from matins.ports import Clock
from matins.runtime.work import Ended, Work

log = logging.getLogger("matins")
MOST_AT_ONCE = 64
_THREADS = 4
_CHUNK = 1 << 20


class Brief(NamedTuple):
    """What the store knows about a run that is about to be told to an agent."""

    agent: Agent | None
    landing: Landing | None
    previous: RunState | None
    policies: Policies


class Started(NamedTuple):
    work: Work
    runner: Runner
    brief: Brief
    call: Call
    errand: Errand | None = None


class AgentExecutor:
    """A few threads prepare runs and read what came of them; the processes themselves are the supervisor's."""

    def __init__(
        self,
        runners: Mapping[str, Runner],
        supervisor: Callable[[], Supervisor],
        clock: Clock,
        wake: Callable[[], None],
        brief: Callable[[Work], Brief],
        *,
        workdir: str,
        key_prefix: str = "",
        open_source: Callable[[str], Source] | None = None,
    ) -> None:
        self._runners = runners
        self._make_supervisor = supervisor
        self._made: Supervisor | None = None
        self._making = threading.Lock()
        self._clock = clock
        self._wake = wake
        self._brief = brief
        self._workdir = workdir
        self._key_prefix = key_prefix
        self._open_source = open_source
        self._taken: dict[tuple[int, int], Work] = {}
        self._started: dict[tuple[int, int], Started] = {}
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._back: list[Work] = []
        self._cancelled: set[int] = set()
        self._interrupting = False
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._do_tasks, name=f"matins-agents-{n}", daemon=True) for n in range(_THREADS)
            ]
            for thread in self._threads:
                thread.start()

    def stop(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        self._threads = []
        if self._made is not None:
            self._made.close(leave=True)
            self._made = None

    def interrupt(self) -> int:
        self._interrupting = True
        running = list(self._started)
        for run_id, epoch in running:
            self._supervisor.end(run_id, epoch)
        return len(running)

    @property
    def _supervisor(self) -> Supervisor:
        """Made when it is first needed: who wakes no agent has no use for it."""
        with self._making:
            if self._made is None:
                self._made = self._make_supervisor()
            return self._made

    def submit(self, batch: list[Work]) -> None:
        for work in batch:
            self._taken[work.mark] = work
            self._tasks.put(lambda work=work: self._begin(work))

    def adoptable(self, work: Work) -> bool:
        return True

    def adopt(self, works: list[Work]) -> None:
        """Runs of a worker that is gone: what became of them, their journals say."""
        for work in works:
            self._taken[work.mark] = work
            self._tasks.put(lambda work=work: self._take_up(work))

    def drain(self) -> list[Ended]:
        for run_id, epoch, fate in self._made.ended() if self._made else ():
            started = self._started.pop((run_id, epoch), None)
            if started is not None:
                self._tasks.put(lambda started=started, fate=fate: self._conclude(started, fate))
        done: list[Ended] = []
        try:
            while True:
                done.append(self._ended.get_nowait())
        except Empty:
            pass
        for item in done:
            self._taken.pop(item.work.mark, None)
        return done

    def room(self) -> int:
        return MOST_AT_ONCE - len(self._taken)

    def running(self) -> int:
        return len(self._taken)

    def busy(self) -> bool:
        return bool(self._taken)

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        back, self._back = self._back, []
        return back

    def overdue(self) -> list[Work]:
        """Limits are kept where the processes are."""
        return []

    def cancel(self, run_ids: set[int]) -> None:
        self._cancelled |= run_ids
        for run_id, epoch in [mark for mark in self._started if mark[0] in run_ids]:
            self._supervisor.end(run_id, epoch)

    # -- in the threads

    def _do_tasks(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()

    def _begin(self, work: Work) -> None:
        """Whatever is wrong is found before anything is spent."""
        try:
            started, launch = self._prepared(work, self._brief(work))
            self._started[work.mark] = started
            self._supervisor.start(launch)
            if work.run_id in self._cancelled:
                self._supervisor.end(work.run_id, work.epoch)
        except NoWork:
            self._end(work, Outcome(False, nothing_to_do="no_work"))
        except ProviderLimited as error:
            resets_at = None if error.resets_at is None else to_ms(error.resets_at)
            limit = ProviderLimit(error.provider, resets_at, error.reason)
            self._end(work, Outcome(False, error=error.message, limit=limit))
        except InvalidInput as error:
            self._started.pop(work.mark, None)
            hint = f" ({error.hint})" if error.hint else ""
            self._end(work, Outcome(False, error=f"It was not started: {error.message}{hint}"))
        except Exception as error:
            log.exception("run %s could not be started", work.run_id)
            self._started.pop(work.mark, None)
            self._end(work, Outcome(False, error=f"It was not started: {type(error).__name__}: {error}"))

    def _take_up(self, work: Work) -> None:
        try:
            brief = self._brief(work)
            started, _ = self._prepared(work, brief)
            self._started[work.mark] = started
            fate = self._supervisor.reap(work.run_id, work.epoch)
        except Exception as error:  # nothing is known, which is an answer
            log.exception("run %s could not be taken up", work.run_id)
            self._end(work, Outcome(False, error=f"It could not be taken up: {error}", lost=True))
            return
        if fate.kind == "running":
            return  # its end comes like any other
        del self._started[work.mark]
        if fate.kind == "never_started":
            self._taken.pop(work.mark, None)
            self._back.append(work)
            self._wake()
        else:
            self._conclude(started, fate)

    def _prepared(self, work: Work, brief: Brief) -> tuple[Started, Launch]:
        agent, words = brief.agent, work.known.definition
        if agent is None:
            raise InvalidInput(
                f'There is no agent "{work.known.agent}"', field="agent", hint="set_agent, or name another"
            )
        runner = self._runners.get(agent.runner)
        if runner is None:
            known = ", ".join(sorted(self._runners))
            raise InvalidInput(f'There is no runner "{agent.runner}"', field="runner", hint=f"known: {known}")
        errand = self._errand(work)
        call = self._call(work, agent, brief, runner, errand)
        runner.refuse(call)
        command = runner.command(call)
        environment = environment_of(agent.environment, command.env_add, command.env_drop)
        argv = (_found(command.argv[0], environment.values.get("PATH")), *command.argv[1:])
        launch = Launch(
            work.run_id,
            work.epoch,
            argv,
            environment.values,
            call.workdir,
            command.stdin,
            Limits(words.timeout_ms or agent.wall_ms, agent.idle_ms, agent.after_final_ms),
            environment.secrets,
            command.finals,
        )
        return Started(work, runner, brief, call, errand), launch

    def _errand(self, work: Work) -> Errand | None:
        name = work.known.definition.work
        if name is None or self._open_source is None:
            return None
        return claim(self._open_source, name, f"{self._key_prefix}-{work.run_id}", self._clock)

    def _call(self, work: Work, agent: Agent, brief: Brief, runner: Runner, errand: Errand | None) -> Call:
        words = work.known.definition
        workdir = str(Path(agent.workdir).expanduser()) if agent.workdir else self._workdir
        if not Path(workdir).is_dir():
            raise InvalidInput(f"{workdir} is not a folder", value=workdir, field="workdir", hint=f"mkdir -p {workdir}")
        session = brief.landing.thread.session if brief.landing else None
        cap = min((cost for cost in (words.max_cost, agent.max_cost) if cost is not None), default=None)
        return Call(
            prompt=build_prompt(words.prompt, fire_of(work, brief)._replace(work=errand.item if errand else None)),
            workdir=workdir,
            model=agent.model,
            session=session,
            new_session=_new_session(work) if runner.chooses_session and session is None else None,
            permission_mode=agent.permission_mode,
            allowed_tools=agent.tools,
            max_turns=agent.max_turns,
            max_cost_usd=None if cap is None else cap / 1_000_000,
            extra_args=agent.command + agent.arguments,
        )

    def _conclude(self, started: Started, fate: Fate) -> None:
        work = started.work
        try:
            told = self._read(started, fate)
            now = self._clock.now_ms()
            outcome = outcome_of(started.call, told, fate, started.brief.landing, started.brief.policies, now)
            if outcome.cancelled and self._interrupting and work.run_id not in self._cancelled:
                outcome = replace(outcome, cancelled=False, interrupted=True)
            if started.errand is not None:
                untold = started.errand.report(outcome, self._clock)
                about = {"item": started.errand.item.id, "source": started.errand.item.source, "untold": untold}
                outcome = replace(outcome, result={**outcome.result, "work": about})
        except Exception as error:  # what it did is done; that we cannot read it must not hold it for ever
            log.exception("what run %s said cannot be read", work.run_id)
            outcome = Outcome(False, error=f"What it said cannot be read: {type(error).__name__}: {error}", lost=True)
        self._end(work, outcome)

    def _read(self, started: Started, fate: Fate) -> Told:
        """Feed the reader all that is kept: the head, and where more was said than that, the tail as well."""
        work, reader = started.work, started.runner.reader()
        rest, offset = b"", 0
        while chunk := self._supervisor.read_output(work.run_id, work.epoch, offset, _CHUNK):
            offset += len(chunk)
            rest = _feed(reader, rest + chunk)
        if fate.truncated:  # the final event stands at the end
            tail = self._supervisor.tail(work.run_id, work.epoch)
            missing = fate.stdout_bytes - offset - len(tail)
            rest = _feed(reader, rest + tail[-missing:] if missing <= 0 else tail.partition(b"\n")[2])
        if rest:
            reader.feed(rest)
        told = reader.close(fate.exit_code)
        landing = started.brief.landing if started.call.session else None  # a new session counts from nothing
        return told.of_run(landing.thread.tokens if landing else (0, 0, 0))

    def _end(self, work: Work, outcome: Outcome) -> None:
        self._cancelled.discard(work.run_id)
        self._ended.put(Ended(work, outcome))
        self._wake()


_SESSIONS = uuid.UUID("6d617469-6e73-5e55-9e55-696f6e000000")


def _feed(reader: Reader, data: bytes) -> bytes:
    """Whole lines; what is left of the last one."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        reader.feed(line)
    return rest


def _new_session(work: Work) -> str:
    return str(uuid.uuid5(_SESSIONS, f"{work.run_id}-{work.epoch}"))


def fire_of(work: Work, brief: Brief) -> Fire:
    known = work.known
    local = None if work.slot is None else known.rule.trigger.local(work.slot).isoformat()
    late = 0 if work.slot is None else max(0, work.started_at - work.slot)
    previous = None if brief.previous is None else brief.previous.word
    return Fire(known.name, known.agent, work.run_id, work.attempt, local, late, work.covered, previous)


def _found(program: str, path: str | None) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        hint = "install it, or give its full path"
        raise InvalidInput(f'"{program}" is not on PATH', value=program, field="runner", hint=hint)
    return found
