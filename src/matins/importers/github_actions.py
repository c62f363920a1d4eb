"""GitHub Actions: workflows with `on: schedule`. The workflow stays on GitHub; Matins starts it on time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from matins.engine.when.cron import parse_cron
from matins.errors import CronParseError, InvalidInput
from matins.importers.entries import UNREADABLE, Cron, Imported, ImportEntry, Importer, read_text, reason_of, slug
from matins.texts.yaml_nodes import MappingNode, parse, to_python

SOURCE = "github-actions"
_WORKFLOWS = Path(".github", "workflows")
_REMOTE = re.compile(r"url\s*=\s*\S*github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?\s*$", re.MULTILINE)
_UTC = "UTC"
_DISPATCH = "it cannot be started from outside. Add to its `on`: workflow_dispatch:"
_NOTE = (
    "The workflows stay on GitHub, and gh starts them: it must be installed and logged in (gh auth login). Remove"
    " `schedule` from each, or it runs twice. GitHub starts late under load, and stops after 60 days without a commit."
)


def read(target: str, zone: str) -> Imported:
    """The workflows of a repository, of a folder, or one file. The zone of the machine does not matter."""
    paths = _paths(Path(target).expanduser())
    entries: list[ImportEntry] = []
    left_out: list[str] = []
    names: set[str] = set()
    for path in paths:
        try:
            entries += _workflow(path, names, left_out)
        except UNREADABLE as error:
            left_out.append(f"{path}: {reason_of(error)}")
    return Imported(SOURCE, tuple(entries), tuple(left_out), (_NOTE,) if entries else ())


def _paths(target: Path) -> list[Path]:
    if target.is_file():
        return [target]
    folder = target / _WORKFLOWS if (target / _WORKFLOWS).is_dir() else target
    found = sorted(path for path in folder.glob("*.y*ml") if path.suffix in (".yml", ".yaml"))
    if not found:
        hint = "Name a repository, its .github/workflows, or one workflow."
        raise InvalidInput(f"There are no workflows in {folder}.", value=str(target), field="path", hint=hint)
    return found


def _workflow(path: Path, names: set[str], left_out: list[str]) -> Iterator[ImportEntry]:
    node = parse(read_text(str(path)))
    workflow: Any = to_python(node) if isinstance(node, MappingNode) else {}
    on = workflow.get("on")
    events = cast("dict[str, Any]", on) if isinstance(on, dict) else {}
    scheduled: Any = events.get("schedule") or []
    if not scheduled:
        return
    if not isinstance(scheduled, list) or not all(isinstance(each, dict) for each in cast("list[Any]", scheduled)):
        raise InvalidInput("its schedule is not a list of cron lines.", field="schedule")
    if path.name.startswith("-"):
        raise InvalidInput("gh would take its name for an option. Rename it.", field="path")
    if "workflow_dispatch" not in events:
        raise InvalidInput(_DISPATCH, field="on")
    repo = _repo(path)
    for line in cast("list[dict[str, Any]]", scheduled):
        expression, zone = str(line.get("cron") or "").strip(), str(line.get("timezone") or _UTC)
        try:
            parse_cron(expression)
        except CronParseError as error:
            left_out.append(f"{path}: {error.message}")
            continue
        command = ["gh", "workflow", "run", path.name, *(["--repo", repo] if repo else [])]
        settings: dict[str, Any] = {"when": expression, "timezone": zone, "command": command, "catch_up": "run_once"}
        if repo is None:
            settings["workdir"] = str(path.absolute().parent)
        name = slug(str(workflow.get("name") or path.stem), names, "workflow")
        yield ImportEntry("schedule", name, settings, str(path), Cron(expression, zone))


def _repo(path: Path) -> str | None:
    """OWNER/NAME, from the remote of the checkout in which the workflow is."""
    for folder in path.absolute().parents:
        config = folder / ".git" / "config"
        if config.is_file():
            found = _REMOTE.search(read_text(str(config)))
            return None if found is None else found[1]
    return None


IMPORTER = Importer("Import scheduled workflows of GitHub Actions. PATH: a repository, or a workflow.", read)
