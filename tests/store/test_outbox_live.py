"""Two processes' worth of schedulers on one PostgreSQL store, with their threads, and a real server that is told."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import orjson

from matins import Matins
from net.sites import http_site

PATIENCE = 60
SCHEDULES, RUNS = 5, 12


class Heard(list[Any]):
    """A list that says when it has grown to a size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self.full = threading.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        if len({headers["webhook-id"] for _, _, headers, _ in self}) >= self._size:
            self.full.set()


def test_everything_arrives_in_order_per_schedule(postgres_url: str) -> None:
    """V2 P9: whichever of the two wrote it, and whichever delivers it"""
    with http_site() as site:
        site.seen = heard = Heard(SCHEDULES * RUNS)
        both = [Matins(postgres_url) for _ in range(2)]
        for m in both:
            m.job("work")(lambda run: None)
        one, other = both
        one.allowed_hosts.set(hosts=[site.host])
        one.webhooks.add("ops", site.url("/in"), types=["run.succeeded"])
        for n in range(SCHEDULES):
            one.add(f"s{n}", when="0 0 1 1 *", job="work", overlap="queue")
        with one, other:
            for n in range(RUNS):
                for s in range(SCHEDULES):
                    both[n % 2].run(f"s{s}")
            assert heard.full.wait(PATIENCE)
        told: dict[str, list[int]] = defaultdict(list)
        for _, _, _, body in heard:
            event = orjson.loads(body)
            told[event["schedulename"]].append(int(event["id"].split("-")[1]))
        assert sorted(told) == [f"s{n}" for n in range(SCHEDULES)]
        for numbers in told.values():
            first_times = list(dict.fromkeys(numbers))
            assert first_times == sorted(first_times)
            assert len(first_times) == RUNS
        assert one.subscriptions.deliveries("ops") == []
        for m in both:
            m.close()
