"""What real tools wrote, replayed: each way in which a tool surprised us is caught without the tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import TOOLS
from replaying import RECORDINGS, Recording, of_case, recordings

from matins.coding_tools.conformance import check_runner
from matins.coding_tools.opencode import has_option
from matins.executors.processes.output import LineWatch, matches
from matins.executors.runners.protocol import Answer, Metered, RunnerRequest
from matins.service.output import entries_of, joined

WORDS = {"background": "Left one.", "plain": "All wet.", "resume": "All wet.", "begun_by_hand": "Gone on."}


def recording(name: str) -> Recording:
    return recordings()[name]


def test_b15_every_tool_has_its_recordings() -> None:
    """B15"""
    cases = {
        "plain",
        "resume",
        "begun_by_hand",
        "tool_call",
        "background",
        "rate_limit",
        "server_error",
        "token_budget",
    }
    for tool in TOOLS:
        assert cases <= {one.case for one in recordings().values() if one.tool == tool}, tool


def test_recordings_tell_nothing_of_the_machine_on_which_they_were_made() -> None:
    for path in RECORDINGS.glob("*/*"):
        text = path.read_text(encoding="utf-8")
        assert "/root" not in text, path
        assert "matins-real" not in text, path
        assert "sk-fake-0123456789" not in text, path


@pytest.mark.parametrize("name", of_case(*WORDS, "tool_call", "environment", "kill_and_adopt", "three_at_once", "logs"))
def test_b4_text_session_and_tokens_are_those_that_were_told(name: str, tmp_path: Path) -> None:
    """B4 C4 C5: exactly what the endpoint told for this run, also in a session with earlier turns"""
    one = recording(name)
    result = one.replayed(tmp_path)
    assert (result.succeeded, result.error, result.limit) == (True, None, None)
    assert result.text == one.about["text"] == WORDS.get(one.case, one.about["text"])
    assert (result.tokens_in, result.tokens_out, result.tokens_cached) == one.billed
    assert result.session == one.about["session"]


@pytest.mark.parametrize("name", ["claude/resume", "claude/begun_by_hand"])
def test_b4_claude_tells_the_money_of_the_whole_session(name: str, tmp_path: Path) -> None:
    """B4 C16: a wake costs what a wake alone costs, also in a session that a person began"""
    alone = recording("claude/plain").replayed(tmp_path / "alone")
    result = recording(name).replayed(tmp_path)
    assert result.cost_usd == pytest.approx(alone.cost_usd)
    raw = recording(name)
    reader = raw.runner.reader()
    for line in raw.lines:
        reader.feed(line)
    assert (reader.close(0).cost_usd or 0) > 1.5 * (alone.cost_usd or 1)


@pytest.mark.parametrize("name", of_case("plain", "background", "tool_call", "denied", "unauthorized"))
def test_b9_the_final_event_is_recognised_wherever_its_type_stands(name: str) -> None:
    """B9: the warden sees it, and nothing before it"""
    one = recording(name)
    command = one.runner.command(RunnerRequest("x", "/"))
    final = [any(matches(pattern, line) for pattern in command.finals) for line in one.lines]
    if one.about["executed"] and one.about["state"] == "succeeded":
        assert final.index(True) >= len(final) - 2
        watch = LineWatch(command.finals, command.retries)
        assert [watch.feed(line).final for line in one.lines] == final
    cut = b"".join(one.lines)[: sum(map(len, one.lines[: final.index(True)]))] if True in final else b""
    assert not any(matches(pattern, line) for line in cut.splitlines() for pattern in command.finals)


@pytest.mark.parametrize("name", of_case("rate_limit", "rate_limit_until"))
def test_b6_limits_of_providers_are_recognised(name: str, tmp_path: Path) -> None:
    """B6: from the stream, from stderr, or from the tool's own record"""
    one = recording(name)
    result = one.replayed(tmp_path)
    assert not result.succeeded
    if one.tool == "goose" and one.case == "rate_limit_until":
        return  # told in its log only, which is no record of the session
    assert result.limit is not None
    assert not result.limit.outage
    if name in ("claude/rate_limit_until", "codex/rate_limit_until"):
        until = result.limit.until(one.started_at)
        assert until is not None
        assert 7_000_000 < until - one.started_at < 7_300_000


@pytest.mark.parametrize("name", of_case("server_error", "overloaded"))
def test_b6_a_provider_in_trouble_is_an_outage(name: str, tmp_path: Path) -> None:
    """B6: it defers the run, and is not the agent's failure at first"""
    result = recording(name).replayed(tmp_path)
    assert not result.succeeded
    assert result.limit is not None
    assert result.limit.outage


@pytest.mark.parametrize("name", of_case("unauthorized", "refused", "cut"))
def test_the_reason_survives(name: str, tmp_path: Path) -> None:
    """B9: what the tool was complaining of is told, also when a limit of ours ended it"""
    result = recording(name).replayed(tmp_path)
    assert not result.succeeded
    words = ("401", "api key", "authenti", "connect", "network", "fetch", "terminated", "decod", "socket", "no answer")
    told = f"{result.error} {result.complaint}".lower()
    assert any(word in told for word in words), told
    assert result.limit is None or result.limit.outage


@pytest.mark.parametrize("name", ["claude/rate_limit", "codex/overloaded", "gemini/rate_limit", "opencode/rate_limit"])
def test_b9_lines_that_only_say_that_it_tries_again_are_silence(name: str) -> None:
    """B9: they do not extend the idle timeout"""
    one = recording(name)
    command = one.runner.command(RunnerRequest("x", "/"))
    watch = LineWatch(command.finals, command.retries)
    silent = [line for line in (*one.lines, *one.errors) if not watch.feed(line).progress]
    assert len(silent) >= 2 or one.tool == "gemini"
    assert silent


@pytest.mark.parametrize("name", of_case("token_budget", "money_budget"))
def test_h9_tokens_are_known_while_the_tool_works(name: str, tmp_path: Path) -> None:
    """H9: after each answer, from the stream or the tool's own record; none waits for the end"""
    one = recording(name)
    reader = one.runner.reader()
    assert isinstance(reader, Metered)
    for line in one.lines:
        reader.feed(line)
    result = one.meter(tmp_path).of_run(reader.so_far())
    used, billed = result.tokens_in + result.tokens_out + result.tokens_cached, sum(one.billed)
    assert not result.executed or one.tool == "claude"  # it ends itself at an amount
    assert billed - 2 * 4_100 <= used <= billed + 4_100
    assert billed < 12 * 4_100


@pytest.mark.parametrize("name", of_case("denied"))
def test_what_was_denied_is_told(name: str, tmp_path: Path) -> None:
    """B4: and that there was nothing else"""
    one = recording(name)
    result = one.replayed(tmp_path)
    assert result.all_denied
    assert any("forbidden.txt" in denial for denial in result.denials)
    if one.tool == "opencode":  # it stops there
        assert (result.error or "").startswith("opencode stopped, because a tool call was denied: ")
    else:
        assert result.succeeded


def test_a_tool_that_stops_itself_has_not_succeeded(tmp_path: Path) -> None:
    """B4: Gemini finds a loop and tells a success"""
    one = recording("gemini/loop")
    result = one.replayed(tmp_path)
    assert result.succeeded == (one.about["state"] == "succeeded")
    assert result.text or not result.succeeded


def test_the_cached_tokens_of_goose_are_cached(tmp_path: Path) -> None:
    """B4"""
    result = recording("goose/plain").replayed(tmp_path)
    assert (result.tokens_in, result.tokens_cached) == (1_200, 500)


@pytest.mark.parametrize("name", of_case("session_gone"))
def test_a_session_that_is_gone_is_told_as_such(name: str) -> None:
    """C4"""
    one = recording(name)
    told = b"".join((*one.lines, *one.errors))
    assert any(phrase in told for phrase in one.runner.command(RunnerRequest("x", "/")).session_unknown)


@pytest.mark.parametrize("name", of_case("logs"))
def test_logs_show_pieces_as_one_text(name: str) -> None:
    """B4"""
    told = joined(entry for line in recording(name).lines for entry in entries_of(line))
    assert "Roses are red,\nviolets are blue." in [entry.text for entry in told if entry.kind == "words"]


@pytest.mark.parametrize("tool", TOOLS)
def test_b4_runners_keep_their_promises_with_what_their_tools_wrote(tool: str) -> None:
    """B4 B9 B15"""
    check_runner(TOOLS[tool], [b"".join(recording(f"{tool}/tool_call").lines)])


def test_opencode_is_asked_with_its_own_help(tmp_path: Path) -> None:
    """B15: version 1.18 has --auto, and neither of the options of version 2"""
    (text,) = RECORDINGS.glob("opencode-1.*/help.txt")
    program = tmp_path / "opencode"
    program.touch()
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    options = ("--auto", "--standalone", "--dangerously-skip-permissions", "--print-logs")
    asked: list[tuple[str, ...]] = []

    def ask(argv: tuple[str, ...], **limits: object) -> Answer:
        asked.append(argv)
        return Answer(0, "", text.read_text(encoding="utf-8"))

    found = [has_option(ask, "opencode", ("run",), option, environment) for option in options]
    assert asked == [(str(program), "run", "--help")]
    assert found == [True, False, False, True]


@pytest.mark.parametrize("name", of_case("unauthorized"))
def test_b6_the_real_tools_say_so_in_their_own_words(name: str, tmp_path: Path) -> None:
    """B6 B15: each of them, as it was recorded"""
    assert recording(name).replayed(tmp_path).login_refused


@pytest.mark.parametrize("name", of_case("refused", "rate_limit", "server_error", "cut", "plain", "denied"))
def test_b6_nothing_else_is_a_refused_login(name: str, tmp_path: Path) -> None:
    """B6: the control"""
    assert not recording(name).replayed(tmp_path).login_refused
