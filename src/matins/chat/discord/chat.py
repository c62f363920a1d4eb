"""Discord: what a user does there, read and answered. Nothing of it is trusted but its shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from matins.chat.discord.gateway import Gateway
from matins.chat.discord.payloads import heard, mentioned, offered
from matins.chat.discord.rendering import fits, literal, render
from matins.chat.discord.web_api import PRIVATE, DiscordApi, DiscordError
from matins.chat.messages import ChatMessage, Manner, text
from matins.chat.service import ChatService, Heard, Kind, ServiceError
from matins.chat.settings import DISCORD_CHANNELS, ChatApp
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.delivery.destinations.discord import NO_PREVIEWS, QUIET
from matins.surfaces.display import one_line

log = logging.getLogger("matins")
_LATER, _UNCHANGED = 5, 6
"""Answers to an interaction: a message follows; there is none."""


class DiscordVoice:
    """Posts messages: into a thread where people have opened one, else as replies. It remembers which thread each
    belongs to, since a reply names only the message before it."""

    def __init__(self, api: DiscordApi, records: ChatRecords) -> None:
        self._api = api
        self._records = records

    def post(self, channel: str, message: ChatMessage, thread: str | None = None) -> str:
        where, reply_to = (channel, None) if thread is None else self.route(channel, thread)
        ts = ""
        for shown in render(message):
            ts = self._api.post(where, shown, reply_to)
            thread = thread or ts
            reply_to = reply_to or (ts if where == channel else None)
            self.join(channel, thread, ts)
        return ts

    def post_note(self, channel: str, note: str, *, emoji: str = "") -> str:
        return self._api.post(channel, {"content": literal(one_line(note)), **QUIET, "flags": NO_PREVIEWS})

    def join(self, channel: str, thread: str, ts: str) -> None:
        self._records.add_post(f"thread:{thread}", channel, ts)

    def update(self, channel: str, ts: str, message: ChatMessage) -> None:
        thread = self._records.thread_of(channel, ts)
        inside = thread is not None and thread != ts and self._api.is_thread(thread)
        self._api.edit(thread if inside and thread else channel, ts, render(message)[0])

    def route(self, channel: str, thread: str) -> tuple[str, str | None]:
        """The channel to post into, and the message to reply to. A thread is a channel of its own."""
        if self._api.is_thread(thread):
            return thread, None
        above = self._records.thread_of(channel, thread)
        inside = above is not None and above != thread and self._api.is_thread(above)
        return (above if inside and above else channel), thread


class DiscordChat(ChatService):
    manner = Manner(
        title="Discord",
        prefix="/matins ",
        help="Write /matins, !schedule or a mention, then:",
        stranger="You are not known to Matins. Ask its owner to add you: "
        "matins people set NAME --role operator --discord {}",
        fits=fits,
    )
    channels = DISCORD_CHANNELS

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        token = records.secret(app, "token")
        assert token is not None
        self._api = DiscordApi(token, app.url)
        self.voice = self._voice = DiscordVoice(self._api, records)
        elsewhere = None if app.url is None else self._api.base
        self._gateway = Gateway(token, elsewhere, self.accept, self._tell, self._introduce)
        self._application = ""
        super().__init__(app, records, url)

    def connect(self, holds: Callable[[], bool]) -> None:
        self._gateway.start(holds)

    def disconnect(self) -> None:
        self._gateway.stop()
        self._api.stop()

    def _introduce(self) -> None:
        """Offer the slash commands. Offering the same ones again changes nothing."""
        self._api.call("PUT", f"/applications/{self._id()}/commands", [offered()])
        self._tell(None)

    def _tell(self, problem: str | None) -> None:
        name = None if problem is not None else self._api.me().name
        self.records.set_bot(name, problem)

    def _id(self) -> str:
        self._application = self._application or self._api.application()
        return self._application

    def accept(self, event: str, data: Mapping[str, Any]) -> Future[ServiceError | None] | None:
        """Take in an event. A click or a command is acknowledged first: only one process can."""
        found = heard(event, data)
        if found is not None and found.kind != "message":
            found = self._acknowledged(found, str(data.get("id")))
        return None if found is None else self.hear(found)

    def _acknowledged(self, heard: Heard, interaction: str) -> Heard | None:
        kind = _UNCHANGED if heard.kind == "click" else _LATER
        flags = PRIVATE if heard.kind == "command" and not _begins_draft(heard) else 0
        try:
            made = self._api.acknowledge(interaction, heard.trigger, kind, flags=flags)
        except DiscordError as error:  # its user saw that it failed
            log.warning("Discord: a %s was not taken in: %s", heard.kind, error)
            return None
        return heard if heard.kind == "click" else heard._replace(ts=made)

    def team(self) -> str:
        return self._api.me().id

    def recognised(self, heard: Heard) -> Heard | None:
        if heard.by_bot or not heard.user or not heard.channel:
            return None
        heard = self._located(heard)
        mention = mentioned(heard.text, self._api.me().id) if heard.kind == "message" else None
        return heard._replace(mention=mention)

    def _located(self, heard: Heard) -> Heard:
        """With the channel and the thread: a thread is a channel below another one, with the id of its first
        message."""
        parent = None if heard.direct else self._api.parent(heard.channel)
        if parent is None:
            return heard._replace(thread=self.replied_thread(heard)) if heard.kind == "message" else heard
        thread = self.records.thread_of(parent, heard.channel) or heard.channel
        return heard._replace(channel=parent, thread=thread)

    def whisper(self, heard: Heard, message: ChatMessage) -> None:
        if heard.kind == "message":
            self.say(heard, message)
        elif heard.kind == "click":
            for shown in render(message):
                self._api.add_answer(self._id(), heard.trigger, shown)
        else:
            self._answer_command(heard, message)

    # -- slash commands

    def kinds(self) -> Mapping[Kind, Callable[[Heard, ChatPerson], None]]:
        return {**super().kinds(), "command": self._command}

    def _command(self, heard: Heard, person: ChatPerson) -> None:
        """Answer a command. Only its user sees the answer, but for drafts, to which people reply, and cards."""
        place = self.place(heard.channel, heard.thread or heard.ts, in_thread=bool(heard.thread))
        message = self.dialogue.command(self.incoming(heard, person, place, heard.text))
        if message.subject:
            self.say(heard, message)
            message = text("The request is in the channel.")
        self._answer_command(heard, message)
        if _begins_draft(heard):
            self._voice.join(heard.channel, heard.thread or heard.ts, heard.ts)

    def _answer_command(self, heard: Heard, message: ChatMessage) -> None:
        first, *others = render(message)
        self._api.answer(self._id(), heard.trigger, first)
        for shown in others:
            self._api.add_answer(self._id(), heard.trigger, shown)

    def route(self, channel: str, thread: str) -> tuple[str, str | None]:
        return self._voice.route(channel, thread)


def _begins_draft(heard: Heard) -> bool:
    return heard.text.split(" ")[0] == "add"
