"""Gemini CLI, and Qwen Code, which descends from it.

Gemini CLI: the prompt on stdin alone makes it headless. A `result` event ends the run.

Qwen Code: `qwen` with the prompt on stdin. Its stream is close to that of Claude Code, without money.
"""

from __future__ import annotations

import re
from typing import Any

from matins.coding_tools.claude import ClaudeReader
from matins.executors.runners.outcomes import EventReader, Tokens, add_tokens
from matins.executors.runners.protocol import (
    Command,
    MatinsServer,
    Needs,
    Permission,
    RunnerRequest,
    RunnerResult,
    SessionLedger,
    SessionUsage,
    ToolSettings,
    given_options,
)
from matins.executors.runners.request_checks import check_session_id, check_tool_call, check_unused
from matins.executors.runners.session_files import JsonLinesLedger, home_of
from matins.executors.runners.tool_events import (
    Event,
    action,
    amount,
    call,
    ended,
    note,
    problem,
    result,
    said,
    shorten,
)
from matins.model.run import Entry

GEMINI_MODES = ("default", "auto_edit", "plan", "yolo")
_GEMINI_OPTIONS = (
    "-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "--approval-mode", "-y", "--yolo",
    "-r", "--resume", "--session-id", "-m", "--model", "--allowed-tools", "--list-sessions",
)  # fmt: skip
_GEMINI_EXITS = {
    41: "gemini is not logged in",
    42: "gemini rejected the input or the session",
    44: "the sandbox failed",
    52: "the settings of gemini are invalid",
    53: "the limit of turns is reached",
    54: "a tool of gemini failed",
    55: "gemini does not trust the workdir",
    130: "gemini was cancelled",
}
_TURNS_EXIT = 53
_DENIED = re.compile(r"denied by policy|requires (?:user )?confirmation", re.IGNORECASE)
_STOPS = re.compile(r"loop detected|maximum session turns", re.IGNORECASE)
_ATTEMPT = re.compile(r"Attempt \d+ failed[^:]*: (.*)", re.DOTALL)
_AGAIN = re.compile(r"Retrying (?:after|with)", re.IGNORECASE)
_MAX_CALLS = 10_000


class Gemini:
    name = "gemini"
    program = "gemini"
    provider = "google"
    chooses_session = False
    needs = Needs(
        "npm install -g @google/gemini-cli",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "gemini",
        (".gemini/oauth_creds.json",),
        Permission("auto_edit", "it edits files in its directory without asking, and is refused other commands"),
        ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
    )
    reports = ("tokens", "model")

    def check(self, call: RunnerRequest) -> None:
        check_tool_call(call, self.program, GEMINI_MODES, _GEMINI_OPTIONS)
        hint = "Set model.maxSessionTurns in its settings.json, or use a timeout."
        check_unused("max_turns", call.max_turns, self.program, "has no option for a limit of turns", hint)

    def command(self, call: RunnerRequest) -> Command:
        options = given_options(
            approval_mode=call.permission_mode or "auto_edit",
            model=call.model,
            resume=call.session,
            allowed_tools=",".join(call.allowed_tools) or None,
        )
        return Command(
            (self.program, "--output-format=stream-json", *options, *call.extra_args),
            call.prompt.encode(),
            # Headless, gemini refuses an untrusted folder; naming the workdir is the user's trust.
            env_add={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
            env_remove=("GEMINI_CLI",),
            finals=({"type": "result"},),
            retries=("Retrying after ", "Retrying with backoff"),
            # Gemini skips system settings that root does not own, up to the root directory.
            settings=call.server and ToolSettings("GEMINI_CLI_HOME", mcp_settings(call.server), ".gemini"),
            stdout_file=True,
            session_unknown=(b"Error resuming session",),
        )

    def reader(self) -> GeminiReader:
        return GeminiReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of Gemini CLI reports; None for an event of another tool."""
        raw = event.raw
        match event.text("type"):
            case "init" if "session_id" in raw:
                return note(event.name("model") or "Begun")
            case "message" if isinstance(raw.get("content"), str):
                if event.text("role") != "assistant":
                    return []
                return said(event.text("content"), "answer" if event.flag("delta") else None)
            case "tool_use" if "tool_name" in raw:
                return call(event.name("tool_name"), raw.get("parameters"))
            case "tool_result" if "tool_id" in raw:
                failed = event.text("status") == "error"
                return result(event.text("output") or event.inner("error").text("message"), failed=failed)
            case "error" if "severity" in raw:
                warning = event.text("severity") == "warning"
                return note(event.text("message") or "a warning") if warning else problem(event.text("message"))
            case "result" if "status" in raw:
                stats = event.inner("stats")
                end = ended(amount(stats.count("total_tokens"), "token"))
                return end if event.text("status") == "success" else problem(event.inner("error").text("message")) + end
            case _:
                return None

    def ledger(self, call: RunnerRequest) -> SessionLedger:
        """Gemini records the tokens of each answer in the chat's file."""
        folder = home_of(call.environment) / ".gemini" / "tmp"
        return JsonLinesLedger(folder, "*/chats/session-*-{:.8}.jsonl", GeminiAccount, call.owner)


def mcp_settings(server: MatinsServer) -> dict[str, Any]:
    """The server in the form of Gemini's settings. Gemini fills in the variable."""
    headers = {"Authorization": "Bearer $MATINS_TOKEN"}
    return {"mcpServers": {server.name: {"httpUrl": server.url, "headers": headers, "trust": True}}}


class GeminiAccount:
    """An answer is written again when its tools are done."""

    problem: str | None = None

    def __init__(self) -> None:
        self._answers: dict[str, Tokens] = {}
        self._tokens: Tokens = (0, 0, 0)

    def add(self, event: Event) -> None:
        identity, tokens = event.name("id"), event.inner("tokens")
        if event.text("type") != "gemini" or identity is None or identity in self._answers or not tokens.raw:
            return
        cached = min(tokens.count("cached"), tokens.count("input"))
        answer = tokens.count("input") - cached, tokens.count("output") + tokens.count("thoughts"), cached
        self._answers[identity] = answer
        self._tokens = add_tokens(self._tokens, answer)

    def usage(self) -> SessionUsage | None:
        return SessionUsage(self._tokens) if self._answers else None


class GeminiReader(EventReader):
    """Text arrives in pieces. The text after the last tool call is the answer."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._calls: dict[str, str] = {}
        self._asked = True
        """Whether the model is asked again before the next event of it."""
        self._stopped: str | None = None

    def handle(self, event: Event) -> None:
        notes = self.notes
        match event.text("type"):
            case "init":
                notes.session, notes.model = event.name("session_id") or notes.session, event.name("model")
            case "message" if event.text("role") == "assistant":
                self._handle_text(event)
            case "tool_use":
                self._handle_tool_use(event)
            case "tool_result":
                self._handle_tool_result(event)
            case "error":
                self._handle_problem(event)
            case "result":
                self._handle_result(event)
            case _:
                pass

    def close(self, exit_code: int | None) -> RunnerResult:
        if not self.notes.executed and exit_code in _GEMINI_EXITS:
            self.notes.error = self.notes.error or f"gemini ended before its final event: {_GEMINI_EXITS[exit_code]}"
            self.notes.stopped_by = "turns" if exit_code == _TURNS_EXIT else None
        return super().close(exit_code)

    def handle_error(self, error: str) -> None:
        """`Attempt 1 failed: … Retrying after 7000ms...` may be two lines."""
        again = _ATTEMPT.match(error)
        if again is not None:
            self.notes.retry(again[1])
        elif not _AGAIN.search(error) and self.notes.retries == 0:
            super().handle_error(error)

    def _handle_problem(self, event: Event) -> None:
        message = shorten(event.text("message") or "an error without a message")
        if event.text("severity") != "warning":
            self.notes.error = message
        elif _STOPS.search(message):
            self._stopped = message

    def _handle_text(self, event: Event) -> None:
        text = event.text("content") or ""
        if not event.flag("delta"):
            self.notes.text.begin()
        self._note_answer()
        self.notes.show(text)
        self.notes.text.add(text)

    def _handle_tool_use(self, event: Event) -> None:
        self._note_answer()
        self.notes.actions += 1
        self.notes.text.begin()
        if len(self._calls) < _MAX_CALLS:
            self._calls[event.name("tool_id") or ""] = action(event.name("tool_name"), event.raw.get("parameters"))

    def _note_answer(self) -> None:
        """Note the beginning of an answer, which comes in many events."""
        if self._asked:
            self._asked = False
            self.notes.answer()
            self.notes.served()

    def _handle_tool_result(self, event: Event) -> None:
        self._asked = True
        self.notes.show(event.text("output"))
        error = event.inner("error")
        if error.text("type") == "policy_violation" or _DENIED.search(error.text("message") or ""):
            self.notes.deny(self._calls.get(event.name("tool_id") or "", "a tool"))

    def _handle_result(self, result: Event) -> None:
        notes = self.notes
        notes.executed = True
        notes.tokens = _tokens(result.inner("stats"))
        if self._stopped is not None:
            notes.failed, notes.error = True, f"gemini stopped: {self._stopped}"
        elif result.text("status") != "success":
            notes.failed = True
            notes.error = shorten(
                result.inner("error").text("message") or notes.error or "gemini failed without a reason"
            )


def _tokens(stats: Event) -> Tokens:
    """Gemini counts cached tokens as input; Matins does not."""
    cached = min(stats.count("cached"), stats.count("input_tokens"))
    return stats.count("input_tokens") - cached, stats.count("output_tokens"), cached


QWEN_MODES = ("plan", "default", "auto-edit", "auto", "yolo")
_QWEN_OPTIONS = (
    "-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "--input-format", "--approval-mode",
    "-y", "--yolo", "-r", "--resume", "-c", "--continue", "--session-id", "--fork-session", "-m", "--model",
    "--allowed-tools", "--max-session-turns",
)  # fmt: skip
_QWEN_EXITS = {52: "its settings are invalid", 53: "the limit of turns is reached", 130: "qwen was cancelled"}


class Qwen:
    name = "qwen"
    program = "qwen"
    provider = "qwen"
    chooses_session = True
    needs = Needs(
        "npm install -g @qwen-code/qwen-code",
        ("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        "qwen",
        (".qwen/oauth_creds.json",),
        Permission("auto-edit", "it edits files in its directory without asking, and is refused other commands"),
        ("OPENAI_BASE_URL", "OPENAI_MODEL"),
    )
    reports = ("tokens", "model")

    def check(self, call: RunnerRequest) -> None:
        check_tool_call(call, self.program, QWEN_MODES, _QWEN_OPTIONS)
        check_session_id(call, self.program)

    def command(self, call: RunnerRequest) -> Command:
        options = given_options(
            approval_mode=call.permission_mode or "auto-edit",
            model=call.model,
            resume=call.session,
            session_id=call.new_session,
            allowed_tools=",".join(call.allowed_tools) or None,
            max_session_turns=call.max_turns,
        )
        return Command(
            (self.program, "--output-format=stream-json", *options, *call.extra_args),
            call.prompt.encode(),
            env_add={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
            env_remove=("QWEN_CODE",),
            finals=({"type": "result"},),
            retries=({"type": "system", "subtype": "retry"}, "Retrying provider attempt"),
            settings=call.server and ToolSettings("QWEN_CODE_SYSTEM_DEFAULTS_PATH", mcp_settings(call.server)),
            stdout_file=True,
            session_unknown=(b"No saved session found with ID",),
        )

    def reader(self) -> QwenReader:
        return QwenReader(self.program, self.provider)

    def ledger(self, call: RunnerRequest) -> SessionLedger:
        """Qwen records each answer in the file of its chat, and each refusal, of which it says nothing elsewhere."""
        folder = home_of(call.environment) / ".qwen" / "projects"
        return JsonLinesLedger(folder, "*/chats/{}.jsonl", QwenAccount, call.owner)


class QwenAccount:
    def __init__(self) -> None:
        self._tokens: Tokens = (0, 0, 0)
        self.problem: str | None = None

    def add(self, event: Event) -> None:
        told = event.inner("systemPayload").inner("uiEvent")
        match told.name("event.name"):
            case "qwen-code.api_response":
                given, cached = told.count("input_token_count"), told.count("cached_content_token_count")
                out = told.count("output_token_count") + told.count("thoughts_token_count")
                self._tokens = add_tokens(self._tokens, (max(0, given - cached), out, min(cached, given)))
                self.problem = None
            case "qwen-code.api_error":
                message = told.text("error_message") or told.name("error_type") or "no reason"
                self.problem = shorten(f"HTTP {told.count('status_code')}: {message}")
            case _:
                pass

    def usage(self) -> SessionUsage | None:
        return SessionUsage(self._tokens) if any(self._tokens) else None


class QwenReader(ClaudeReader):
    """The tokens of a result are those of the whole session."""

    def handle(self, event: Event) -> None:
        super().handle(event)
        if event.text("type") == "result":
            self.notes.cumulative = frozenset({"tokens"})

    def close(self, exit_code: int | None) -> RunnerResult:
        if not self.notes.executed and exit_code in _QWEN_EXITS:
            self.notes.error = self.notes.error or f"qwen ended before its final event: {_QWEN_EXITS[exit_code]}"
            self.notes.stopped_by = "turns" if exit_code == _TURNS_EXIT else None
        return super().close(exit_code)

    def tokens(self, usage: Event) -> Tokens:
        """Qwen counts cached tokens as input; Matins does not."""
        cached = min(usage.count("cache_read_input_tokens"), usage.count("input_tokens"))
        return usage.count("input_tokens") - cached, usage.count("output_tokens"), cached
