"""`make pictures`: the page of `matins up --demo` in a real browser, for the README and the docs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from page_server import launch
from playwright.sync_api import Browser, sync_playwright

from house import House

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
_ZONE = "Europe/Berlin"
WIDE = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}


class Picture(NamedTuple):
    name: str
    path: str
    options: dict[str, Any] = WIDE
    scheme: str = "light"


PICTURES = [
    Picture("now", "/"),
    Picture("now-dark", "/", WIDE, "dark"),
    Picture("now-phone", "/", PHONE),
    Picture("schedules", "/schedules"),
    Picture("why", "/schedules/demo/night-report"),
    Picture("new", "/schedules/new?when=every+weekday+at+9am"),
    Picture("run", "run of pr-digest"),
    Picture("approvals", "/approvals"),
    Picture("mission", "/missions/builder/release"),
    Picture("spend", "/spend"),
    Picture("events-dark", "/events", WIDE, "dark"),
]


@contextmanager
def demo() -> Iterator[House]:
    """The daemon with the demo, once everything in it has happened."""
    folder = tempfile.mkdtemp()
    program = (sys.executable, "-m", "matins", "demo", "--port", "0")
    house = House(Path(folder) / "home", program=program)
    try:
        house.up()
        assert house.logged("run.succeeded api-smoke")
        assert house.logged("run.started pr-digest", 2)
        assert house.logged("run.failed release")
        yield house
    finally:
        house.kill()
        shutil.rmtree(folder, ignore_errors=True)


def take(browser: Browser, house: House, picture: Picture, signed_in: Any) -> None:
    options: dict[str, Any] = {"color_scheme": picture.scheme, "timezone_id": _ZONE, **picture.options}
    context = browser.new_context(storage_state=signed_in, **options)
    page = context.new_page()
    path = picture.path
    if path.startswith("run of "):
        path = f"/runs/{house.ask('runs.list', schedule=path.removeprefix('run of '))[0]['id']}"
    page.goto(f"{house.url}{path}")
    page.wait_for_selector("h1")
    page.wait_for_load_state("load")
    if picture.name == "new":
        page.wait_for_selector("#prev .fire-list")
    page.screenshot(path=FOLDER / f"{picture.name}.png")
    context.close()


def sign_in(browser: Browser, house: House) -> Any:
    """The cookies of a session, once the page knows the zone."""
    context = browser.new_context(timezone_id=_ZONE)
    page = context.new_page()
    page.goto(f"{house.url}{house.ask('sessions.create')['path']}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector(f"body[data-zone='{_ZONE}']")
    return context.storage_state()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright, demo() as house:
        browser = launch(playwright)
        signed_in = sign_in(browser, house)
        for picture in PICTURES:
            take(browser, house, picture, signed_in)
            print(FOLDER / f"{picture.name}.png")  # noqa: T201
        browser.close()


if __name__ == "__main__":
    main()
