"""Webhooks: signed requests to a real server, and what becomes of those that do not arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from webhook_steps import answer, deliver, sent, types

from matins.errors import InvalidInput, NotFound
from matins.net.signing import new_secret, verify
from matins.testing import Sandbox, iso
from net.sites import Site, http_site

MINUTE = 60_000


@pytest.fixture
def site() -> Iterator[Site]:
    with http_site() as site:
        yield site


@pytest.fixture
def hooked(bench: Sandbox, site: Site) -> Sandbox:
    """A bench that may send to the site."""
    bench.allowed_hosts.set(hosts=[site.host])
    return bench


# -- what arrives


def test_an_event_arrives_as_a_signed_cloudevent(hooked: Sandbox, site: Site) -> None:
    """P9: Standard Webhooks, which the receiver can verify"""
    secret = hooked.webhooks.add("ops", site.url("/in"), types=["schedule:triggered"]).secret
    hooked.add("s", when="0 9 * * *", job="work")
    hooked.run_until("2026-03-27T09:00:00Z")
    deliver(hooked)
    ((method, path, headers, body),) = site.seen
    event = orjson.loads(body)
    assert (method, path, headers["content-type"]) == ("POST", "/in", "application/cloudevents+json")
    assert (event["type"], event["schedulename"], event["specversion"]) == ("matins.run.started", "s", "1.0")
    assert headers["webhook-id"] == event["id"]
    now_s = hooked.clock.now_ms() // 1000
    verify(secret, headers, body, now_s)
    with pytest.raises(InvalidInput, match="does not match"):
        verify(new_secret(), headers, body, now_s)


def test_a_secret_of_ones_own_signs(hooked: Sandbox, site: Site) -> None:
    """P9"""
    secret = new_secret()
    assert hooked.webhooks.add("ops", site.url("/in"), secret=secret).secret == secret
    hooked.add("s", when="0 9 * * *", job="work")
    deliver(hooked)
    _, _, headers, body = site.seen[-1]
    verify(secret, headers, body, hooked.clock.now_ms() // 1000)


def test_events_from_now_on_and_all_of_them_where_no_types_are_named(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.add("before", when="0 9 * * *", job="work")
    hooked.webhooks.add("ops", site.url("/in"))
    hooked.add("s", when="0 9 * * *", job="work")
    hooked.limits.set("global", size=5)
    deliver(hooked)
    assert sorted(types(site)) == ["limit.set", "schedule.created", "subscription.created"]
    assert {event.get("schedulename") for event in sent(site)} == {"s", None}


# -- what does not


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_what_is_not_taken_is_tried_again_with_the_same_id(hooked: Sandbox, site: Site, status: int) -> None:
    """P9: the receiver can tell that it is the same"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    answer(site, status)
    hooked.add("s", when="0 9 * * *", job="work")
    deliver(hooked)
    (row,) = hooked.subscriptions.deliveries("ops")
    assert (row.attempts, row.state, row.last_error) == (1, "retrying", f"the subscriber answered {status}")
    assert iso(row.next_at) > iso(hooked.clock.now_ms() + 4_999)
    answer(site, 204)
    deliver(hooked, 4_999)
    assert len(site.seen) == 1
    deliver(hooked, 1_000)
    assert len({headers["webhook-id"] for _, _, headers, _ in site.seen}) == 1
    assert len(site.seen) == 2
    assert hooked.subscriptions.deliveries("ops") == []
    stamps = [headers["webhook-timestamp"] for _, _, headers, _ in site.seen]
    assert int(stamps[1]) > int(stamps[0])


def test_a_server_that_is_down_is_tried_again(hooked: Sandbox) -> None:
    """P9"""
    with http_site() as gone:
        hooked.allowed_hosts.set(hosts=[gone.host])
        url = gone.url("/in")
    hooked.webhooks.add("ops", url, types=["schedule.created"])
    hooked.add("s", when="0 9 * * *", job="work")
    deliver(hooked)
    (row,) = hooked.subscriptions.deliveries("ops")
    assert "cannot be reached" in row.last_error


def test_in_order_per_schedule_while_others_go_on(hooked: Sandbox, site: Site) -> None:
    """P9: the receiver refuses one schedule's events for a while"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created", "schedule.paused", "schedule.resumed"])
    hooked.add("a", when="0 9 * * *", job="work")
    answer(site, 500)
    deliver(hooked)
    answer(site, 200)
    hooked.pause("a")
    hooked.add("b", when="0 9 * * *", job="work")
    hooked.resume("a")
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["a", "b"]
    assert len(hooked.subscriptions.deliveries("ops")) == 3
    deliver(hooked, 6_000)
    arrived = [(e["schedulename"], e["type"].removeprefix("matins.schedule.")) for e in sent(site)[1:]]
    assert arrived == [("b", "created"), ("a", "created"), ("a", "paused"), ("a", "resumed")]


def test_gone_means_gone(hooked: Sandbox, site: Site) -> None:
    """P9: 410 pauses it, with the reason; resumed, it goes on where it stood"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    answer(site, 410)
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    hooked.add("b", when="0 9 * * *", job="work")
    deliver(hooked, 60 * MINUTE)
    assert len(site.seen) == 1
    (webhook,) = hooked.webhooks.list()
    assert (webhook.state, webhook.note) == ("paused", "the subscriber answered 410")
    answer(site, 200)
    assert hooked.webhooks.resume("ops").state == "active"
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["a", "a", "b"]


def test_a_person_can_pause_and_resume_one(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    assert (paused := hooked.webhooks.pause("ops", note="moving house")).state == "paused"
    assert hooked.webhooks.pause("ops") == paused, "it is paused already"
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    assert site.seen == []
    assert hooked.webhooks.list()[0].note == "moving house"
    assert hooked.webhooks.resume("ops") == hooked.webhooks.resume("ops") == hooked.webhooks.get("ops")
    assert [event.type for event in hooked.events.list(types=["subscription.paused", "subscription.resumed"])] == [
        "subscription.paused",
        "subscription.resumed",
    ]
    deliver(hooked)
    assert types(site) == ["schedule.created"]


def test_given_up_and_delivered_again_by_hand(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", job="work")
    for _ in range(20):
        deliver(hooked, 70 * MINUTE)
    assert hooked.subscriptions.deliveries("ops") == []
    (row,) = hooked.subscriptions.deliveries("ops", state="discarded")
    assert (row.attempts, row.next_at) == (20, None)
    answer(site, 200)
    deliver(hooked, 70 * MINUTE)
    assert len(site.seen) == 20
    hooked.subscriptions.redeliver("ops", row.event)
    deliver(hooked)
    assert len(site.seen) == 21
    assert hooked.subscriptions.deliveries("ops", state="discarded") == []


def test_what_has_arrived_can_be_sent_again_too(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    hooked.subscriptions.redeliver("ops", sent(site)[0]["id"])
    deliver(hooked)
    first, second = sent(site)
    assert first == second


def test_redelivering_hurries_what_waits_behind(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    hooked.pause("a")
    answer(site, 200)
    hooked.subscriptions.redeliver("ops", hooked.subscriptions.deliveries("ops")[0].event)
    deliver(hooked)
    assert types(site) == ["schedule.created", "schedule.created", "schedule.paused"]


def test_redelivering_what_is_behind_tries_what_is_before_it_once(hooked: Sandbox, site: Site) -> None:
    """P9: in order still, and the wait begins anew"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", job="work")
    hooked.pause("a")
    deliver(hooked)
    first, second = hooked.subscriptions.deliveries("ops")
    assert (first.next_at is None, second.next_at) == (False, None)
    hooked.subscriptions.redeliver("ops", second.event)
    deliver(hooked)
    assert [(row.attempts, row.next_at is None) for row in hooked.subscriptions.deliveries("ops")] == [
        (2, False),
        (0, True),
    ]
    assert types(site) == ["schedule.created"] * 2


def test_dropped_with_what_it_has_not_got(hooked: Sandbox, site: Site) -> None:
    """P9"""
    hooked.webhooks.add("ops", site.url("/in"))
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    assert hooked.webhooks.delete("ops") is True
    assert hooked.webhooks.delete("ops") is False
    before = len(site.seen)
    deliver(hooked, 60 * MINUTE)
    assert len(site.seen) == before
    assert hooked.webhooks.list() == []
    hooked.webhooks.add("ops", site.url("/in"))
    assert hooked.subscriptions.deliveries("ops") == []


def test_only_a_webhook_is_dropped_as_one(bench: Sandbox) -> None:
    """P9"""
    bench.subscribe(lambda event: None, name="books")
    bench.webhooks.add("ops", "https://example.com/")
    assert bench.webhooks.delete("books") is False
    assert bench.subscriptions.delete("ops") is False
    with pytest.raises(NotFound, match='There is no webhook "books"'):
        bench.webhooks.pause("books")
    with bench._store.reading() as transaction:
        assert [found.name for found in transaction.subscriptions()] == ["books", "incidents", "ops", "texts"]


# -- where it may lead


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/in",
        "http://localhost/in",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/in",
        "http://0x7f.1/in",
        "ftp://example.com/in",
        "https://user:key@example.com/in",
        "in",
        "",
    ],
)
def test_a_bad_address_is_refused_when_it_is_named(bench: Sandbox, rows: Callable[[], Any], url: str) -> None:
    """P9: and nothing is written"""
    before = rows()
    with pytest.raises(InvalidInput) as caught:
        bench.webhooks.add("ops", url)
    assert caught.value.field == "url"
    assert caught.value.hint
    assert "key" not in caught.value.message
    assert rows() == before
    assert bench.webhooks.list() == []


def test_an_address_may_be_as_long_as_those_of_chat_systems(bench: Sandbox) -> None:
    """P9"""
    url = f"https://example.com/webhookb2/{'a' * 400}"
    assert bench.webhooks.add("ops", url).url == bench.webhooks.get("ops").url == url


def test_an_address_that_is_no_longer_allowed_is_not_tried_again(hooked: Sandbox, site: Site) -> None:
    """P9: it is recorded, and the next event is looked at anew"""
    hooked.webhooks.add("ops", site.url("/in"), types=["schedule.created"])
    hooked.allowed_hosts.set(hosts=[])
    hooked.add("a", when="0 9 * * *", job="work")
    deliver(hooked)
    assert site.seen == []
    (row,) = hooked.subscriptions.deliveries("ops", state="discarded")
    assert (row.attempts, "leads to 127.0.0.1" in row.last_error) == (1, True)
    hooked.allowed_hosts.set(hosts=[site.host])
    hooked.add("b", when="0 9 * * *", job="work")
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["b"]


def test_allowed_hosts_are_checked(bench: Sandbox) -> None:
    """P9"""
    bench.allowed_hosts.set(hosts=["models.internal", "10.0.0.7:8080"])
    assert bench.allowed_hosts.get().hosts == ["models.internal", "10.0.0.7:8080"]
    for hosts in (["http://x/"], [""], ["host:99999"]):
        with pytest.raises(InvalidInput) as refused:
            bench.allowed_hosts.set(hosts=hosts)
        assert refused.value.field == "hosts"
    with pytest.raises(InvalidInput, match="must be a list") as refused:
        bench.allowed_hosts.set(hosts="models.internal")
    assert refused.value.hint == 'For example: hosts=["models.internal"].'
    assert bench.allowed_hosts.get().hosts == ["models.internal", "10.0.0.7:8080"]
