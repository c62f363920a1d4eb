"""Claude Code: `claude -p`, the prompt by stdin, a `result` event for each turn and the last one final."""

from __future__ import annotations

import uuid

from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Command, Limit, StoppedBy
from matins.executors.runners.checks import check_call, check_mode, check_own
from matins.executors.runners.events import Event, action, brief, storable
from matins.executors.runners.limits import LIMITED, instant, limit_in
from matins.executors.runners.outcomes import EventReader, Tokens, plus

MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
_OWN = ("-p", "--print", "--output-format", "--input-format", "--verbose", "--session-id", "--resume", "-r",
        "--continue", "-c", "--model", "--permission-mode", "--max-turns", "--max-budget-usd", "--allowedTools",
        "--allowed-tools", "--bg", "--background")  # fmt: skip
_NESTED = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")
_STOPPED: dict[str, tuple[StoppedBy, str]] = {
    "error_max_turns": ("turns", "it took as many turns as it may"),
    "error_max_budget_usd": ("money", "it spent as much as it may"),
}
_SAME_RESULT = ("uuid", "subtype", "num_turns", "duration_ms", "total_cost_usd")
_SYNTHETIC = "<synthetic>"
_MOST_MESSAGES = 20_000


class Claude:
    name = "claude"
    program = "claude"
    provider = "anthropic"
    chooses_session = True

    def refuse(self, call: Call) -> None:
        check_call(call)
        check_mode(call, self.program, MODES)
        check_own(call, self.program, _OWN)
        if call.new_session is not None and not _is_uuid(call.new_session):
            message = f'claude takes only a UUID as the id of a new session, got "{call.new_session}"'
            raise InvalidInput(
                message, value=call.new_session, field="new_session", hint="leave it out, or give a UUID"
            )

    def command(self, call: Call) -> Command:
        argv = [self.program, "-p", "--output-format=stream-json", "--verbose"]
        if call.model is not None:
            argv.append(f"--model={call.model}")
        if call.session is not None:
            argv.append(f"--resume={call.session}")
        if call.new_session is not None:
            argv.append(f"--session-id={call.new_session}")
        if call.permission_mode is not None:
            argv.append(f"--permission-mode={call.permission_mode}")
        if call.allowed_tools:
            argv.append(f"--allowedTools={','.join(call.allowed_tools)}")
        if call.max_turns is not None:
            argv.append(f"--max-turns={call.max_turns}")
        if call.max_cost_usd is not None:
            argv.append(f"--max-budget-usd={call.max_cost_usd:.6f}".rstrip("0").rstrip("."))
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            env_drop=_NESTED,
            finals=(b'{"type":"result","subtype":',),
            gone=(b"No conversation found with session ID",),
        )

    def reader(self) -> ClaudeReader:
        return ClaudeReader(self.program, self.provider)


class ClaudeReader(EventReader):
    """Usage is repeated in every part of a message, so it counts once for each; a result's own replaces it all."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._messages: dict[str, Tokens] = {}
        self._last_result: tuple[str | float | None, ...] | None = None

    def take(self, event: Event) -> None:
        self.noted.session = event.word("session_id") or event.word("sessionId") or self.noted.session
        match event.text("type"):
            case "assistant":
                self._take_message(event)
            case "rate_limit_event":
                self._take_limit(event.inner("rate_limit_info"))
            case "system" if event.text("subtype") == "api_retry" and event.whole("error_status") in LIMITED:
                wait = event.whole("retry_delay_ms") or None
                self.noted.limit = Limit(self.provider, None, "it is asked to wait and tries again", wait)
            case "result":
                self._take_result(event)
            case _:
                pass

    def _take_message(self, event: Event) -> None:
        message = event.inner("message")
        if not self.noted.executed:
            self._count(message.word("id"), _tokens(message.inner("usage")))
        if event.text("error") == "rate_limit":
            self.noted.limit = self.noted.limit or Limit(self.provider, None, "rate limited")
        elif event.text("error") is None and message.text("model") != _SYNTHETIC:
            self.noted.limit = None  # it is served again
            self.noted.model = self.noted.model or message.word("model")
        if event.text("parent_tool_use_id") is None and not self.noted.executed:
            self._take_words(message)

    def _count(self, identity: str | None, tokens: Tokens) -> None:
        """The last word on each message holds."""
        fresh, out, cached = self._messages.get(identity or "", (0, 0, 0))
        self.noted.spend(plus(tokens, (-fresh, -out, -cached)))
        if identity is not None and (identity in self._messages or len(self._messages) < _MOST_MESSAGES):
            self._messages[identity] = tokens

    def _take_words(self, message: Event) -> None:
        words = [block.text("text") or "" for block in message.inners("content") if block.text("type") == "text"]
        if any(words):
            self.noted.text.begin()
            self.noted.text.add("\n".join(words))

    def _take_limit(self, info: Event) -> None:
        if info.text("status") != "rejected":
            self.noted.limit = None
            return
        kind = (info.word("rateLimitType") or "rate").replace("_", " ")
        self.noted.limit = Limit(self.provider, instant(info.number("resetsAt")), f"{kind} limit reached")

    def _take_result(self, result: Event) -> None:
        """A turn's tokens, turns and denials add up, the money is that of all turns, and the first failure stays."""
        noted, same = self.noted, tuple(result.word(key) or result.number(key) for key in _SAME_RESULT)
        if same == self._last_result:
            return
        self._last_result = same
        if not noted.executed:
            noted.tokens = (0, 0, 0)
        noted.executed = True
        noted.spend(_tokens(result.inner("usage")))
        noted.turns = (noted.turns or 0) + result.whole("num_turns")
        noted.cost_usd = result.number("total_cost_usd") if "total_cost_usd" in result.raw else noted.cost_usd
        for denial in result.inners("permission_denials"):
            noted.deny(action(denial.word("tool_name"), denial.raw.get("tool_input")))
        if not noted.failed:
            self._take_ending(result)

    def _take_ending(self, result: Event) -> None:
        noted, subtype = self.noted, result.text("subtype")
        words = result.text("result")
        noted.structured = storable(result.raw.get("structured_output"))
        noted.failed = subtype != "success" or result.raw.get("is_error") not in (False, None)
        if words is not None:
            noted.text.begin()
            noted.text.add(words)
        if noted.failed:
            self._take_failure(result, subtype or "no subtype", words)

    def _take_failure(self, result: Event, subtype: str, words: str | None) -> None:
        stopped = _STOPPED.get(subtype)
        if stopped is not None:
            self.noted.stopped_by = stopped[0]
        said = "; ".join(result.texts("errors")) or words or (stopped[1] if stopped else subtype.replace("_", " "))
        self.noted.error = brief(said)
        if result.whole("api_error_status") in LIMITED and self.noted.limit is None:
            self.noted.limit = limit_in(self.provider, said) or Limit(self.provider, None, self.noted.error)


def _tokens(usage: Event) -> Tokens:
    fresh = usage.whole("input_tokens") + usage.whole("cache_creation_input_tokens")
    return fresh, usage.whole("output_tokens"), usage.whole("cache_read_input_tokens")


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
