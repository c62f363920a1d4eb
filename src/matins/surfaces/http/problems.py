"""Errors as problem+json (RFC 9457), with a hint that says how to mend them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

from matins.errors import InvalidInput, MatinsError, StoreBusy

log = logging.getLogger("matins")
_STATUS = {"not_found": 404, "conflict": 409, "not_allowed": 403, "stale": 412}
_RETRY_AFTER = {"Retry-After": "1"}
_NONE: Mapping[str, str] = {}
_LONGEST_VALUE = 200


class Refused(Exception):  # noqa: N818 - it names what happened to a request
    """A request that does not get as far as the service."""

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


def problem(error: Exception, path: str) -> Response:
    """What is answered where something went wrong; what nobody foresaw is logged, and not told."""
    if isinstance(error, Refused):
        told = _told(error.code, error.status, error.detail, path, error)
        return _response(told, error.headers)
    if isinstance(error, MatinsError):
        status = status_of(error)
        if status == 500:
            log.error("%s: %s", path, error)
        return _response(
            _told(error.code, status, error.message, path, error), _RETRY_AFTER if status == 503 else _NONE
        )
    log.error("%s failed", path, exc_info=error)
    detail = "It failed for a reason that nobody foresaw; nothing more is told here"
    return _response(_told("internal", 500, detail, path, Refused(500, "", "", hint="the log of the server has it")))


def status_of(error: MatinsError) -> int:
    if isinstance(error, InvalidInput):
        return _STATUS.get(error.code, 422)
    return 503 if getattr(error, "retryable", False) or isinstance(error, StoreBusy) else 500


def _told(code: str, status: int, detail: str, path: str, error: Exception) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": f"urn:matins:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": path,
    }
    for name in ("field", "value", "allowed", "hint"):
        if (found := getattr(error, name, None)) is not None:
            told[name] = found if name == "hint" else _plain(found)
    return told


def _plain(value: object) -> Any:
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 53):
        return value
    return str(value)[:_LONGEST_VALUE]


def _response(told: dict[str, Any], headers: Mapping[str, str] = _NONE) -> Response:
    return Response(_json(told), told["status"], headers, "application/problem+json")


def _json(told: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(told)
    except TypeError:  # half a pair of UTF-16 in what somebody sent
        return orjson.dumps({name: _whole(value) for name, value in told.items()})


def _whole(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
