"""corvid-agent's `notify_address`: an account of Algorand that gets messages, if a destination sends to it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

from matins.errors import InvalidInput

NOTIFY_ADDRESS = "notify_address"
"""The label of the schedule."""
KIND = "algorand"
NO_ADDRESS = "is not an address of Algorand: 58 letters and digits, whose last ones are a checksum"
_LENGTH, _KEY_BYTES, _CHECKSUM_BYTES = 58, 32, 4


def nothing_sent(address: str) -> str:
    return f"Nothing is sent to {address}: the schedule has no destination of kind {KIND}."


def fix_for(address: str) -> str:
    return f"matins destinations set chain --kind {KIND} --url NODE --to {address} --token env:ALGORAND_MNEMONIC"


def address_in(labels: Mapping[str, str] | None) -> str | None:
    return (labels or {}).get(NOTIFY_ADDRESS)


def is_address(text: str) -> bool:
    if len(text) != _LENGTH or not text.isascii():
        return False
    try:
        decoded = base64.b32decode(f"{text}======")
    except binascii.Error:
        return False
    key, checksum = decoded[:_KEY_BYTES], decoded[_KEY_BYTES:]
    canonical = base64.b32encode(decoded).decode().rstrip("=") == text
    return canonical and hashlib.new("sha512_256", key).digest()[-_CHECKSUM_BYTES:] == checksum


def check_address(text: str, field: str) -> None:
    if not is_address(text):
        hint = "Copy the whole address from your wallet, or omit it."
        raise InvalidInput(f'"{field}" {NO_ADDRESS}.', value=text, field=field, hint=hint)
