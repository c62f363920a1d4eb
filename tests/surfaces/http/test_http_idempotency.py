"""The same request with the same key is done once, and answered the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins import InvalidInput, StoreUnavailable
from matins.api.use_case import USE_CASES
from matins.model.access import OWNER
from matins.service.idempotency import RETENTION_MS, IdempotencyStore, StoredResponse
from matins.store import open_store
from matins.testing import ManualClock

BODY = {"name": "a", "when": YEARLY, "job": "work"}


def post(server: HttpServer, body: Any = None, key: str = "k", path: str = "/v1/schedules", **options: Any) -> Any:
    return server.ask("POST", path, BODY if body is None else body, Idempotency_Key=key, **options)


def test_a_repeated_request_is_answered_as_before(each_server: HttpServer) -> None:
    first, again = post(each_server), post(each_server)
    assert (first.status, "idempotency-replayed" in first.headers) == (201, False)
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")
    assert len(each_server.client.list()) == 1
    assert post(each_server, key="another").status == 409


def test_the_same_key_for_something_else_is_refused(server: HttpServer) -> None:
    post(server)
    for said in (post(server, {**BODY, "name": "b"}), post(server, {}, path="/v1/schedules/a/pause")):
        assert (said.status, said.json["field"]) == (422, "Idempotency-Key")
    assert [item.state for item in server.client.list()] == ["active"]


def test_a_refusal_is_kept_too(server: HttpServer) -> None:
    refused = post(server, {**BODY, "when": "sometimes"})
    assert refused.status == 422
    again = post(server, {**BODY, "when": "sometimes"})
    assert (again.status, again.body, again.headers["content-type"]) == (422, refused.body, "application/problem+json")
    assert again.headers["idempotency-replayed"] == "true"


def test_keys_belong_to_whoever_uses_them(server: HttpServer) -> None:
    post(server)
    other = server.new_token("operator", "ada")
    assert post(server, token=other).status == 409  # asked, and not told the owner's answer


def test_trouble_is_not_kept(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    methods = server.matins._service._methods

    def fail(*arguments: Any, **options: Any) -> Any:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setitem(methods, "schedules.add", fail)
        assert post(server).status == 503
    assert post(server).status == 201

    def crash(*arguments: Any, **options: Any) -> Any:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setitem(methods, "schedules.add", crash)
        assert post(server, {**BODY, "name": "b"}, key="c").status == 500
    assert post(server, {**BODY, "name": "b"}, key="c").status == 201


def test_while_it_is_being_answered_it_is_409(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    service = server.matins._service
    add = service.method(USE_CASES["schedules.add"])

    def slow(*arguments: Any, **options: Any) -> Any:
        entered.set()
        leave.wait(90)
        return add(*arguments, **options)

    monkeypatch.setitem(service._methods, "schedules.add", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, server)
        assert entered.wait(90)
        meanwhile = post(server)
        leave.set()
        assert (meanwhile.status, meanwhile.json["code"], first.result().status) == (409, "conflict", 201)
    assert post(server).status == 201


def test_of_many_at_once_one_is_done(each_server: HttpServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: post(each_server), range(16)))
    assert {answer.status for answer in said} <= {201, 409}
    assert sum("idempotency-replayed" not in answer.headers and answer.status == 201 for answer in said) == 1
    assert len(each_server.client.list()) == 1


def test_it_survives_a_restart(make_server: Callable[..., HttpServer]) -> None:
    before = make_server()
    first = post(before)
    before.close()
    after = make_server()
    again = post(after)
    after.close()
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")


def test_secrets_are_not_kept_with_the_answer(server: HttpServer, tmp_path: Path) -> None:
    """A token is in the answer that made it, and nowhere else."""
    made = post(server, {"name": "robot"}, path="/v1/tokens")
    again = post(server, {"name": "robot"}, path="/v1/tokens")
    assert again.json == {**made.json, "token": None}
    secret = made.json["token"].encode()
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_a_key_is_a_short_text(server: HttpServer, key: str) -> None:
    assert post(server, key=key).status == 422
    assert server.client.list() == []


def test_a_run_is_started_once_and_has_the_key(server: HttpServer) -> None:
    post(server)
    run = post(server, {}, key="r", path="/v1/schedules/a/run").json
    assert run["request_key"] == "r"
    assert post(server, {}, key="r", path="/v1/schedules/a/run").json["id"] == run["id"]


def test_answers_are_kept_for_a_day(tmp_path: Path) -> None:
    clock = ManualClock()
    with closing(open_store(f"sqlite:///{tmp_path}/matins.db", clock)) as store:
        responses = IdempotencyStore(store, clock)

        def answer(digest: str, body: str) -> Any:
            return responses.once(OWNER, "k", digest, lambda: StoredResponse(201, body), lambda made: made)

        assert answer("digest", "done") == (201, "done")
        clock.advance(RETENTION_MS - 1)
        assert answer("digest", "again") == (201, "done")
        with pytest.raises(InvalidInput, match="another request"):
            answer("other", "again")
        clock.advance(1)
        assert answer("other", "again") == (201, "again")


def test_what_a_request_did_is_undone_with_its_answer(each_server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deed, its events and the answer are one transaction; what was waiting for the commit is not told."""
    server = each_server

    def fail(*arguments: Any) -> Any:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr("matins.surfaces.http.endpoint.Endpoint._as_stored", fail)
        assert post(server).status == 503
    assert server.client.list() == []
    assert server.client.events.list(types="schedule.created") == []
    assert post(server).status == 201
    assert server.client.audit.verify().problems == []


def test_a_run_with_a_key_starts_at_once(each_server: HttpServer) -> None:
    """S7: the engine is woken after the commit, and not before."""
    server = each_server
    post(server, {**BODY, "job": "block"})
    post(server, {}, key="r", path="/v1/schedules/a/run")
    assert server.begun.wait(90)
