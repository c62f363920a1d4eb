"""Every view in a real browser: wide and narrow, light and dark, with a payload in every text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Page, expect
from scene import HIDDEN, TEXT, fill, more_views, views

AXE = (Path(__file__).parent / "axe.min.js").read_text("utf-8")
SIZES = {1280: 900, 390: 844}
_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
_CHECK = "only => axe.run({resultTypes: ['violations'], preload: false, ...only}).then(r => r.violations)"
_LIVE = "[aria-live]:not([aria-live=off]), [role=status], [role=log]:not([aria-live=off])"
"""Regions that a screen reader speaks by itself when they change."""
_SCROLLING = """[...document.querySelectorAll('.table-scroll:not(.year-scroll), .tabs')]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText.slice(0, 40))"""
"""Tables and tabs that hide a part of themselves. The year of a schedule is a picture, and does."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageServer, dict[str, str]]]:
    server = PageServer(f"sqlite:///{tmp_path_factory.mktemp('page')}/matins.db")
    yield server, fill(server)
    server.close()


def complaints(page: Page, *, colours: bool) -> list[str]:
    """What axe-core finds, each with the first element. Only colours depend on the scheme."""
    found: list[Any] = page.evaluate(_CHECK, {"runOnly": _COLOURS} if colours else {})
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} ({each['nodes'][0].get('failureSummary', '')[:200]})"
        for each in found
    ]


def problems_of(page: Page, *, access: bool) -> list[str]:
    """What is wrong with a view at every width, and for `access` in every scheme."""
    found: list[str] = []
    if access:
        page.evaluate(AXE)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark") if access else ():
            page.emulate_media(color_scheme=scheme)
            found += [f"{width} {scheme}: {each}" for each in complaints(page, colours=scheme == "dark")]
        found += [f"{width}: {each} scrolls in its card" for each in page.evaluate(_SCROLLING)]
        wide = page.evaluate("document.documentElement.scrollWidth")
        found += [f"it is {wide} wide at {width}"] if wide > width else []
    found += ["a payload ran"] if page.evaluate("window.pwned") else []
    return found


def test_b12_every_view_is_whole(scene: tuple[PageServer, dict[str, str]], browser: Browser) -> None:
    """B12: no payload runs, no view scrolls sideways, none has an error or a policy violation, axe-core finds nothing,
    and a screen reader is spoken to by one region besides the messages of the page's own actions."""
    server, started = scene
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    found: list[str] = []
    once = views(started)
    for path in [*once, *more_views(started)]:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_be_visible()
        found += [f"{path}: {problem}" for problem in problems_of(page, access=path in once)]
        live = page.locator(f"main :is({_LIVE}):visible").count()
        found += [f"{path}: {live} live regions"] if live > 1 else []
    assert not found, "\n".join(found)
    browsing.close()


def test_hidden_characters_are_shown(scene: tuple[PageServer, dict[str, str]], browser: Browser) -> None:
    """Text from outside cannot hide or turn round, on no view and in no attribute: escapes, overrides, tags and
    zero-width characters are written out. Fields have it as it is: what is edited is not changed."""
    server, started = scene
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    page.goto(f"/runs/{started['report']}")
    shown = page.locator("#out").inner_text()
    assert all(written in shown for written in ("U+202E", "U+200B", "U+E0041", "ESC[31mred"))
    for path in [*views(started), *more_views(started)]:
        answer = browsing.context.request.get(path)
        hidden = set(HIDDEN) & {"\u202e", "\u200b", "\x1b", "\U000e0041"} & set(answer.text())
        assert (path.endswith("/edit") or path == "/approvals") == bool(hidden), path
    page.goto("/schedules/demo/deploy/edit")
    assert page.locator("textarea[name=prompt]").input_value() == TEXT
    browsing.close()


def test_an_unchanged_view_is_not_sent_again(scene: tuple[PageServer, dict[str, str]], browser: Browser) -> None:
    """The page asks with the tag of what it shows: a region that has not changed answers 304, without a body."""
    server, _ = scene
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    page.goto("/missions")
    page.wait_for_selector("#live[data-tag]")  # it has fetched itself once
    with page.expect_response(lambda response: response.url.endswith("/missions")) as answer:
        page.evaluate("document.body.dispatchEvent(new CustomEvent('matins:refresh'))")
    assert (answer.value.status, answer.value.headers.get("content-length", "0")) == (304, "0")
    expect(page.get_by_role("link", name="release")).to_be_visible()
    browsing.close()
