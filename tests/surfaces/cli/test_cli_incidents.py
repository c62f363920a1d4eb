"""Incidents and destinations on the command line: a test message, what is open, and its acknowledgement."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from cli_user import User

from matins.records.people import DESTINATIONS
from standins.inbox import Inbox, open_inbox


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with open_inbox() as found:
        yield found


def test_a_test_message_says_what_came_back(user: User, inbox: Inbox) -> None:
    """B17: each destination, or those that are named; the exit code is 1 when one did not arrive"""
    assert "There is no destination" in user.says("notify", "test")
    user.says("destinations", "set", "ops", "--kind", "webhook", "--url", f"{inbox.url}/ops")
    assert user.says("notify", "test").split() == ["DESTINATION", "KIND", "RESULT", "ops", "webhook", "delivered"]
    [one] = inbox.received
    assert (one.path, one.document["title"]) == ("/ops", "✓ Matins can reach you")
    assert 'test of the destination "ops"' in one.document["text"]
    user.says("destinations", "set", "gone", "--kind", "webhook", "--url", "http://127.0.0.1:9/gone")
    inbox.status = 503
    said = user.says("notify", "test", code=1)
    assert "the destination answered 503" in said
    assert [item["delivered"] for item in user.json("notify", "test", "gone", code=1)] == [False]
    inbox.status = 200
    assert [item["destination"] for item in user.json("notify", "test", "ops")] == ["ops"]
    assert 'There is no destination "opps"' in user.complains("notify", "test", "opps")
    assert user.bench.incidents.list() == []


def test_an_open_incident_is_on_the_first_screen_until_it_is_acknowledged(user: User) -> None:
    """B12 B17: without any destination, `matins status` and `matins incidents` say what is open"""
    bench = user.bench
    user.says(
        "add", "every 10 minutes", "--job", "fail", "-n", "nightly", "--failure-backoff", "none", "--retries", "0"
    )
    bench.run_until("2026-03-27T08:30:00Z")
    bench.outbox.run_once(bench.clock.now_ms())
    [incident] = user.json("incidents")
    [item] = [found for found in user.json("status")["attention"] if found["kind"] == "incident"]
    assert (item["incident_id"], item["schedule"]) == (incident["id"], "nightly")
    said = user.says("status")
    assert "nightly: Failed (3 times): ValueError: no luck." in " ".join(said.split())
    assert f"matins incidents show {incident['id']}" in said
    assert "ValueError: no luck" in user.says("incidents", "show", incident["id"])
    user.says("ack", incident["id"])
    assert "no luck (3 times)" not in user.says("status")
    assert [found["state"] for found in user.json("incidents")] == ["acknowledged"]


@pytest.mark.parametrize("name", [*DESTINATIONS.examples, "phone"])
def test_the_command_that_a_hint_names_works(user: User, name: str) -> None:
    user.says(*shlex.split(DESTINATIONS.command_for(name))[1:])
    assert user.bench.destinations.get(name).name == name
