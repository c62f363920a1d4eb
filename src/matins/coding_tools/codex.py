"""Codex: `codex exec --json -` with the prompt on stdin, one turn. The exit code is 0 even when the turn fails."""

from __future__ import annotations

import re

from matins.executors.runners.outcomes import EventReader, Tokens
from matins.executors.runners.protocol import (
    Command,
    MatinsServer,
    Needs,
    Permission,
    RunnerRequest,
    SessionLedger,
    SessionUsage,
    given_options,
)
from matins.executors.runners.request_checks import check_tool_call, check_unused
from matins.executors.runners.session_files import JsonLinesLedger, folder_of
from matins.executors.runners.tool_events import (
    Event,
    amount,
    call,
    ended,
    note,
    problem,
    result,
    said,
    shorten,
    texts,
    thought,
)
from matins.model.run import Entry

MODES = ("read-only", "workspace-write", "danger-full-access")
_OWN = ("--json", "--experimental-json", "--sandbox", "-s", "--skip-git-repo-check", "--model", "-m", "--cd", "-C",
        "resume", "review", "--last", "--ephemeral")  # fmt: skip
_AGAIN = re.compile(r"Reconnecting(?:\.\.\.|…) (?:\d+/\d+|waiting for network)(?: \((.*)\))?", re.DOTALL)
_REJECTED = re.compile(r"`([^`]{1,2000})` rejected")
_NESTED = ("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI")


class Codex:
    name = "codex"
    program = "codex"
    provider = "openai"
    chooses_session = False
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh")
    needs = Needs(
        "npm install -g @openai/codex",
        ("OPENAI_API_KEY", "CODEX_API_KEY"),
        "codex login",
        ("CODEX_HOME/auth.json", ".codex/auth.json"),
        Permission("workspace-write", "it edits files and runs commands in its directory without asking"),
        ("CODEX_HOME", "OPENAI_BASE_URL"),
    )
    reports = ("tokens",)

    def check(self, call: RunnerRequest) -> None:
        check_tool_call(call, self.program, MODES, _OWN)
        hint = f"Use permission_mode: {', '.join(MODES)}."
        check_unused("allowed_tools", call.allowed_tools, self.program, "has no list of allowed tools", hint)
        check_unused("max_turns", call.max_turns, self.program, "has no limit of turns", "Use a timeout.")

    def command(self, call: RunnerRequest) -> Command:
        # Options precede `resume`: after it, codex does not accept them all.
        argv = [self.program, "exec", "--json", "--skip-git-repo-check"]
        argv += given_options(sandbox=call.permission_mode or "workspace-write", model=call.model)
        if call.effort is not None:
            argv += ["-c", f'model_reasoning_effort="{call.effort}"']
        if call.server is not None:
            argv += ["-c", _mcp_config(call.server)]
        argv.extend(call.extra_args)
        if call.session is not None:
            argv.extend(("resume", call.session))
        return Command(
            (*argv, "-"),
            call.prompt.encode(),
            env_remove=_NESTED,
            finals=({"type": "turn.completed"}, {"type": "turn.failed"}),
            retries=({"type": "error", "message": "Reconnecting*"},),
            session_unknown=(b"no rollout found for thread id", b"no rollout found for conversation id"),
        )

    def reader(self) -> CodexReader:
        return CodexReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of Codex reports; None for an event of another tool."""
        match event.text("type"):
            case "thread.started" | "turn.started" | "item.updated":
                return []
            case "item.started":
                return _entries_of_start(event.inner("item"))
            case "item.completed":
                return _entries_of_item(event.inner("item"))
            case "turn.completed":
                usage = event.inner("usage")
                tokens = amount(usage.count("input_tokens") + usage.count("output_tokens"), "token")
                return ended(tokens)
            case "turn.failed":
                return problem(event.inner("error").text("message"))
            case "error" if event.text("message") is not None and "severity" not in event.raw:
                message = event.text("message") or ""
                return note(message) if _AGAIN.fullmatch(message) else problem(message)
            case _:
                return None

    def ledger(self, call: RunnerRequest) -> SessionLedger:
        """Codex records the tokens of a thread in its file after each answer."""
        folder = folder_of(call.environment, "CODEX_HOME", ".codex") / "sessions"
        return JsonLinesLedger(folder, "*/*/*/rollout-*-{}.jsonl", CodexAccount, call.owner)


def _mcp_config(server: MatinsServer) -> str:
    settings = 'bearer_token_env_var="MATINS_TOKEN",default_tools_approval_mode="approve"'
    return f'mcp_servers.{server.name}={{url="{server.url}",{settings}}}'


class CodexAccount:
    problem: str | None = None

    def __init__(self) -> None:
        self._tokens: Tokens | None = None

    def add(self, event: Event) -> None:
        payload = event.inner("payload")
        total = payload.inner("info").inner("total_token_usage")
        if payload.text("type") == "token_count" and total.raw:
            self._tokens = _tokens(total)

    def usage(self) -> SessionUsage | None:
        return None if self._tokens is None else SessionUsage(self._tokens)


class CodexReader(EventReader):
    """Tokens are those of the whole thread, also when resumed. An `error` event alone may be recoverable."""

    def handle(self, event: Event) -> None:
        notes = self.notes
        match event.text("type"):
            case "thread.started":
                notes.session = event.name("thread_id") or notes.session
            case "item.completed":
                self._handle_item(event.inner("item"))
            case "turn.completed":
                notes.executed, notes.cumulative = True, frozenset({"tokens"})
                notes.tokens = _tokens(event.inner("usage"))
            case "turn.failed":
                notes.executed = notes.failed = True
                notes.error = shorten(event.inner("error").text("message") or notes.error or "the turn failed")
            case "error":
                self._handle_problem(event.text("message") or "an error without a message")
            case _:
                pass

    def handle_error(self, error: str) -> None:
        """Codex reports commands that its rules forbid on stderr only."""
        rejected = _REJECTED.search(error)
        if rejected is None:
            super().handle_error(error)
        else:
            self.notes.actions += 1
            self.notes.deny(shorten(rejected[1]))

    def _handle_problem(self, message: str) -> None:
        again = _AGAIN.fullmatch(message)
        if again is None:
            self.notes.error = shorten(message)
        else:
            self.notes.retry(again[1] or message)

    def _handle_item(self, item: Event) -> None:
        text, kind = item.text("text") or "", item.text("type")
        self.notes.answer(text)
        if kind != "error":
            self.notes.error = None  # it was one that Codex got over
            self.notes.served()
        self.notes.show(item.text("command"), item.text("aggregated_output"))
        if kind == "agent_message":
            self.notes.text.begin()
            self.notes.text.add(text)
        elif kind not in ("error", "reasoning"):
            self.notes.actions += 1
        if item.text("status") == "declined":
            self.notes.deny(shorten(item.text("command") or item.text("tool") or kind or "a tool"))


def _tokens(usage: Event) -> Tokens:
    """Codex counts cached tokens as input; Matins does not."""
    cached = min(usage.count("cached_input_tokens"), usage.count("input_tokens"))
    return usage.count("input_tokens") - cached, usage.count("output_tokens"), cached


def _entries_of_start(item: Event) -> list[Entry]:
    match item.text("type"):
        case "command_execution":
            return call("shell", {"command": item.text("command") or ""})
        case "mcp_tool_call":
            return call(f"{item.name('server') or 'mcp'}.{item.name('tool') or 'tool'}", item.raw.get("arguments"))
        case _:
            return []  # reported when it is complete


def _entries_of_item(item: Event) -> list[Entry]:
    match item.text("type"):
        case "agent_message":
            return said(item.text("text"))
        case "reasoning":
            return thought(item.text("text"))
        case "error":
            return note(item.text("message") or "an error without a message")
        case "file_change":
            changes = [f"{each.name('kind') or 'change'} {each.text('path') or ''}" for each in item.inners("changes")]
            return call("edit", {"path": "; ".join(changes)})
        case "web_search":
            return call("web_search", {"query": item.text("query") or ""})
        case "command_execution" | "mcp_tool_call":
            return _entries_of_result(item)
        case kind:
            return note(f"{kind or 'item'} {item.text('text') or ''}".strip())


def _entries_of_result(item: Event) -> list[Entry]:
    failed = item.text("status") in ("failed", "declined")
    answer = texts(item.inner("result").inners("content"))
    told = item.text("aggregated_output") or item.inner("error").text("message") or answer
    if item.text("status") == "declined":
        return problem(f"Declined. {told or ''}".rstrip())
    exit_code = item.count("exit_code")
    return result(f"{told or ''}\nexit {exit_code}" if exit_code else told, failed=failed)
