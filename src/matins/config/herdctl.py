"""Settings that only herdctl's files have, as Matins has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.errors import InvalidInput


def conversation_of(agent: str) -> dict[str, Any]:
    """The target of `resume_session: true`: one conversation per agent, which each run continues."""
    return {"kind": "channel", "channel": f"herdctl:{agent}"}


def github_source(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a work source from `work_source: {type: github, repo: owner/name, labels: {ready: …}}`."""
    if entry.get("type") != "github" or not entry.get("repo"):
        hint = "For example: {type: github, repo: octo-org/garden}."
        raise InvalidInput(
            'a work source must have "type: github" and "repo".',
            value=entry.get("type"),
            field="work_source",
            hint=hint,
        )
    labels: Mapping[str, Any] = entry.get("labels") or {}
    auth: Mapping[str, Any] = entry.get("auth") or {}
    settings: dict[str, Any] = {"kind": "github", "repo": entry["repo"]}
    settings |= {"labels": [labels["ready"]]} if labels.get("ready") else {}
    return settings | ({"token": f"env:{auth['token_env']}"} if auth.get("token_env") else {})
