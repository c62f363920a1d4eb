"""The port for work sources, and the checks of their settings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from matins.engine.prompts import WorkItem
from matins.engine.validation import invalid
from matins.errors import Example, InvalidInput, MatinsError
from matins.model.settings import settings_of
from matins.model.work_source import KIND_SETTINGS, WorkSourceDefinition

_REPO = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_UNREADABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


class WorkSourceUnavailable(MatinsError):  # noqa: N818 - it names a state of the source
    """The work source is busy, or its response is invalid. The call may be retried."""

    code = "work_source_unavailable"
    retryable = True


class WorkSource(Protocol):
    """A source of work items. Every call may be repeated after a crash: it completes the first one."""

    name: str

    def check(self, now: int) -> None:
        """Raise what a claim would raise, as far as that is known on this machine. Nothing is claimed or requested."""
        ...

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Otherwise claim the item with the highest priority, the oldest first."""
        ...

    def held(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds. Nothing is claimed."""
        ...

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def release(self, item_id: str, run_key: str, now: int) -> None:
        """Release the item, if this run holds it."""
        ...


def check_work_source(source: WorkSourceDefinition) -> WorkSourceDefinition:
    """The source with a normalized URL. Raises for an invalid setting, or one of another kind."""
    defaults = WorkSourceDefinition(source.name, source.kind)
    for name in settings_of(WorkSourceDefinition):
        if name not in ("kind", *KIND_SETTINGS[source.kind]) and getattr(source, name) != getattr(defaults, name):
            message = f'A work source of kind {source.kind} has no setting "{name}".'
            hint = f"Known: {', '.join(KIND_SETTINGS[source.kind])}."
            raise InvalidInput(message, value=name, field=name, hint=hint)
    if source.kind == "github":
        _check_github(source)
        return replace(source, base_url=check_base_url(source.base_url))
    return source


def _check_github(source: WorkSourceDefinition) -> None:
    hint = Example({"repo": "octo-org/garden"})
    if source.repo is None:
        raise InvalidInput('A work source of kind github needs "repo".', field="repo", hint=hint)
    if not _REPO.fullmatch(source.repo):
        raise invalid("repo", source.repo, "owner/name", hint=hint)
    for name in ("labels", "priorities"):
        for label in getattr(source, name):
            if "," in label:
                raise invalid(name, label, "labels without a comma", hint=Example({name: ["ready", "small"]}))


def open_source(definition: WorkSourceDefinition, workdir: str | Path | None) -> WorkSource:
    """The work source. Nothing is read or requested before its first call."""
    if definition.kind == "tasks":
        from matins.work.tasks_file import TasksFile

        base = Path(workdir or ".")
        return TasksFile(definition.name, base / Path(definition.path).expanduser(), base)
    from matins.work.github_issues import GitHubIssues

    return GitHubIssues(definition)


def readable(text: str, max_length: int) -> str:
    """The text, shortened, without characters that do not belong in a text file."""
    clean = _UNREADABLE.sub("", text).strip()
    return clean if len(clean) <= max_length else f"{clean[: max_length - 1]}…"


def not_held(item_id: str, run_key: str, state: str) -> str:
    return f"Work item {item_id} is not held by run {run_key}: {state}."


def check_base_url(text: str) -> str:
    """The normalized URL. It must be encrypted or local, because the token is sent there."""
    try:
        parts = urlsplit(text)
        host, plain = parts.hostname, not (parts.query or parts.fragment or "@" in parts.netloc or parts.port == 0)
    except ValueError:
        host, parts, plain = None, urlsplit(""), False
    if host and plain and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)):
        return text.rstrip("/")
    hint = Example({"base_url": "https://github.example.com/api/v3"})
    raise invalid("base_url", text, "a URL with https://", hint=hint)
