"""The stand-in of Telegram is judged by the client that most bots use: `python-telegram-bot`."""

from __future__ import annotations

import asyncio
import threading

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters
from telegram.constants import ParseMode
from telegram.error import BadRequest, Conflict, InvalidToken, RetryAfter
from telegram.request import HTTPXRequest

from standins.telegram import NAME, TOKEN, Call, Refused, Telegram


def client(telegram: Telegram, token: str = TOKEN) -> Bot:
    request = HTTPXRequest(read_timeout=10)
    return Bot(
        token, base_url=f"{telegram.url}/bot", request=request, get_updates_request=HTTPXRequest(read_timeout=10)
    )


def test_messages_updates_and_clicks_are_those_that_the_client_expects(telegram: Telegram) -> None:
    async def use() -> None:
        async with client(telegram) as bot:
            assert (await bot.get_me()).username == NAME
            telegram.say("/list")
            (update,) = await bot.get_updates(timeout=5)
            assert update.message is not None
            assert (update.message.text, update.message.chat.type) == ("/list", "private")
            (again,) = await bot.get_updates(timeout=0)
            assert again.update_id == update.update_id
            keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Approve", callback_data="approve:1:12345678")]])
            sent = await bot.send_message(81230, "<b>a</b> &lt;b", ParseMode.HTML, reply_markup=keyboard,
                                          reply_parameters=ReplyParameters(update.message.message_id))  # fmt: skip
            assert (sent.text, sent.reply_markup) == ("a <b", keyboard)
            assert sent.reply_to_message is not None
            posted = telegram.said()[0]
            telegram.click(posted._replace(arguments={**posted.arguments, "chat_id": 81230}), "Approve")
            (clicked,) = await bot.get_updates(offset=update.update_id + 1, timeout=5)
            assert clicked.callback_query is not None
            assert (clicked.callback_query.data, clicked.callback_query.from_user.id) == ("approve:1:12345678", 81230)
            assert await clicked.callback_query.answer("Done", show_alert=True)
            edited = await bot.edit_message_text("b", 81230, sent.message_id)
            assert getattr(edited, "text", None) == "b"
            telegram.say("Is it?", reply_to=str(sent.message_id))
            (reply,) = await bot.get_updates(offset=clicked.update_id + 1, timeout=5)
            assert reply.message is not None
            assert reply.message.reply_to_message is not None
            assert reply.message.reply_to_message.message_id == sent.message_id
            assert await bot.set_my_commands([("list", "List schedules.")])
            assert (await bot.get_my_commands())[0].command == "list"
            document = (await bot.send_document(81230, b"content", filename="report.txt")).document
            assert document is not None
            assert (document.file_name, document.file_size) == ("report.txt", 7)

    asyncio.run(use())


def test_it_refuses_what_telegram_refuses(telegram: Telegram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # the type that the client will have

    async def use() -> None:
        async with client(telegram) as bot:
            for text, error in (
                ("x" * 4_097, "too long"),
                ("<b>x", "end tag"),
                ("a < b", "parse"),
                ("<x>y</x>", "tag"),
            ):
                with pytest.raises(BadRequest, match=error):
                    await bot.send_message(81230, text, ParseMode.HTML)
            sent = await bot.send_message(81230, "😀" * 2_048)
            with pytest.raises(BadRequest, match="not modified"):
                await bot.edit_message_text("😀" * 2_048, 81230, sent.message_id)
            long = InlineKeyboardMarkup([[InlineKeyboardButton("x", callback_data="x" * 65)]])
            with pytest.raises(BadRequest, match=r"(?i)button_data"):
                await bot.send_message(81230, "x", reply_markup=long)

            def busy(given: dict[str, object]) -> object:
                raise Refused(429, "Too Many Requests: retry after 7", retry_after=7)

            telegram.answers["sendMessage"] = busy
            with pytest.raises(RetryAfter):
                await bot.send_message(81230, "x")
            await bot.set_webhook("https://bot.example.com/")
            with pytest.raises(Conflict, match="webhook"):
                await bot.get_updates(timeout=0)
            await bot.delete_webhook()
            waiting = asyncio.create_task(bot.get_updates(timeout=8))
            await asyncio.to_thread(telegram.wait, lambda: telegram.polls == 1)
            threading.Thread(target=telegram.interrupt).start()
            with pytest.raises(Conflict, match="terminated by other"):
                await waiting
        with pytest.raises(InvalidToken):
            async with client(telegram, "123456:another"):
                pass

    asyncio.run(use())


def test_a_click_needs_a_button(telegram: Telegram) -> None:
    with pytest.raises(KeyError):
        telegram.click(Call("sendMessage", {"chat_id": "1"}), "Approve")
