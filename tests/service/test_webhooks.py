"""Webhooks: signed requests to a real server, and what becomes of those that do not arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from webhook_steps import answer, deliver, sent, types

from matins.errors import InvalidInput, NotFound
from matins.net.client import AddressRefused
from matins.net.signing import new_secret, verify
from matins.testing import Bench, iso
from net.sites import Site, http_site

MINUTE = 60_000


@pytest.fixture
def site() -> Iterator[Site]:
    with http_site() as site:
        yield site


@pytest.fixture
def hooked(bench: Bench, site: Site) -> Bench:
    """A bench that may send to the site."""
    bench.set_allowed_hosts([site.host])
    return bench


# -- what arrives


def test_an_event_arrives_as_a_signed_cloudevent(hooked: Bench, site: Site) -> None:
    """P9: Standard Webhooks, which the receiver can verify"""
    secret = hooked.add_webhook("ops", site.url("/in"), types=["schedule:triggered"])["secret"]
    hooked.add("s", when="0 9 * * *", do="work")
    hooked.run_until("2026-03-27T09:00:00Z")
    deliver(hooked)
    ((method, path, headers, body),) = site.seen
    event = orjson.loads(body)
    assert (method, path, headers["content-type"]) == ("POST", "/in", "application/cloudevents+json")
    assert (event["type"], event["schedulename"], event["specversion"]) == ("matins.run.started", "s", "1.0")
    assert headers["webhook-id"] == event["id"]
    now_s = hooked.clock.now_ms() // 1000
    verify(secret, headers, body, now_s)
    with pytest.raises(InvalidInput, match="does not fit"):
        verify(new_secret(), headers, body, now_s)


def test_a_secret_of_ones_own_signs(hooked: Bench, site: Site) -> None:
    """P9"""
    secret = new_secret()
    assert hooked.add_webhook("ops", site.url("/in"), secret=secret)["secret"] == secret
    hooked.add("s", when="0 9 * * *", do="work")
    deliver(hooked)
    _, _, headers, body = site.seen[-1]
    verify(secret, headers, body, hooked.clock.now_ms() // 1000)


def test_events_from_now_on_and_all_of_them_where_no_types_are_named(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add("before", when="0 9 * * *", do="work")
    hooked.add_webhook("ops", site.url("/in"))
    hooked.add("s", when="0 9 * * *", do="work")
    hooked.limit("global", 5)
    deliver(hooked)
    assert sorted(types(site)) == ["limit.set", "schedule.created", "subscription.created"]
    assert {event.get("schedulename") for event in sent(site)} == {"s", None}


# -- what does not


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_what_is_not_taken_is_tried_again_with_the_same_id(hooked: Bench, site: Site, status: int) -> None:
    """P9: the receiver can tell that it is the same"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    answer(site, status)
    hooked.add("s", when="0 9 * * *", do="work")
    deliver(hooked)
    (row,) = hooked.deliveries("ops")
    assert (row["attempts"], row["state"], row["last_error"]) == (1, "waiting", f"it answered {status}")
    assert iso(row["next_at"]) > iso(hooked.clock.now_ms() + 4_999)
    answer(site, 204)
    deliver(hooked, 4_999)
    assert len(site.seen) == 1
    deliver(hooked, 1_000)
    assert len({headers["webhook-id"] for _, _, headers, _ in site.seen}) == 1
    assert len(site.seen) == 2
    assert hooked.deliveries("ops") == []
    stamps = [headers["webhook-timestamp"] for _, _, headers, _ in site.seen]
    assert int(stamps[1]) > int(stamps[0])


def test_a_server_that_is_down_is_tried_again(hooked: Bench) -> None:
    """P9"""
    with http_site() as gone:
        hooked.set_allowed_hosts([gone.host])
        url = gone.url("/in")
    hooked.add_webhook("ops", url, types=["schedule.created"])
    hooked.add("s", when="0 9 * * *", do="work")
    deliver(hooked)
    (row,) = hooked.deliveries("ops")
    assert "cannot be reached" in row["last_error"]


def test_in_order_per_schedule_while_others_go_on(hooked: Bench, site: Site) -> None:
    """P9: the receiver refuses one schedule's events for a while"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created", "schedule.paused", "schedule.resumed"])
    hooked.add("a", when="0 9 * * *", do="work")
    answer(site, 500)
    deliver(hooked)
    answer(site, 200)
    hooked.pause("a")
    hooked.add("b", when="0 9 * * *", do="work")
    hooked.resume("a")
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["a", "b"]
    assert len(hooked.deliveries("ops")) == 3
    deliver(hooked, 6_000)
    arrived = [(e["schedulename"], e["type"].removeprefix("matins.schedule.")) for e in sent(site)[1:]]
    assert arrived == [("b", "created"), ("a", "created"), ("a", "paused"), ("a", "resumed")]


def test_gone_means_gone(hooked: Bench, site: Site) -> None:
    """P9: 410 pauses it, with the reason; resumed, it goes on where it stood"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    answer(site, 410)
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    hooked.add("b", when="0 9 * * *", do="work")
    deliver(hooked, 60 * MINUTE)
    assert len(site.seen) == 1
    (webhook,) = hooked.webhooks()
    assert (webhook["state"], webhook["note"]) == ("paused", "it answered 410")
    answer(site, 200)
    assert hooked.resume_webhook("ops") is True
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["a", "a", "b"]


def test_a_person_can_pause_and_resume_one(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    assert hooked.pause_webhook("ops", note="moving house") is True
    assert hooked.pause_webhook("ops") is False
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    assert site.seen == []
    assert hooked.webhooks()[0]["note"] == "moving house"
    assert hooked.resume_webhook("ops") is True
    assert hooked.resume_webhook("ops") is False
    deliver(hooked)
    assert types(site) == ["schedule.created"]


def test_given_up_and_delivered_again_by_hand(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", do="work")
    for _ in range(20):
        deliver(hooked, 70 * MINUTE)
    assert hooked.deliveries("ops") == []
    (row,) = hooked.deliveries("ops", state="given_up")
    assert (row["attempts"], row["next_at"]) == (20, None)
    answer(site, 200)
    deliver(hooked, 70 * MINUTE)
    assert len(site.seen) == 20
    hooked.redeliver("ops", row["event"])
    deliver(hooked)
    assert len(site.seen) == 21
    assert hooked.deliveries("ops", state="given_up") == []


def test_what_has_arrived_can_be_sent_again_too(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    hooked.redeliver("ops", sent(site)[0]["id"])
    deliver(hooked)
    first, second = sent(site)
    assert first == second


def test_redelivering_hurries_what_waits_behind(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    hooked.pause("a")
    answer(site, 200)
    hooked.redeliver("ops", hooked.deliveries("ops")[0]["event"])
    deliver(hooked)
    assert types(site) == ["schedule.created", "schedule.created", "schedule.paused"]


def test_redelivering_what_is_behind_tries_what_is_before_it_once(hooked: Bench, site: Site) -> None:
    """P9: in order still, and the wait begins anew"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created", "schedule.paused"])
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", do="work")
    hooked.pause("a")
    deliver(hooked)
    first, second = hooked.deliveries("ops")
    assert (first["next_at"] is None, second["next_at"]) == (False, None)
    hooked.redeliver("ops", second["event"])
    deliver(hooked)
    assert [(row["attempts"], row["next_at"] is None) for row in hooked.deliveries("ops")] == [(2, False), (0, True)]
    assert types(site) == ["schedule.created"] * 2


def test_dropped_with_what_it_has_not_got(hooked: Bench, site: Site) -> None:
    """P9"""
    hooked.add_webhook("ops", site.url("/in"))
    answer(site, 500)
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    assert hooked.drop_webhook("ops") is True
    assert hooked.drop_webhook("ops") is False
    before = len(site.seen)
    deliver(hooked, 60 * MINUTE)
    assert len(site.seen) == before
    assert hooked.webhooks() == []
    hooked.add_webhook("ops", site.url("/in"))
    assert hooked.deliveries("ops") == []


def test_only_a_webhook_is_dropped_as_one(bench: Bench) -> None:
    """P9"""
    bench.subscribe(lambda event: None, name="books")
    bench.add_webhook("ops", "https://example.com/")
    assert bench.drop_webhook("books") is False
    assert bench.forget_subscription("ops") is False
    with pytest.raises(NotFound, match='There is no webhook "books"'):
        bench.pause_webhook("books")
    with bench._store.reading() as transaction:
        assert [found.name for found in transaction.subscriptions()] == ["books", "ops"]


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
def test_a_bad_address_is_refused_when_it_is_named(bench: Bench, rows: Callable[[], Any], url: str) -> None:
    """P9: and nothing is written"""
    before = rows()
    with pytest.raises(AddressRefused) as caught:
        bench.add_webhook("ops", url)
    assert caught.value.hint
    assert rows() == before
    assert bench.webhooks() == []


def test_an_address_that_is_no_longer_allowed_is_not_tried_again(hooked: Bench, site: Site) -> None:
    """P9: it is recorded, and the next event is looked at anew"""
    hooked.add_webhook("ops", site.url("/in"), types=["schedule.created"])
    hooked.set_allowed_hosts([])
    hooked.add("a", when="0 9 * * *", do="work")
    deliver(hooked)
    assert site.seen == []
    (row,) = hooked.deliveries("ops", state="given_up")
    assert (row["attempts"], "leads to 127.0.0.1" in row["last_error"]) == (1, True)
    hooked.set_allowed_hosts([site.host])
    hooked.add("b", when="0 9 * * *", do="work")
    deliver(hooked)
    assert [event["schedulename"] for event in sent(site)] == ["b"]


def test_allowed_hosts_are_checked(bench: Bench) -> None:
    """P9"""
    bench.set_allowed_hosts(["models.internal", "10.0.0.7:8080"])
    assert bench.allowed_hosts() == ["models.internal", "10.0.0.7:8080"]
    for hosts in (["http://x/"], [""], ["host:99999"]):
        with pytest.raises(AddressRefused) as refused:
            bench.set_allowed_hosts(hosts)
        assert refused.value.field == "allowed_hosts"
    with pytest.raises(InvalidInput, match="must be a list"):
        bench.set_allowed_hosts("models.internal")
    assert bench.allowed_hosts() == ["models.internal", "10.0.0.7:8080"]
