"""`make pictures`: the page on a seeded store one day old, in a real browser, for the README and the docs.

Beside the pictures lies `made-from.json`: the digest of what they show, by which a test says that they are out of date.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from page_server import Browsing, PageServer, launch
from playwright.sync_api import sync_playwright

import busy_store
from matins import Matins

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
MADE_FROM = FOLDER / "made-from.json"
_WEB = ROOT / "src" / "matins" / "web"
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
    Picture("why", "/schedules/web-review/inbox"),
    Picture("new", "/schedules/new?when=every+weekday+at+9am"),
    Picture("run", "/runs/1200"),
    Picture("runs-dark", "/runs?state=failed", WIDE, "dark"),
    Picture("approvals", "/approvals"),
    Picture("spend", "/spend"),
    Picture("events-dark", "/events", WIDE, "dark"),
]


def digest() -> str:
    """What the views and the seeded store are made of."""
    files = sorted([*_WEB.rglob("*.html"), *_WEB.rglob("*.css"), _WEB / "drawings.py", Path(busy_store.__file__)])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _slow(matins: Matins, agent: str) -> str:
    """A run that goes on for as long as pictures are made."""
    matins.agents.edit(agent, command=["sleep", "900"])
    (schedule,) = matins.list(select=f"agent={agent}", limit=1)
    return matins.run(schedule.name, agent=agent).id


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "matins.db"
        url = f"sqlite:///{path}"
        matins = Matins(url)
        busy_store.fill(matins, path, runs=3_000, days=1)
        matins.close()
        server, browser = PageServer(url), launch(playwright)
        started = [_slow(server.matins, name) for name in ("ops-report", "web-tests", "research-digest", "web-docs")]
        for picture in PICTURES:
            browsing = Browsing(browser, server, color_scheme=picture.scheme, **picture.options).sign_in()
            page = browsing.page()
            page.goto(picture.path)
            page.wait_for_selector("h1")
            if picture.name == "new":
                page.wait_for_selector("#prev .fire-list")
            page.wait_for_timeout(300)  # the font is there
            page.screenshot(path=FOLDER / f"{picture.name}.png")
            print(FOLDER / f"{picture.name}.png")  # noqa: T201
            browsing.close()
        browser.close()
        for run_id in started:
            server.matins.runs.cancel(run_id)
            server.matins.runs.wait(run_id, timeout=60)
        server.close()
    MADE_FROM.write_text(json.dumps({"digest": digest(), "pictures": [each.name for each in PICTURES]}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
