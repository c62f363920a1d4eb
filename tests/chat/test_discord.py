"""Discord: commands, drafts, threads, triggers, approvals, beside a stand-in of its REST API. C14, H5, B12, B21."""

from __future__ import annotations

import pytest
from discord_bench import ADA, BEN, DIRECT, EVE, OPS, DiscordBench

from matins.chat.discord.payloads import heard, offered
from matins.chat.discord.rendering import fits, render
from matins.chat.messages import Button, Buttons, ChatMessage, Code, Fields, Heading, Text
from matins.errors import InvalidInput
from standins.discord import BOT, CHANNEL, Call, Refused

HOSTILE = "# **bold** @everyone <@1> [x](https://evil.example) `code` ||spoiler|| ```\nmore``` \u202eevil"


def request(bench: DiscordBench, prompt: str = "Sweep the yard", approvers: str = "ada ben") -> Call:
    """The card of a run that waits for approval."""
    settings = {"approval": "council_approve", "approvers": approvers.split(), "agent": "scout", "prompt": prompt}
    bench.m.add("sweep", when="1d", **settings)
    bench.m.run("sweep")
    (card,) = bench.settle()
    return card


def test_schedules_are_listed_shown_paused_resumed_run_and_removed(server: DiscordBench) -> None:
    """C14: slash commands, whose answers only their user sees; `!schedule` and mentions, in public"""
    (none,) = server.command("list")
    assert ("no schedules" in none.text, none.private) == (True, True)
    server.m.add("nightly", when="every day at 02:30", agent="scout", prompt="Look")
    (listed,) = server.command("list", text="night")
    assert "✓ scout/nightly · every day at 02:30 · next Sat 28 Mar 02:30 · never ran" in listed.plain
    (paused,) = server.command("pause", name="nightly", until="tomorrow at 9am", because="of the fair")
    assert "until Sat 28 Mar 09:00" in paused.plain
    assert (server.m.get("nightly").note, server.m.get("nightly").paused_by) == ("of the fair", "ada")
    (resumed,) = server.say(f"<@{BOT}> resume nightly")
    assert ("Resumed scout/nightly" in resumed.plain, resumed.private) == (True, False)
    assert resumed.body["message_reference"]["fail_if_not_exists"] is False
    assert "Look" in server.command("show", name="nightly")[0].text
    assert "has not been due yet" in server.command("why", name="nightly")[0].plain
    assert "Run 1 of nightly" in server.say("!schedule run nightly")[0].plain
    (wrong,) = server.command("remove", name="nightl")
    assert 'Did you mean "nightly"?' in wrong.plain
    assert "Removed scout/nightly" in server.say("remove nightly", channel=DIRECT, direct=True)[0].plain
    assert server.m.list() == []
    assert "/matins" in server.command("help")[0].plain


def test_what_is_said_to_others_is_not_heard(server: DiscordBench) -> None:
    """Small talk, replies to people, other bots, and what somebody only sends on"""
    said = server.say("Good morning")
    said += server.say("<@5> list")
    said += server.say("!schedule list", message_reference={"type": 1, "message_id": "5"})
    said += server.say("!schedule list", webhook_id="5")
    said += server.say("!schedule list", author={"id": ADA, "username": "x", "discriminator": "0", "bot": True})
    said += server.say("!schedule list", type=7)
    assert said == []
    assert heard("MESSAGE_CREATE", {"content": 5}) is None
    assert heard("INTERACTION_CREATE", {"type": 5}) is None
    assert heard("TYPING_START", {}) is None


def test_a_draft_is_made_by_replies(server: DiscordBench) -> None:
    """C14: `/matins add` asks for what is missing, survives a restart, and makes nothing before Create"""
    (asked,) = server.command("add", when="weekly Tidy the garden")
    assert ("Which day?" in asked.plain, asked.private) == (True, False)
    assert server.say("Friday") == []
    assert server.reply("Friday", asked, BEN) == []
    (again,) = server.reply("Frydayish", asked)
    assert "Which day?" in again.plain
    server.reopen()
    (asked,) = server.reply("5", again)
    assert "At what time?" in asked.plain
    (preview,) = server.reply("07:15", asked)
    assert "reads as: every Friday at 07:15 (UTC)" in preview.plain.replace("**", "")
    assert list(preview.buttons) == ["Create", "Change", "Cancel"]
    server.click(preview, "Change")
    (second,) = server.reply("when every friday at 8am", preview)
    (refused,) = server.click(preview, "Create")
    assert ("The draft has changed since" in refused.plain, refused.private) == (True, True)
    assert "You have no draft here" in server.click(second, "Create", BEN)[0].plain
    assert "Created scout/" in server.click(second, "Create")[0].plain
    (made,) = server.m.list()
    assert (made.trigger_text, made.created_by) == ("every Friday at 08:00", "ada")
    assert made.settings["target"] == {"kind": "channel", "channel": CHANNEL}
    (asked,) = server.say("add daily Look", channel=DIRECT, direct=True)
    (preview,) = server.say("08:00", channel=DIRECT, direct=True)
    assert "every day at 08:00" in preview.plain


def test_answers_come_back_and_threads_and_replies_speak_to_the_agent(server: DiscordBench) -> None:
    """B21 H5: where the schedule was made; a reply, or a thread on an answer, goes on with the conversation"""
    (preview,) = server.command("add", when="every day at 09:00: Look")
    server.click(preview, "Create")
    server.tool.reply = "**Two** weeds @everyone\n\n" * 300
    server.m.clock.advance_to("2026-03-27T09:00:00Z")
    answers = server.settle()
    assert len(answers) > 2
    assert {call.channel for call in answers} == {CHANNEL}
    assert "message_reference" not in answers[0].body
    assert all(call.body["allowed_mentions"] == {"parse": []} for call in answers)
    assert "**Two** weeds" in answers[0].text
    server.tool.reply = "Three."
    for said in (answers[0], answers[-1]):
        assert server.reply("How many?", said, BEN) == []
        (answer,) = server.settle()
        assert answer.body["message_reference"]["message_id"] == answers[0].ts
        assert "Three." in answer.text
    thread = server.discord.open_thread(answers[0].ts)
    assert server.say("And here?", channel=thread) == []
    (inside,) = server.settle()
    assert inside.channel == thread
    assert server.say("!schedule list", channel=thread)[0].channel == thread
    (known,) = server.m.threads.list()
    assert [message.role for message in server.m.threads.messages(known.id)] == ["user", "assistant"] * 4
    server.tool.reply = "FAIL no water"
    assert server.reply("And now?", answer) == []
    (failed,) = server.settle()
    assert ("no water" in failed.plain, failed.channel) == (True, thread)
    assert len(server.m.runs.list()) == 5


def test_an_answer_that_was_not_confirmed_is_repeated_once_under_its_nonce(server: DiscordBench) -> None:
    """B21: Discord recognises it for some minutes; a channel that is gone concerns no other"""
    server.m.add("look", when="1d", agent="scout", prompt="Look", target={"kind": "channel", "channel": CHANNEL})
    server.discord.cut["POST /messages"] = "after"
    server.m.run("look")
    assert len(server.settle()) == 1
    del server.discord.cut["POST /messages"]
    server.m.clock.advance(600_000)
    assert server.settle() == []
    assert [answer.state for answer in server.m.runs.get(1).answers] == ["delivered"]

    def gone(given: dict[str, object]) -> object:
        raise Refused(404, "Unknown Channel", 10003)

    server.discord.answers["POST /messages"] = gone
    server.m.run("look")
    server.settle()
    assert [answer.state for answer in server.m.runs.get(2).answers] == ["discarded"]
    del server.discord.answers["POST /messages"]
    server.m.run("look")
    assert "All is well." in server.settle()[0].plain


def test_messages_start_schedules_that_listen(server: DiscordBench) -> None:
    """H5: a chat trigger fires for people who are known, once for each message"""
    server.m.add(
        "deploy", on=[{"chat": CHANNEL, "match": "!deploy", "from": ["ada"]}], agent="scout", prompt="{{call.text}}"
    )
    server.say("!deploy api", BEN)
    server.say("!deploy api")
    server.turn(lambda: server.discord.events.append(server.discord.events[-1]))  # a repetition
    server.m.settle()
    assert [run.schedule for run in server.m.runs.list()] == ["deploy"]


def test_requests_are_approved_and_denied_by_buttons(server: DiscordBench) -> None:
    """B12 C14: bound to what was shown; by those who may; said on every card"""
    card = request(server)
    assert (card.channel, list(card.buttons)) == (OPS, ["Approve", "Deny", "Open"])
    assert "Sweep the yard" in card.text
    (stranger,) = server.click(card, "Approve", EVE)
    assert (EVE in stranger.plain, stranger.private) == (True, True)
    (copy,) = [call for call in server.command("approve", BEN, n="1") if call.buttons]
    updates = server.click(card, "Approve")
    assert {(call.method, call.ts) for call in updates} == {("PATCH", card.ts), ("PATCH", copy.ts)}
    assert all("Approved" in call.plain and not call.buttons for call in updates)
    assert [vote.voter for vote in server.m.approvals.get(1).votes] == ["ada"]
    server.m.settle()
    assert server.m.runs.get(1).state == "succeeded"
    server.m.run("sweep")
    (card,) = [call for call in server.settle() if call.buttons]
    assert "deny by ben" in server.click(card, "Deny", BEN)[-1].plain
    server.click(card, "Deny")
    assert server.m.approvals.get(2).state == "denied"


def test_a_button_decides_nothing_that_its_card_did_not_show(server: DiscordBench) -> None:
    card = request(server)
    forged = card._replace(body={"components": [{"type": 1, "components": [
        {**card.buttons["Approve"], "custom_id": f"approve:1:{'0' * 64}"}]}]})  # fmt: skip
    assert server.click(forged, "Approve")[-1].private
    assert server.m.approvals.get(1).state == "pending"
    message = {**server.discord.messages[OPS, card.ts], "id": "1" * 18}
    refused = server.click(card, "Approve", message=message)[-1]
    assert "not a card that Matins posted here" in refused.plain
    assert server.m.approvals.get(1).state == "pending"


def test_a_long_request_is_read_before_it_is_decided(server: DiscordBench) -> None:
    """B12: nobody approves what they could not read; also in a thread on the card"""
    card = request(server, HOSTILE * 60)
    assert list(card.buttons) == ["Read and decide…", "Deny", "Open"]
    *texts, end = server.click(card, "Read and decide…")
    assert "".join(text.text for text in texts).count("evil.example") == 60
    assert list(end.buttons) == ["Approve", "Deny"]
    server.click(end, "Approve", BEN)
    assert server.m.approvals.get(1).state == "approved"


def test_a_click_that_was_not_taken_in_does_nothing(server: DiscordBench) -> None:
    """Another process acknowledged it, or three seconds had passed: its user saw that it failed, and clicks again"""
    card = request(server)

    def late(given: dict[str, object]) -> object:
        raise Refused(404, "Unknown interaction", 10062)

    server.discord.answers["POST /callback"] = late
    assert server.click(card, "Approve") == []
    assert server.m.approvals.get(1).state == "pending"
    del server.discord.answers["POST /callback"]
    server.click(card, "Approve")
    assert server.m.approvals.get(1).state == "approved"


def test_a_call_that_came_too_early_waits(server: DiscordBench) -> None:
    times: list[int] = []

    def early(given: dict[str, object]) -> object:
        times.append(1)
        if len(times) == 2:
            del server.discord.answers["GET /users/@me"]
        raise Refused(429, "You are being rate limited.", retry_after=0.001)

    server.discord.answers["GET /users/@me"] = early
    server.chat._api._bot = None
    assert server.chat.team() == BOT
    assert len(times) == 2


def test_text_of_others_is_no_markup() -> None:
    """Whatever is in a request: it mentions nobody, and looks as it is"""
    message = ChatMessage((Heading(HOSTILE), Text(HOSTILE), Fields((("name", HOSTILE),)), Code(HOSTILE)))
    (shown,) = render(message)
    text = shown["content"]
    assert "\\# \\*\\*bold\\*\\* \\@everyone \\<\\@1\\>" in text
    assert "\u202e" not in text
    head, _, code = text.partition("```\n")
    assert "```" not in head
    assert code.count("```") == 1
    assert shown["allowed_mentions"] == {"parse": []}
    assert shown["components"] == []
    long = ChatMessage((Text("*" * 5_000), Code("`" * 3_000)))
    assert all(len(one["content"]) <= 2_000 for one in render(long))
    assert not fits(long)
    here = ChatMessage((Text("x"), Buttons((Button("open", "Open", url="http://127.0.0.1:7411/approvals/1"),))))
    assert render(here)[0]["components"] == []


def test_every_command_is_offered() -> None:
    """C14: with its arguments, as Discord takes them"""
    offer = {one["name"]: [option["name"] for option in one["options"]] for one in offered()["options"]}
    assert offer["pause"] == ["name", "until", "because"]
    assert offer["run"] == ["name", "with"]
    assert offer["next"] == ["n"]


def test_settings_are_checked(server: DiscordBench) -> None:
    with pytest.raises(InvalidInput, match='"app_token" is for Slack'):
        server.m.chat.set("discord", token="env:T_DISCORD", app_token="env:T_APP")
