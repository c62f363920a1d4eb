"""Answers, as each kind of destination renders and sends them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from matins.delivery.destinations import Address, Answer, NotDelivered, Part, Receipt, parts_of, send_part
from matins.model.destination import Destination, Smtp
from standins.inbox import Inbox, open_inbox

NOW = 1_775_000_000_000
ANSWER = Answer(
    "✓ morning", "All is **well**.", "run 841 · 2 min 12 s · $0.14", "https://matins.example.com/runs/841",
    facts={"run_id": "841", "schedule": "morning", "state": "succeeded"},
)  # fmt: skip
KEY = "9a3e-841-1-0"


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with open_inbox() as found:
        yield found


def place(kind: str, **settings: Any) -> Address:
    return Address(Destination("there", kind, **settings), Smtp(), NOW)


def test_a_kind_that_only_sends_notices_gets_the_answer_as_one():
    """B17: a kind of a third party needs nothing more than `send`."""
    address = place("algorand")
    [part] = parts_of(address, ANSWER._replace(again=True))
    assert (part.body.title, part.body.link, part.body.level) == (ANSWER.title, ANSWER.link, "good")
    assert part.body.text.startswith("Sent again: algorand did not confirm the first copy.\n\nAll is")
    assert part.body.text.endswith(ANSWER.foot)


def test_a_kind_that_is_not_installed_is_said():
    with pytest.raises(NotDelivered, match="there is no kind of destination pigeon") as caught:
        parts_of(place("pigeon"), ANSWER)
    assert not caught.value.retry


def test_what_may_have_arrived_is_told_from_what_did_not(inbox):
    """B21: a lost response is no refusal."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        address = place("ntfy", url=f"http://127.0.0.1:{port}", to=("topic",))

        def read_and_hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)

        thread = threading.Thread(target=read_and_hang_up)
        thread.start()
        with pytest.raises(NotDelivered) as lost:
            send_part(address, parts_of(address, ANSWER)[0], KEY)
        thread.join()
    with pytest.raises(NotDelivered) as closed:
        send_part(address, parts_of(address, ANSWER)[0], KEY)
    inbox.status = 503
    there = place("ntfy", url=inbox.url, to=("topic",))
    with pytest.raises(NotDelivered) as refused:
        send_part(there, parts_of(there, ANSWER)[0], KEY)
    assert (lost.value.sent, closed.value.sent, refused.value.sent) == (True, False, False)
    inbox.status = 200
    assert isinstance(send_part(there, parts_of(there, ANSWER)[0], KEY), Receipt)
    assert isinstance(parts_of(there, ANSWER)[0], Part)
