"""The registries of runners and of job types: a new one is a new module and an entry point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from matins.errors import Conflict, InvalidInput
from matins.executors.runners.protocol import AnyRunner
from matins.model.job import JobType
from matins.plugins import installed

_ORIGINAL = "matins_original"
"""The attribute of a job that calls a function of the program in another way: that function."""
RUNNERS = "matins.executors"
JOBS = "matins.jobs"
SERVICES = {
    "council": "Council service not available",
    "github": "GitHub service not available",
    "improvement_loop": "Improvement loop service not available",
    "messenger": "Agent messenger not available",
    "reputation": "Reputation services not available",
    "work_tasks": "Work task service not available",
}
"""What a run says when the program has declared a service as missing."""


class NoService(InvalidInput):
    """A service that the job of a run needs is not available. The run fails with this sentence alone."""


@cache
def runners() -> dict[str, AnyRunner]:
    """Runners by name."""
    return {name: runner() for name, runner in installed(RUNNERS).items()}


@cache
def installed_jobs() -> dict[str, JobType]:
    """Installed job types by name."""
    return {job.name: job for job in installed(JOBS).values()}


class JobRegistry:
    """The job types of this process: those of the program, which win, and the installed ones."""

    def __init__(self, functions: Mapping[str, Callable[[Any], Any]] | None = None) -> None:
        self._own: dict[str, JobType] = {}
        self.services: dict[str, Any] = {}
        """Services of the program by name; None says that one is not available."""
        self._offers: frozenset[str] = frozenset()
        self._counted = False
        self.update(functions or {})

    def register(self, job: JobType) -> None:
        if job.name in self._own:
            raise Conflict(f'There is already a job "{job.name}".', value=job.name, field="job")
        self._own[job.name], self._counted = job, False

    def get(self, name: str) -> JobType | None:
        return self._own.get(name) or installed_jobs().get(name)

    def name_of(self, function: Callable[..., Any]) -> str:
        """The name of a function of the program. Raises InvalidInput if it is no job."""
        for name, job in self._own.items():
            if function in (job.run, getattr(job.run, _ORIGINAL, None)):
                return name
        known = getattr(function, "__name__", "…")
        message = f"The function {known} is not a job of this Matins."
        raise InvalidInput(message, field="job", hint=f'Register it: @m.job("{known}")')

    def with_names(self, steps: Any) -> Any:
        """The steps, with the names of functions that are their jobs."""
        if not isinstance(steps, (list, tuple)):
            return steps
        return [self._with_name(step) for step in cast("list[Any]", steps)]

    def _with_name(self, step: Any) -> Any:
        given = cast("dict[str, Any]", step) if isinstance(step, dict) else dict[str, Any]()
        job = given.get("job")
        return cast("Any", step) if not callable(job) else {**given, "job": self.name_of(job)}

    def unavailable(self, job: JobType | None) -> str | None:
        """Why runs of a job cannot start here: the program says that a service is not available."""
        for name in () if job is None else job.services:
            if name in self.services and self.services[name] is None:
                return SERVICES.get(name, f"Service {name} not available")
        return None

    def replaces(self, name: str) -> bool:
        """Whether the program has a function of its own for this job, also where an agent would do it."""
        return name in self._own and self._own[name].run is not None

    def is_destructive(self, name: str) -> bool:
        """What the known type of this name says; an unknown job is destructive."""
        known = self.get(name)
        return known is None or known.destructive

    def __setitem__(self, name: str, function: Callable[[Any], Any]) -> None:
        """Set or replace the function of a job. It keeps the inputs of an installed type."""
        known = self.get(name)
        inputs = None if known is None else known.inputs
        self._own[name] = JobType(name, help_of(function), inputs, function, destructive=self.is_destructive(name))
        self._counted = False

    def update(self, functions: Mapping[str, Callable[[Any], Any]] = {}, /, **more: Callable[[Any], Any]) -> None:
        for name, function in {**functions, **more}.items():
            self[name] = function

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[JobType]:
        return iter(sorted({**installed_jobs(), **self._own}.values(), key=lambda job: job.name))

    @property
    def offers(self) -> frozenset[str]:
        """`job:NAME` of each; the same object until one is added."""
        if not self._counted:
            self._offers = frozenset(f"job:{name}" for name in {**installed_jobs(), **self._own})
            self._counted = True
        return self._offers


def help_of(function: Callable[[Any], Any]) -> str:
    """The first line of a function's docstring."""
    lines = (inspect.getdoc(function) or "").strip().splitlines() if inspect.isroutine(function) else []
    return lines[0] if lines else ""


def as_task(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function as a job that is called with the input of its run: a mapping is arguments by name. An async one
    stays async."""

    async def begin(run: Any) -> Any:
        return await function(**run.payload)

    def call(run: Any) -> Any:
        return function(**run.payload)

    job = begin if inspect.iscoroutinefunction(function) else call
    job.__doc__, job.__dict__[_ORIGINAL] = function.__doc__, function
    return job


def as_job(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function as a job: one without parameters is called without the run. An async one stays async."""
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind not in named for parameter in inspect.signature(function).parameters.values()):
        return function

    async def begin(run: Any) -> Any:
        return await function()

    def call(run: Any) -> Any:
        return function()

    job = begin if inspect.iscoroutinefunction(function) else call
    job.__doc__, job.__dict__[_ORIGINAL] = function.__doc__, function
    return job
