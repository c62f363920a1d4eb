"""A daemon whose clients open more connections than it has descriptors."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from house import House

FILES = 200
CLIENTS = 400
RUNS = 10


def test_h8_half_sent_requests_leave_descriptors_to_runs(house: Callable[..., House]) -> None:
    """H8 S2: with 400 half-open requests and 200 descriptors, every run succeeds, and the API answers others."""
    up = f"ulimit -n {FILES}; exec {sys.executable} -m matins up --port 0"
    one = house(program=("sh", "-c", up)).up()
    for number in range(RUNS):
        one.shell(f"agent{number}", "cat /proc/self/status > /dev/null; ls / | sort > /dev/null")
    at = urlsplit(one.url)
    assert at.hostname is not None
    opened = [socket.create_connection((at.hostname, at.port), 90, ("127.0.0.2", 0)) for _ in range(CLIENTS)]
    try:
        for each in opened:
            with suppress(OSError):  # refused already
                each.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        runs = [one.client.run(f"agent{number}") for number in range(RUNS)]
        ended = [one.client.runs.wait(run.id, timeout=90) for run in runs]
        assert {run.state for run in ended} == {"succeeded"}, ended
    finally:
        for each in opened:
            each.close()
    assert not any("Too many open files" in line for line in one.log)
