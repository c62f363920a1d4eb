"""Calls in the file: endpoints and schedules that listen, in any order."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_steps import Desk

from matins.errors import Conflict, InvalidInput
from matins.testing import Sandbox

FILE = """\
schedules:
  announce: {when: after release succeeds, job: work}
  release: {when: every friday at 18:00, job: work}
  review:
    on: # what we wait for
      webhook: prs
      filter: {action: [opened, reopened], "pull_request.labels[].name": {has: ready}}
      debounce: 30s
      by: number
    job: work
  ask: {type: chat, job: work}
  deploy: {type: webhook, job: work}
inbound:
  prs: {kind: github, secret: env:GH_SECRET}
  deploy: {kind: bearer, secret: env:DEPLOY_SECRET}
inbound_listen: 127.0.0.1:7412
"""


@pytest.fixture
def desk(bench: Sandbox, tmp_path: Path) -> Desk:
    made = Desk(bench, tmp_path / "matins.yaml", FILE)
    assert made.look() == "applied", made.file.state
    return made


def test_h5_what_the_file_listens_to(desk: Desk, bench: Sandbox) -> None:
    """H5 B13: `type: webhook` and `type: chat` are read as calls; a schedule may follow one that comes later"""
    texts = {schedule.name: schedule.trigger_text for schedule in bench.list()}
    assert texts == {
        "announce": "after release succeeds",
        "release": "every Friday at 18:00",
        "review": "on webhook prs",
        "ask": "on a chat message",
        "deploy": "on webhook deploy",
    }
    assert all(bench.get(name).state == "active" for name in texts)
    body = {"action": "opened", "number": 7, "pull_request": {"labels": [{"name": "ready"}]}}
    assert bench.calls.fire("webhook", "prs", "d1", body=body).runs[0].reason == "debouncing"
    assert bench.calls.fire("webhook", "deploy", "d1").runs[0].schedule == "deploy"
    assert bench.calls.fire("chat", "C07", "m1", body={"mention": True}).runs[0].schedule == "ask"
    assert bench.inbound_listen.get().address == "127.0.0.1:7412"


def test_an_edit_of_the_file_changes_what_is_listened_to(desk: Desk, bench: Sandbox) -> None:
    run = bench.calls.fire("webhook", "prs", "d0", body={"action": "closed"})
    assert run.outcome == "ignored"
    desk.change(("[opened, reopened]", "[closed]"), (', "pull_request.labels[].name": {has: ready}', ""))
    assert desk.look() == "applied"
    assert bench.calls.fire("webhook", "prs", "d1", body={"action": "closed"}).outcome == "accepted"
    desk.change(("  deploy: {type: webhook, job: work}\n", ""))
    assert desk.look() == "applied"
    assert bench.calls.fire("webhook", "deploy", "d1").outcome == "ignored"


def test_a_circle_in_the_file_is_refused_whole(desk: Desk, bench: Sandbox) -> None:
    desk.change(("release: {when: every friday at 18:00,", "release: {when: after announce ends,"))
    assert desk.look() != "applied"
    assert bench.get("release").trigger_text == "every Friday at 18:00"
    with pytest.raises((Conflict, InvalidInput), match="announce"):
        bench.file.apply()


def test_an_endpoint_that_is_needed_stays(desk: Desk, bench: Sandbox) -> None:
    desk.change(("  prs: {kind: github, secret: env:GH_SECRET}\n", ""))
    assert desk.look() != "applied"
    assert [endpoint.name for endpoint in bench.inbound.list()] == ["deploy", "prs"]


def test_an_edit_elsewhere_is_written_into_the_file(desk: Desk, bench: Sandbox) -> None:
    desk.write("edits: write_back\n" + FILE)
    assert desk.look() == "applied"
    bench.edit("review", on={"webhook": "prs", "debounce": "1m"})
    bench.edit("announce", when="after release ends")
    bench.inbound.edit("prs", max_per_minute=120)
    text = desk.path.read_text(encoding="utf-8")
    assert 'debounce: "1m"' in text
    assert "120" in text
    assert desk.look() != "failed"
    assert bench.get("review").settings["on"] == {"webhook": "prs", "debounce": "1m"}
    assert bench.get("announce").trigger_text == "after release ends"
