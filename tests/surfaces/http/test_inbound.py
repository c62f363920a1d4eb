"""Inbound webhooks over HTTP: signed deliveries start runs, everything else starts nothing."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import inbound_senders as senders
import pytest
from http_server import HttpServer, Reply
from inbound_senders import PAYMENT, PULL_REQUEST, SECRET

from matins.service.calls import InboundReceiver
from matins.surfaces.http.inbound import InboundApp
from matins.surfaces.http.server import Server, bind
from matins.testing import ManualClock

NOW = "2026-03-27T08:00:00Z"


class Inbox:
    """A server whose inbound endpoints have a listener of their own."""

    def __init__(self, server: HttpServer, body_timeout_s: float = 10.0) -> None:
        self.matins, self.token = server.matins, server.token
        self.clock: Any = server.matins.clock
        receiver = InboundReceiver(server.matins, server.matins.store, server.matins.clock)
        listening = bind("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        self._server = Server(InboundApp(receiver, body_timeout_s), listening)
        self._server.start()

    @property
    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def endpoint(self, kind: str, name: str = "hook", **settings: Any) -> None:
        self.matins.inbound.set(name, **{"kind": kind, "secret": "env:HOOK_SECRET", **settings})
        self.matins.add(f"on-{name}", on={"webhook": name}, job="work")

    def post(self, delivery: tuple[bytes, dict[str, str]], name: str = "hook", **headers: str) -> Reply:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            connection.request("POST", f"/in/{name}", delivery[0], {**delivery[1], **headers})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def runs(self, name: str = "on-hook") -> list[Any]:
        return self.matins.runs.list(schedule=name)

    def close(self) -> None:
        self._server.stop()


@pytest.fixture
def inbox(make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    made = Inbox(make_server(clock=ManualClock(NOW), start=False))
    yield made
    made.close()


# -- each kind


def deliveries(now_s: int) -> dict[str, tuple[bytes, dict[str, str]]]:
    event = {"type": "event_callback", "event_id": "Ev08MFMKH6", "event": {"type": "app_mention", "text": "hi"}}
    return {
        "standard": senders.standard(now_s, {"type": "invoice.paid", "data": {}}),
        "github": senders.github(),
        "stripe": senders.stripe(now_s),
        "slack": senders.slack(now_s, event),
        "gitlab": senders.gitlab({"object_kind": "merge_request"}),
        "hmac": senders.own(now_s, {"type": "made"}, "d-1"),
        "bearer": senders.bearer({"type": "done"}),
    }


KEYS = {
    "standard": ("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "invoice.paid"),
    "github": ("72d3162e-cc78-11e3-81ab-4c9367dc0958", "pull_request"),
    "stripe": (PAYMENT["id"], "payment_intent.succeeded"),
    "slack": ("Ev08MFMKH6", "app_mention"),
    "gitlab": ("c2675c66", "Merge Request Hook"),
    "hmac": ("d-1", "made"),
    "bearer": (None, "done"),
}
TIMED = ("standard", "stripe", "slack", "hmac")


def settings_of(kind: str) -> dict[str, Any]:
    return senders.OWN if kind == "hmac" else {}


@pytest.mark.parametrize("kind", KEYS)
def test_h5_a_signed_delivery_of_each_kind_starts_a_run(
    inbox: Inbox, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: webhooks really trigger; delivered again, the answer is the first run"""
    if kind == "standard":
        monkeypatch.setenv("HOOK_SECRET", senders.STANDARD_SECRET)
    inbox.endpoint(kind, **settings_of(kind))
    delivery = deliveries(inbox.now_s)[kind]
    first = inbox.post(delivery)
    assert first.status == 202, first.body
    (run,) = inbox.runs()
    assert first.json == {"delivery": "1", "outcome": "accepted", "runs": [run.id]}
    again = inbox.post(delivery)
    assert (again.status, again.json) == (202, {"delivery": "1", "outcome": "duplicate", "runs": [run.id]})
    (call,) = inbox.matins.calls.list()
    key, event = KEYS[kind]
    assert (call.type, call.outcome) == (event, "accepted")
    assert call.key == key or (key is None and call.key.startswith("sha256:"))
    assert inbox.matins.calls.get(call.id).body == json.loads(delivery[0])


@pytest.mark.parametrize("kind", KEYS)
def test_a_changed_byte_or_another_secret_is_refused(inbox: Inbox, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is verified as it arrived: the same document, encoded again, is not what was signed."""
    if kind == "standard":
        monkeypatch.setenv("HOOK_SECRET", senders.STANDARD_SECRET)
    inbox.endpoint(kind, **settings_of(kind))
    body, headers = deliveries(inbox.now_s)[kind]
    encoded_again = json.dumps(json.loads(body), indent=1).encode()
    unsigned = {name: value for name, value in headers.items() if name in ("Content-Type", "X-GitHub-Event")}
    attempts = [(body, unsigned), (b"", unsigned)]
    if kind not in ("gitlab", "bearer"):
        attempts += [(encoded_again, headers), (body + b" ", headers)]
    refused = [inbox.post(attempt) for attempt in attempts]
    monkeypatch.setenv("HOOK_SECRET", senders.STANDARD_SECRET[:-2] + "==" if kind == "standard" else "another")
    refused.append(inbox.post((body, headers)))
    assert {(reply.status, reply.json["detail"]) for reply in refused} == {
        (401, "The delivery is not signed as it should be.")
    }
    assert inbox.runs() == inbox.matins.calls.list() == []


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("seconds", [-301, 301])
def test_an_old_or_early_timestamp_is_refused(
    inbox: Inbox, kind: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "standard":
        monkeypatch.setenv("HOOK_SECRET", senders.STANDARD_SECRET)
    inbox.endpoint(kind, **settings_of(kind))
    assert inbox.post(deliveries(inbox.now_s + seconds)[kind]).status == 401
    assert inbox.post(deliveries(inbox.now_s + seconds // 301 * 299)[kind]).status == 202


def test_both_secrets_hold_while_one_is_replaced(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.endpoint("github", previous_secret="env:OLD_SECRET")
    monkeypatch.setenv("OLD_SECRET", "old")
    assert inbox.post(senders.github(secret="old", key="a")).status == 202
    assert inbox.post(senders.github(key="b")).status == 202
    assert inbox.post(senders.github(secret="older", key="c")).status == 401


def test_a_secret_that_is_not_there_is_the_owners_fault(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender is told to try again; an empty secret signs nothing."""
    inbox.endpoint("github")
    monkeypatch.setenv("HOOK_SECRET", "")
    assert inbox.post(senders.github(secret="")).status == 401
    monkeypatch.delenv("HOOK_SECRET")
    reply = inbox.post(senders.github())
    assert (reply.status, reply.headers["retry-after"]) == (503, "60")
    assert SECRET not in reply.body.decode()


# -- what is recorded


def outcome(reply: Reply) -> str:
    assert reply.status == 202, reply.body
    return reply.json["outcome"]


def test_a_body_without_an_id_is_the_same_delivery_for_a_day(inbox: Inbox) -> None:
    inbox.endpoint("bearer")
    delivery = senders.bearer({"done": True})
    inbox.clock.advance_to("2026-03-27T23:00:00Z")
    assert [outcome(inbox.post(delivery)) for _ in range(2)] == ["accepted", "duplicate"]
    inbox.clock.advance_to("2026-03-28T22:00:00Z")  # another day, but not 24 hours later
    assert outcome(inbox.post(delivery)) == "duplicate"
    inbox.clock.advance_to("2026-03-28T23:00:01Z")
    assert outcome(inbox.post(delivery)) == "accepted"


def test_b16_what_was_signed_starts_nothing_again_under_another_id(inbox: Inbox) -> None:
    """B16: GitHub does not sign its ids, so a captured delivery can be repeated under any id"""
    inbox.endpoint("github")
    first = inbox.post(senders.github(key="a"))
    for number in range(3):
        again = inbox.post(senders.github(key=f"another {number}", event="issues"))
        assert (again.status, again.json) == (202, {**first.json, "outcome": "duplicate"})
    assert outcome(inbox.post(senders.github({**PULL_REQUEST, "number": 2}, key="another 0"))) == "accepted", (
        "a repeat takes no id away"
    )
    inbox.clock.advance(24 * 3_600_000)
    assert outcome(inbox.post(senders.github(key="a"))) == "duplicate", "an id is known for as long as its call"
    assert len(inbox.runs()) == 2


def test_b16_a_time_that_is_signed_makes_another_delivery(inbox: Inbox) -> None:
    """B16: the same body at another time, with another id, is no repeat; with the same time it is one"""
    inbox.endpoint("hmac", **senders.OWN)
    first = senders.own(inbox.now_s, {"type": "made"}, "d-1")
    assert outcome(inbox.post(first)) == "accepted"
    assert outcome(inbox.post((first[0], {**first[1], **senders.own(inbox.now_s, {"type": "made"}, "d-2")[1]}))) == (
        "duplicate"
    )
    inbox.clock.advance(1_000)
    assert outcome(inbox.post(senders.own(inbox.now_s, {"type": "made"}, "d-3"))) == "accepted"
    assert outcome(inbox.post(senders.own(inbox.now_s, {"type": "made"}, "d-1"))) == "duplicate", "by its id"


def with_signed_id(key: str, body: bytes, signed: bytes | None = None) -> tuple[bytes, dict[str, str]]:
    value = senders.mac(SECRET, key.encode() + b"." + body if signed is None else signed)
    return body, {"Content-Type": "application/json", "X-Sign": value, "X-Id": key}


def test_b16_an_id_that_is_signed_counts_alone(inbox: Inbox) -> None:
    """B16: the control: an honest sender of two equal bodies gets two runs, and a third party cannot change the id"""
    inbox.endpoint("hmac", header="X-Sign", signed="{id}.{body}", id="X-Id")
    body = b'{"type": "made"}'
    assert [outcome(inbox.post(with_signed_id(key, body))) for key in ("1", "2", "1")] == [
        "accepted", "accepted", "duplicate",
    ]  # fmt: skip
    assert inbox.post(with_signed_id("3", body, b"2." + body)).status == 401
    assert inbox.post(with_signed_id("", body)).status == 401
    assert len(inbox.runs()) == 2


def test_b16_a_signed_id_ends_where_the_sender_ended_it(inbox: Inbox) -> None:
    """B16: the same signature is right for an id with a part of the body"""
    inbox.endpoint("hmac", header="X-Sign", signed="{id}.{body}", id="X-Id")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body, headers = with_signed_id("1", b"price=1.5&name=x")
    assert outcome(inbox.post((body, {**headers, **form}))) == "accepted"
    moved = inbox.post((b"5&name=x", {**headers, **form, "X-Id": "1.price=1"}))
    assert moved.status == 401
    assert len(inbox.runs()) == 1


@pytest.mark.parametrize("kind", ["standard", "gitlab"])
def test_b16_equal_bodies_of_other_kinds_are_two_deliveries(
    inbox: Inbox, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: the id is signed, or the secret itself is sent, and a sender that has it needs no repeat"""
    if kind == "standard":
        monkeypatch.setenv("HOOK_SECRET", senders.STANDARD_SECRET)
    inbox.endpoint(kind)
    made = {
        "standard": lambda key: senders.standard(inbox.now_s, {"a": 1}, key),
        "gitlab": lambda key: senders.gitlab({"a": 1}, key),
    }
    assert [outcome(inbox.post(made[kind](key))) for key in ("1", "2")] == ["accepted", "accepted"]


def test_githubs_ping_and_other_events_are_ignored(inbox: Inbox) -> None:
    inbox.endpoint("github")
    reply = inbox.post(senders.github({"zen": "Keep it logically awesome."}, event="ping"))
    assert (reply.status, reply.json["outcome"]) == (200, "ignored")
    inbox.matins.inbound.edit("hook", events=["pull_request"])
    assert inbox.post(senders.github({"ref": "main"}, key="p", event="push")).json["outcome"] == "ignored"
    assert inbox.post(senders.github(key="q")).json["outcome"] == "accepted"
    reasons = [call.reason for call in inbox.matins.calls.list()]
    assert reasons == [None, "The type push is not among the endpoint's events.", "This is GitHub's ping."]


def test_slack_is_answered_that_the_endpoint_is_ours(inbox: Inbox) -> None:
    inbox.endpoint("slack")
    question = {"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}
    reply = inbox.post(senders.slack(inbox.now_s, question))
    assert (reply.status, reply.json) == (200, {"challenge": question["challenge"]})
    body, headers = senders.slack(inbox.now_s, question)
    assert inbox.post((body, {**headers, "X-Slack-Signature": "v0=00"})).status == 401
    assert inbox.matins.calls.list() == []


def test_forms_are_read_too(inbox: Inbox) -> None:
    """GitHub's and Slack's payload field, and plain fields, as of a Slack command"""
    inbox.endpoint("github")
    payload = urlencode({"payload": json.dumps(PULL_REQUEST)}).encode()
    body, headers = senders.github(payload)
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert inbox.post((body, form)).status == 202
    assert inbox.matins.calls.get(1).body == PULL_REQUEST
    body, headers = senders.github(b"command=%2Fdeploy&text=now", key="f2")
    assert inbox.post((body, {**headers, "Content-Type": "application/x-www-form-urlencoded"})).status == 202
    assert inbox.matins.calls.get(2).body == {"command": "/deploy", "text": "now"}


def test_a_form_has_at_most_a_thousand_fields(inbox: Inbox) -> None:
    """B7: a larger one is refused, and is no error of the server"""
    inbox.endpoint("github")
    for count, status in ((1_000, 202), (1_001, 400), (3_000, 400)):
        body, headers = senders.github("&".join(f"f{n}=1" for n in range(count)).encode(), key=f"f{count}")
        reply = inbox.post((body, {**headers, "Content-Type": "application/x-www-form-urlencoded"}))
        assert reply.status == status
    assert reply.json["detail"] == "The form has more than 1,000 fields."


def test_strangers_are_counted_once_a_minute(inbox: Inbox) -> None:
    """Refused deliveries leave no rows; a known name is told of in one event a minute."""
    inbox.endpoint("github")
    for _ in range(5):
        inbox.post(senders.github(secret="guess"))
    inbox.clock.advance(60_000)
    inbox.post(senders.github(secret="guess"))
    inbox.post(senders.github(secret="guess"), name="nobody")
    told = [event.data for event in inbox.matins.events.list(types="call.refused")]
    assert told == [{"source": "webhook", "name": "hook", "count": count} for count in (1, 5)]


# -- limits


def test_more_than_a_minutes_share_is_told_when_to_come_again(inbox: Inbox) -> None:
    inbox.endpoint("github", max_per_minute=3)
    replies = [inbox.post(senders.github(key=str(number))) for number in range(4)]
    assert [reply.status for reply in replies] == [202, 202, 202, 429]
    assert replies[3].headers["retry-after"] == "61"
    assert inbox.post(senders.github(secret="guess")).status == 401  # strangers do not use up the share
    inbox.clock.advance(61_000)
    assert inbox.post(senders.github(key="3")).status == 202


def test_a_body_that_is_too_large_is_not_read(inbox: Inbox) -> None:
    """B7: one byte more than `max_bytes` is refused, however it is signed; the last byte that fits is taken."""
    inbox.endpoint("github", max_bytes=2_048)
    empty = len(senders.github({"filler": ""})[0])
    for size, status in ((2_048, 202), (2_049, 413), (3_000, 413)):
        body, headers = senders.github({"filler": "x" * (size - empty)}, key=str(size))
        assert len(body) == size
        reply = inbox.post((body, headers))
        assert reply.status == status
    assert reply.json["detail"] == "The body is larger than 2048 bytes."
    assert len(inbox.runs()) == 1


@pytest.mark.parametrize("sent", ["told", "chunked"])
def test_a_body_without_end_is_cut_off(inbox: Inbox, sent: str) -> None:
    """B7: neither a length that is told nor one that is not makes the listener read on"""
    inbox.endpoint("github", max_bytes=2_048)
    length = b"Content-Length: 9000000000" if sent == "told" else b"Transfer-Encoding: chunked"
    chunk = b"x" * 65_536 if sent == "told" else b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    said = _answer(inbox, b"POST /in/hook HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n", *[chunk] * 1_000)
    assert said[:12] in (b"HTTP/1.1 413", b"")  # a client that still writes may be reset before it reads
    assert inbox.post(senders.github()).status == 202


def test_headers_below_the_bound_are_read(inbox: Inbox) -> None:
    """B7: the control: many headers beside those of the sender harm nothing"""
    inbox.endpoint("github")
    body, headers = senders.github()
    assert inbox.post((body, headers), **{f"X-{number}": "a" * 300 for number in range(90)}).status == 202


def test_a_long_id_or_type_is_not_kept_as_it_is(inbox: Inbox) -> None:
    """B7: of an id above 100 characters its digest is kept, of a type the beginning"""
    inbox.endpoint("github")
    body, headers = senders.github(key="k" * 20_000)
    reply = inbox.post((body, headers), **{"X-GitHub-Event": "t" * 20_000})
    assert reply.status == 202
    (call,) = inbox.matins.calls.list()
    assert (len(call.key), call.key[:7], call.type) == (71, "sha256:", "t" * 100)


def test_a_multipart_form_is_refused_whatever_its_parts(inbox: Inbox) -> None:
    """B7: no part of it is parsed: neither ten thousand fields nor a file"""
    inbox.endpoint("github")
    part = b'--cut\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n1\r\n'
    file = b'--cut\r\nContent-Disposition: form-data; name="f"; filename="../x"\r\n\r\n' + b"x" * 100_000 + b"\r\n"
    for parts in (b"".join(part % number for number in range(10_000)), file):
        body, headers = senders.github(parts + b"--cut--\r\n")
        reply = inbox.post((body, {**headers, "Content-Type": "multipart/form-data; boundary=cut"}))
        assert (reply.status, reply.json["detail"]) == (415, "The body must be JSON, or a form.")
    assert inbox.runs() == []


def test_the_payload_of_a_form_is_bounded_as_a_body_is(inbox: Inbox) -> None:
    """B7: in its size and in its depth"""
    inbox.endpoint("github", max_bytes=2_048)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for payload, status in (("[" * 65 + "]" * 65, 400), ("[" * 64 + "]" * 64, 202), (f'"{"x" * 2_048}"', 413)):
        body, headers = senders.github(urlencode({"payload": payload}).encode(), key=f"{status}")
        assert inbox.post((body, {**headers, **form})).status == status
    assert len(inbox.runs()) == 1


def _answer(inbox: Inbox, *parts: bytes) -> bytes:
    """What is answered until the listener hangs up."""
    said = b""
    with socket.create_connection(("127.0.0.1", inbox.port), timeout=90) as connection:
        with suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        with suppress(ConnectionError):
            while part := connection.recv(65_536):
                said += part
    return said


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b"[" * 64 + b"]" * 64, 202),
        (b"[" * 66 + b"]" * 66, 400),
        (b"{", 400),
        (b"", 400),
        (b'"\\ud800"', 400),
        (b"\xff\xfe", 400),
        (b'{"text": "a\\u0000b"}', 202),
        (b"12345678901234567890123456789012345678901234567890", 202),
        (b'"just text"', 202),
    ],
)  # fmt: skip
def test_hostile_bodies_are_answered_and_start_nothing(inbox: Inbox, body: bytes, status: int) -> None:
    inbox.endpoint("github")
    reply = inbox.post(senders.github(body))
    assert reply.status == status
    assert len(inbox.runs()) == (status == 202)


def test_other_media_types_are_refused(inbox: Inbox) -> None:
    inbox.endpoint("github")
    body, headers = senders.github()
    assert inbox.post((body, {**headers, "Content-Type": "text/plain"})).status == 415
    assert inbox.post((body, {**headers, "Content-Type": "application/cloudevents+json"})).status == 202


def test_a_slow_body_is_not_waited_for(make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed after the time limit, while others are served."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    inbox = Inbox(make_server(clock=ManualClock(NOW), start=False), body_timeout_s=0.3)
    try:
        inbox.endpoint("github")
        slow = socket.create_connection(("127.0.0.1", inbox.port), timeout=60)
        slow.sendall(b"POST /in/hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert inbox.post(senders.github()).status == 202
        answer = b""
        while part := slow.recv(4_096):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408")
        slow.close()
    finally:
        inbox.close()


# -- what the listener shows


def test_the_listener_serves_inbound_endpoints_and_nothing_else(inbox: Inbox) -> None:
    """So that a tunnel never shows the API: with any Host, every other path is unknown, token or not."""
    inbox.endpoint("github")
    assert inbox.post(senders.github(), Host="abc.trycloudflare.com").status == 202
    import http.client

    for method, path in [
        ("GET", "/v1/schedules"), ("GET", "/livez"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/in/hook"),
        ("POST", "/v1/calls"), ("POST", "/in/"), ("POST", "/in/hook/more"), ("POST", "/in/nobody"), ("GET", "/"),
    ]:  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", inbox.port, timeout=90)
        connection.request(
            method, path, b"{}" if method == "POST" else None, {"Authorization": f"Bearer {inbox.token}"}
        )
        response = connection.getresponse()
        document = json.loads(response.read())
        connection.close()
        assert (response.status, document["detail"]) == (404, "There is no such endpoint."), path
        assert "hint" not in document


def test_names_with_slashes_and_spaces_have_a_path(inbox: Inbox) -> None:
    inbox.endpoint("github", name="my hooks/prs")
    assert inbox.matins.inbound.get("my hooks/prs").path == "/in/my%20hooks%2Fprs"
    assert inbox.post(senders.github(), name="my%20hooks%2Fprs").status == 202


def test_the_api_serves_them_where_there_is_no_listener(
    make_server: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a token, and only with the API's own Host"""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    closed = make_server(start=False)
    assert closed.ask("POST", "/in/hook", b"{}").status == 404
    closed.close()
    server = make_server(start=False, inbound=True)
    server.matins.inbound.set("hook", kind="github", secret="env:HOOK_SECRET")
    server.matins.add("s", on={"webhook": "hook"}, job="work")
    body, headers = senders.github()
    assert server.ask("POST", "/in/hook", body, token=None, headers=headers).status == 202
    assert server.ask("POST", "/in/hook", body, token=None, headers={**headers, "Host": "evil"}).status == 421


def curl(*arguments: str) -> tuple[int, str]:
    """The status and the body, as the clients of monitoring services call."""
    done = subprocess.run(
        ["curl", "-sS", "-w", "\n%{http_code}", *arguments], capture_output=True, text=True, check=True
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_work_elsewhere_reports_with_curl(inbox: Inbox) -> None:
    """By GET, POST and HEAD, with a signal or an exit code; a strange address tells nothing."""
    inbox.matins.add("backup", when="0 3 * * *", job="expect_ping")
    url = f"http://127.0.0.1:{inbox.port}{inbox.matins.pings.url('backup').path}"
    assert curl(url) == (200, "OK")
    assert curl("--data-raw", "412 files", f"{url}/0") == (200, "OK")
    assert curl("--head", "-o", "/dev/null", url)[0] == 200
    assert curl("--retry", "3", f"{url}/start") == (200, "OK")
    assert len(inbox.runs("backup")) == 3
    assert curl(f"{url}/done")[0] == 422
    status, problem = curl(f"{url}x")
    assert (status, "backup" in problem, url.rpartition("/")[2] in problem) == (404, False, False)
    former = url
    url = f"http://127.0.0.1:{inbox.port}{inbox.matins.pings.rotate('backup').path}"
    assert (curl(former)[0], curl(url)[0]) == (404, 200)
