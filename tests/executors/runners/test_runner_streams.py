"""What each tool's events mean, one by one: the traps that tools have been seen to set."""

from __future__ import annotations

import json
from typing import Any

import pytest
from driving import TOOLS, tell

from matins.executors.runners.protocol import Limit

CLAUDE, CODEX, GEMINI, GOOSE, OPENCODE, QWEN = TOOLS.values()


# -- claude


def result(**words: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 8}
    outcome = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}
    return {**outcome, "num_turns": 1, "total_cost_usd": 0.5, "usage": usage, "permission_denials": [], **words}


def said(text: str, identity: str = "m1", out: int = 5, **words: Any) -> dict[str, Any]:
    message = {
        "id": identity,
        "model": "opus",
        "content": [{"type": "text", "text": text}],
        "usage": {"output_tokens": out},
    }
    return {"type": "assistant", "message": message, "session_id": "s", **words}


def limited(status: str, **info: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": status, **info}}


def test_claude_may_fail_beside_success() -> None:
    """B4"""
    outcome = tell(CLAUDE, result(is_error=True, result="Credit balance is too low"))
    assert (outcome.executed, outcome.succeeded, outcome.error) == (True, False, "Credit balance is too low")


@pytest.mark.parametrize("wrong", ["true", 1, [], {}])
def test_claude_must_say_plainly_that_there_was_no_error(wrong: Any) -> None:
    assert not tell(CLAUDE, result(is_error=wrong)).succeeded
    assert not tell(CLAUDE, result(subtype=wrong)).succeeded


def test_claude_speaks_again_when_work_in_the_background_ends() -> None:
    """B4: tokens, turns and denials of the turns add up, and the money already is that of all of them."""
    denied = {"tool_name": "Bash", "tool_input": {"command": "x"}}
    outcome = tell(
        CLAUDE,
        result(result="waiting", uuid="1", permission_denials=[denied]),
        said("more", "m2"),
        result(result="all done", uuid="2", num_turns=3, total_cost_usd=0.75),
    )
    assert (outcome.succeeded, outcome.text, outcome.turns, outcome.cost_usd) == (True, "all done", 4, 0.75)
    assert (outcome.tokens_in, outcome.tokens_out, outcome.tokens_cached) == (6, 16, 8)
    assert outcome.denials == ('Bash {"command": "x"}',)


def test_a_later_success_of_claude_does_not_hide_a_failure() -> None:
    outcome = tell(CLAUDE, result(is_error=True, result="broken", uuid="1"), result(result="fine", uuid="2"))
    assert (outcome.succeeded, outcome.error, outcome.text) == (False, "broken", "broken")


def test_claude_repeats_the_usage_of_a_message_in_each_of_its_parts() -> None:
    """B4: a run that was cut has spent what its messages say, each counted once."""
    outcome = tell(
        CLAUDE, said("a", "m1", 3), said("b", "m1", 9), said("c", "m2", 4), said("d", "m1", 9), exit_code=None
    )
    assert (outcome.executed, outcome.tokens_out, outcome.text, outcome.cost_reported) == (False, 13, "d", False)


def test_the_words_of_a_helper_of_claude_are_not_its_answer() -> None:
    outcome = tell(CLAUDE, said("the answer"), said("a helper's", "m2", parent_tool_use_id="toolu_1"), exit_code=None)
    assert outcome.text == "the answer"


def test_claude_takes_nothing_from_its_messages_after_its_result() -> None:
    outcome = tell(CLAUDE, said("hello", out=3), result(), said("late", "m9", 100))
    assert (outcome.text, outcome.tokens_out) == ("done", 8)


@pytest.mark.parametrize(
    ("subtype", "stopped_by"),
    [("error_max_turns", "turns"), ("error_max_budget_usd", "money"), ("error_during_execution", None)],
)
def test_claude_says_what_stopped_it(subtype: str, stopped_by: str | None) -> None:
    outcome = tell(CLAUDE, said("half way"), result(subtype=subtype, is_error=True, result=None))
    assert (outcome.succeeded, outcome.stopped_by, outcome.text) == (False, stopped_by, "half way")
    assert outcome.error


def test_claude_gives_structured_output_apart() -> None:
    assert tell(CLAUDE, result(structured_output={"ok": [1]})).structured == {"ok": [1]}
    assert tell(CLAUDE, result(result=' {"n": 1}\n')).structured == {"n": 1}
    assert tell(CLAUDE, result(result="[1, 2] are two")).structured is None


def test_b6_a_limit_of_claude_names_its_end() -> None:
    refused = result(is_error=True, result="You've hit your limit", api_error_status=429)
    rejected = limited("rejected", resetsAt=1_900_000_000, rateLimitType="seven_day")
    synthetic = said("You've hit your limit")
    synthetic["message"]["model"] = "<synthetic>"
    outcome = tell(CLAUDE, rejected, synthetic, refused)
    assert outcome.limit == Limit("anthropic", 1_900_000_000_000, "seven day limit reached")
    assert tell(CLAUDE, limited("rejected", resetsAt=1_900_000_000_123), refused).limit == Limit(
        "anthropic", 1_900_000_000_123, "rate limit reached"
    )
    assert tell(CLAUDE, refused).limit == Limit("anthropic", None, "You've hit your limit")


def test_a_limit_that_is_over_is_none() -> None:
    """B6: a failure after it is the agent's own."""
    failed = result(is_error=True, result="it broke")
    rejected = limited("rejected", resetsAt=1_900_000_000)
    assert tell(CLAUDE, rejected, limited("allowed"), failed).limit is None
    assert tell(CLAUDE, rejected, said("served again"), failed).limit is None
    assert tell(CLAUDE, limited("allowed_warning", resetsAt=1_900_000_000), failed).limit is None
    assert tell(CLAUDE, rejected, result()).limit is None


def test_claude_that_is_cut_while_it_waits_for_its_provider_is_limited() -> None:
    """B6"""
    retry = {"type": "system", "subtype": "api_retry", "error_status": 529, "retry_delay_ms": 8_000, "session_id": "s"}
    outcome = tell(CLAUDE, retry, exit_code=None)
    assert outcome.limit is not None
    assert outcome.limit.outage
    assert "HTTP 529" in (outcome.complaint or "")
    limited = tell(CLAUDE, *[{**retry, "error_status": 429, "error": "rate_limit"}] * 3, exit_code=None)
    assert limited.limit is not None
    assert (limited.limit.outage, limited.complaint) == (False, "HTTP 429: rate limit, tried again 3 times")
    assert tell(CLAUDE, {**retry, "error_status": 401}, exit_code=None).limit is None


def test_claude_in_an_older_form() -> None:
    outcome = tell(CLAUDE, result(is_error=True, result="Claude AI usage limit reached|1900000000"))
    assert outcome.limit is not None
    assert outcome.limit.resets_at == 1_900_000_000_000
    assert tell(CLAUDE, {"type": "system", "sessionId": "old"}, exit_code=1).session == "old"


# -- codex


def test_codex_gets_over_errors_of_its_connection() -> None:
    outcome = tell(
        CODEX, {"type": "error", "message": "Reconnecting... 1/5"}, {"type": "turn.completed", "usage": {}}, exit_code=0
    )
    assert (outcome.succeeded, outcome.error) == (True, None)


_AGAIN_429 = "Reconnecting... 3/5 (unexpected status 429 Too Many Requests: slow down, url: https://api.example/v1)"


@pytest.mark.parametrize("again", [_AGAIN_429, _AGAIN_429.replace("...", "…")])
def test_b6_codex_that_is_cut_while_it_reconnects_is_limited(again: str) -> None:
    """B6: whatever it had written before, and writes on stderr meanwhile"""
    lost = {"type": "error", "message": "Reconnecting... waiting for network (Connection failed)"}
    refused = {"type": "error", "message": again}
    for before in ([], [lost], [{"type": "error", "message": "stream disconnected before completion"}]):
        reader = CODEX.reader()
        for event in (*before, refused):
            reader.feed(json.dumps(event).encode())
        outcome = reader.close(None)
        assert outcome.limit is not None, before
        assert (outcome.limit.provider, outcome.limit.outage) == ("openai", False)
        assert "429" in (outcome.complaint or "")
        reader = CODEX.reader()
        for event in (*before, refused):
            reader.feed(json.dumps(event).encode())
        reader.feed_error(b"ERROR codex_core::mcp: failed to start the server")
        outcome = reader.close(None)
        assert outcome.limit is not None, "stderr is not what stopped it"
        assert outcome.complaint == "ERROR codex_core::mcp: failed to start the server"


def test_b6_codex_that_was_served_again_is_not_limited() -> None:
    """B6: the control: what it got over is neither the limit nor the last problem"""
    refused, served = {"type": "error", "message": _AGAIN_429}, {"type": "reasoning", "text": "…"}
    outcome = tell(CODEX, refused, {"type": "item.completed", "item": served}, exit_code=None)
    assert (outcome.limit, outcome.complaint) == (None, None)
    lost = {"type": "error", "message": "Reconnecting... waiting for network (Connection failed)"}
    outcome = tell(CODEX, refused, lost, exit_code=None)
    assert (outcome.limit, outcome.complaint) == (None, "Connection failed, tried again 2 times")


def test_an_error_of_codex_without_an_end_is_the_reason() -> None:
    outcome = tell(CODEX, {"type": "error", "message": "model not supported"}, exit_code=1)
    assert (outcome.executed, outcome.succeeded, outcome.error) == (False, False, "model not supported")


def test_the_last_words_of_codex_are_its_answer() -> None:
    words = [{"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in ("one", "two", "")]
    outcome = tell(CODEX, *words, {"type": "turn.completed", "usage": {"input_tokens": 5, "cached_input_tokens": 9}})
    assert (outcome.text, outcome.tokens_in, outcome.tokens_cached) == ("two", 0, 5)


def test_a_turn_of_codex_that_failed_stays_failed() -> None:
    failed = {"type": "turn.failed", "error": {"message": "no"}}
    assert not tell(CODEX, failed, {"type": "turn.completed", "usage": {}}).succeeded
    assert tell(CODEX, {"type": "turn.failed"}).error == "the turn failed"


def test_b6_codex_says_how_long() -> None:
    words = "You've hit your usage limit. Try again in 2 days 3 hours 5 minutes."
    outcome = tell(CODEX, {"type": "turn.failed", "error": {"message": words}})
    assert outcome.limit == Limit("openai", None, words, ((2 * 24 + 3) * 60 + 5) * 60_000)


# -- gemini


@pytest.mark.parametrize(
    ("code", "words"), [(41, "not logged in"), (42, "input"), (52, "settings"), (53, "turns"), (130, "cancelled")]
)
def test_gemini_says_by_its_exit_code_why_nothing_was_told(code: int, words: str) -> None:
    outcome = tell(GEMINI, exit_code=code)
    assert words in (outcome.error or "")
    assert outcome.stopped_by == ("turns" if code == 53 else None)


def test_the_words_of_gemini_after_its_last_tool_are_its_answer() -> None:
    def words(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", "content": text, "delta": True, **more}

    tool = {"type": "tool_use", "tool_name": "ls", "tool_id": "1", "parameters": {}}
    done = {"type": "result", "status": "success", "stats": {}}
    assert tell(GEMINI, words("I "), words("look"), tool, words("It is "), words("there"), done).text == "It is there"
    assert tell(GEMINI, words("It is there"), tool, done).text == "It is there"
    assert tell(GEMINI, words("half"), words("whole", delta=False), done).text == "whole"
    assert tell(GEMINI, {"type": "message", "role": "user", "content": "x"}, done).text == ""


def test_gemini_fails_by_its_status() -> None:
    warning = {"type": "error", "severity": "warning", "message": "Loop detected"}
    error = {"type": "error", "severity": "error", "message": "Maximum session turns exceeded"}
    assert tell(GEMINI, {"type": "result", "status": "error"}).error == "gemini failed without a reason"
    assert tell(GEMINI, error, {"type": "result", "status": "error"}).error == "Maximum session turns exceeded"
    assert tell(GEMINI, error, {"type": "result", "status": "success"}).succeeded
    stopped = tell(GEMINI, warning, {"type": "result", "status": "success"})
    assert (stopped.succeeded, stopped.error) == (False, "gemini stopped: Loop detected")
    assert not tell(GEMINI, {"type": "result"}).succeeded


# -- goose


def spoken(text: str, identity: str | None = "m", role: str = "assistant") -> dict[str, Any]:
    message = {"id": identity, "role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "message": message}


COMPLETE = {"type": "complete", "total_tokens": 7}


def test_goose_completes_after_an_error_too() -> None:
    """B4"""
    outcome = tell(GOOSE, {"type": "error", "error": "it broke"}, COMPLETE)
    assert (outcome.executed, outcome.succeeded, outcome.error) == (True, False, "it broke")


@pytest.mark.parametrize(
    "words",
    [
        "Ran into this error: Server error.\n\nPlease retry if you think this is a transient or recoverable error.",
        "connection refused\n\nPlease resend your message to try again.",
    ],
)
def test_goose_puts_its_failures_into_the_agents_mouth(words: str) -> None:
    outcome = tell(GOOSE, spoken("I look."), spoken(words, "m2"), COMPLETE)
    assert (outcome.executed, outcome.succeeded) == (True, False)
    assert outcome.error == " ".join(words.split())


def test_goose_without_credits_fails() -> None:
    notice = {"type": "systemNotification", "notificationType": "creditsExhausted", "msg": "Please add credits"}
    message = {"id": "n", "role": "assistant", "content": [notice]}
    outcome = tell(GOOSE, {"type": "message", "message": message}, COMPLETE)
    assert (outcome.succeeded, outcome.error) == (False, "Please add credits")


def test_pieces_of_a_message_of_goose_belong_together() -> None:
    assert tell(GOOSE, spoken("I "), spoken("look."), spoken("Do", "m2"), spoken("ne.", "m2"), COMPLETE).text == "Done."
    assert tell(GOOSE, spoken("a", None), spoken("b", None), COMPLETE).text == "ab"
    assert tell(GOOSE, spoken("a"), spoken("not mine", "u", "user"), COMPLETE).text == "a"


# -- opencode


def step(reason: str, identity: str = "p1", **part: Any) -> dict[str, Any]:
    tokens = {"input": 1, "output": 2, "reasoning": 4, "cache": {"read": 8, "write": 16}}
    inner = {"id": identity, "type": "step-finish", "reason": reason, "cost": 0.25, "tokens": tokens, **part}
    return {"type": "step_finish", "sessionID": "ses_1", "part": inner}


def broken(message: str, **data: Any) -> dict[str, Any]:
    return {"type": "error", "sessionID": "ses_1", "error": {"name": "APIError", "data": {"message": message, **data}}}


def test_opencode_is_done_when_a_step_does_not_ask_for_tools() -> None:
    """B4"""
    assert not tell(OPENCODE, step("tool-calls")).executed
    assert not tell(OPENCODE, step("unknown")).executed
    assert tell(OPENCODE, step("tool-calls"), step("stop", "p2")).succeeded
    assert tell(OPENCODE, step("length")).error == "opencode stopped early: length"


def test_steps_of_opencode_add_up_once_each() -> None:
    """B4"""
    outcome = tell(OPENCODE, step("tool-calls"), step("tool-calls"), step("stop", "p2"))
    assert (outcome.tokens_in, outcome.tokens_out, outcome.tokens_cached) == (34, 12, 16)
    assert (outcome.cost_usd, outcome.cost_reported, outcome.turns) == (0.5, True, 2)
    assert not tell(OPENCODE, step("stop", cost=None)).cost_reported
    assert tell(OPENCODE, step("stop", cost=0)).cost_reported


def test_what_opencode_tried_again_with_success_is_no_failure() -> None:
    outcome = tell(OPENCODE, broken("ECONNRESET"), step("stop"), exit_code=1)
    assert (outcome.succeeded, outcome.error) == (True, None)


def test_an_error_at_the_end_of_opencode_is_a_failure() -> None:
    outcome = tell(OPENCODE, step("stop"), broken("it broke"))
    assert (outcome.executed, outcome.succeeded, outcome.error) == (True, False, "it broke")
    assert tell(OPENCODE, {"type": "error", "error": {"type": "unknown", "message": "no model"}}).error == "no model"


def test_b6_only_the_last_error_of_opencode_can_be_a_limit() -> None:
    refused = broken("slow down", statusCode=429, responseHeaders={"retry-after": "7"})
    assert tell(OPENCODE, refused).limit == Limit("opencode", None, "slow down", 7_000)
    assert tell(OPENCODE, refused, broken("it broke")).limit is None
    assert tell(OPENCODE, refused, step("stop")).limit is None
    assert tell(OPENCODE, refused, step("length")).limit is None


def test_parts_of_a_message_of_opencode_belong_together() -> None:
    def words(text: str, message: str) -> dict[str, Any]:
        return {"type": "text", "part": {"messageID": message, "type": "text", "text": text}}

    outcome = tell(OPENCODE, words("I look.", "m1"), words("It is ", "m2"), words("there", "m2"), step("stop"))
    assert outcome.text == "It is there"
