"""The dialogue without I/O: the grammar of commands, and drafts that ask for what is missing. C14."""

from __future__ import annotations

import pytest

from matins.chat import drafts
from matins.chat.drafts import Clock, Draft, answered, begin, instant_of, question
from matins.chat.messages import (
    Button,
    Buttons,
    ChatMessage,
    Code,
    Command,
    Fields,
    Heading,
    Text,
    dump,
    is_command,
    load,
    parse_command,
    pieces,
    without_prefix,
)
from matins.chat.slack.payloads import heard, mentioned
from matins.chat.slack.rendering import blocks, escape, plain_text, render
from matins.errors import MatinsError

NOW = 1_774_598_400_000  # Friday 2026-03-27, 08:00 UTC
CLOCK = Clock(NOW, "UTC")
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("", Command("help")),
        ("list", Command("list")),
        ("LIST  nightly", Command("list", text="nightly")),
        ("add every day at 9: Look", Command("add", text="every day at 9: Look")),
        ("show scout/nightly", Command("show", "scout/nightly")),
        ('run "my schedule"', Command("run", "my schedule")),
        ("delete 3f2a9c1e", Command("remove", "3f2a9c1e")),
        ("why nightly", Command("why", "nightly")),
        ("why nightly at 02:30", Command("why", "nightly", time="02:30")),
        ("next", Command("next")),
        ("next 12", Command("next", most=12)),
        ("pause a until 9am because it rains", Command("pause", "a", "it rains", "9am")),
        ("pause a because it rains", Command("pause", "a", "it rains")),
        ("resume a", Command("resume", "a")),
        ("approve 31", Command("approve", "31")),
        ("approve 31 sha256:9c41b7d2", Command("approve", "31", "9c41b7d2")),
        ("deny 31 because of the noise", Command("deny", "31", "of the noise")),
        ("deny 31 too loud", Command("deny", "31", "too loud")),
    ],
)
def test_commands(text: str, command: Command) -> None:
    assert parse_command(text) == command
    assert is_command(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("lst", 'Did you mean "list"?'),
        ("show", "Use: show NAME"),
        ("pause", "Use: pause NAME [until TIME] [because TEXT]"),
        ("approve all", "Use: approve N"),
        ("approve 31 all of it", "Use: approve N"),
        ("deny", "Use: deny N [because TEXT]"),
        ("next 100", "For example: next 5"),
        ("x" * 50_000, "Shorten it."),
    ],
)
def test_a_command_that_cannot_be_used_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(MatinsError) as error:
        parse_command(text)
    assert error.value.hint == hint


def test_prefixes_and_mentions() -> None:
    assert without_prefix("!schedule  list all") == "list all"
    assert without_prefix(" !SCHEDULE\nlist") == "list"
    assert without_prefix("!schedules list") is None
    assert mentioned("<@U0BOT> list", "U0BOT") == "list"
    assert mentioned("<@U0BOT|matins>: list", "U0BOT") == "list"
    assert mentioned("<@U0BEN> list", "U0BOT") is None


@pytest.mark.parametrize(
    ("what", "draft"),
    [
        ("every day at 09:30: Do this: now", Draft(when="every day at 09:30", message="Do this: now")),
        ('every weekday at 9am "Look: there"', Draft(when="every weekday at 9am", message="Look: there")),
        ("daily at 9am: Look", Draft(when="daily at 9am", message="Look")),
        ("0 9 * * 1: Look", Draft(when="0 9 * * 1", message="Look")),
        ("every 5m", Draft(when="every 5m")),
        ("interval Check the mail", Draft(type="interval", message="Check the mail")),
        ("weekly", Draft(type="weekly")),
        ("Note: buy milk", Draft(message="Note: buy milk")),
        ("in 2h: Look", Draft(when="once on 2026-03-27 at 10:00", message="Look")),
        ("", Draft()),
    ],
)
def test_what_is_added(what: str, draft: Draft) -> None:
    assert begin(what, None, CLOCK) == draft
    assert drafts.load(drafts.dump(draft)) == draft


def test_a_time_that_cannot_be_read_is_no_message() -> None:
    """Every word of a phrase is used, or it is refused with the parser's own hint."""
    with pytest.raises(MatinsError) as error:
        begin("every weekdya at 9am: Look", None, CLOCK)
    assert "every weekday at 9am" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("what", "answers", "when"),
    [
        ("interval x", ["often", "5m"], "5m"),
        ("daily x", ["25:00", "at 7:15"], "every day at 7:15"),
        ("weekly x", ["7", "Fryday", "Fridays", "07:15"], "every Friday at 07:15"),
        ("weekly x", ["0", "9am"], "every Sunday at 9am"),
        ("once x", ["soon", "in 90m"], "once on 2026-03-27 at 09:30"),
        ("x", ["whenever", "every weekday at 9am"], "every weekday at 9am"),
    ],
)
def test_answers_complete_a_draft_and_wrong_ones_are_refused(what: str, answers: list[str], when: str) -> None:
    draft, refused = begin(what, "scout", CLOCK), 0
    for answer in answers:
        try:
            draft = answered(draft, answer, CLOCK)
        except MatinsError:
            refused += 1
    assert (question(draft), draft.when) == (None, when)
    assert refused == len(answers) - (2 if "weekly" in what else 1)


def test_times_that_people_write() -> None:
    assert instant_of("2h", CLOCK) == NOW + 2 * HOUR
    assert instant_of("2h", CLOCK, past=True) == NOW - 2 * HOUR
    assert instant_of("17:30", CLOCK) == NOW + 9 * HOUR + HOUR // 2
    assert instant_of("02:30", CLOCK, past=True) == NOW - 5 * HOUR - HOUR // 2
    assert instant_of("tomorrow at 9am", CLOCK) == NOW + 25 * HOUR
    assert instant_of("2026-03-27T07:00:00Z", CLOCK, past=True) == NOW - HOUR
    with pytest.raises(MatinsError, match="is not a time"):
        instant_of("<!channel>", CLOCK)


def test_rendering_keeps_within_slacks_limits_and_writes_out_what_hides() -> None:
    long = "word " * 2_000
    parts = (Heading("h" * 400), Text(long), Code("a\u202eb\x1b[31m"), Fields((("k", "v"),)), Text(""), Buttons(()))
    shown = render(ChatMessage(parts))
    assert len(shown["blocks"]) <= 50
    assert len(shown["blocks"][0]["text"]["text"]) == 150
    assert "".join(pieces(long, 2_900)) == long
    assert max(map(len, pieces(long, 2_900))) <= 2_900
    assert "\\u202eb\\x1b[31m" in str(blocks(parts)).replace("\\\\", "\\")
    assert escape("<!channel> & <@U1>") == "&lt;!channel&gt; &amp; &lt;@U1&gt;"
    assert plain_text("<!channel> <@U1> <https://x|y> &lt;b&gt; &amp;amp;") == "@channel @U1 https://x <b> &amp;"
    assert blocks((Buttons((Button("a", "<b>", "v"),)),))[0]["elements"][0]["text"]["type"] == "plain_text"


def test_an_answer_is_kept_as_it_was_said() -> None:
    """What a repeated message is answered with: all kinds of parts, and what the buttons are bound to."""
    button = Button("approve", "Approve", "31", "9c41b7d2", "primary", "https://x")
    parts = (Heading("h"), Text("t\n\u202e"), Code("c"), Fields((("k", "v"), ("k", "w"))), Buttons((button,)))
    message = ChatMessage(parts, "approval:31", "9c41b7d2")
    assert load(dump(message)) == message


@pytest.mark.parametrize(
    "payload",
    [{}, {"type": "event_callback"}, {"type": "event_callback", "event": {"type": "reaction_added"}}, {"type": []},
     {"type": "event_callback", "event": {"type": "message", "subtype": "message_changed"}}, {"type": "view_closed"}],
)  # fmt: skip
def test_what_is_of_no_concern_is_not_heard(payload: dict[str, object]) -> None:
    assert heard(payload) is None


def test_payloads_of_any_shape_are_read_without_harm() -> None:
    for kind in ("block_actions", "view_submission", "event_callback"):
        for value in (None, 1, "x", [], {}, [None], {"id": 1}):
            event = {"type": "message", "channel": value, "user": value, "text": value}
            heard({"type": kind, "event": event, "actions": value, "container": value, "user": value, "view": value})
            heard({"type": kind, "view": {"state": {"values": {"a": value}}}, "command": value})
