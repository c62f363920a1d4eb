"""Guards, pre-checks and hooks, several at once, each in a thread of its own while it lasts."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from copy import deepcopy
from queue import Empty, SimpleQueue
from typing import Any

from matins.executors.commands import CommandResult, hook_said, kept_reason, run_command
from matins.ports import Clock
from matins.runtime.checks import Check, CheckCommand, Checked, Said

log = logging.getLogger("matins")
Guard = Callable[[dict[str, Any]], Any]
"""Told about a run; what it returns, or awaits to, blocks the run when it is true. A text says why."""
Blocked = Callable[[dict[str, Any], str], Any]
MOST_AT_ONCE = 32
_STOP_S = 3.0
CALL_LIMIT_MS = 15_000
"""How long a guard may take."""


class CommandChecks:
    """Never delays the engine: each check has its thread, up to a number, and beyond it runs wait."""

    def __init__(
        self,
        clock: Clock,
        wake: Callable[[], None],
        *,
        guard: Guard | None = None,
        on_blocked: Blocked | None = None,
        workdir: str | None = None,
    ) -> None:
        self._clock = clock
        self._wake = wake
        self.guarded = guard is not None
        self._guard = guard
        self._on_blocked = on_blocked
        self._workdir = workdir
        self._done: SimpleQueue[Checked] = SimpleQueue()
        self._under_way = 0
        self._counting = threading.Lock()
        self._fewer = threading.Condition(self._counting)
        self._stopped = threading.Event()

    def room(self) -> int:
        return MOST_AT_ONCE - self._under_way

    def submit(self, batch: list[Check]) -> None:
        with self._counting:
            self._under_way += len(batch)
        for check in batch:
            threading.Thread(target=self._run, args=(check,), name=f"matins-check-{check.run_id}", daemon=True).start()

    def drain(self) -> list[Checked]:
        done: list[Checked] = []
        try:
            while True:
                done.append(self._done.get_nowait())
        except Empty:
            return done

    def stop(self) -> None:
        """What is under way is ended; what it would have said is asked again by whoever runs next."""
        self._stopped.set()
        with self._fewer:
            self._fewer.wait_for(lambda: not self._under_way, timeout=_STOP_S)

    def _run(self, check: Check) -> None:
        try:
            self._done.put(self.answer(check))
        finally:
            with self._counting:
                self._under_way -= 1
                self._fewer.notify_all()
            self._wake()

    def answer(self, check: Check) -> Checked:
        """Whatever goes wrong, the run is answered."""
        try:
            return self._check(check)
        except BaseException as error:
            log.exception("run %s could not be checked", check.run_id)
            return Checked(check, (Said("guard", "block", kept_reason(f"it could not be checked: {error}")),))

    def _check(self, check: Check) -> Checked:
        """One after the other, until one is against it."""
        said: list[Said] = []
        if self._guard is not None:
            said.append(self._ask_guard(self._guard, check.context))
        for command in check.commands:
            if said and said[-1].saying != "pass":
                break
            said.append(self._ask_command(command, check))
        if self._on_blocked is not None and said and said[-1].saying == "block":
            tell, reason = self._on_blocked, said[-1].reason or "blocked"
            self._aside(lambda: tell(deepcopy(check.context), reason))
        return Checked(check, tuple(said))

    def _ask_guard(self, guard: Guard, context: dict[str, Any]) -> Said:
        began = self._clock.boot_ms()
        try:
            answer = self._called(lambda: guard(deepcopy(context)))
        except BaseException as error:  # a guard that fails guards: nothing starts past it, and the reason is told
            log.exception("the guard failed")
            answer = f"the guard failed: {type(error).__name__}: {error}"
        took = self._clock.boot_ms() - began
        if not answer:
            return Said("guard", "pass", None, took)
        return Said("guard", "block", kept_reason(answer) if isinstance(answer, str) else "the guard said no", took)

    def _aside(self, function: Callable[[], Any]) -> None:
        """Nobody waits for it."""
        threading.Thread(target=tell_quietly, args=(function,), name="matins-blocked", daemon=True).start()

    def _called(self, function: Callable[[], Any]) -> Any:
        """What a function returns or awaits to. One that does not return in time is left alone: no thread can be ended
        from outside."""
        future: Future[Any] = Future()
        threading.Thread(target=_fulfil, args=(future, function), name="matins-guard", daemon=True).start()
        try:
            return future.result(CALL_LIMIT_MS / 1000)
        except TimeoutError:
            if future.done():  # its own error, of the same name
                raise
            raise TimeoutError(f"it did not answer within {CALL_LIMIT_MS / 1000:g} s") from None

    def _ask_command(self, command: CheckCommand, check: Check) -> Said:
        result = run_command(
            command.command,
            context=check.context,
            variables=_variables(command, check),
            workdir=self._workdir,
            limit_ms=command.limit_ms,
            stopped=self._stopped.is_set,
        )
        said = hook_said(result)
        saying = "skip" if said.cancelled else "pass"
        return Said(command.kind, saying, said.reason, result.duration_ms, result.exit_code, printed(result))


def printed(result: CommandResult) -> str:
    """What a command printed, as it is kept."""
    return result.output + (f"\n[errors]\n{result.errors}" if result.errors else "")


def _variables(command: CheckCommand, check: Check) -> dict[str, str]:
    return {
        "PRECHECK_LAST_RUN": str(check.last_run or 0),
        "MATINS_EVENT": "pre_check" if command.kind == "pre_check" else str(check.context["event"]),
        "MATINS_SCHEDULE": check.known.name,
        "MATINS_AGENT": check.known.agent,
        "MATINS_RUN_ID": str(check.run_id),
        "MATINS_SLOT": "" if check.slot is None else str(check.slot),
    }


def awaited(answer: Any) -> Any:
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


def tell_quietly(function: Callable[[], Any]) -> None:
    try:
        awaited(function())
    except BaseException:  # it is told, and changes nothing
        log.exception("the on_blocked callback failed")


def _fulfil(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(awaited(function()))
    except BaseException as error:
        future.set_exception(error)
