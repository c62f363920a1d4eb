"""The local server under attack: other hosts, other sites, no token, and headers that mean two things."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from http_house import YEARLY, House

from matins.model.principal import OWNER
from matins.surfaces.http.logins import CODE_MS, COOKIE, SESSION_MS, Logins
from matins.surfaces.routes import ROUTES
from matins.testing import ManualClock

OPEN = {"/livez", "/readyz", "/login"}


def raw(house: House, text: str | bytes) -> bytes:
    """What is answered to exactly these bytes, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", house.port), timeout=90) as connection:
        connection.sendall(text.encode("latin-1") if isinstance(text, str) else text)
        said = b""
        while part := connection.recv(65536):
            said += part
        return said


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


def logged_in(house: House) -> str:
    said = house.ask("GET", f"/login?code={house.logins.code(OWNER)}", token=None)
    assert said.status == 200
    return said.headers["set-cookie"].partition(";")[0]


# -- tokens


def test_nothing_is_done_without_a_token(house: House) -> None:
    """Every route, on loopback too."""
    for route in ROUTES:
        path = re.sub(r"{\w+(:path)?}", "1", route.path)
        said = house.ask(route.method, path, {} if route.has_body else None, token=None)
        assert (said.status, said.headers["www-authenticate"]) == (401, 'Bearer realm="matins"'), route
    for path in {route.path for route in house.app.routes} - OPEN - {"/logout"}:  # type: ignore[attr-defined]
        if "{" not in path:
            assert house.ask("GET", path, token=None).status == 401, path


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
def test_a_wrong_token_opens_nothing(house: House, said: str) -> None:
    answer = house.ask("GET", "/v1/whoami", token=None, Authorization=said)
    assert answer.status == 401
    assert said.encode() not in answer.body or said == "Bearer"


def test_revoked_and_expired_tokens_open_nothing(house: House) -> None:
    made = house.client.create_token(name="x")
    assert house.ask("GET", "/v1/whoami", token=made["token"]).status == 200
    house.client.revoke_token(token_id=made["id"])
    assert house.ask("GET", "/v1/whoami", token=made["token"]).status == 401


def test_each_role_may_do_what_it_may(house: House) -> None:
    """B7: the role is the token's; nobody says it in the request."""
    viewer, agent = house.new_token("viewer"), house.new_token("agent", "scout")
    body = {"name": "a", "when": "every 1h", "do": "work"}
    assert house.ask("POST", "/v1/schedules", body, token=viewer).status == 403
    proposed = house.ask("POST", "/v1/schedules", {**body, "agent": "scout"}, token=agent)
    assert (proposed.status, proposed.json["state"], proposed.json["created_by"]) == (201, "pending", "scout")
    assert house.ask("POST", "/v1/approvals/1/approve", {}, token=agent).status == 403
    assert house.ask("GET", "/v1/tokens", token=viewer).status == 403


@pytest.mark.parametrize("name", ["token", "access_token", "TOKEN", "api_key", "authorization"])
def test_a_token_in_the_address_is_refused_and_not_repeated(house: House, name: str) -> None:
    said = house.ask("GET", f"/v1/whoami?{name}={house.token}")
    assert (said.status, said.json["code"]) == (400, "token_in_address")
    assert house.token.encode() not in said.body


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
def test_only_hosts_that_were_named_are_answered(house: House, host: str) -> None:
    """A name that an attacker lets point here (rebinding) is another host, token or not."""
    name = host.format(port=house.port)
    request = f"GET /livez HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {house.token}\r\nConnection: close\r\n\r\n"
    assert status(raw(house, request)) == 421


def test_no_host_and_two_hosts_are_refused(house: House) -> None:
    assert status(raw(house, "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")) in (400, 421)
    two = f"GET /livez HTTP/1.1\r\nHost: {house.host}\r\nHost: evil\r\nConnection: close\r\n\r\n"
    assert status(raw(house, two)) == 400


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "https://{host}", "http://{host}.evil", "", "{url}/"]
)
def test_pages_of_other_sites_are_not_served(house: House, origin: str) -> None:
    said = house.ask("GET", "/v1/whoami", Origin=origin.format(host=house.host, url=house.url))
    assert (said.status, said.json["code"]) == (403, "wrong_origin")
    assert "access-control-allow-origin" not in said.headers


def test_our_own_pages_are_served(house: House) -> None:
    assert house.ask("GET", "/v1/whoami", Origin=house.url).status == 200
    preflight = house.ask("OPTIONS", "/v1/schedules", Origin=house.url, Access_Control_Request_Method="POST")
    assert (preflight.status, "access-control-allow-origin" in preflight.headers) == (405, False)


def test_every_answer_carries_the_headers_of_a_careful_server(house: House) -> None:
    for said in (house.ask("GET", "/v1/whoami"), house.ask("GET", "/no"), house.ask("GET", "/livez", Origin="null")):
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["cache-control"] == "no-store"
        assert said.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "server" not in said.headers


# -- browsers


def test_a_link_is_good_once(house: House) -> None:
    code = house.logins.code(OWNER)
    first = house.ask("GET", f"/login?code={code}", token=None)
    assert first.status == 200
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200", first.headers["set-cookie"]
    )
    assert house.ask("GET", f"/login?code={code}", token=None).status == 403
    for wrong in ("", "?code=", "?code=x", f"?code={code}&code={code}"):
        assert house.ask("GET", f"/login{wrong}", token=None).status == 403


def test_links_and_sessions_end() -> None:
    clock = ManualClock()
    logins = Logins(clock)
    late, code = logins.code(OWNER), logins.code(OWNER)
    session = logins.open(code)
    assert session is not None
    clock.advance(CODE_MS)
    assert logins.open(late) is None
    clock.advance(SESSION_MS - CODE_MS - 1)
    assert logins.principal_of(session) == OWNER
    clock.advance(1)
    assert logins.principal_of(session) is None
    for _ in range(1_500):
        logins.code(OWNER)
    assert len(logins._codes) <= 1_000


def test_a_cookie_alone_changes_nothing(house: House) -> None:
    """Another site can make a browser send a request with its cookie, but neither our header nor our origin."""
    cookie, body = logged_in(house), {"name": "a", "when": YEARLY, "do": "work"}
    ask: Callable[..., Any] = lambda **more: house.ask("POST", "/v1/schedules", body, token=None, Cookie=cookie, **more)  # noqa: E731
    assert house.ask("GET", "/v1/whoami", token=None, Cookie=cookie).json["role"] == "owner"
    assert (ask().status, ask().json["code"]) == (403, "csrf")
    assert ask(Origin=house.url).status == 403
    assert ask(Origin="http://evil.example", X_Matins_CSRF="1").status == 403
    assert ask(Origin="null", X_Matins_CSRF="1").status == 403
    assert house.client.overview() == []
    assert ask(Origin=house.url, X_Matins_CSRF="1").status == 201


def test_logging_out_ends_the_session(house: House) -> None:
    cookie = logged_in(house)
    assert house.ask("POST", "/logout", token=None, Cookie=cookie).status == 403
    said = house.ask("POST", "/logout", token=None, Cookie=cookie, X_Matins_CSRF="1")
    assert (said.status, f"{COOKIE}=;" in said.headers["set-cookie"]) == (204, True)
    assert house.ask("GET", "/v1/whoami", token=None, Cookie=cookie).status == 401


def test_a_made_up_session_is_none(house: House) -> None:
    for cookie in (f"{COOKIE}=", f"{COOKIE}=x", f"x{COOKIE}={'a' * 43}", f"{COOKIE}={'a' * 10_000}", "=;=;;"):
        assert house.ask("GET", "/v1/whoami", token=None, Cookie=cookie).status == 401


# -- smuggling


def smuggled(house: House, *headers: str, body: str = "") -> bytes:
    lines = "\r\n".join([f"POST /v1/schedules HTTP/1.1\r\nHost: {house.host}", f"Authorization: Bearer {house.token}",
                         "Content-Type: application/json", "Connection: close", *headers])  # fmt: skip
    return raw(house, f"{lines}\r\n\r\n{body}")


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
def test_a_request_that_could_be_read_in_two_ways_is_refused(house: House, headers: tuple[str, ...]) -> None:
    inner = f"GET /v1/tokens HTTP/1.1\r\nHost: {house.host}\r\nAuthorization: Bearer {house.token}\r\n\r\n"
    said = smuggled(house, *headers, body="0\r\n\r\n" + inner)
    assert 400 <= status(said) < 500
    assert b"created_by" not in said  # the inner request was not answered
    assert house.client.overview() == []


def test_headers_that_are_there_twice_are_refused(house: House) -> None:
    twice = f"GET /v1/whoami HTTP/1.1\r\nHost: {house.host}\r\nAuthorization: Bearer {house.token}\r\n"
    for name in ("Authorization", "Origin", "If-None-Match"):
        text = f"{twice}{name}: Bearer x\r\n{name}: Bearer y\r\nConnection: close\r\n\r\n"
        assert status(raw(house, text)) == 400, name


def test_a_line_break_in_a_path_or_name_reaches_no_header(house: House) -> None:
    name = "a\r\nSet-Cookie: x=y"
    said = house.ask("POST", "/v1/schedules", {"name": name, "when": YEARLY, "do": "work"})
    assert said.status == 422
    said = house.ask("GET", "/v1/schedules/a%0d%0aSet-Cookie:%20x=y")
    assert (said.status, "set-cookie" in said.headers) == (404, False)


@pytest.mark.parametrize(
    "path", ["/v1/../livez", "//livez", "/v1/schedules/../tokens", "/v1/schedules/%2e%2e/tokens", "/%6civez"]
)
def test_paths_are_taken_as_they_are(house: House, path: str) -> None:
    """Nothing is folded: what a proxy in front would let through by prefix is not another route here."""
    assert house.ask("GET", path).status == 404
