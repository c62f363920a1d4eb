"""Claude Code: `claude -p` with the prompt on stdin. Each turn has a `result` event; the last one is final."""

from __future__ import annotations

import json

from matins.executors.runners.outcomes import EventReader, Tokens, add_tokens, instant, limit_of_status
from matins.executors.runners.protocol import (
    Command,
    Limit,
    MatinsServer,
    Needs,
    Permission,
    RunnerRequest,
    SessionLedger,
    SessionUsage,
    StoppedBy,
    given_options,
)
from matins.executors.runners.request_checks import check_session_id, check_tool_call
from matins.executors.runners.session_files import JsonLinesLedger, folder_of
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
    storable,
    texts,
    thought,
)
from matins.model.run import Entry

MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
_OWN = ("-p", "--print", "--output-format", "--input-format", "--verbose", "--session-id", "--resume", "-r",
        "--continue", "-c", "--model", "--permission-mode", "--max-turns", "--max-budget-usd", "--allowedTools",
        "--allowed-tools", "--bg", "--background", "--effort")  # fmt: skip
_NESTED = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")
_STOPPED: dict[str, tuple[StoppedBy, str]] = {
    "error_max_turns": ("turns", "the limit of turns is reached"),
    "error_max_budget_usd": ("money", "the cost limit is reached"),
}
_SAME_RESULT = ("uuid", "subtype", "num_turns", "duration_ms", "total_cost_usd")
_SYNTHETIC = "<synthetic>"
_MAX_MESSAGES = 20_000


class Claude:
    name = "claude"
    program = "claude"
    provider = "anthropic"
    chooses_session = True
    efforts = ("low", "medium", "high", "xhigh", "max")
    needs = Needs(
        "npm install -g @anthropic-ai/claude-code",
        ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
        "claude /login",
        ("CLAUDE_CONFIG_DIR/.credentials.json", ".claude/.credentials.json"),
        Permission("acceptEdits", "it edits files in its directory without asking, and is refused other commands",
                   never_as_root=("bypassPermissions",), asks=True),
        ("ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR"),
    )  # fmt: skip

    def check(self, call: RunnerRequest) -> None:
        check_tool_call(call, self.program, MODES, _OWN)
        check_session_id(call, self.program)

    def command(self, call: RunnerRequest) -> Command:
        tools, server, cost = call.allowed_tools, call.server, call.max_cost_usd
        if server is not None:
            tools = (*tools, f"mcp__{server.name}")  # otherwise -p refuses its tools
        options = given_options(
            model=call.model,
            effort=call.effort,
            resume=call.session,
            session_id=call.new_session,
            permission_mode=call.permission_mode,
            mcp_config=server and _mcp_config(server),
            allowedTools=",".join(tools) or None,
            max_turns=call.max_turns,
            max_budget_usd=None if cost is None else f"{cost:.6f}".rstrip("0").rstrip("."),
        )
        return Command(
            (self.program, "-p", "--output-format=stream-json", "--verbose", *options, *call.extra_args),
            call.prompt.encode(),
            env_remove=_NESTED,
            finals=({"type": "result"},),
            retries=({"type": "system", "subtype": "api_retry"},),
            session_unknown=(b"No conversation found with session ID",),
        )

    def reader(self) -> ClaudeReader:
        return ClaudeReader(self.program, self.provider)

    def entries(self, event: Event) -> list[Entry] | None:
        """What an event of Claude Code or Qwen Code reports; None for an event of another tool."""
        match event.text("type"), event.text("subtype"):
            case "assistant" | "user", _:
                message = event.inner("message")
                if message.text("model") == _SYNTHETIC:  # the result says it again
                    return []
                return [entry for block in message.inners("content") for entry in _entries_of_block(block)]
            case "system", "init":
                return note(" in ".join(part for part in (event.name("model"), event.text("cwd")) if part) or "Begun")
            case "system", "api_retry" | "retry":
                return note(f"Trying again: {(event.name('error') or 'no answer').replace('_', ' ')}")
            case "system", "permission_denied":
                return problem(event.text("message"))
            case ("system" | "stream_event", _) if event.text("session_id") is not None:
                return []
            case "rate_limit_event", _:
                limited = event.inner("rate_limit_info").text("status") == "rejected"
                return problem("The provider's limit is reached") if limited else []
            case "result", str():
                return _entries_of_result(event)
            case _:
                return None

    def ledger(self, call: RunnerRequest) -> SessionLedger:
        """A transcript has the cost of its session whenever a run ends."""
        folder = folder_of(call.environment, "CLAUDE_CONFIG_DIR", ".claude") / "projects"
        return JsonLinesLedger(folder, "*/{}.jsonl", ClaudeAccount, call.owner)


def _mcp_config(server: MatinsServer) -> str:
    """The server in Claude's form. Claude fills in the variable."""
    headers = {"Authorization": "Bearer ${MATINS_TOKEN}"}
    return json.dumps({"mcpServers": {server.name: {"type": "http", "url": server.url, "headers": headers}}})


class ClaudeAccount:
    problem: str | None = None

    def __init__(self) -> None:
        self._cost_usd: float | None = None

    def add(self, event: Event) -> None:
        if event.text("type") == "cost-state":
            self._cost_usd = event.number("totalCostUSD")

    def usage(self) -> SessionUsage | None:
        return None if self._cost_usd is None else SessionUsage(cost_usd=self._cost_usd)


class ClaudeReader(EventReader):
    """Parts of a message repeat its usage, so each message counts once. A result replaces the sum. The cost is that of
    the whole session."""

    def __init__(self, program: str, provider: str) -> None:
        super().__init__(program, provider)
        self._messages: dict[str, Tokens] = {}
        self._last_result: tuple[str | float | None, ...] | None = None

    def handle(self, event: Event) -> None:
        self.notes.session = event.name("session_id") or event.name("sessionId") or self.notes.session
        match event.text("type"):
            case "assistant":
                self._handle_message(event)
            case "rate_limit_event":
                self._handle_limit(event.inner("rate_limit_info"))
            case "system" if event.text("subtype") in ("api_retry", "retry"):
                self._handle_retry(event)
            case "result":
                self._handle_result(event)
            case _:
                pass

    def tokens(self, usage: Event) -> Tokens:
        fresh = usage.count("input_tokens") + usage.count("cache_creation_input_tokens")
        return fresh, usage.count("output_tokens"), usage.count("cache_read_input_tokens")

    def _handle_retry(self, event: Event) -> None:
        status = event.count("error_status")
        error = (event.name("error") or "no reason").replace("_", " ")
        self.notes.retry(f"HTTP {status}: {error}" if status else f"no answer from the provider ({error})")
        self.notes.limit = self.notes.limit or limit_of_status(self.provider, status, self.notes.complaint or error)

    def _handle_message(self, event: Event) -> None:
        message = event.inner("message")
        if not self.notes.executed:
            self._count(message.name("id"), self.tokens(message.inner("usage")))
        if event.text("error") == "rate_limit":
            self.notes.limit = self.notes.limit or Limit(self.provider, None, "rate limited")
        elif event.text("error") is None and message.text("model") != _SYNTHETIC:
            self.notes.limit = None
            self.notes.served()
            self.notes.model = self.notes.model or message.name("model")
        if event.text("parent_tool_use_id") is None and not self.notes.executed:
            self._handle_text(message)

    def _count(self, identity: str | None, tokens: Tokens) -> None:
        """Count a message once: the last usage replaces earlier ones."""
        fresh, out, cached = self._messages.get(identity or "", (0, 0, 0))
        self.notes.spend(add_tokens(tokens, (-fresh, -out, -cached)))
        if identity is not None and (identity in self._messages or len(self._messages) < _MAX_MESSAGES):
            self._messages[identity] = tokens

    def _handle_text(self, message: Event) -> None:
        blocks = list(message.inners("content"))
        self.notes.actions += sum(block.text("type") == "tool_use" for block in blocks)
        texts = [block.text("text") or "" for block in blocks if block.text("type") == "text"]
        if any(texts):
            self.notes.text.begin()
            self.notes.text.add("\n".join(texts))

    def _handle_limit(self, info: Event) -> None:
        if info.text("status") != "rejected":
            self.notes.limit = None
            return
        kind = (info.name("rateLimitType") or "rate").replace("_", " ")
        self.notes.limit = Limit(self.provider, instant(info.number("resetsAt")), f"{kind} limit reached")

    def _handle_result(self, result: Event) -> None:
        """Tokens, turns and denials of turns add up. The cost covers all turns. The first failure stays."""
        notes, same = self.notes, tuple(result.name(key) or result.number(key) for key in _SAME_RESULT)
        if same == self._last_result:
            return
        self._last_result = same
        if not notes.executed:
            notes.tokens = (0, 0, 0)
        notes.executed = True
        notes.spend(self.tokens(result.inner("usage")))
        notes.turns = (notes.turns or 0) + result.count("num_turns")
        notes.report_cost(result, "total_cost_usd")
        if "total_cost_usd" in result.raw:
            notes.cumulative = frozenset({"cost"})
        for denial in result.inners("permission_denials"):
            notes.deny(action(denial.name("tool_name"), denial.raw.get("tool_input")))
        if not notes.failed:
            self._handle_ending(result)

    def _handle_ending(self, result: Event) -> None:
        notes, subtype = self.notes, result.text("subtype")
        text = result.text("result")
        notes.structured = storable(result.raw.get("structured_output"))
        notes.failed = subtype != "success" or result.raw.get("is_error") not in (False, None)
        if text is not None:
            notes.text.begin()
            notes.text.add(text)
        if not notes.failed:
            return
        stopped = _STOPPED.get(subtype or "")
        if stopped is not None:
            notes.stopped_by = stopped[0]
        told = "; ".join(result.texts("errors")) or result.inner("error").text("message") or text
        message = told or (stopped[1] if stopped else (subtype or "no subtype").replace("_", " "))
        notes.error = shorten(message)
        if notes.limit is None:
            notes.limit = limit_of_status(self.provider, result.count("api_error_status"), message)


def _entries_of_block(block: Event) -> list[Entry]:
    match block.text("type"):
        case "text":
            return said(block.text("text"))
        case "thinking":
            return thought(block.text("thinking"))
        case "tool_use" | "server_tool_use":
            return call(block.name("name"), block.raw.get("input"))
        case "tool_result":
            text = block.text("content") or texts(block.inners("content"))
            return result(text, failed=block.flag("is_error"))
        case _:
            return []


def _entries_of_result(event: Event) -> list[Entry]:
    cost = event.number("total_cost_usd")
    end = ended(amount(event.count("num_turns"), "turn"), f"${cost:.2f}" if cost else None)
    if event.text("subtype") == "success" and not event.flag("is_error"):
        return end
    told = "; ".join(event.texts("errors")) or event.inner("error").text("message") or event.text("result")
    return problem(told or (event.text("subtype") or "failed").replace("_", " ")) + end
