"""The demonstration (`make up`) fills the page: every address of docs/page.md, read as a signed-in browser does."""

from __future__ import annotations

import html
import http.client
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from house import House

ROOT = Path(__file__).parents[2]
_TEMPLATES = ROOT / "src/matins/web/templates"
_EMPTY = re.compile(
    r'<p class="padded muted(?: small-text)?">\s*((?:No|Nothing|None|There is no|It has not|An engine)[^<{]*)'
)
_ADDRESS = re.compile(r"`([/…][^`]*)`")


class View(NamedTuple):
    path: str
    texts: tuple[str, ...]
    """What it shows of the demonstration."""
    empty: tuple[str, ...] = ()
    """What it says that there is not, because the demonstration cannot have it."""


VIEWS = {
    "/": [View("/", ("Decide", "deploy", "night-report", "$20.00"))],
    "/schedules": [View("/schedules", ("heartbeat", "night-report", "weekly-report", "morning-news"))],
    "/schedules/AGENT/NAME": [
        View("/schedules/demo/night-report", ('Quiet hours "nearly-always" were active', "Report what happened"))
    ],
    "/schedules/new": [View("/schedules/new", ("reviewer", "nearly-always"))],
    "…/edit": [View("/schedules/demo/deploy/edit", ("Deploy what was merged today.",))],
    "/runs": [View("/runs", ("heartbeat", "Succeeded", "Skipped", "Needs approval", "$0.04", "connection refused"))],
    "/runs/ID": [
        View(
            "/runs/{flaky-tests}",
            ("Failed", "Attempt 1", "Stderr Conversation Definition Difference tests/api/test_cursor.py"),
        ),
        View("/runs/{pr-digest}", ("Succeeded", "$0.04", "Summarise the open pull requests.")),
        View("/runs/{pr-digest}?tab=conversation", ("Summarise the open pull requests.",)),
        View(
            "/runs/{release}", ("Draft release notes", "Update dependencies", "Each of its steps has its own output.")
        ),
    ],
    "/approvals": [View("/approvals", ("Deploy what was merged today.", "morning-news", "planner"))],
    "/missions": [
        View("/missions", ("release", "Failed")),
        View("/missions/builder/release", ("Read open issues", "Another step did not succeed: Update dependencies.")),
    ],
    "/incidents": [
        View("/incidents", ("flaky-tests", "release", "deploy")),
        View("/incidents?all=1", ("Resolved", "api-smoke", "recovered", "connection refused")),
    ],
    "/spend": [View("/spend", ("$0.04", "pr-digest", "reviewer", "$5.00"))],
    "/backfills": [  # nothing was missed
        View("/backfills", ("Runs for slots that are past",), ("An engine was always running.", "There is none.")),
    ],
    "/records/budgets/new": [View("/records/budgets/new", ("Name", "Max cost"))],
    "/agents": [
        View("/agents", ("builder", "planner", "reviewer", "tester")),
        View("/agents/reviewer", ("pr-digest", "weekly-report", "Succeeded")),
    ],
    "/events": [View("/events", ("run.succeeded", "incident.opened", "schedule.created"))],
    "/inbound": [View("/inbound", (), ("None.", "No call has come yet."))],  # nobody calls it from outside
    "/settings": [
        View(
            "/settings",
            ("used just now", "nearly-always", "$20.00"),
            ("None.", "None. Matins sets one when a provider refuses requests."),
        )
    ],  # it has no people, hooks, throttles …
    "/welcome": [View("/welcome", ("An engine is running", "agent tester"))],
}


def test_b2_every_address_of_the_page_is_looked_at() -> None:
    """B2: the test below knows each address that docs/page.md names."""
    rows = [line for line in (ROOT / "docs/page.md").read_text("utf-8").splitlines() if line.startswith("| `/")]
    assert {address for row in rows for address in _ADDRESS.findall(row.split("|")[1])} == set(VIEWS)


class Reader:
    """A browser without scripts: it follows the link that `matins login` prints, presses the button, and reads."""

    def __init__(self, house: House) -> None:
        self._address = urlsplit(house.url).netloc
        code = house.ask("sessions.create")["path"].partition("=")[2]
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": house.url}
        answer, _ = self._ask("POST", "/login", form, urlencode({"code": code}))
        self._cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]

    def text(self, path: str) -> str:
        """What a view says, without the frame of the page."""
        answer, body = self._ask("GET", path, {"Cookie": f"{self._cookie}; matins_zone=UTC"})
        assert answer.status == 200, (path, answer.status)
        main = body.partition("<main")[2].partition("</main>")[0]
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split())

    def _ask(
        self, method: str, path: str, headers: dict[str, str], body: str | None = None
    ) -> tuple[http.client.HTTPResponse, str]:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text


@pytest.fixture
def demonstration(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "home", program=(sys.executable, "-m", "matins", "demo", "--port", "0")).up()
    yield house
    house.kill()


def missing(reader: Reader, house: House, view: View) -> list[str]:
    """What the view does not show, and what it shows instead."""
    found = reader.text(_path(house, view.path))
    empty = {text.strip() for file in _TEMPLATES.glob("*.html") for text in _EMPTY.findall(file.read_text("utf-8"))}
    assert len(empty) >= 15, empty
    wrong = [f"{view.path} lacks {text!r}" for text in view.texts if text not in found]
    wrong += [f"{view.path} says {text!r}" for text in empty - set(view.empty) if text in found]
    return wrong + [f"{view.path} does not say {text!r}" for text in view.empty if text not in found]


def _path(house: House, path: str) -> str:
    """The address, with the number of the newest run of a schedule, or the time, that it names."""
    an_hour_ago = (house.started_at - timedelta(hours=1)).astimezone(UTC)
    path = path.replace("{an hour ago}", f"{an_hour_ago:%Y-%m-%dT%H:%M}")
    return re.sub(r"\{(.*)\}", lambda name: house.ask("runs.list", schedule=name[1])[0]["id"], path)


def test_b2_the_demonstration_fills_every_view(demonstration: House) -> None:
    """B2, B3, B5, B12: a failure with its incident, a recovery, a skipped report, a deployment that waits, a mission,
    spending: each is seen where one looks for it."""
    house, happened = demonstration, demonstration.logged
    assert happened("run.started pr-digest")
    assert happened("run.awaiting_approval deploy")
    assert happened("run.skipped night-report")
    reader = Reader(house)
    wrong = missing(reader, house, VIEWS["/"][0])  # while a run goes on
    assert happened("incident.opened api-smoke")
    house.fire("api-smoke")  # a minute later it would run by itself
    assert happened("incident.resolved api-smoke")
    assert happened("run.succeeded plan-ahead")
    assert happened("run.succeeded pr-digest")
    assert happened("run.failed release")
    assert happened("incident.opened release")
    wrong += [
        each for address, views in VIEWS.items() if address != "/" for v in views for each in missing(reader, house, v)
    ]
    assert not wrong, "\n".join(wrong)


def test_b2_the_demonstration_starts_quietly(tmp_path: Path) -> None:
    """B2: at a terminal of 24 lines the link stays in sight; no warning, and no failure before the greeting"""
    screen = Screen([sys.executable, "-m", "matins", "--home", str(tmp_path / "demo"), "demo", "--port", "0"])
    try:
        text = screen.until("run.failed flaky-tests", "run.succeeded plan-ahead", "run.failed api-smoke")
    finally:
        screen.close()
    before, _, after = text.partition("is running (process")
    assert "warning" not in text
    assert "run." not in before
    rows = [row for line in after.splitlines() for row in range(max(1, -(-len(line) // 80)))]
    link = [n for n, line in enumerate(after.splitlines()) if "/login?code=" in line]
    assert link, text
    assert len(rows) - link[0] <= 24, text


class Screen:
    """A program at a terminal of 24 lines and 80 columns, with what it printed so far."""

    def __init__(self, argv: list[str]) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            termios.tcsetwinsize(0, (24, 80))
            kept = {name: value for name, value in os.environ.items() if not name.startswith(("MATINS_", "XDG_"))}
            os.execve(argv[0], argv, kept | {"TERM": "xterm"})
        self._text = b""

    def until(self, *texts: str) -> str:
        while not all(text.encode() in self._text for text in texts):
            part = os.read(self._terminal, 65_536)
            assert part, self._text
            self._text += part
        return self._text.decode().replace("\r\n", "\n")

    def close(self) -> None:
        os.kill(self._pid, signal.SIGTERM)
        with suppress(OSError):  # EIO: it has ended
            while os.read(self._terminal, 65_536):
                pass
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
