"""Matins among the MCP servers of a coding agent: its file is changed and read back, and what it says is tried."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, cast

from matins.errors import InvalidInput, MatinsError
from matins.surfaces.mcp.bridge import Bridge
from matins.surfaces.mcp.clients import Client, Entry
from matins.texts import atomic_file
from matins.texts.foreign_entry import edited, entry_in

BACKUP = ".before-matins"
_PATIENCE_S = 60
_ADDRESSES = frozenset({"url", "httpUrl"})
"""What entries call the address of a server."""
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "matins-install", "version": "1"},
}
_REQUESTS = (
    {"id": 1, "method": "initialize", "params": _HELLO},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)


class Change(NamedTuple):
    """The text of a file, and what it becomes. `before` is None for a file that does not exist."""

    file: Path
    before: atomic_file.TextFile | None
    after: str
    entry: Entry | None

    @property
    def is_needed(self) -> bool:
        return self.after != (self.before.text if self.before else "")


def plan(client: Client, entry: Entry | None, environment: Mapping[str, str]) -> Change:
    """The change that adds the entry to the client's file, or removes it for None. Nothing is written."""
    file = client.file(environment)
    if file.is_symlink():
        file = atomic_file.follow_link(file)
    before = atomic_file.read(file) if file.exists() else None
    text = before.text if before else ""
    try:
        after = edited(client.form, text, client.place, entry)
        if entry is not None and _is_other_kind(entry_in(client.form.load(text), client.place), entry):
            after = edited(client.form, edited(client.form, text, client.place, None), client.place, entry)
    except InvalidInput as error:
        message = f"{file} cannot be changed: {error.message.rstrip('.')}. Nothing was written."
        raise InvalidInput(message, field="client", hint=error.hint or "Correct the file, and try again.") from None
    return Change(file, before, after, entry)


def _is_other_kind(before: Any, entry: Entry) -> bool:
    """Whether an entry by address replaces one by command, or the other way round: nothing of it is kept then."""
    by_address = bool(_ADDRESSES & entry.keys())
    return isinstance(before, dict) and bool(_ADDRESSES & cast("Entry", before).keys()) is not by_address


def make(name: str, client: Client, change: Change) -> Path | None:
    """Make the change, and check that the file says so. Returns the path of the former file."""
    try:
        kept = _keep(change)
        if client.add is None:
            _write(change)
        else:
            _let_write(name, client, change)
    except OSError as error:
        raise atomic_file.file_error(change.file, error.strerror or str(error)) from None
    text = atomic_file.read(change.file).text
    if entry_in(client.form.load(text), client.place) != entry_in(client.form.load(change.after), client.place):
        raise MatinsError(f"{change.file} was written, and does not say what it should.", hint=_restore(kept))
    return kept


def _keep(change: Change) -> Path | None:
    """Write the former file beside the file."""
    if change.before is None:
        return None
    kept = change.file.with_name(change.file.name + BACKUP)
    kept.unlink(missing_ok=True)
    _create(kept, change.before.text)
    return kept


def _write(change: Change) -> None:
    if change.before is None:
        change.file.parent.mkdir(parents=True, exist_ok=True)
        _create(change.file, change.after)
    elif not atomic_file.replace(change.file, change.before, change.after):
        raise MatinsError(f"{change.file} was saved by another program just now.", hint="Try again.")


def _create(path: Path, text: str) -> None:
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline=""
    ) as file:
        file.write(text)


def _let_write(name: str, client: Client, change: Change) -> None:
    """Let the tool itself change its file. An entry that differs is removed first: it adds no name twice."""
    had = change.before is not None and entry_in(client.form.load(change.before.text), client.place) is not None
    if had:
        _call(name, *client.remove)
    if change.entry is not None and client.add is not None:
        _call(name, *client.add(entry_in(client.form.load(change.after), client.place) or change.entry))


def _call(name: str, *arguments: str) -> None:
    program = shutil.which(name)
    if program is None:
        raise InvalidInput(f"{name} is not installed: it changes its file itself.", field="client",
                           hint=f"Install it, or add its directory to the PATH: {name} --version")  # fmt: skip
    done = _ran([program, *arguments], "")
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-400:]
        raise MatinsError(f"{name} {' '.join(arguments[:2])} failed: {said}")


def _ran(command: list[str], lines: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MatinsError(f"{command[0]} could not be run: {error}") from None


def _restore(kept: Path | None) -> str | None:
    return f"The former file is {kept}." if kept else None


def tools_of(client: Client, file: Path, token: str | None = None) -> list[str]:
    """Start what the file says, as the client does, and list its tools. With a token, its address is called."""
    entry = entry_in(client.form.load(atomic_file.read(file).text), client.place) or {}
    lines = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in _REQUESTS)
    if token is not None:
        address = str(next(entry[name] for name in _ADDRESSES if name in entry))
        said, hint = _answers(address, token, lines), f"Try it: curl {address}"
    else:
        command = client.command(entry)
        done = _ran(command, lines)
        said, hint = done.stdout.strip() or done.stderr.strip(), f"Try it: {' '.join(command)}"
    for line in filter(lambda line: line.startswith("{"), said.splitlines()):
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == 2 and "result" in answer:
            return [tool["name"] for tool in answer["result"]["tools"]]
    raise MatinsError(f"{file} is written, but the server does not answer: {said[-400:]}", hint=hint)


def _answers(address: str, token: str, lines: str) -> str:
    out = StringIO()
    Bridge(address.removesuffix("/mcp"), token, None, out).serve(StringIO(lines))
    return out.getvalue()


def own_program() -> list[str]:
    """The program by its full path: a client does not have the PATH of a shell."""
    script = Path(sys.argv[0])
    if script.name == "matins" and os.access(script, os.X_OK):
        return [str(script.absolute())]
    return [sys.executable, "-P", "-m", "matins"]
