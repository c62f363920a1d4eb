"""Who may have webhooks and see them, and what cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from webhook_steps import answer, deliver

from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.model.principal import Principal
from matins.testing import Bench
from net.sites import Site, http_site

VIEWER, OPERATOR = Principal("viewer", "vera"), Principal("operator", "otto")
AGENT = Principal("agent", "scout")


@pytest.fixture
def site() -> Iterator[Site]:
    with http_site() as site:
        yield site


@pytest.fixture
def hooked(bench: Bench, site: Site) -> Bench:
    """A bench that may send to the site."""
    bench.set_allowed_hosts([site.host])
    return bench


# -- who may, and what is shown


def test_the_secret_is_shown_once(hooked: Bench, site: Site) -> None:
    """P9: neither when they are listed nor in any event"""
    secret = hooked.add_webhook("ops", site.url("/in/key17"))["secret"]
    hooked.pause_webhook("ops")
    hooked.drop_webhook("ops")
    hooked.add_webhook("ops", site.url("/in/key17"), secret=secret)
    assert "secret" not in hooked.webhooks()[0]
    with hooked._store.reading() as transaction:
        events = [event.data or "" for event in transaction.events_after(0, 1_000)]
    assert not [data for data in events if secret in data or "key17" in data]


def test_only_the_owner_sees_the_whole_address(hooked: Bench, site: Site) -> None:
    """P9: people keep keys in paths"""
    hooked.add_webhook("ops", site.url("/in/key17"))
    assert hooked.webhooks()[0]["url"] == site.url("/in/key17")
    for principal in (VIEWER, OPERATOR, AGENT):
        assert hooked.acting_as(principal).webhooks()[0]["url"] == site.url("")


@pytest.mark.parametrize("principal", [VIEWER, OPERATOR, AGENT], ids=lambda principal: principal.role)
def test_only_the_owner_changes_them(hooked: Bench, site: Site, principal: Principal) -> None:
    """P9: a webhook carries everything that happens out of the house"""
    hooked.add_webhook("ops", site.url("/in"))
    asking = hooked.acting_as(principal)
    for attempt in (
        lambda: asking.add_webhook("mine", "https://example.com/"),
        lambda: asking.drop_webhook("ops"),
        lambda: asking.pause_webhook("ops"),
        lambda: asking.resume_webhook("ops"),
        lambda: asking.redeliver("ops", 1),
        lambda: asking.set_allowed_hosts([]),
        lambda: asking.forget_subscription("ops"),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert asking.deliveries("ops") == []


# -- bad input


def test_a_name_is_taken_once(bench: Bench) -> None:
    bench.add_webhook("ops", "https://example.com/a")
    with pytest.raises(Conflict, match='There is a subscription "ops" already'):
        bench.add_webhook("ops", "https://example.com/b")
    with pytest.raises(Conflict, match="under which hooks run"):
        bench.add_webhook("hooks", "https://example.com/b")
    with pytest.raises(Conflict, match='There is a subscription "ops" already'):
        bench.subscribe(lambda event: None, name="ops")
    assert [webhook["url"] for webhook in bench.webhooks()] == ["https://example.com/a"]


@pytest.mark.parametrize("secret", ["", "secret", "whsec_x", "whsec_c2hvcnQ="])
def test_a_bad_secret_is_refused_and_not_repeated(bench: Bench, secret: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bench.add_webhook("ops", "https://example.com/", secret=secret)
    assert caught.value.field == "secret"
    assert caught.value.value is None
    assert bench.webhooks() == []


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_bad_name_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(InvalidInput, match="printable characters"):
        bench.add_webhook(name, "https://example.com/")


def test_what_is_not_there_is_named(bench: Bench) -> None:
    bench.add_webhook("ops", "https://example.com/")
    with pytest.raises(NotFound, match='There is no subscription "opps"') as caught:
        bench.deliveries("opps")
    assert caught.value.hint == "known: ops"
    with pytest.raises(NotFound, match='There is no webhook "opps"'):
        bench.pause_webhook("opps")
    with pytest.raises(NotFound, match='There is no event "99"'):
        bench.redeliver("ops", 99)
    with pytest.raises(InvalidInput, match="is not an event of this store"):
        bench.redeliver("ops", "other-17")
    with pytest.raises(InvalidInput, match='never "lost"') as refused:
        bench.deliveries("ops", state="lost")
    assert refused.value.allowed == "waiting, given_up"


def test_deliveries_come_in_pages(hooked: Bench, site: Site) -> None:
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    answer(site, 500)
    for name in "abc":
        hooked.add(name, when="0 9 * * *", do="work")
    deliver(hooked)
    first = hooked.deliveries("ops", limit=2)
    rest = hooked.deliveries("ops", after=first[-1]["event"])
    assert (len(first), len(rest)) == (2, 1)
    assert len({row["event"] for row in first + rest}) == 3
