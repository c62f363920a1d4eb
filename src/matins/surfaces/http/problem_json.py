"""Errors as problem+json (RFC 9457), with a hint."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Scope

from matins.errors import Example, InvalidInput, MatinsError, StoreBusy

log = logging.getLogger("matins")
_STATUS = {
    "not_found": 404, "conflict": 409, "not_allowed": 403, "stale": 412, "sign_in_again": 403, "sign_in_refused": 403,
    "too_many_tries": 429,
}  # fmt: skip
_RETRY_AFTER = {"Retry-After": "1"}
_NONE: Mapping[str, str] = {}
_MAX_VALUE_LENGTH = 200


class HttpError(Exception):
    """An error before the service is called."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        value: object = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.value = value
        self.hint = hint
        self.headers = headers or {}


def problem(error: Exception, scope: Scope) -> Response:
    """The response to a failed request. An internal error is logged, and its text is not shown."""
    path = f"{scope.get('root_path', '')}{scope['path']}"
    if isinstance(error, HttpError):
        return _response(_document(error.code, error.status, error.detail, path, error), error.headers)
    if isinstance(error, MatinsError):
        status = status_of(error)
        if status == 500:
            log.error("%s: %s", path, error)
        headers = _RETRY_AFTER if status == 503 else _NONE
        return _response(_document(error.code, status, error.message, path, error), headers)
    log.error("%s failed", path, exc_info=error)
    return problem(HttpError(500, "internal", "The server failed.", hint="See its log."), scope)


def status_of(error: MatinsError) -> int:
    if isinstance(error, InvalidInput):
        return _STATUS.get(error.code, 422)
    return 503 if getattr(error, "retryable", False) or isinstance(error, StoreBusy) else 500


def _document(code: str, status: int, detail: str, path: str, error: Exception) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": f"urn:matins:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": path,
    }
    for name in ("field", "value", "allowed", "hint"):
        if (found := getattr(error, name, None)) is not None:
            document[name] = found if name == "hint" else _plain(found)
    if isinstance(hint := document.get("hint"), Example):
        document["example"] = hint.settings
    return document


def _plain(value: object) -> Any:
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 53):
        return value
    return str(value)[:_MAX_VALUE_LENGTH]


def _response(document: dict[str, Any], headers: Mapping[str, str]) -> Response:
    return Response(_json(document), document["status"], headers, "application/problem+json")


def _json(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # an unpaired surrogate in the request
        return orjson.dumps({name: _encodable(value) for name, value in document.items()})


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
