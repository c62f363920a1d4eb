"""Signing in over HTTP: by mail, by a password, by a provider; what is forged, stale or another's is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from http_server import HttpServer, Reply

from matins.surfaces.http.authentication import COOKIE
from standins.mails import Mails, open_mails
from standins.oidc import CLIENT, SECRET, Oidc, open_provider

PASSWORD = "correct horse battery"
LINK = re.compile(r"http://127\.0\.0\.1:\d+(/login\?code=[\w-]{43})")


@pytest.fixture
def mails() -> Iterator[Mails]:
    with open_mails() as (taken, port):
        taken.port = port  # type: ignore[attr-defined]
        yield taken


@pytest.fixture
def provider(server: HttpServer, tmp_path: Path) -> Iterator[Oidc]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with open_provider() as oidc:
        server.matins.sign_in.set(issuer=oidc.issuer, client_id=CLIENT, client_secret=f"file:{secret}")
        yield oidc


def post(server: HttpServer, path: str, cookie: str = "", **fields: str) -> Reply:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url, "Cookie": cookie}
    return server.ask("POST", path, urlencode(fields).encode(), token=None, headers=headers)


def cookies_of(reply: Reply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


def whoami(server: HttpServer, reply: Reply) -> tuple[str, str]:
    assert reply.status == 303, reply.body
    said = server.ask("GET", "/v1/whoami", token=None, headers={"Cookie": cookies_of(reply)}).json
    return said["person"], said["role"]


def refused(server: HttpServer) -> list[str]:
    return [event.data["reason"] for event in server.matins.events.list(types=["sign_in.refused"])]


def mailed_link(server: HttpServer, mails: Mails) -> str:
    """The path of the link in the newest mail, once it is there."""
    number = len(mails.taken)
    del number
    text = mails.taken[-1][1].get_content()
    found = LINK.search(text)
    assert found is not None, text
    return found[1]


def asked_by_mail(server: HttpServer, mails: Mails) -> tuple[str, str]:
    """The link that was mailed, and the cookie of the browser that asked for it."""
    server.matins.people.set("ada", role="operator", email="ada@example.com")
    server.matins.smtp.set(host="127.0.0.1", port=mails.port, tls="none")  # type: ignore[attr-defined]
    reply = post(server, "/login/email", email="Ada@example.com ")
    assert (reply.status, reply.json) == (202, {"asked": True})
    server.app._sign_in._mails.submit(lambda: None).result()  # after the mail
    return mailed_link(server, mails), cookies_of(reply)


def test_a_mailed_link_signs_in_the_browser_that_asked_and_once(server: HttpServer, mails: Mails) -> None:
    path, cookie = asked_by_mail(server, mails)
    code = path.partition("=")[2]
    other = post(server, "/login", code=code)
    assert (other.status, other.json["code"]) == (403, "sign_in_refused")
    assert "another browser" in other.json["detail"]
    assert whoami(server, post(server, "/login", cookie, code=code)) == ("ada", "operator")
    again = post(server, "/login", cookie, code=code)
    assert (again.status, again.json["code"]) == (403, "login_refused")
    assert refused(server) == ["another browser"]
    events = str(server.matins.events.list(limit=1000))
    assert code not in events
    assert cookie.partition("=")[2] not in events


def test_an_unknown_address_is_answered_as_a_known_one(server: HttpServer, mails: Mails) -> None:
    asked_by_mail(server, mails)
    reply = post(server, "/login/email", email="eve@example.com")
    assert (reply.status, reply.json) == (202, {"asked": True})
    server.app._sign_in._mails.submit(lambda: None).result()
    assert len(mails.taken) == 1
    assert refused(server) == ["unknown address"]
    for _ in range(4):
        post(server, "/login/email", email="eve@example.com")
    assert post(server, "/login/email", email="eve@example.com").status == 429


def test_a_password_is_guessed_five_times(server: HttpServer) -> None:
    link = server.matins.people.invite("ada@example.com").link
    joined = post(server, "/login", code=link.partition("=")[2], password=PASSWORD)
    assert whoami(server, joined) == ("ada", "operator")
    assert whoami(server, post(server, "/login/password", name="ada", password=PASSWORD)) == ("ada", "operator")
    for _ in range(5):
        assert post(server, "/login/password", name="ada", password="wrong").json["code"] == "sign_in_refused"
    late = post(server, "/login/password", name="ada", password=PASSWORD)
    assert (late.status, late.json["code"]) == (429, "too_many_tries")


def test_another_site_cannot_sign_a_browser_in(server: HttpServer) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example"}
    for path in ("/login", "/login/email", "/login/password"):
        said = server.ask("POST", path, b"name=ada&password=x", token=None, headers=headers)
        assert (said.status, said.json["code"]) == (403, "wrong_origin")


# -- a provider


def begun(server: HttpServer) -> tuple[str, str]:
    """The address of the provider, and the cookie of the try."""
    reply = server.ask("GET", "/login/provider", token=None)
    assert reply.status == 303
    assert "SameSite=Lax" in reply.headers["set-cookie"]
    return reply.headers["location"], cookies_of(reply)


def answered(provider: Oidc, address: str) -> str:
    """Where the provider sends the browser back."""
    split = urlsplit(address)
    fields = dict(pair.split("=", 1) for pair in split.query.split("&"))
    from urllib.parse import unquote_plus

    _, headers, _ = provider.get("/authorize", {name: unquote_plus(value) for name, value in fields.items()})
    back = urlsplit(headers["Location"])
    return f"{back.path}?{back.query}"


def signed_in(server: HttpServer, provider: Oidc) -> Reply:
    address, cookie = begun(server)
    return server.ask("GET", answered(provider, address), token=None, headers={"Cookie": cookie})


def test_a_provider_signs_in_by_its_subject_from_then_on(server: HttpServer, provider: Oidc) -> None:
    server.matins.people.set("ada", role="operator", email="ADA@example.com")
    assert whoami(server, signed_in(server, provider)) == ("ada", "operator")
    provider.person = {"sub": "ada-1", "email": "new@example.com", "email_verified": False}
    assert whoami(server, signed_in(server, provider)) == ("ada", "operator")
    provider.person = {"sub": "eve-1", "email": "ada@example.com", "email_verified": False}
    said = signed_in(server, provider)
    assert (said.status, said.json["code"]) == (403, "sign_in_refused")
    assert refused(server) == ["the address is not verified"]
    server.matins.people.leave("ada")
    provider.person = {"sub": "ada-1", "email": "ada@example.com", "email_verified": True}
    assert signed_in(server, provider).status == 403
    assert refused(server)[-1] == "no person has this address"


def test_who_is_new_joins_only_with_a_role_and_from_a_domain_of_ours(server: HttpServer, provider: Oidc) -> None:
    assert signed_in(server, provider).status == 403
    server.matins.sign_in.edit(domains=["example.com"], role="viewer")
    assert whoami(server, signed_in(server, provider)) == ("ada", "viewer")
    provider.person = {"sub": "eve", "email": "eve@evil.example", "email_verified": True}
    assert signed_in(server, provider).status == 403
    provider.person = {"sub": "eve", "email": "eve@example.com"}
    assert signed_in(server, provider).status == 403
    assert refused(server) == [
        "no person has this address", "the domain of the address is not one of ours", "the address is not verified",
    ]  # fmt: skip
    assert [person.name for person in server.matins.people.list()] == ["ada"]


def test_an_address_that_the_provider_tells_apart_is_of_the_same_subject(server: HttpServer, provider: Oidc) -> None:
    server.matins.people.set("ada", role="operator", email="ada@example.com")
    provider.discovered = {"userinfo_endpoint": f"{provider.issuer}/me"}
    provider.told = {**provider.person, "sub": "eve"}
    assert signed_in(server, provider).status == 403
    assert "another subject" in refused(server)[-1]
    provider.told = provider.person
    assert whoami(server, signed_in(server, provider)) == ("ada", "operator")


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"claims": {"nonce": "another"}}, "nonce"),
        ({"claims": {"iss": "https://evil.example"}}, "iss"),
        ({"claims": {"aud": "another"}}, "aud"),
        ({"claims": {"exp": 1}}, "expired"),
        ({"claims": {"azp": "another"}}, "for another program"),
        ({"wrong_key": True}, "ID token"),
        ({"algorithm": "none"}, "ID token"),
        ({"discovered": {"issuer": "https://evil.example"}}, "another issuer"),
        ({"discovered": {"token_endpoint": "http://evil.example/token"}}, "not an address with https"),
    ],
    ids=str,
)
def test_a_forged_answer_signs_nobody_in(server: HttpServer, provider: Oidc, lie: dict[str, Any], reason: str) -> None:
    server.matins.people.set("ada", role="operator", email="ada@example.com")
    address, cookie = begun(server)
    for name, value in lie.items():
        setattr(provider, name, value)
    said = server.ask("GET", answered(provider, address), token=None, headers={"Cookie": cookie})
    assert (said.status, said.json["code"]) == (403, "sign_in_refused")
    assert reason in refused(server)[-1]
    assert server.matins.sessions.list() == []


def test_a_forged_state_another_browser_and_a_second_time_are_refused(server: HttpServer, provider: Oidc) -> None:
    server.matins.people.set("ada", role="operator", email="ada@example.com")
    address, cookie = begun(server)
    back = answered(provider, address)
    _, another = begun(server)

    def ask(path: str, cookie: str) -> int:
        return server.ask("GET", path, token=None, headers={"Cookie": cookie}).status

    assert ask(re.sub("state=[^&]*", "state=forged", back), cookie) == 403
    assert ask(back, another) == 403
    assert ask(back, f"{COOKIE}=x") == 403
    assert ask(re.sub("iss=[^&]*", "iss=https://evil.example", back), cookie) == 403
    assert ask(re.sub("code=[^&]*", "code=guessed", back), cookie) == 403
    assert ask(back, cookie) == 303
    assert ask(back, cookie) == 403
    assert len(refused(server)) == 6
