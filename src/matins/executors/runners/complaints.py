"""What a tool says on stderr when it does not come to its end on stdout."""

from __future__ import annotations

import re
from dataclasses import replace

from matins.executors.runners.base import Told
from matins.executors.runners.events import brief, without_escapes
from matins.executors.runners.limits import limit_in

_ERROR = re.compile(r"error|fail|denied|refused|invalid|not |limit|429", re.IGNORECASE)


def heard(told: Told, provider: str | None, complaint: bytes) -> Told:
    """With the reason that it gives there, for a tool that failed and gave none on stdout."""
    said = _telling_line(complaint)
    if told.succeeded or said is None:
        return told
    return replace(
        told, error=f"{told.error}: {said}", limit=told.limit or (limit_in(provider, said) if provider else None)
    )


def _telling_line(complaint: bytes) -> str | None:
    """The last line that speaks of an error, else the last one; what is indented is where, not what."""
    lines = [without_escapes(line) for line in complaint.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line.strip() and not line[0].isspace()]
    telling = [line for line in lines if _ERROR.search(line)] or lines
    return brief(telling[-1]) if telling else None
