"""The settings of a tool for its runs, in the agent's own folder: nothing is written into the workdir."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from matins.errors import InvalidInput
from matins.executors.isolation import account_of
from matins.executors.processes.launch import Account
from matins.executors.runners.protocol import ToolSettings
from matins.model.agent import Agent
from matins.texts.foreign_entry import Jsonc

_SETTINGS = "settings.json"
_KEPT = ("tmp", "history")
"""Folders of a linked home that must be the user's own from the beginning: sessions are in them."""


def settings_variables(folder: Path, agent: Agent, settings: ToolSettings, given: Mapping[str, str]) -> dict[str, str]:
    """Write the settings into the agent's own folder. Returns the variable that leads the tool to them.

    A tool that reads them only in its user's home gets a home of links. For an agent of another account there is none:
    Matins does not follow the links of that account.
    """
    own = folder / ".matins"
    account = account_of(agent)
    if settings.home is None:
        make_folder(own, account)
        path = own / f"{agent.runner}.json"
        _write(path, json.dumps(settings.content), account)
        return {settings.variable: str(path)}
    source = Path(given.get(settings.variable) or given.get("HOME") or Path.home()) / settings.home
    merged = _merged(source / _SETTINGS, settings.content)
    if account is not None or merged is None:
        return {}
    home = own / agent.runner
    make_folder(home / settings.home)
    _link_all(source, home / settings.home)
    _write(home / settings.home / _SETTINGS, merged, None)
    return {settings.variable: str(home)}


def _merged(path: Path, content: Mapping[str, Any]) -> str | None:
    """The user's settings with the content; None where they cannot be read: the tool itself then says so."""
    try:
        found = dict(Jsonc().load(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except (OSError, ValueError):
        return None
    for name, values in content.items():
        before = found.get(name)
        found[name] = {**cast("dict[str, Any]", before if isinstance(before, dict) else {}), **values}
    return json.dumps(found)


def _link_all(source: Path, target: Path) -> None:
    """Link each entry of a folder in another one, except the settings. Folders that the tool made there stay."""
    for name in _KEPT:
        make_folder(source / name)
    for name in {*os.listdir(source), *os.listdir(target)} - {_SETTINGS}:  # noqa: PTH208
        path, wanted = target / name, str(source / name)
        if (path.is_symlink() and os.readlink(path) == wanted) or (path.is_dir() and not path.is_symlink()):  # noqa: PTH115
            continue
        if os.path.lexists(wanted):
            new = target / f".{name}.{os.getpid()}.new"
            with suppress(FileExistsError):  # another run of the agent links it too
                new.symlink_to(wanted)
                new.replace(path)


def _write(path: Path, content: str, account: Account | None) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == content:
        return
    new = path.with_suffix(".new")
    new.write_text(content, encoding="utf-8")
    new.chmod(0o600)
    if account is not None:
        os.chown(new, account.uid, account.gid)
    new.replace(path)


def make_folder(folder: Path, account: Account | None = None) -> None:
    """Create the folder and its missing parents, for this user only. A new folder is given to the account."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "Name another folder: workdir."
        raise InvalidInput(
            f"{folder} cannot be created: {reason}.", value=str(folder), field="workdir", hint=hint
        ) from error
