"""Getting in: the link with its button, links from elsewhere, and sessions to see and end."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from page_server import Browsing, PageServer
from playwright.sync_api import expect

from matins import web
from matins.web.templates import StaticFiles


def test_b12_the_link_shows_a_button_that_leads_to_now(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B12: a link preview uses nothing up; the button signs in once, and a used link says what to type."""
    path = server.matins.sessions.create().path
    assert path is not None
    browsing = browse()
    browsing.expected = ("401", "403")
    page = browsing.page()
    page.goto("/schedules")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "b=1" in page.url
    expect(page.get_by_text("matins login")).to_be_visible()
    for _ in range(2):
        page.goto(path)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Nothing is scheduled yet")).to_be_visible()
    cookie = next(each for each in browsing.context.cookies() if each["name"] == "matins_session")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    other = browse()
    other.expected = ("403",)
    late = other.page()
    late.goto(path)
    late.get_by_role("button", name="Sign in").click()
    expect(late.get_by_text("invalid, used or expired")).to_be_visible()


def test_a_link_from_another_site_finds_the_session(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """The strict cookie does not come with a link from elsewhere; the page asks again from its own site."""
    browsing = browse().sign_in()
    browsing.context.route("http://mail.example/", lambda route: route.fulfill(
        content_type="text/html", body=f'<a href="{server.url}/schedules?state=paused">open</a>'
    ))  # fmt: skip
    page = browsing.page()
    page.goto("http://mail.example/")
    page.get_by_text("open").click()
    expect(page.get_by_role("heading", name="Schedules")).to_be_visible()
    page.wait_for_url("**/schedules?state=paused")


def test_sessions_are_seen_and_ended(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """An ended session opens nothing, and the page that has it says so."""
    server.session()
    ending = browse().sign_in()
    ending.expected = ("401", "ERR_INCOMPLETE_CHUNKED_ENCODING")  # an ended session ends its stream
    page = ending.page()
    page.goto("/settings")
    ends = page.get_by_role("button", name="End the session")
    expect(ends).to_have_count(2)
    ends.first.click()
    expect(ends).to_have_count(1)
    for session in server.matins.sessions.list():
        server.matins.sessions.revoke(session.id)
    page.goto("/settings")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_what_a_browser_loads_is_small_and_kept(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """Styles and scripts stay under 40 KB packed, and are cached for a year by their content."""
    static = Path(web.__file__).with_name("static")
    packed = [_sent(server, file.name) for file in static.iterdir() if file.suffix in (".css", ".js")]
    assert 0 < sum(map(len, packed)) < 40 * 1024
    page = browse().sign_in().page()
    with page.expect_response("**/style.css") as answer:
        page.goto("/")
    headers = answer.value.all_headers()
    assert "max-age=31536000, immutable" in headers["cache-control"]
    headers = page.goto("/schedules").all_headers()  # type: ignore[union-attr]
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Cookie, HX-Request, Accept-Encoding")
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy


def _sent(server: PageServer, name: str) -> bytes:
    """The bytes of a file, as a browser gets them."""
    with closing(http.client.HTTPConnection(server.host, timeout=30)) as connection:
        connection.request("GET", StaticFiles().path(name), headers={"Accept-Encoding": "gzip"})
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Encoding")) == (200, "gzip")
        return response.read()
