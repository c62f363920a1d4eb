"""The page with the settings: records of every kind, each by the name that it has."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from page_server import PageServer


@pytest.fixture
def server() -> Iterator[PageServer]:
    made = PageServer("sqlite://", start=False)
    yield made
    made.close()


def test_settings_show_records_of_every_kind(server: PageServer) -> None:
    """Hooks are named by their event and throttles by their provider, and have no other name."""
    m = server.matins
    m.people.set("ada", role="operator")
    m.destinations.set("ops", kind="webhook", url="https://example.com/x")
    m.quiet_hours.set("night", windows="22:00-07:00")
    m.budgets.set("daily", period="day", max_cost="20 USD")
    m.hooks.set("after:run", command="true")
    m.webhooks.add("out", "https://example.com/y")
    m.throttles.set("acme", resets_at="2999-01-01T00:00:00Z")
    m.start()
    node = m.nodes.cordon(m.node.name, note="new driver")
    headers = {"Authorization": f"Bearer {m.tokens.create('owner').token}"}
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/settings", headers=headers), timeout=90) as page:
        text = page.read().decode()
    assert re.search(rf"<b>{node.name}</b>\s*<span class=.muted.>cordoned, 0 runs", text)
    assert "by owner" in text
    assert "new driver" in text
    assert f'data-call="POST /v1/nodes/{node.name}/open"' in text
    for name in ("ada", "ops", "night", "daily", "after:run", "out", "acme"):
        assert re.search(rf'<div class="grow">\s*(?:<a [^>]*>)?<b>{name}</b>', text), name
