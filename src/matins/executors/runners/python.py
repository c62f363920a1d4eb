"""A Python function as an agent: `package.module:function` gets the prompt, in its own process tree."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.inside import function_call
from matins.executors.runners.endpoints import Kinds, check_options
from matins.executors.runners.outcomes import StreamNotes, conclude, instant
from matins.executors.runners.protocol import Command, Limit, RunnerRequest, RunnerResult
from matins.executors.runners.request_checks import check_call, check_unused
from matins.executors.runners.tool_events import Event, read_event, shorten, storable

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_EXAMPLE = 'command=["package.module:function"]'

OPTIONS: Kinds = {"interpreter": (str,)}


class Python:
    name = "python"
    program = sys.executable
    provider = "python"
    options = OPTIONS
    chooses_session = False
    reports = ()

    def check(self, call: RunnerRequest) -> None:
        check_call(call)
        if len(call.extra_args) != 1 or not _NAME.fullmatch(call.extra_args[0]):
            message = f"The command of a Python agent must be one function, not {list(call.extra_args)}."
            raise InvalidInput(message, value=call.extra_args, field="command", hint=_EXAMPLE)
        hint = "Omit it: a function gets the prompt and the environment."
        for field in ("model", "session", "permission_mode", "allowed_tools", "max_turns"):
            check_unused(field, getattr(call, field), "A function", f'does not support "{field}"', hint)
        check_options(call, self.options)
        if self._interpreter(call) == self.program:  # only another interpreter knows its own modules
            given = call.environment.get("PYTHONPATH", "").split(os.pathsep)
            _check_module(call.extra_args[0].partition(":")[0], [call.workdir, *filter(None, given)])

    def command(self, call: RunnerRequest) -> Command:
        run = call.run_info
        variables = {
            "MATINS_RUN_ID": str(run.run_id),
            "MATINS_SCHEDULE": run.schedule,
            "MATINS_SLOT": run.slot or "",
            "MATINS_ATTEMPT": str(run.attempt),
            "MATINS_KEY": run.key,
        }
        argv = (self._interpreter(call), function_call.__file__, *call.extra_args)
        return Command(
            argv,
            call.prompt.encode(),
            env_add=variables,
            finals=(function_call.RETURNED.decode(), function_call.RAISED.decode()),
        )

    def reader(self) -> PythonReader:
        return PythonReader()

    def _interpreter(self, call: RunnerRequest) -> str:
        return str(Path(call.options.get("interpreter", self.program)).expanduser())


class PythonReader:
    """The output of a function is its transcript. The last line is written by Matins and holds the result."""

    def __init__(self) -> None:
        self._notes = StreamNotes(metered=False)

    def feed(self, line: bytes) -> None:
        if line.startswith((function_call.RETURNED, function_call.RAISED)) and (event := read_event(line)) is not None:
            self._handle(event)

    def close(self, exit_code: int | None) -> RunnerResult:
        return conclude(self._notes, "the function", "python", exit_code)

    def _handle(self, event: Event) -> None:
        notes = self._notes = StreamNotes(metered=False, executed=True)
        notes.text.add(event.text("text") or "")
        notes.structured = storable(event.raw.get("value"))
        error = event.text("raised")
        if error is not None:
            notes.failed, notes.error, notes.limit = True, shorten(error), _limit(event.inner("limit"))


def _limit(event: Event) -> Limit | None:
    provider = event.name("provider")
    return None if provider is None else Limit(provider, instant(event.number("resets_at")), event.text("reason") or "")


def _check_module(name: str, paths: Sequence[str]) -> None:
    """Raise InvalidInput for a module that cannot be found. Its code does not run."""
    if name in sys.modules:
        return
    importlib.invalidate_caches()
    first, *rest = name.split(".")
    spec = _spec(first, paths)
    for part in rest:
        within = [] if spec is None else list(spec.submodule_search_locations or [])
        spec = PathFinder.find_spec(f"{first}.{part}", within) if within else None
        first = f"{first}.{part}"
        if spec is None:
            break
    if spec is None:
        hint = 'Install it, put it into the workdir, or set options={"interpreter": …}.'
        raise InvalidInput(f'There is no module "{name}".', value=name, field="command", hint=hint)


def _spec(name: str, paths: Sequence[str]) -> ModuleSpec | None:
    try:
        found = importlib.util.find_spec(name)
    except (ValueError, ImportError):  # a loaded module without a spec
        found = None
    return found or PathFinder.find_spec(name, list(paths))
