"""No statement per row: with many rows, a list and a view cost as many statements as with few."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_server import PageServer

from matins.api.use_case import USE_CASES, UseCase
from matins.model.event import IncidentRow
from matins.model.run import RunState
from matins.store.sqlite.transaction import SqliteTransaction
from matins.surfaces.http.authentication import COOKIE
from matins.testing import ManualClock, Sandbox
from matins.web.views import VIEWS

FEW, MANY = 2, 6
HOUR_MS = 3_600_000
YEARLY = "0 0 1 1 *"
STEPS = [{"title": "Build", "job": "work"}, {"title": "Deploy", "job": "work", "after": ["Build"]}]
ELSEWHERE = {
    "audit.verify",  # reads the whole log, a page at a time
    "file.plan", "system.doctor", "system.tools",  # look at the machine
}  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {
    "schedules.list": {"bars": 30},
    "schedules.search": {"text": "s"},
    "schedules.history": {"name": "other-0"},
    "schedules.preview_catch_up_all": {"since": "2026-01-01T00:00:00Z"},
    "incidents.list": {"all": True},
    "approvals.list": {"state": "denied"},
    "subscriptions.deliveries": {"name": "hook-0"},
    "threads.messages": {"thread_id": "1"},
    "runs.checks": {"run_id": "1"},
}
"""What a list is asked for, where it needs to be, or has more rows then."""
PATHS = {
    "/schedules/{name:path}/edit": "/schedules/agent-0/hourly-0/edit",
    "/schedules/{name:path}": "/schedules/agent-0/hourly-0",
    "/runs/{run_id}": "/runs/1",
    "/approvals/{approval_id}": "/approvals/1",
    "/missions/{name:path}": "/missions/mission-0",
    "/agents/{name}": "/agents/agent-0",
    "/inbound/{call_id}": "/inbound/1",
    "/backfills/{backfill_id}": "/backfills/1",
    "/incidents/{incident_id}": "/incidents/1",
    "/records/{noun}/new": "/records/budgets/new",
    "/records/{noun}/{key}": "/records/budgets/budget-0",
}
"""Addresses of views with a parameter. Further rows of theirs come too: the first schedule gets more runs."""


class Scene:
    """A store that grows, with a server on it; and the statements that a request makes."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        url = f"sqlite:///{path}/matins.db"
        self.matins = Sandbox(url, clock=ManualClock("2026-01-01T00:00:00Z"))
        self.matins.job("fail")(_fail)
        self.server = PageServer(url, start=False, matins=self.matins)
        self.cookie = f"{COOKIE}={self.server.session()}"
        self.statements: Counter[str] = Counter()
        self._rows = 0
        monkeypatch.setattr(SqliteTransaction, "_all", self._counting(SqliteTransaction._all))

    def _counting(self, real: Any) -> Any:
        def counted(transaction: SqliteTransaction, query: str, /, **values: Any) -> Any:
            self.statements[query] += 1
            return real(transaction, query, **values)

        return counted

    def of(self, request: Any) -> Counter[str]:
        """The statements of a request that was made before: what is kept in memory is kept by then."""
        request()
        self.statements.clear()
        request()
        return self.statements.copy()

    def get(self, path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=90)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.status == 200, (path, answer.read())
        answer.read()
        connection.close()

    def grow(self, rows: int) -> None:
        """More of every kind of record, until there are as many as `rows`."""
        m = self.matins
        if not self._rows:
            m.quiet_hours.set("always", windows=["mon-sat 00:00-24:00", "sun 00:00-23:59"])
        for number in range(self._rows, rows):
            _add_rows(m, number)
        self._rows = rows
        m.run_until(m.clock.now_ms() + 3 * HOUR_MS)
        if not m.backfills.list():
            m.backfills.create("hourly-0", start=m.clock.now_ms() - 2 * HOUR_MS, end=m.clock.now_ms(), which="all")
        with m.store.transaction(m.clock.now_ms()) as transaction:
            for number, state in enumerate((RunState.HELD, RunState.RUNNING)):
                transaction._connection.execute(
                    "UPDATE runs SET state = ?1, ended_at = NULL WHERE id IN (SELECT max(r.id) FROM runs r "
                    "JOIN schedules s ON s.id = r.schedule_id WHERE s.name LIKE ?2 GROUP BY s.id)",
                    (state, ("hourly-%", "other-%")[number]),
                )


def _fail(run: Any) -> None:
    raise RuntimeError("no")


def _add_rows(m: Sandbox, number: int) -> None:
    agent, now = f"agent-{number}", m.clock.now_ms()
    m.agents.set(agent, runner="demo")
    m.agent_rules.set(agent)
    m.budgets.set(f"budget-{number}", scope="agent", of=agent, period="day", max_cost="20 USD")
    m.limits.set(f"agent:{agent}", size=3)
    m.quiet_hours.set(f"quiet-{number}", windows=["22:00-23:00"])
    m.people.set(f"person-{number}", role="operator")
    m.destinations.set(f"desk-{number}", kind="slack", url="https://hooks.slack.com/x")
    m.prices.set(f"model-{number}", input="1 USD", output="2 USD")
    m.throttles.set(f"provider-{number}", resets_at=now + 100 * HOUR_MS)
    m.webhooks.add(f"hook-{number}", "https://example.com/x")
    m.inbound.set(f"inbound-{number}", kind="github", secret="env:HOOK_SECRET")
    m.tokens.create(f"token-{number}", role="viewer")
    m.sessions.create()
    for name in ("hourly", "other"):
        m.add(f"{name}-{number}", when="every 1 hour", anchor="grid", agent=agent, job="work")
    m.add(f"talk-{number}", when="every 1 hour", agent=agent, prompt="Hello")
    m.add(f"broken-{number}", when="every 1 hour", job="fail", pause_after_failures=1)
    m.add(f"resting-{number}", when="every 1 hour", job="work")
    m.bulk.apply("pause", f"resting-{number}", note="holidays")
    m.add(f"asks-{number}", when=YEARLY, job="work", approval="owner_approve", approval_jobs=["work"])
    m.run(f"asks-{number}")
    m.settle()
    m.approvals.deny(m.approvals.list()[-1].id)
    m.run(f"asks-{number}")
    m.missions.make(f"mission-{number}", when="every 1 hour", steps=STEPS, quiet_hours="always")
    m.run(f"mission-{number}")
    m.add(f"called-{number}", on={"webhook": f"inbound-{number}"}, job="work")
    m.calls.fire("webhook", f"inbound-{number}", f"key-{number}", body={"n": number})
    m.run("hourly-0")
    m.settle()
    with m.store.transaction(now) as transaction:
        schedule = transaction.schedules_called(f"broken-{number}", None)[0].id
        told = (1, 1, "{}", now, now, 1, 1, None)
        (new,) = transaction.incident_ids(1)
        transaction.insert_incidents([IncidentRow(new, schedule, "failed", "", "It failed.", None, "no", *told)])


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    yield made
    made.server.close()


def lists() -> list[UseCase]:
    """Every use case that reads many rows."""
    returned = {name: str(case.function.__annotations__["return"]) for name, case in USE_CASES.items()}
    many = {name for name, result in returned.items() if "list[" in result}
    many |= {
        "system.status",
        "system.stats",
        "system.spend",
        "schedules.timeline",
        "schedules.lanes",
        "schedules.counts",
    }
    return [case for name, case in USE_CASES.items() if case.method == "GET" and name in many - ELSEWHERE]


def requests(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for case in lists():
        method = getattr(scene.matins if case.noun == "schedules" else getattr(scene.matins, case.noun), case.verb)
        found[case.name] = lambda method=method, name=case.name: method(**GIVEN.get(name, {}))
    for path in VIEWS:
        found[path] = lambda path=path: scene.get(PATHS.get(path, path))
    return found


def test_b12_no_statement_per_row(scene: Scene) -> None:
    """B12: every list of the API and every view, with a few rows of each kind and with three times as many."""
    scene.grow(FEW)
    few = {name: scene.of(request) for name, request in requests(scene).items()}
    scene.grow(MANY)
    many = {name: scene.of(request) for name, request in requests(scene).items()}
    grown = {name: dict(many[name] - few[name]) for name in few if many[name] - few[name]}
    assert not grown, "\n".join(f"{name}: {more}" for name, more in grown.items())
