"""Five tasks of a team's day, each by mouse and by keys alone, on a store of 40 agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Locator, Page, expect

import busy_store
from matins import Matins

_MOST_TABS = 250
_FOCUSED = "element => element === document.activeElement"
LOST = "The certificate of harbour.example has expired"
_FAIL = """
import json, sqlite3, sys
path, before, error = sys.argv[1:]
with sqlite3.connect(path, timeout=60) as connection:
    run = connection.execute("SELECT max(id) FROM runs WHERE state = 10 AND slot < ?", (int(before),)).fetchone()[0]
    changed = "UPDATE runs SET state = 11, reason = 'failed', outcome = ? WHERE id = ?"
    connection.execute(changed, (json.dumps({"error": error}), run))
    connection.execute("UPDATE run_texts SET text = ? WHERE run_id = ?", (error, run))
    print(run)
"""  # in a process of its own: two SQLite libraries in one process break each other's locks


House = tuple[PageServer, str, str]


class Hand:
    """What a person does, with the mouse, or with keys alone."""

    def __init__(self, page: Page, way: str) -> None:
        self.page, self.way = page, way

    def press(self, what: Locator) -> None:
        if self.way == "mouse":
            what.click()
            return
        self._reach(what)
        self.page.keyboard.press("Enter")

    def write(self, where: Locator, text: str) -> None:
        self._go(where)
        self.page.keyboard.type(text)

    def day(self, where: Locator, day: date) -> None:
        if self.way == "mouse":
            where.fill(day.isoformat())
            return
        self._reach(where)
        self.page.keyboard.type(f"{day:%m%d%Y}")

    def choose(self, where: Locator, option: str) -> None:
        if self.way == "mouse":
            where.select_option(option)
            return
        self._reach(where)
        self.page.keyboard.type(option)

    def _go(self, where: Locator) -> None:
        if self.way == "mouse":
            where.click()
        else:
            self._reach(where)

    def _reach(self, what: Locator) -> None:
        """Tab until it is focused: nobody who has no mouse has another way."""
        expect(what).to_be_visible()
        for _ in range(_MOST_TABS):
            if what.evaluate(_FOCUSED):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"The tab key does not reach {what}.")


@pytest.fixture(scope="module", params=["mouse", "keys"])
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PageServer, str, str]]:
    """A server, the number of a run that failed eight days ago, and the way in which it is used."""
    path = tmp_path_factory.mktemp("tasks") / "matins.db"
    with Matins(f"sqlite:///{path}") as matins:
        busy_store.fill(matins, path, schedules=80, runs=2_000, days=20)
        before = str(matins.clock.now_ms() - 8 * busy_store.DAY_MS)
    made = subprocess.run(
        [sys.executable, "-c", _FAIL, str(path), before, LOST], check=True, capture_output=True, text=True
    )
    server = PageServer(f"sqlite:///{path}")
    first = next(each for each in server.matins.list(limit=9) if each.agent)
    server.matins.runs.wait(server.matins.run(first.name, agent=first.agent).id, timeout=60)  # its threads stay
    yield server, made.stdout.strip(), request.param
    server.close()


@pytest.fixture
def page(house: House, browser: Browser) -> Iterator[Page]:
    browsing = Browsing(browser, house[0]).sign_in()
    yield browsing.page()
    browsing.close()


@pytest.fixture
def hand(house: House, page: Page) -> Hand:
    return Hand(page, house[2])


def menu(hand: Hand, name: str) -> None:
    hand.press(hand.page.get_by_role("navigation", name="Main").get_by_role("link", name=name))
    expect(hand.page.get_by_role("heading", level=1, name=name)).to_be_visible()


def test_a_run_is_approved_from_its_page(house: House, hand: Hand, page: Page) -> None:
    """B12: what waits is on Now; the run says what would happen, and has the buttons."""
    m = house[0].matins
    page.goto("/")
    (waiting,) = (each for each in m.runs.list(state="waiting") if each.schedule == "deploy")
    hand.press(page.get_by_role("link", name="Deploy web 4.2.0 to production").first)
    page.wait_for_url(f"**/runs/{waiting.id}")
    expect(page.get_by_role("heading", name="Needs approval")).to_be_visible()
    if hand.way == "keys":
        page.keyboard.press("a")
    else:
        page.get_by_role("button", name="Approve…").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("Deploy web 4.2.0 to production.")
    hand.press(asked.get_by_role("button", name="Approve"))
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    assert m.runs.wait(waiting.id, timeout=60).state == "succeeded"


def test_the_failed_run_of_last_week_is_found(house: House, hand: Hand, page: Page) -> None:
    """B12: by state, days and a word of its error; the address has the filter."""
    page.goto("/")
    menu(hand, "Runs")
    hand.press(page.get_by_role("navigation", name="State").get_by_role("link", name="Failed"))
    page.wait_for_url("**state=failed**")
    hand.press(page.get_by_role("list", name="Range").get_by_role("link", name="31 days"))
    page.wait_for_url("**range=31d**")
    hand.write(page.get_by_label("Words of the answer, error or reason"), "certificate harbour")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=**")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(LOST)
    hand.press(rows.get_by_role("rowheader").get_by_role("link"))
    page.wait_for_url(f"**/runs/{house[1]}")
    expect(page.locator(".exchange")).to_contain_text(LOST)


def test_a_team_is_paused(house: House, hand: Hand, page: Page) -> None:
    """B12: what is shown is what is paused, after its number was said; just those can be resumed."""
    m = house[0].matins
    page.goto("/")
    hand.press(page.get_by_role("list", name="Team").get_by_role("link", name="ops"))
    page.wait_for_url("**select=label.team**")
    hand.press(page.get_by_role("button", name="Pause…"))
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("label.team=ops")
    hand.write(asked.get_by_label("Why"), "disks are full")
    hand.press(asked.get_by_role("button", name="Pause"))
    notice = page.locator(".notice", has_text="disks are full")
    expect(notice).to_be_visible()
    paused = m.list(select="state=paused", limit=1000)
    assert {each.settings["labels"]["team"] for each in paused} == {"ops"}
    assert len(paused) == m.counts(select="label.team=ops").all
    hand.press(notice.get_by_role("button", name="Resume just those"))
    expect(notice).to_be_hidden()
    assert m.counts().paused == 0


def test_ten_days_are_backfilled(house: House, hand: Hand, page: Page) -> None:
    """B12: nothing starts before its number is seen and asked about; then its page shows each slot."""
    m = house[0].matins
    name = f"nightly-{hand.way}"
    m.add(name, when="0 2 * * *", timezone="UTC", agent="ops-backup", prompt="Back up.")
    today = datetime.now(UTC).date()
    page.goto("/")
    menu(hand, "Backfills")
    hand.write(page.get_by_label("Schedule"), f"ops-backup/{name}")
    hand.day(page.get_by_label("from", exact=True), today - timedelta(days=11))
    hand.day(page.get_by_label("to", exact=True), today - timedelta(days=2))
    hand.press(page.get_by_role("button", name="Preview…"))
    hand.press(page.get_by_role("button", name="Start 10 runs…"))
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Start 10 runs"))
    page.wait_for_url("**/backfills/*")
    expect(page.locator(".state-panel h2")).to_contain_text("Done, 10 of 10 runs", timeout=60_000)
    expect(page.locator(".slot-progress li")).to_have_count(10)


def test_an_agent_with_a_budget_is_made(house: House, hand: Hand, page: Page) -> None:
    """B12: both from forms that follow the declared settings."""
    m = house[0].matins
    name = f"scribe-{hand.way}"
    page.goto("/")
    menu(hand, "Agents")
    hand.press(page.get_by_role("link", name="New agent"))
    hand.write(page.get_by_label("Name", exact=True), name)
    hand.write(page.get_by_label("Runner", exact=True), "demo")
    hand.press(page.get_by_role("button", name="Save"))
    page.wait_for_url(f"**/records/agents/{name}")
    menu(hand, "Settings")
    hand.press(page.get_by_role("region", name="Budgets").get_by_role("link", name="New"))
    hand.write(page.get_by_label("Name", exact=True), f"{name}-day")
    hand.choose(page.get_by_label("Scope", exact=True), "agent")
    hand.write(page.get_by_label("Of", exact=True), name)
    hand.choose(page.get_by_label("Period", exact=True), "day")
    hand.write(page.get_by_label("Max cost", exact=True), "$5")
    hand.press(page.get_by_role("button", name="Save"))
    page.wait_for_url(f"**/records/budgets/{name}-day")
    assert m.agents.get(name).runner == "demo"
    made = m.budgets.get(f"{name}-day")
    assert (made.of, made.max_cost, made.period) == (name, "$5.00", "day")
