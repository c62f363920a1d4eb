"""A record of each kind, for tests that call all of them."""

from __future__ import annotations

from typing import Any

RECORDS: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "calendars": (("closed",), {"dates": ["12-25"]}, {"dates": ["12-26"]}),
    "temporal": (("main",), {"address": "127.0.0.1:7233"}, {"namespace": "team"}),
    "agents": (
        ("scout",),
        {"runner": "demo", "max_cost": "$2", "environment": {"KEY": "secret", "REF": "env:PATH"}},
        {"timeout": "2h", "max_cost": None},
    ),
    "agent_rules": (("scout",), {"max_schedules": 3}, {"min_interval": "2h"}),
    "budgets": (("day",), {"max_cost": "$5", "period": "day", "scope": "agent"}, {"max_tokens": 1_000}),
    "hooks": (("after:run",), {"command": ["echo", "x"]}, {"timeout": "5s"}),
    "http_server": ((), {"public_url": "https://matins.example.com"}, {"trusted_proxies": ["10.0.0.0/8"]}),
    "inbound": (("prs",), {"kind": "github", "secret": "env:S"}, {"events": ["push"], "max_per_minute": 5}),
    "inbound_listen": ((), {"address": "127.0.0.1:7412"}, {"address": "[::1]:7412"}),
    "limits": (("global",), {"size": 3}, {"size": 4}),
    "chat": (("slack",), {"token": "env:B", "app_token": "env:A"}, {"admin": "C0OPS"}),
    "destinations": (("phone",), {"kind": "ntfy", "to": ["t"], "token": "env:T"}, {"max_per_hour": 5}),
    "notify": ((), {"on": ["failed"]}, {"on": ["held", "recovered"]}),
    "deliver": ((), {"on": ["failed"]}, {"on": ["succeeded", "failed"]}),
    "smtp": ((), {"host": "mail.example.com"}, {"port": 465, "tls": "tls"}),
    "people": (("ada",), {"role": "operator", "slack": "U0ADA"}, {"timezone": "Europe/Berlin"}),
    "prices": (("acme/small",), {"input": "$1", "output": "$2"}, {"cached": "$0.5"}),
    "quiet_hours": (("night",), {"windows": ["22:00-07:00", "sat,sun 00:00-24:00"]}, {"mode": "defer"}),
    "rates": (("EUR",), {"usd": 1.1}, {"usd": 2}),
    "throttles": (("acme",), {"resets_at": "2100-01-01T00:00:00Z"}, {"reason": "too many requests"}),
    "webhooks": (("ops",), {"url": "https://example.com/x", "secret": "env:S"}, {"types": ["run.failed"]}),
    "work_sources": (("todo",), {"kind": "github", "repo": "a/b", "labels": ["x"]}, {"priorities": ["p1", "p2"]}),
    "allowed_hosts": ((), {"hosts": ["models.lan:8080"]}, {"hosts": ["a.lan"]}),
    "sign_in": ((), {"issuer": "https://accounts.example.com", "client_id": "matins"}, {"domains": ["example.com"]}),
    "heartbeat": ((), {"url": "https://example.com/ping"}, {"url": "https://example.com/pong"}),
}
"""Its key, settings, and settings of an edit."""
