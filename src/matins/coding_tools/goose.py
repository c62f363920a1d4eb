"""goose: `goose run --instructions=-` with the prompt on stdin. Matins names the session and resumes it by that name.

Every run ends with `complete`. An `error` event, or a known failure message in the agent's text, marks a failure.

What goose has recorded of a session. A script inside the walls reads it, because an agent can write there.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from matins.errors import MatinsError
from matins.executors.inside import script
from matins.executors.runners.outcomes import EventReader, Tokens
from matins.executors.runners.protocol import (
    Ask,
    Command,
    Needs,
    Permission,
    RunnerRequest,
    RunnerResult,
    SessionLedger,
    SessionUsage,
    StoppedBy,
    given_options,
)
from matins.executors.runners.request_checks import check_tool_call, check_unused
from matins.executors.runners.tool_events import (
    MAX_NUMBER,
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
    thought,
)
from matins.model.run import Entry
from matins.runtime.clock import SystemClock

_SCRIPT = script("goose_usage")
_TIMEOUT_MS = 5_000
"""The script has two seconds of processor time; a busy machine needs longer for them."""
_MEMORY_BYTES = 256 << 20
_MAX_ANSWER_LENGTH = 4_000
_PAUSE_MS = 2_000
"""Interval of readings during a run: a limit is passed by what it uses meanwhile."""
_EVER = 1 << 62
_boot_ms = SystemClock().boot_ms


class Recorded(NamedTuple):
    usage: SessionUsage | None = None
    problem: str | None = None


class GooseLedger:
    def __init__(self, ask: Ask | None, boot_ms: Callable[[], int] = _boot_ms) -> None:
        """`ask` is None where there is no run: then nothing is known."""
        self._ask = ask
        self._boot_ms = boot_ms
        self._last = Recorded()
        self._next_at = 0
        self._asking = threading.Lock()

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        if before is not None:
            return self._read(session, before // 1000).usage
        with self._asking:
            self._last = self._read(session, _EVER)
        return self._last.usage

    def recent(self, session: str) -> SessionUsage | None:
        now = self._boot_ms()
        if now >= self._next_at:
            self._next_at = now + _PAUSE_MS
            threading.Thread(target=self._refresh, args=(session,), name="matins-goose", daemon=True).start()
        return self._last.usage

    def problem(self, session: str) -> str | None:
        """The problem of the last reading, that of the usage."""
        return self._last.problem

    def _refresh(self, session: str) -> None:
        """One at a time: the supervisor may be slower than the next look."""
        if self._asking.acquire(blocking=False):
            try:
                self._last = self._read(session, _EVER)
            finally:
                self._next_at = self._boot_ms() + _PAUSE_MS
                self._asking.release()

    def _read(self, session: str, before_s: int) -> Recorded:
        if self._ask is None:
            return Recorded()
        argv = (*_SCRIPT, session, str(before_s))
        try:
            exit_code, output, _ = self._ask(argv, timeout_ms=_TIMEOUT_MS, memory_bytes=_MEMORY_BYTES)
        except MatinsError:  # the agent cannot be isolated any more
            return Recorded()
        return read_answer(output) if exit_code == 0 else Recorded()


def read_answer(output: str) -> Recorded:
    """The answer of the script, which is an agent's word. Nothing is known of one that is not exactly as it should be:
    what the agent said is then counted."""
    if len(output) > _MAX_ANSWER_LENGTH:
        return Recorded()
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return Recorded()
    match answer:
        case {"usage": usage, "problem": problem} if len(cast("dict[str, Any]", answer)) == 2:
            return Recorded(_usage(usage), shorten(problem) if isinstance(problem, str) and problem else None)
        case _:
            return Recorded()


def _usage(counts: Any) -> SessionUsage | None:
    if not isinstance(counts, list):
        return None
    if not all(type(count) is int and 0 <= count <= MAX_NUMBER for count in cast("list[Any]", counts)):
        return None
    match cast("list[int]", counts):
        case [answers, given, out, cached] if answers > 0:
            return SessionUsage((max(0, given - cached), out, cached))
        case _:
            return None


MODES = ("auto", "chat")
_OWN = ("-i", "--instructions", "-t", "--text", "--recipe", "-q", "--quiet", "--output-format", "-n", "--name",
        "--session-id", "--id", "--path", "-r", "--resume", "--no-session", "--model", "--max-turns", "-s",
        "--interactive")  # fmt: skip
_NESTED = ("GOOSE_TERMINAL", "AGENT_SESSION_ID", "AGENT")
_FAILED = "Ran into this error:"
_UNREACHED = "Please resend your message to try again."
_TURNS = "I've reached the maximum number of actions I can do without user input"
_DECLINED = "declined to run this tool"
_MAX_CALLS = 10_000


class Goose:
    name = "goose"
    program = "goose"
    provider = "goose"
    chooses_session = True
    needs = Needs(
        "https://block.github.io/goose",
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
        "goose configure",
        (".config/goose/config.yaml",),
        Permission("auto", "it does what its extensions can, without asking"),
        ("GOOSE_PROVIDER", "GOOSE_MODEL"),
    )
    reports = ("tokens",)
    efforts = ("off", "low", "medium", "high", "max")

    def check(self, call: RunnerRequest) -> None:
        hint = "A scheduled run cannot ask a person. Use auto or chat."
        asks = call.permission_mode in ("approve", "smart_approve")
        check_tool_call(call, self.program, MODES, _OWN, hint if asks else None)
        hint = 'Choose its extensions with extra_args: "--no-profile", "--with-builtin=developer".'
        check_unused("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)

    def command(self, call: RunnerRequest) -> Command:
        argv = [self.program, "run", "--instructions=-", "--quiet", "--output-format=stream-json"]
        name = call.session or call.new_session
        argv.append("--no-session" if name is None else f"--name={name}")
        if call.session is not None:
            argv.append("--resume")
        extension = call.server and shlex.join(call.server.program)  # goose sends no headers
        argv += given_options(model=call.model, max_turns=call.max_turns, with_extension=extension)
        chosen = {"GOOSE_MODE": call.permission_mode, "GOOSE_THINKING_EFFORT": call.effort}
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            env_add={name: value for name, value in chosen.items() if value is not None},
            env_remove=_NESTED,
            finals=({"type": "complete"},),
            session_unknown=(b"No session found with name",),
        )

    def reader(self) -> GooseReader:
        return GooseReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of goose reports; None for an event of another tool."""
        match event.text("type"):
            case "message" if isinstance(event.raw.get("message"), dict):
                message = event.inner("message")
                return [entry for part in message.inners("content") for entry in _entries_of_part(part, message)]
            case "complete":
                return ended(amount(event.count("total_tokens"), "token"))
            case "error" if event.text("error") is not None:
                return problem(event.text("error"))
            case _:
                return None

    def ledger(self, call: RunnerRequest) -> SessionLedger:
        """goose records each answer in the store of its sessions."""
        return GooseLedger(call.ask)


class GooseReader(EventReader):
    """Pieces of a message share its id. Tokens are those of the whole session; a bare total counts as input."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._calls: dict[str, str] = {}
        self._message_key: tuple[str | None, str | None] | None = None

    def handle(self, event: Event) -> None:
        notes = self.notes
        match event.text("type"):
            case "message":
                self._handle_message(event.inner("message"))
            case "error":
                notes.failed = True
                notes.error = shorten(event.text("error") or "an error without a message")
            case "complete":
                notes.executed, notes.cumulative = True, frozenset({"tokens"})
                notes.tokens = _tokens(event)
            case _:
                pass

    def close(self, exit_code: int | None) -> RunnerResult:
        text = self.notes.text.final_text().strip()
        if text.startswith(_TURNS):
            self._fail(text, "turns")
        elif text.startswith(_FAILED) or text.endswith(_UNREACHED):
            self._fail(text)
        return super().close(exit_code)

    def _fail(self, text: str, stopped_by: StoppedBy | None = None) -> None:
        self.notes.failed = True
        self.notes.stopped_by = stopped_by
        self.notes.error = self.notes.error or shorten(text)

    def _handle_message(self, message: Event) -> None:
        message_key = (message.name("role"), message.name("id"))
        if message_key != self._message_key:
            self._message_key = message_key
            self.notes.text.begin()
            if message_key[0] == "assistant":
                self.notes.answer()
        for part in message.inners("content"):
            self._handle_part(part, by_agent=message_key[0] == "assistant")

    def _handle_part(self, part: Event, *, by_agent: bool) -> None:
        match part.text("type"):
            case "text" if by_agent:
                text = part.text("text") or ""
                self.notes.show(text)
                self.notes.text.add(text)
            case "error" if by_agent:
                self._fail(part.text("message") or "an error without a message")
            case "toolRequest" if len(self._calls) < _MAX_CALLS:
                self.notes.actions += 1
                value = part.inner("toolCall").inner("value")
                self._calls[part.name("id") or ""] = action(value.name("name"), value.raw.get("arguments"))
            case "toolResponse":
                texts = _texts(part.inner("toolResult"))
                self.notes.show(*texts)
                if any(_DECLINED in text for text in texts):
                    self.notes.deny(self._calls.get(part.name("id") or "", "a tool"))
            case "systemNotification" if part.text("notificationType") == "creditsExhausted":
                self._fail(part.text("msg") or "the provider's credits are used up")
            case _:
                pass


def _texts(result: Event) -> list[str]:
    parts = [*result.inners("value"), *result.inner("value").inners("content")]
    return [text for text in (result.text("error"), *(part.text("text") for part in parts)) if text]


def _tokens(complete: Event) -> Tokens:
    """goose counts cached tokens as input; Matins does not."""
    given, out = complete.count("input_tokens"), complete.count("output_tokens")
    cached = min(complete.count("cache_read_input_tokens"), given)
    return (given - cached, out, cached) if given or out else (complete.count("total_tokens"), 0, 0)


def _entries_of_part(part: Event, message: Event) -> list[Entry]:
    match part.text("type"):
        case "text" if message.text("role") == "assistant":
            return said(part.text("text"), message.name("id"))
        case "thinking":
            return thought(part.text("thinking"))
        case "error":
            return problem(part.text("message"))
        case "toolRequest":
            value = part.inner("toolCall").inner("value")
            return call(value.name("name"), value.raw.get("arguments"))
        case "toolResponse":
            answer = part.inner("toolResult")
            failed = answer.text("status") == "error" or answer.inner("value").flag("isError")
            return result("\n".join(_texts(answer)), failed=failed)
        case "systemNotification":
            return note(part.text("msg") or "a notification")
        case _:
            return []
