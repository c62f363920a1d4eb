"""goose: `goose run --instructions=-`, the prompt by stdin; a session is found again by the name that we gave it.

It ends with `complete` whatever happened: an `error` event, or words that it puts into the agent's mouth, say that it
failed.
"""

from __future__ import annotations

from matins.executors.runners.base import Call, Command, StoppedBy, Told
from matins.executors.runners.checks import check_call, check_mode, check_own, refuse_word
from matins.executors.runners.events import Event, action, brief
from matins.executors.runners.outcomes import EventReader, Tokens

MODES = ("auto", "chat")
_OWN = ("-i", "--instructions", "-t", "--text", "--recipe", "-q", "--quiet", "--output-format", "-n", "--name",
        "--session-id", "--id", "--path", "-r", "--resume", "--no-session", "--model", "--max-turns", "-s",
        "--interactive")  # fmt: skip
_NESTED = ("GOOSE_TERMINAL", "AGENT_SESSION_ID", "AGENT")
_FAILED = "Ran into this error:"
_UNREACHED = "Please resend your message to try again."
_TURNS = "I've reached the maximum number of actions I can do without user input"
_DECLINED = "declined to run this tool"
_MOST_CALLS = 10_000


class Goose:
    name = "goose"
    program = "goose"
    provider = "goose"
    chooses_session = True
    tells = ("tokens",)

    def refuse(self, call: Call) -> None:
        check_call(call)
        hint = "it has nobody to ask when it runs unattended: auto or chat"
        check_mode(call, self.program, MODES, hint if call.permission_mode in ("approve", "smart_approve") else None)
        check_own(call, self.program, _OWN)
        hint = 'choose its extensions with extra_args: "--no-profile", "--with-builtin=developer"'
        refuse_word("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)

    def command(self, call: Call) -> Command:
        argv = [self.program, "run", "--instructions=-", "--quiet", "--output-format=stream-json"]
        name = call.session or call.new_session
        argv.append("--no-session" if name is None else f"--name={name}")
        if call.session is not None:
            argv.append("--resume")
        if call.model is not None:
            argv.append(f"--model={call.model}")
        if call.max_turns is not None:
            argv.append(f"--max-turns={call.max_turns}")
        mode = {} if call.permission_mode is None else {"GOOSE_MODE": call.permission_mode}
        return Command(
            (*argv, *call.extra_args),
            call.prompt.encode(),
            env_add=mode,
            env_drop=_NESTED,
            finals=(b'{"type":"complete"',),
            gone=(b"No session found with name",),
        )

    def reader(self) -> GooseReader:
        return GooseReader(self.program, self.provider)


class GooseReader(EventReader):
    """Pieces of one message share its id. Tokens are those of the whole session; some versions tell only their sum,
    which then stands as input."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._calls: dict[str, str] = {}
        self._speaking: tuple[str | None, str | None] | None = None

    def take(self, event: Event) -> None:
        noted = self.noted
        match event.text("type"):
            case "message":
                self._take_message(event.inner("message"))
            case "error":
                noted.failed = True
                noted.error = brief(event.text("error") or "an error without a message")
            case "complete":
                noted.executed = noted.cumulative = True
                noted.tokens = _tokens(event)
            case _:
                pass

    def close(self, exit_code: int | None) -> Told:
        words = self.noted.text.last_words().strip()
        if words.startswith(_TURNS):
            self._fail(words, "turns")
        elif words.startswith(_FAILED) or words.endswith(_UNREACHED):
            self._fail(words)
        return super().close(exit_code)

    def _fail(self, words: str, stopped_by: StoppedBy | None = None) -> None:
        self.noted.failed = True
        self.noted.stopped_by = stopped_by
        self.noted.error = self.noted.error or brief(words)

    def _take_message(self, message: Event) -> None:
        speaking = (message.word("role"), message.word("id"))
        if speaking != self._speaking:
            self._speaking = speaking
            self.noted.text.begin()
        for part in message.inners("content"):
            self._take_part(part, by_agent=speaking[0] == "assistant")

    def _take_part(self, part: Event, *, by_agent: bool) -> None:
        match part.text("type"):
            case "text" if by_agent:
                self.noted.text.add(part.text("text") or "")
            case "toolRequest" if len(self._calls) < _MOST_CALLS:
                value = part.inner("toolCall").inner("value")
                self._calls[part.word("id") or ""] = action(value.word("name"), value.raw.get("arguments"))
            case "toolResponse":
                self._take_response(part)
            case "systemNotification" if part.text("notificationType") == "creditsExhausted":
                self._fail(part.text("msg") or "its provider's credits are used up")
            case _:
                pass

    def _take_response(self, part: Event) -> None:
        texts = _texts(part.inner("toolResult"))
        self.noted.show(*texts)
        if any(_DECLINED in text for text in texts):
            self.noted.deny(self._calls.get(part.word("id") or "", "a tool"))


def _texts(result: Event) -> list[str]:
    parts = [*result.inners("value"), *result.inner("value").inners("content")]
    return [said for said in (result.text("error"), *(part.text("text") for part in parts)) if said]


def _tokens(complete: Event) -> Tokens:
    told = complete.whole("input_tokens"), complete.whole("output_tokens")
    return (*told, 0) if any(told) else (complete.whole("total_tokens"), 0, 0)
