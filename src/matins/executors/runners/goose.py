"""goose: `goose run --instructions=-` with the prompt on stdin. Matins names the session and resumes it by that name.

Every run ends with `complete`. An `error` event, or a known failure message in the agent's text, marks a failure."""

from __future__ import annotations

import shlex

from matins.executors.runners.call_checks import check_tool_call, check_unused
from matins.executors.runners.goose_sessions import GooseLedger
from matins.executors.runners.outcomes import EventReader, Tokens
from matins.executors.runners.protocol import (
    Call,
    Command,
    Needs,
    Permission,
    RunnerResult,
    SessionLedger,
    StoppedBy,
    given_options,
)
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
    thought,
)
from matins.model.run import Entry

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

    def check(self, call: Call) -> None:
        hint = "A scheduled run cannot ask a person. Use auto or chat."
        asks = call.permission_mode in ("approve", "smart_approve")
        check_tool_call(call, self.program, MODES, _OWN, hint if asks else None)
        hint = 'Choose its extensions with extra_args: "--no-profile", "--with-builtin=developer".'
        check_unused("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)

    def command(self, call: Call) -> Command:
        argv = [self.program, "run", "--instructions=-", "--quiet", "--output-format=stream-json"]
        name = call.session or call.new_session
        argv.append("--no-session" if name is None else f"--name={name}")
        if call.session is not None:
            argv.append("--resume")
        extension = call.server and shlex.join(call.server.program)  # goose sends no headers
        argv += given_options(model=call.model, max_turns=call.max_turns, with_extension=extension)
        mode = {} if call.permission_mode is None else {"GOOSE_MODE": call.permission_mode}
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            env_add=mode,
            env_remove=_NESTED,
            finals=({"type": "complete"},),
            session_unknown=(b"No session found with name",),
        )

    def reader(self) -> GooseReader:
        return GooseReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of goose tells; None for an event of another tool."""
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

    def ledger(self, call: Call) -> SessionLedger:
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
                self._handle_response(part)
            case "systemNotification" if part.text("notificationType") == "creditsExhausted":
                self._fail(part.text("msg") or "the provider's credits are used up")
            case _:
                pass

    def _handle_response(self, part: Event) -> None:
        texts = _texts(part.inner("toolResult"))
        self.notes.show(*texts)
        if any(_DECLINED in text for text in texts):
            self.notes.deny(self._calls.get(part.name("id") or "", "a tool"))


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
