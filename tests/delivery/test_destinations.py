"""Each kind of destination against a stand-in of its service: what arrives, and what the sender makes of the answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from algosdk import account, mnemonic
from algosdk.encoding import encode_address

from matins import InvalidInput
from matins.delivery.destinations import Address, destination_kinds
from matins.delivery.notices import deliver
from matins.delivery.texts import NoticeText
from matins.model.access import Person
from matins.model.destination import Destination, Smtp
from matins.net.signing import verify
from matins.seeds.corvid import algorand
from matins.testing import Sandbox
from standins.algod import open_algod
from standins.mails import Mails, open_mails

pytestmark = pytest.mark.filterwarnings("ignore:.imghdr. is deprecated:DeprecationWarning")  # by a part of apprise
NOW = 1_775_000_000_000
HOSTILE = "ValueError: <!channel> @everyone & ``` **bold**"
MESSAGE = NoticeText(
    "✗ nightly failed", f"Failed: {HOSTILE}.", "line 1\n``` <!here>", ("matins why nightly", "matins ack 1"),
    "https://matins.example.com/runs/7", "bad", {"action": "opened", "incident": "1", "kind": "failed"},
)  # fmt: skip


def send(
    kind: str, message: NoticeText = MESSAGE, smtp: Smtp | None = None, person: Person | None = None, **settings: Any
):
    destination = Destination("there", kind, **settings)
    return deliver(Address(destination, smtp or Smtp(), NOW, person), message)


def test_every_kind_is_found_by_its_entry_point():
    """B17: a new kind is a new file and an entry point."""
    found = destination_kinds()
    assert sorted(found) == [
        "algorand", "apprise", "desktop", "discord", "email", "file", "ntfy", "slack", "telegram", "webhook",
    ]  # fmt: skip
    assert all(kind.help.endswith(".") for kind in found.values())


def test_slack_escapes_what_others_wrote(inbox, monkeypatch):
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-1")
    assert send("slack", url=f"{inbox.url}/services/T/B/x").verdict == "arrived"
    assert send("slack", url=f"{inbox.url}/api", token="env:SLACK_TOKEN", to=("C0OPS",)).verdict == "arrived"
    hook, posted = inbox.received
    assert "<!" not in hook.text.replace("<https", "")
    assert "&lt;!channel&gt;" in hook.text
    assert (posted.path, posted.headers["authorization"]) == ("/api/chat.postMessage", "Bearer xoxb-1")
    assert (posted.document["channel"], posted.document["link_names"]) == ("C0OPS", False)
    assert posted.document["blocks"][1]["text"]["text"].count("```") == 2
    inbox.answer = {"ok": False, "error": "channel_not_found"}
    assert send("slack", url=f"{inbox.url}/api", token="env:SLACK_TOKEN", to=("C0OPS",)).verdict == "gone"


def test_discord_mentions_nobody(inbox):
    assert send("discord", url=f"{inbox.url}/api/webhooks/1/x").verdict == "arrived"
    document = inbox.received[0].document
    assert document["allowed_mentions"] == {"parse": []}
    assert document["embeds"][0]["url"] == MESSAGE.link
    assert document["embeds"][0]["description"].count("```") == 3  # one of them is in the text of the error


def test_ntfy_gets_json_with_priority_and_link(inbox, monkeypatch):
    monkeypatch.setenv("TOPIC", "secret-topic")
    monkeypatch.setenv("NTFY_TOKEN", "tk_1")
    long = MESSAGE._replace(output="x" * 10_000)
    assert send("ntfy", long, url=inbox.url, to=("env:TOPIC",), token="env:NTFY_TOKEN").verdict == "arrived"
    [one] = inbox.received
    document = one.document
    assert (document["topic"], document["title"], document["priority"]) == ("secret-topic", "✗ nightly failed", 4)
    assert (document["click"], one.headers["authorization"]) == (MESSAGE.link, "Bearer tk_1")
    assert len(document["message"].encode()) <= 4_096


def test_a_webhook_is_signed_with_its_secret(inbox, monkeypatch):
    monkeypatch.setenv("HOOK", "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert send("webhook", url=f"{inbox.url}/x", token="env:HOOK").verdict == "arrived"
    one = inbox.received[0]
    verify(os.environ["HOOK"], one.headers, one.text.encode(), NOW // 1000)
    assert (one.document["kind"], one.document["level"]) == ("failed", "bad")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(503, "again"), (401, "again"), (429, "again"), (400, "refused"), (404, "gone"), (410, "gone")],
)
def test_what_an_answer_means(inbox, status, verdict):
    inbox.status, inbox.headers = status, {"retry-after": "120"}
    sent = send("webhook", url=inbox.url)
    assert (sent.verdict, str(status) in (sent.error or "")) == (verdict, True)
    assert sent.after_ms == (120_000 if status in (429, 503) else 0)


def test_a_missing_secret_and_a_closed_port_are_tried_again():
    assert send("ntfy", url="http://127.0.0.1:9", to=("t",)).verdict == "again"
    sent = send("slack", url="env:NOT_THERE")
    assert (sent.verdict, "NOT_THERE" in (sent.error or "")) == ("again", True)


@pytest.fixture
def mails() -> Iterator[tuple[Mails, Smtp]]:
    with open_mails() as (handler, port):
        yield handler, Smtp("127.0.0.1", port, sender="matins@example.com", tls="none")


def test_mail_goes_to_its_recipients_or_to_the_person(mails):
    handler, smtp = mails
    assert send("email", smtp=smtp, to=("ada@example.com", "bob@example.com")).verdict == "arrived"
    ada = Person("ada", "operator", email="ada@example.org")
    assert send("email", smtp=smtp, person=ada).verdict == "arrived"
    (both, mail), (one, _) = handler.taken
    assert (both, one) == (["ada@example.com", "bob@example.com"], ["ada@example.org"])
    assert (mail["subject"], mail["from"]) == ("✗ nightly failed", "matins@example.com")
    assert mail["auto-submitted"] == "auto-generated"
    assert HOSTILE in mail.get_content()
    assert "line 1" in mail.get_content()


def test_mail_that_a_server_refuses(mails):
    handler, smtp = mails
    handler.answer = "550 no such user"
    assert send("email", smtp=smtp, to=("ada@example.com",)).verdict == "refused"
    handler.answer = "451 try again later"
    assert send("email", smtp=smtp, to=("ada@example.com",)).verdict == "again"
    forged = MESSAGE._replace(title="✗ a\nBcc: eve@example.com")
    handler.answer = "250 OK"
    send("email", forged, smtp=smtp, to=("ada@example.com",))
    assert handler.taken[-1][1]["bcc"] is None


def test_mail_beyond_this_machine_is_encrypted():
    sent = send("email", smtp=Smtp("192.0.2.1", 25, tls="none"), to=("ada@example.com",))
    assert (sent.verdict, "must be encrypted" in (sent.error or "")) == ("refused", True)
    assert send("email", to=("ada@example.com",)).verdict == "refused"  # there is no server


def test_a_desktop_notice_passes_texts_as_arguments(tmp_path: Path, monkeypatch):
    program = tmp_path / "notify-send"
    program.write_text(f"#!{sys.executable}\nimport sys, pathlib\n"
                       f"pathlib.Path({str(tmp_path / 'got')!r}).write_text(chr(10).join(sys.argv[1:]))\n")  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setattr(os, "defpath", str(tmp_path))  # only programs of the system
    assert send("desktop", MESSAGE._replace(title="--help $(touch x)")).verdict == "arrived"
    assert (tmp_path / "got").read_text().split("\n")[2:4] == ["--", "--help $(touch x)"]
    monkeypatch.setattr(os, "defpath", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert send("desktop").verdict == "refused"


def test_apprise_reaches_its_services(inbox):
    """In a process of its own: Apprise keeps threads."""
    url = inbox.url.replace("http://", "json://")
    assert _by_apprise(url) == "arrived"
    assert inbox.received[0].document["title"] == "✗ nightly failed"
    inbox.status = 500
    assert _by_apprise(url) == "again"


def _by_apprise(url: str) -> str:
    code = (
        "import sys; from matins.delivery.texts import NoticeText; from matins.delivery.notices import deliver\n"
        "from matins.delivery.destinations import Address; from matins.model.destination import *\n"
        "there = Destination('there', 'apprise', url=sys.argv[1])\n"
        "print(deliver(Address(there, Smtp(), 0), NoticeText('✗ nightly failed', 'text')).verdict)"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr


def test_the_note_on_the_chain_tells_nothing_but_status_and_digest(monkeypatch):
    """V9: best effort, and off unless the owner sets it."""
    note = algorand.note_of(MESSAGE).decode()
    assert '"status":"failed"' in note
    assert "nightly" not in note
    assert "channel" not in note
    monkeypatch.setitem(sys.modules, "algosdk.v2client.algod", None)
    sent = send("algorand", url="http://127.0.0.1:9", to=("A",), token="env:HOME")
    assert (sent.verdict, "matins[algorand]" in (sent.error or "")) == ("refused", True)


def test_a_node_of_algorand_takes_the_signed_note(monkeypatch):
    """V9: the transaction is built, signed and posted by the real library; the node checks its signature."""
    key, receiver = account.generate_account()
    sender = account.address_from_private_key(key)
    monkeypatch.setenv("MNEMONIC", mnemonic.from_private_key(key))
    with open_algod() as node:
        assert send("algorand", url=node.url, to=(receiver,), token="env:MNEMONIC").verdict == "arrived"
    [taken] = node.taken
    assert (taken["type"], taken.get("amt", 0), taken["note"]) == ("pay", 0, algorand.note_of(MESSAGE))
    assert (encode_address(taken["snd"]), encode_address(taken["rcv"])) == (sender, receiver)


def test_what_a_node_of_algorand_refuses_is_told_without_the_mnemonic(monkeypatch):
    """V9: best effort: one attempt"""
    key, receiver = account.generate_account()
    words = mnemonic.from_private_key(key)
    monkeypatch.setenv("MNEMONIC", words)
    monkeypatch.setenv("WRONG", words.rpartition(" ")[0] + " zebra-secret")
    with open_algod() as node:
        node.refuses = "TransactionPool.Remember: overspend"
        given = {"url": node.url, "to": (receiver,), "token": "env:MNEMONIC"}
        refused = send("algorand", **given)
        wrong = send("algorand", **{**given, "token": "env:WRONG"})
        nowhere = send("algorand", **{**given, "to": ("A" * 58,)})
        node.refuses = None
    gone = send("algorand", **given)
    assert refused.error == "the transaction was not sent: the node answered 400: TransactionPool.Remember: overspend"
    assert wrong.error == "the token is not a mnemonic of 25 words"
    assert "is not an address of Algorand" in (nowhere.error or "")
    assert gone.error == "the transaction was not sent: URLError"
    assert {one.verdict for one in (refused, wrong, nowhere, gone)} == {"refused"}
    assert node.taken == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"kind": "pigeon"}, "kind"),
        ({"kind": "discord"}, "url"),
        ({"kind": "slack"}, "url"),
        ({"kind": "slack", "token": "env:T"}, "to"),
        ({"kind": "ntfy"}, "to"),
        ({"kind": "email"}, "to"),
        ({"kind": "webhook", "url": "ftp://example.com"}, "url"),
        ({"kind": "apprise", "url": "nowhere://x"}, "url"),
        ({"kind": "algorand", "url": "https://node.example.com", "to": ["ADA"], "token": "env:T"}, "to"),
        ({"kind": "ntfy", "to": ["t"], "urgent": ["fialed"]}, "urgent"),
        ({"kind": "email", "person": "nobody"}, "person"),
    ],
)
def test_a_destination_that_cannot_work_is_refused_when_it_is_set(settings, field):
    with Sandbox() as bench, pytest.raises(InvalidInput) as caught:
        bench.destinations.set("there", **settings)
    assert caught.value.field == field
    assert caught.value.hint
