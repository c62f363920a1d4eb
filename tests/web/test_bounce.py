"""Without a session a page asks for itself again, and for nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from page_server import PageServer

BOUNCE = "Continue to Matins"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    made = PageServer(f"sqlite:///{tmp_path_factory.mktemp('bounce')}/matins.db", start=False)
    yield made
    made.close()


def get(server: PageServer, path: str, **headers: str) -> tuple[int, str]:
    """The status and the text of a page, for an address that is sent as it is."""
    lines = {"Host": server.host, "Accept": "text/html", "Connection": "close", **headers}
    request = f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(request.encode("latin-1"))
        with connection.makefile("rb") as answer:
            status, text = answer.readline(), answer.read().decode()
    return int(status.split()[1]), text


@pytest.mark.parametrize("path", ["/", "/schedules", "/schedules?state=paused", "/runs/7"])
def test_a_page_asks_for_itself_again(server: PageServer, path: str) -> None:
    status, text = get(server, path)
    assert (status, BOUNCE in text) == (200, True)
    name, _, query = path.partition("?")
    assert f'content="0;url={name}?{query}{"&amp;" if query else ""}b=1"' in text


@pytest.mark.parametrize(
    "path",
    [
        "//host", "//host/schedules", "///host", "/\\host", "\\\\host", "/%2fhost", "/%2Fhost", "/%5chost", "/..//host",
        "/.//host",
        "/\t/host", "/%09/host", "/%0d%0aLocation:x", "/@host", "/:80", "//host/%2e%2e", "/nothing",
    ],
)  # fmt: skip
def test_no_other_address_is_asked_for(server: PageServer, path: str) -> None:
    """B7: `//host` is another site, and a person who signed in there would give it the link"""
    status, text = get(server, path)
    assert status in (400, 401, 403, 404)
    assert BOUNCE not in text
    assert "url=" not in text


def test_an_address_of_many_fields_is_refused(server: PageServer) -> None:
    """B7: and is no error of the server, with a session and without"""
    many = "/schedules?" + "&".join(f"f{n}=1" for n in range(101))
    assert get(server, many)[0] == 401
    cookie = f"matins_session={server.session()}"
    status, text = get(server, many, Cookie=cookie)
    assert (status, "more than 100 fields" in text) == (400, True)
    assert get(server, many.rpartition("&")[0], Cookie=cookie)[0] == 200
