"""The port for sources of work, and what people write to name one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from matins.engine.given import check_choice, check_name, check_texts, check_words, wrong
from matins.engine.prompts import WorkItem
from matins.errors import InvalidInput, MatinsError

KINDS = {"tasks": ("path",), "github": ("repo", "labels", "priorities", "base_url", "token")}
LISTS = ("labels", "priorities")
_REPO = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
_REFERENCE = re.compile(r"(env|file):[^\s\0].*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_UNREADABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


class SourceUnavailable(MatinsError):  # noqa: N818 - it names the place, not a fault of ours
    """The place where work comes from is busy, or does not answer properly: try again."""

    code = "source_unavailable"
    retryable = True


class WorkSource(Protocol):
    """Every call may be repeated after a crash: it finishes what the first one began."""

    name: str

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds, else the one of highest priority, then the oldest, held from now on."""
        ...

    def held(self, run_key: str, now: int) -> WorkItem | None:
        """The item that this run holds; nothing is claimed."""
        ...

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None: ...
    def release(self, item_id: str, run_key: str, now: int) -> None:
        """Give back what this run holds; an item that it does not hold stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    name: str
    kind: Literal["tasks", "github"]
    path: str = "TASKS.yaml"
    """Of kind tasks: relative to the agent's workdir."""
    repo: str | None = None
    """Of kind github: `owner/name`; the following too."""
    labels: tuple[str, ...] = ("ready",)
    """An issue must have them all to be work."""
    priorities: tuple[str, ...] = ()
    """Labels; the first is the most urgent."""
    base_url: str = "https://api.github.com"
    token: str = "env:GITHUB_TOKEN"
    """`env:NAME` or `file:/path`: read whenever it is used, and kept nowhere."""


def define_source(name: str, words: Mapping[str, Any]) -> SourceDefinition:
    """The source that these words make; an error names the word, and how to mend it."""
    check_name("name", name, "backlog")
    kind = check_choice("kind", words.get("kind"), KINDS)
    check_words(f"A source of kind {kind}", words, ("kind", *KINDS[kind]))
    values = {word: _checked(word, value) for word, value in words.items() if word != "kind" and value is not None}
    if kind == "github" and "repo" not in values:
        raise InvalidInput('A source of kind github needs "repo"', field="repo", hint='repo="owner/name"')
    return SourceDefinition(name, kind, **values)


def to_dict(definition: SourceDefinition) -> dict[str, Any]:
    """As the store keeps it: what differs from the defaults."""
    plain = asdict(SourceDefinition(definition.name, definition.kind))
    given = {word: value for word, value in asdict(definition).items() if value != plain[word]}
    return {"name": definition.name, "kind": definition.kind, **given}


def from_dict(data: Mapping[str, Any]) -> SourceDefinition:
    values = {field.name: data[field.name] for field in fields(SourceDefinition) if field.name in data}
    values.update({word: tuple(values[word]) for word in LISTS if word in values})
    return SourceDefinition(**values)


def open_source(definition: SourceDefinition, workdir: str | Path | None) -> WorkSource:
    """Nothing is read or asked before the first call."""
    if definition.kind == "tasks":
        from matins.work.tasks_file import TasksFile

        return TasksFile(definition.name, Path(workdir or ".") / Path(definition.path).expanduser())
    from matins.work.github_issues import GitHubIssues

    return GitHubIssues(definition)


def readable(text: str, longest: int) -> str:
    """Without what no text file should hold, and not longer than said."""
    clean = _UNREADABLE.sub("", text).strip()
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


def not_held(item_id: str, run_key: str, how_it_is: str) -> str:
    return f"Work item {item_id} is not held by run {run_key}: {how_it_is}"


def _checked(word: str, value: Any) -> Any:
    if word == "token":
        return _reference(value)
    if word in LISTS:
        return _labels(word, value)
    text = check_name(word, value)
    if word == "repo" and not _REPO.fullmatch(text):
        raise wrong(word, value, "owner/name", hint='repo="octo-org/garden"')
    if word == "base_url":
        return _base_url(text)
    return text


def _reference(value: Any) -> str:
    """A token itself is refused, and not told again in the error."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    raise InvalidInput(
        '"token" must say where the token is, not what it is',
        field="token",
        allowed="env:NAME or file:/path",
        hint='token="env:GITHUB_TOKEN"',
    )


def _labels(word: str, value: Any) -> tuple[str, ...]:
    labels = check_texts(word, [value] if isinstance(value, str) else value, "a label, or a list of them")
    for label in labels:
        check_name(word, label, "ready")
        if "," in label:
            raise wrong(word, label, "labels without a comma", hint=f'{word}=["ready", "small"]')
    return labels


def _base_url(text: str) -> str:
    """The token goes there, so it must be encrypted, or stay on this machine."""
    try:
        parts = urlsplit(text)
        host, plain = parts.hostname, not (parts.query or parts.fragment or "@" in parts.netloc or parts.port == 0)
    except ValueError:
        host, parts, plain = None, urlsplit(""), False
    if host and plain and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)):
        return text.rstrip("/")
    raise wrong("base_url", text, "an address with https://", hint='base_url="https://github.example.com/api/v3"')
