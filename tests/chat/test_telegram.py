"""Telegram: commands, drafts, threads, triggers, approvals, links, beside a stand-in of its Bot API. C14, H5, B12."""

from __future__ import annotations

import json
import re

import pytest
from telegram_bench import ADA, BEN, EVE, GROUP, OPS, TelegramBench

from matins.chat.messages import Button, Buttons, ChatMessage, Code, Fields, Heading, Text
from matins.chat.telegram.chat import heard
from matins.chat.telegram.rendering import fits, keyboard, render
from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.service.sign_in import SessionVerifier
from standins.telegram import NAME, Call, Refused, Telegram, visible

HOSTILE = "<b>@ada_x</b> & <!channel> [x](javascript:1) \u202eevil @everyone"


def request(bench: TelegramBench, prompt: str = "Sweep the yard", approvers: str = "ada ben") -> Call:
    """The card of a run that waits for approval."""
    settings = {"approval": "council_approve", "approvers": approvers.split(), "agent": "scout", "prompt": prompt}
    bench.m.add("sweep", when="1d", **settings)
    bench.m.run("sweep")
    (card,) = bench.settle()
    return card


def test_schedules_are_listed_shown_paused_resumed_run_and_removed(phone: TelegramBench) -> None:
    """C14: what `!schedule` does in Slack, commands do in Telegram"""
    assert "no schedules" in phone.say("/list")[0].text
    phone.m.add("nightly", when="every day at 02:30", agent="scout", prompt="Look")
    (listed,) = phone.say("/list")
    assert "✓ scout/nightly · every day at 02:30 · next Sat 28 Mar 02:30 · never ran" in listed.text
    assert listed.arguments["reply_parameters"]["message_id"] > 100
    (paused,) = phone.say("/pause nightly until tomorrow at 9am because of the fair")
    assert "until Sat 28 Mar 09:00" in paused.text
    assert (phone.m.get("nightly").note, phone.m.get("nightly").paused_by) == ("of the fair", "ada")
    assert "Resumed scout/nightly" in phone.say(f"/resume@{NAME.upper()} nightly", chat=GROUP)[0].text
    assert "Look" in phone.say("/show nightly")[0].text
    assert "has not been due yet" in phone.say("/why nightly")[0].text
    assert "Run 1 of nightly" in phone.say("!schedule run nightly", chat=GROUP)[0].text
    assert 'Did you mean "nightly"?' in phone.say("remove nightl")[0].text
    assert "Removed scout/nightly" in phone.say(f"@{NAME} remove nightly", chat=GROUP)[0].text
    assert phone.m.list() == []
    assert "approve N" in phone.say("/start")[0].text
    assert 'Did you mean "list"?' in phone.say("/lst")[0].text


def test_what_is_said_to_others_is_not_heard(phone: TelegramBench) -> None:
    """In a group: commands of other bots, replies to people, small talk, and what somebody only sends on."""
    for text in ("/weather", "/list@other_bot", "Good morning", "@ben_x list", "/start"):
        assert phone.say(text, chat=GROUP) == [] or text == "/start"
    assert phone.say("/list", chat=GROUP, reply_to="55", forward_origin={"type": "user"}) == []
    assert phone.say("/list", via_bot={"id": 5, "is_bot": True, "first_name": "x"}) == []
    assert phone.say("/list", sender_chat={"id": GROUP, "type": "supergroup", "title": "G"}) == []
    assert phone.say("Really?", chat=GROUP, reply_to="55") == []


def test_a_draft_is_made_by_answers_in_private_and_by_replies_in_a_group(phone: TelegramBench) -> None:
    """C14: `/add` asks for what is missing, survives a restart, and makes nothing before Create"""
    assert "Which day?" in phone.say("/add weekly Tidy the garden")[0].text
    assert "Which day?" in phone.say("Frydayish")[0].text
    phone.reopen()
    assert "At what time?" in phone.say("5")[0].text
    (preview,) = phone.say("07:15")
    assert "reads as: every Friday at 07:15 (UTC)" in preview.text
    assert list(preview.buttons) == ["Create", "Change", "Cancel"]
    assert all(len(button["callback_data"].encode()) <= 64 for button in preview.buttons.values())
    phone.click(preview, "Change")
    (second,) = phone.say("when every friday at 8am")
    assert "The draft has changed since" in phone.click(preview, "Create")[0].text
    assert "You have no draft here" in phone.click(second, "Create", BEN)[0].text
    assert "Created scout/" in phone.click(second, "Create")[0].text
    assert "You have no draft here" in phone.click(second, "Create")[0].text
    (made,) = phone.m.list()
    assert (made.trigger_text, made.created_by) == ("every Friday at 08:00", "ada")
    assert made.settings["target"] == {"kind": "channel", "channel": str(ADA)}
    (asked,) = phone.say("/add daily Look", chat=GROUP)
    assert phone.say("08:00", chat=GROUP) == []
    assert phone.say("08:00", BEN, chat=GROUP, reply_to=asked.ts) == []
    (preview,) = phone.say("08:00", chat=GROUP, reply_to=asked.ts)
    assert "every day at 08:00" in preview.text
    assert "Nothing was made" in phone.say("/cancel", chat=GROUP, reply_to=preview.ts)[0].text


def test_answers_come_back_and_replies_speak_to_the_agent(phone: TelegramBench) -> None:
    """B21 H5: where the schedule was made; a reply to any part of an answer is a run in the same conversation"""
    phone.click(phone.say("/add every day at 09:00: Look", chat=GROUP)[0], "Create")
    phone.tool.reply = "**Two** weeds\n\n" * 900
    phone.m.clock.advance_to("2026-03-27T09:00:00Z")
    answers = phone.settle()
    assert len(answers) > 2
    assert {call.arguments["chat_id"] for call in answers} == {str(GROUP)}
    assert "reply_parameters" not in answers[0].arguments
    assert "<b>Two</b> weeds" in answers[0].arguments["text"]
    phone.tool.reply = "Three."
    for said in (answers[0], answers[-1]):
        assert phone.say("How many?", BEN, chat=GROUP, reply_to=said.ts) == []
        (answer,) = phone.settle()
        assert answer.arguments["reply_parameters"]["message_id"] == int(answers[0].ts)
        assert "Three." in answer.text
    (thread,) = phone.m.threads.list()
    assert [message.role for message in phone.m.threads.messages(thread.id)] == ["user", "assistant"] * 3
    assert phone.say("And now?", chat=GROUP, reply_to=answer.ts) == []
    phone.tool.reply = "FAIL no water"
    assert "no water" in phone.settle()[0].text
    assert len(phone.m.runs.list()) == 4


def test_what_is_made_in_a_reply_answers_there(phone: TelegramBench) -> None:
    (listed,) = phone.say("/list")
    (preview,) = phone.say("/add in 1h: Look again", reply_to=listed.ts)
    phone.click(preview, "Create")
    phone.m.clock.advance(3_600_000)
    (answer,) = phone.settle()
    assert answer.arguments["reply_parameters"] == listed.arguments["reply_parameters"]


def test_an_answer_that_was_not_confirmed_is_repeated_once_and_says_so(phone: TelegramBench) -> None:
    """B21: Telegram knows no keys; a group that is gone concerns no other"""
    target = {"kind": "channel", "channel": str(GROUP)}
    phone.m.add("look", when="1d", agent="scout", prompt="Look", target=target)
    phone.telegram.cut["sendMessage"] = "after"
    phone.m.run("look")
    assert len(phone.settle()) == 1
    phone.m.clock.advance(600_000)
    (again,) = phone.settle()
    assert "Sent again: Telegram did not confirm the first copy." in again.text
    phone.m.clock.advance(3_600_000)
    assert phone.settle() == []
    assert [answer.state for answer in phone.m.runs.get(1).answers] == ["unconfirmed"]
    del phone.telegram.cut["sendMessage"]

    def kicked(given: dict[str, object]) -> object:
        raise Refused(403, "Forbidden: bot was kicked from the supergroup chat")

    phone.telegram.answers["sendMessage"] = kicked
    phone.m.run("look")
    phone.settle()
    assert [answer.state for answer in phone.m.runs.get(2).answers] == ["discarded"]
    del phone.telegram.answers["sendMessage"]
    phone.m.run("look")
    assert "All is well." in phone.settle()[0].text


def test_messages_start_schedules_that_listen(phone: TelegramBench) -> None:
    """H5: a chat trigger fires for people who are known, once for each message"""
    on = [{"chat": str(GROUP), "match": "!deploy", "from": ["ada"]}, {"chat": str(BEN), "match": "any"}]
    phone.m.add("deploy", on=on, agent="scout", prompt="Deploy {{call.text}}")
    phone.say("!deploy <b>x</b>", chat=GROUP)
    (call,) = phone.m.calls.list()
    assert (phone.m.calls.get(call.id).text, call.sender) == ("!deploy <b>x</b>", "ada")
    phone.say("!deploy", BEN, chat=GROUP)
    phone.say("!deploy", EVE, chat=GROUP)
    assert len(phone.m.runs.list()) == 1
    phone.say("Go", BEN)
    assert len(phone.m.runs.list()) == 2


def test_a_card_is_approved_by_a_button_that_is_bound_to_it(phone: TelegramBench) -> None:
    """B12: exactly what would run, id and eight digits of the digest in 64 bytes, and who decided"""
    card = request(phone)
    (asked,) = phone.m.approvals.list()
    assert card.arguments["chat_id"] == str(OPS)
    assert "Sweep the yard" in card.text
    assert list(card.buttons) == ["Approve", "Deny", "Open"]
    assert card.buttons["Approve"]["callback_data"] == f"approve:{asked.id}:{asked.digest[:8]}"
    updated = phone.click(card, "Approve", BEN)[-1]
    assert (updated.method, updated.ts) == ("editMessageText", card.ts)
    assert "Approved by ben at Fri 27 Mar 08:00 UTC in Telegram." in updated.text
    assert updated.buttons == {}
    assert "Approval 1 is approved" in phone.click(card, "Approve")[-1].text
    phone.settle()
    assert phone.tool.prompts == ["Sweep the yard"]


def test_a_denial_counts_at_once_and_a_reason_is_a_command(phone: TelegramBench) -> None:
    card = request(phone)
    assert "deny by ada" in phone.click(card, "Deny")[-1].text
    (shown,) = phone.say("/deny 1 because it rains", BEN)
    assert "Denied by ada, ben" in shown.text
    assert "ben: it rains" in shown.text
    (updated,) = [call for call in phone.settle() if call.ts == card.ts]
    assert "Denied by ada, ben" in updated.text


@pytest.mark.parametrize("data", ["approve:1:", "approve:1:0000", "approve:1:00000000", "approve:2:{}", "approve::{}",
                                  "approve", "", "approve:1:{}:x", "x:1:{}"])  # fmt: skip
def test_a_forged_click_decides_nothing(phone: TelegramBench, data: str) -> None:
    """B12: no digest, another one, another request, or anything else"""
    card, (asked,) = request(phone), phone.m.approvals.list()
    phone.click(card, "Approve", data=data.format(asked.digest[:8]))
    assert phone.m.approvals.get(1).votes == []


def test_a_click_elsewhere_decides_nothing(phone: TelegramBench) -> None:
    """B12: the same data on another message, in another chat, or on one that Matins did not post"""
    card = request(phone)
    for chat, ts in ((EVE, card.ts), (OPS, "5"), (GROUP, card.ts)):
        message = {"message_id": int(ts), "date": 0, "chat": {"id": chat, "type": "private"}}
        assert "not a card that Matins posted here" in phone.click(card, "Approve", message=message)[-1].text
    assert phone.m.approvals.get(1).state == "pending"


def test_an_older_card_is_replaced_and_does_not_count(phone: TelegramBench) -> None:
    card = request(phone, approvers="ada ben eva")
    phone.m.acting_as(Principal("operator", "eva")).approvals.approve(1, edits={"prompt": "Sweep twice"})
    said = phone.click(card, "Approve", BEN)
    assert "is void" in said[-1].text
    assert phone.m.approvals.get(2).votes == []
    newer = [call for call in [*said, *phone.settle()] if "Sweep twice" in call.text][-1]
    phone.click(newer, "Approve", BEN)
    phone.settle()
    assert phone.tool.prompts == ["Sweep twice"]


@pytest.mark.parametrize("user", [EVE, 0, BEN])
def test_only_people_who_may_approve(phone: TelegramBench, user: int) -> None:
    """B12: a stranger, nobody, and an operator where only the owner can; the answer shows nothing of the request"""
    scout = phone.m.acting_as(Principal("agent", "scout"))
    scout.add("plan", when="every day at 9", agent="scout", prompt="Look")
    (card,) = phone.settle()
    said = phone.click(card, "Approve", user)
    assert phone.m.get("plan").state == "pending"
    expected = {EVE: f"--telegram {EVE}", BEN: "only the owner can answer it"}
    assert user == 0 or expected[user][:30] in said[-1].text
    for text in ("/list", "/run plan", f"/approve 1 {phone.m.approvals.get(1).digest}"):
        phone.say(text, EVE)
        phone.say(text, EVE, chat=GROUP)
    assert not any("plan" in call.text for call in phone.telegram.calls if call.arguments.get("chat_id") == str(EVE))
    assert phone.m.get("plan").state == "pending"


def test_what_does_not_fit_is_read_before_it_is_decided(phone: TelegramBench) -> None:
    """B12: a prompt that a card cannot hold has no button to approve: all of it is shown first, in parts"""
    prompt = "\n".join(f"line {number}" for number in range(900))
    card = request(phone, prompt)
    assert list(card.buttons) == ["Read and decide…", "Deny", "Open"]
    assert "Read all of it first" in phone.say(f"/approve 1 {phone.m.approvals.get(1).digest}")[0].text
    said = phone.click(card, "Read and decide…")
    shown = "\n".join(call.text for call in said)
    assert all(f"line {number}\n" in f"{shown}\n" for number in (0, 450, 899))
    assert list(said[-1].buttons) == ["Approve", "Deny"]
    phone.click(said[-1], "Approve")
    phone.settle()
    assert phone.tool.prompts == [prompt]


def test_a_request_that_is_too_long_is_read_elsewhere(phone: TelegramBench) -> None:
    card = request(phone, "x" * 60_000)
    assert "too long for Telegram" in phone.click(card, "Read and decide…")[-1].text
    assert len(phone.telegram.said()) == 1


def test_a_code_makes_a_user_a_person(phone: TelegramBench) -> None:
    """B12: `matins people link` and `/start CODE`: once, within ten minutes, in private"""
    phone.m.people.set("cy", role="operator")
    with pytest.raises(Conflict, match="No bot of telegram is connected"):
        phone.m.people.link("cy", "telegram")
    phone.records.set_bot(f"@{NAME}", None)
    with pytest.raises(InvalidInput, match="service"):
        phone.m.people.link("cy", "slack")  # pyright: ignore[reportArgumentType]
    old, link = phone.m.people.link("cy", "telegram"), phone.m.people.link("cy", "telegram")
    assert (link.bot, len(link.code)) == ("@matins_bot", 8)
    phone.say(f"/start {link.code}", EVE, chat=GROUP)
    assert "not valid" in phone.say(f"/start {old.code}", EVE)[0].text
    assert "You are cy here (operator)" in phone.say(f"/start {link.code}", EVE)[0].text
    assert phone.m.people.get("cy").telegram == str(EVE)
    assert "not valid" in phone.say(f"/start {link.code}", BEN)[0].text
    assert "no schedules" in phone.say("/list", EVE)[0].text
    assert (
        '"cy" has this telegram already'
        in phone.say(f"/start {phone.m.people.link('ben', 'telegram').code}", EVE)[0].text
    )
    late = phone.m.people.link("cy", "telegram")
    phone.m.clock.advance(600_000)
    assert "not valid" in phone.say(f"/start {late.code}", 555)[0].text
    assert link.code not in json.dumps([event.data for event in phone.m.events.list(limit=1_000)])


def test_login_is_a_link_in_private_that_opens_once(phone: TelegramBench) -> None:
    """B23: with the person's rights; no event has it"""
    assert "in a private chat" in phone.say(f"/login@{NAME}", chat=GROUP)[0].text
    (said,) = phone.say("login", BEN)
    found = re.search(r"https://matins\.example\.com/login\?code=(\S+)", said.text)
    assert found is not None
    verifier = SessionVerifier(phone.m.store, phone.m.clock)
    opened = verifier.open(found[1])
    assert opened is not None
    principal = verifier.principal_of(opened.secret)
    assert principal is not None
    assert (principal.person, principal.role) == ("ben", "operator")
    assert verifier.open(found[1]) is None
    assert found[1] not in str(phone.m.events.list(limit=1_000))
    assert not any("login?code" in call.text for call in phone.say("login", EVE))


def test_codes_are_not_guessed(phone: TelegramBench) -> None:
    phone.m.people.set("cy", role="operator")
    phone.records.set_bot(f"@{NAME}", None)
    link = phone.m.people.link("cy", "telegram")
    for number in range(5):
        assert "not valid" in phone.say(f"/start {number:08}", EVE)[0].text
    assert "Too many codes" in phone.say(f"/start {link.code}", EVE)[0].text
    assert phone.m.people.get("cy").telegram is None
    phone.m.clock.advance(599_999)
    assert "Too many codes" in phone.say(f"/start {link.code}", EVE)[0].text
    assert "You are cy" in phone.say(f"/start {link.code}", 777)[0].text


def test_no_text_of_others_becomes_markup(phone: TelegramBench) -> None:
    """Names, prompts, notes and what a user wrote: no tag, no mention, and what hides is written out."""
    card = request(phone, HOSTILE)
    phone.m.add("x <b>@ada_x</b> & @everyone", when="1d", agent="scout", prompt=HOSTILE)
    for text in ("/list", "/show x <b>@ada_x</b> & @everyone", f"/pause sweep because {HOSTILE}", f"/remove {HOSTILE}",
                 f"/add every day at 9: {HOSTILE}", f"/{HOSTILE}"):  # fmt: skip
        phone.say(text)
    phone.click(card, "Deny")
    posted = [call for call in phone.telegram.calls if "parse_mode" in call.arguments]
    assert len(posted) > 6
    for call in posted:
        assert "@ada" not in call.text
        assert "@everyone" not in call.text
        assert "\u202e" not in call.text
        assert "<b>@" not in call.arguments["text"]
    assert any("<b>@\u2060ada_x</b>" in call.text for call in posted)


def test_rendering_keeps_within_telegrams_limits() -> None:
    long = ChatMessage(
        (Heading("h" * 4_000), Text("😀 word\n" * 3_000), Code("<&>\n" * 3_000), Fields((("k", "@x" * 900),)))
    )
    texts = render(long)
    assert len(texts) > 3
    assert all(len(visible(text).encode("utf-16-le")) // 2 <= 4_096 for text in texts)
    assert "".join(visible(text) for text in texts).count("<&>") == 3_000
    assert not fits(long)
    url = Button("open", "Open", url="http://127.0.0.1:8731/approvals/1")
    assert keyboard(ChatMessage((Buttons((url,)),))) is None
    assert keyboard(ChatMessage((Buttons((url._replace(url="http://localhost/1"),)),))) is None
    assert keyboard(ChatMessage((Buttons((url._replace(url="https://x.example/1"),)),))) is not None


def test_updates_of_any_shape_are_read_without_harm() -> None:
    for value in (None, 1, "x", [], {}, [None], {"id": "x"}, True):
        message = {"text": "/list", "from": value, "chat": value, "message_id": value, "reply_to_message": value}
        click = {"id": value, "from": value, "message": message, "data": value}
        for update in ({"message": value}, {"message": message}, {"callback_query": value}, {"callback_query": click}):
            found = heard(update)
            assert found is None or found.by_bot or not found.user


def test_a_message_that_is_handed_over_twice_is_answered_once(phone: TelegramBench) -> None:
    phone.m.add("nightly", when="1d", agent="scout", prompt="Look")
    phone.telegram.say("/run nightly")
    (update,) = phone.telegram.updates
    for _ in range(3):
        future = phone.chat.accept(update)
        assert future is None or future.result(30) is None
    assert len(phone.telegram.said()) == 1
    assert len(phone.m.runs.list()) == 1


@pytest.mark.parametrize("status", [429, 500])
def test_what_telegram_does_not_take_now_is_answered_later_and_done_once(phone: TelegramBench, status: int) -> None:
    """The update stays until it was answered; what it does is done once, and the answer is the first one."""

    def busy(given: dict[str, object]) -> object:
        raise Refused(status, "Busy", retry_after=7)

    phone.m.add("nightly", when="1d", agent="scout", prompt="Look")
    phone.telegram.answers["sendMessage"] = busy
    phone.telegram.say("/remove nightly")
    (update,) = phone.telegram.updates
    future = phone.chat.accept(update)
    assert future is not None
    error = future.result(30)
    assert error is not None
    assert (error.retryable, getattr(error, "after_s", None)) == (True, 7)
    assert phone.m.list() == []
    del phone.telegram.answers["sendMessage"]
    assert "Removed scout/nightly" in phone.turn()[0].text
    assert phone.turn() == []


def test_an_answer_that_may_have_arrived_is_not_sent_again(phone: TelegramBench, telegram: Telegram) -> None:
    telegram.cut["sendMessage"] = "after"
    assert len(phone.say("/list")) == 1
    del telegram.cut["sendMessage"]
    assert phone.turn() == []
    assert len(telegram.said()) == 1
