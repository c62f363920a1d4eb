"""Every view in a real browser: wide and narrow, light and dark, with a payload in every text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Browser, Page, expect
from scene import HIDDEN, fill, views

AXE = (Path(__file__).parent / "axe.min.js").read_text("utf-8")
WIDE = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
NARROW = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageServer, dict[str, str]]]:
    server = PageServer(f"sqlite:///{tmp_path_factory.mktemp('page')}/matins.db")
    yield server, fill(server)
    server.close()


def complaints(page: Page) -> list[str]:
    """What axe-core finds, each with the first element."""
    page.evaluate(AXE)
    found: list[Any] = page.evaluate("axe.run({resultTypes: ['violations']}).then(r => r.violations)")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} ({each['nodes'][0].get('failureSummary', '')[:200]})"
        for each in found
    ]


@pytest.mark.parametrize("options", [WIDE, NARROW], ids=["wide-light", "narrow-dark"])
def test_b12_every_view_is_whole(
    scene: tuple[PageServer, dict[str, str]], browser: Browser, options: dict[str, Any]
) -> None:
    """B12: no payload runs, no view scrolls sideways, none has an error or a policy violation, and axe-core finds
    nothing, wide and light, narrow and dark."""
    server, started = scene
    browsing = Browsing(browser, server, **options).sign_in()
    page = browsing.page()
    found: list[str] = []
    for path in views(started):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        problems = complaints(page)
        if width > options["viewport"]["width"]:
            problems.append(f"it is {width} wide")
        if page.evaluate("window.pwned"):
            problems.append("a payload ran")
        found += [f"{path}: {problem}" for problem in problems]
    assert not found, "\n".join(found)
    browsing.close()


def test_hidden_characters_are_shown(scene: tuple[PageServer, dict[str, str]], browser: Browser) -> None:
    """Text from outside cannot hide or turn round: escapes, overrides and zero-width characters are written out."""
    server, started = scene
    browsing = Browsing(browser, server).sign_in()
    page = browsing.page()
    page.goto(f"/runs/{started['report']}")
    shown = page.locator("#out").inner_text()
    assert "U+202E" in shown
    assert "U+200B" in shown
    assert "ESC[31mred" in shown
    assert not set(HIDDEN) & {"\u202e", "\u200b", "\x1b"} & set(page.content())
    browsing.close()
