"""Whether it lives, whether it keeps up, and its figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from http_house import YEARLY, House

from matins import StoreUnavailable
from matins.surfaces.http.health import Health
from matins.testing import ManualClock


def test_it_lives_and_is_ready_without_a_token(house: House) -> None:
    assert house.ask("GET", "/livez", token=None).body == b"alive\n"
    said = house.ask("GET", "/readyz", token=None)
    assert (said.status, said.json) == (200, {"ready": True, "troubles": []})


def test_without_an_engine_it_is_not_ready(tmp_path: Path) -> None:
    house = House(f"sqlite:///{tmp_path}/matins.db", start=False)
    said = house.ask("GET", "/readyz", token=None)
    house.close()
    assert (said.status, said.json["troubles"]) == (503, ["no engine runs on this store"])


class Told:
    """A caller whose figures are ours."""

    def __init__(self) -> None:
        self.lag, self.error = 0, None

    def call_as(self, principal: Any, use_case: str, /, *arguments: Any, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        return {"running": True, "planner_lag_ms": self.lag}


def test_it_is_not_ready_when_the_planner_lags_or_the_store_is_gone() -> None:
    """And looks once a second at the most, however often it is asked."""
    told, clock = Told(), ManualClock()
    health = Health(told, clock, most_lag_ms=5_000)
    told.lag = 5_000
    assert health.troubles() == []
    told.lag = 5_001
    assert health.troubles() == []
    clock.advance(1_000)
    assert health.troubles() == ["the planner is 5001 ms behind"]
    clock.advance(1_000)
    told.error = StoreUnavailable("at /secret/path")  # type: ignore[assignment]
    assert health.troubles() == ["the store does not answer: store_unavailable"]


def figures(house: House) -> dict[str, float]:
    text = house.ask("GET", "/metrics").body.decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_figures_for_prometheus(house: House) -> None:
    """B5: schedules and runs by state, lag, fires, failures, spend, throttles, requests by route and status."""
    before = figures(house)
    assert before["matins_fires_total"] == 0
    house.client.add(name="a", when=YEARLY, do="work")
    house.client.add(name="b", when=YEARLY, do="work")
    house.client.pause(name="b")
    house.client.run(name="a")
    next(house.client.events(after="0", types="run.succeeded"))
    house.client.throttle(provider='ac"me\\', resets_at="2100-01-01T00:00:00Z")
    house.ask("GET", "/v1/schedules/nothing")
    house.ask("GET", "/nothing")
    now = figures(house)
    assert (now['matins_schedules{state="active"}'], now['matins_schedules{state="paused"}']) == (1, 1)
    assert (now["matins_fires_total"], now["matins_failures_total"], now["matins_engine_running"]) == (1, 0, 1)
    assert now['matins_events_total{type="run.succeeded"}'] == 1
    assert now['matins_throttled{provider="ac\\"me\\\\"}'] == 1
    assert now["matins_spend_today_dollars"] == 0
    assert now['matins_http_requests_total{route="/v1/schedules",method="POST",status="201"}'] == 2
    assert now['matins_http_requests_total{route="/v1/schedules/{name:path}",method="GET",status="404"}'] == 1
    assert now['matins_http_requests_total{route="other",method="GET",status="404"}'] == 1


def test_figures_are_in_the_form_that_prometheus_reads(house: House) -> None:
    said = house.ask("GET", "/metrics")
    assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.]+')
    for line in said.body.decode().splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line), line


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json"])
def test_figures_and_description_need_a_token(house: House, path: str) -> None:
    assert house.ask("GET", path, token=None).status == 401
    assert house.ask("GET", path, token=house.new_token("viewer")).status == 200
