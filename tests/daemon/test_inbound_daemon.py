"""Deliveries to a real daemon: its listener, its death before the answer, and the commands of docs/inbound.md."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from house import House

Start = Callable[..., House]
PAGE = Path(__file__).parents[2] / "docs/inbound.md"
SECRET = "0123456789abcdef"
BODY = {"action": "opened", "pull_request": {"number": 7, "title": "Fix the door", "draft": False}}
FILE = """
inbound_listen: 127.0.0.1:0
inbound:
  github-prs: { kind: github, secret: env:GH_SECRET }
schedules:
  note: { on: { webhook: github-prs }, job: message, payload: { title: "{{call.body.pull_request.title}}" } }
"""


def inbound_url(one: House) -> str:
    return json.loads((one.home / "daemon.json").read_text(encoding="utf-8"))["inbound"]


def post(url: str, path: str = "/in/github-prs") -> tuple[int, Any]:
    body = json.dumps(BODY).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "d1",
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
    }
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=90)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.fixture
def with_file(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "matins.yaml").write_text(FILE, encoding="utf-8")


@pytest.mark.usefixtures("with_file")
def test_h5_the_listener_of_the_file_takes_deliveries_and_shows_no_api(house: Start) -> None:
    """H5: with an address of their own, the API does not serve them"""
    one = house(GH_SECRET=SECRET).up()
    assert any("/in/NAME" in line for line in one.said)
    status, answer = post(inbound_url(one))
    assert (status, answer["outcome"]) == (202, "accepted")
    assert post(inbound_url(one), "/v1/calls")[0] == 404
    assert post(one.url)[0] in (401, 404)
    one.client.runs.wait(answer["runs"][0], timeout=60)
    (event,) = one.client.events.list(types="message.emitted")
    assert "Fix the door" in event.data["title"]


@pytest.mark.usefixtures("with_file")
def test_killed_between_commit_and_answer_there_is_one_run(house: Start) -> None:
    """The sender got no answer and delivers again: the answer is the run that is there."""
    program = (sys.executable, str(Path(__file__).parent / "dies_unanswered.py"))
    first = house(program=program, GH_SECRET=SECRET).up()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        post(inbound_url(first))
    first.process.wait(60)
    first.kill()
    second = house(GH_SECRET=SECRET).up()
    status, answer = post(inbound_url(second))
    assert (status, answer["outcome"]) == (202, "duplicate")
    (run,) = second.client.runs.list(schedule="note")
    assert answer["runs"] == [run.id]
    assert second.client.runs.wait(run.id, timeout=60).state == "succeeded"
    assert len(second.client.events.list(types="message.emitted")) == 1


def test_the_commands_of_the_page(house: Start, tmp_path: Path) -> None:
    """Each is given to a real daemon, in the order of the page."""
    (tmp_path / "pull_request.json").write_text(json.dumps(BODY), encoding="utf-8")
    lines = re.findall(r"^\$ matins (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    given = [shlex.split(line) for line in lines if line != "up"]
    assert len(given) >= 7
    one = house(GH_SECRET=SECRET).up()
    said = [one.matins(*words) for words in given]
    assert "Review <data" in said[2]
    assert "Dry run: nothing was fired." in said[2]
    assert "accepted: run 1 of review-pr" in said[3]
    assert "webhook github-prs" in said[4]
    assert "Fix the door" in said[5]
    assert "repeats call 1" in said[6]
