"""ntfy, desktop notifications, webhooks and Apprise.

ntfy: a message to a topic, on ntfy.sh or a server of your own.

The desktop of the machine that runs Matins: notify-send, or osascript.

Any HTTP server: the message as JSON, signed if there is a secret.

Apprise: more than a hundred services by their URLs. It needs the extra `notify`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import import_module
from typing import Any

import orjson

from matins.delivery.destinations import Address, DestinationKind, NotDelivered, post, text_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.net.signing import sign

_SERVER = "https://ntfy.sh"
_MAX_BYTES = 3_900
"""ntfy turns longer messages into attachments."""
_PRIORITIES = {"bad": 4, "good": 3, "info": 3}
_TAGS = {"bad": "x", "good": "white_check_mark", "info": "information_source"}


def send_to_ntfy(address: Address, message: NoticeText) -> None:
    """Publish as JSON: titles in headers would have to be ASCII."""
    text = text_of(message).encode()[:_MAX_BYTES].decode("utf-8", "ignore")
    body: dict[str, Any] = {
        "topic": address.to[0],
        "title": message.title,
        "message": text,
        "priority": _PRIORITIES[message.level],
        "tags": [_TAGS[message.level]],
    }
    if message.link:
        body["click"] = message.link
    headers = {"content-type": "application/json"}
    if token := address.token:
        headers["authorization"] = f"Bearer {token}"
    post(address.url or _SERVER, orjson.dumps(body), headers)


def check_ntfy(destination: Destination) -> None:
    if len(destination.to) != 1:
        hint = Example({"to": ["env:NTFY_TOPIC"]})
        raise InvalidInput('ntfy needs one topic in "to".', value=list(destination.to), field="to", hint=hint)


NTFY = DestinationKind(
    "ntfy",
    "ntfy, a topic (to) on ntfy.sh or a server of your own (url); token if it needs one.",
    send_to_ntfy,
    check=check_ntfy,
)


_TIMEOUT_S = 10
_MAX_LENGTH = 400
_SCRIPT = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
"""The texts are arguments: they are never read as code."""


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


DESKTOP = DestinationKind("desktop", "A notice on the desktop of the machine that runs Matins.", send_to_desktop)


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
    body = orjson.dumps(document)
    headers = {"content-type": "application/json"}
    if (secret := address.token) is not None:
        id_ = f"incident-{message.facts.get('incident', 'test')}-{message.facts.get('action')}-{address.now}"
        headers |= sign(secret, id_, address.now // 1000, body)
    post(address.url, body, headers)


WEBHOOK = DestinationKind(
    "webhook", "Any server that takes JSON (url), such as Mattermost or Teams; signed with token if given.",
    send_to_webhook, needs=("url",),
)  # fmt: skip


_TYPES = {"bad": "failure", "good": "success", "info": "info"}
_INSTALL = 'pip install "matins[notify]"'


def send_by_apprise(address: Address, message: NoticeText) -> None:
    found = _apprise()
    if not found.add(address.url):
        raise NotDelivered("Apprise does not know the service of this URL", retry=False)
    if not found.notify(title=message.title, body=text_of(message), notify_type=_TYPES[message.level]):
        raise NotDelivered("the service did not take the message")


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
)  # fmt: skip
