"""Who may have webhooks and see them, and what cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from webhook_steps import answer, deliver

from matins.engine.settings import REDACTED
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox
from net.sites import Site, http_site

VIEWER, OPERATOR = Principal("viewer", "vera"), Principal("operator", "otto")
AGENT = Principal("agent", "scout")


@pytest.fixture
def site() -> Iterator[Site]:
    with http_site() as site:
        yield site


@pytest.fixture
def hooked(bench: Sandbox, site: Site) -> Sandbox:
    """A bench that may send to the site."""
    bench.allowed_hosts.set(hosts=[site.host])
    return bench


# -- who may, and what is shown


def test_the_secret_is_shown_once(hooked: Sandbox, site: Site) -> None:
    """P9: neither when they are listed nor in any event"""
    secret = hooked.webhooks.add("ops", site.url("/in/key17")).secret
    hooked.webhooks.pause("ops")
    hooked.webhooks.delete("ops")
    hooked.webhooks.add("ops", site.url("/in/key17"), secret=secret)
    assert hooked.webhooks.list()[0].secret == hooked.webhooks.get("ops").secret == REDACTED
    with hooked._store.reading() as transaction:
        events = [event.data or "" for event in transaction.events_after(0, 1_000)]
    assert not [data for data in events if secret in data or "key17" in data]


def test_only_the_owner_sees_the_whole_address(hooked: Sandbox, site: Site) -> None:
    """P9: people keep keys in paths"""
    hooked.webhooks.add("ops", site.url("/in/key17"))
    assert hooked.webhooks.list()[0].url == site.url("/in/key17")
    for principal in (VIEWER, OPERATOR):
        assert hooked.acting_as(principal).webhooks.list()[0].url == site.url("")
    assert hooked.acting_as(AGENT).webhooks.list()[0].url == ""


@pytest.mark.parametrize("principal", [VIEWER, OPERATOR, AGENT], ids=lambda principal: principal.role)
def test_only_the_owner_changes_them(hooked: Sandbox, site: Site, principal: Principal) -> None:
    """P9: a webhook carries everything that happens out of the house"""
    hooked.webhooks.add("ops", site.url("/in"))
    asking = hooked.acting_as(principal)
    for attempt in (
        lambda: asking.webhooks.add("mine", "https://example.com/"),
        lambda: asking.webhooks.delete("ops"),
        lambda: asking.webhooks.pause("ops"),
        lambda: asking.webhooks.resume("ops"),
        lambda: asking.subscriptions.redeliver("ops", "1"),
        lambda: asking.allowed_hosts.set(hosts=[]),
        lambda: asking.subscriptions.delete("ops"),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert asking.subscriptions.deliveries("ops") == []


# -- bad input


def test_a_name_is_taken_once(bench: Sandbox) -> None:
    bench.webhooks.add("ops", "https://example.com/a")
    with pytest.raises(Conflict, match='There is a subscription "ops" already'):
        bench.webhooks.add("ops", "https://example.com/b")
    with pytest.raises(Conflict, match='The name "hooks" is reserved'):
        bench.webhooks.add("hooks", "https://example.com/b")
    with pytest.raises(Conflict, match='There is a subscription "ops" already'):
        bench.subscribe(lambda event: None, name="ops")
    assert [webhook.url for webhook in bench.webhooks.list()] == ["https://example.com/a"]


@pytest.mark.parametrize("secret", ["", "secret", "whsec_x", "whsec_c2hvcnQ="])
def test_a_bad_secret_is_refused_and_not_repeated(bench: Sandbox, secret: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bench.webhooks.add("ops", "https://example.com/", secret=secret)
    assert caught.value.field == "secret"
    assert caught.value.value is None
    assert bench.webhooks.list() == []


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_bad_name_is_refused(bench: Sandbox, name: str) -> None:
    with pytest.raises(InvalidInput, match="printable characters"):
        bench.webhooks.add(name, "https://example.com/")


def test_what_is_not_there_is_named(bench: Sandbox) -> None:
    bench.webhooks.add("ops", "https://example.com/")
    with pytest.raises(NotFound, match='There is no subscription "opps"') as caught:
        bench.subscriptions.deliveries("opps")
    assert caught.value.hint == 'Did you mean "ops"?'
    with pytest.raises(NotFound, match='There is no webhook "opps"'):
        bench.webhooks.pause("opps")
    with pytest.raises(NotFound, match='There is no event "99"'):
        bench.subscriptions.redeliver("ops", "99")
    with pytest.raises(InvalidInput, match="is not an event of this store"):
        bench.subscriptions.redeliver("ops", "other-17")
    with pytest.raises(InvalidInput, match='"state" must be retrying or discarded') as refused:
        bench.subscriptions.deliveries("ops", state="lost")
    assert refused.value.allowed == "retrying or discarded"


def test_deliveries_come_in_pages(hooked: Sandbox, site: Site) -> None:
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    answer(site, 500)
    for name in "abc":
        hooked.add(name, when="0 9 * * *", job="work")
    deliver(hooked)
    first = hooked.subscriptions.deliveries("ops", limit=2)
    rest = hooked.subscriptions.deliveries("ops", after=first[-1].event)
    assert (len(first), len(rest)) == (2, 1)
    assert len({row.event for row in first + rest}) == 3
