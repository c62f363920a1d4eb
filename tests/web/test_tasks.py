"""What people come to the page for: why a slot did not run, what a schedule means, what came from outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Page, expect

from matins.model.event import IncidentRow

YEARLY = "0 0 1 1 *"
STEPS = [
    {"title": "Build", "job": "work"},
    {"title": "Test", "job": "work", "after": ["Build"]},
    {"title": "Publish", "job": "work", "after": ["Build", "Test"]},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    made = PageServer(f"sqlite:///{tmp_path_factory.mktemp('tasks')}/matins.db")
    m = made.matins
    m.agents.set("demo", runner="demo")
    m.quiet_hours.set("always", windows=["mon-sat 00:00-24:00", "sun 00:00-23:59"])
    m.add("quiet", when="every 1 hour", first="immediately", agent="demo", prompt="x", quiet_hours="always")
    m.add("morning", when="every monday at 8:30", timezone="Asia/Tokyo", job="work")
    m.add("nightly", when="every day at 2:00", timezone="Europe/Berlin", job="work")
    m.missions.make("release", steps=STEPS)
    m.runs.wait(m.run("release").id, timeout=60)
    m.inbound.set("hook", kind="github", secret="env:HOOK_SECRET")
    m.add("called", on={"webhook": "hook"}, job="work")
    m.calls.fire("webhook", "hook", "delivery-1", body={"number": 7, "title": "Mend it"}, sender="ada")
    yield made
    made.close()


@pytest.fixture
def page(server: PageServer, browser: Browser) -> Iterator[Page]:
    browsing = Browsing(browser, server).sign_in()
    browsing.expected = ("422",)  # a form that is not right yet is refused
    yield browsing.page()
    browsing.close()


def test_why_a_slot_was_skipped_is_told_gate_by_gate(server: PageServer, page: Page) -> None:
    """Any slot can be chosen: past ones, and those to come."""
    page.goto("/schedules/demo/quiet")
    why = page.get_by_role("region", name="Why")
    expect(why.get_by_role("heading")).to_contain_text("skipped?")
    expect(why.locator(".label")).to_have_text("Gate by gate, as recorded then")
    then = why.locator("ol").first
    expect(then.locator("li")).to_have_count(13)
    expect(then.locator(".stop")).to_contain_text('Skipped: quiet hours "always" were active until')
    expect(then.locator("li").last).to_contain_text("Not reached.")
    now = why.locator("#why-now")
    expect(now.locator("li").first).to_be_hidden()
    now.get_by_text("As of now: if it were due again").click()
    expect(now.locator(".stop")).to_contain_text("Would be skipped")
    choice = why.get_by_label("Slot", exact=True)
    coming = choice.locator("option").last
    expect(coming).to_contain_text("to come")
    choice.select_option(coming.get_attribute("value"))
    page.wait_for_url("**at=**")
    expect(why.locator(".label")).to_have_text("Gate by gate, for this slot")
    expect(why.locator(".stop")).to_contain_text("Quiet hours")


def test_a_schedule_that_would_never_run_says_so_before_it_is_made(page: Page) -> None:
    page.goto("/schedules/new?when=every+day+at+3am")
    expect(page.locator("#prev .fire-list li")).to_have_count(5)
    expect(page.locator("#prev")).not_to_contain_text("This would never run.")
    page.get_by_text("Limits and policies").click()
    page.get_by_label("Quiet hours").select_option("always")
    expect(page.locator("#prev")).to_contain_text("This would never run.")
    expect(page.locator("#same code")).to_contain_text('--set quiet_hours="always"')


def test_times_name_their_zone_where_it_is_not_the_viewers(page: Page) -> None:
    """A time of day in a trigger is of the schedule's zone; instants are of the viewer's, which the page names."""
    page.goto("/schedules")
    expect(page.get_by_role("row", name="morning")).to_contain_text("every Monday at 08:30, Asia/Tokyo")
    expect(page.get_by_role("row", name="nightly")).not_to_contain_text("Berlin")
    expect(page.locator("#foot")).to_contain_text("Europe/Berlin")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_text("Times are in Europe/Berlin.")).to_be_visible()


def test_a_mission_is_a_graph_and_the_same_as_a_table(page: Page) -> None:
    page.goto("/missions/release")
    expect(page.locator(".graph .node")).to_have_count(3)
    expect(page.locator(".graph .edge")).to_have_count(3)
    rows = page.get_by_role("region", name="Steps").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.last).to_contain_text("Build, Test")
    page.locator(".graph .node").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")


_SHOWS = """(picture, mark) => {
    const box = picture.getBoundingClientRect(), at = picture.querySelector(mark).getBoundingClientRect();
    return picture.scrollWidth > picture.clientWidth && at.left > box.left + 8 && at.right < box.right - 8; }"""
"""Whether a picture scrolls, and shows this part of it."""


@pytest.mark.parametrize(
    ("path", "picture", "mark"),
    [
        ("/schedules/demo/quiet", ".year-scroll", ".year rect.hit-area:last-of-type"),
        ("/missions/release", ".graph-scroll", ".node rect"),
    ],
)
def test_b12_on_a_phone_a_picture_that_scrolls_begins_at_now(page: Page, path: str, picture: str, mark: str) -> None:
    """B12: it begins where one looks first, keys reach it and move it, and its edge shows that it goes on."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path)
    wide = page.locator(picture)
    assert wide.evaluate(_SHOWS, mark)
    before = wide.evaluate("wide => wide.scrollLeft")
    wide.focus()
    expect(wide).to_be_focused()
    page.keyboard.press("ArrowLeft" if picture == ".year-scroll" else "ArrowRight")
    moved = "([name, before]) => document.querySelector(name).scrollLeft !== before"
    page.wait_for_function(moved, arg=[picture, before])
    assert "local" in wide.evaluate("wide => getComputedStyle(wide).backgroundAttachment")


def test_b12_on_a_phone_the_steps_stand_before_their_graph(page: Page) -> None:
    """B12: they need no scrolling. What the tab key reaches follows the same order."""
    page.goto("/missions/release")
    steps, graph = page.get_by_role("region", name="Steps"), page.locator(".graph-scroll")
    top = "part => part.getBoundingClientRect().top"
    assert steps.evaluate(top) > graph.evaluate(top)
    page.set_viewport_size({"width": 390, "height": 844})
    assert steps.evaluate(top) < graph.evaluate(top)
    steps.get_by_role("link").last.focus()
    page.keyboard.press("Tab")
    expect(graph).to_be_focused()


def test_a_run_of_steps_is_not_waiting_while_they_run(server: PageServer, page: Page) -> None:
    (run,) = server.matins.runs.list(schedule="release")
    page.goto(f"/runs/{run.id}")
    bars = page.locator(".waterfall tbody th").all_inner_texts()
    assert [bar for bar in bars if bar != "Waiting"][1:] == ["Steps", "Build", "Test", "Publish"]


def test_what_came_from_outside_is_shown_to_those_who_may_start_runs(
    server: PageServer, page: Page, browser: Browser
) -> None:
    page.goto("/inbound")
    page.get_by_role("link", name="webhook hook").click()
    expect(page.get_by_role("region", name="Body", exact=True).last).to_contain_text('"title": "Mend it"')
    page.get_by_role("button", name="Fire again").click()
    page.wait_for_url("**/inbound/2")
    assert [call.outcome for call in server.matins.calls.list()] == ["accepted", "accepted"]
    viewer = Browsing(browser, server).sign_in(token_id=server.matins.tokens.create("eye", role="viewer").id)
    other = viewer.page()
    other.goto("/inbound/1")
    expect(other.get_by_text("Bodies are shown to people who may start runs.")).to_be_visible()
    expect(other.get_by_role("button", name="Fire again")).to_have_count(0)
    viewer.close()


def test_an_incident_is_acknowledged(server: PageServer, page: Page) -> None:
    m = server.matins
    now = m.clock.now_ms()
    with m.store.transaction(now) as transaction:
        schedule = transaction.schedules_called("nightly", None)[0].id
        told = (1, 1, "{}", now, now, 1, 1, None)
        (new,) = transaction.incident_ids(1)
        transaction.insert_incidents([IncidentRow(new, schedule, "failed", "", "It failed.", None, None, *told)])
    page.goto("/incidents")
    page.get_by_role("button", name="Acknowledge incident").click()
    expect(page.get_by_text("acknowledged by owner")).to_be_visible()
    assert [incident.state for incident in m.incidents.list()] == ["acknowledged"]


def test_a_catch_up_is_previewed_since_a_time_of_the_viewers_zone(page: Page) -> None:
    page.goto("/backfills")
    page.get_by_label("As if nothing had run since").fill("2026-01-05T08:00")
    page.get_by_role("button", name="Look").click()
    page.wait_for_url("**since=**")
    expect(page.get_by_role("row", name="nightly")).to_contain_text("since 2026-01-05 08:00 CET")


def test_a_run_that_was_called_is_not_said_to_be_started_by_hand(page: Page) -> None:
    page.goto("/runs?schedule=called")
    called = page.locator("tbody tr").first
    called.get_by_role("link").first.click()
    expect(page.locator(".facts.three-columns")).to_contain_text("by a call")


def test_an_agent_with_a_budget_is_made_and_changed(server: PageServer, page: Page) -> None:
    """B12: forms follow the declared settings; only what was changed is sent; an error stands in the form."""
    page.goto("/agents")
    page.get_by_role("link", name="New agent").click()
    page.get_by_label("Name", exact=True).fill("scribe")
    page.get_by_label("Runner", exact=True).fill("demo")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/records/agents/scribe")
    page.goto("/records/budgets/new")
    page.get_by_label("Name", exact=True).fill("scribe-day")
    page.get_by_label("Scope", exact=True).select_option("agent")
    page.get_by_label("Of", exact=True).fill("scribe")
    page.get_by_label("Period", exact=True).select_option("day")
    page.get_by_label("Max cost", exact=True).fill("a lot")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("max_cost")
    page.get_by_label("Max cost", exact=True).fill("$5")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/records/budgets/scribe-day")
    page.get_by_label("Max cost", exact=True).fill("$7")
    with page.expect_request("**/v1/budgets/scribe-day") as sent:
        page.get_by_role("button", name="Save").click()
    assert (sent.value.method, sent.value.post_data_json) == ("PATCH", {"max_cost": "$7"})
    page.wait_for_load_state()
    expect(page.get_by_label("Max cost", exact=True)).to_have_attribute("data-was", "$7.00")
    assert server.matins.budgets.get("scribe-day").of == "scribe"


def test_past_slots_are_run_after_a_preview(server: PageServer, page: Page) -> None:
    """B12: nothing starts before its number is seen and asked about; then its page shows each run."""
    server.matins.add("hourly", when="0 * * * *", job="work")
    day = f"{server.matins.clock.now_ms() // 86_400_000 * 86_400:d}"
    today = datetime.fromtimestamp(int(day), UTC).date()
    page.goto(f"/backfills/new?schedule=hourly&start={today - timedelta(days=2)}&end={today - timedelta(days=2)}")
    page.get_by_role("button", name="Start 24 runs…").click()
    page.get_by_role("dialog").get_by_role("button", name="Start 24 runs").click()
    page.wait_for_url("**/backfills/1")
    expect(page.locator(".slot-progress li")).to_have_count(24)
    expect(page.locator(".state-panel h2")).to_contain_text("Done, 24 of 24 runs")
