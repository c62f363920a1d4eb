"""Lines of a crontab that call an agent's tool: one simple command becomes a prompt, all others stay commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from matins.engine.commands import programs_of

_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""")
_FILLED = re.compile(r"[$`]")
_UNQUOTED = re.compile(r"[*?\[\]{}#]")
_CD = re.compile(r"""\s*cd\s+('[^']*'|"[^"$`\\]*"|[^\s;&|<>()'"]+)\s*&&\s*""")
_SIGN = re.compile(r"[12&]?>>?")
_FILE = re.compile(r"(?:&[12]|[^<>|;&()'\"]+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class AgentCall(NamedTuple):
    """A prompt to an agent's tool."""

    tool: str
    prompt: str
    folder: str | None
    variables: Mapping[str, str]
    log: str | None
    """The file that the output went to."""
    settings: Mapping[str, Any]
    """Settings of the agent."""


class KeptCommand(NamedTuple):
    """A command that calls a tool in a way that is not taken over."""

    tool: str
    reason: str


class _Option(NamedTuple):
    setting: str | None
    """The setting of the agent that it becomes; None for what Matins decides itself."""
    value: Any = None
    """What it means; None if its value follows."""


class _Tool(NamedTuple):
    options: Mapping[str, _Option]
    asks: tuple[str, ...]
    """What says that it works without a person."""
    prompt_follows: bool = False
    """Whether the prompt is the value of what says so."""


_PRINT = _Option(None, True)
_TOOLS: Mapping[str, _Tool] = {
    "claude": _Tool(
        {
            "-p": _PRINT, "--print": _PRINT, "--verbose": _PRINT, "--output-format": _Option(None),
            "--model": _Option("model"), "--permission-mode": _Option("permission_mode"),
            "--allowedTools": _Option("tools"), "--allowed-tools": _Option("tools"),
            "--max-turns": _Option("max_turns"),
            "--dangerously-skip-permissions": _Option("permission_mode", "bypassPermissions"),
        },
        ("-p", "--print"),
    ),
    "codex": _Tool(
        {
            "-m": _Option("model"), "--model": _Option("model"), "-s": _Option("permission_mode"),
            "--sandbox": _Option("permission_mode"), "--full-auto": _Option("permission_mode", "workspace-write"),
            "--dangerously-bypass-approvals-and-sandbox": _Option("permission_mode", "danger-full-access"),
            "--skip-git-repo-check": _PRINT, "--json": _PRINT, "-C": _Option("workdir"), "--cd": _Option("workdir"),
        },
        ("exec",),
    ),
    "gemini": _Tool(
        {
            "-m": _Option("model"), "--model": _Option("model"), "-y": _Option("permission_mode", "yolo"),
            "--yolo": _Option("permission_mode", "yolo"), "--approval-mode": _Option("permission_mode"),
            "-o": _Option(None), "--output-format": _Option(None),
        },
        ("-p", "--prompt"),
        prompt_follows=True,
    ),
}  # fmt: skip


def agent_call(command: str, stdin: str | None) -> AgentCall | KeptCommand | None:
    """The call of a tool that a command is; None if it calls none."""
    tool = next((name for program in programs_of(command) if (name := PurePath(program).name) in _TOOLS), None)
    if tool is None:
        return None
    filled = _QUOTED.sub(lambda found: "" if found[0].startswith("'") else found[0], command)
    moved = _CD.match(command)
    rest = command[moved.end() :] if moved else command
    rest, files = _without_output(rest)
    bare = _QUOTED.sub("", rest)
    reason = None
    if _FILLED.search(filled) or _UNQUOTED.search(bare):
        reason = "with a part that the shell fills in"
    elif "|" in bare.replace("||", ";"):
        reason = "through a pipe"
    elif any(sign in bare for sign in ";&()\n"):
        reason = "beside other commands"
    elif "<" in bare or ">" in bare:
        reason = "with files that the shell opens"
    words = [] if reason else _words(rest)
    variables: dict[str, str] = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    if reason is None and (not words or PurePath(words[0]).name != tool):
        reason = f"behind {words[0]}" if words else "in quotes that do not end"
    if reason is not None:
        return KeptCommand(tool, reason)
    found = _read_options(_TOOLS[tool], words[1:], stdin)
    if isinstance(found, str):
        return KeptCommand(tool, found)
    prompt, settings = found
    folder = settings.pop("workdir", None) or (shlex.split(moved[1])[0] if moved else None)
    logs = [file for file in files if not file.startswith(("&", "/dev/"))]
    return AgentCall(tool, prompt, folder, variables, logs[0] if logs else None, settings)


def _without_output(text: str) -> tuple[str, list[str]]:
    """The text without the redirections at its end, and the files that they name."""
    words = [(found.start(), found[0]) for found in re.finditer(r"\S+", text)]
    files: list[str] = []
    while words:
        _, word = words[-1]
        sign = _SIGN.match(word)
        if sign is not None and _FILE.fullmatch(word, sign.end()):
            files.insert(0, word[sign.end() :])
            text = text[: words.pop()[0]]
        elif len(words) > 1 and _SIGN.fullmatch(words[-2][1]) and _FILE.fullmatch(word):
            files.insert(0, word)
            words.pop()
            text = text[: words.pop()[0]]
        else:
            break
    return text, files


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _read_options(tool: _Tool, words: list[str], stdin: str | None) -> tuple[str, dict[str, Any]] | str:
    """The prompt and the settings of the agent; a text says why they cannot be read."""
    settings: dict[str, Any] = {}
    texts: list[str] = []
    asked = False
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in tool.asks and not asked:
            asked = True
            if tool.prompt_follows and (equals or words):
                texts.append(value if equals else words.pop(0))
        elif not word.startswith("-"):
            texts.append(word)
        elif name not in tool.options:
            return f"with {name}, which is not taken over"
        else:
            option = tool.options[name]
            if option.value is None and not equals and not words:
                return f"with {name} that has no value"
            given = option.value if option.value is not None else value if equals else words.pop(0)
            if option.setting is not None:
                settings[option.setting] = _value(option.setting, given)
    if not asked:
        return f"without {tool.asks[0]}"
    if stdin is not None and stdin.strip():
        texts.append(stdin)
    if len(texts) != 1 or not texts[0].strip():
        return f"with {len(texts) or 'no'} texts that could be the prompt"
    return texts[0], settings


def _value(setting: str, text: str) -> Any:
    if setting == "tools":
        return re.findall(r"[^,\s()]+(?:\([^()]*\))?", text)
    return int(text) if setting == "max_turns" and text.isdecimal() else text
