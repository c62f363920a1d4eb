"""What the log of events says about records outside it: a changed record does not agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from matins.model.access import Token
from matins.model.rows import AuditRows, StoredEvent, WriterRow

PRUNED = "history.pruned"


def token_digest(token: Token) -> str:
    """The digest of what a token is good for. Its use is not part of it."""
    fixed = token.id, token.hash, token.name, token.role, token.rights, token.created_at, token.created_by
    return sha256(orjson.dumps([*fixed, token.expires_at])).hexdigest()


def pruned_record(writers: Iterable[WriterRow], tokens: Iterable[Token]) -> dict[str, Any]:
    """What an event about pruning says: where each chain begins, and the tokens whose own events may be gone."""
    return {
        "begins": {str(writer.id): [writer.pruned_seq, _hex(writer)] for writer in writers if writer.pruned_seq},
        "tokens": {token.id: token_digest(token) for token in tokens},
        "revoked": [token.id for token in tokens if token.revoked_at is not None],
    }


def record_problems(rows: AuditRows, tokens: Iterable[Token]) -> Iterator[str]:
    """The first problem of each record that does not agree with the log."""
    begins: Mapping[str, list[Any]] = {}
    digests: dict[str, str] = {}
    revoked: set[str] = set()
    for event in sorted(rows.events, key=lambda event: event.id):
        data = _data(event)
        if event.type == PRUNED:
            begins = data["begins"]
            digests |= data["tokens"]
            revoked |= set(data["revoked"])
        elif event.type == "token.created":
            digests[data["token"]] = data["digest"]
        elif event.type == "token.revoked":
            revoked.add(data["token"])
    for writer in rows.writers:
        if writer.pruned_seq and begins.get(str(writer.id)) != [writer.pruned_seq, _hex(writer)]:
            yield f"Writer {writer.id}: events up to number {writer.pruned_seq} are gone, and the log does not say so."
    for token in tokens:
        if token.id not in digests:
            yield f"Token {token.id} is not in the log."
        elif digests[token.id] != token_digest(token):
            yield f"Token {token.id} was changed after it was created."
        elif token.id in revoked and token.revoked_at is None:
            yield f"Token {token.id} was revoked, and is valid again."


def _hex(writer: WriterRow) -> str:
    return bytes(writer.pruned_hash or b"").hex()


def _data(event: StoredEvent) -> dict[str, Any]:
    known = event.type == PRUNED or event.type.startswith("token.")
    return orjson.loads(event.data) if known and event.data else {"begins": {}, "tokens": {}, "revoked": []}
