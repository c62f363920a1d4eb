"""Using the page: by keys, live, with two browsers, and when something is away."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Page, expect

from matins.errors import StoreUnavailable
from matins.web import app

YEARLY = "0 0 1 1 *"


def current(page: Page) -> str:
    return page.locator("tr.current th a").inner_text()


def test_b12_keys_alone_lead_through_the_page(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B12: go, move, open, run, pause, why, edit, search and help, each by a key; none while typing."""
    m = server.matins
    m.agents.set("demo", runner="demo")
    for name in ("first", "second"):
        m.add(name, when=YEARLY, agent="demo", prompt="x")
    page = browse().sign_in().page()
    page.goto("/")
    keys = page.keyboard
    keys.press("g")
    keys.press("s")
    page.wait_for_url("**/schedules")
    expect(page.locator("tbody tr")).to_have_count(2)
    keys.press("j")
    keys.press("j")
    assert current(page) == "second"
    keys.press("p")
    expect(page.locator("tr.current").get_by_text("Paused", exact=True)).to_be_visible()
    keys.press("p")
    expect(page.locator("tr.current").get_by_text("Paused", exact=True)).to_have_count(0)
    keys.press("Enter")
    page.wait_for_url("**/schedules/demo/second")
    keys.press("w")
    page.wait_for_url("**#why")
    keys.press("p")
    keys.press("Tab")
    page.get_by_label("Why", exact=True).fill("over the holidays")
    keys.press("Enter")
    expect(page.locator(".page-head").get_by_text("over the holidays")).to_be_visible()
    assert m.get("second").state == "paused"
    keys.press("p")
    expect(page.locator(".page-head").get_by_text("Active", exact=True)).to_be_visible()
    keys.press("r")
    page.wait_for_url("**/runs/*")
    expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    keys.press("Escape")
    keys.press("Control+k")
    page.get_by_role("combobox").fill("fir")
    expect(page.get_by_role("option", name="demo/first active", exact=True)).to_be_visible()
    keys.press("Enter")
    page.wait_for_url("**/schedules/demo/first")
    keys.press("e")
    page.wait_for_url("**/edit")
    page.locator("textarea[name=prompt]").fill("jjpp?")
    assert page.locator("textarea[name=prompt]").input_value() == "jjpp?"


def test_a_new_schedule_is_read_back_while_it_is_typed(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """The preview says how Matins reads the text, and when it fires; a text that it cannot read disables the button."""
    server.matins.agents.set("demo", runner="demo")
    browsing = browse().sign_in()
    browsing.expected = ("412",)
    page = browsing.page()
    page.goto("/schedules/new")
    when = page.get_by_label("When", exact=True)
    when.fill("every weekday at 9am")
    expect(page.locator("#prev mark")).to_have_text("every weekday at 09:00")
    expect(page.locator("#prev .fire-list li")).to_have_count(5)
    when.fill("in 2 hours")
    expect(page.locator("#prev header")).to_contain_text("one run")
    expect(page.locator("#prev mark")).to_contain_text("CE")  # the zone of its time
    when.fill("every blue moon")
    expect(page.locator("#prev [data-invalid]")).to_be_visible()
    expect(page.get_by_role("button", name="Create schedule")).to_be_disabled()
    when.fill("every weekday at 9am")
    page.get_by_label("Name (empty: from the prompt)").fill("brief")
    page.locator("textarea[name=prompt]").fill("Say what day it is")
    expect(page.locator("#same code")).to_contain_text(
        'matins add "every weekday at 9am" --agent "demo" --name "brief"'
    )
    page.get_by_role("button", name="Create schedule").click()
    page.wait_for_url("**/schedules/demo/brief")
    assert server.matins.get("brief").timezone == "Europe/Berlin", "nine o'clock where the person is"
    page.get_by_role("link", name="Edit").click()
    page.locator("textarea[name=prompt]").fill("Say the month")
    server.matins.edit("brief", prompt="Somebody else was quicker")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("changed")
    assert server.matins.get("brief").prompt == "Somebody else was quicker"


def test_b21_answers_that_would_reach_nobody_are_told_with_what_sends_them(
    server: PageServer, browse: Callable[..., Browsing]
) -> None:
    """B21: while it is typed, and on the schedule: the command, and a button once there is a destination"""
    m = server.matins
    m.agents.set("demo", runner="demo")
    m.add("brief", when=YEARLY, agent="demo", prompt="x")
    m.add("plain", when=YEARLY, job="work")
    page, unsent = browse().sign_in().page(), "No destination gets its answers."
    page.goto("/schedules/plain")
    expect(page.get_by_text(unsent)).to_have_count(0)
    page.goto("/schedules/new")
    page.get_by_label("When", exact=True).fill("every weekday at 9am")
    expect(page.locator("#prev")).to_contain_text(unsent)
    page.goto("/schedules/demo/brief")
    expect(page.locator(".notice", has_text=unsent)).to_contain_text("matins destinations set notes")
    expect(page.get_by_role("button", name="Send them to")).to_have_count(0)
    for name in ("second", "first"):
        m.destinations.set(name, kind="ntfy", to=["t"])
    page.reload()
    expect(page.locator(".notice", has_text=unsent)).to_contain_text("matins deliver set --to first")
    page.get_by_role("button", name="Send them to first").click()
    expect(page.get_by_text(unsent)).to_have_count(0)
    assert m.deliver.get().to == ["first"]


def test_b5_what_was_read_is_approved_and_two_browsers_agree(
    server: PageServer, browse: Callable[..., Browsing]
) -> None:
    """B5 V7: an edit meanwhile changes nothing of what was read; what one browser approves, the other sees."""
    m = server.matins
    m.agents.set("demo", runner="demo")
    m.add("deploy", when=YEARLY, agent="demo", prompt="Deploy main", approval="owner_approve")
    run = m.run("deploy")
    one, two, still = browse().sign_in(), browse().sign_in(), browse().sign_in()
    still.expected = ("409", "ERR_FAILED")
    page, other, old = one.page(), two.page(), still.page()
    old.route("**/ui/stream", lambda route: route.abort())
    for each in (page, other, old):
        each.goto("/approvals")
        expect(each.locator(".approval .code")).to_have_text("Deploy main")
    m.edit("deploy", prompt="Deploy everything")
    expect(page.locator(".approval .code")).to_have_text("Deploy main")
    assert m.runs.get(run.id).status == "awaiting_approval"
    page.keyboard.press("a")
    expect(page.locator(".armed")).to_have_text("Press again to approve A")
    page.keyboard.press("Enter")
    expect(other.get_by_text("Nothing waits for you")).to_be_visible()
    expect(other.locator("#waiting")).to_be_hidden()
    assert m.runs.wait(run.id, timeout=60).state == "succeeded"
    expect(other.get_by_role("row", name="deploy").get_by_text("Approved")).to_be_visible()


def test_b5_a_request_is_approved_with_another_prompt(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B5: the run says what the person wrote, under a digest of its own. The keys go on with the next request."""
    m = server.matins
    m.agents.set("demo", runner="demo")
    for name in ("deploy", "next"):
        m.add(name, when=YEARLY, agent="demo", prompt="Deploy main", approval="owner_approve")
    run = m.run("deploy")
    page = browse().sign_in().page()
    page.goto("/approvals")
    expect(page.locator(".approval.current>header h2")).to_have_text("Run deploy")
    other = m.run("next")
    expect(page.locator(".approval")).to_have_count(2)
    page.keyboard.press("e")
    page.locator("dialog[open] textarea").fill("Deploy the docs only")
    page.get_by_role("button", name="Approve this").click()
    expect(page.locator(".approval.current>header h2")).to_have_text("Run next")
    page.keyboard.press("d")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    assert m.runs.get(other.id).state == "denied"
    assert m.runs.wait(run.id, timeout=60).state == "succeeded"
    assert "Deploy the docs only" in m.runs.wait(run.id).outcome["result"]["text"]


def test_the_page_is_live_and_says_when_it_is_not(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """A change appears by itself; a cut stream greys the page and names the time; the stream comes back."""
    m = server.matins
    browsing = browse().sign_in()
    browsing.expected = ("ERR_", "Failed to fetch", "htmx")
    page = browsing.page()
    page.clock.install()
    page.goto("/schedules")
    expect(page.get_by_text("No schedule matches")).to_be_visible()
    m.add("appears", when=YEARLY, job="work")
    page.clock.run_for(1_000)
    expect(page.get_by_role("link", name="appears")).to_be_visible()
    browsing.context.set_offline(True)
    page.clock.run_for(15_000)
    expect(page.locator("#stale")).to_contain_text("since")
    expect(page.locator("body.stale")).to_have_count(1)
    m.add("meanwhile", when=YEARLY, job="work")
    browsing.context.set_offline(False)
    page.clock.run_for(5_000)
    expect(page.get_by_role("link", name="meanwhile")).to_be_visible()
    expect(page.locator("#stale")).to_be_hidden()


def test_what_is_away_is_said_with_the_way_to_mend_it(browser: Browser, tmp_path: Path) -> None:
    """No engine: nothing will fire. An address that is not there, and a run that is not there, say so."""
    server = PageServer(f"sqlite:///{tmp_path}/m.db", start=False)
    browsing = Browsing(browser, server).sign_in()
    browsing.expected = ("404",)
    page = browsing.page()
    page.goto("/schedules")
    expect(page.get_by_role("alert")).to_contain_text("Nothing will fire: no engine is running. Start one: matins up")
    page.goto("/nothing")
    expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
    page.goto("/runs/9999")
    expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
    browsing.close()
    server.close()


def test_a_viewer_has_no_buttons(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """The page has the rights of its session, and the API refuses what it does not offer."""
    m = server.matins
    m.add("nightly", when=YEARLY, job="work")
    browsing = browse().sign_in(token_id=m.tokens.create("eye", role="viewer").id)
    browsing.expected = ("403",)
    page = browsing.page()
    page.goto("/schedules/nightly")
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    call = "fetch('/v1/schedules/nightly/run', {method: 'POST', headers: {'X-Matins-CSRF': '1'}}).then(r => r.status)"
    assert page.evaluate(call) == 403


def test_b12_lanes_lead_to_what_they_show(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B12: a mark to its run, a lane to its runs, a drag over a time to that time, and a new run is drawn by itself."""
    m = server.matins
    for name in ("ada", "bob"):
        m.agents.set(name, runner="demo")
        m.add(f"daily-{name}", when="every 5 hours", agent=name, prompt="x")
        m.runs.wait(m.run(f"daily-{name}").id, timeout=60)
    page = browse().sign_in().page()
    page.goto("/")
    lane = page.locator(".lane-list .lane", has_text="ada")
    expect(lane.locator(".bar.is-succeeded")).to_have_count(1)
    m.runs.wait(m.run("daily-ada").id, timeout=60)
    expect(lane.locator(".bar.is-succeeded")).to_have_count(2)
    lane.locator(".bar").last.click()
    page.wait_for_url("**/runs/3")
    page.go_back()
    lane.get_by_role("link").click()
    page.wait_for_url("**/runs?agent=ada")
    page.go_back()
    box = lane.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
    page.mouse.up()
    page.wait_for_url("**since=**until=**")
    expect(page.get_by_text("0 runs, 0 failed")).to_be_visible()


def test_reading_works_without_scripts_in_forced_colours_and_without_motion(
    server: PageServer, browse: Callable[..., Browsing]
) -> None:
    server.matins.add("nightly", when=YEARLY, job="work")
    plain = browse(java_script_enabled=False).sign_in().page()
    plain.goto("/schedules")
    plain.get_by_role("link", name="nightly").click()
    expect(plain.get_by_role("heading", name="nightly")).to_be_visible()
    still = browse(forced_colors="active", reduced_motion="reduce").sign_in().page()
    still.goto("/schedules")
    expect(still.get_by_role("link", name="nightly")).to_be_visible()
    moving = "[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).animationName !== 'none').length"
    assert still.evaluate(moving) == 0
    button = still.get_by_role("link", name="New schedule")
    assert button.evaluate("e => getComputedStyle(e).borderTopStyle") == "solid"
    still.keyboard.press("Tab")
    assert still.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_store_that_is_away_is_said(
    server: PageServer, browse: Callable[..., Browsing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says what is wrong and what to do, whether the session or the view cannot be read."""
    browsing = browse().sign_in()
    browsing.expected = ("503",)
    page = browsing.page()

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("The database does not answer.", hint="Start it, or see its log.")

    for owner, name in ((server.sessions, "principal_of"), (server.matins, "invoke")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, away)
            answer = page.goto("/schedules")
            assert answer is not None
            assert answer.status == 503
            expect(page.get_by_text("The database does not answer.")).to_be_visible()
            expect(page.get_by_text("Start it, or see its log.")).to_be_visible()
    page.goto("/schedules")
    expect(page.get_by_role("heading", name="Schedules")).to_be_visible()


def test_b3_selected_rows_are_paused_with_a_note_and_resumed(
    server: PageServer, browse: Callable[..., Browsing]
) -> None:
    """B3: rows are selected by a key; the bar pauses them with a note, which Now resumes, just those."""
    m = server.matins
    for name in ("one", "two", "three"):
        m.add(name, when=YEARLY, job="work")
    page = browse().sign_in().page()
    page.goto("/schedules?sort=name")
    keys = page.keyboard
    for key in ("j", "x", "j", "j", "x"):
        keys.press(key)
    expect(page.locator(".bulk-bar")).to_contain_text("2 selected")
    page.locator(".bulk-bar").get_by_role("button", name="Pause…").click()
    page.get_by_label("Why", exact=True).fill("moving house")
    keys.press("Enter")
    expect(page.locator(".bulk-bar")).to_be_hidden()
    expect(page.locator("tbody").get_by_text("Paused", exact=True)).to_have_count(2)
    assert {each.name: (each.state, each.note) for each in m.list()} == {
        "one": ("paused", "moving house"), "two": ("paused", "moving house"), "three": ("active", None),
    }  # fmt: skip
    page.goto("/")
    page.get_by_role("button", name="Resume just those").click()
    expect(page.get_by_text("2 schedules are paused")).to_have_count(0)
    assert {each.state for each in m.list()} == {"active"}


def test_events_are_downloaded_as_the_filters_select_them(
    server: PageServer, browse: Callable[..., Browsing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON lines and CSV, a page of events at a time, the oldest first; no cell begins like a formula."""
    monkeypatch.setattr(app, "_PAGE", 3)
    m = server.matins
    m.add("=1+1", when=YEARLY, job="work")
    m.add("other", when=YEARLY, job="work")
    for _ in range(4):
        m.runs.wait(m.run("=1+1").id, timeout=60)
    page = browse().sign_in().page()
    page.goto("/events?group=run&schedule=%3D1%2B1")
    wanted = [event for event in m.events.list(schedule="=1+1", limit=1_000) if event.type.startswith("run.")]
    assert len(wanted) > 9
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON lines").click()
    assert download.value.suggested_filename == "matins-events.jsonl"
    lines = download.value.path().read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [event.id for event in wanted]
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text("utf-8").splitlines()))
    assert [row["id"] for row in rows] == [event.id for event in wanted]
    assert {row["schedule"] for row in rows} == {"'=1+1"}
    assert [json.loads(row["data"]) for row in rows] == [event.data for event in wanted]
    refused = page.request.get("/events/export?schedule=nothing")
    assert refused.status == 404


def test_b3_all_is_paused_with_a_note_and_just_that_is_resumed(
    server: PageServer, browse: Callable[..., Browsing]
) -> None:
    """B3: what was paused before stays paused."""
    m = server.matins
    for name in ("one", "two", "asleep"):
        m.add(name, when=YEARLY, job="work")
    m.pause("asleep")
    page = browse().sign_in().page()
    page.goto("/")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Why", exact=True).fill("maintenance")
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("2 schedules are paused")).to_be_visible()
    expect(page.get_by_text("maintenance")).to_be_visible()
    page.get_by_role("button", name="Resume just those").click()
    expect(page.get_by_text("2 schedules are paused")).to_have_count(0)
    assert {each.name: each.state for each in m.list()} == {"one": "active", "two": "active", "asleep": "paused"}


def test_b22_a_run_is_given_its_inputs_in_a_form(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B22: a field for each type, with its default; without a declaration, JSON"""
    m = server.matins
    seen: list[object] = []
    m.job("report")(lambda run: seen.append(run.payload))
    inputs = {
        "repo": {"type": "choice", "values": ["api", "web"], "default": "api", "description": "What to look at."},
        "days": 7, "ratio": 0.5, "draft": False, "since": {"type": "date", "required": False},
        "who": {"default": "all"}, "more": {"type": "json", "required": False},
    }  # fmt: skip
    m.add("report", when=YEARLY, job="report", inputs=inputs)
    m.add("free", when=YEARLY, job="report", payload={"days": 7})
    page = browse().sign_in().page()
    page.goto("/schedules/report")
    page.keyboard.press("r")
    form = page.get_by_role("dialog", name="Run report")
    expect(form).to_be_visible()
    form.get_by_label("days").fill("30")
    form.get_by_label("repo").select_option("web")
    form.get_by_label("draft").select_option("true")
    form.get_by_label("since").fill("2026-01-31")
    form.get_by_label("more").fill('{"a": ')
    form.get_by_role("button", name="Run now").click()
    expect(form.get_by_role("alert")).to_contain_text("this is no JSON")
    form.get_by_label("more").fill('{"a": [1]}')
    form.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    given = {"repo": "web", "days": 30, "draft": True, "since": "2026-01-31", "more": {"a": [1]}}
    assert m.runs.list(schedule="report")[0].input == given
    page.goto("/schedules/free")
    page.get_by_role("button", name="Run with…").click()
    form = page.get_by_role("dialog", name="Run free")
    form.get_by_label("Input of this run").fill('{"days": 30}')
    form.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    m.runs.wait(m.runs.list(schedule="free")[0].id, timeout=30)
    assert seen[-1] == {"days": 30}
