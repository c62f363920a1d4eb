"""Lines of stderr that tell a problem."""

from __future__ import annotations

import re
from dataclasses import replace

from matins.executors.runners.protocol import RunnerResult
from matins.executors.runners.tool_events import shorten, without_escapes

_ERROR = re.compile(r"error|fail|denied|refused|invalid|not |limit|429|exceeded|quota|unauthori[sz]ed", re.IGNORECASE)
_HARMLESS = re.compile(r"^(?:\[STARTUP\]|Warning:|WARN\b|.{0,80}not available.{0,300}Falling back)")


def error_of(line: bytes) -> str | None:
    """The line, if it tells a problem. Indented lines are only locations, and some warnings are about nothing."""
    text = without_escapes(line.decode("utf-8", "replace"))
    if not text.strip() or text[0].isspace() or _HARMLESS.match(text) or not _ERROR.search(text):
        return None
    return shorten(text)


def with_stderr_reason(result: RunnerResult, stderr: bytes) -> RunnerResult:
    """The result of a command without events, with the reason from stderr, if it failed."""
    lines = stderr.splitlines()
    errors = [error for line in lines if (error := error_of(line)) is not None]
    reason = errors[-1] if errors else _last_line(lines)
    return result if result.succeeded or reason is None else replace(result, error=f"{result.error}: {reason}")


def _last_line(lines: list[bytes]) -> str | None:
    texts = [without_escapes(line.decode("utf-8", "replace")) for line in lines]
    kept = [text for text in texts if text.strip() and not text[0].isspace()]
    return shorten(kept[-1]) if kept else None
