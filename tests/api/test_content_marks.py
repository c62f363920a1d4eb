"""Every text in a result is content, or one of the plain fields below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from matins.api import _results, results
from matins.model.words import CONTENT

STRUCTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (results, _results)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
}
IDS = {
    "id", "run_id", "schedule_id", "approval_id", "incident_id", "thread_id", "thread", "parent", "retry_of",
    "creator_run", "last_success", "digest", "seal", "event", "voids", "worker", "backfill", "run", "runs",
    "before",
}  # fmt: skip
NAMES = {
    "name", "schedule", "schedules", "agent", "profile", "runner", "job", "created_by", "by", "voter", "approvers",
    "requested_by", "acknowledged_by", "paused_by", "provider", "destination", "person", "budget", "of", "scope",
    "currency", "model", "tools", "affects", "to", "hosts", "service", "services", "quiet_hours", "limit",
    "auto_approve_jobs", "elsewhere", "highlights", "deliver", "setting", "user", "trusted_proxies", "was", "agents",
    "calendars", "cut",
}  # fmt: skip
CODES = {
    "type", "types", "kind", "status", "state", "states", "reason", "resolution", "verdict", "gate", "role", "rights",
    "creator_role", "requester_role", "policy", "default", "how", "reported", "dst", "events", "on", "urgent",
    "permission_mode", "permission", "effort", "do",
}  # fmt: skip
TIMES_AND_AMOUNTS = {
    "timezone", "local", "utc", "day", "when", "trigger", "trigger_text", "windows", "period", "cost", "cost_per_day",
    "per_day", "per_month", "spend_today", "money", "money_reserved", "max_cost", "p50", "p95", "input", "output",
    "cached", "memory", "file_size", "timeout", "idle_timeout", "exit_timeout", "header_timeout", "body_timeout",
    "given_to", "program_tokens", "domains", "min_interval", "max_lifetime", "approval_timeout", "usual_cost",
}  # fmt: skip
SENTENCES = {
    "sentence",
    "summary",
    "standing",
    "then",
    "label",
    "command",
    "notes",
    "clock_changes",
    "problems",
    "unsent",
}
"""Ours: names, times and codes only."""
PLAIN = IDS | NAMES | CODES | TIMES_AND_AMOUNTS | SENTENCES
ONLY_THERE = {"PingAddress.path",
    "Backup.path", "CallerContext.workdir", "FilePlace.path", "FilePlan.note", "FilePlan.path", "FilePlan.waits",
    "Invitation.link", "Person.grants",
    "Finding.what", "Found.detail", "Found.title", "InboundEndpoint.path", "Job.help", "JobInput.example",
    "JobInput.help", "BrowserSession.token",
    "Lane.parts",
    "Agent.host", "Agent.runs_on", "Node.agents", "Node.by", "Node.labels", "Node.runners", "Node.version",
    "NewChatLink.bot", "NewChatLink.code", "NewSession.path", "NewToken.token", "NewWebhook.secret", "NewWebhook.url",
    "Preview.text", "Tool.credential", "Tool.install", "Tool.path", "Tool.risk", "Tool.version", "WorkSource.labels",
    "WorkSource.priorities",
}  # fmt: skip
"""Paths of the installation, texts of its code, secrets that are shown once to who governs, the caller's words."""
NOT_PLAIN_THERE = {"Schedule.labels", "Check.output", "Hook.command", "Agent.command", "Call.reason", "Call.type"}


def texts() -> Iterator[tuple[str, str, bool]]:
    """The type and the field of every text, and whether it is content."""
    for owner, kind in STRUCTS.items():
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if _holds_text(hint):
                yield owner, name, get_origin(hint) is Annotated and CONTENT in hint.__metadata__


def _holds_text(hint: Any) -> bool:
    if hint in (str, Any):
        return True
    return get_origin(hint) is not Literal and any(_holds_text(inner) for inner in get_args(hint))


@pytest.mark.parametrize("owner", STRUCTS)
def test_b7_every_text_is_content_or_known_to_be_plain(owner: str) -> None:
    """B7: a new field is decided about: whose words does it hold?"""
    unmarked = {name for of, name, content in texts() if of == owner and not content}
    assert unmarked <= PLAIN | {one.partition(".")[2] for one in ONLY_THERE if one.startswith(f"{owner}.")}


def test_b7_what_others_write_is_marked() -> None:
    """B7: the control: names that are plain elsewhere, and words that are never"""
    marked = {f"{owner}.{name}" for owner, name, content in texts() if content}
    assert marked >= NOT_PLAIN_THERE
    never = {"prompt", "description", "payload", "evidence", "outcome", "data", "body", "text", "error", "quote"}
    assert never & PLAIN == set()
    assert {f"{owner}.{name}" for owner, name, content in texts() if name in never and not content} == {"Preview.text"}


def test_every_plain_field_is_there() -> None:
    found = {(owner, name) for owner, name, content in texts() if not content}
    assert {name for _, name in found} >= PLAIN - {"label"}
    assert {f"{owner}.{name}" for owner, name in found} >= ONLY_THERE
