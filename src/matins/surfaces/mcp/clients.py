"""Coding agents that can use the tools of Matins: where each one keeps its MCP servers, and in which form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matins.texts.foreign_entry import Format, Jsonc, Toml, Yaml

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
