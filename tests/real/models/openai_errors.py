"""Refusals of OpenAI, the same for Responses and chat completions."""

from __future__ import annotations

import time

from real.models.wishes import Json

_WORDS = {
    401: ("Incorrect API key provided: sk-fake.", "invalid_api_key"),
    404: ("The model `no-such-model` does not exist or you do not have access to it.", "model_not_found"),
}
_OTHER = ("The server had an error while processing your request.", "server_error")
_QUOTA = "You exceeded your current quota, please check your plan and billing details."


def refusal(wish: Json, status: int, headers: dict[str, str]) -> Json:
    if status == 429:
        return {"error": _limit(wish)}
    text, code = _WORDS.get(status, _OTHER)
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": code}}


def _limit(wish: Json) -> Json:
    match wish.get("kind", "rate"):
        case "plan":
            error: Json = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
            resets: Json = {}
            if "reset" in wish:
                resets = {"resets_at": wish["reset"], "resets_in_seconds": max(0, int(wish["reset"] - time.time()))}
            return {**error, "plan_type": "plus", **resets}
        case "quota":
            return {"message": _QUOTA, "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
        case _:
            wait = f" Please try again in {wish['retry_after']}s." if "retry_after" in wish else ""
            text = f"Rate limit reached for fake-model in organization org-fake on tokens per min (TPM).{wait}"
            return {"message": text, "type": "tokens", "param": None, "code": "rate_limit_exceeded"}
