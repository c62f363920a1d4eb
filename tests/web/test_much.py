"""Much of everything: runs, agents, and output in lines of ten megabytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Page, expect
from scene import YEARLY

AGENTS = 30
RUNS = 100_000
_FLOOD = "import sys; sys.stdout.write('x' * 10_000_000); print(' end'); print('last words')"
_FILL = """
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as connection:
    connection.execute(sys.argv[2], json.loads(sys.argv[3]))
"""  # in a process of its own: two SQLite libraries in one process break each other's locks
_MANY_RUNS = """
INSERT INTO runs (schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, started_at, ended_at, slots)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
SELECT s.id, s.rev, :now - (:count - i) * 1000, 10 + i % 3, 1, 1, 1, :now - (:count - i) * 1000,
       :now - (:count - i) * 1000, :now - (:count - i) * 1000 + 500, 1
FROM n JOIN schedules s ON s.name = 'daily-' || (i % 30)
"""


@pytest.fixture(scope="module")
def much(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageServer, str]]:
    """Thirty agents with long names, a hundred thousand runs, and the id of a run that wrote ten megabytes."""
    path = tmp_path_factory.mktemp("much") / "matins.db"
    server = PageServer(f"sqlite:///{path}")
    m = server.matins
    for number in range(AGENTS):
        agent = f"agent-{number:02}-{'n' * (180 if number == 0 else 0)}"
        m.agents.set(agent, runner="demo")
        m.add(f"daily-{number}", when="every 3 hours", agent=agent, prompt="x")
    m.agents.set("flood", runner="shell", command=[sys.executable, "-c", _FLOOD])
    m.add("flood", when=YEARLY, agent="flood", prompt="x")
    run = m.runs.wait(m.run("flood").id, timeout=60)
    given = json.dumps({"count": RUNS, "now": m.clock.now_ms() - 5_000})
    subprocess.run([sys.executable, "-c", _FILL, str(path), _MANY_RUNS, given], check=True)
    yield server, run.id
    server.close()


def fits(page: Page) -> None:
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_thirty_agents_and_a_hundred_thousand_runs(much: tuple[PageServer, str], browser: Browser) -> None:
    """Few lanes, of which none is lost, a page of runs at a time, and a name of 200 characters breaks nothing."""
    server, _ = much
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    page.goto("/")
    expect(page.locator(".lane-list .lane")).to_have_count(9)
    page.get_by_role("link", name=f"Show the other {AGENTS - 8} as lanes").click()
    expect(page.locator(".lane-list .lane")).to_have_count(AGENTS)
    fits(page)
    page.goto("/agents")
    expect(page.locator("tbody tr")).to_have_count(AGENTS + 1)
    fits(page)
    page.goto("/runs")
    expect(page.locator("tbody tr")).to_have_count(50)
    first = page.locator("tbody tr").first.get_attribute("id")
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**before=**")
    assert page.locator("tbody tr").first.get_attribute("id") != first
    fits(page)
    browsing.close()


def test_a_line_of_ten_megabytes_is_shown_in_part(much: tuple[PageServer, str], browser: Browser) -> None:
    """The page stays small and answers at once; it says how much there is, and which command prints all of it."""
    server, run_id = much
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    for tab in ("output", "raw"):
        page.goto(f"/runs/{run_id}?tab={tab}")
        expect(page.locator("#out")).to_contain_text("last words")
        assert len(page.locator("#out").inner_text()) <= 65_536
        expect(page.get_by_text("bytes. All of them:")).to_contain_text(f"matins logs {run_id}")
        began = perf_counter()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        assert perf_counter() - began < 10, "a press of a key waits for the output"
        page.keyboard.press("Escape")
        fits(page)
    browsing.close()
