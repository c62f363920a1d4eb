"""Two people edit: the second is told, and nothing is lost."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from http_house import YEARLY, House, Said

from matins.errors import Stale
from matins.model.principal import Principal


@pytest.fixture
def tag(house: House) -> str:
    house.client.add(name="a", when=YEARLY, do="work")
    return house.ask("GET", "/v1/schedules/a").headers["etag"]


def test_what_has_not_changed_is_not_sent_again(house: House, tag: str) -> None:
    assert tag.startswith('"1.')
    said = house.ask("GET", "/v1/schedules/a", If_None_Match=f'"other", W/{tag}')
    assert (said.status, said.body, said.headers["etag"]) == (304, b"", tag)
    house.client.pause(name="a")  # the same revision, and yet another picture
    assert house.ask("GET", "/v1/schedules/a", If_None_Match=tag).status == 200
    collection = house.ask("GET", "/v1/schedules")
    assert house.ask("GET", "/v1/schedules", If_None_Match=collection.headers["etag"]).status == 304


def test_an_edit_says_what_it_is_about(house: House, tag: str) -> None:
    """428 without, 412 when somebody was quicker, and nothing written in both cases."""
    missing = house.ask("PATCH", "/v1/schedules/a", {"retries": 1})
    assert (missing.status, missing.json["code"]) == (428, "if_match_needed")
    done = house.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=tag)
    assert (done.status, done.json["rev"], done.headers["etag"]) == (200, 2, '"2"')
    late = house.ask("PATCH", "/v1/schedules/a", {"retries": 2}, If_Match=tag)
    assert (late.status, late.json["code"]) == (412, "stale")
    assert house.client.look(name="a")["words"]["retries"] == 1
    assert house.ask("PATCH", "/v1/schedules/a", {"retries": 2}, If_Match='"2"').status == 200


def test_a_run_in_between_does_not_stop_an_edit(house: House, tag: str) -> None:
    house.client.pause(name="a")
    assert house.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=tag).status == 200


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("*", 200),
        ('"9", "1"', 200),
        ('"7", "8"', 412),
        ('W/"1"', 412),
        ('"abc"', 412),
        ("1", 400),
        ("", 400),
        (",,", 400),
    ],
)
def test_if_match_is_read_as_the_standard_says(house: House, tag: str, said: str, status: int) -> None:
    got = house.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=said).status
    assert got == status or (said == "" and got == 412)


def test_of_many_edits_of_one_revision_one_is_done(each_house: House) -> None:
    """Checked under the lock, not before it."""
    house = each_house
    house.client.add(name="a", when=YEARLY, do="work")

    def edit(number: int) -> int:
        return house.ask("PATCH", "/v1/schedules/a", {"retries": number}, If_Match='"1"').status

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(edit, range(8)))
    assert statuses == [200] + [412] * 7
    assert house.client.look(name="a")["rev"] == 2


def test_the_client_raises_what_the_service_raises(house: House, tag: str) -> None:
    house.client.edit(name="a", if_rev=1, retries=1)
    with pytest.raises(Stale):
        house.client.edit(name="a", if_rev=1, retries=2)


def test_policies_are_put_on_conditions_too(house: House) -> None:
    words = {"money": "$5", "per": "day"}
    assert house.ask("PUT", "/v1/budgets/day", words, If_Match="*").status == 412  # there is none yet
    made = house.ask("PUT", "/v1/budgets/day", words, If_None_Match="*")
    assert made.status == 200
    assert house.ask("PUT", "/v1/budgets/day", words, If_None_Match="*").status == 412
    changed = house.ask("PUT", "/v1/budgets/day", {**words, "money": "$6"}, If_Match=made.headers["etag"])
    assert (changed.status, changed.json["money"]) == (200, "$6.00")
    assert house.ask("PUT", "/v1/budgets/day", words, If_Match=made.headers["etag"]).status == 412
    assert house.client.budgets()[0]["money"] == "$6.00"


@pytest.mark.parametrize(
    ("path", "words", "other"),
    [
        ("/v1/agents/scout", {"runner": "demo"}, {"runner": "demo", "model": "large"}),
        ("/v1/agent-rules/scout", {"quota": 1}, {"quota": 2}),
        ("/v1/quiet-hours/night", {"windows": ["22:00-07:00"]}, {"windows": ["23:00-07:00"]}),
        ("/v1/work-sources/todo", {"kind": "tasks"}, {"kind": "tasks", "path": "B.yaml"}),
        ("/v1/prices/m", {"input": "$1", "output": "$1"}, {"input": "$1", "output": "$2"}),
        ("/v1/hooks/after:run", {"command": "true"}, {"command": "false"}),
        ("/v1/limits/global", {"size": 3}, {"size": 4}),
        ("/v1/throttles/acme", {"resets_at": "2100-01-01T00:00:00Z"}, {"resets_at": "2101-01-01T00:00:00Z"}),
        ("/v1/allowed-hosts", {"hosts": ["a"]}, {"hosts": ["b"]}),
    ],
)
def test_every_policy_has_a_tag(house: House, path: str, words: dict[str, object], other: dict[str, object]) -> None:
    first = house.ask("PUT", path, words).headers["etag"]
    assert house.ask("PUT", path, other, If_Match=first).status in (200, 204)
    assert house.ask("PUT", path, words, If_Match=first).status == 412


def test_a_rate_cannot_be_looked_at_and_so_has_no_condition(house: House) -> None:
    assert house.ask("PUT", "/v1/rates/EUR", {"usd": 1.1}, If_Match="*").status == 400
    assert house.ask("PUT", "/v1/rates/EUR", {"usd": 1.1}).status == 204


def test_h12_an_edit_of_an_agent_says_what_it_is_about_too(house: House) -> None:
    """H12: 428 without, 412 when somebody was quicker, 404 where there is none; what is not said stays"""
    house.client.set_agent(name="scout", runner="demo", model="a", environment={"KEY": "secret"})
    tag = house.ask("GET", "/v1/agents/scout").headers["etag"]
    missing = house.ask("PATCH", "/v1/agents/scout", {"model": "b"})
    assert (missing.status, missing.json["code"]) == (428, "if_match_needed")
    done = house.ask("PATCH", "/v1/agents/scout", {"model": "b", "max_turns": 3}, If_Match=tag)
    assert (done.status, done.json["model"]) == (200, "b")
    assert done.headers["etag"] == house.ask("GET", "/v1/agents/scout").headers["etag"] != tag
    late = house.ask("PATCH", "/v1/agents/scout", {"model": "c"}, If_Match=tag)
    assert (late.status, late.json["code"]) == (412, "stale")
    assert house.ask("PATCH", "/v1/agents/scout", {"max_turns": None}, If_Match="*").status == 200
    assert house.ask("PATCH", "/v1/agents/nobody", {"model": "b"}, If_Match="*").status == 404
    kept = house.matins.get_agent("scout")
    assert (kept.model, kept.max_turns, dict(kept.environment)) == ("b", None, {"KEY": "secret"})


def test_h12_what_is_put_and_what_is_edited_wait_for_each_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: another route leads to the same agent; whoever comes while it is edited is told that it has changed"""
    house.client.set_agent(name="scout", runner="demo", model="a")
    tag = house.ask("GET", "/v1/agents/scout").headers["etag"]
    call_as = house.matins.call_as
    with ThreadPoolExecutor(1) as pool:
        putting: list[Future[Said]] = []

        def called(principal: Principal, use_case: str, /, *arguments: Any, **options: Any) -> Any:
            if use_case == "edit_agent":
                words = {"runner": "demo", "model": "c"}
                putting.append(pool.submit(house.ask, "PUT", "/v1/agents/scout", words, If_Match=tag))
                wait(putting, 0.5)  # it ends only where nobody holds it back
            return call_as(principal, use_case, *arguments, **options)

        monkeypatch.setattr(house.matins, "call_as", called)
        assert house.ask("PATCH", "/v1/agents/scout", {"model": "b"}, If_Match=tag).status == 200
        assert putting[0].result(60).status == 412
    assert house.matins.get_agent("scout").model == "b"
