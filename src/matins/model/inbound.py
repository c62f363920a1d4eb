"""Inbound endpoints: where other systems deliver their webhooks."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from matins.model.settings import Choice, Int, Names, Secret, Setting, Text

InboundKind = Literal["standard", "github", "stripe", "slack", "gitlab", "hmac", "bearer"]
Encoding = Literal["hex", "base64"]
Algorithm = Literal["sha256", "sha512"]
MAX_BODY_BYTES = 8 << 20


# fmt: off
@dataclass(frozen=True, slots=True)
class InboundEndpoint:
    name: str
    kind: Annotated[InboundKind,
        Setting(Choice(get_args(InboundKind)), "How the sender signs its deliveries.", "github", required=True)]
    secret: Annotated[str,
        Setting(Secret(), "Where the secret is: env:NAME or file:/path.", "env:GH_SECRET", required=True)]
    previous_secret: Annotated[str | None,
        Setting(Secret(), "Where the former secret is, which is accepted too while it is replaced.",
                "env:OLD_SECRET")] = None
    events: Annotated[tuple[str, ...],
        Setting(Names(empty=True), "Types of events that count; default: all.", ["pull_request"])] = ()
    max_bytes: Annotated[int,
        Setting(Int(1_024, MAX_BODY_BYTES), "Largest body that is read.", 262_144)] = 1 << 20
    max_per_minute: Annotated[int,
        Setting(Int(1, 10_000), "Number of deliveries a minute that are accepted.", 600)] = 60
    header: Annotated[str | None,
        Setting(Text(100), "Header with the signature (hmac).", "X-Signature")] = None
    prefix: Annotated[str | None,
        Setting(Text(50), "Text before the signature in its header (hmac).", "sha256=")] = None
    encoding: Annotated[Encoding,
        Setting(Choice(get_args(Encoding)), "Encoding of the signature (hmac).", "base64")] = "hex"
    algorithm: Annotated[Algorithm,
        Setting(Choice(get_args(Algorithm)), "Algorithm of the signature (hmac).", "sha512")] = "sha256"
    signed: Annotated[str,
        Setting(Text(100), "What is signed, with {body}, {timestamp} and {id} (hmac).",
                "{timestamp}.{body}")] = "{body}"
    timestamp: Annotated[str | None,
        Setting(Text(100), "Header with the time of the signature in seconds (hmac).", "X-Timestamp")] = None
    id: Annotated[str | None,
        Setting(Text(100), "Header with the id of the delivery (hmac, bearer); default: a digest of the body.",
                "X-Delivery-Id")] = None
# fmt: on
