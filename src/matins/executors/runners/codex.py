"""Codex: `codex exec --json -`, the prompt by stdin, one turn; its exit code is 0 even when the turn failed."""

from __future__ import annotations

from matins.executors.runners.base import Call, Command
from matins.executors.runners.checks import check_call, check_mode, check_own, refuse_word
from matins.executors.runners.events import Event, brief
from matins.executors.runners.outcomes import EventReader, Tokens

MODES = ("read-only", "workspace-write", "danger-full-access")
_OWN = ("--json", "--experimental-json", "--sandbox", "-s", "--skip-git-repo-check", "--model", "-m", "--cd", "-C",
        "resume", "review", "--last", "--ephemeral")  # fmt: skip
_NESTED = ("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI")


class Codex:
    name = "codex"
    program = "codex"
    provider = "openai"
    chooses_session = False
    tells = ("tokens",)

    def refuse(self, call: Call) -> None:
        check_call(call)
        check_mode(call, self.program, MODES)
        check_own(call, self.program, _OWN)
        hint = "say what it may do with permission_mode: " + ", ".join(MODES)
        refuse_word("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)
        refuse_word("max_turns", call.max_turns, self.program, "has no limit of turns", "give it a limit of time")

    def command(self, call: Call) -> Command:
        # Options stand before `resume`: after it, codex does not know them all.
        argv = [self.program, "exec", "--json", "--skip-git-repo-check"]
        argv.append(f"--sandbox={call.permission_mode or 'workspace-write'}")
        if call.model is not None:
            argv.append(f"--model={call.model}")
        argv.extend(call.extra_args)
        if call.session is not None:
            argv.extend(("resume", call.session))
        return Command(
            (*argv, "-"),
            call.prompt.encode(),
            env_drop=_NESTED,
            finals=(b'{"type":"turn.completed"', b'{"type":"turn.failed"'),
            gone=(b"no rollout found for thread id", b"no rollout found for conversation id"),
        )

    def reader(self) -> CodexReader:
        return CodexReader(self.program, self.provider)


class CodexReader(EventReader):
    """Tokens are those of the whole thread, also of a resumed one; an `error` alone may be one that it gets over."""

    def take(self, event: Event) -> None:
        noted = self.noted
        match event.text("type"):
            case "thread.started":
                noted.session = event.word("thread_id") or noted.session
            case "item.completed":
                self._take_item(event.inner("item"))
            case "turn.completed":
                noted.executed = noted.cumulative = True
                noted.tokens = _tokens(event.inner("usage"))
            case "turn.failed":
                noted.executed = noted.failed = True
                noted.error = brief(event.inner("error").text("message") or noted.error or "the turn failed")
            case "error":
                noted.error = brief(event.text("message") or "an error without a message")
            case _:
                pass

    def _take_item(self, item: Event) -> None:
        self.noted.show(item.text("command"), item.text("aggregated_output"))
        if item.text("type") == "agent_message":
            self.noted.text.begin()
            self.noted.text.add(item.text("text") or "")
        elif item.text("status") == "declined":
            self.noted.deny(brief(item.text("command") or item.text("tool") or item.text("type") or "a tool"))


def _tokens(usage: Event) -> Tokens:
    """What came from the cache is part of the input there, and not here."""
    cached = min(usage.whole("cached_input_tokens"), usage.whole("input_tokens"))
    return usage.whole("input_tokens") - cached, usage.whole("output_tokens"), cached
