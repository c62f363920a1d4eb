"""Qwen Code: `qwen` with the prompt on stdin. Its stream is close to that of Claude Code, without money."""

from __future__ import annotations

from matins.executors.runners.call_checks import check_session_id, check_tool_call
from matins.executors.runners.claude import ClaudeReader
from matins.executors.runners.gemini import mcp_settings
from matins.executors.runners.outcomes import Tokens, add_tokens
from matins.executors.runners.protocol import (
    Call,
    Command,
    Needs,
    Permission,
    RunnerResult,
    SessionLedger,
    SessionUsage,
    ToolSettings,
    given_options,
)
from matins.executors.runners.session_files import JsonLinesLedger, home_of
from matins.executors.runners.tool_events import Event, shorten

QWEN_MODES = ("plan", "default", "auto-edit", "auto", "yolo")
_QWEN_OPTIONS = ("-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "--input-format", "--approval-mode",
        "-y", "--yolo", "-r", "--resume", "-c", "--continue", "--session-id", "--fork-session", "-m", "--model",
        "--allowed-tools", "--max-session-turns")  # fmt: skip
_QWEN_EXITS = {52: "its settings are invalid", 53: "the limit of turns is reached", 130: "qwen was cancelled"}
_TURNS_EXIT = 53


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

    def check(self, call: Call) -> None:
        check_tool_call(call, self.program, QWEN_MODES, _QWEN_OPTIONS)
        check_session_id(call, self.program)

    def command(self, call: Call) -> Command:
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

    def ledger(self, call: Call) -> SessionLedger:
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
