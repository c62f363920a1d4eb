"""Every example of docs/http.md is sent to a real server, in the order of the page, and answered as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from http_server import HttpServer

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```http\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_is_answered_as_the_page_says(server: HttpServer) -> None:
    for example in EXAMPLES:
        parts = example.strip().split("\n\n")
        request, *body, answer = parts
        line, *headers = request.splitlines()
        method, path = line.split(" ")
        sent = dict(header.replace("$TOKEN", server.token).split(": ", 1) for header in headers)
        if path.startswith("/v1/events/stream"):
            streamed(server, path, sent, answer)
            continue
        said = server.ask(method, path, body[0].encode() if body else None, token=None, headers=sent)
        status, *expected = answer.splitlines()
        assert said.status == int(status), (line, said.body)
        for line in expected:
            if line.startswith("{"):
                assert holds(said.json, orjson.loads(line)), (line, said.json)
            else:
                name, value = line.split(": ", 1)
                assert said.headers[name.lower()] == value


def streamed(server: HttpServer, path: str, sent: dict[str, str], answer: str) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    connection.request("GET", path, headers=sent)
    response = connection.getresponse()
    status, kind, *lines = answer.splitlines()
    assert (response.status, f"Content-Type: {response.headers['content-type']}") == (int(status), kind)
    read = (line.decode().strip() for line in iter(response.readline, b""))
    assert all(line in read for line in lines)
    connection.close()


def holds(said: Any, expected: Any) -> bool:
    """Whether an answer has all that is shown of it."""
    if isinstance(expected, dict):
        return all(name in said and holds(said[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        return len(said) == len(expected) and all(map(holds, said, expected))
    return said == expected


def test_there_are_examples() -> None:
    assert (len(EXAMPLES), len(PYTHON)) == (14, 1)


def test_the_python_example_runs(server: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    exec(PYTHON[0].replace("http://127.0.0.1:7411", server.url), {"token": server.token})
    assert capsys.readouterr().out == (
        'There is a schedule "evening" already. Edit it, delete it, or use another name.\n'
        "every day at 18:00 []\n"
        "['evening']\n"
        "schedule.created evening\n"
    )
