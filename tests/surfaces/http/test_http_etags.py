"""Two people edit: the second gets an error, and nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from http_server import YEARLY, HttpServer, Reply
from record_examples import RECORDS

from matins.api.use_case import UseCase
from matins.model.access import Principal


@pytest.fixture
def tag(server: HttpServer) -> str:
    server.client.add(name="a", when=YEARLY, job="work")
    return server.ask("GET", "/v1/schedules/a").headers["etag"]


def test_what_has_not_changed_is_not_sent_again(server: HttpServer, tag: str) -> None:
    assert tag.startswith('"1.')
    said = server.ask("GET", "/v1/schedules/a", If_None_Match=f'"other", W/{tag}')
    assert (said.status, said.body, said.headers["etag"]) == (304, b"", tag)
    server.client.pause(name="a")  # the same revision, and yet another picture
    assert server.ask("GET", "/v1/schedules/a", If_None_Match=tag).status == 200
    collection = server.ask("GET", "/v1/schedules")
    assert server.ask("GET", "/v1/schedules", If_None_Match=collection.headers["etag"]).status == 304


def test_an_edit_says_what_it_is_about(server: HttpServer, tag: str) -> None:
    """428 without, 412 when somebody was quicker, and nothing written in both cases."""
    missing = server.ask("PATCH", "/v1/schedules/a", {"retries": 1})
    assert (missing.status, missing.json["code"]) == (428, "precondition_required")
    done = server.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=tag)
    assert (done.status, done.json["rev"], done.headers["etag"]) == (200, 2, '"2"')
    late = server.ask("PATCH", "/v1/schedules/a", {"retries": 2}, If_Match=tag)
    assert (late.status, late.json["code"]) == (412, "stale")
    assert server.client.get("a").settings["retries"] == 1
    assert server.ask("PATCH", "/v1/schedules/a", {"retries": 2}, If_Match='"2"').status == 200


def test_a_run_in_between_does_not_stop_an_edit(server: HttpServer, tag: str) -> None:
    server.client.pause(name="a")
    assert server.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=tag).status == 200


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
def test_if_match_is_read_as_the_standard_says(server: HttpServer, tag: str, said: str, status: int) -> None:
    got = server.ask("PATCH", "/v1/schedules/a", {"retries": 1}, If_Match=said).status
    assert got == status or (said == "" and got == 412)


def test_of_many_edits_of_one_revision_one_is_done(each_server: HttpServer) -> None:
    """Checked under the lock, not before it."""
    server = each_server
    server.client.add(name="a", when=YEARLY, job="work")

    def edit(number: int) -> int:
        return server.ask("PATCH", "/v1/schedules/a", {"retries": number}, If_Match='"1"').status

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(edit, range(1, 9)))
    assert statuses == [200] + [412] * 7
    assert server.client.get("a").rev == 2


ALWAYS_THERE = {
    "agent_rules",
    "allowed_hosts",
    "deliver",
    "heartbeat",
    "http_server",
    "inbound_listen",
    "notify",
    "smtp",
}
"""Where none is set, the default is shown."""


@pytest.mark.parametrize("noun", RECORDS)
def test_every_record_is_read_replaced_edited_and_deleted_on_conditions(server: HttpServer, noun: str) -> None:
    """200, 304, 412, 428 and 404, and the tag of a response is that of the next GET."""
    key, settings, change = RECORDS[noun]
    path = "/".join(["/v1", noun.replace("_", "-"), *key])
    made = server.ask("PUT", path, settings)
    assert made.status == 200, made.body
    tag = made.headers["etag"]
    read = server.ask("GET", path)
    assert (read.status, read.json, read.headers["etag"]) == (200, made.json, tag)
    assert server.ask("GET", path, If_None_Match=tag).status == 304
    assert server.ask("PUT", path, settings, If_None_Match="*").json["code"] == "stale"
    assert server.ask("PATCH", path, change).status == 428
    edited = server.ask("PATCH", path, change, If_Match=tag)
    assert (edited.status, edited.json) == (200, server.ask("GET", path).json)
    assert edited.headers["etag"] == server.ask("GET", path).headers["etag"] != tag
    for method, body in (("PUT", settings), ("PATCH", change), ("DELETE", None)):
        late = server.ask(method, path, body, If_Match=tag)
        assert (late.status, late.json["code"], late.json["field"]) == (412, "stale", "If-Match"), method
    assert server.ask("GET", path).json == edited.json
    again = server.ask("PUT", path, settings, If_Match=edited.headers["etag"]).headers["etag"]
    assert settings_part(again) == settings_part(tag)
    assert server.ask("DELETE", path, If_Match=tag).status == 204
    assert server.ask("DELETE", path).status == 404
    assert server.ask("PUT", path, settings, If_Match=tag).status == 412
    assert server.ask("PUT", path, settings, If_Match="*").status == (200 if noun in ALWAYS_THERE else 412)


def settings_part(tag: str) -> str:
    """What comes after it is of what changes by itself."""
    return tag.strip('"').partition(".")[0]


def test_what_changes_by_itself_is_no_reason_to_refuse_an_edit(server: HttpServer) -> None:
    """A budget whose usage has changed is another picture, but has the same settings."""
    server.client.agents.set("scout", runner="demo")
    server.client.budgets.set("day", max_cost="$5", period="day", scope="agent")
    before = server.ask("GET", "/v1/budgets/day")
    server.client.add("talk", when=YEARLY, agent="scout", prompt="Good morning")
    assert server.client.runs.wait(server.client.run("talk").id, timeout=90).state == "succeeded"
    tag = before.headers["etag"]
    after = server.ask("GET", "/v1/budgets/day", If_None_Match=tag)
    assert (after.status, after.json["usage"] != before.json["usage"]) == (200, True)
    assert after.headers["etag"] != tag
    assert server.ask("PATCH", "/v1/budgets/day", {"max_cost": "$6"}, If_Match=tag).status == 200
    assert server.ask("PATCH", "/v1/budgets/day", {"max_cost": "$7"}, If_Match=after.headers["etag"]).status == 412


def test_a_schedule_is_deleted_on_a_condition(server: HttpServer, tag: str) -> None:
    server.client.edit("a", retries=1)
    late = server.ask("DELETE", "/v1/schedules/a", If_Match=tag)
    assert (late.status, late.json["code"]) == (412, "stale")
    assert server.ask("DELETE", "/v1/schedules/a?agent=", If_Match='"2"').status == 204


def test_a_condition_is_never_ignored(server: HttpServer) -> None:
    """Where nothing can be read, nothing can be compared."""
    token = server.client.tokens.create("x")
    for method, path, body in (("PUT", "/v1/subscriptions/x", {}), ("DELETE", f"/v1/tokens/{token.id}", None)):
        refused = server.ask(method, path, body, If_Match='"1"')
        assert (refused.status, refused.json["code"]) == (400, "condition_not_supported")
    assert server.client.tokens.revoke(token.id) is True


def test_h12_what_is_put_and_what_is_edited_wait_for_each_other(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: another route leads to the same agent; a request that comes while it is edited learns that it has changed"""
    server.client.agents.set("scout", runner="demo", model="a")
    tag = server.ask("GET", "/v1/agents/scout").headers["etag"]
    call = server.matins.invoke
    with ThreadPoolExecutor(1) as pool:
        putting: list[Future[Reply]] = []

        def called(principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
            if use_case.name == "agents.edit":
                settings = {"runner": "demo", "model": "c"}
                putting.append(pool.submit(server.ask, "PUT", "/v1/agents/scout", settings, If_Match=tag))
                wait(putting, 0.5)  # it ends only where nobody holds it back
            return call(principal, use_case, arguments)

        monkeypatch.setattr(server.matins, "invoke", called)
        assert server.ask("PATCH", "/v1/agents/scout", {"model": "b"}, If_Match=tag).status == 200
        assert putting[0].result(60).status == 412
    assert server.matins.agents.get("scout").model == "b"
