"""The same request with the same key is done once, and answered the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_house import YEARLY, House

from matins import Conflict, InvalidInput, StoreUnavailable
from matins.model.principal import OWNER, Principal
from matins.service.requests import KEPT_MS, Kept, Requests
from matins.testing import ManualClock

BODY = {"name": "a", "when": YEARLY, "do": "work"}


def post(house: House, body: Any = None, key: str = "k", path: str = "/v1/schedules", **options: Any) -> Any:
    return house.ask("POST", path, BODY if body is None else body, Idempotency_Key=key, **options)


def test_a_repeated_request_is_answered_as_before(each_house: House) -> None:
    first, again = post(each_house), post(each_house)
    assert (first.status, "idempotency-replayed" in first.headers) == (201, False)
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")
    assert len(each_house.client.overview()) == 1
    assert post(each_house, key="another").status == 409


def test_the_same_key_for_something_else_is_refused(house: House) -> None:
    post(house)
    for said in (post(house, {**BODY, "name": "b"}), post(house, {}, path="/v1/schedules/a/pause")):
        assert (said.status, said.json["field"]) == (422, "Idempotency-Key")
    assert [item["state"] for item in house.client.overview()] == ["active"]


def test_a_refusal_is_kept_too(house: House) -> None:
    refused = post(house, {**BODY, "when": "never"})
    assert refused.status == 422
    again = post(house, {**BODY, "when": "never"})
    assert (again.status, again.body, again.headers["content-type"]) == (422, refused.body, "application/problem+json")
    assert again.headers["idempotency-replayed"] == "true"


def test_keys_belong_to_whoever_uses_them(house: House) -> None:
    post(house)
    other = house.new_token("operator", "ada")
    assert post(house, token=other).status == 409  # asked, and not told the owner's answer


def test_trouble_is_not_kept(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    service = house.matins._service

    def fail(*arguments: Any, **options: Any) -> Any:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr(service, "add", fail)
        assert post(house).status == 503
    assert post(house).status == 201

    def crash(*arguments: Any, **options: Any) -> Any:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(service, "add", crash)
        assert post(house, {**BODY, "name": "b"}, key="c").status == 500
    assert post(house, {**BODY, "name": "b"}, key="c").status == 201


def test_while_it_is_being_answered_it_is_409(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    add = house.matins._service.add

    def slow(*arguments: Any, **options: Any) -> Any:
        entered.set()
        leave.wait(90)
        return add(*arguments, **options)

    monkeypatch.setattr(house.matins._service, "add", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, house)
        assert entered.wait(90)
        meanwhile = post(house)
        leave.set()
        assert (meanwhile.status, meanwhile.json["code"], first.result().status) == (409, "conflict", 201)
    assert post(house).status == 201


def test_of_many_at_once_one_is_done(each_house: House) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: post(each_house), range(16)))
    assert {answer.status for answer in said} <= {201, 409}
    assert sum("idempotency-replayed" not in answer.headers and answer.status == 201 for answer in said) == 1
    assert len(each_house.client.overview()) == 1


def test_it_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/matins.db"
    before = House(url)
    first = post(before)
    before.close()
    after = House(url)
    again = post(after)
    after.close()
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")


def test_secrets_are_not_kept_with_the_answer(house: House, tmp_path: Path) -> None:
    """A token is in the answer that made it, and nowhere else."""
    made = post(house, {"name": "robot"}, path="/v1/tokens")
    again = post(house, {"name": "robot"}, path="/v1/tokens")
    assert again.json == {**made.json, "token": None}
    secret = made.json["token"].encode()
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_a_key_is_a_short_text(house: House, key: str) -> None:
    assert post(house, key=key).status == 422
    assert house.client.overview() == []


def test_a_run_is_started_once_whatever_happens_in_between(house: House) -> None:
    """The key is the run's own, unless it has one: should the answer be lost with the server, the run is known."""
    post(house)
    run = post(house, {}, key="r", path="/v1/schedules/a/run").json
    assert run["request_key"] == "r"
    house.requests.forget(Principal("owner", "owner"), "r")  # as if the answer had not been written
    assert post(house, {}, key="r", path="/v1/schedules/a/run").json["id"] == run["id"]


class Desk:
    def __init__(self, path: Path) -> None:
        from matins.library import open_store

        self.clock = ManualClock()
        self.store = open_store(f"sqlite:///{path}", self.clock)
        self.requests = Requests(self.store, self.clock)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "matins.db")
    yield made
    made.store.close()


def test_answers_are_kept_for_a_day(desk: Desk) -> None:
    assert desk.requests.begin(OWNER, "k", "digest") is None
    desk.requests.answer(OWNER, "k", Kept(201, "done"))
    desk.clock.advance(KEPT_MS - 1)
    assert desk.requests.begin(OWNER, "k", "digest") == Kept(201, "done")
    desk.clock.advance(1)
    assert desk.requests.begin(OWNER, "k", "other") is None


def test_a_request_that_lost_its_server_may_come_again_after_a_while(desk: Desk) -> None:
    assert desk.requests.begin(OWNER, "k", "digest") is None
    reopened = Requests(desk.store, desk.clock)  # nobody answers it any more
    with pytest.raises(Conflict, match="being answered"):
        reopened.begin(OWNER, "k", "digest")
    with pytest.raises(InvalidInput, match="another request"):
        reopened.begin(OWNER, "k", "other")
    desk.clock.advance(120_000)
    assert reopened.begin(OWNER, "k", "digest") is None
    with pytest.raises(Conflict, match="being answered"):
        reopened.begin(OWNER, "k", "digest")
