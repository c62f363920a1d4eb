"""A store in which every view has something to show, with a payload in every text."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

from page_server import PageServer

from matins import Matins

PAYLOAD = (
    "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script></textarea></style>"
    "<style>*{display:none}</style><!--${7*7}"
)
URL = "javascript:window.pwned=1"
HIDDEN = "a\u202egnp.exe\u200b\x1b[31mred\U000e0041"
TEXT = f"{PAYLOAD} {HIDDEN}"
NAME = PAYLOAD[:50]
"""A name without a slash."""
LONG = "n" * 200
_SCRIPT = f"import sys; print({TEXT!r}); print('x' * 5000); sys.stderr.write({TEXT!r})"
YEARLY = "0 0 1 1 *"


def fill(server: PageServer) -> dict[str, str]:
    """Runs of every kind. The ids of some of them, by name."""
    m = server.matins
    m.agents.set("writer", runner="shell", command=[sys.executable, "-c", _SCRIPT], environment={"NOTE": TEXT})
    m.agents.set("failing", runner="shell", command=[sys.executable, "-c", f"import sys; sys.exit({TEXT!r})"])
    m.agents.set("demo", runner="demo")
    m.agents.set("modelled", runner="claude", model=PAYLOAD)
    m.agents.set(NAME, runner="demo", workdir=f"/{PAYLOAD}")
    m.quiet_hours.set("nights", windows=["mon-sat 00:00-24:00", "sun 00:00-23:59"])
    m.budgets.set(NAME, period="day", max_cost="20 USD")
    m.people.set(f"{NAME[:40]}!", role="operator")
    m.tokens.create(PAYLOAD, role="viewer")
    add(m, "report", agent="writer")
    add(m, LONG, agent="writer")
    add(m, "broken", agent="failing")
    add(m, NAME, agent=NAME)
    add(m, "deploy", agent="demo", approval="owner_approve")
    m.add("quiet", when="every 1 hour", first="immediately", agent="demo", prompt=TEXT, quiet_hours="nights")
    m.add("resting", when=YEARLY, agent="demo", prompt="x")
    m.pause("resting", note=TEXT)
    m.bulk.apply("pause", f'"{LONG}"', note=TEXT)
    _mission(m)
    started = {name: m.run(name).id for name in ("report", "broken", "deploy", "release", NAME)}
    started["called"] = _called(m)
    for run_id in started.values():
        m.runs.wait(run_id, timeout=60)
    return started


def add(m: Matins, name: str, **settings: Any) -> None:
    given = {"prompt": TEXT, "description": TEXT, "labels": {"team": PAYLOAD}, **settings}
    m.add(name, when=YEARLY, **given)


def _mission(m: Matins) -> None:
    steps = [
        {"title": TEXT[:60], "prompt": "a"},
        {"title": "Publish", "prompt": "b", "after": [TEXT[:60]]},
        {"title": "Tell", "prompt": "c", "agent": "failing"},
    ]
    m.missions.make("release", agent="demo", steps=steps)


def _called(m: Matins) -> str:
    """A run that a call from outside started, with payloads as keys and values."""
    m.inbound.set("hook", kind="github", secret="env:HOOK_SECRET")
    m.add("called", on={"webhook": "hook"}, job="work", payload={PAYLOAD: TEXT, URL: [URL]})
    call = m.calls.fire(
        "webhook", "hook", PAYLOAD, body={PAYLOAD: TEXT, URL: URL}, type=NAME, text=TEXT, sender=PAYLOAD[:90]
    )
    return call.runs[0].id


def views(started: dict[str, str]) -> list[str]:
    """An address of every view."""
    runs = [f"/runs/{started[name]}" for name in ("report", "release")]
    tabs = [f"{runs[0]}?tab={tab}" for tab in ("conversation", "difference")]
    return [
        "/", "/schedules", "/schedules/demo/quiet", "/schedules/demo/deploy/edit",
        "/schedules/new", "/runs", *runs, *tabs, "/approvals", "/missions", "/missions/demo/release", "/agents",
        "/agents/writer", "/events?group=run", "/inbound", "/settings", "/more", "/welcome", "/spend", "/backfills",
        "/backfills/new", "/records/agents/writer", "/records/budgets/new",
        "/incidents?all=1",
    ]  # fmt: skip


def more_views(started: dict[str, str]) -> list[str]:
    """Further addresses of views that `views` has: other texts, in the same form."""
    runs = [f"/runs/{started[name]}" for name in ("broken", "deploy", NAME)]
    return [
        f"/schedules/writer/{LONG}", "/schedules/writer/report", f"/runs/{started['report']}?tab=raw", *runs,
        f"/runs/{started['called']}?tab=definition", f"/schedules/{quote(NAME)}/{quote(NAME)}",
        f"/agents/{quote(NAME, safe='')}", "/inbound/1",
    ]  # fmt: skip
