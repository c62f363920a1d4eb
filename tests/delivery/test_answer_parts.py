"""Answers, as each kind of destination renders and sends them."""

from __future__ import annotations

import hashlib
import html
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from apprise import NotifyFormat
from apprise.conversion import convert_between
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import RichTextBlock

from matins.delivery.destinations import (
    Address,
    Answer,
    AnswerFile,
    NotDelivered,
    Receipt,
    destination_kinds,
    parts_of,
    send_part,
)
from matins.delivery.destinations.discord import escape
from matins.delivery.destinations.layout import Upload, utf16
from matins.delivery.destinations.markdown_text import written
from matins.model.destination import Destination, Smtp
from matins.net.signing import verify
from matins.texts.markdown import blocks
from standins.mails import Mails, open_mails

pytestmark = pytest.mark.filterwarnings("ignore:.imghdr. is deprecated:DeprecationWarning")  # by a part of apprise
NOW = 1_775_000_000_000
TEXT = """## Open

Three wait for **you** [#12](https://x.org/12?a=1&b=2)

- first
  - nested `code`

| a | b |
| --- | --- |
| 1 | 22 |
"""
ANSWER = Answer(
    "✓ morning", TEXT, "run 841 · 2 min 12 s · $0.14", "https://matins.example.com/runs/841",
    facts={"run_id": "841", "schedule": "morning", "state": "succeeded", "slot": "2026-11-18T11:15:00Z",
           "timezone": "Europe/Berlin"},
)  # fmt: skip
LONG = ANSWER._replace(text="word <b> " * 20_000)
KEY = "9a3e-841-1-0"
SETTINGS: dict[str, dict[str, Any]] = {
    "telegram": {"token": "env:TOKEN", "to": ("81230",)},
    "slack": {"token": "env:TOKEN", "to": ("C0OPS",)},
    "discord": {"url": "https://discord.com/api/webhooks/1/x"},
    "email": {"to": ("ada@example.com",)},
    "ntfy": {"to": ("topic",)},
    "desktop": {},
    "webhook": {"url": "https://hooks.example.com"},
    "apprise": {"url": "json://localhost"},
    "file": {"to": ("/tmp/reports",)},
}
ATTACK = (
    "<!channel> <!here> <@U0ADA> @everyone @here <b>bold</b> <script>alert(1)</script> [x](javascript:alert(1)) "
    "\u202egnp.exe\u202c \u2066hid\u2069 \x1b[31mred\x1b[0m \x00 *a* _b_ ~c~ `d` # not a heading ![i](http://x/t.png)"
)
FRAGMENTS = (
    "# T <b>\n\n", "a *b* **c** `d<e>` [x](https://x.org/?a=1&b=2) <!channel>\n\n", "- one\n  1. two\n\n",
    "| a | b |\n|--|--|\n| <i> | 😀 |\n\n", '```sh\necho "<&>" ``` \n```\n\n', "> q\n> r\n\n", "w" * 5000,
    "```\n" + "line <x>\n" * 900 + "```\n\n", "😀" * 3000 + "\n\n", "***a*b**c `` ` `` _d_\n\n", ATTACK,
)  # fmt: skip
ANSWERS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=60), max_size=8).map("".join)


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("TOKEN", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


def place(kind: str, smtp: Smtp | None = None, **settings: Any) -> Address:
    return Address(Destination("there", kind, **{**SETTINGS.get(kind, {}), **settings}), smtp or Smtp(), NOW)


def deliver(address: Address, answer: Answer = ANSWER) -> list[Receipt]:
    """What "answers" does: the parts one after the other, later ones with the receipt of the first."""
    receipts: list[Receipt] = []
    for number, part in enumerate(parts_of(address, answer)):
        sent = part._replace(first=receipts[0].id) if receipts else part
        receipts.append(send_part(address, sent, f"9a3e-841-1-{number}"))
    return receipts


def words(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


# -- what all kinds have in common


def test_a_kind_that_only_sends_notices_gets_the_answer_as_one():
    """B17: a kind of a third party needs nothing more than `send`."""
    [part] = parts_of(place("algorand"), ANSWER._replace(again=True))
    assert (part.body.title, part.body.link, part.body.level) == (ANSWER.title, ANSWER.link, "good")
    assert part.body.text.startswith("Sent again: Algorand did not confirm the first copy.\n\n## Open")
    assert part.body.text.endswith(ANSWER.foot)


def test_a_kind_that_is_not_installed_is_said():
    with pytest.raises(NotDelivered, match="there is no kind of destination pigeon") as caught:
        parts_of(place("pigeon"), ANSWER)
    assert not caught.value.retry


def test_every_kind_renders_answers_and_says_what_it_promises():
    """B21: kinds with a key may be repeated under it; people are not flooded, programs and files get everything."""
    kinds = {name: kind for name, kind in destination_kinds().items() if name != "algorand"}
    assert set(SETTINGS) == set(kinds)
    assert all(kind.parts and kind.answer for kind in kinds.values())
    assert {name for name, kind in kinds.items() if kind.keyed} == {"email", "webhook", "file"}
    assert {name for name, kind in kinds.items() if not kind.limited} == {"webhook", "file"}


def texts_in(body: Any) -> list[str]:
    """Every text of a part."""
    if isinstance(body, str):
        return [body]
    if isinstance(body, Upload):
        return [body.name, body.note, *texts_in(body.data)]
    if isinstance(body, bytes):
        return [body.decode()]
    if isinstance(body, dict):
        return [text for one in body.values() for text in texts_in(one)]
    return [text for one in body for text in texts_in(one)] if isinstance(body, (list, tuple)) else []


@pytest.mark.parametrize("kind", SETTINGS)
def test_attacks_in_every_field_stay_text(kind):
    """B21: what an agent, or who misled it, wrote mentions nobody, is no markup and hides nothing."""
    file = AnswerFile(f"a{ATTACK[:40]}\u202e.pdf", "/nowhere", 3, "0" * 64, "application/pdf")
    answer = ANSWER._replace(title=f"✓ {ATTACK}", text=f"{ATTACK}\n\n{ATTACK}", foot=ATTACK, files=(file,))
    found = "\n".join(text for part in parts_of(place(kind), answer) for text in texts_in(part.body))
    assert not any(c in found for c in "\u202e\u202c\u2066\u2069\x1b\x00")
    assert 'href="javascript' not in found
    assert "(<javascript" not in found
    assert "gnp.exe" in found


@pytest.mark.parametrize("kind", SETTINGS)
def test_emoji_and_languages_stay_as_they_are(kind):
    text = "👨‍👩‍👧 می‌خواهم ❤️ नमस्ते"
    found = "\n".join(
        text for part in parts_of(place(kind), ANSWER._replace(text=text)) for text in texts_in(part.body)
    )
    assert text in found


# -- Telegram


def visible(markup: str) -> str:
    """Telegram's HTML, read strictly: only its own tags, balanced, and none around or inside code."""
    inside: list[str] = []
    for found in re.finditer(r"<(/?)([^\s>]*)([^>]*)>", markup):
        assert found[2] in ("b", "i", "s", "code", "pre", "blockquote", "a"), found[0]
        assert not found[3] or re.fullmatch(r' href="(https?:|mailto:)[^"<>]*"', found[3]), found[0]
        if found[1]:
            assert inside.pop() == found[2]
        else:
            assert not {"code", "pre"} & set(inside)
            assert found[2] not in ("code", "pre") or not set(inside) - {"blockquote"}
            inside.append(found[2])
    assert not inside
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_telegram_gets_html_that_it_accepts(text):
    """B21: balanced, within 4,096 UTF-16 units, and nothing is lost."""
    parts = parts_of(place("telegram"), ANSWER._replace(text=text))
    messages = [visible(part.body).replace("@\u2060", "@") for part in parts if isinstance(part.body, str)]
    assert len(messages) <= 5
    assert all(utf16(message) <= 4_096 for message in messages)
    files = [part.body for part in parts if isinstance(part.body, Upload)]
    if not files:
        cleaned = parts_of(place("webhook"), ANSWER._replace(text=text))[0].body["text"]
        assert words("".join(block.marker + block.text for block in blocks(cleaned))) in words("".join(messages))


def test_telegram_mentions_nobody():
    """B21: also where an agent writes a name; code stays as it is."""
    (part,) = parts_of(place("telegram"), ANSWER._replace(text="Ask @ada, or **@ben**; `@ada` and ada@example.com"))
    assert "Ask @\u2060ada, or <b>@\u2060ben</b>; <code>@ada</code> and ada@example.com" in part.body


def test_telegram_sends_parts_as_replies_and_the_rest_as_a_file(inbox):
    inbox.answer = {"ok": True, "result": {"message_id": 77}}
    receipts = deliver(place("telegram", url=inbox.url), LONG)
    assert [receipt.id for receipt in receipts] == ["77"] * 6
    first, second, *_, last = inbox.received
    assert first.path == "/botwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw/sendMessage"
    assert (first.document["chat_id"], first.document["parse_mode"]) == ("81230", "HTML")
    assert first.document["text"].startswith("<b>✓ morning</b>\n\nword &lt;b&gt;")
    assert "reply_parameters" not in first.document
    assert second.document["reply_parameters"] == {"message_id": 77, "allow_sending_without_reply": True}
    assert last.path.endswith("/sendDocument")
    assert 'name="document"; filename="morning-841.md"' in last.text
    assert last.text.count("word <b>") == 20_000
    assert "The answer is longer" in inbox.received[-2].document["text"]
    assert '<a href="https://matins.example.com/runs/841">Open</a>' in inbox.received[-2].document["text"]


@pytest.mark.parametrize(
    ("reply", "gone", "retry", "after"),
    [
        (
            {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": 7}},
            False,
            True,
            7_000,
        ),
        (
            {"ok": False, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 10**9}},
            False,
            True,
            3_600_000,
        ),
        ({"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}, True, False, 0),
        ({"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked by the user"}, True, True, 0),
        ({"ok": False, "error_code": 502, "description": "Bad Gateway"}, False, True, 0),
    ],
)
def test_what_telegrams_answers_mean(inbox, reply, gone, retry, after):
    inbox.answer, inbox.status = reply, reply["error_code"]
    with pytest.raises(NotDelivered, match=reply["description"]) as caught:
        deliver(place("telegram", url=inbox.url))
    assert (caught.value.gone, caught.value.retry, caught.value.after_ms, caught.value.sent) == (
        gone,
        retry,
        after,
        False,
    )


# -- Slack


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_slacks_own_models_accept_the_blocks(text):
    """B21: elements of text only, of at most 2,900 characters."""
    for part in parts_of(place("slack"), ANSWER._replace(text=text)):
        if isinstance(part.body, Upload):
            continue
        assert 0 < len(part.body["blocks"]) <= 50
        for block in part.body["blocks"]:
            model = RichTextBlock(**{name: value for name, value in block.items() if name != "type"})
            model.validate_json()
            assert model.to_dict()["elements"]
            assert sum(map(utf16, texts_of_elements(block))) <= 2_900
            assert set(types_of(block)) <= ELEMENTS


ELEMENTS = {
    "rich_text",
    "rich_text_section",
    "rich_text_list",
    "rich_text_preformatted",
    "rich_text_quote",
    "text",
    "link",
}


def texts_of_elements(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        if isinstance(found.get("text"), str):
            assert found["text"]
            yield found["text"]
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from texts_of_elements(one)


def types_of(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        if "type" in found:
            yield found["type"]
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from types_of(one)


def test_slack_by_a_bot_posts_in_a_thread_and_uploads_the_rest(inbox):
    inbox.answer = {"ok": True, "ts": "1.5", "upload_url": f"{inbox.url}/upload", "file_id": "F1"}
    receipts = deliver(place("slack", url=inbox.url), LONG)
    assert [receipt.id for receipt in receipts] == ["1.5"] * 5 + ["F1"]
    paths = [one.path for one in inbox.received]
    assert paths == ["/chat.postMessage"] * 5 + [
        "/files.getUploadURLExternal",
        "/upload",
        "/files.completeUploadExternal",
    ]
    assert "thread_ts" not in inbox.received[0].document
    assert inbox.received[1].document["thread_ts"] == "1.5"
    assert inbox.received[-2].text == LONG.text.strip()
    assert inbox.received[-1].document == {
        "files": [{"id": "F1", "title": "morning-841.md"}], "channel_id": "C0OPS", "thread_ts": "1.5",
    }  # fmt: skip
    inbox.answer = {"ok": False, "error": "channel_not_found"}
    with pytest.raises(NotDelivered, match="Slack answered channel_not_found") as caught:
        deliver(place("slack", url=inbox.url))
    assert caught.value.gone


def test_slack_by_a_webhook_says_where_the_rest_is(inbox):
    deliver(place("slack", token=None, to=(), url=inbox.url), LONG)
    assert len(inbox.received) == 5
    assert "The answer is longer. All of it: matins logs 841" in inbox.received[-1].text


def test_slacks_lists_keep_their_numbers_and_depth(inbox):
    [part] = parts_of(place("slack"), ANSWER._replace(text="3. three\n4. four\n   - deep\n"))
    lists = [one for block in part.body["blocks"] for one in block["elements"] if one["type"] == "rich_text_list"]
    assert [(one["style"], one["indent"], one.get("offset"), len(one["elements"])) for one in lists] == [
        ("ordered", 0, 2, 2), ("bullet", 1, None, 1),
    ]  # fmt: skip


# -- Discord


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_discord_gets_markdown_within_its_limit(text):
    parts = [
        part.body for part in parts_of(place("discord"), ANSWER._replace(text=text)) if isinstance(part.body, dict)
    ]
    assert len(parts) <= 5
    assert all(0 < utf16(part["content"]) <= 2_000 for part in parts)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab *_~`#->[]()<>@\\1.\n|", max_size=40))
def test_markdown_that_is_written_reads_as_the_same_text(text):
    """The parser itself judges: what was text is text again, whatever marks it has."""
    found = blocks(text)
    again = blocks(written(found, escape))
    assert words("".join(block.text for block in again)) == words("".join(block.text for block in found))


def test_discord_mentions_nobody_and_confirms(inbox):
    inbox.answer = {"id": "1234"}
    receipts = deliver(place("discord", url=f"{inbox.url}/api/webhooks/1/x"), ANSWER._replace(text=ATTACK))
    [one] = inbox.received
    assert [receipt.id for receipt in receipts] == ["1234"]
    assert one.path == "/api/webhooks/1/x?wait=true"
    assert '"allowed_mentions":{"parse":[]}' in one.text
    assert "\\\\@everyone" in one.text
    assert "\\\\<!channel\\\\>" in one.text


def test_a_bot_of_discord_gives_a_nonce_that_stays_the_same(inbox):
    inbox.answer = {"id": "1234"}
    address = place("discord", url=inbox.url, token="env:TOKEN", to=("813",))
    deliver(address, LONG)
    deliver(address, LONG)
    nonces = [re.search(r'"nonce":"(\w+)","enforce_nonce":true', one.text) for one in inbox.received]
    found = [nonce[1] for nonce in nonces if nonce]
    assert inbox.received[0].path == "/channels/813/messages"
    assert inbox.received[0].headers["authorization"].startswith("Bot whsec_")
    assert (len(found), found[:6], len(set(found))) == (12, found[6:], 6)
    assert all(len(nonce) <= 25 for nonce in found)
    assert '"message_reference":{"message_id":"1234"' in inbox.received[1].text
    assert 'filename="morning-841.md"' in inbox.received[5].text


# -- e-mail


@pytest.fixture
def mails() -> Iterator[tuple[Mails, Smtp]]:
    with open_mails() as (handler, port):
        yield handler, Smtp("127.0.0.1", port, sender="matins@example.com", tls="none")


def kept(folder: Path, name: str, data: bytes, media_type: str) -> AnswerFile:
    (folder / name).write_bytes(data)
    return AnswerFile(name, str(folder / name), len(data), hashlib.sha256(data).hexdigest(), media_type)


def test_mail_has_a_text_part_an_html_part_and_the_files(mails, tmp_path):
    """B21: all of the answer, whatever its length, and its files."""
    handler, smtp = mails
    file = kept(tmp_path, "report.pdf", b"%PDF-1", "application/pdf")
    deliver(place("email", smtp), ANSWER._replace(files=(file,)))
    deliver(place("email", smtp), LONG)
    (to, mail), (_, long) = handler.taken
    assert (to, mail["subject"], mail["message-id"]) == (["ada@example.com"], "✓ morning", f"<{KEY}@example.com>")
    text, page = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "Three wait for you #12 (https://x.org/12?a=1&b=2)" in text
    assert '<a href="https://x.org/12?a=1&amp;b=2" rel="noreferrer noopener">#12</a>' in page
    assert "<img" not in page
    [attached] = mail.iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == ("report.pdf", b"%PDF-1")
    assert long.get_body(("plain",)).get_content().count("word <b>") == 20_000
    assert long.get_body(("html",)).get_content().count("word &lt;b&gt;") == 20_000


def test_files_that_are_too_much_for_a_mail_are_named(tmp_path):
    large = [kept(tmp_path, f"{n}.bin", b"x", "application/octet-stream")._replace(size=9_000_000) for n in range(3)]
    [part] = parts_of(place("email"), ANSWER._replace(files=tuple(large)))
    assert [file.name for file in part.body.files] == ["0.bin", "1.bin"]
    assert "Files of the run: 2.bin." in part.body.text


def test_a_mail_that_is_cut_off_after_its_data_has_the_same_id_again(mails):
    """B21: the server took it, and its reply was lost. The repetition has the same Message-ID."""
    handler, smtp = mails
    handler.cut_off = True
    with pytest.raises(NotDelivered) as caught:
        deliver(place("email", smtp))
    assert caught.value.sent
    handler.cut_off = False
    [receipt] = deliver(place("email", smtp))
    assert [mail["message-id"] for _, mail in handler.taken] == [f"<{KEY}@example.com>"] * 2 == [receipt.id] * 2


def test_a_mail_server_that_is_not_there_got_nothing():
    with pytest.raises(NotDelivered) as caught:
        deliver(place("email", Smtp("127.0.0.1", 9, sender="matins@example.com", tls="none")))
    assert not caught.value.sent


@pytest.mark.parametrize("farewell", ["421 Too busy", "2"])
def test_a_mail_that_was_taken_is_delivered_whatever_follows(mails, farewell):
    """B21: 250 is the receipt; an error after it sends no copy."""
    handler, smtp = mails
    handler.farewell = farewell
    [receipt] = deliver(place("email", smtp))
    assert (receipt.id, len(handler.taken)) == (f"<{KEY}@example.com>", 1)


def test_a_mail_server_that_answers_byte_by_byte_is_left(monkeypatch):
    """B21: each byte would begin the wait anew."""
    monkeypatch.setattr("matins.delivery.destinations.email._MAX_CONVERSATION_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = threading.Thread(target=_one_byte_at_a_time, args=[listener])
        server.start()
        with pytest.raises(NotDelivered) as caught:
            deliver(place("email", Smtp("127.0.0.1", listener.getsockname()[1], tls="none")))
        server.join(60)
        assert not server.is_alive()
    assert not caught.value.sent


def _one_byte_at_a_time(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        connection.settimeout(0.02)
        while True:
            connection.sendall(b"2")
            with suppress(TimeoutError):
                if not connection.recv(1):
                    return


def test_recipients_that_a_mail_server_refused_are_said(mails):
    handler, smtp = mails
    handler.unknown.add("bob@example.com")
    [receipt] = deliver(place("email", smtp, to=("ada@example.com", "bob@example.com")))
    assert [to for to, _ in handler.taken] == [["ada@example.com"]]
    assert receipt.problem == "the mail server refused it for bob@example.com (550 bob@example.com is unknown)"


def test_a_mail_is_seven_bits_wide(mails):
    handler, smtp = mails
    deliver(place("email", smtp), ANSWER._replace(text=f"Größe 😀 {'ü' * 3_000}"))
    (_, mail) = handler.taken[0]
    assert mail.as_bytes().isascii()
    assert "Größe 😀 üü" in mail.get_body(("plain",)).get_content()


# -- ntfy, desktop, webhook, Apprise


def test_ntfy_cuts_at_its_limit_and_keeps_foot_and_link(inbox):
    inbox.answer = {"id": "n1"}
    [receipt] = deliver(place("ntfy", url=inbox.url), LONG._replace(text="ü😀 " * 5_000))
    message = inbox.received[0].document
    assert receipt.id == "n1"
    assert 4_080 < len(message["message"].encode()) <= 4_096
    assert message["message"].endswith("…\n\nrun 841 · 2 min 12 s · $0.14\n\nhttps://matins.example.com/runs/841")
    assert message["click"] == ANSWER.link


def test_the_desktop_shows_the_beginning():
    [part] = parts_of(place("desktop"), LONG)
    assert 380 < len(part.body.text) <= 400
    assert part.body.text.endswith("…\n\nrun 841 · 2 min 12 s · $0.14")


def test_a_webhook_has_text_html_and_digests_under_the_key(inbox, tmp_path):
    """B21: the receiver can tell a repetition, and verify what it got."""
    file = kept(tmp_path, "report.pdf", b"%PDF-1", "application/pdf")
    address = place("webhook", url=inbox.url, token="env:TOKEN")
    assert deliver(address, ANSWER._replace(files=(file,))) == deliver(address, ANSWER._replace(files=(file,)))
    for one in inbox.received:
        verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", one.headers, one.text.encode(), NOW // 1000)
        assert one.headers["webhook-id"] == KEY
    document = inbox.received[0].document
    assert (document["type"], document["run_id"], document["schedule"]) == ("answer", "841", "morning")
    assert document["text"] == TEXT.strip()
    assert "<strong>you</strong>" in document["html"]
    assert document["files"] == [
        {
            "name": "report.pdf",
            "size": 6,
            "sha256": hashlib.sha256(b"%PDF-1").hexdigest(),
            "media_type": "application/pdf",
        }
    ]
    deliver(place("webhook", url=inbox.url))
    assert inbox.received[-1].headers["webhook-id"] == KEY


def test_apprise_turns_the_answer_into_what_the_service_takes(inbox):
    """In a process of its own: Apprise keeps threads."""
    code = (
        "import sys; from matins.delivery.destinations import *; from matins.model.destination import *\n"
        "there = Address(Destination('there', 'apprise', url=sys.argv[1]), Smtp(), 0)\n"
        "[part] = parts_of(there, Answer('title', sys.argv[2], 'foot', None)); send_part(there, part, 'key')"
    )
    line = [sys.executable, "-c", code, inbox.url.replace("http:", "json:"), f"{TEXT}\n\n{ATTACK}".replace("\0", "")]
    subprocess.run(line, check=True, timeout=60)
    message = inbox.received[0].document["message"]
    assert "**you**" in message
    assert "<script" not in message
    assert "@everyone" not in message
    page = convert_between(NotifyFormat.MARKDOWN, NotifyFormat.HTML, message)  # as it does for e-mail
    assert "<strong>you</strong>" in page
    assert not re.search(r"<(script|b|img|a href=.javascript)[ >]", page)


def test_apprise_tells_what_may_have_arrived_from_what_did_not(inbox):
    """B21: a service that does not answer gets a marked copy, one that cannot be reached does not."""
    code = (
        "import sys; from matins.delivery.destinations import *; from matins.model.destination import *\n"
        "for url in sys.argv[1:]:\n"
        "    there = Address(Destination('there', 'apprise', url=url), Smtp(), 0)\n"
        "    [part] = parts_of(there, Answer('title', 'text', 'foot', None))\n"
        "    try: send_part(there, part, 'key')\n"
        "    except NotDelivered as error: print(error.sent)"
    )
    inbox.released.clear()
    urls = [f"{inbox.url.replace('http:', 'json:')}?rto=0.3", "json://127.0.0.1:9"]
    done = subprocess.run([sys.executable, "-c", code, *urls], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"]
    assert "Socket" not in done.stderr, "what Apprise logs below a warning may hold tokens"


# -- file


def test_files_of_one_name_are_kept_whatever_their_names_are(tmp_path):
    """B16: names are the agent's."""
    names = ("a.txt", "a.txt", "...", "../../b", ".hidden", "a/b\nc")
    files = [kept(tmp_path, str(n), str(n).encode(), "text/plain")._replace(name=names[n]) for n in range(len(names))]
    (receipt,) = deliver(place("file", to=(str(tmp_path / "r"),)), ANSWER._replace(files=tuple(files)))
    assert {path.name: path.read_text() for path in Path(receipt.id.removesuffix(".md")).iterdir()} == {
        "a.txt": "0", "2-a.txt": "1", "file": "2", "-..-b": "3", "hidden": "4", "a-b-c": "5",
    }  # fmt: skip


def test_an_answer_arrived_though_old_ones_cannot_be_deleted(tmp_path):
    """B16: an agent that can write there puts a folder where a file was: the answer is not sent for ever."""
    (tmp_path / "r" / "2020-01-01-0000-old" / "inner").mkdir(parents=True)
    (tmp_path / "r" / "2020-01-01-0000-old.md").touch()
    (receipt,) = deliver(place("file", to=(str(tmp_path / "r"),), keep=1))
    assert Path(receipt.id).is_file()


def test_a_file_has_the_name_of_its_slot_and_is_its_owners(tmp_path):
    """B21: made with its folder, for the owner only; the same key is the same file."""
    folder = tmp_path / "new" / "reports"
    address = place("file", to=(str(folder),))
    data = kept(tmp_path, "données été.csv", b"a;b", "text/csv")
    [receipt] = deliver(address, ANSWER._replace(files=(data,)))
    [again] = deliver(address, ANSWER._replace(files=(data,)))
    note = folder / "2026-11-18-1215-morning-841.md"
    assert receipt.id == again.id == str(note)
    assert sorted(path.name for path in folder.iterdir()) == ["2026-11-18-1215-morning-841", note.name]
    assert (note.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert note.read_text().startswith("# ✓ morning\n\n## Open\n\nThree wait for **you**")
    assert note.read_text().endswith("run 841 · 2 min 12 s · $0.14 · <https://matins.example.com/runs/841>\n")
    [file] = (folder / "2026-11-18-1215-morning-841").iterdir()
    assert (file.name, file.read_bytes()) == ("données-été.csv", b"a;b")


def test_a_second_message_of_a_run_is_a_second_file(tmp_path):
    address = place("file", to=(str(tmp_path),))
    [first] = deliver(address)
    [second] = deliver(address, ANSWER._replace(facts={**ANSWER.facts, "number": 2}))
    assert (Path(first.id or "").name, Path(second.id or "").name) == (
        "2026-11-18-1215-morning-841.md", "2026-11-18-1215-morning-841-2.md",
    )  # fmt: skip


def test_the_oldest_files_go_and_others_stay(tmp_path):
    (tmp_path / "mine.md").write_text("mine")
    address = place("file", to=(str(tmp_path),), keep=2)
    file = kept(tmp_path, "report.pdf", b"%PDF-1", "application/pdf")
    for run in (1, 2, 3):
        slot = f"2026-11-{18 + run}T11:15:00Z"
        deliver(address, ANSWER._replace(files=(file,), facts={**ANSWER.facts, "run_id": str(run), "slot": slot}))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2026-11-20-1215-morning-2", "2026-11-20-1215-morning-2.md",
        "2026-11-21-1215-morning-3", "2026-11-21-1215-morning-3.md", "mine.md", "report.pdf",
    ]  # fmt: skip


def test_a_file_follows_no_link_and_says_what_is_wrong(tmp_path):
    """An agent that can write the folder cannot lead the answer elsewhere."""
    folder, other = tmp_path / "reports", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "kept.md").write_text("kept")
    (folder / "2026-11-18-1215-morning-841.md").symlink_to(other / "kept.md")
    (folder / "2026-11-18-1215-morning-841").symlink_to(other)
    deliver(place("file", to=(str(folder),)))
    assert (other / "kept.md").read_text() == "kept"
    file = kept(tmp_path, "report.pdf", b"%PDF-1", "application/pdf")
    with pytest.raises(NotDelivered, match="cannot be written: it is a link, or below one"):
        deliver(place("file", to=(str(folder),)), ANSWER._replace(files=(file,)))
    (tmp_path / "plain").write_text("")
    with pytest.raises(NotDelivered, match="cannot be written"):
        deliver(place("file", to=(str(tmp_path / "plain"),)))


# -- lost confirmations


def hung_up(send: Callable[[str], None]) -> None:
    """Call it with the address of a server that reads a request and hangs up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def read_and_hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)

        thread = threading.Thread(target=read_and_hang_up)
        thread.start()
        send(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize("kind", ["telegram", "slack", "discord", "ntfy", "webhook"])
def test_what_may_have_arrived_is_told_from_what_did_not(inbox, kind):
    """B21: a lost response is no refusal."""

    def send(url: str) -> None:
        with pytest.raises(NotDelivered) as lost:
            deliver(place(kind, url=url))
        assert lost.value.sent

    hung_up(send)
    with pytest.raises(NotDelivered) as closed:
        deliver(place(kind, url="http://127.0.0.1:9"))
    assert not closed.value.sent
    inbox.status, inbox.answer = 503, {"ok": False, "description": "busy"}
    with pytest.raises(NotDelivered) as refused:
        deliver(place(kind, url=inbox.url))
    assert (refused.value.sent, refused.value.retry) == (False, True)


@pytest.mark.parametrize("kind", ["telegram", "slack", "discord"])
def test_any_part_can_be_sent_again_and_says_so(inbox, kind, tmp_path):
    """B21: those around it stay what they were, so that nothing is lost between them."""
    inbox.answer = {"ok": True, "id": "1", "ts": "1.5", "result": {"message_id": 77}, "file_id": "F1",
                    "upload_url": f"{inbox.url}/upload"}  # fmt: skip
    numbered = " ".join(f"w{number:05}" for number in range(20_000))
    file = kept(tmp_path, "report.pdf", b"%PDF-1", "application/pdf")
    answer = ANSWER._replace(text=numbered, files=(file,))
    there = place(kind, url=inbox.url)
    parts, copies = parts_of(there, answer), parts_of(there, answer._replace(again=True))
    assert len(parts) == len(copies) == 7
    mark = f"Sent again: {kind.capitalize()} did not confirm the first copy."
    for part, copy in zip(parts, copies, strict=True):
        before, after = ("\n".join(texts_in(one.body)) for one in (part, copy))
        assert re.findall(r"w\d{5}", before) == re.findall(r"w\d{5}", after)
        assert (mark in before, mark in after) == (False, True)
        send_part(there, copy, KEY)
    said = [one.text for one in inbox.received if "/upload" not in one.path and "getUploadURL" not in one.path]
    assert [mark in text for text in said] == [True] * 7


@pytest.mark.parametrize(("kind", "answer"), [("slack", "<html>"), ("ntfy", []), ("discord", 7), ("telegram", None)])
def test_what_is_no_answer_of_the_service_confirms_nothing(inbox, kind, answer):
    """B21: a proxy may have let it through, or not."""
    inbox.answer = answer
    with pytest.raises(NotDelivered, match="the destination answered 200, and not what it answers") as caught:
        deliver(place(kind, url=inbox.url))
    assert caught.value.sent
    inbox.status = 502
    with pytest.raises(NotDelivered, match="the destination answered 502") as caught:
        deliver(place(kind, url=inbox.url))
    assert (caught.value.sent, caught.value.retry) == (False, True)


def test_slack_repeats_the_message_in_its_answer(inbox):
    """B21: which is longer than the message, and a receipt all the same."""
    inbox.answer = {"ok": True, "message": {"text": "x" * 200_000}, "ts": "1.5"}
    assert deliver(place("slack", url=inbox.url)) == [Receipt("1.5")]


@pytest.mark.parametrize(
    ("header", "wait_s"), [("120", 120), ("0", 0), ("9" * 400, 3_600), ("inf", 0), ("-1", 0), ("nan", 0), ("²", 0),
                           ("Wed, 18 Nov 2026 09:00:00 GMT", 0), ("", 0)],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
def test_a_destination_is_left_alone_as_long_as_it_says_but_not_for_ever(inbox, status, header, wait_s):
    inbox.status, inbox.headers = status, {"retry-after": header.encode("ascii", "ignore").decode()}
    with pytest.raises(NotDelivered) as caught:
        deliver(place("webhook", url=inbox.url))
    assert (caught.value.after_ms, caught.value.retry) == (wait_s * 1_000, True)


@pytest.mark.parametrize("kind", ["telegram", "slack", "discord", "email", "ntfy", "desktop", "apprise"])
def test_a_copy_says_that_it_is_one(kind):
    parts = parts_of(place(kind), ANSWER._replace(again=True))
    assert f"Sent again: {kind.capitalize()} did not confirm the first copy." in "\n".join(texts_in(parts[0].body))
