"""What a tool wrote in a run, scrubbed: `tests/recordings/TOOL-VERSION/CASE.json`, with its streams beside it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real.bench import Bench, Ran
from real.install import cache
from real.tools import KEY

SKIPPED = frozenset({"large_answer", "long_prompt", "secrets"})
"""Too large to keep, or about secrets."""
HOME = "/home/ann"
WORK = "/home/ann/work"
TOOLS = "/home/ann/tools"
ENDPOINT = "http://127.0.0.1:8000"
_MAX_BYTES = 300_000
_KEPT = ("executed", "session", "denials", "exit_code", "ended_by")
_INIT_KEYS = ("tools", "slash_commands", "terminal_slash_commands", "skills", "plugins", "agents", "memory_paths")
_LEDGERS = {
    "claude": ".claude/projects/*/{session}.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*-{session}.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*-{short}.jsonl",
    "qwen": ".qwen/projects/*/chats/{session}.jsonl",
}
_GOOSE_COLUMNS = "session_id, created_timestamp, model, input_tokens, output_tokens, total_tokens, cache_read_tokens"
_LEDGER_WORDS = ("cost-state", "token_count", '"tokens":{', "qwen-code.api_")


def record(bench: Bench, name: str, ran: Ran, folder: Path) -> None:
    """Keep what the tool wrote in this run, and what the endpoints had told it."""
    if name in SKIPPED:
        return
    place = folder / bench.tool.release
    place.mkdir(parents=True, exist_ok=True)
    scrub = Scrubber(bench, ran)
    out, err = scrub(ran.output(".out"), events=True), scrub(ran.output(".err"))
    if len(out) + len(err) > _MAX_BYTES:
        return
    for suffix, stream in ((".out", out), (".err", err)):
        if stream:
            (place / f"{name}{suffix}").write_bytes(stream)
    (place / f"{name}.json").write_text(
        scrub.text(json.dumps(_about(bench, name, ran), indent=2, ensure_ascii=False)) + "\n"
    )
    if bench.tool.name == "opencode":  # versions differ in their options
        (place / "help.txt").write_text(bench.help("run"))
    ledger = _ledger(bench, ran)
    if ledger:
        (place / f"{name}.ledger").write_bytes(scrub(ledger))


def _about(bench: Bench, name: str, ran: Ran) -> dict[str, Any]:
    """What became of the run, and what the tool was told: the truth that a replay is compared with."""
    return {
        "tool": bench.tool.name,
        "version": bench.tool.version,
        "case": name,
        "state": ran.state,
        "started_at": ran.document["started_at"],
        "reason": ran.reason,
        "error": ran.error,
        "text": ran.text,
        "tokens": ran.tokens,
        "billed": ran.billed(),
        "cost_usd": ran.result["money"]["micro_dollars"] / 1e6 if ran.result else 0,
        "refused": [one.refused for one in ran.requests if one.refused],
        **{key: ran.result.get(key) for key in _KEPT},
    }


class Scrubber:
    """Takes this machine out of what is kept: its paths, its ports and its key."""

    def __init__(self, bench: Bench, ran: Ran) -> None:
        work = next(iter((bench.folder / "work").glob("*")), bench.folder / "work").parent
        self._replaced = [
            (str(work), WORK),
            (str(bench.home), HOME),
            (str(bench.folder), HOME),
            (str(cache()), TOOLS),
            (str(Path.home()), HOME),
            (bench.server.url, ENDPOINT),
            (f"127.0.0.1:{bench.server.server_port}", "127.0.0.1:8000"),
            (KEY, "[key]"),
        ]
        self._replaced += [(old.lstrip("/"), new.lstrip("/")) for old, new in self._replaced[:5]]
        # Some tools write a path with other signs: -root--cache-matins
        self._replaced += [(re.sub(r"[^A-Za-z0-9]", "-", old), "home-ann") for old, _ in self._replaced[:5]]

    def text(self, text: str) -> str:
        for old, new in self._replaced:
            text = text.replace(old, new)
        return re.sub(r"node_modules/[^\s\"'):]*", "node_modules/…", text)

    def __call__(self, data: bytes, *, events: bool = False) -> bytes:
        lines = self.text(data.decode("utf-8", "replace")).splitlines()
        return "".join(f"{_shorter(line) if events else line}\n" for line in lines).encode()


def _shorter(line: str) -> str:
    """The first event of some tools lists all that they have, which says nothing about a run."""
    if '"init"' not in line:
        return line
    try:
        event = json.loads(line)
    except ValueError:
        return line
    return json.dumps({key: value for key, value in event.items() if key not in _INIT_KEYS}, separators=(",", ":"))


def _ledger(bench: Bench, ran: Ran) -> bytes:
    """The lines of the tool's own record that tell what the session uses."""
    session = str(ran.result.get("session") or "")
    if not session:
        return b""
    if bench.tool.name == "goose":
        return _goose_ledger(bench.home / ".local/share/goose/sessions/sessions.db", session)
    pattern = _LEDGERS.get(bench.tool.name)
    found = next(bench.home.glob(pattern.format(session=session, short=session[:8])), None) if pattern else None
    if found is None:
        return b""
    return "".join(f"{line}\n" for line in _counting(found.read_text("utf-8", "replace").splitlines())).encode()


def _counting(lines: list[str]) -> Iterator[str]:
    """The lines that count, each after one that tells the time."""
    at: str | None = None
    for line in lines:
        event = json.loads(line)
        at = event.get("timestamp") or at
        if any(word in line for word in _LEDGER_WORDS):
            if "timestamp" not in event and at is not None:
                yield json.dumps({"type": "earlier", "timestamp": at})
            yield _without_content(event)


def _without_content(event: dict[str, Any]) -> str:
    """An event without what was said."""
    for key in ("content", "toolCalls", "thoughts", "modelUsage"):
        event.pop(key, None)
    told = event.get("systemPayload", {}).get("uiEvent", {})
    told.pop("response_text", None)
    return json.dumps(event, ensure_ascii=False)


def _goose_ledger(path: Path, session: str) -> bytes:
    """The rows, as statements: a database file is no text."""
    if not path.exists():
        return b""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    for suffix in ("-wal", "-shm"):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    with sqlite3.connect(copy) as connection:
        found = connection.execute("SELECT id, name, created_at FROM sessions WHERE name = ?", (session,)).fetchall()
        rows = connection.execute(f"SELECT {_GOOSE_COLUMNS} FROM usage_ledger ORDER BY id").fetchall()
    used = [row for row in rows if found and row[0] == found[0][0]]
    return "".join(f"{json.dumps(list(row))}\n" for row in (*found[:1], *used)).encode()
