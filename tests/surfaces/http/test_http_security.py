"""The local server under attack: other hosts, other sites, no token, and headers that mean two things."""

from __future__ import annotations

import re
import socket

import pytest
from http_server import YEARLY, HttpServer, Reply

from matins.model.access import OWNER
from matins.surfaces.http.browser_sessions import CODE_MS, COOKIE, SESSION_MS, BrowserSessions
from matins.testing import ManualClock

OPEN = {"/livez", "/readyz", "/login"}
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


def logged_in(server: HttpServer) -> str:
    said = server.ask("GET", f"/login?code={server.sessions.create_code(OWNER)}", token=None)
    assert said.status == 200
    return said.headers["set-cookie"].partition(";")[0]


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


def test_revoked_and_expired_tokens_open_nothing(server: HttpServer) -> None:
    made = server.client.tokens.create(name="x")
    assert server.ask("GET", "/v1/whoami", token=made.token).status == 200
    server.client.tokens.revoke(token_id=made.id)
    assert server.ask("GET", "/v1/whoami", token=made.token).status == 401


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
        assert said.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "server" not in said.headers


# -- browsers


def test_a_link_is_good_once(server: HttpServer) -> None:
    code = server.sessions.create_code(OWNER)
    first = server.ask("GET", f"/login?code={code}", token=None)
    assert first.status == 200
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200", first.headers["set-cookie"]
    )
    assert server.ask("GET", f"/login?code={code}", token=None).status == 403
    for wrong in ("", "?code=", "?code=x", f"?code={code}&code={code}"):
        assert server.ask("GET", f"/login{wrong}", token=None).status == 403


def test_links_and_sessions_end() -> None:
    clock = ManualClock()
    sessions = BrowserSessions(clock)
    late, code = sessions.create_code(OWNER), sessions.create_code(OWNER)
    session = sessions.open(code)
    assert session is not None
    clock.advance(CODE_MS)
    assert sessions.open(late) is None
    clock.advance(SESSION_MS - CODE_MS - 1)
    assert sessions.principal_of(session) == OWNER
    clock.advance(1)
    assert sessions.principal_of(session) is None
    for _ in range(1_500):
        sessions.create_code(OWNER)
    assert len(sessions._codes) <= 1_000


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
