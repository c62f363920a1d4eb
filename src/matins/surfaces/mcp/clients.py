"""Coding agents that can use the tools of Matins: where each one keeps its MCP servers, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matins.texts.entries import Format, Jsonc, Toml, Yaml

NAME = "matins"
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
    add: Callable[[Entry], list[str]] | None = None
    """The arguments with which the tool adds the entry itself; None where we write its file."""
    remove: tuple[str, ...] = ()


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


def _claude_add(entry: Entry) -> list[str]:
    return ["mcp", "add-json", "--scope", "user", NAME, json_line(entry)]


def json_line(entry: Entry) -> str:
    import json  # most commands do not need it

    return json.dumps(entry, ensure_ascii=False)


# Claude Code rewrites its file all the time, so it adds the entry itself. The commands of the others rewrite comments
# or other entries, or cannot remove one: their files are edited.
_CLAUDE_REMOVE = ("mcp", "remove", "--scope", "user", NAME)
CLIENTS: dict[str, Client] = {
    "claude": Client(_claude_file, Jsonc(), ("mcpServers", NAME), _claude, _joined, _claude_add, _CLAUDE_REMOVE),
    "codex": Client(_codex_file, Toml(), ("mcp_servers", NAME), _split, _joined),
    "gemini": Client(_gemini_file, Jsonc(), ("mcpServers", NAME), _split, _joined),
    "opencode": Client(_opencode_file, Jsonc(), ("mcp", NAME), _opencode, _opencode_command),
    "goose": Client(_goose_file, Yaml(), ("extensions", NAME), _goose, _goose_command),
}
