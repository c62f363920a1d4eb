"""Telegram: what a user does there, read and answered. Nothing of it is trusted but its shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from matins.api.schedules import Api
from matins.chat.dialogue import error_message
from matins.chat.messages import HELP, ChatMessage, Manner, is_command, text
from matins.chat.service import ChatService, Heard, Kind, ServiceError
from matins.chat.settings import TELEGRAM_CHANNELS, ChatApp
from matins.chat.telegram.bot_api import BotApi, Poller, TelegramError
from matins.chat.telegram.rendering import fits, keyboard, render
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.delivery.destinations.telegram import escape
from matins.engine.calls import mapping_of
from matins.errors import ManagedByFile, MatinsError
from matins.model.access import Principal
from matins.surfaces.display import one_line
from matins.surfaces.transports.in_process import InProcess

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@(\w{1,64}))?(?:\s+(.*))?", re.DOTALL)
_MENTION = re.compile(r"(?<!\w)@(\w{1,64})\b[:,]?")
_MAX_ALERT = 200
_MAX_CODES, _CODES_MS = 5, 600_000
"""Wrong codes of a user, within ten minutes, before codes of that user are not looked at."""
_COMMANDS = [{"command": usage.split()[0], "description": help_} for usage, help_ in HELP]
_CANCEL = {"command": "cancel", "description": "End the schedule that is being made."}


class TelegramVoice:
    """Posts messages, and remembers which thread each belongs to: a reply names only the message before it."""

    def __init__(self, api: BotApi, records: ChatRecords) -> None:
        self._api = api
        self._records = records

    def post(self, channel: str, message: ChatMessage, thread: str | None = None) -> str:
        texts, ts = render(message), ""
        for number, shown in enumerate(texts):
            ts = self.send(channel, shown, thread, keyboard(message) if number == len(texts) - 1 else None)
            thread = thread or ts
        return ts

    def post_note(self, channel: str, note: str, *, emoji: str = "") -> str:
        return self.send(channel, escape(one_line(note)), None, None)

    def join(self, channel: str, thread: str, ts: str) -> None:
        self._records.add_post(f"thread:{thread}", channel, ts)

    def update(self, channel: str, ts: str, message: ChatMessage) -> None:
        shown, buttons = render(message)[0], keyboard(message)
        more = {"reply_markup": buttons} if buttons else {}
        try:
            self._api.call("editMessageText", chat_id=channel, message_id=int(ts), **_html(shown), **more)
        except TelegramError as error:
            if "not modified" not in error.message:
                raise

    def send(self, channel: str, shown: str, thread: str | None, buttons: Mapping[str, Any] | None) -> str:
        given: dict[str, Any] = {"chat_id": channel, **_html(shown)}
        if thread is not None:
            given["reply_parameters"] = {"message_id": int(thread), "allow_sending_without_reply": True}
        if buttons is not None:
            given["reply_markup"] = buttons
        ts = str(mapping_of(self._api.call("sendMessage", **given)).get("message_id"))
        self.join(channel, thread or ts, ts)
        return ts


def _html(shown: str) -> dict[str, Any]:
    return {"text": shown, "parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}


class TelegramChat(ChatService):
    manner = Manner(
        title="Telegram",
        prefix="/",
        help="Commands:",
        stranger="You are not known to Matins. Its owner can send you a code (matins people link NAME telegram), "
        "or add you: matins people set NAME --role operator --telegram {}",
        fits=fits,
    )
    channels = TELEGRAM_CHANNELS
    repeats = True

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        token = records.secret(app, "token")
        assert token is not None
        self._api = BotApi(token, app.url)
        self.voice = TelegramVoice(self._api, records)
        self._poller = Poller(self._api, self.accept, self._tell, self._introduce)
        self._wrong: dict[str, list[int]] = {}
        super().__init__(app, records, url)

    def connect(self, holds: Callable[[], bool]) -> None:
        self._poller.start(holds)

    def disconnect(self) -> None:
        self._poller.stop()

    def _introduce(self) -> None:
        self._api.me()
        self._api.call("setMyCommands", commands=[*_COMMANDS, _CANCEL])

    def _tell(self, problem: str | None) -> None:
        self.records.set_bot(None if self._api.bot is None else f"@{self._api.bot.name}", problem)

    def accept(self, update: Mapping[str, Any]) -> Future[ServiceError | None] | None:
        found = heard(update)
        return None if found is None else self.hear(found)

    def team(self) -> str:
        return self._api.me().id

    def recognised(self, heard: Heard) -> Heard | None:
        if heard.by_bot or not heard.user or not heard.channel:
            return None
        if heard.kind == "click":
            return heard
        mention = None if heard.text.startswith("/") else mentioned(heard.text, self._api.me().name)
        said = "cancel" if heard.text.strip().lower() == "/cancel" else heard.text
        heard = heard._replace(text=said, mention=mention)
        heard = heard._replace(thread=self.replied_thread(heard))
        code = _COMMAND.fullmatch(heard.text.strip()) if heard.direct else None
        if code is not None and code[1].lower() == "start" and code[3]:
            self._link(heard, code[3].strip())
            return None
        return heard

    def command_in(self, heard: Heard) -> str | None:
        found = _COMMAND.fullmatch(heard.text.strip())
        if found is None:
            return super().command_in(heard)
        verb, name, rest = found[1].lower(), found[2], found[3] or ""
        ours = name is not None and name.lower() == self._api.me().name.lower()
        if name is not None and not ours:
            return None
        verb = "help" if verb == "start" else verb
        return f"{verb} {rest}" if ours or heard.direct or is_command(verb) else None

    def whisper(self, heard: Heard, message: ChatMessage) -> None:
        if heard.kind == "click":
            self._answer_click(heard, one_line(message.plain))
        else:
            self.say(heard, message)

    # -- clicks

    def kinds(self) -> Mapping[Kind, Callable[[Heard, ChatPerson], None]]:
        return {**super().kinds(), "click": self._clicked}

    def _clicked(self, heard: Heard, person: ChatPerson) -> None:
        self._click(heard, person)
        self._answer_click(heard, "")

    def _answer_click(self, heard: Heard, shown: str) -> None:
        """End the wait of the button, with a text that only its user sees."""
        shown = shown if len(shown) <= _MAX_ALERT else shown[: _MAX_ALERT - 1] + "…"
        with suppress(TelegramError):  # a click that waited too long cannot be answered
            self._api.call("answerCallbackQuery", callback_query_id=heard.trigger, text=shown, show_alert=bool(shown))

    # -- links

    def _link(self, heard: Heard, code: str) -> None:
        """Make the user the person whose code it is."""
        now = self.records.clock.now_ms()
        wrong = [at for at in self._wrong.get(heard.user, []) if now - at < _CODES_MS]
        if len(wrong) >= _MAX_CODES:
            self.say(heard, text("Too many codes were wrong. Try again in ten minutes."))
            return
        owner = Principal("owner", self.records.service, kind="chat")

        def link() -> ChatMessage:
            name = self.records.linked(code)
            if name is None:
                return text("This code is not valid: it is wrong, used or older than ten minutes.")
            made = Api(InProcess(self.records.caller, owner)).people.edit(name, telegram=heard.user)
            return text(f"You are {made.name} here ({made.role}). Commands: /help")

        try:
            answer = self.records.once(owner, heard.key, link)
        except ManagedByFile:
            answer = text(f'The owner keeps you in a file. This is to be written there: telegram: "{heard.user}"')
        except MatinsError as error:
            answer = error_message(error)
        if answer.plain.startswith("This code"):
            self._wrong[heard.user] = [*wrong, now]
        self.say(heard, answer)


def mentioned(said: str, bot: str) -> str | None:
    """The text without the mentions of the bot; None when it mentions others, or nobody."""
    rest = _MENTION.sub(lambda found: "" if found[1].lower() == bot.lower() else found[0], said)
    return None if rest == said else rest.strip()


def heard(update: Mapping[str, Any]) -> Heard | None:
    """A message or a click; None for what is of no concern."""
    click = mapping_of(update.get("callback_query"))
    return _click(click) if click else _message(mapping_of(update.get("message")))


def _message(message: Mapping[str, Any]) -> Heard | None:
    said = message.get("text")
    # What another person or bot wrote, and what a user sends on, is not the user's word.
    if not isinstance(said, str) or any(message.get(name) for name in ("forward_origin", "via_bot", "sender_chat")):
        return None
    user, chat = mapping_of(message.get("from")), mapping_of(message.get("chat"))
    channel, ts = _id(chat, "id"), _id(message, "message_id")
    return Heard(
        kind="message",
        key=f"message:{channel}:{ts}",
        user=_id(user, "id"),
        channel=channel,
        ts=ts,
        thread=_id(mapping_of(message.get("reply_to_message")), "message_id"),
        text=said,
        direct=chat.get("type") == "private",
        by_bot=user.get("is_bot") is not False,
    )


def _click(click: Mapping[str, Any]) -> Heard | None:
    user, message, data = mapping_of(click.get("from")), mapping_of(click.get("message")), click.get("data")
    action, _, value = data.partition(":") if isinstance(data, str) else ("", "", "")
    chat = mapping_of(message.get("chat"))
    return Heard(
        kind="click",
        key=f"click:{_id(click, 'id')}",
        user=_id(user, "id"),
        channel=_id(chat, "id"),
        ts=_id(message, "message_id"),
        direct=chat.get("type") == "private",
        by_bot=user.get("is_bot") is not False,
        action=action,
        value=value,
        trigger=_id(click, "id"),
    )


def _id(held: Mapping[str, Any], name: str) -> str:
    """A number, or a text of digits; empty for anything else."""
    value = held.get(name)
    found = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return found if re.fullmatch(r"-?[0-9]{1,32}", found) else ""
