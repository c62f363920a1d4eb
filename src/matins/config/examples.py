"""An example for every word of the file: editors show them, the page lists them, the tests use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEDULE: Mapping[str, Any] = {
    "when": "every weekday at 9am",
    "agent": "scout",
    "preset": "herdctl",
    "paused": "until the new key is there",
    "type": "interval",
    "interval": "5m",
    "expression": "0 9 * * 1-5",
    "about": "So that nobody waits for a review",
    "labels": {"project": "apollo"},
    "prompt": "Summarise my open PRs",
    "target": {"kind": "channel", "channel": "C07ABCDEF"},
    "do": "report",
    "payload": {"depth": 3},
    "jitter": 5,
    "ends": "2099-12-31T18:00",
    "catch_up": "run_once",
    "overlap": "queue",
    "at_capacity": "skip",
    "on_unknown": "hold",
    "approval": "owner_approve",
    "approval_default": "deny",
    "fallback": "wait",
    "final_fallback": "skip",
    "cap": 3,
    "queue_limit": 10,
    "retries": 2,
    "max_executions": 30,
    "pause_after": 5,
    "approvals_needed": 1,
    "grace": "2h",
    "retry": "30s",
    "retry_most": "10m",
    "timeout": "1h",
    "check_limit": "15s",
    "approval_expires": "12h",
    "wait": "30m",
    "quiet_hours": "nights",
    "provider": "anthropic",
    "work": "backlog",
    "approvers": ["ada", "grace"],
    "approval_actions": ["scheduled-task"],
    "pre_check": "true",
    "before": ["true"],
    "after": "true",
    "max_cost": "$2",
    "max_tokens": "200k",
    "timezone": "Europe/Berlin",
    "dst_gap": "after",
    "dst_overlap": "first",
    "anchor": "start",
    "first": "immediately",
    "strict": True,
}
AGENT: Mapping[str, Any] = {
    "runner": "claude",
    "model": "claude-sonnet-5-5",
    "workdir": "~/src/garden",
    "permission_mode": "acceptEdits",
    "provider": "anthropic",
    "url": "http://localhost:11434/v1",
    "tools": ["Read", "Grep"],
    "command": ["./work.sh", "--once"],
    "arguments": ["--verbose"],
    "max_turns": 20,
    "max_concurrent": 2,
    "wall": "1h",
    "idle": "none",
    "after_final": "30s",
    "environment": {"API_KEY": "env:API_KEY"},
    "max_cost": "$1.50",
    "target": "fresh",
    "options": {"effort": "high"},
}
RULES: Mapping[str, Any] = {
    "quota": 5,
    "depth": 1,
    "auto_one_shots": True,
    "auto_jobs": ["scheduled-task"],
    "floor": "10m",
    "expiry": "7d",
    "approval_expires": "2d",
}
BUDGET: Mapping[str, Any] = {
    "scope": "agent",
    "of": "scout",
    "per": "day",
    "money": "$5",
    "tokens": "2M",
    "timezone": "Europe/Berlin",
}
QUIET_HOURS: Mapping[str, Any] = {
    "windows": ["22:00-07:00", "sat,sun 00:00-24:00"],
    "timezone": "Europe/Berlin",
    "mode": "defer",
}
PRICE: Mapping[str, Any] = {"input": "$2", "output": "$10", "cached": "$0.20"}
SOURCE: Mapping[str, Any] = {
    "kind": "github",
    "path": "TASKS.yaml",
    "repo": "octo-org/garden",
    "labels": ["ready"],
    "priorities": ["urgent", "soon"],
    "base_url": "https://github.example.com/api/v3",
    "token": "env:GITHUB_TOKEN",
}
HOOK: Mapping[str, Any] = {"command": "node scripts/check-maintenance-window.js", "limit": "15s"}
WEBHOOK: Mapping[str, Any] = {
    "url": "https://example.com/hook",
    "types": ["run.failed", "approval.requested"],
    "secret": "env:HOOK_SECRET",
}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "schedule": SCHEDULE,
    "agent": AGENT,
    "agents": RULES,
    "budget": BUDGET,
    "quiet_hours": QUIET_HOURS,
    "price": PRICE,
    "work": SOURCE,
    "hook": HOOK,
    "webhook": WEBHOOK,
}
"""By kind."""
TOP: Mapping[str, Any] = {
    "preset": "herdctl",
    "edits": "write_back",
    "allowed_hosts": ["localhost:11434"],
    "heartbeat": "https://hc.example.com/ping/0f3a",
    "rates": {"EUR": 1.08},
    "limits": {"global": 8, "agent:scout": 2},
}
