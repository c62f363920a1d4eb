"""One browser for all tests of the page, and servers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_server import Browsing, PageServer, launch
from playwright.sync_api import Browser, expect, sync_playwright

expect.set_options(timeout=20_000)  # both cores may be busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the whole session: while it is there, an event loop runs in this thread, and no test can run its own."""
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    made = PageServer(f"sqlite:///{tmp_path}/matins.db")
    yield made
    made.close()


@pytest.fixture
def browse(browser: Browser, server: PageServer) -> Iterator[Callable[..., Browsing]]:
    """Opens browser contexts, which must end without a problem."""
    made: list[Browsing] = []

    def begin(**options: Any) -> Browsing:
        made.append(Browsing(browser, server, **options))
        return made[-1]

    yield begin
    for each in made:
        each.close()
