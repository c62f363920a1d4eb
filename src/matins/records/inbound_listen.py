"""The address of inbound endpoints, when it is not the API's."""

import re
from dataclasses import dataclass
from typing import Annotated

from matins.errors import Example, InvalidInput
from matins.model.settings import Setting, Text
from matins.records.kind import Column, Document, RecordContext, RecordKind, always
from matins.records.storage import POLICIES

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class InboundListen:
    address: Annotated[
        str | None,
        Setting(
            Text(100), "Address that serves inbound endpoints and nothing else, from the next start of the daemon on.",
            "127.0.0.1:7412", required=True,
        ),
    ] = None  # fmt: skip

    @property
    def parts(self) -> tuple[str, int] | None:
        """Host and port; None for the API's own address."""
        match = _ADDRESS.fullmatch(self.address or "")
        return (match["host"].strip("[]"), int(match["port"])) if match else None


def _complete(value: InboundListen, context: RecordContext) -> InboundListen:
    if value.address is not None and (value.parts is None or value.parts[1] > 65_535):
        message = f'"address" must be HOST:PORT, not {value.address!r}.'
        raise InvalidInput(message, value=value.address, field="address", hint=Example({"address": "127.0.0.1:7412"}))
    return value


def _address(document: Document) -> str:
    return document["address"] or "the API's"


INBOUND_LISTEN = RecordKind(
    kind="inbound_listen",
    noun="inbound_listen",
    one="address of inbound endpoints",
    key="",
    value=InboundListen,
    help="Manage the address that serves inbound endpoints alone.",
    file_help="Address that serves inbound endpoints and nothing else.",
    storage=POLICIES,
    alone="address",
    complete=_complete,
    usual=always(InboundListen()),
    columns=(Column("ADDRESS", _address),),
    example="matins inbound-listen set 127.0.0.1:7412",
)
