"""ntfy, desktop notifications, webhooks and Apprise.

ntfy: a message to a topic, on ntfy.sh or a server of your own.

The desktop of the machine that runs Matins: notify-send, or osascript.

Any HTTP server: the message as JSON, signed if there is a secret.

Apprise: more than a hundred services by their URLs. It needs the extra `notify`.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any

import orjson

from matins.delivery.destinations import (
    Address,
    Answer,
    DestinationKind,
    NotDelivered,
    Part,
    Receipt,
    post,
    reply_of,
    text_of,
)
from matins.delivery.destinations.layout import as_notice, body_of, foot, names_of_files
from matins.delivery.destinations.markdown_text import written
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.net.signing import sign
from matins.texts.markdown import blocks, to_html

_SERVER = "https://ntfy.sh"
_MAX_BYTES = 4_096
"""ntfy turns longer messages into attachments."""
_PRIORITIES = {"bad": 4, "good": 3, "info": 3}
_TAGS = {"bad": "x", "good": "white_check_mark", "info": "information_source"}


def ntfy_parts(address: Address, answer: Answer) -> list[Part]:
    """One message, cut if it is too long; a tap opens the page of the run."""
    return [Part(as_notice(address, answer, lambda notice: len(text_of(notice).encode()) <= _MAX_BYTES))]


def answer_to_ntfy(address: Address, part: Part, key: str) -> Receipt:
    return _published(address, part.body)


def send_to_ntfy(address: Address, message: NoticeText) -> None:
    _published(address, message)


def _published(address: Address, message: NoticeText) -> Receipt:
    """Publish as JSON: titles in headers would have to be ASCII."""
    body: dict[str, Any] = {
        "topic": address.to[0],
        "title": message.title,
        "message": text_of(message).encode()[:_MAX_BYTES].decode("utf-8", "ignore"),
        "priority": _PRIORITIES[message.level],
        "tags": [_TAGS[message.level]],
    }
    if message.link:
        body["click"] = message.link
    headers = {"content-type": "application/json"}
    if token := address.token:
        headers["authorization"] = f"Bearer {token}"
    answer = reply_of(post(address.url or _SERVER, orjson.dumps(body), headers))
    return Receipt(str(answer.get("id", "")) or None)


def check_ntfy(destination: Destination) -> None:
    if len(destination.to) != 1:
        hint = Example({"to": ["env:NTFY_TOPIC"]})
        raise InvalidInput('ntfy needs one topic in "to".', value=list(destination.to), field="to", hint=hint)


NTFY = DestinationKind(
    "ntfy",
    "ntfy, a topic (to) on ntfy.sh or a server of your own (url); token if it needs one.",
    send_to_ntfy,
    check=check_ntfy,
    parts=ntfy_parts,
    answer=answer_to_ntfy,
)


_TIMEOUT_S = 10
_MAX_LENGTH = 400
_SCRIPT = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
"""The texts are arguments: they are never read as code."""


def desktop_parts(address: Address, answer: Answer) -> list[Part]:
    return [Part(as_notice(address, answer, lambda notice: len(notice.text) <= _MAX_LENGTH))]


def answer_to_desktop(address: Address, part: Part, key: str) -> Receipt:
    send_to_desktop(address, part.body)
    return Receipt(None)


def send_to_desktop(address: Address, message: NoticeText) -> None:
    command = _command(message)
    if command is None:
        raise NotDelivered("this machine has neither notify-send nor osascript", retry=False)
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotDelivered(f"{command[0]} did not answer: {error}") from None
    if done.returncode:
        raise NotDelivered(f"{command[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")


def _command(message: NoticeText) -> list[str] | None:
    text = message.text[:_MAX_LENGTH]
    if program := shutil.which("notify-send", path=os.defpath):
        urgency = "critical" if message.level == "bad" else "normal"
        return [program, "--app-name=Matins", f"--urgency={urgency}", "--", message.title, text]
    if program := shutil.which("osascript", path=os.defpath):
        return [program, "-e", _SCRIPT, "--", message.title, text]
    return None


DESKTOP = DestinationKind(
    "desktop", "A notice on the desktop of the machine that runs Matins.",
    send_to_desktop, parts=desktop_parts, answer=answer_to_desktop,
)  # fmt: skip


def webhook_parts(address: Address, answer: Answer) -> list[Part]:
    """One document with all of the answer, for programs: its files by name and digest."""
    document = {
        **answer.facts,
        "type": "answer",
        "title": answer.title,
        "text": answer.text,
        "html": to_html(blocks(answer.text)),
        "foot": answer.foot,
        "notes": list(answer.notes),
        "link": answer.link,
        "files": [
            {"name": file.name, "size": file.size, "sha256": file.digest, "media_type": file.media_type}
            for file in answer.files
        ],
    }
    return [Part(document)]


def answer_to_webhook(address: Address, part: Part, key: str) -> Receipt:
    _posted(address, part.body, key)
    return Receipt(key)


def send_to_webhook(address: Address, message: NoticeText) -> None:
    """Post `title`, `text`, `level` and the incident. The field `text` alone suits most chat servers."""
    document = {
        "title": message.title,
        "text": f"{message.title}\n{text_of(message)}",
        "level": message.level,
        "output": message.output,
        "commands": list(message.commands),
        "link": message.link,
        **message.facts,
    }
    _posted(address, document, message.key or f"test-{address.now}")


def _posted(address: Address, document: dict[str, Any], key: str) -> None:
    """Post a document under its key, signed if there is a secret: a receiver recognizes a repetition by the key."""
    body = orjson.dumps(document)
    signature = (
        {"webhook-id": key} if (secret := address.token) is None else sign(secret, key, address.now // 1000, body)
    )
    post(address.url, body, {"content-type": "application/json", **signature})


WEBHOOK = DestinationKind(
    "webhook", "Any server that takes JSON (url), such as Mattermost or Teams; signed with token if given.",
    send_to_webhook, needs=("url",), parts=webhook_parts, answer=answer_to_webhook, keyed=True, limited=False,
)  # fmt: skip


_TYPES = {"bad": "failure", "good": "success", "info": "info"}
_INSTALL = 'pip install "matins[notify]"'


_TAG = re.compile(r"<(?=[A-Za-z/!?@#])")
_MARKUP = re.compile(r"[\\*_~`|\[\]]")
_EVERYONE = re.compile(r"@(?=everyone|here|channel|all)", re.IGNORECASE)


def apprise_parts(address: Address, answer: Answer) -> list[Part]:
    """Markdown, which Apprise turns into what the service takes, and cuts where the service needs it."""
    body = [*body_of(address, answer), *foot(answer, *names_of_files(answer))]
    level = "bad" if answer.facts.get("state") == "failed" else "good"
    return [Part((NoticeText(answer.title, written(body, escape_for_apprise), level=level), "markdown"))]


def escape_for_apprise(text: str) -> str:
    """No marks, no tags, and no mentions of everyone: some services find them in any text."""
    plain = _TAG.sub("&lt;", _MARKUP.sub(r"\\\g<0>", text.replace("&", "&amp;")))
    return _EVERYONE.sub("@\u200b", plain)


def answer_by_apprise(address: Address, part: Part, key: str) -> Receipt:
    _notify(address, *part.body)
    return Receipt(None)


def send_by_apprise(address: Address, message: NoticeText) -> None:
    _notify(address, message._replace(text=text_of(message)), "text")


def _notify(address: Address, message: NoticeText, form: str) -> None:
    found = _apprise()
    if not found.add(address.url):
        raise NotDelivered("Apprise does not know the service of this URL", retry=False)
    kind = _TYPES[message.level]
    _log_all()
    told = list[str]()
    _told.set(told)
    if not found.notify(title=message.title, body=message.text, notify_type=kind, body_format=form):
        raise NotDelivered("the service did not take the message", sent=any(map(_NO_ANSWER.search, told)))


_NO_ANSWER = re.compile(r"[Rr]ead timed out|Connection aborted|Connection broken|IncompleteRead")
"""How the library under Apprise says that a request had no answer."""
_told: ContextVar[list[str]] = ContextVar("logged")
"""What Apprise logs for a message. It may hold tokens of the URL, and is not shown."""


@cache
def _log_all() -> None:
    """Let Apprise log why a message was not taken. What others see of its log stays the same."""
    log = logging.getLogger("apprise")
    shown = log.getEffectiveLevel()

    def keep(record: logging.LogRecord) -> bool:
        if (told := _told.get(None)) is not None:
            told.append(record.getMessage())
        return record.levelno >= shown

    log.addFilter(keep)
    log.setLevel(logging.DEBUG)


def check_apprise(destination: Destination) -> None:
    """Refuse a URL that Apprise does not know. A URL that is elsewhere is read when a message is sent."""
    try:
        found = _apprise()
    except NotDelivered as error:
        raise InvalidInput(f"{error.reason}.", value="apprise", field="kind", hint=_INSTALL) from None
    if (
        destination.url is not None
        and not destination.url.startswith(("env:", "file:"))
        and not found.add(destination.url)
    ):
        hint = Example({"url": "env:APPRISE_URL"})
        raise InvalidInput("Apprise does not know the service of this URL.", field="url", hint=hint)


def _apprise() -> Any:
    try:
        return import_module("apprise").Apprise()
    except ModuleNotFoundError:
        raise NotDelivered(f"the kind apprise needs a package: {_INSTALL}", retry=False) from None


APPRISE = DestinationKind(
    "apprise", "Any service that Apprise knows, by its URL; needs the extra notify.",
    send_by_apprise, needs=("url",), check=check_apprise, url_kind="apprise",
    parts=apprise_parts, answer=answer_by_apprise,
)  # fmt: skip
