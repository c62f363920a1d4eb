"""A store in which every view has something to show, with a payload in every text."""

from __future__ import annotations

import sys

from page_server import PageServer

from matins import Matins

PAYLOAD = "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script>${7*7}"
HIDDEN = "a\u202egnp.exe\u200b\x1b[31mred"
TEXT = f"{PAYLOAD} {HIDDEN}"
LONG = "n" * 200
_SCRIPT = f"import sys; print({TEXT!r}); print('x' * 5000); sys.stderr.write({TEXT!r})"
YEARLY = "0 0 1 1 *"


def fill(server: PageServer) -> dict[str, str]:
    """Runs of every kind. The ids of some of them, by name."""
    m = server.matins
    m.agents.set("writer", runner="shell", command=[sys.executable, "-c", _SCRIPT])
    m.agents.set("failing", runner="shell", command=[sys.executable, "-c", f"import sys; sys.exit({TEXT!r})"])
    m.agents.set("demo", runner="demo")
    m.quiet_hours.set("nights", windows=["mon-sat 00:00-24:00", "sun 00:00-23:59"])
    m.budgets.set("day", period="day", max_cost="20 USD")
    add(m, "report", agent="writer")
    add(m, LONG, agent="writer")
    add(m, "broken", agent="failing")
    add(m, "deploy", agent="demo", approval="owner_approve")
    m.add("quiet", when="every 1 hour", first="immediately", agent="demo", prompt=TEXT, quiet_hours="nights")
    m.add("resting", when=YEARLY, agent="demo", prompt="x")
    m.pause("resting", note=TEXT)
    steps = [
        {"title": TEXT[:60], "prompt": "a"},
        {"title": "Publish", "prompt": "b", "after": [TEXT[:60]]},
        {"title": "Tell", "prompt": "c", "agent": "failing"},
    ]
    m.missions.make("release", agent="demo", steps=steps)
    started = {name: m.run(name).id for name in ("report", "broken", "deploy", "release")}
    for run_id in started.values():
        m.runs.wait(run_id, timeout=60)
    return started


def add(m: Matins, name: str, **settings: str) -> None:
    given = {"prompt": TEXT, "description": TEXT, "labels": {"team": PAYLOAD}, **settings}
    m.add(name, when=YEARLY, **given)  # type: ignore[arg-type]


def views(started: dict[str, str]) -> list[str]:
    """An address of every view."""
    runs = [f"/runs/{run_id}" for run_id in started.values()]
    tabs = [f"{runs[0]}?tab={tab}" for tab in ("transcript", "definition", "difference")]
    return [
        "/", "/schedules", "/schedules?state=paused", "/schedules/writer/report", f"/schedules/writer/{LONG}",
        "/schedules/demo/quiet", "/schedules/demo/deploy/edit", "/schedules/new", "/runs", *runs, *tabs, "/approvals",
        "/missions", "/missions/demo/release", "/agents", "/agents/writer", "/events", "/inbound", "/settings", "/more",
        "/welcome", "/spend", "/catch-up", "/incidents", "/incidents?all=1",
    ]  # fmt: skip
