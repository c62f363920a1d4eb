"""Job types: what a schedule can start. One module declares one type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol


class ErrandPlace(NamedTuple):
    """Where the agent of a run works, and for which run."""

    key: str
    """A key that is the same for every attempt of the run, and different for every other run."""
    agent: str
    folder: str
    """The folder of the agent."""
    own: str
    """A folder that belongs to the agent alone."""
    now: int
    """UTC milliseconds."""
    attaches: bool = False
    """Whether files of its folder go with its answer."""


class Brief(NamedTuple):
    """What a job adds to the start of its agent."""

    material: str = ""
    """Shown below the prompt, as data."""
    command: tuple[str, ...] = ()
    """Stands before the command of the agent, and starts it. It has the rights of the agent, and no more."""


class Errand(Protocol):
    """What a job does around the work of its agent. Every call may be repeated after a crash."""

    @property
    def folder(self) -> str | None:
        """Where the agent works; None for its own folder. The command of the brief creates it."""
        ...

    def begin(self) -> Brief | None:
        """Called before the agent starts. None means that there is no work."""
        ...

    def finish(self, answer: str) -> dict[str, Any]:
        """Called after the agent succeeded. The result is kept with that of the run."""
        ...


@dataclass(frozen=True)
class JobType:
    """A job that schedules can name. `run` is a function of this process; `prompt` makes the prompt of an agent."""

    name: str
    help: str = ""
    """One sentence, for `matins jobs`."""
    inputs: type[Any] | None = None
    """A dataclass whose annotations are settings; the payload holds them. None: any payload."""
    run: Callable[[Any], Any] | None = None
    """Called with the `JobContext` of a run; sync or async."""
    prompt: Callable[[Any], str] | None = None
    """Called with the inputs when a schedule is made."""
    work_source: Callable[[Any], Any] | None = None
    """Called with the inputs: the definition of a source whose items the agent's runs claim."""
    errand: Callable[[Any, ErrandPlace], Errand] | None = None
    """Called with the inputs, for a job that does more than its prompt says."""
    check: Callable[[Any, str], None] | None = None
    """Called with the inputs and the folder in which runs work. Raises InvalidInput where they would fail."""
    destructive: bool = True
    """Whether runs need approval under `owner_approve`."""
    owner_only: bool = False
    """Whether only the owner may schedule it."""
    services: tuple[str, ...] = ()
    """The services without which runs fail."""

    @cached_property
    def is_async(self) -> bool:
        call = getattr(self.run, "__call__", None)  # noqa: B004 - of an object that is called
        return inspect.iscoroutinefunction(self.run) or inspect.iscoroutinefunction(call)


class JobTypes(Protocol):
    """The job types that a schedule may name."""

    def find(self, name: str) -> JobType:
        """The type of this name. Raises InvalidInput if there is none."""
        ...
