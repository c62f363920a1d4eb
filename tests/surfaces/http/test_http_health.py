"""Whether the server lives, whether the engine keeps up, and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins import StoreUnavailable
from matins.api.use_case import UseCase
from matins.model.access import Principal
from matins.surfaces.http.server_routes import Health
from matins.testing import ManualClock


def test_it_lives_and_is_ready_without_a_token(server: HttpServer) -> None:
    assert server.ask("GET", "/livez", token=None).body == b"alive\n"
    said = server.ask("GET", "/readyz", token=None)
    assert (said.status, said.json) == (200, {"ready": True, "problems": []})


def test_without_an_engine_it_is_not_ready(make_server: Callable[..., HttpServer]) -> None:
    server = make_server(start=False)
    said = server.ask("GET", "/readyz", token=None)
    assert (said.status, said.json["problems"]) == (503, ["No engine is running on this store."])


def test_b1_a_store_whose_file_is_lost_is_not_ready(server: HttpServer, tmp_path: Path) -> None:
    """B1: also when another file has its name; when it is back, it is ready again"""
    file, kept = tmp_path / "matins.db", tmp_path / "kept"
    file.rename(kept)
    for replaced in (False, True):
        if replaced:
            file.write_bytes(b"")
        server.health._checked_at = None
        said = server.ask("GET", "/readyz", token=None)
        assert (said.status, said.json["problems"]) == (503, ["The store does not answer: store_unavailable."])
    kept.replace(file)
    server.health._checked_at = None
    assert server.ask("GET", "/readyz", token=None).status == 200


class FixedStats:
    """A caller whose figures are ours."""

    def __init__(self) -> None:
        self.lag: int = 0
        self.error: Exception | None = None

    def invoke(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        assert use_case.name == "system.stats"
        if self.error is not None:
            raise self.error
        return SimpleNamespace(running=True, planner_lag_ms=self.lag)


def test_it_is_not_ready_when_the_planner_lags_or_the_store_is_gone() -> None:
    """And looks once a second at the most, however often it is asked."""
    caller, clock = FixedStats(), ManualClock()
    health = Health(caller, clock, max_lag_ms=5_000)
    caller.lag = 5_000
    assert health.problems() == []
    caller.lag = 5_001
    assert health.problems() == []
    clock.advance(1_000)
    assert health.problems() == ["The planner is 5001 ms behind."]
    clock.advance(1_000)
    caller.error = StoreUnavailable("at /secret/path")
    assert health.problems() == ["The store does not answer: store_unavailable."]


def metrics(server: HttpServer) -> dict[str, float]:
    text = server.ask("GET", "/metrics").body.decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_metrics_for_prometheus(server: HttpServer) -> None:
    """B5: schedules and runs by state, lag, fires, failures, spend, throttles, requests by route and status."""
    before = metrics(server)
    assert before["matins_fires_total"] == 0
    server.client.add(name="a", when=YEARLY, job="work")
    server.client.add(name="b", when=YEARLY, job="work")
    server.client.pause(name="b")
    server.client.run(name="a")
    next(server.client.events.follow(after="0", types="run.succeeded"))
    server.client.throttles.set('ac"me\\', resets_at="2100-01-01T00:00:00Z")
    server.ask("GET", "/v1/schedules/nothing")
    server.ask("GET", "/nothing")
    now = metrics(server)
    assert (now['matins_schedules{state="active"}'], now['matins_schedules{state="paused"}']) == (1, 1)
    assert (now["matins_fires_total"], now["matins_failures_total"], now["matins_engine_running"]) == (1, 0, 1)
    assert now['matins_events_total{type="run.succeeded"}'] == 1
    assert now['matins_throttled{provider="ac\\"me\\\\"}'] == 1
    assert now["matins_spend_today_dollars"] == 0
    assert now['matins_http_requests_total{route="/v1/schedules",method="POST",status="201"}'] == 2
    assert now['matins_http_requests_total{route="/v1/schedules/{name:path}",method="GET",status="404"}'] == 1
    assert now['matins_http_requests_total{route="other",method="GET",status="404"}'] == 1


def test_metrics_are_in_the_format_of_prometheus(server: HttpServer) -> None:
    said = server.ask("GET", "/metrics")
    assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.]+')
    for line in said.body.decode().splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line), line


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json"])
def test_metrics_and_description_need_a_token(server: HttpServer, path: str) -> None:
    assert server.ask("GET", path, token=None).status == 401
    assert server.ask("GET", path, token=server.new_token("viewer")).status == 200
