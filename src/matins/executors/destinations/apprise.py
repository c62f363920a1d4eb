"""Apprise: more than a hundred services by their URLs. It needs the extra `notify`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from matins.engine.notices import Message
from matins.errors import Example, InvalidInput
from matins.executors.destinations.protocol import Address, DestinationKind, NotDelivered, text_of
from matins.model.destination import Destination

_TYPES = {"bad": "failure", "good": "success", "info": "info"}
_INSTALL = 'pip install "matins[notify]"'


def send_by_apprise(address: Address, message: Message) -> None:
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
    "apprise", "Any service that Apprise knows, by its URL; needs the extra notify.", send_by_apprise, needs=("url",), check=check_apprise,
    url_kind="apprise",
)  # fmt: skip
