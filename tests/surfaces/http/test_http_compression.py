"""Long responses to clients that can read them packed."""

from __future__ import annotations

import gzip
import http.client
from contextlib import closing

import pytest
from http_server import YEARLY, HttpServer


@pytest.fixture
def many(server: HttpServer) -> HttpServer:
    for number in range(20):
        server.client.add(name=f"s{number}", when=YEARLY, job="work", description="x" * 100)
    return server


def test_a_long_document_is_packed(many: HttpServer) -> None:
    """It is the same document under the same tag, and says what it depends on."""
    plain = many.ask("GET", "/v1/schedules")
    packed = many.ask("GET", "/v1/schedules", Accept_Encoding="br, gzip;q=0.8")
    assert (plain.headers.get("content-encoding"), packed.headers["content-encoding"]) == (None, "gzip")
    assert gzip.decompress(packed.body) == plain.body
    assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 4
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] == packed.headers["etag"]
    again = many.ask("GET", "/v1/schedules", Accept_Encoding="gzip", If_None_Match=packed.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("accepted", ["br", "identity", "gzip;q=0", "gzip; q=0.0, br"])
def test_who_cannot_read_it_gets_it_plain(many: HttpServer, accepted: str) -> None:
    said = many.ask("GET", "/v1/schedules", Accept_Encoding=accepted)
    assert "content-encoding" not in said.headers
    assert len(said.json["items"]) == 20


def test_short_documents_and_responses_to_post_are_not_packed(many: HttpServer) -> None:
    """Secrets are shown once, in a response to POST: its length must not tell whether a guess is right."""
    short = many.ask("GET", "/v1/agents", Accept_Encoding="gzip")
    assert "content-encoding" not in short.headers
    made = {"name": "made", "when": YEARLY, "job": "work", "description": "x" * 2000}
    posted = many.ask("POST", "/v1/schedules", made, Accept_Encoding="gzip")
    assert (posted.status, posted.headers.get("content-encoding")) == (201, None)
    assert len(posted.body) > 2000


def test_a_stream_begins_at_once_and_is_not_packed(many: HttpServer) -> None:
    headers = {"Authorization": f"Bearer {many.token}", "Accept-Encoding": "gzip"}
    with closing(http.client.HTTPConnection(many.host, timeout=30)) as connection:
        connection.request("GET", "/v1/events/stream", headers=headers)
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Encoding")) == (200, None)
        response.close()
