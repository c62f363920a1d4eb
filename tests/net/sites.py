"""Real servers on this machine, that say what a test tells them to."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PUBLIC = "93.184.216.34"
PUBLIC_V6 = "2606:4700::1111"
CLOSED = "192.0.2.1"


def nowhere(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was looked up")


class Resolver:
    """Gives each answer once, and the last one from then on."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class Site:
    """An HTTP server: `pages` are status, headers and body by path; `seen` is what came in."""

    port: int
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def redirect(self, path: str, location: str, status: int = 302) -> None:
        self.pages[path] = (status, {"Location": location}, b"")


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            site.seen.append((self.command, self.path, headers, body))
            status, said, content = site.pages.get(self.path, (200, {}, b"well"))
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **said}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), OSError):  # clients that hang up are what the tests are about
            super().handle_error(request, client_address)


@contextmanager
def http_site(secure: Callable[[socket.socket], socket.socket] = lambda sock: sock) -> Iterator[Site]:
    site = Site(0)
    with _Server(("127.0.0.1", 0), _handler(site)) as server:
        server.socket = secure(server.socket)
        site.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def serve_one(listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        try:
            talk(connection)
        except ConnectionError:
            return  # the door has heard enough
