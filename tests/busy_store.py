"""A store of three teams: 40 agents, 2,000 schedules, as many runs as asked for, a storm of 429 answers, full disks,
and decisions that wait. Rows are written by SQL, in a process of its own: two SQLite libraries in one break locks."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matins import Matins

TEAMS = {
    "web": "review triage tests release labels docs perf a11y deps search login cart mail images stats forms",
    "ops": "backup watch report certs costs logs disks dns keys quota patch audit restore alerts",
    "research": "digest crawl papers feeds notes trends grants talks cites data",
}
WORK = (
    "inbox", "smoke", "feeds", "weekly-summary", "api-health", "stale-branches", "changelog-check", "wal-archive",
    "label-new", "log-anomalies", "flaky-tests", "dependency-updates", "dead-links", "morning-brief", "unit",
)  # fmt: skip
PROMPT = "Read what is new; last time: {{last_outcome}}. Say in one paragraph what a person should know, and why."
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
TROUBLES = (
    ("429 Too Many Requests", 31, 118, 40),
    ("Disk quota exceeded: /var/backups", 3, 21, 12 * 60),
    ("gh: the token has expired", 9, 9, 320),
    ("no output for 10 min", 1, 4, 310),
    ("pytest: 3 tests failed", 1, 2, 230),
)
"""What failed, in how many schedules, how often, and for how many minutes."""
ANSWERS = (
    "Nothing needs you. 14 pull requests are open, 3 of them wait for a review.",
    "I would merge it after one change: ask for 100 in `mobile/list.ts`, line 88.",
    "All 212 tests pass. The slowest took 1.4 s.",
    "Two certificates end within 30 days: harbour.example and docs.harbour.example.",
)


def agents() -> list[tuple[str, str]]:
    return [(f"{team}-{name}", team) for team, names in TEAMS.items() for name in names.split()]


def fill(m: Matins, path: Path, *, schedules: int = 2_000, runs: int = 100_000, days: int = 32) -> None:
    """Fill an empty store that no engine has. Agents do nothing: they only echo."""
    known = agents()
    echo = {"runner": "shell", "command": ["true"], "isolation": "none"}
    for name, _ in known:
        m.agents.set(name, provider="anthropic", **echo)
    m.quiet_hours.set("nights", windows="22:00-06:00")
    m.add_many([_schedule(number, *known[number % len(known)]) for number in range(schedules)])
    m.add(
        "deploy", when="0 0 1 1 *", agent="web-release", approval="owner_approve", approval_timeout="6h",
        prompt="Deploy web 4.2.0 to production.", labels={"team": "web"}, max_cost="$6",
        description="Deploy web 4.2.0 to production",
    )  # fmt: skip
    m.add("sweep", when="0 0 1 1 *", agent="research-crawl", approval="owner_approve", prompt="Read the 40 feeds.")
    for name in ("deploy", "sweep"):
        m.run(name)
    given = json.dumps({"now": m.clock.now_ms(), "runs": runs, "days": days})
    subprocess.run([sys.executable, __file__, str(path), given], check=True)
    _budgets(m)


def _budgets(m: Matins) -> None:
    """Limits beside what was spent already: one has room, one is nearly used."""
    day = m.system.spend(since=f"{datetime.now(UTC):%Y-%m-%d}T00:00:00Z")
    spent = {share.name: float(share.cost.strip("$")) for share in day.agents}
    limit = {"period": "day", "timezone": "UTC"}
    m.budgets.set("everything", max_cost=f"${sum(spent.values()) * 1.4 + 12:.0f}", **limit)
    for agent, room in (("web-review", 1.07), ("research-digest", 2), ("ops-backup", 1.6)):
        most = f"${spent.get(agent, 0) * room + 1:.2f}"
        m.budgets.set(agent, scope="agent", of=agent, max_cost=most, **limit)


def _schedule(number: int, agent: str, team: str) -> dict[str, Any]:
    minute, often = (number * 7 + number // 40 * 11) % 60, number % 4
    when = (f"{minute} * * * *", f"{minute} */3 * * *", f"{minute} 6-20 * * mon-fri", f"{minute} {number % 24} * * *")[
        often
    ]
    round_ = number // 40
    name = WORK[round_ % len(WORK)] + (f"-{round_ // len(WORK) + 1}" if round_ >= len(WORK) else "")
    return {"name": name, "when": when, "agent": agent, "prompt": PROMPT, "labels": {"team": team}, "timeout": "30m"}


def _rows(connection: sqlite3.Connection, now: int, runs: int, days: int) -> None:
    chance = random.Random(7)
    found = connection.execute(
        "SELECT id, agent, name FROM schedules WHERE name NOT IN ('deploy', 'sweep') ORDER BY id"
    )
    schedules = found.fetchall()
    recent = min(runs // 2, 3_600)
    times = [(now - chance.randrange(6 * HOUR_MS), chance.choice(schedules), None) for _ in range(recent)]
    times += [
        (now - 6 * HOUR_MS - chance.randrange(days * DAY_MS), chance.choice(schedules), None)
        for _ in range(runs - recent)
    ]
    incidents = []
    for kind, (error, of, often, minutes) in enumerate(TROUBLES):
        mine = [each for each in schedules if _suffers(kind, each[1])][:of]
        ats = sorted(now - 60_000 - chance.randrange(minutes * 60_000) for _ in range(often))
        times += [(at, mine[index % len(mine)], error) for index, at in enumerate(ats)]
        incidents += [
            (each, error, -(-(often - index) // len(mine)), ats[0], ats[-1]) for index, each in enumerate(mine)
        ]
    times = _slots(times)
    first = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()[0] + 1
    rows, spent = [], []
    for number, (at, (schedule, agent, _), error) in enumerate(times, first):
        skipped = error is None and chance.random() < 0.01
        lasted, cost = chance.randrange(4_000, 500_000), chance.randrange(1_000, 40_000)
        state, reason, outcome = _end(chance, error, cost, skipped=skipped)
        begun = at + chance.randrange(20, 400)
        started = (None, at) if skipped else (begun, max(begun, min(begun + lasted, now)))
        evidence = json.dumps({"run": str(number - 40), "state": "running"}) if skipped else None
        rows.append((number, schedule, 1, at, state, 1, 1, 1, at, *started, 1, reason, evidence, outcome))
        if not skipped:
            spent.append((number, schedule, agent, at, 0, 0, cost, cost // 9, 0, at + lasted))
    connection.executemany(
        "INSERT INTO runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, started_at,"
        " ended_at, slots, reason, evidence, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows,
    )  # fmt: skip
    connection.execute("UPDATE meta SET value = ? WHERE key = 'next_run_id'", (first + len(rows),))
    connection.executemany(
        "INSERT INTO attempts (run_id, epoch, owner, started_at) VALUES (?, 1, 0, ?)",
        [(row[0], row[9]) for row in rows if row[9] is not None],
    )
    said = [(row[0], json.loads(row[14])) for row in rows if row[14]]
    connection.executemany(
        "INSERT INTO run_texts VALUES (?, ?)",
        [(run, each.get("error") or each["result"]["text"]) for run, each in said],
    )
    connection.executemany("INSERT INTO spend VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", spent)
    last = {row[1]: row[0] for row in rows if row[12] == "failed"}
    connection.executemany(
        "INSERT INTO incidents (schedule_id, kind, signature, summary, error, run_id, times, details, opened_at,"
        " last_at, told, told_times) VALUES (?, 'failed', ?, ?, ?, ?, ?, '{}', ?, ?, 0, 0)",
        [
            (each[0], error.lower(), f"{each[2]} failed", error, last[each[0]], times_, begun, ended)
            for each, error, times_, begun, ended in incidents
        ],
    )


def _slots(times: list[tuple[int, Any, str | None]]) -> list[tuple[int, Any, str | None]]:
    """The same at whole minutes, in order; a schedule has one of each."""
    taken: dict[tuple[int, int], tuple[int, Any, str | None]] = {}
    for at, schedule, error in sorted(times, key=lambda each: (each[2] is None, each[0])):
        slot = at // MINUTE_MS * MINUTE_MS
        while (schedule[0], slot) in taken:
            slot -= MINUTE_MS
        taken[schedule[0], slot] = (slot, schedule, error)
    return sorted(taken.values(), key=lambda each: each[0])


def _suffers(kind: int, agent: str) -> bool:
    whom = ("web-review web-triage research-digest", "ops-backup", "web-labels", "research-crawl", "web-tests")
    return agent in whom[kind].split()


def _end(chance: random.Random, error: str | None, cost: int, *, skipped: bool) -> tuple[int, str | None, str | None]:
    if skipped:
        return 12, "already_running", None
    text = "" if error else chance.choice(ANSWERS)
    result = {
        "executed": True, "succeeded": error is None, "text": text, "turns": 3,
        "tokens": {"in": cost // 9, "out": cost // 90, "cached": 0},
        "money": {"micro_dollars": cost, "estimated": False},
    }  # fmt: skip
    if error is None:
        return 10, None, json.dumps({"result": result})
    return 11, "failed", json.dumps({"error": error, "result": result})


if __name__ == "__main__":
    with sqlite3.connect(sys.argv[1], timeout=60) as opened:
        _rows(opened, **json.loads(sys.argv[2]))
