"""Algorand: a transaction of nothing, whose note has the status and a digest. It needs the extra `algorand`.

The chain is public for ever: neither names nor errors nor output are in the note.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from typing import Any

import orjson

from matins.engine.notices import Message
from matins.errors import Example, InvalidInput
from matins.executors.destinations.protocol import Address, DestinationKind, NotDelivered
from matins.model.destination import Destination

_INSTALL = 'pip install "matins[algorand]"'


def send(address: Address, message: Message) -> None:
    """Best effort: one attempt, without waiting for the confirmation."""
    algod, account, mnemonic, transaction = _parts()
    try:
        client = algod.AlgodClient("", address.url)
        key = mnemonic.to_private_key(address.token or "")
        sender = account.address_from_private_key(key)
        payment = transaction.PaymentTxn(sender, client.suggested_params(), address.to[0], 0, note=note_of(message))
        client.send_transaction(payment.sign(key))
    except Exception as error:  # the library raises its own, urllib's and http.client's errors
        raise NotDelivered(f"the transaction was not sent: {type(error).__name__}", retry=False) from None


def note_of(message: Message) -> bytes:
    """The status, and the digest of the whole message, with which its owner can prove it."""
    digest = sha256(orjson.dumps([message.title, message.text, message.output])).hexdigest()
    return orjson.dumps(
        {"matins": 1, "status": message.facts.get("kind", "test"), "level": message.level, "sha256": digest}
    )


def check(destination: Destination) -> None:
    if len(destination.to) != 1 or destination.token is None or destination.url is None:
        hint = Example(
            {"url": "https://testnet-api.algonode.cloud", "to": ["ADDRESS"], "token": "env:ALGORAND_MNEMONIC"}
        )
        message = 'Algorand needs "url" (of a node), one address in "to", and "token" (the mnemonic of the sender).'
        raise InvalidInput(message, field="to", hint=hint)
    try:
        _parts()
    except NotDelivered as error:
        raise InvalidInput(f"{error.reason}.", value="algorand", field="kind", hint=_INSTALL) from None


def _parts() -> tuple[Any, Any, Any, Any]:
    names = ("algosdk.v2client.algod", "algosdk.account", "algosdk.mnemonic", "algosdk.transaction")
    try:
        algod, account, mnemonic, transaction = (import_module(name) for name in names)
    except ModuleNotFoundError:
        raise NotDelivered(f"the kind algorand needs a package: {_INSTALL}", retry=False) from None
    return algod, account, mnemonic, transaction


KIND = DestinationKind(
    "algorand", "A note on the Algorand chain with status and digest only; needs the extra algorand.", send,
    needs=("url", "to", "token"), check=check,
)  # fmt: skip
