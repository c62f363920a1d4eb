"""The door out: what is sent, and what comes back."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sites import PUBLIC_V6, Site, nowhere

from matins.errors import InvalidInput
from matins.net.outbound import HttpClient


def test_b14_a_ping_to_an_outside_url(site: Site) -> None:
    """B14: one GET, a status back."""
    answer = HttpClient([site.host]).send("GET", site.url("/ping/uuid?rid=7"))
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"well", "4")
    (method, path, headers, body) = site.seen[0]
    assert (method, path, body, headers["host"]) == ("GET", "/ping/uuid?rid=7", b"", site.host)
    assert headers["user-agent"].startswith("matins/")


def test_body_and_headers_arrive_as_given(site: Site) -> None:
    body = bytes(range(256)) * 1000
    HttpClient([site.host]).send("POST", site.url(), body=body, headers={"Content-Type": "a/b", "User-Agent": "me"})
    (method, _, headers, arrived) = site.seen[0]
    assert (method, arrived, headers["content-type"], headers["user-agent"]) == ("POST", body, "a/b", "me")


def test_a_bad_status_is_an_answer(site: Site) -> None:
    site.pages["/"] = (503, {"Retry-After": "7"}, b"later")
    answer = HttpClient([site.host]).send("POST", site.url())
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, b"later", "7")


def test_threads_share_a_door(site: Site) -> None:
    door = HttpClient([site.host])
    for number in range(40):
        site.pages[f"/{number}"] = (200, {}, str(number).encode())
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda number: door.send("GET", site.url(f"/{number}")).body, range(40)))
    assert bodies == [str(number).encode() for number in range(40)]


def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert HttpClient([site.host]).send("GET", site.url()).status == 200


@pytest.mark.parametrize("method", ["get", "CONNECT", "GET / HTTP/1.1\r\nX:", ""])
def test_methods_are_those_of_http(method: str) -> None:
    with pytest.raises(InvalidInput, match="is not an HTTP method"):
        HttpClient(resolve=nowhere).send(method, "https://example.com/")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Host", "evil.example", "set by Matins"),
        ("Content-Length", "0", "set by Matins"),
        ("transfer-encoding", "chunked", "set by Matins"),
        ("X-A", "1\r\nHost: evil.example", "cannot be sent"),
        ("X-A", "1\n", "cannot be sent"),
        ("X-A\r\nX-B", "1", "cannot be sent"),
        ("X A", "1", "cannot be sent"),
        ("", "1", "cannot be sent"),
        ("X-A", "ä", "cannot be sent"),
    ],
)
def test_headers_that_would_change_the_request_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        HttpClient(resolve=nowhere).send("GET", "https://example.com/", headers={name: value})


def test_an_ipv6_address_stands_in_brackets(site: Site, dialled: list[str]) -> None:
    HttpClient(resolve=nowhere).send("GET", site.url(host=f"[{PUBLIC_V6}]"))
    assert dialled == [PUBLIC_V6]
    assert site.seen[0][2]["host"] == f"[{PUBLIC_V6}]:{site.port}"
