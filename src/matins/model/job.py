"""Job types: what a schedule can start. One module declares one type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol


@dataclass(frozen=True)
class JobType:
    """A job that schedules can name. `run` is a function of this process; `prompt` is what an agent is told."""

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
    destructive: bool = True
    """Whether runs need approval under `owner_approve`."""
    owner_only: bool = False
    """Whether only the owner may schedule it."""
    services: tuple[str, ...] = ()
    """The services without which runs fail."""

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.run)


class JobTypes(Protocol):
    """The job types that a schedule may name."""

    def find(self, name: str) -> JobType:
        """The type of this name. Raises InvalidInput if there is none."""
        ...
