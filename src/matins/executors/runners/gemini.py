"""Gemini CLI: the prompt by stdin alone, which makes it headless; a `result` event ends it."""

from __future__ import annotations

import re

from matins.executors.runners.base import Call, Command, Told
from matins.executors.runners.checks import check_call, check_mode, check_own, refuse_word
from matins.executors.runners.events import Event, action, brief
from matins.executors.runners.outcomes import EventReader, Tokens

MODES = ("default", "auto_edit", "plan", "yolo")
_OWN = ("-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "--approval-mode", "-y", "--yolo",
        "-r", "--resume", "--session-id", "-m", "--model", "--allowed-tools", "--list-sessions")  # fmt: skip
_EXITS = {
    41: "it is not logged in",
    42: "it refused its input, or does not know the session",
    44: "its sandbox failed",
    52: "its settings are wrong",
    53: "it took as many turns as it may",
    54: "a tool of its own failed",
    55: "it does not trust the workdir",
    130: "it was cancelled",
}
_TURNS_EXIT = 53
_DENIED = re.compile(r"denied by policy|requires (?:user )?confirmation", re.IGNORECASE)
_MOST_CALLS = 10_000


class Gemini:
    name = "gemini"
    program = "gemini"
    provider = "google"
    chooses_session = False
    tells = ("tokens", "model")

    def refuse(self, call: Call) -> None:
        check_call(call)
        check_mode(call, self.program, MODES)
        check_own(call, self.program, _OWN)
        hint = "set model.maxSessionTurns in its settings.json, or give it a limit of time"
        refuse_word("max_turns", call.max_turns, self.program, "takes no limit of turns on its command line", hint)

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
            # Headless, it does not start in a folder that nobody has trusted; naming the workdir did.
            env_add={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
            env_drop=("GEMINI_CLI",),
            finals=(b'{"type":"result"',),
            gone=(b"Error resuming session",),
        )

    def reader(self) -> GeminiReader:
        return GeminiReader(self.program, self.provider)


class GeminiReader(EventReader):
    """Words come in pieces; those after the last use of a tool are the answer."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._calls: dict[str, str] = {}

    def take(self, event: Event) -> None:
        noted = self.noted
        match event.text("type"):
            case "init":
                noted.session, noted.model = event.word("session_id") or noted.session, event.word("model")
            case "message" if event.text("role") == "assistant":
                self._take_words(event)
            case "tool_use":
                self._take_tool_use(event)
            case "tool_result":
                self._take_tool_result(event)
            case "error" if event.text("severity") != "warning":
                noted.error = brief(event.text("message") or "an error without a message")
            case "result":
                self._take_result(event)
            case _:
                pass

    def close(self, exit_code: int | None) -> Told:
        if not self.noted.executed and exit_code in _EXITS:
            self.noted.error = self.noted.error or f"gemini ended before its final event: {_EXITS[exit_code]}"
            self.noted.stopped_by = "turns" if exit_code == _TURNS_EXIT else None
        return super().close(exit_code)

    def _take_words(self, event: Event) -> None:
        if not event.flag("delta"):
            self.noted.text.begin()
        self.noted.text.add(event.text("content") or "")

    def _take_tool_use(self, event: Event) -> None:
        self.noted.text.begin()
        if len(self._calls) < _MOST_CALLS:
            self._calls[event.word("tool_id") or ""] = action(event.word("tool_name"), event.raw.get("parameters"))

    def _take_tool_result(self, event: Event) -> None:
        self.noted.show(event.text("output"))
        error = event.inner("error")
        if error.text("type") == "policy_violation" or _DENIED.search(error.text("message") or ""):
            self.noted.deny(self._calls.get(event.word("tool_id") or "", "a tool"))

    def _take_result(self, result: Event) -> None:
        noted = self.noted
        noted.executed = True
        noted.tokens = _tokens(result.inner("stats"))
        if result.text("status") != "success":
            noted.failed = True
            noted.error = brief(result.inner("error").text("message") or noted.error or "it failed and did not say why")


def _tokens(stats: Event) -> Tokens:
    """What came from the cache is part of the input there, and not here."""
    cached = min(stats.whole("cached"), stats.whole("input_tokens"))
    return stats.whole("input_tokens") - cached, stats.whole("output_tokens"), cached
