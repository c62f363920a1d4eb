"""Long collections come in pages; what is added meanwhile moves nothing."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from http_house import YEARLY, House

from matins.errors import InvalidInput


def fill(house: House, count: int, start: int = 0) -> None:
    made = [{"name": f"s{n}", "when": YEARLY, "do": "work"} for n in range(start, start + count)]
    house.client.add_many(schedules=made)


def test_pages_hold_everything_once_although_more_is_added(each_house: House) -> None:
    house = each_house
    fill(house, 7)
    pages: list[list[str]] = []
    for page in house.client.pages("overview", limit=3):
        pages.append([item["name"] for item in page])
        fill(house, 1, 100 + len(pages)) if len(pages) == 1 else None
        house.client.remove(name="s2")  # the last of the first page: its place is still known
    assert pages == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6", "s101"]]


def test_the_newest_first_goes_on_backwards(house: House) -> None:
    fill(house, 1)
    ids = [house.client.run(name="s0", key=str(n))["id"] for n in range(5)]
    pages = house.client.pages("runs", name="s0", limit=2)
    first = [run["id"] for run in next(pages)]
    house.client.run(name="s0", key="later")
    assert [*first, *[run["id"] for page in pages for run in page]] == ids[::-1]
    assert [run["id"] for page in house.client.pages("recent", limit=4) for run in page][1:] == ids[::-1]


def test_the_link_leads_on(house: House) -> None:
    fill(house, 3)
    said = house.ask("GET", "/v1/schedules?limit=2&state=active")
    link = said.headers["link"]
    assert link == f'</v1/schedules?limit=2&state=active&cursor={said.json["next"]}>; rel="next"'
    last = house.ask("GET", link[1 : link.index(">")])
    assert ([item["name"] for item in last.json["items"]], last.json["next"]) == (["s2"], None)
    assert "link" not in last.headers


def test_small_collections_have_the_same_shape(house: House) -> None:
    for path in ("/v1/agents", "/v1/budgets", "/v1/throttles", "/v1/hooks", "/v1/allowed-hosts"):
        assert house.ask("GET", path).json == {"items": [], "next": None}
    assert list(house.client.pages("agents")) == [[]]


@pytest.mark.parametrize("cursor", ["", "nonsense", "b3ZlcnZpZXcg", quote("ünicode"), "cmVjZW50IDU", "A" * 5_000])
def test_a_cursor_of_somewhere_else_is_refused(house: House, cursor: str) -> None:
    said = house.ask("GET", f"/v1/schedules?cursor={cursor}")
    assert (said.status, said.json["field"]) == (422, "cursor")


def test_a_cursor_and_a_place_are_one_too_many(house: House) -> None:
    fill(house, 3)
    cursor = house.ask("GET", "/v1/schedules?limit=1").json["next"]
    assert house.ask("GET", f"/v1/schedules?limit=1&cursor={cursor}&after=1").status == 422


def test_events_go_on_after_the_last(house: House) -> None:
    fill(house, 4)
    newest = house.ask("GET", "/v1/events?limit=2").json
    assert newest["next"] is None
    types = [event["type"] for page in house.client.pages("events", after="0", limit=2) for event in page]
    assert types.count("schedule.created") == 4


def test_the_limit_is_bounded_for_every_collection(house: House) -> None:
    fill(house, 1)
    for use_case, more in {
        "overview": {},
        "recent": {},
        "runs": {"name": "s0"},
        "threads": {},
        "approvals": {},
    }.items():
        for limit in (0, 1_001, -1):
            with pytest.raises(InvalidInput, match="limit"):
                house.client.call(use_case, limit=limit, **more)
