"""Signatures of inbound webhooks, by kind: verified over the raw body, and made for tests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from matins.errors import InvalidInput
from matins.model.call import InboundEndpoint, InboundKind
from matins.net import signing

TOLERANCE_S = 300
_SECONDS = re.compile(r"[0-9]{1,12}")
Headers = Mapping[str, str]
"""Headers by their names in lower case."""


class Delivery(NamedTuple):
    """A request as it was received."""

    headers: Headers
    body: bytes


class Scheme(NamedTuple):
    """How senders of one kind sign, and where the id and the type of a delivery are."""

    verify: Callable[[InboundEndpoint, str, Delivery, int], bool]
    sign: Callable[[InboundEndpoint, str, bytes, str, int], dict[str, str]]
    """The headers of a body with an id, signed at an instant in seconds."""
    id: Callable[[InboundEndpoint, Headers, Any], Any]
    """The id of a delivery; None where its body identifies it."""
    signed: Callable[[InboundEndpoint, Delivery], bytes | None]
    """What the sender signed, if that does not include the id: a repeat can have another id then. None if the id is
    signed, or if nothing is signed because the sender sends the secret itself."""
    type_header: str | None = None
    """The header with the type; None where the body has it."""


def verify(endpoint: InboundEndpoint, secrets: Iterable[str], delivery: Delivery, now_s: int) -> bool:
    """Whether one of the secrets signed the delivery, within the tolerance where the sender names the time."""
    scheme = SCHEMES[endpoint.kind]
    return any(scheme.verify(endpoint, secret, delivery, now_s) for secret in secrets if secret)


def delivery_type(endpoint: InboundEndpoint, headers: Headers, document: Any) -> str | None:
    header = SCHEMES[endpoint.kind].type_header
    if header is not None:
        return headers.get(header)
    found = _field(document, "type")
    if endpoint.kind == "slack" and found == "event_callback":
        found = _field(_field(document, "event"), "type")
    return found if isinstance(found, str) else None


def _field(document: Any, name: str) -> Any:
    return cast("dict[str, Any]", document).get(name) if isinstance(document, dict) else None


def _same(ours: str, theirs: str) -> bool:
    """Whether two texts are equal, in constant time."""
    return hmac.compare_digest(ours.encode(), theirs.encode(errors="replace"))


def _recent(timestamp: str, now_s: int) -> bool:
    return bool(_SECONDS.fullmatch(timestamp)) and abs(now_s - int(timestamp)) <= TOLERANCE_S


def _hex(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


# -- standard


def _verify_standard(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    try:
        signing.verify(secret, delivery.headers, delivery.body, now_s, TOLERANCE_S)
    except InvalidInput:
        return False
    return True


def _sign_standard(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    return signing.sign(secret, key, now_s, body)


# -- github


def _verify_github(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    return _same(f"sha256={_hex(secret, delivery.body)}", delivery.headers.get("x-hub-signature-256", ""))


def _sign_github(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={_hex(secret, body)}", "x-github-delivery": key}


# -- stripe


def _verify_stripe(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    pairs = [part.strip().partition("=") for part in delivery.headers.get("stripe-signature", "").split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    if len(times) != 1:
        return False
    expected = _hex(secret, f"{times[0]}.".encode() + delivery.body)
    matches = [_same(expected, value) for name, _, value in pairs if name == "v1"]
    return any(matches) and _recent(times[0], now_s)


def _sign_stripe(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    return {"stripe-signature": f"t={now_s},v1={_hex(secret, f'{now_s}.'.encode() + body)}"}


# -- slack


def verify_slack(secret: str, delivery: Delivery, now_s: int) -> bool:
    """Whether Slack signed the request, within the tolerance."""
    timestamp = delivery.headers.get("x-slack-request-timestamp", "")
    expected = "v0=" + _hex(secret, f"v0:{timestamp}:".encode(errors="replace") + delivery.body)
    return _same(expected, delivery.headers.get("x-slack-signature", "")) and _recent(timestamp, now_s)


def _verify_slack(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    return verify_slack(secret, delivery, now_s)


def _sign_slack(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    signature = "v0=" + _hex(secret, f"v0:{now_s}:".encode() + body)
    return {"x-slack-request-timestamp": str(now_s), "x-slack-signature": signature}


# -- gitlab


def _verify_gitlab(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    return _same(secret, delivery.headers.get("x-gitlab-token", ""))


def _sign_gitlab(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    return {"x-gitlab-token": secret, "x-gitlab-event-uuid": key}


# -- hmac


_FILLED = re.compile(r"\{(?:timestamp|id)\}")


def _verify_hmac(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    if endpoint.timestamp and not _recent(delivery.headers.get(endpoint.timestamp.lower(), ""), now_s):
        return False
    if not _is_bounded(endpoint, _header(delivery, endpoint.id)):
        return False
    given = delivery.headers.get((endpoint.header or "").lower(), "")
    return _same(_hmac_value(endpoint, secret, delivery), given)


def _is_bounded(endpoint: InboundEndpoint, key: str) -> bool:
    """Whether a signed id ends where it seems to: otherwise the same signature is right for a part of the id, and for
    an id with a part of the body."""
    around = endpoint.signed.partition("{id}")
    if not around[1]:
        return True
    return bool(key) and not any(text and text in key for text in (around[0][-1:], around[2][:1]))


def _header(delivery: Delivery, name: str | None) -> str:
    return delivery.headers.get(name.lower(), "") if name else ""


def _hmac_content(endpoint: InboundEndpoint, delivery: Delivery) -> bytes:
    before, _, after = endpoint.signed.partition("{body}")
    known = {"{timestamp}": _header(delivery, endpoint.timestamp), "{id}": _header(delivery, endpoint.id)}
    filled = [_FILLED.sub(lambda found: known[found[0]], text).encode(errors="replace") for text in (before, after)]
    return filled[0] + delivery.body + filled[1]


def _hmac_value(endpoint: InboundEndpoint, secret: str, delivery: Delivery) -> str:
    content = _hmac_content(endpoint, delivery)
    digest = hmac.new(secret.encode(), content, getattr(hashlib, endpoint.algorithm)).digest()
    return (endpoint.prefix or "") + (digest.hex() if endpoint.encoding == "hex" else base64.b64encode(digest).decode())


def _sign_hmac(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    headers = {endpoint.timestamp.lower(): str(now_s)} if endpoint.timestamp else {}
    headers |= {endpoint.id.lower(): key} if endpoint.id else {}
    return headers | {(endpoint.header or "").lower(): _hmac_value(endpoint, secret, Delivery(headers, body))}


def _signed_hmac(endpoint: InboundEndpoint, delivery: Delivery) -> bytes | None:
    return None if "{id}" in endpoint.signed else _hmac_content(endpoint, delivery)


# -- bearer


def _verify_bearer(endpoint: InboundEndpoint, secret: str, delivery: Delivery, now_s: int) -> bool:
    scheme, _, given = delivery.headers.get("authorization", "").partition(" ")
    return _same(secret, given.strip()) and scheme.lower() == "bearer"


def _sign_bearer(endpoint: InboundEndpoint, secret: str, body: bytes, key: str, now_s: int) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}", **({endpoint.id.lower(): key} if endpoint.id else {})}


def _in_header(name: str) -> Callable[[InboundEndpoint, Headers, Any], Any]:
    return lambda endpoint, headers, document: headers.get(name)


def _in_body(name: str) -> Callable[[InboundEndpoint, Headers, Any], Any]:
    return lambda endpoint, headers, document: _field(document, name)


def _as_set(endpoint: InboundEndpoint, headers: Headers, document: Any) -> Any:
    return headers.get(endpoint.id.lower()) if endpoint.id else None


def _body(endpoint: InboundEndpoint, delivery: Delivery) -> bytes:
    return delivery.body


def _id_counts(endpoint: InboundEndpoint, delivery: Delivery) -> None:
    return None


SCHEMES: Mapping[InboundKind, Scheme] = {
    "standard": Scheme(_verify_standard, _sign_standard, _in_header("webhook-id"), _id_counts),
    "github": Scheme(_verify_github, _sign_github, _in_header("x-github-delivery"), _body, "x-github-event"),
    "stripe": Scheme(_verify_stripe, _sign_stripe, _in_body("id"), _id_counts),
    "slack": Scheme(_verify_slack, _sign_slack, _in_body("event_id"), _id_counts),
    "gitlab": Scheme(_verify_gitlab, _sign_gitlab, _in_header("x-gitlab-event-uuid"), _id_counts, "x-gitlab-event"),
    "hmac": Scheme(_verify_hmac, _sign_hmac, _as_set, _signed_hmac),
    "bearer": Scheme(_verify_bearer, _sign_bearer, _as_set, _id_counts),
}
