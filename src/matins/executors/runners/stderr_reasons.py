"""Finds the reason on stderr for a tool that failed without one on stdout."""

from __future__ import annotations

import re
from dataclasses import replace

from matins.executors.runners.protocol import RunnerResult
from matins.executors.runners.provider_limits import find_limit
from matins.executors.runners.tool_events import shorten, without_escapes

_ERROR = re.compile(r"error|fail|denied|refused|invalid|not |limit|429", re.IGNORECASE)


def with_stderr_reason(result: RunnerResult, provider: str | None, stderr: bytes) -> RunnerResult:
    """The result with the reason from stderr, if it failed."""
    reason = _error_line(stderr)
    if result.succeeded or reason is None:
        return result
    return replace(
        result,
        error=f"{result.error}: {reason}",
        limit=result.limit or (find_limit(provider, reason) if provider else None),
    )


def _error_line(stderr: bytes) -> str | None:
    """The last line about an error, otherwise the last line. Indented lines are only locations."""
    lines = [without_escapes(line) for line in stderr.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line.strip() and not line[0].isspace()]
    errors = [line for line in lines if _ERROR.search(line)] or lines
    return shorten(errors[-1]) if errors else None
