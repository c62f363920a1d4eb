"""A daemon that is killed while it answers a request with an Idempotency-Key."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from house import House

BODY = {"name": "a", "when": "0 0 1 1 *", "job": "message", "payload": "hello"}


def post(one: House) -> tuple[int, Any, bool]:
    """The status, the document, and whether it is the answer of an earlier request."""
    token = (one.home / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": "k"}
    request = urllib.request.Request(f"{one.url}/v1/schedules", json.dumps(BODY).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as response:
        return response.status, json.load(response), "Idempotency-Replayed" in response.headers


@pytest.mark.parametrize("when", ["before", "after"])
def test_c16_a_key_holds_across_a_kill(house: Callable[..., House], when: str) -> None:
    """C16 S2: killed before the commit nothing is done, and after it the answer is kept; one deed in either case"""
    program = (sys.executable, str(Path(__file__).parent / "dies_answering.py"), when)
    first = house(program=program).up()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        post(first)
    first.process.wait(60)
    first.kill()
    second = house().up()
    assert len(second.client.list()) == (0 if when == "before" else 1)
    status, document, replayed = post(second)
    assert (status, document["name"], replayed) == (201, "a", when == "after")
    assert post(second) == (201, document, True)
    (made,) = second.client.list()
    assert made.id == document["id"]
    assert len(second.client.events.list(types="schedule.created")) == 1
