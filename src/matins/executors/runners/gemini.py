"""Gemini CLI: the prompt on stdin alone makes it headless. A `result` event ends the run."""

from __future__ import annotations

import re

from matins.executors.runners.call_checks import check_call, check_extra_args, check_mode, check_unused
from matins.executors.runners.outcomes import EventReader, Tokens
from matins.executors.runners.protocol import Call, Command, RunnerResult
from matins.executors.runners.tool_events import Event, action, shorten

MODES = ("default", "auto_edit", "plan", "yolo")
_OWN = ("-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "--approval-mode", "-y", "--yolo",
        "-r", "--resume", "--session-id", "-m", "--model", "--allowed-tools", "--list-sessions")  # fmt: skip
_EXITS = {
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
_MAX_CALLS = 10_000


class Gemini:
    name = "gemini"
    program = "gemini"
    provider = "google"
    chooses_session = False
    reports = ("tokens", "model")

    def check(self, call: Call) -> None:
        check_call(call)
        check_mode(call, self.program, MODES)
        check_extra_args(call, self.program, _OWN)
        hint = "Set model.maxSessionTurns in its settings.json, or use a timeout."
        check_unused("max_turns", call.max_turns, self.program, "has no option for a limit of turns", hint)

    def command(self, call: Call) -> Command:
        argv = [self.program, "--output-format=stream-json"]
        argv.append(f"--approval-mode={call.permission_mode or 'auto_edit'}")
        if call.model is not None:
            argv.append(f"--model={call.model}")
        if call.session is not None:
            argv.append(f"--resume={call.session}")
        if call.allowed_tools:
            argv.append(f"--allowed-tools={','.join(call.allowed_tools)}")
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            # Headless, gemini refuses an untrusted folder; naming the workdir is the user's trust.
            env_add={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
            env_remove=("GEMINI_CLI",),
            finals=(b'{"type":"result"',),
            session_unknown=(b"Error resuming session",),
        )

    def reader(self) -> GeminiReader:
        return GeminiReader(self.program, self.provider)


class GeminiReader(EventReader):
    """Text arrives in pieces. The text after the last tool call is the answer."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._calls: dict[str, str] = {}

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
            case "error" if event.text("severity") != "warning":
                notes.error = shorten(event.text("message") or "an error without a message")
            case "result":
                self._handle_result(event)
            case _:
                pass

    def close(self, exit_code: int | None) -> RunnerResult:
        if not self.notes.executed and exit_code in _EXITS:
            self.notes.error = self.notes.error or f"gemini ended before its final event: {_EXITS[exit_code]}"
            self.notes.stopped_by = "turns" if exit_code == _TURNS_EXIT else None
        return super().close(exit_code)

    def _handle_text(self, event: Event) -> None:
        if not event.flag("delta"):
            self.notes.text.begin()
        self.notes.text.add(event.text("content") or "")

    def _handle_tool_use(self, event: Event) -> None:
        self.notes.text.begin()
        if len(self._calls) < _MAX_CALLS:
            self._calls[event.name("tool_id") or ""] = action(event.name("tool_name"), event.raw.get("parameters"))

    def _handle_tool_result(self, event: Event) -> None:
        self.notes.show(event.text("output"))
        error = event.inner("error")
        if error.text("type") == "policy_violation" or _DENIED.search(error.text("message") or ""):
            self.notes.deny(self._calls.get(event.name("tool_id") or "", "a tool"))

    def _handle_result(self, result: Event) -> None:
        notes = self.notes
        notes.executed = True
        notes.tokens = _tokens(result.inner("stats"))
        if result.text("status") != "success":
            notes.failed = True
            notes.error = shorten(
                result.inner("error").text("message") or notes.error or "gemini failed without a reason"
            )


def _tokens(stats: Event) -> Tokens:
    """Gemini counts cached tokens as input; Matins does not."""
    cached = min(stats.count("cached"), stats.count("input_tokens"))
    return stats.count("input_tokens") - cached, stats.count("output_tokens"), cached
