"""Signing in by `oidc-provider` from npm, with its own pages, in a real browser: see `make test-real`."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_server import Browsing, PageServer
from playwright.sync_api import expect

from standins import oidc

pytestmark = pytest.mark.skipif(not os.environ.get("MATINS_TEST_REAL"), reason="npm installs the provider")


@pytest.fixture
def issuer(server: PageServer, tmp_path: Path) -> Iterator[str]:
    from real.install import oidc_provider

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "secret").write_text(oidc.SECRET)
    script = Path(oidc.__file__).with_suffix("").with_name("oidc_provider.mjs")
    words = ["node", script, oidc_provider(), str(port), f"{server.url}/login/provider/callback"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "listening" in line:
                break
        place = f"http://127.0.0.1:{port}"
        server.matins.sign_in.set(issuer=place, client_id=oidc.CLIENT, client_secret=f"file:{tmp_path}/secret")
        yield place
        process.terminate()


def test_b23_oidc_provider_signs_in_whom_it_verified(
    server: PageServer, browse: Callable[..., Browsing], issuer: str
) -> None:
    """B23: the code flow with PKCE, state and nonce; an address that is not verified signs nobody in."""
    server.matins.people.set("ada", role="operator", email="ada@example.com")
    server.matins.people.set("eve", role="operator", email="eve@example.com")
    for name in ("ada", "eve"):
        browsing = browse()
        browsing.expected = ("403", "CSP", "favicon", "404", "ERR_")  # the provider's own pages
        page = browsing.page()
        page.goto("/login")
        page.get_by_role("link", name="Sign in with").click()
        page.locator("input[name=login]").fill(name)
        page.locator("input[name=password]").fill("any")
        page.get_by_role("button").first.click()
        page.get_by_role("button", name="Continue").click()
        if name == "ada":
            expect(page.get_by_role("navigation", name="Main")).to_be_visible()
            page.wait_for_load_state()
            page.goto("/me")
            expect(page.get_by_text("signed in by provider")).to_be_visible()
        else:
            expect(page.get_by_role("alert")).to_contain_text("the address is not verified")
    assert [session.person for session in server.matins.sessions.list()] == ["ada"]
