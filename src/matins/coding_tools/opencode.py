"""OpenCode.

opencode: `opencode run --format=json` with the prompt on stdin. The end of the last step is final.

The exit code is 0 also for a failure, an unknown session and a denied permission. Version 2 needs "--standalone", which
keeps the work in this process: its service would outlive the run. Version 1 does not know it, and allows everything
with "--auto". Problems of its provider are only in its log, which it is asked to print.

What a tool's own help says of its options: versions differ.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.runners.outcomes import LIMIT_STATUSES, EventReader, Tokens, limit_of_status, retry_after
from matins.executors.runners.protocol import (
    Ask,
    Command,
    Needs,
    Permission,
    RunnerRequest,
    RunnerResult,
    given_options,
)
from matins.executors.runners.request_checks import check_tool_call, check_unused
from matins.executors.runners.tool_events import Event, action, call, note, problem, result, said, shorten, thought
from matins.model.run import Entry

_lock = threading.Lock()
_known: dict[tuple[object, ...], frozenset[str]] = {}


def has_option(ask: Ask, program: str, words: tuple[str, ...], option: str, environment: Mapping[str, str]) -> bool:
    """Whether the help of a program names an option. The program is asked once, until it is replaced: by an agent, it
    may be, so it is started like a run."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    status = Path(path).stat()
    key = path, words, environment.get("HOME", ""), status.st_mtime_ns, status.st_size
    with _lock:  # several runs may begin at once
        if key not in _known:
            _, output, errors = ask((path, *words, "--help"))
            text = f"{output}\n{errors}"
            _known[key] = frozenset(text.replace(",", " ").replace("=", " ").split())
        return option in _known[key]


MODES = ("default", "auto")
_OWN = ("--format", "-s", "--session", "-c", "--continue", "-m", "--model", "--variant", "--dir", "--attach",
        "--server", "--fork", "--standalone", "--command", "--auto", "--yolo", "--dangerously-skip-permissions",
        "--print-logs", "--log-level")  # fmt: skip
_NESTED = ("OPENCODE", "OPENCODE_PID", "OPENCODE_SERVER", "AGENT")
_GOES_ON = ("tool-calls", "unknown")
_DENIED = re.compile(
    r"reject\w{0,10} permission|permission.{0,60}(?:rejected|denied)|request was rejected", re.IGNORECASE
)
_LOGGED = re.compile(r'error\.error="((?:[^"\\]|\\.)*)"')
_SESSION = "ses"
_CONFIG = "OPENCODE_CONFIG_CONTENT"
_MAX_STEPS = 20_000


class Opencode:
    name = "opencode"
    program = "opencode"
    provider = "opencode"
    chooses_session = False
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    """Variants of models. Each model has some of them; opencode leaves out what a model does not have."""
    needs = Needs(
        "npm install -g opencode-ai",
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
        "opencode auth login",
        (".local/share/opencode/auth.json",),
        Permission("auto", "it edits files and runs commands without asking"),
    )

    def check(self, call: RunnerRequest) -> None:
        check_tool_call(call, self.program, MODES, _OWN)
        hint = 'Set "permission" in its opencode.json.'
        check_unused("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)
        check_unused("max_turns", call.max_turns, self.program, "has no limit of turns", "Use a timeout.")
        if call.model is not None and "/" not in call.model:
            message = f'A model of opencode must be "provider/model", not "{call.model}".'
            raise InvalidInput(message, value=call.model, field="model", hint=f'For example: "anthropic/{call.model}".')
        if call.session is not None and not call.session.startswith(_SESSION):
            message = f'"{call.session}" is not a session of opencode: sessions begin with "{_SESSION}".'
            raise InvalidInput(message, value=call.session, field="session", hint="List them: opencode session list")

    def command(self, call: RunnerRequest) -> Command:
        argv = [self.program, "run", "--format=json", "--print-logs", "--log-level=ERROR"]
        if self._has(call, "--standalone"):
            argv.append("--standalone")
        argv += given_options(model=call.model, variant=call.effort, session=call.session)
        if call.permission_mode == "auto":
            older = "--dangerously-skip-permissions"
            argv.append(older if self._has(call, older) else "--auto")
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            env_add={"PWD": call.workdir, **_config(call)},  # opencode trusts PWD more than its working directory
            env_remove=_NESTED,
            finals=({"type": "step_finish", "part.reason": "stop"},),
            retries=("stream error",),
            stdout_file=True,
            session_unknown=(b"Session not found",),
        )

    def _has(self, call: RunnerRequest, option: str) -> bool:
        return call.ask is not None and has_option(call.ask, self.program, ("run",), option, call.environment)

    def reader(self) -> OpencodeReader:
        return OpencodeReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of opencode reports; None for an event of another tool."""
        part = event.inner("part")
        match event.text("type"):
            case "step_start" if part.raw:
                return []
            case "step_finish" if part.raw:
                reason = part.text("reason") or "unknown"
                return [] if reason in _GOES_ON else note("Ended" if reason == "stop" else f"Stopped early: {reason}")
            case "text" if part.raw:
                return said(part.text("text"))
            case "reasoning" if part.raw:
                return thought(part.text("text"))
            case "tool_use" if part.raw:
                state = part.inner("state")
                answer = result(state.text("output") or state.text("error"), failed=state.text("status") == "error")
                return call(part.name("tool"), state.raw.get("input")) + answer
            case "error" if isinstance(event.raw.get("error"), dict):
                error = event.inner("error")
                return problem(error.inner("data").text("message") or error.text("message") or error.name("name"))
            case _:
                return None


def _config(call: RunnerRequest) -> dict[str, str]:
    """The settings that the agent gives inline, with the server of Matins. opencode fills in the variable."""
    if call.server is None:
        return {}
    try:
        config = json.loads(call.environment.get(_CONFIG) or "{}")
    except ValueError:
        return {}  # opencode reports it
    headers = {"Authorization": "Bearer {env:MATINS_TOKEN}"}
    server = {"type": "remote", "url": call.server.url, "headers": headers, "enabled": True}
    config["mcp"] = {**config.get("mcp", {}), call.server.name: server}
    return {_CONFIG: json.dumps(config)}


class OpencodeReader(EventReader):
    """Each step counts once. A failed step may be retried: the last event, an end or an error, decides."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._steps: set[str] = set()
        self._message: str | None = None

    def handle(self, event: Event) -> None:
        self.notes.session = event.name("sessionID") or self.notes.session
        part = event.inner("part")
        match event.text("type"):
            case "text":
                self._handle_text(part)
            case "tool_use":
                self._handle_tool(part)
            case "step_finish":
                self._handle_step(part)
            case "error":
                self._handle_error(event.inner("error"))
            case _:
                pass

    def close(self, exit_code: int | None) -> RunnerResult:
        notes = self.notes
        if not notes.executed and notes.denials:  # it asks nobody, and stops
            notes.error = notes.error or f"opencode stopped, because a tool call was denied: {notes.denials[-1]}"
        return super().close(exit_code)

    def handle_error(self, error: str) -> None:
        """Its log has the answers of its provider; its output does not say that it tries again."""
        if "stream error" in error:
            found = _LOGGED.search(error)
            self.notes.retry(found[1] if found else error)
        elif self.notes.retries == 0:
            super().handle_error(error)

    def _handle_text(self, part: Event) -> None:
        message = part.name("messageID")
        if message is None or message != self._message:
            self.notes.text.begin()
            self._message = message
        self.notes.text.add(part.text("text") or "")

    def _handle_tool(self, part: Event) -> None:
        state = part.inner("state")
        self.notes.actions += 1
        if state.text("status") == "error" and _DENIED.search(shorten(state.text("error") or "")):
            self.notes.deny(action(part.name("tool"), state.raw.get("input")))

    def _handle_step(self, part: Event) -> None:
        notes, identity = self.notes, part.name("id")
        if identity not in self._steps:
            if identity is not None and len(self._steps) < _MAX_STEPS:
                self._steps.add(identity)
            notes.turns = (notes.turns or 0) + 1
            notes.spend(_tokens(part.inner("tokens")))
            notes.report_cost(part, "cost", more=True)
        notes.served()
        reason = part.text("reason") or "unknown"
        if reason in _GOES_ON:
            return
        notes.executed = True
        notes.failed = reason != "stop"
        notes.error = None if reason == "stop" else f"opencode stopped early: {shorten(reason)}"
        notes.limit = None

    def _handle_error(self, error: Event) -> None:
        data, notes = error.inner("data"), self.notes
        message = data.text("message") or error.text("message") or error.text("name") or "an error without a message"
        notes.failed = True
        notes.error = shorten(message)
        wait, status = data.inner("responseHeaders").text("retry-after"), data.count("statusCode")
        limited = limit_of_status(self.provider, status, notes.error)
        notes.limit = retry_after(self.provider, wait, notes.error) if status in LIMIT_STATUSES else limited


def _tokens(tokens: Event) -> Tokens:
    cache = tokens.inner("cache")
    fresh = tokens.count("input") + cache.count("write")
    return fresh, tokens.count("output") + tokens.count("reasoning"), cache.count("read")
