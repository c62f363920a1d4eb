"""Long collections come in pages; what is added meanwhile moves nothing."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from http_server import YEARLY, HttpServer

from matins.errors import InvalidInput


def fill(server: HttpServer, count: int, start: int = 0) -> None:
    made = [{"name": f"s{n}", "when": YEARLY, "job": "work"} for n in range(start, start + count)]
    server.client.add_many(schedules=made)


def test_pages_hold_everything_once_although_more_is_added(each_server: HttpServer) -> None:
    server = each_server
    fill(server, 7)
    pages: list[list[str]] = []
    for page in server.client.pages("schedules.list", limit=3):
        pages.append([item["name"] for item in page])
        fill(server, 1, 100 + len(pages)) if len(pages) == 1 else None
        server.client.delete(name="s2")  # the last of the first page: its place is still known
    assert pages == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6", "s101"]]


def test_the_newest_first_goes_on_backwards(server: HttpServer) -> None:
    fill(server, 1)
    ids = [server.client.run("s0", key=str(n)).id for n in range(5)]
    pages = server.client.pages("runs.list", schedule="s0", limit=2)
    first = [run["id"] for run in next(pages)]
    server.client.run(name="s0", key="later")
    assert [*first, *[run["id"] for page in pages for run in page]] == ids[::-1]
    assert [run["id"] for page in server.client.pages("runs.list", limit=4) for run in page][1:] == ids[::-1]


def test_the_link_leads_on(server: HttpServer) -> None:
    fill(server, 3)
    said = server.ask("GET", "/v1/schedules?limit=2&select=state%3Dactive")
    link = said.headers["link"]
    assert link == f'</v1/schedules?limit=2&select=state%3Dactive&cursor={said.json["next"]}>; rel="next"'
    last = server.ask("GET", link[1 : link.index(">")])
    assert ([item["name"] for item in last.json["items"]], last.json["next"]) == (["s2"], None)
    assert "link" not in last.headers


def test_small_collections_have_the_same_shape(server: HttpServer) -> None:
    for path in ("/v1/agents", "/v1/budgets", "/v1/throttles", "/v1/hooks", "/v1/webhooks"):
        assert server.ask("GET", path).json == {"items": [], "next": None}
    assert list(server.client.pages("agents.list")) == [[]]


@pytest.mark.parametrize(
    "cursor", ["", "nonsense", "c2NoZWR1bGVzLmxpc3Qg", quote("ünicode"), "cnVucy5saXN0IDU", "A" * 5_000]
)
def test_a_cursor_of_somewhere_else_is_refused(server: HttpServer, cursor: str) -> None:
    said = server.ask("GET", f"/v1/schedules?cursor={cursor}")
    assert (said.status, said.json["field"]) == (422, "cursor")


def test_a_cursor_and_a_place_are_one_too_many(server: HttpServer) -> None:
    fill(server, 3)
    cursor = server.ask("GET", "/v1/schedules?limit=1").json["next"]
    assert server.ask("GET", f"/v1/schedules?limit=1&cursor={cursor}&after=1").status == 422


def test_events_go_on_after_the_last(server: HttpServer) -> None:
    fill(server, 4)
    newest = server.ask("GET", "/v1/events?limit=2").json
    assert newest["next"] is None
    types = [event["type"] for page in server.client.pages("events.list", after="0", limit=2) for event in page]
    assert types.count("schedule.created") == 4


def test_the_limit_is_bounded_for_every_collection(server: HttpServer) -> None:
    fill(server, 1)
    for use_case, more in {
        "schedules.list": {},
        "schedules.upcoming": {},
        "runs.list": {"schedule": "s0"},
        "threads.list": {},
        "approvals.list": {},
        "events.list": {},
    }.items():
        for limit in (0, 1_001, -1):
            with pytest.raises(InvalidInput, match="limit"):
                server.client.document(use_case, limit=limit, **more)
