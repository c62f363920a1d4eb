"""Matins among the MCP servers of a coding agent: its file is changed and read back, and what it says is tried.

Coding agents that can use the tools of Matins: where each one keeps its MCP servers, and in which form.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from matins.errors import InvalidInput, MatinsError
from matins.surfaces.bridge import Bridge
from matins.texts import atomic_file
from matins.texts.beneath import Refused
from matins.texts.foreign_entry import Format, Jsonc, Toml, Yaml, edited, entry_in
from matins.texts.untrusted_folder import UntrustedFolder

NAME = "matins"
TOKEN_VARIABLE = "MATINS_MCP_TOKEN"
Entry = dict[str, Any]
Environment = Mapping[str, str]


class Client(NamedTuple):
    """`file` is read on every call: variables of the tool itself may name another place."""

    file: Callable[[Environment], Path]
    form: Format
    place: tuple[str, ...]
    """The names that lead to the entry."""
    entry: Callable[[list[str]], Entry]
    """The entry for a command."""
    command: Callable[[Entry], list[str]]
    """The command of an entry."""
    http: Callable[[str], Entry] | None
    """The entry for the address of a server, which names the variable that has the token; None where the tool cannot
    fill one in."""
    project: str | None = None
    """The file of a project, below its directory; None where the tool has none."""
    folder: Path | None = None
    """The directory of the project: agents write there, so its links are not followed."""
    add: Callable[[Entry], list[str]] | None = None
    """The arguments with which the tool adds the entry itself; None where we write its file."""
    remove: tuple[str, ...] = ()
    is_runner: bool = True
    """Whether Matins can run the tool, so that an agent of its name can be created."""

    def in_project(self, folder: Path) -> Client | None:
        """The client with the file of a project, which is always edited; None where the tool has none."""
        if self.project is None:
            return None
        path = folder / self.project

        def file(environment: Environment) -> Path:
            return path

        return self._replace(file=file, folder=folder, add=None, remove=())


def _home(environment: Environment) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _config(environment: Environment) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")


def _claude_file(environment: Environment) -> Path:
    return Path(environment.get("CLAUDE_CONFIG_DIR") or _home(environment)) / ".claude.json"


def _codex_file(environment: Environment) -> Path:
    return Path(environment.get("CODEX_HOME") or _home(environment) / ".codex") / "config.toml"


def _gemini_file(environment: Environment) -> Path:
    return Path(environment.get("GEMINI_CLI_HOME") or _home(environment)) / ".gemini" / "settings.json"


def _opencode_file(environment: Environment) -> Path:
    folder = _config(environment) / "opencode"
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _goose_file(environment: Environment) -> Path:
    return _config(environment) / "goose" / "config.yaml"


def _split(command: list[str]) -> Entry:
    return {"command": command[0], "args": command[1:]}


def _joined(entry: Entry) -> list[str]:
    return [entry["command"], *entry["args"]]


def _claude(command: list[str]) -> Entry:
    return {"type": "stdio", **_split(command)}


def _opencode(command: list[str]) -> Entry:
    return {"type": "local", "command": command, "enabled": True}


def _opencode_command(entry: Entry) -> list[str]:
    return entry["command"]


def _goose(command: list[str]) -> Entry:
    about = {"enabled": True, "type": "stdio", "name": NAME, "description": "Schedules for agents", "timeout": 60}
    return {**about, "cmd": command[0], "args": command[1:]}


def _goose_command(entry: Entry) -> list[str]:
    return [entry["cmd"], *entry["args"]]


def _with_header(word: str, **more: Any) -> Callable[[str], Entry]:
    """An entry by address, with the header in which the tool fills in the variable."""
    return lambda url: {**more, "url": url, "headers": {"Authorization": f"Bearer {word}"}}


def _gemini_http(url: str) -> Entry:
    return {"httpUrl": url, "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"}}


def _codex_http(url: str) -> Entry:
    return {"url": url, "bearer_token_env_var": TOKEN_VARIABLE}


def _cursor_file(environment: Environment) -> Path:
    return _home(environment) / ".cursor" / "mcp.json"


def _vscode_file(environment: Environment) -> Path:
    if sys.platform == "darwin":
        return _home(environment) / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    return _config(environment) / "Code" / "User" / "mcp.json"


def _claude_add(entry: Entry) -> list[str]:
    return ["mcp", "add-json", "--scope", "user", NAME, json_line(entry)]


def json_line(entry: Entry) -> str:
    import json  # most commands do not need it

    return json.dumps(entry, ensure_ascii=False)


# Claude Code rewrites its file all the time, so it adds the entry itself. The commands of the others rewrite comments
# or other entries, or cannot remove one: their files are edited.
_CLAUDE_REMOVE = ("mcp", "remove", "--scope", "user", NAME)
_SERVERS, _ENV = ("mcpServers", NAME), f"${{env:{TOKEN_VARIABLE}}}"
_CLAUDE_HTTP = _with_header(f"${{{TOKEN_VARIABLE}}}", type="http")
CLIENTS: dict[str, Client] = {
    "claude": Client(_claude_file, Jsonc(), _SERVERS, _claude, _joined, _CLAUDE_HTTP, ".mcp.json",
                     add=_claude_add, remove=_CLAUDE_REMOVE),
    "codex": Client(_codex_file, Toml(), ("mcp_servers", NAME), _split, _joined, _codex_http),
    "cursor": Client(_cursor_file, Jsonc(), _SERVERS, _split, _joined, _with_header(_ENV), ".cursor/mcp.json",
                     is_runner=False),
    "gemini": Client(_gemini_file, Jsonc(), _SERVERS, _split, _joined, _gemini_http, ".gemini/settings.json"),
    "goose": Client(_goose_file, Yaml(), ("extensions", NAME), _goose, _goose_command, None),
    "opencode": Client(_opencode_file, Jsonc(), ("mcp", NAME), _opencode, _opencode_command,
                       _with_header(f"{{env:{TOKEN_VARIABLE}}}", type="remote", enabled=True), "opencode.json"),
    "vscode": Client(_vscode_file, Jsonc(), ("servers", NAME), _claude, _joined, _with_header(_ENV, type="http"),
                     ".vscode/mcp.json", is_runner=False),
}  # fmt: skip


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
    removed: tuple[str, ...] = ()
    """The fields of the former entry that are not ours. An agent could have written them: `env` decides what runs."""

    @property
    def is_needed(self) -> bool:
        return self.after != (self.before.text if self.before else "")


def plan(client: Client, entry: Entry | None, environment: Mapping[str, str]) -> Change:
    """The change that adds the entry to the client's file, or removes it for None. Nothing is written."""
    file = client.file(environment)
    if client.folder is None and file.is_symlink():
        file = atomic_file.follow_link(file)
    before = _read(client, file)
    text = before.text if before else ""
    try:
        after = edited(client.form, text, client.place, entry)
        old = entry_in(client.form.load(text), client.place)
    except InvalidInput as error:
        message = f"{file} cannot be changed: {error.message.rstrip('.')}. Nothing was written."
        raise InvalidInput(message, field="client", hint=error.hint or "Correct the file, and try again.") from None
    removed = () if entry is None or old is None else tuple(name for name in old if name not in entry)
    return Change(file, before, after, entry, removed)


def _read(client: Client, file: Path) -> atomic_file.TextFile | None:
    """The file; None if it does not exist. That of a project is no link, nor below one."""
    if client.folder is None:
        return atomic_file.read(file) if file.exists() else None
    name = str(file.relative_to(client.folder))
    try:
        with UntrustedFolder(client.folder) as folder:
            status, data = folder.status(name), folder.read_whole(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Refused as refused:
        raise _not_written(name, refused) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise atomic_file.file_error(file, "it is not UTF-8") from None
    return atomic_file.TextFile(text, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), (0, 0, 0, 0))


def _not_written(name: str, refused: Refused) -> InvalidInput:
    reason = "is a link" if "link" in refused.reason else f"cannot be used: {refused.reason}"
    hint = "Replace it with a file of its own, or omit --scope project."
    return InvalidInput(f"{name} {reason}. Nothing was written.", field="client", hint=hint)


def make(name: str, client: Client, change: Change) -> Path | None:
    """Make the change, and check that the file says so. Returns the path of the former file."""
    try:
        if client.folder is not None:
            kept = _write_beneath(client.folder, change)
        else:
            kept = _keep(change)
            if client.add is None:
                _write(change)
            else:
                _let_write(name, client, change)
    except OSError as error:
        raise atomic_file.file_error(change.file, error.strerror or str(error)) from None
    written = _read(client, change.file)
    if written is None or entry_in(client.form.load(written.text), client.place) != change.entry:
        raise MatinsError(
            f"{change.file} was written, and does not say what it should.",
            hint=f"The former file is {kept}." if kept else None,
        )
    return kept


def _write_beneath(project: Path, change: Change) -> Path | None:
    """Write a file of a project, and the former one beside it, where no link leads elsewhere."""
    name = str(change.file.relative_to(project))
    kept = None if change.before is None else change.file.with_name(change.file.name + BACKUP)
    try:
        with UntrustedFolder(project) as folder:
            if change.before is not None:
                folder.replace(name + BACKUP, change.before.text.encode())
            elif "/" in name:
                folder.make_folder(name.rpartition("/")[0])
            folder.replace(name, change.after.encode(), change.before.mode if change.before else 0o600)
    except Refused as refused:
        raise _not_written(name, refused) from None
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
        _call(name, *client.add(change.entry))


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


def tools_of(client: Client, change: Change, token: str | None = None) -> list[str]:
    """Start what was written, as the client does, and list its tools. With a token, its address is called.

    The file is not read again: meanwhile an agent could have written another command.
    """
    entry, file = change.entry or {}, change.file
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
