"""Answers that are too much, too slow or wrong."""

import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from sites import CLOSED, Resolver, Site

from matins.net.outbound import HttpClient, Unreachable

Say = Callable[[Callable[[socket.socket], None]], str]


def test_of_a_huge_answer_the_first_64_kb_are_taken(site: Site) -> None:
    site.pages["/"] = (200, {}, b"x" * 100_000)
    assert HttpClient([site.host]).send("GET", site.url()).body == b"x" * 65_536


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("start", [OK + b"\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n"])
def test_an_answer_without_end_is_cut(say: Say, start: bytes) -> None:
    host = say(lambda sock: _pour(sock, start))
    assert HttpClient([host]).send("GET", f"http://{host}/").body == b"x" * 65_536


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", "is too long"),
        (OK + b"A: ", "not valid HTTP"),
        (b"", "not valid HTTP"),
    ],
    ids=["chunk", "header", "status"],
)
def test_an_answer_without_end_cannot_fill_the_memory(say: Say, start: bytes, said: str) -> None:
    host = say(lambda sock: _pour(sock, start))
    with pytest.raises(Unreachable, match=said):
        HttpClient([host]).send("GET", f"http://{host}/")


def _pour(sock: socket.socket, start: bytes) -> None:
    """Until the other side has had enough, or it is clear that it never has."""
    sock.sendall(start)
    for _ in range(2000):
        sock.sendall(b"x" * 65_536)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        OK + b"Content-Length: 10\r\n\r\nshort",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nsho",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nshort\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"A: 1\r\n" * 200 + b"\r\n",
    ],
)
def test_a_broken_answer_can_be_tried_again(say: Say, said: bytes) -> None:
    host = say(lambda sock: sock.sendall(said))
    with pytest.raises(Unreachable, match=f"http://{host} cannot be reached: ") as failed:
        HttpClient([host]).send("GET", f"http://{host}/hook/key")
    assert (failed.value.code, failed.value.retryable) == ("unreachable", True)
    assert "key" not in str(failed.value)


def test_a_silent_server_is_given_up(say: Say) -> None:
    given_up = threading.Event()
    host = say(lambda _: given_up.wait(90) and None)
    with pytest.raises(Unreachable, match="no complete answer in time"):
        HttpClient([host], timeout_s=0.05).send("GET", f"http://{host}/")
    given_up.set()


@pytest.mark.parametrize("at_once", [b"", OK + b"Content-Length: 3000\r\n\r\n"], ids=["headers", "body"])
def test_a_server_that_drips_is_given_up(say: Say, at_once: bytes) -> None:
    """Each byte comes well within the time; all of them together do not."""
    given_up = threading.Event()
    answer = OK + b"Content-Length: 3000\r\n\r\n" + b"x" * 3000

    def drip(sock: socket.socket) -> None:
        sock.sendall(at_once)
        for byte in answer.removeprefix(at_once):
            sock.sendall(bytes([byte]))
            given_up.wait(0.03)

    host = say(drip)
    with pytest.raises(Unreachable, match="no complete answer in time"):
        HttpClient([host], timeout_s=0.3).send("GET", f"http://{host}/")
    given_up.set()


def test_the_time_is_for_all_redirects_together(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.redirect("/", "/there")
    now = [0.0]

    def slow(host: str, port: int) -> list[str]:
        now[0] += 8
        return ["127.0.0.1"]

    monkeypatch.setattr("matins.net.outbound.time", SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.raises(Unreachable, match="no complete answer in time"):
        HttpClient(["slow.example"], slow, timeout_s=15).send("GET", site.url(host="slow.example"))
    assert len(site.seen) == 1


def test_a_closed_port_can_be_tried_again() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="Connection refused"):
            HttpClient([host]).send("GET", f"http://{host}/")


def test_a_name_that_does_not_resolve_can_be_tried_again() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(Unreachable, match="Name or service not known"):
        HttpClient(resolve=unknown).send("GET", "https://gone.example/")
    with pytest.raises(Unreachable, match="no address"):
        HttpClient(resolve=Resolver([])).send("GET", "https://gone.example/")


def test_the_next_address_is_tried_when_one_does_not_answer(site: Site, dialled: list[str]) -> None:
    resolver = Resolver([CLOSED, "127.0.0.1"])
    assert HttpClient(["two.example"], resolver).send("GET", site.url(host="two.example")).status == 200
    assert dialled == [CLOSED, "127.0.0.1"]
    assert len(resolver.asked) == 1


def test_an_error_says_whether_the_request_may_have_arrived(say: Say) -> None:
    """A lost response is not a refused connection: what was sent must not be sent again unseen."""
    lost = say(lambda sock: None)
    with pytest.raises(Unreachable) as caught:
        HttpClient([lost]).send("POST", f"http://{lost}/", body=b"x")
    assert caught.value.sent
    broken = say(lambda sock: sock.sendall(OK + b"Content-Length: 10\r\n\r\nshort"))
    with pytest.raises(Unreachable) as caught:
        HttpClient([broken]).send("POST", f"http://{broken}/", body=b"x")
    assert caught.value.sent
    with pytest.raises(Unreachable) as caught:
        HttpClient(["127.0.0.1:9"]).send("POST", "http://127.0.0.1:9/", body=b"x")
    assert not caught.value.sent
