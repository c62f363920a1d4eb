"""Guards, pre-checks and hooks. Each check runs in its own thread."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from copy import deepcopy
from queue import SimpleQueue
from typing import Any

from matins.engine.inputs import variables_of
from matins.engine.reasons import changed_text
from matins.errors import MatinsError
from matins.executors.commands import AgentCommands, CommandResult, CommandsOfRun, hook_reply, storable_reason
from matins.executors.registry import JobRegistry
from matins.executors.work_items import WorkSourceUnavailable, give_back, named_source, source_of
from matins.model.clock import Clock
from matins.runtime.checks import Check, CheckCommand, CheckedRun, CheckResult, ItemClaim
from matins.runtime.command_files import files_run_by
from matins.runtime.signals import drained

log = logging.getLogger("matins")
Guard = Callable[[dict[str, Any]], Any]
"""A function of the run's context. A true result, also awaited, blocks the run; a string is the reason."""
OnBlocked = Callable[[dict[str, Any], str], Any]
MAX_CONCURRENT = 32
_STOP_S = 3.0
GUARD_TIMEOUT_MS = 15_000
"""Time limit of a guard."""


class CheckExecutor:
    """Runs checks without delaying the engine. The number of threads is limited; further runs wait."""

    def __init__(
        self,
        clock: Clock,
        wake: Callable[[], None],
        commands: AgentCommands,
        *,
        guard: Guard | None = None,
        on_blocked: OnBlocked | None = None,
        workdir: str | None = None,
        jobs: JobRegistry | None = None,
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._commands = commands
        self.guarded = guard is not None
        self._guard = guard
        self._on_blocked = on_blocked
        self._workdir = workdir
        self._jobs = jobs or JobRegistry()
        self._results: SimpleQueue[CheckedRun] = SimpleQueue()
        self._running = 0
        self._counting = threading.Lock()
        self._ended = threading.Condition(self._counting)

    def capacity(self) -> int:
        return MAX_CONCURRENT - self._running

    def submit(self, batch: list[Check]) -> None:
        with self._counting:
            self._running += len(batch)
        for check in batch:
            threading.Thread(target=self._run, args=(check,), name=f"matins-check-{check.run_id}", daemon=True).start()

    def drain(self) -> list[CheckedRun]:
        return [] if self._results.empty() else drained(self._results)

    def stop(self) -> None:
        """End the running checks. The next engine runs them again."""
        self._commands.end_all()
        with self._ended:
            self._ended.wait_for(lambda: not self._running, timeout=_STOP_S)

    def _run(self, check: Check) -> None:
        try:
            self._results.put(self.answer(check))
        finally:
            with self._counting:
                self._running -= 1
                self._ended.notify_all()
            self._wake()

    def answer(self, check: Check) -> CheckedRun:
        """The result of the check. A failing check blocks the run."""
        try:
            return self._check(check)
        except BaseException as error:
            log.exception("run %s could not be checked", check.run_id)
            return CheckedRun(check, (CheckResult("guard", "block", storable_reason(f"the check failed: {error}")),))

    def _check(self, check: Check) -> CheckedRun:
        """Run the checks one by one, until one fails."""
        if check.claim is not None:
            return self._claim(check, check.claim)
        results: list[CheckResult] = []
        if self._guard is not None:
            results.append(self._call_guard(self._guard, check.context))
        commands = self._commands.of(check.compiled.agent, check.policies)
        for command in check.commands:
            if results and results[-1].verdict != "pass":
                break
            results.append(self._run_check(command, check, commands))
        if self._on_blocked is not None and results and results[-1].verdict == "block":
            on_blocked, reason = self._on_blocked, results[-1].reason or "blocked"
            self._in_background(lambda: on_blocked(deepcopy(check.context), reason))
        return CheckedRun(check, tuple(results))

    def _in_background(self, function: Callable[[], Any]) -> None:
        """Checks that run inline call it at once."""
        threading.Thread(target=call_logged, args=(function,), name="matins-blocked", daemon=True).start()

    def _call_guard(self, guard: Guard, context: dict[str, Any]) -> CheckResult:
        started = self._clock.boot_ms()
        try:
            answer = self._result_of(lambda: guard(deepcopy(context)))
        except BaseException as error:  # a guard that fails blocks the run, and the reason is recorded
            log.exception("the guard failed")
            answer = f"the guard failed: {type(error).__name__}: {error}"
        duration_ms = self._clock.boot_ms() - started
        if not answer:
            return CheckResult("guard", "pass", None, duration_ms)
        return CheckResult(
            "guard",
            "block",
            storable_reason(answer) if isinstance(answer, str) else "the guard blocked the run",
            duration_ms,
        )

    def _result_of(self, function: Callable[[], Any]) -> Any:
        """The result of the function, awaited if needed. A late one is left running: threads cannot be ended."""
        future: Future[Any] = Future()
        threading.Thread(target=_complete, args=(future, function), name="matins-guard", daemon=True).start()
        try:
            return future.result(GUARD_TIMEOUT_MS / 1000)
        except TimeoutError:
            if future.done():  # the function raised a TimeoutError itself
                raise
            raise TimeoutError(f"no answer within {GUARD_TIMEOUT_MS / 1000:g} s") from None

    def _claim(self, check: Check, claim: ItemClaim) -> CheckedRun:
        """The work item of the run, with which a person is asked. After a crash, the same run gets it again."""
        started, workdir, now = self._clock.boot_ms(), self._workdir or ".", self._clock.now_ms()
        try:
            compiled = check.compiled
            source = source_of(compiled.definition, compiled.agent, check.policies, self._jobs, workdir, now)
            if claim.former is not None and (source is None or source.name != claim.former):
                give_back(named_source(claim.former, check.policies, workdir), claim.run_key, now)
            item = None if source is None else source.claim(claim.run_key, now)
        except MatinsError as error:
            log.warning("run %s has no work item yet: %s", check.run_id, error)
            # Asked again, what is wrong stays so: the card has no item then, and no run starts with one unseen.
            verdict = "again" if isinstance(error, WorkSourceUnavailable) else "pass"
            duration_ms = self._clock.boot_ms() - started
            return CheckedRun(check, (CheckResult("work_item", verdict, storable_reason(error.message), duration_ms),))
        duration_ms = self._clock.boot_ms() - started
        if source is not None and item is None:
            return CheckedRun(check, (CheckResult("work_item", "skip", "there was no work", duration_ms),))
        return CheckedRun(check, (CheckResult("work_item", "pass", None, duration_ms),), item)

    def _run_check(self, command: CheckCommand, check: Check, commands: CommandsOfRun) -> CheckResult:
        files = files_run_by([command.command], self._workdir, check.files)
        changed = [path for path, content in files.items() if check.files.get(path) != content]
        if changed:
            return CheckResult(command.kind, "changed", storable_reason(changed_text(changed)))
        result = commands.run(
            command.command,
            context=check.context,
            variables=_variables(command, check),
            limit_ms=command.timeout_ms,
            find_first=True,
        )
        reply = hook_reply(result)
        verdict = "skip" if reply.cancelled else "pass"
        return CheckResult(command.kind, verdict, reply.reason, result.duration_ms, result.exit_code, printed(result))


def printed(result: CommandResult) -> str:
    """The output of a command, as it is stored."""
    return result.output + (f"\n[errors]\n{result.errors}" if result.errors else "")


def _variables(command: CheckCommand, check: Check) -> dict[str, str]:
    return variables_of(check.compiled.input) | {
        "PRECHECK_LAST_RUN": "" if check.last_run is None else str(check.last_run),
        "MATINS_EVENT": "pre_check" if command.kind == "pre_check" else str(check.context["event"]),
        "MATINS_SCHEDULE": check.compiled.name,
        "MATINS_AGENT": check.compiled.agent,
        "MATINS_RUN_ID": str(check.run_id),
        "MATINS_SLOT": "" if check.slot is None else str(check.slot),
    }


def awaited(answer: Any) -> Any:
    """The answer of a function, awaited if it is an async one. Programs without those need not load asyncio."""
    if not inspect.iscoroutine(answer):
        return answer
    import asyncio

    return asyncio.run(answer)


def call_logged(function: Callable[[], Any]) -> None:
    try:
        awaited(function())
    except BaseException:  # a failing callback is logged and changes nothing
        log.exception("the on_blocked callback failed")


def _complete(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(awaited(function()))
    except BaseException as error:
        future.set_exception(error)
