"""The local server under attack: other hosts, other sites, no token, and headers that mean two things."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from http_server import YEARLY, HttpServer, Reply

from matins import Matins
from matins.errors import NotAllowed, NotFound
from matins.model.access import OWNER, Principal
from matins.records.file_settings import HttpServer as HttpSettings
from matins.service.sign_in import IDLE_MS, LINK_MS, LONGEST_MS, SessionVerifier
from matins.surfaces.http.authentication import COOKIE
from matins.surfaces.http.server import bind
from matins.testing import ManualClock

OPEN = {"/livez", "/readyz", "/login", "/login/email", "/login/password", "/login/provider", "/login/provider/callback"}
CSP = "default-src 'none'; form-action 'self'; frame-ancestors 'none'"
BODIES = {"POST", "PUT", "PATCH"}


def raw(server: HttpServer, text: str | bytes) -> bytes:
    """What is answered to exactly these bytes, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=90) as connection:
        connection.sendall(text.encode("latin-1") if isinstance(text, str) else text)
        said = b""
        while part := connection.recv(65536):
            said += part
        return said


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def log_in(server: HttpServer, path: str, **more: str) -> Reply:
    """What the button of a login link does."""
    return server.ask("POST", "/login", path.partition("?")[2].encode(), token=None, headers=FORM, **more)


def logged_in(server: HttpServer, token_id: str | None = None) -> str:
    said = log_in(server, str(server.client.sessions.create(token_id=token_id).path))
    assert said.status == 303
    return said.headers["set-cookie"].partition(";")[0]


def seen_as(server: HttpServer, cookie: str) -> int:
    return server.ask("GET", "/v1/whoami", token=None, Cookie=cookie).status


# -- tokens


def test_nothing_is_done_without_a_token(server: HttpServer) -> None:
    """Every route, on loopback too."""
    for route in server.app.routes:
        if route.path not in OPEN:
            path = re.sub(r"{\w+(:path)?}", "1", route.path)
            said = server.ask(route.method, path, {} if route.method in BODIES else None, token=None)
            assert (said.status, said.headers["www-authenticate"]) == (401, 'Bearer realm="matins"'), route
            assert said.json["detail"] == "Authentication is required."


@pytest.mark.parametrize(
    "said",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic b3duZXI6",
        "bearer mtn_aaaaaaaa_" + "a" * 32,
        "Bearer " + "x" * 600,
        "Bearer a b",
    ],
)
def test_a_wrong_token_opens_nothing(server: HttpServer, said: str) -> None:
    answer = server.ask("GET", "/v1/whoami", token=None, Authorization=said)
    assert (answer.status, answer.json["detail"]) == (401, "The token is invalid, expired or revoked.")
    assert said.encode() not in answer.body or said == "Bearer"


def test_each_role_may_do_what_it_may(server: HttpServer) -> None:
    """B7: the role is the token's; nobody says it in the request."""
    viewer, agent = server.new_token("viewer"), server.new_token("agent", "scout")
    body = {"name": "a", "when": "every 1h", "job": "work"}
    assert server.ask("POST", "/v1/schedules", body, token=viewer).status == 403
    proposed = server.ask("POST", "/v1/schedules", {**body, "agent": "scout"}, token=agent)
    assert (proposed.status, proposed.json["state"], proposed.json["created_by"]) == (201, "pending", "scout")
    assert server.ask("POST", "/v1/approvals/1/approve", {}, token=agent).status == 403
    assert server.ask("GET", "/v1/tokens", token=viewer).status == 403


@pytest.mark.parametrize("name", ["token", "access_token", "TOKEN", "api_key", "authorization"])
def test_a_token_in_the_address_is_refused_and_not_repeated(server: HttpServer, name: str) -> None:
    said = server.ask("GET", f"/v1/whoami?{name}={server.token}")
    assert (said.status, said.json["code"]) == (400, "token_in_url")
    assert server.token.encode() not in said.body


# -- hosts and sites


@pytest.mark.parametrize(
    "host",
    [
        "evil",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost:{port}",
        "127.0.0.1.evil:{port}",
        "[::1]:{port}",
    ],
)
def test_only_hosts_that_were_named_are_answered(server: HttpServer, host: str) -> None:
    """A name that an attacker lets point here (rebinding) is another host, token or not."""
    name = host.format(port=server.port)
    request = (
        f"GET /livez HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
    )
    assert status(raw(server, request)) == 421


def test_no_host_and_two_hosts_are_refused(server: HttpServer) -> None:
    assert status(raw(server, "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")) in (400, 421)
    two = f"GET /livez HTTP/1.1\r\nHost: {server.host}\r\nHost: evil\r\nConnection: close\r\n\r\n"
    assert status(raw(server, two)) == 400


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "https://{host}", "http://{host}.evil", "", "{url}/"]
)
def test_pages_of_other_sites_are_not_served(server: HttpServer, origin: str) -> None:
    said = server.ask("GET", "/v1/whoami", Origin=origin.format(host=server.host, url=server.url))
    assert (said.status, said.json["code"]) == (403, "wrong_origin")
    assert "access-control-allow-origin" not in said.headers


def test_our_own_pages_are_served(server: HttpServer) -> None:
    assert server.ask("GET", "/v1/whoami", Origin=server.url).status == 200
    preflight = server.ask("OPTIONS", "/v1/schedules", Origin=server.url, Access_Control_Request_Method="POST")
    assert (preflight.status, "access-control-allow-origin" in preflight.headers) == (405, False)


def test_every_answer_carries_the_headers_of_a_careful_server(server: HttpServer) -> None:
    for said in (server.ask("GET", "/v1/whoami"), server.ask("GET", "/no"), server.ask("GET", "/livez", Origin="null")):
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["cache-control"] == "no-store"
        assert said.headers["content-security-policy"] == CSP
        assert "server" not in said.headers


# -- browsers


def test_a_link_is_good_once_and_opens_with_a_button(server: HttpServer) -> None:
    """A preview that looks at it, however often, does not use it up."""
    path = server.client.sessions.create().path
    assert path is not None
    for _ in range(3):
        page = server.ask("GET", path, token=None)
        assert (page.status, "set-cookie" in page.headers) == (200, False)
    code = path.partition("=")[2]
    assert f'<form method="post" action="/login"><input type="hidden" name="code" value="{code}">' in page.body.decode()
    assert page.headers["referrer-policy"] == "same-origin"
    first = log_in(server, path, Origin=server.url)
    assert (first.status, first.headers["location"]) == (303, "/")
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict; Max-Age=7776000", first.headers["set-cookie"]
    )
    assert log_in(server, path).status == 403
    for wrong in ("", "?code=", "?code=x", f"?code=x&code={code}", '?code="><script>'):
        assert server.ask("GET", f"/login{wrong}", token=None).status == 403
        assert log_in(server, f"/login{wrong}").status == 403
    assert log_in(server, path, Origin="http://evil.example").status == 403


def test_links_and_sessions_end(tmp_path: Path) -> None:
    """A link after ten minutes, a session when it rests for half a day, and after a week in any case."""
    clock = ManualClock()
    with closing(Matins(f"sqlite:///{tmp_path}/m.db", clock=clock)) as m:
        verifier = SessionVerifier(m.store, clock)
        late, code = (str(m.sessions.create().path).partition("=")[2] for _ in range(2))
        opened = verifier.open(code)
        assert opened is not None
        clock.advance(LINK_MS)
        assert verifier.open(late) is None
        clock.advance(IDLE_MS - LINK_MS - 1)
        assert verifier.principal_of(opened.secret) == OWNER
        clock.advance(IDLE_MS - 1)
        assert verifier.principal_of(opened.secret) == OWNER
        for _ in range(LONGEST_MS // IDLE_MS - 2):
            clock.advance(IDLE_MS - 1)
            assert verifier.principal_of(opened.secret) == OWNER
        clock.advance(IDLE_MS - 1)
        assert verifier.principal_of(opened.secret) is None
        assert m.sessions.list() == []


def test_sessions_are_listed_and_ended(each_server: HttpServer) -> None:
    """By who governs; the browser is out at once."""
    server = each_server
    cookie = logged_in(server)
    (session,) = server.client.sessions.list()
    assert (session.role, session.opened_at is None, seen_as(server, cookie)) == ("owner", False, 200)
    viewer = server.new_token("viewer")
    assert server.ask("GET", "/v1/sessions", token=viewer).status == 403
    assert server.client.sessions.revoke(session.id) is True
    assert (seen_as(server, cookie), server.client.sessions.list()) == (401, [])
    assert server.client.sessions.revoke(session.id) is False


def test_a_session_ends_with_the_token_that_it_came_from(each_server: HttpServer) -> None:
    """It has that token's rights, and its stream of events ends too. A link that was not opened is void."""
    server = each_server
    made = server.client.tokens.create("ada", role="viewer")
    cookie = logged_in(server, made.id)
    assert server.ask("GET", "/v1/whoami", token=None, Cookie=cookie).json["role"] == "viewer"
    assert server.ask("GET", "/v1/tokens", token=None, Cookie=cookie).status == 403
    link = str(server.client.sessions.create(token_id=made.id).path)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    with closing(connection):
        connection.request("GET", "/v1/events/stream?types=run.failed", headers={"Cookie": cookie})
        response = connection.getresponse()
        assert response.status == 200
        server.client.tokens.revoke(made.id)
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    assert (seen_as(server, cookie), log_in(server, link).status) == (401, 403)


def test_a_session_outlives_a_restart_but_not_its_token(make_server: Callable[..., HttpServer]) -> None:
    server = make_server()
    made = server.client.tokens.create("ada", expires_at=datetime.now(UTC) + timedelta(hours=1))
    cookie = logged_in(server, made.id)
    token, ends = server.token, server.client.sessions.list()[0].expires_at
    server.close()
    again = make_server(token=token)
    assert (seen_as(again, cookie), ends) == (200, made.expires_at)


def test_only_who_governs_makes_links_and_never_for_agents(server: HttpServer) -> None:
    agent = server.client.tokens.create("scout", role="agent")
    for token in (agent.token, server.new_token("viewer"), server.new_token("operator")):
        assert server.ask("POST", "/v1/sessions", {}, token=token).status == 403
    with pytest.raises(NotAllowed, match="An agent has no browser session"):
        server.matins.sessions.create(token_id=agent.id)
    with pytest.raises(NotFound, match='There is no valid token "nobody"'):
        server.client.sessions.create(token_id="nobody")
    with pytest.raises(NotAllowed):
        server.matins.acting_as(Principal("agent", "scout")).sessions.create()


@pytest.mark.parametrize(
    ("settings", "headers", "secure"),
    [
        ({}, {}, False),
        ({}, {"X-Forwarded-Proto": "https"}, False),
        ({"trusted_proxies": ("127.0.0.1",)}, {"X-Forwarded-Proto": "https"}, True),
        ({"trusted_proxies": ("127.0.0.0/8",)}, {"X-Forwarded-Proto": "https, http"}, False),
        ({"trusted_proxies": ("10.0.0.1",)}, {"X-Forwarded-Proto": "https"}, False),
        ({"public_url": "https://{host}"}, {}, True),
        (
            {"public_url": "https://{host}", "trusted_proxies": ("::1", "127.0.0.1")},
            {"X-Forwarded-Proto": "http"},
            False,
        ),
        ({"public_url": "http://{host}"}, {}, False),
        ({"public_url": "https://other.example"}, {}, False),
    ],
)
def test_behind_https_cookies_are_secure(
    make_server: Callable[..., HttpServer], settings: dict[str, Any], headers: dict[str, str], secure: bool
) -> None:
    """By the public URL, or by the word of a trusted proxy; and browsers are told to stay with https."""
    if "public_url" in settings:
        with bind("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        settings = {**settings, "public_url": settings["public_url"].format(host=f"127.0.0.1:{port}")}
    else:
        port = 0
    server = make_server(settings=HttpSettings(**settings), port=port)
    said = log_in(server, str(server.client.sessions.create().path), **headers)
    assert ("; Secure" in said.headers["set-cookie"], "strict-transport-security" in said.headers) == (secure, secure)


def test_a_cookie_alone_changes_nothing(server: HttpServer) -> None:
    """Another site can make a browser send a request with its cookie, but neither our header nor our origin."""
    cookie, body = logged_in(server), {"name": "a", "when": YEARLY, "job": "work"}

    def ask(**more: str) -> Reply:
        return server.ask("POST", "/v1/schedules", body, token=None, Cookie=cookie, **more)

    assert server.ask("GET", "/v1/whoami", token=None, Cookie=cookie).json["role"] == "owner"
    assert (ask().status, ask().json["code"]) == (403, "csrf")
    assert ask(Origin=server.url).status == 403
    assert ask(Origin="http://evil.example", X_Matins_CSRF="1").status == 403
    assert ask(Origin="null", X_Matins_CSRF="1").status == 403
    assert server.client.list() == []
    assert ask(Origin=server.url, X_Matins_CSRF="1").status == 201


def test_logging_out_ends_the_session(server: HttpServer) -> None:
    cookie = logged_in(server)
    assert server.ask("POST", "/logout", token=None, Cookie=cookie).status == 403
    said = server.ask("POST", "/logout", token=None, Cookie=cookie, X_Matins_CSRF="1")
    assert (said.status, f"{COOKIE}=;" in said.headers["set-cookie"]) == (204, True)
    assert server.ask("GET", "/v1/whoami", token=None, Cookie=cookie).status == 401


def test_a_made_up_session_is_none(server: HttpServer) -> None:
    for cookie in (f"{COOKIE}=", f"{COOKIE}=x", f"x{COOKIE}={'a' * 43}", f"{COOKIE}={'a' * 10_000}", "=;=;;"):
        assert server.ask("GET", "/v1/whoami", token=None, Cookie=cookie).status == 401


# -- smuggling


def smuggled(server: HttpServer, *headers: str, body: str = "") -> bytes:
    lines = "\r\n".join([f"POST /v1/schedules HTTP/1.1\r\nHost: {server.host}", f"Authorization: Bearer {server.token}",
                         "Content-Type: application/json", "Connection: close", *headers])  # fmt: skip
    return raw(server, f"{lines}\r\n\r\n{body}")


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 50"),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: xchunked",),
        ("Content-Length: -5",),
        ("Content-Length: +5",),
        ("Content-Length: 0x5",),
        ("Content-Length : 5",),
        ("Bad Header: 5", "Content-Length: 0"),
        ("X: a\r\n b", "Content-Length: 0"),
        ("X: a\x00b", "Content-Length: 0"),
    ],
)
def test_a_request_that_could_be_read_in_two_ways_is_refused(server: HttpServer, headers: tuple[str, ...]) -> None:
    inner = f"GET /v1/tokens HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    said = smuggled(server, *headers, body="0\r\n\r\n" + inner)
    assert 400 <= status(said) < 500
    assert b"created_by" not in said  # the inner request was not answered
    assert server.client.list() == []


def test_headers_that_are_there_twice_are_refused(server: HttpServer) -> None:
    twice = f"GET /v1/whoami HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
    for name in ("Authorization", "Origin", "If-None-Match"):
        text = f"{twice}{name}: Bearer x\r\n{name}: Bearer y\r\nConnection: close\r\n\r\n"
        assert status(raw(server, text)) == 400, name


def test_a_line_break_in_a_path_or_name_reaches_no_header(server: HttpServer) -> None:
    name = "a\r\nSet-Cookie: x=y"
    said = server.ask("POST", "/v1/schedules", {"name": name, "when": YEARLY, "job": "work"})
    assert said.status == 422
    said = server.ask("GET", "/v1/schedules/a%0d%0aSet-Cookie:%20x=y")
    assert (said.status, "set-cookie" in said.headers) == (404, False)


@pytest.mark.parametrize(
    "path", ["/v1/../livez", "//livez", "/v1/schedules/../tokens", "/v1/schedules/%2e%2e/tokens", "/%6civez"]
)
def test_paths_are_taken_as_they_are(server: HttpServer, path: str) -> None:
    """Nothing is folded: what a proxy in front would let through by prefix is not another route here."""
    assert server.ask("GET", path).status == 404
