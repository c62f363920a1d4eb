"""Standard Webhooks: sign messages, and verify signatures."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets as randomness
from collections.abc import Iterable, Mapping

from matins.errors import InvalidInput

_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)
_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

# The full stop separates the signed parts: an id that contains one would be ambiguous.
_MESSAGE_ID = re.compile(r"[!-\-/-~]+")
_SECONDS = re.compile(r"[0-9]{1,12}")


def new_secret() -> str:
    return _PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def sign(secret: str, message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers that sign a message. Several secrets, separated by spaces, sign it several times."""
    content = _content(message_id, str(timestamp_s), body)
    return {
        _ID: message_id,
        _TIMESTAMP: str(timestamp_s),
        _SIGNATURE: " ".join(_signature(key, content) for key in _keys([secret])),
    }


def verify(
    secrets: str | Iterable[str], headers: Mapping[str, str], body: bytes, now_s: int, tolerance_s: int = 300
) -> None:
    """Raise InvalidInput unless one of the secrets signed this message within the tolerance."""
    keys = _keys([secrets] if isinstance(secrets, str) else secrets)
    lower = {name.lower(): value for name, value in headers.items()}
    for name in (_ID, _TIMESTAMP, _SIGNATURE):
        if not lower.get(name):
            raise InvalidInput(
                f"The header {name} is missing.", field=name, hint="Sign the message as described by Standard Webhooks."
            )
    message_id, timestamp, signatures = lower[_ID], lower[_TIMESTAMP], lower[_SIGNATURE]
    _check_age(timestamp, now_s, tolerance_s)
    content = _content(message_id, timestamp, body)
    expected = [_signature(key, content).encode() for key in keys]
    given = [signature.encode(errors="replace") for signature in signatures.split(" ")]
    if not any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in given):
        raise InvalidInput(
            "The signature does not match the message.",
            field=_SIGNATURE,
            hint="Check that both sides use the same secret, and verify the body as the bytes that were received.",
        )


def _signature(key: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def _content(message_id: str, timestamp: str, body: bytes) -> bytes:
    if not _MESSAGE_ID.fullmatch(message_id):
        raise InvalidInput(
            "A message id cannot be empty or contain spaces or full stops.",
            value=message_id,
            field=_ID,
            allowed="printable ASCII without spaces and full stops",
        )
    return f"{message_id}.{timestamp}.".encode() + body


def _keys(secrets: Iterable[str]) -> list[bytes]:
    keys = [_key(secret) for several in secrets for secret in several.split()]
    if not keys:
        raise _bad_secret("No signing secret is given.")
    return keys


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        raise _bad_secret(f"The signing secret does not begin with {_PREFIX}.")
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise _bad_secret("The signing secret is not base64.") from None
    if len(key) not in _SECRET_BYTES:
        raise _bad_secret(f"The signing secret has {len(key)} bytes; it must have 24 to 64.")
    return key


def _bad_secret(message: str) -> InvalidInput:
    """The error for a secret, without its value."""
    return InvalidInput(
        message,
        field="secret",
        allowed=f"{_PREFIX} and the base64 of 24 to 64 random bytes",
        hint=f'Create one: echo "{_PREFIX}$(openssl rand -base64 32)".',
    )


def _check_age(timestamp: str, now_s: int, tolerance_s: int) -> None:
    if not _SECONDS.fullmatch(timestamp):
        raise InvalidInput(
            "The timestamp is not a number of seconds.", value=timestamp, field=_TIMESTAMP, allowed="Unix seconds"
        )
    age = now_s - int(timestamp)
    if abs(age) > tolerance_s:
        raise InvalidInput(
            f"The message is {age} s old." if age > 0 else f"The message is {-age} s in the future.",
            value=timestamp,
            field=_TIMESTAMP,
            allowed=f"within {tolerance_s} s of now",
            hint="Check the clocks on both sides. Sign a message again when you send it again.",
        )
