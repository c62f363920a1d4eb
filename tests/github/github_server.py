"""A small GitHub on this machine: the calls that claiming an issue takes, with faults on demand."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

TOKEN = "ghp_of-the-tests"
BASE = "/api/v3"
Answer = tuple[int, dict[str, str], Any]
_ISSUE = re.compile(r"/repos/octo-org/garden/issues(?:/(\d+))?(?:/(comments|labels))?(?:/(.+))?")


@dataclass
class GitHub:
    port: int = 0
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[int, Answer] = field(default_factory=dict)
    """Answers to the n-th request from now, instead of what would be done."""
    lost: bool = False
    """Whether what such a request asks for is done nevertheless, and only its answer lost."""
    before: Callable[[str, str], None] = lambda method, path: None
    """Called before each request is answered."""
    association: str = "COLLABORATOR"
    requests: list[str] = field(default_factory=list)
    accepts: str = ""
    """The form that the last request asked for."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{BASE}"

    def add(self, number: int, *labels: str, **more: Any) -> None:
        self.issues[number] = {
            "number": number,
            "title": f"Issue {number}",
            "body": "It squeaks.",
            "html_url": f"https://github.com/octo-org/garden/issues/{number}",
            "labels": [{"name": label} for label in labels],
            "created_at": f"2026-03-{number % 28 + 1:02}T00:00:00Z",
            "state": "open",
            **more,
        }

    def say(self, number: int, body: str, association: str = "COLLABORATOR", kind: str = "User") -> dict[str, Any]:
        ids = [comment["id"] for comment in self.comments]
        comment = {
            "id": max(ids, default=100) + 1,
            "issue": number,
            "body": body,
            "author_association": association,
            "user": {"login": "somebody", "type": kind},
        }
        self.comments.append(comment)
        return comment

    def said(self, number: int) -> list[str]:
        return [comment["body"] for comment in self.comments if comment["issue"] == number]

    def labels(self, number: int) -> list[str]:
        return [label["name"] for label in self.issues[number]["labels"]]

    def answer(self, method: str, target: str, token: str | None, body: Any) -> Answer:
        path = unquote(urlsplit(target).path).removeprefix(BASE)
        self.before(method, path)
        with self.lock:
            self.requests.append(f"{method} {path}")
            self.faults = {at - 1: fault for at, fault in self.faults.items()}
            fault = self.faults.pop(0, None)
            if fault and not self.lost:
                return fault
            if token not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
                return 401, {}, {"message": "Bad credentials"}
            answer = self._routed(method, path, dict(parse_qsl(urlsplit(target).query)), body)
            return fault or answer

    def _routed(self, method: str, path: str, asked: dict[str, str], body: Any) -> Answer:
        found = _ISSUE.fullmatch(path)
        if method == "DELETE" and "/issues/comments/" in path:
            return self._withdraw(int(path.rpartition("/")[2]))
        if not found or (found[1] and int(found[1]) not in self.issues):
            return 404, {}, {"message": "Not Found"}
        number = int(found[1] or 0)
        match method, found[2]:
            case "GET", None:
                return 200, {}, self.issues[number] if number else _page(self._matching(asked), asked)
            case "PATCH", None:
                self.issues[number] |= body
                return 200, {}, self.issues[number]
            case "GET", "comments":
                return 200, {}, _page([one for one in self.comments if one["issue"] == number], asked)
            case "POST", "comments":
                return 201, {}, self.say(number, body["body"], self.association)
            case _:
                return self._labelled(method, number, found[3], body)

    def _matching(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        assert (asked["sort"], asked["direction"]) == ("created", "asc")
        wanted = {label.casefold() for label in asked["labels"].split(",")}
        found = [
            issue
            for number, issue in self.issues.items()
            if issue["state"] == asked["state"] and wanted <= {label.casefold() for label in self.labels(number)}
        ]
        return sorted(found, key=lambda issue: issue["created_at"])

    def _labelled(self, method: str, number: int, label: str | None, body: Any) -> Answer:
        labels = self.issues[number]["labels"]
        if method == "POST":
            labels += [{"name": name} for name in body["labels"] if name not in self.labels(number)]
        elif label not in self.labels(number):
            return 404, {}, {"message": "Label does not exist"}
        else:
            labels.remove({"name": label})
        return 200, {}, labels

    def _withdraw(self, comment_id: int) -> Answer:
        kept = [comment for comment in self.comments if comment["id"] != comment_id]
        gone = len(kept) == len(self.comments)
        self.comments = kept
        return (404, {}, {"message": "Not Found"}) if gone else (204, {}, None)


def _page(found: list[Any], asked: dict[str, str]) -> list[Any]:
    size, page = int(asked["per_page"]), int(asked["page"])
    assert size <= 100
    return found[size * (page - 1) : size * page]


def _handler(github: GitHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            given = json.loads(body) if body else None
            github.accepts = self.headers.get("accept", "")
            status, headers, said = github.answer(self.command, self.path, self.headers.get("authorization"), given)
            content = said if isinstance(said, bytes) else b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def github_server(github: GitHub | None = None) -> Iterator[GitHub]:
    github = github or GitHub()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(github)) as server:
        github.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield github
        finally:
            server.shutdown()
            thread.join()
