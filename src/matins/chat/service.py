"""What the services of chat share: what a user did is accepted once, handled by a worker, and answered with the rights
of the person behind the user; requests for approval are cards; the admin channel gets notes.

A service adds payloads, rendering and its connection: a subclass of `ChatService`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Literal, NamedTuple, Protocol
from zlib import crc32

from matins.api.results import Approval
from matins.api.schedules import Api
from matins.chat import drafts
from matins.chat.approval_cards import (
    APPROVE,
    DENY,
    READ,
    check_shown,
    decision_card,
    request_parts,
    subject_of,
    title,
    too_long,
)
from matins.chat.dialogue import CHANGE, CREATE, DROP, Dialogue, Incoming, Place, error_message
from matins.chat.messages import MIN_DIGEST, ChatMessage, Code, Heading, Manner, Text, is_command, text, without_prefix
from matins.chat.rows import ChatPost
from matins.chat.settings import ChatApp
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.delivery.answers import ThreadChannel
from matins.delivery.destinations import Address, Answer, NotDelivered, Part, Receipt, parts_of, send_part
from matins.engine.events import PREFIX
from matins.errors import InvalidInput, MatinsError, NotFound, Stale
from matins.model.destination import THREAD, ChatChannels, Destination, Smtp
from matins.runtime.run_changes import ThreadInChat
from matins.surfaces.transports.in_process import InProcess

log = logging.getLogger("matins")
_DECIDED = (
    "approval.voted", "approval.approved", "approval.denied", "approval.expired", "approval.used", "approval.voided",
)  # fmt: skip
TYPES = ("run.skipped", "approval.requested", "approval.edited", *_DECIDED, "file.applied")
_MAX_SHOWN = 50_000
"""The longest request that is shown in messages, before it is decided."""
_WORKERS = 4
_MAX_WAITING = 1_000
Kind = Literal["message", "command", "click", "form"]


class ServiceError(MatinsError):
    """A service refused a call, or did not answer."""

    code = "chat"
    retryable = False
    """Whether it surely did nothing, and may be called again."""


class Heard(NamedTuple):
    """Something that a user of a service did."""

    kind: Kind
    key: str
    """A key that is the same for a repetition."""
    user: str
    channel: str = ""
    ts: str = ""
    """The id of the message, or of the message with the button."""
    thread: str = ""
    """The thread of a message in one; empty otherwise."""
    text: str = ""
    mention: str | None = None
    """The text without the mention of the bot; None where the bot is not mentioned."""
    direct: bool = False
    by_bot: bool = False
    teams: tuple[str, ...] = ()
    """Every workspace that the payload names: of the app, of the channel, of the user."""
    action: str = ""
    value: str = ""
    """The value of a button, or the metadata of a form."""
    trigger: str = ""
    """What opens a form."""
    fields: Mapping[str, str] = {}
    """What was written into a form."""


class Events(Protocol):
    """Where a service gets events."""

    def subscribe(
        self, callback: Callable[[dict[str, Any]], Any], types: tuple[str, ...], name: str
    ) -> Callable[[], None]: ...
    def holds(self, name: str) -> bool:
        """Whether this process, and no other, gets the events of this name."""
        ...

    def post_answers(self, service: str, channel: ThreadChannel) -> Callable[[], None]: ...


class Voice(Protocol):
    """What a service says."""

    def post(self, channel: str, message: ChatMessage, thread: str | None = None) -> str:
        """Post a message, and return its id."""
        ...

    def post_note(self, channel: str, note: str, *, emoji: str = "") -> str: ...
    def update(self, channel: str, ts: str, message: ChatMessage) -> None: ...
    def join(self, channel: str, thread: str, ts: str) -> None:
        """Remember that a message is in a thread, where the service does not say so when it is replied to."""
        ...


class Cards:
    """Cards of approvals: posted once, and updated wherever the decision was made."""

    def __init__(self, app: ChatApp, records: ChatRecords, voice: Voice, dialogue: Dialogue) -> None:
        self._app = app
        self._records = records
        self._voice = voice
        self._dialogue = dialogue

    def post(self, approval_id: str) -> None:
        """Post the card of an open request to the admin channel, once."""
        asked, subject = self._approval(approval_id), subject_of(approval_id)
        if self._app.admin is None or asked is None or asked.state != "pending" or self._records.posts(subject):
            return
        ts = self._voice.post(self._app.admin, self._dialogue.card(asked, self._zone))
        self._records.add_post(subject, self._app.admin, ts, asked.digest)

    def update(self, approval_id: str) -> None:
        """Show the state of a request on each of its cards."""
        asked = self._approval(approval_id)
        posts = [] if asked is None else self._records.posts(subject_of(approval_id))
        via = next((post.via for post in posts if post.via), None)
        for post in posts:
            if asked is not None and post.digest is not None:
                self._voice.update(post.channel, post.ts, self._dialogue.card(asked, self._zone, via))

    def answered(self, approval_id: str, channel: str, ts: str, person: str) -> None:
        """Remember that the request was answered on a card, and say so on all of them."""
        for post in self._records.posts(subject_of(approval_id)):
            if (post.channel, post.ts) == (channel, ts):
                self._records.set_post(post._replace(via=person))
        self.update(approval_id)

    def replace(self, approval_id: str, channel: str, ts: str) -> None:
        """Show the request that replaced an older one on the card of the older one."""
        old = self._approval(approval_id)
        newer = None if old is None else self._newer(old)
        if newer is None:
            return
        for post in self._records.posts(subject_of(approval_id)):  # the card is no longer about the older one
            if (post.channel, post.ts) == (channel, ts):
                self._records.set_post(post._replace(digest=newer.digest if newer.id == approval_id else None))
        self._records.add_post(subject_of(newer.id), channel, ts, newer.digest)
        self._voice.update(channel, ts, self._dialogue.card(newer, self._zone))

    def _newer(self, old: Approval) -> Approval | None:
        """The open request about the same subject: itself, where its digest changed."""
        same = [
            asked
            for asked in self._of_owner().approvals.list(limit=1_000)
            if (asked.kind, asked.schedule_id, asked.run_id) == (old.kind, old.schedule_id, old.run_id)
        ]
        return same[-1] if same else None

    def _approval(self, approval_id: str) -> Approval | None:
        try:
            return self._of_owner().approvals.get(approval_id)
        except NotFound:  # its history was pruned
            return None

    def _of_owner(self) -> Api:
        return Api(InProcess(self._records.caller))

    @property
    def _zone(self) -> str:
        return self._records.clock.local_zone()


class ChatService:
    """The chat of one app. A service's silence delays nothing: its calls are made by workers and by the outbox."""

    manner: ClassVar[Manner]
    channels: ClassVar[ChatChannels]
    repeats: ClassVar[bool] = False
    """Whether the service sends again what was not finished."""
    voice: Voice

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        self.app = app
        self.records = records
        self.url = url
        self.dialogue = Dialogue(records, url, self.manner)
        self.cards = Cards(app, records, self.voice, self.dialogue)
        name = self.manner.title
        self._workers = [ThreadPoolExecutor(1, f"matins-{name.lower()}-{number}") for number in range(_WORKERS)]
        self._free = threading.BoundedSemaphore(_MAX_WAITING)
        self._ends: list[Callable[[], None]] = []
        self._kinds = self.kinds()

    # -- what a service adds

    def connect(self, holds: Callable[[], bool]) -> None:
        """Start to receive messages; where only one process can, the one that `holds`."""

    def disconnect(self) -> None:
        """Hear nothing more."""

    def team(self) -> str:
        """The workspace of the bot."""
        raise NotImplementedError

    def recognised(self, heard: Heard) -> Heard | None:
        """What was heard, with its text as people read it; None for what is of no concern."""
        raise NotImplementedError

    def refusal(self, heard: Heard) -> str | None:
        """Why a user who is mapped to a person may do nothing; None when they may."""
        return None

    def whisper(self, heard: Heard, message: ChatMessage) -> None:
        """Answer the author of a message, and only them where the service can."""
        raise NotImplementedError

    def command_in(self, heard: Heard) -> str | None:
        """The command that a message begins with; None for a message that is none."""
        return without_prefix(heard.text)

    def replied_thread(self, heard: Heard) -> str:
        """The thread of the message that it replies to. In a private chat, a draft needs no reply."""
        if heard.thread:
            return self.records.thread_of(heard.channel, heard.thread) or ""
        answers = heard.direct and self.command_in(heard) is None
        person = self.records.person(heard.user) if answers else None
        before = f"{self.records.service}:{self.team()}/{heard.channel}/"
        place = None if person is None else self.records.draft_place(before, person.name)
        return "" if place is None else place.removeprefix(before)

    def route(self, channel: str, thread: str) -> tuple[str, str | None]:
        """The channel in which messages of a thread are posted, and what they reply to."""
        return channel, thread

    def kinds(self) -> Mapping[Kind, Callable[[Heard, ChatPerson], None]]:
        """What answers each kind of thing that is heard."""
        return {"message": self._message, "click": self._click}

    def ask_reason(self, heard: Heard, person: ChatPerson, asked: Approval, digest: str) -> None:
        """Deny a request; where the service has forms, ask why."""
        self.decide(heard, person, asked.id, digest, approve=False)

    def show_all(self, heard: Heard, asked: Approval, digest: str) -> None:
        """Show all of a request that does not fit on a card, and let it be decided there."""
        check_shown(asked, digest)
        parts = request_parts(asked)
        if sum(len(part.text) for part in parts if isinstance(part, (Text, Code))) > _MAX_SHOWN:
            raise too_long(asked, self.manner.title)
        self.voice.post(heard.channel, ChatMessage((Heading(title(asked)), *parts)), heard.ts)
        self.say(heard._replace(thread=heard.ts), decision_card(asked, self.manner))

    # -- accepting

    def start(self, events: Events) -> None:
        name = subscription_of(self.records.service)
        self._ends.append(events.subscribe(self.announce, TYPES, name))
        self._ends.append(events.post_answers(self.records.service, Threads(self)))
        self.connect(lambda: events.holds(name))

    def stop(self) -> None:
        """Stop listening, and finish what was accepted."""
        while self._ends:
            self._ends.pop()()
        self.disconnect()
        for worker in self._workers:
            worker.shutdown()

    def hear(self, heard: Heard) -> Future[ServiceError | None] | None:
        """Take in what was heard, once; None for a repetition. The work follows: its result is why it is to be done
        again."""
        if not self._free.acquire(blocking=False):
            raise InvalidInput("Too many messages wait.", field="chat", hint=f"{self.manner.title} sends it again.")
        if self.records.accept(heard.key, again=self.repeats):
            # One worker for each channel, so that messages of a dialogue are answered in their order.
            worker = self._workers[crc32(heard.channel.encode(errors="replace")) % _WORKERS]
            return worker.submit(self._work, heard)
        self._free.release()
        return None

    def _work(self, heard: Heard) -> ServiceError | None:
        try:
            self._handle(heard)
        except MatinsError as error:
            if self.repeats and isinstance(error, ServiceError) and error.retryable:
                return error
            log.error("%s: a %s was not answered: %s", self.manner.title, heard.kind, error)
        except Exception:
            log.exception("%s: a %s was not answered.", self.manner.title, heard.kind)
        finally:
            self._free.release()
        self.records.finish(heard.key)
        return None

    def _handle(self, heard: Heard) -> None:
        """Answer a message with the rights of its person. Users whom the owner has not added get nothing."""
        found = self.recognised(heard)
        person = None if found is None else self._person(found)
        if found is not None and person is not None:
            try:
                self._kinds[found.kind](found, person)
            except ServiceError:
                raise
            except MatinsError as error:
                self._whisper(found, error_message(error))

    def _person(self, heard: Heard) -> ChatPerson | None:
        """The person behind the user. A stranger learns how to be added, and nothing else."""
        person = self.records.person(heard.user)
        refusal = self.manner.stranger.format(heard.user) if person is None else self.refusal(heard)
        if refusal is None:
            return person
        addressed = heard.kind != "message" or heard.direct or heard.mention is not None
        if addressed or self.command_in(heard) is not None:
            self._whisper(heard, text(refusal))
        return None

    # -- messages

    def _message(self, heard: Heard, person: ChatPerson) -> None:
        """A command, an answer to a question, a trigger, a word to an agent, or nothing that concerns Matins."""
        place = self.place(heard.channel, heard.thread or heard.ts, in_thread=bool(heard.thread))
        said = heard.text if heard.mention is None else heard.mention
        command = self.command_in(heard)
        if (said if command is None else command).strip().lower() == "login":
            self.log_in(heard, person)
            return
        if command is None and self._answer(heard, person, place, said):
            return
        if command is None and heard.mention is not None and is_command(said):
            command = said
        if command is None and self._fire(heard, person, place, said):
            return
        if command is None and self._reply(heard, person, place, said):
            return
        if command is None and (heard.mention is not None or heard.direct):
            command = said
        if command is not None:
            self.say(heard, self.dialogue.command(self.incoming(heard, person, place, command)))

    def _answer(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> bool:
        """Continue the person's draft. False when there is none."""
        answer = self.dialogue.answer(self.incoming(heard, person, place, said))
        if answer is not None:
            self.say(heard, answer)
        return answer is not None

    def _fire(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> bool:
        """Start the schedules that listen to the channel. Whether there was one. Viewers start nothing."""
        if person.principal.role == "viewer" or not self.records.listens(heard.channel):
            return False
        key, body = f"{heard.channel}:{heard.ts}", {"mention": heard.mention is not None, "place": place.id}
        made = Api(InProcess(self.records.caller, self.records.principal)).calls.fire(
            "chat", heard.channel, key, body=body, type="message", text=said, sender=person.name
        )
        return made.outcome == "accepted"

    def _reply(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> bool:
        """Speak to the agent of the thread. Whether there is one."""
        thread = self.records.thread_at(place.id) if heard.thread else None
        if thread is None or not said.strip():
            return False
        key = f"{self.records.service}:{heard.channel}:{heard.ts}"
        Api(InProcess(self.records.caller, person.principal)).threads.reply(thread, said, key=key)
        return True

    # -- clicks

    def _click(self, heard: Heard, person: ChatPerson) -> None:
        of, _, digest = heard.value.rpartition(":")
        if heard.action in (CREATE, CHANGE, DROP):
            self._draft_click(heard, person, of, digest)
        elif heard.action == APPROVE:
            self.decide(heard, person, of, digest, approve=True)
        elif heard.action in (DENY, READ):
            self._card(heard, of)
            asked = Api(InProcess(self.records.caller, person.principal)).approvals.get(of)
            if heard.action == DENY:
                self.ask_reason(heard, person, asked, digest)
            else:
                self.show_all(heard, asked, digest)

    def _draft_click(self, heard: Heard, person: ChatPerson, thread: str, digest: str) -> None:
        place = self.place(heard.channel, thread)
        made = {CREATE: self.dialogue.create, CHANGE: self.dialogue.change}.get(heard.action)
        answer = (
            self.dialogue.drop(place, person, heard.key) if made is None else made(place, person, digest, heard.key)
        )
        private = thread.startswith("command:")
        self.say(heard._replace(thread="" if private else thread), answer, private=private)

    def decide(
        self, heard: Heard, person: ChatPerson, number: str, digest: str, *, approve: bool, note: str | None = None
    ) -> None:
        """Vote for exactly the request that the card showed: a button may hold only the beginning of its digest."""
        shown = self._card(heard, number).digest
        if shown is not None and len(digest) >= MIN_DIGEST and shown.startswith(digest):
            digest = shown
        approvals = Api(InProcess(self.records.caller, person.principal)).approvals

        def vote() -> ChatMessage:
            made = (approvals.approve if approve else approvals.deny)(number, note=note, digest=digest)
            return text(made.state)

        try:
            self.records.once(person.principal, heard.key, vote)
        except Stale:
            self.cards.replace(number, heard.channel, heard.ts)
            raise
        finally:
            self.cards.update(number)
        self.cards.answered(number, heard.channel, heard.ts, person.name)

    def _card(self, heard: Heard, number: str) -> ChatPost:
        """The card. Raises unless Matins posted it about this request, here."""
        for post in self.records.posts(subject_of(number)):
            if (post.channel, post.ts) == (heard.channel, heard.ts):
                return post
        message, hint = (
            "This is not a card that Matins posted here.",
            f"Ask for one: {self.manner.prefix}approve NUMBER",
        )
        raise InvalidInput(message, field="approval", hint=hint)

    # -- saying

    def incoming(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> Incoming:
        return Incoming(heard.key, person, place, said, self.app.agent_in(heard.channel))

    def log_in(self, heard: Heard, person: ChatPerson) -> None:
        """Give a person a link that signs a browser in. No record of the chat keeps it."""
        base = self.url()
        if not heard.direct:
            message = text("Write login to the bot in a private chat: the link signs in the browser that opens it.")
        elif base is None:
            message = text("There is no page here.")
        else:
            path = Api(InProcess(self.records.caller, person.principal)).sessions.create().path
            message = text(f"{base.rstrip('/')}{path}", "It works once, for ten minutes.")
        self.whisper(heard, message)

    def place(self, channel: str, thread: str, *, in_thread: bool = False) -> Place:
        return Place(self.team(), channel, thread, in_thread, self.records.service)

    def clock_of(self, person: ChatPerson) -> drafts.Clock:
        return drafts.Clock(self.records.clock.now_ms(), person.zone)

    def say(self, heard: Heard, message: ChatMessage, *, private: bool = False) -> None:
        if private and not message.subject:
            self._whisper(heard, message)
            return
        thread = heard.thread or (heard.ts if heard.kind == "message" else None)
        ts = self.voice.post(heard.channel, message, thread)
        if message.subject:
            self.records.add_post(message.subject, heard.channel, ts, message.digest)

    def _whisper(self, heard: Heard, message: ChatMessage) -> None:
        if heard.channel:
            self.whisper(heard, message)

    # -- what Matins says by itself

    def announce(self, event: dict[str, Any]) -> None:
        """Called with every event of `TYPES`, at least once. What was said is not said again."""
        kind, data = str(event["type"]).removeprefix(PREFIX), event["data"]
        if kind == "file.applied":
            self._note(event["id"], str(data.get("note", "")), emoji="arrows_counterclockwise")
        elif kind in ("approval.requested", "approval.edited"):
            self.cards.post(data["approval"])
            if "instead_of" in data:
                self.cards.update(data["instead_of"])
        elif kind in _DECIDED:
            self.cards.update(data["approval"])
        elif data.get("reason") == "target_gone":
            skipped = self.records.skipped(int(event["runid"]))
            if skipped is not None:
                # In its channel, or in the admin channel.
                ours = skipped.channel is not None and self.channels.pattern.fullmatch(skipped.channel)
                self._note(f"run:{event['runid']}", skipped.reason, channel=skipped.channel if ours else None)

    def _note(self, subject: str, note: str, *, channel: str | None = None, emoji: str = "") -> None:
        where = channel or self.app.admin
        if where is None or not note or self.records.posts(subject):
            return
        self.records.add_post(subject, where, self.voice.post_note(where, note, emoji=emoji))


class Threads:
    """Posts the answers of runs where their conversations are, as the bot of a chat. The core calls it, and keeps what
    has arrived."""

    keyed = False

    def __init__(self, chat: ChatService) -> None:
        self.title = chat.manner.title
        self._chat = chat

    def parts(self, where: ThreadInChat, answer: Answer) -> list[Part]:
        return parts_of(self._address("" if where.place is None else where.place.channel), answer)

    def post(self, where: ThreadInChat, part: Part, key: str) -> Receipt:
        """Post a part into the thread. The first one begins it, if there is none."""
        assert where.place is not None
        chat, channel = self._chat, where.place.channel
        known = None if where.location is None else Place.of(where.location)
        try:
            team = chat.team()
        except ServiceError as error:
            raise NotDelivered(error.message) from None
        if known is not None and known.team != team:
            raise NotDelivered(f"the thread is in another workspace of {self.title}", retry=False)
        thread = part.first if known is None else known.thread
        try:
            into, first = (channel, thread) if known is None else chat.route(channel, known.thread)
            receipt = send_part(self._address(into), part._replace(first=first), key)
        except ServiceError as error:
            raise NotDelivered(error.message) from None
        except NotDelivered as error:  # that one channel is gone concerns no other
            retry = error.retry and not error.gone
            raise NotDelivered(error.reason, retry=retry, after_ms=error.after_ms, sent=error.sent) from None
        if receipt.id is not None:
            chat.voice.join(channel, thread or receipt.id, receipt.id)
        if where.thread_id is not None and part.first is None and (thread or receipt.id):
            chat.records.set_place(where.thread_id, chat.place(channel, thread or receipt.id or "").id)
        return receipt

    def _address(self, channel: str) -> Address:
        """The channel, as a destination of the bot."""
        app = self._chat.app
        bot = Destination(THREAD, self._chat.records.service, app.url, (channel,), app.token)
        return Address(bot, Smtp(), self._chat.records.clock.now_ms())


def subscription_of(service: str) -> str:
    """The name under which a service gets events."""
    return f"chat:{service}"
