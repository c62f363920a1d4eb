"""A team of five in a real browser: invited, signed in by mail, by a password and by a provider; one approves what
another asked for; one leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import Page, expect

from standins.mails import open_mails
from standins.oidc import CLIENT, SECRET, Oidc, open_provider

PASSWORD = "correct horse battery"


@pytest.fixture
def provider(server: PageServer, tmp_path: Path) -> Iterator[Oidc]:
    (tmp_path / "secret").write_text(SECRET)
    with open_provider() as oidc:
        server.matins.sign_in.set(issuer=oidc.issuer, client_id=CLIENT, client_secret=f"file:{tmp_path}/secret")
        yield oidc


def fits(page: Page) -> None:
    """Nothing is wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def inside(page: Page) -> None:
    """Signed in: the page asks for itself once more, because the strict cookie is new."""
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.wait_for_load_state()


def test_a_team_of_five(server: PageServer, browse: Callable[..., Browsing], provider: Oidc) -> None:
    """B23"""
    matins = server.matins
    matins.url = server.url
    matins.agents.set("scout", runner="demo")
    matins.add("deploy", when="1d", agent="scout", prompt="Ship it", approval="owner_approve")
    with open_mails() as (mails, port):
        matins.smtp.set(host="127.0.0.1", port=port, tls="none")
        olga = browse().sign_in().page()
        olga.goto("/settings")
        for name, role in (("ada", "operator"), ("ben", "viewer"), ("cleo", "operator"), ("dora", "operator")):
            olga.get_by_role("button", name="Invite…").click()
            dialog = olga.get_by_role("dialog", name="Invite a person")
            dialog.get_by_label("E-mail address").fill(f"{name}@example.com")
            dialog.get_by_label("Role").select_option(role)
            dialog.get_by_role("button", name="Invite").click()
            expect(dialog.locator(".command code")).to_contain_text("/login?code=")
            olga.keyboard.press("Escape")
        links = [re.search(r"http\S+", mail.get_content())[0] for _, mail in mails.taken]  # type: ignore[index]
        assert len(links) == 4

        # Ada joins by her invitation, with a password; on a phone, in the dark.
        phone = browse(viewport={"width": 390, "height": 844}, color_scheme="dark")
        phone.expected = ("403", "401", "ERR_INCOMPLETE_CHUNKED_ENCODING")  # a session that ends ends its stream
        ada = phone.page()
        ada.goto(links[0])
        expect(ada.get_by_role("heading", name="Welcome, ada")).to_be_visible()
        fits(ada)
        ada.get_by_label("Password").fill(PASSWORD)
        ada.get_by_role("button", name="Join").click()
        inside(ada)
        ada.goto("/me")
        expect(ada.get_by_role("heading", name="ada", exact=True)).to_be_visible()
        expect(ada.get_by_text("signed in by invitation")).to_be_visible()
        fits(ada)
        ada.get_by_role("button", name="Sign out").click()
        ada.wait_for_url("**/login")
        fits(ada)
        ada.get_by_label("Name or e-mail address").fill("ada")
        ada.get_by_label("Password", exact=True).fill("a wrong password")
        ada.get_by_role("button", name="Sign in", exact=True).click()
        expect(ada.get_by_role("alert")).to_contain_text("The name or the password is wrong")
        ada.get_by_label("Name or e-mail address").fill("ada")
        ada.get_by_label("Password", exact=True).fill(PASSWORD)
        ada.get_by_role("button", name="Sign in", exact=True).click()
        inside(ada)

        # Ben signs in by mail, in the browser that asked.
        ben_browser = browse()
        ben = ben_browser.page()
        ben.goto("/login")
        ben.get_by_label("E-mail address", exact=True).fill("ben@example.com")
        ben.get_by_role("button", name="Mail me a link").click()
        expect(ben.get_by_role("status")).to_contain_text("If this address is known, a link is on its way")
        link = _newest(mails, 5)
        stranger = browse()
        stranger.expected = ("403",)
        other = stranger.page()
        other.goto(link)
        other.get_by_role("button", name="Sign in").click()
        expect(other.get_by_role("alert")).to_contain_text("another browser")
        ben.goto(link)
        ben.get_by_role("button", name="Sign in").click()
        inside(ben)
        ben.get_by_role("link", name="ben", exact=True).click()
        expect(ben.get_by_text("signed in by email")).to_be_visible()
        zone = ben.get_by_role("region", name="Time zone")
        zone.get_by_role("textbox").fill("Europe/Berlin")
        zone.get_by_role("button", name="Save").click()
        expect(ben.get_by_text("Saved.")).to_be_visible()
        assert matins.people.get("ben").timezone == "Europe/Berlin"

    # Cleo and Dora sign in by the provider.
    pages: dict[str, Page] = {}
    for name in ("cleo", "dora"):
        provider.person = {"sub": f"{name}-1", "email": f"{name}@example.com", "email_verified": True}
        browsing = browse()
        browsing.expected = ("401", "ERR_INCOMPLETE_CHUNKED_ENCODING") if name == "dora" else ()  # who leaves
        pages[name] = browsing.page()
        pages[name].goto("/login")
        pages[name].get_by_role("link", name="Sign in with").click()
        inside(pages[name])
        pages[name].goto("/me")
        expect(pages[name].get_by_text("signed in by provider")).to_be_visible()

    # Ada asks, Cleo approves by her grant, and Ada cannot.
    matins.people.edit("cleo", grants=[{"agents": ["scout"]}])
    ada.goto("/schedules/scout/deploy")
    ada.get_by_role("button", name="Run now").first.click()
    cleo = pages["cleo"]
    cleo.goto("/approvals")
    cleo.get_by_role("button", name="Approve").first.click()
    cleo.get_by_role("button", name="Press again to approve").click()
    expect(cleo.get_by_text("Nothing waits").or_(cleo.get_by_text("approved")).first).to_be_visible()
    (run,) = matins.runs.list(schedule="deploy")
    (asked,) = matins.approvals.list(state="approved") or matins.approvals.list(state="used")
    assert (asked.run_id, [vote.voter for vote in asked.votes]) == (run.id, ["cleo"])
    cleo.goto("/me")
    expect(cleo.get_by_text("operator of scout")).to_be_visible()

    # A token of Dora's is shown once; then she leaves, and nothing opens any more.
    dora = pages["dora"]
    dora.goto("/me")
    dora.get_by_role("button", name="New…").click()
    dialog = dora.get_by_role("dialog", name="New token")
    dialog.get_by_label("Name").fill("laptop")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.locator(".command code")).to_contain_text("mtn_")
    dora.keyboard.press("Escape")
    assert [token.person for token in matins.tokens.list() if token.name == "laptop"] == ["dora"]
    left = matins.people.leave("dora", give_to="ada")
    assert (left.sessions, left.tokens) == (2, 1)
    dora.goto("about:blank")
    dora.context.clear_cookies(name="matins_zone")
    with dora.expect_response("**/me*") as answer:
        dora.goto("/me")
    assert answer.value.status in (200, 401)
    expect(dora.get_by_role("heading", name="Sign in")).to_be_visible()


def _newest(mails: object, number: int) -> str:
    """The link in a mail, once the server has it."""
    import time

    deadline = time.monotonic() + 30
    while len(mails.taken) < number and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.02)
    text = mails.taken[number - 1][1].get_content()  # type: ignore[attr-defined]
    found = re.search(r"http\S+", text)
    assert found is not None
    return found[0]
