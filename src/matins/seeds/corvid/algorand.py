"""Algorand: a transaction of nothing, whose note has the status and a digest. It needs the extra `algorand`.

The chain is public for ever: neither names nor errors nor output are in the note.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple

import orjson

from matins.delivery.destinations import TIMEOUT_S, Address, DestinationKind, NotDelivered
from matins.delivery.texts import NoticeText
from matins.engine.notify_addresses import NO_ADDRESS, is_address
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination

_INSTALL = 'pip install "matins[algorand]"'
_NO_ADDRESS = f'"to" {NO_ADDRESS}'
_MAX_ANSWER = 300


def send(address: Address, message: NoticeText) -> None:
    """Best effort: one attempt, without waiting for the confirmation."""
    parts = _parts()
    try:
        key = parts.mnemonic.to_private_key(address.token or "")
    except Exception:  # each way to be wrong has its own error; none may repeat the words
        raise NotDelivered("the token is not a mnemonic of 25 words", retry=False) from None
    sender, receiver = parts.account.address_from_private_key(key), address.to[0]
    if not is_address(receiver):
        raise NotDelivered(_NO_ADDRESS, retry=False)
    client = parts.algod.AlgodClient("", address.url)
    try:
        params = client.suggested_params(timeout=TIMEOUT_S)
        payment = parts.transaction.PaymentTxn(sender, params, receiver, 0, note=note_of(message))
        [signed] = parts.composer.AccountTransactionSigner(key).sign_transactions([payment], [0])
        client.send_transaction(signed, timeout=TIMEOUT_S)
    except Exception as error:  # the library raises its own, urllib's and http.client's errors
        raise NotDelivered(f"the transaction was not sent: {_said(error)}", retry=False) from None


def _said(error: Exception) -> str:
    """What the node answered; of other errors the name, since they may repeat the URL."""
    code: int | None = getattr(error, "code", None)
    if code is None:
        return type(error).__name__
    return f"the node answered {code}: {' '.join(str(error).split())[:_MAX_ANSWER]}"


def note_of(message: NoticeText) -> bytes:
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
    [receiver] = destination.to
    if not receiver.startswith(("env:", "file:")) and not is_address(receiver):
        hint = Example({"to": ["env:ALGORAND_ADDRESS"]})
        raise InvalidInput(f"{_NO_ADDRESS}.", value=receiver, field="to", hint=hint)


class _Parts(NamedTuple):
    algod: Any
    account: Any
    composer: Any
    mnemonic: Any
    transaction: Any


def _parts() -> _Parts:
    """The modules of the library, which has no types and takes a while to load."""
    names = ("v2client.algod", "account", "atomic_transaction_composer", "mnemonic", "transaction")
    try:
        return _Parts(*(import_module(f"algosdk.{name}") for name in names))
    except ModuleNotFoundError:
        raise NotDelivered(f"the kind algorand needs a package: {_INSTALL}", retry=False) from None


ALGORAND = DestinationKind(
    "algorand", "A note on the Algorand chain with status and digest only; needs the extra algorand.", send,
    needs=("url", "to", "token"), check=check,
)  # fmt: skip
