"""Other systems that deliver webhooks, signing as their documentation says; written apart from what verifies them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

SECRET = "it's a secret to everybody"
STANDARD_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
PULL_REQUEST: dict[str, Any] = {
    "action": "opened",
    "number": 1347,
    "pull_request": {
        "url": "https://api.github.com/repos/octo-org/octo-repo/pulls/1347",
        "id": 1,
        "number": 1347,
        "state": "open",
        "locked": False,
        "title": "Amazing new feature",
        "user": {"login": "octocat", "id": 1, "type": "User", "site_admin": False},
        "body": "Please pull these awesome changes in!",
        "labels": [{"id": 208045946, "name": "bug", "color": "f29513"}, {"id": 2, "name": "ready", "color": "0"}],
        "draft": False,
        "head": {"label": "octocat:new-topic", "ref": "new-topic", "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e"},
        "base": {"label": "octocat:master", "ref": "master", "sha": "c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c"},
        "additions": 100,
        "deletions": 3,
        "changed_files": 5,
    },
    "repository": {"id": 1296269, "name": "octo-repo", "full_name": "octo-org/octo-repo", "private": False},
    "organization": {"login": "octo-org", "id": 6811672},
    "sender": {"login": "octocat", "id": 1, "type": "User"},
}
PAYMENT: dict[str, Any] = {
    "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    "object": "event",
    "api_version": "2019-02-19",
    "created": 1686089970,
    "data": {
        "object": {
            "id": "pi_3MtwBwLkdIwHu7ix28a3tqPa",
            "object": "payment_intent",
            "amount": 2000,
            "currency": "usd",
            "status": "succeeded",
            "metadata": {},
        }
    },
    "livemode": False,
    "pending_webhooks": 0,
    "request": {"id": None, "idempotency_key": None},
    "type": "payment_intent.succeeded",
}


def mac(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def body_of(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def github(
    document: Any = PULL_REQUEST, key: str = "72d3162e-cc78-11e3-81ab-4c9367dc0958", event: str = "pull_request",
    secret: str = SECRET,
) -> tuple[bytes, dict[str, str]]:  # fmt: skip
    body = body_of(document)
    return body, {
        "User-Agent": "GitHub-Hookshot/044aadd",
        "Content-Type": "application/json",
        "X-GitHub-Delivery": key,
        "X-GitHub-Event": event,
        "X-Hub-Signature-256": f"sha256={mac(secret, body)}",
    }


def stripe(now_s: int, document: Any = PAYMENT, secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    body = json.dumps(document, indent=2).encode()  # as Stripe sends it
    signature = mac(secret, f"{now_s}.".encode() + body)
    return body, {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": f"t={now_s},v1={'0' * 64},v1={signature},v0={'1' * 64}",
    }


def slack(now_s: int, document: Any, secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    body = body_of(document)
    return body, {
        "Content-Type": "application/json",
        "X-Slack-Request-Timestamp": str(now_s),
        "X-Slack-Signature": "v0=" + mac(secret, f"v0:{now_s}:".encode() + body),
    }


def gitlab(document: Any, key: str = "c2675c66", secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    headers = {"X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": key}
    return body_of(document), {"Content-Type": "application/json", **headers}


def standard(now_s: int, document: Any, key: str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W") -> tuple[bytes, dict[str, str]]:
    body = body_of(document)
    secret = base64.b64decode(STANDARD_SECRET.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(secret, f"{key}.{now_s}.".encode() + body, hashlib.sha256).digest()).decode()
    return body, {
        "Content-Type": "application/json",
        "webhook-id": key,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{'A' * 43}= v1,{signature}",
    }


def own(now_s: int, document: Any, key: str | None = None) -> tuple[bytes, dict[str, str]]:
    """Someone who signs in his own way: SHA-512 in base64, with the time in between."""
    body = body_of(document)
    digest = hmac.new(SECRET.encode(), f"{now_s}:".encode() + body, hashlib.sha512).digest()
    headers = {"X-Sign": "s1=" + base64.b64encode(digest).decode(), "X-Time": str(now_s)}
    return body, {"Content-Type": "application/json", **headers, **({"X-Id": key} if key else {})}


OWN = {
    "header": "X-Sign", "prefix": "s1=", "encoding": "base64", "algorithm": "sha512",
    "signed": "{timestamp}:{body}", "timestamp": "X-Time", "id": "X-Id",
}  # fmt: skip


def bearer(document: Any, secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    return body_of(document), {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
