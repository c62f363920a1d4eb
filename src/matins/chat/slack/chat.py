"""Slack: starts and stops with the daemon, its routes, its announcements.

Slack as a whole: what arrives is accepted at once and answered by workers.

What Matins says in Slack by itself: answers of runs, cards, and notes to the admin channel.

Chat in the daemon: started with its settings, and again when they change.

Messages of a chat service over HTTP: `/chat/slack`. They are acknowledged at once, and answered by workers.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Protocol
from zlib import crc32

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from matins.chat.dialogue import Dialogue, Place
from matins.chat.drafts import Clock
from matins.chat.messages import ChatMessage, Text
from matins.chat.settings import ChatApp
from matins.chat.slack.conversation import Cards, Conversation, draft_errors
from matins.chat.slack.payloads import Heard, heard
from matins.chat.slack.web_api import SocketMode, WebApi
from matins.chat.use_cases import Answer, ChatRecords
from matins.engine.events import PIPELINE_EVENTS, PREFIX
from matins.errors import InvalidInput, MatinsError
from matins.net.inbound import Delivery, verify_slack
from matins.service.calls import DeliveryRefusedError, parse_body
from matins.surfaces.display import without_codes
from matins.surfaces.http.endpoint import headers_of, in_time, read_body
from matins.surfaces.http.parts import DaemonPart, Scheduler
from matins.surfaces.http.problem_json import HttpError, problem
from matins.surfaces.http.router import Route

_DECIDED = (
    "approval.voted", "approval.approved", "approval.denied", "approval.expired", "approval.used", "approval.voided",
)  # fmt: skip
TYPES = (*sorted(PIPELINE_EVENTS), "run.skipped", "approval.requested", "approval.edited", *_DECIDED, "file.applied")
MAX_ANSWER = 3_000
"""Longer answers are files."""
_SHOWN = 500
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{5,}")
"""The ids of channels, direct messages and private channels."""
_RELOADED = "arrows_counterclockwise"


class Announcements:
    """Called with every event of its types, at least once. What was said is not said again."""

    def __init__(self, app: ChatApp, records: ChatRecords, api: WebApi, cards: Cards) -> None:
        self._app = app
        self._records = records
        self._api = api
        self._cards = cards

    def __call__(self, event: dict[str, Any]) -> None:
        kind, data = str(event["type"]).removeprefix(PREFIX), event["data"]
        if kind == "file.applied":
            self._note(event["id"], str(data.get("note", "")), emoji=_RELOADED)
        elif kind in ("approval.requested", "approval.edited"):
            self._cards.post(data["approval"])
            if "instead_of" in data:
                self._cards.update(data["instead_of"])
        elif kind in _DECIDED:
            self._cards.update(data["approval"])
        else:
            self._end(int(event["runid"]), kind, data)

    def _end(self, run_id: int, kind: str, data: dict[str, Any]) -> None:
        if kind == "run.skipped" and data.get("reason") != "target_gone":
            return
        answer = self._records.answer(run_id)
        if answer is None:
            return
        place = self._place(answer)
        if kind == "run.skipped":
            self._skipped(answer)
        elif place is not None:
            self._answer(answer, place)

    def _place(self, answer: Answer) -> Place | None:
        """Where the answer belongs: the place of its thread, or its channel; None when it is not in this workspace."""
        team = self._api.whoami().team
        if answer.place is not None:
            place = Place.of(answer.place)
            return place if place is not None and place.team == team else None
        if answer.channel is None or not _CHANNEL.fullmatch(answer.channel):
            return None
        return Place(team, answer.channel, "")

    def _answer(self, answer: Answer, place: Place) -> None:
        """Post the answer. The first one of a thread begins the thread in Slack."""
        subject, thread = f"run:{answer.run_id}", place.thread
        body = without_codes(answer.text or "").strip()
        if answer.state != "succeeded":
            body = f"✗ {answer.schedule}: {answer.reason}"
        posts = self._records.posts(subject)
        if not posts and body:
            shown = body if len(body) <= MAX_ANSWER else f"{body[:_SHOWN]}…\n(The whole answer is the file below.)"
            ts = self._api.post(place.channel, ChatMessage((Text(shown),)), thread or None)
            self._records.add_post(subject, place.channel, ts)
            thread = thread or ts
        elif posts:
            thread = thread or posts[0].ts
        if answer.thread_id is not None and thread:
            self._records.set_place(answer.thread_id, place._replace(thread=thread).id)
        if len(body) > MAX_ANSWER and thread:
            self._attach(answer, place.channel, thread, body)

    def _attach(self, answer: Answer, channel: str, thread: str, body: str) -> None:
        subject = f"file:{answer.run_id}"
        if not self._records.posts(subject):
            self._api.upload(channel, thread, f"run-{answer.run_id}.txt", body)
            self._records.add_post(subject, channel, thread)

    def _skipped(self, answer: Answer) -> None:
        """One line about a run whose target is gone, in its channel, or in the admin channel."""
        channel = answer.channel if answer.channel and _CHANNEL.fullmatch(answer.channel) else None
        self._note(f"run:{answer.run_id}", answer.reason, channel=channel)

    def _note(self, subject: str, note: str, *, channel: str | None = None, emoji: str = "") -> None:
        where = channel or self._app.admin
        if where is None or not note or self._records.posts(subject):
            return
        self._records.add_post(subject, where, self._api.post_note(where, note, emoji=emoji))


log = logging.getLogger("matins")
SUBSCRIPTION = "chat:slack"
_WORKERS = 4
_MAX_WAITING = 1_000


class Subscribe(Protocol):
    def __call__(
        self, callback: Callable[[dict[str, Any]], Any], types: tuple[str, ...], name: str
    ) -> Callable[[], None]: ...


class SlackChat:
    """The chat of one Slack app. Slack's silence delays nothing: its calls are made by workers and by the outbox."""

    def __init__(self, app: ChatApp, records: ChatRecords, url: Callable[[], str | None]) -> None:
        secrets = records.secrets(app)
        self._secret = secrets.signing_secret
        self._records = records
        self.api = WebApi(secrets.bot_token, app.url, records.clock)
        dialogue = Dialogue(records, url)
        cards = Cards(app, records, self.api, dialogue)
        self._conversation = Conversation(app, records, self.api, dialogue, cards)
        self.announcements = Announcements(app, records, self.api, cards)
        token = secrets.app_token
        self._socket = None if token is None else SocketMode(token, self.api.client, self.accept)
        self._workers = [ThreadPoolExecutor(1, f"matins-slack-{number}") for number in range(_WORKERS)]
        self._free = threading.BoundedSemaphore(_MAX_WAITING)
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self, subscribe: Subscribe) -> None:
        self._unsubscribe = subscribe(self.announcements, TYPES, SUBSCRIPTION)
        if self._socket is not None:
            self._socket.start()

    def stop(self) -> None:
        """Stop listening, and finish what was accepted."""
        self._unsubscribe()
        if self._socket is not None:
            self._socket.stop()
        for worker in self._workers:
            worker.shutdown()

    def is_signed(self, delivery: Delivery) -> bool:
        """Whether Slack sent a request over HTTP, within five minutes."""
        now_s = self._records.clock.now_ms() // 1000
        return self._secret is not None and verify_slack(self._secret, delivery, now_s)

    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take in what Slack sent, once, and return the body of the acknowledgement. The work follows."""
        found = heard(payload)
        if found is None:
            return None
        if wrong := draft_errors(found, self._clock()):
            return {"response_action": "errors", "errors": wrong}
        if not self._free.acquire(blocking=False):
            raise InvalidInput("Too many messages wait.", field="chat", hint="Slack sends it again.")
        if self._records.accept(found.key):
            self._worker(found).submit(self._work, found)
        else:
            self._free.release()
        return None

    def _clock(self) -> Clock:
        return Clock(self._records.clock.now_ms(), self._records.clock.local_zone())

    def _worker(self, found: Heard) -> ThreadPoolExecutor:
        """One worker for each channel, so that messages of a dialogue are answered in their order."""
        return self._workers[crc32(found.channel.encode(errors="replace")) % _WORKERS]

    def _work(self, found: Heard) -> None:
        try:
            self._conversation.handle(found)
        except MatinsError as error:
            log.error("Slack: a %s was not answered: %s", found.kind, error)
        except Exception:
            log.exception("Slack: a %s was not answered.", found.kind)
        finally:
            self._free.release()


PATH = "/chat/slack"
MAX_BYTES = 1 << 20
BODY_TIMEOUT_S = 2.0
"""Slack waits three seconds."""
_JSON = "application/json"


class Chat(Protocol):
    def is_signed(self, delivery: Delivery) -> bool: ...
    def accept(self, payload: Mapping[str, Any]) -> dict[str, Any] | None: ...


class ChatEndpoint:
    """An ASGI application for the requests of Slack. `chat` gives the present chat; None when there is none."""

    def __init__(self, chat: Callable[[], Chat | None], pool: Executor) -> None:
        self._chat = chat
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await in_time(read_body(scope, receive, MAX_BYTES), BODY_TIMEOUT_S)
            delivery = Delivery(headers_of(scope), body)
            response = await asyncio.get_running_loop().run_in_executor(self._pool, self._respond, delivery)
        except HttpError as error:
            response = problem(error, scope["path"])
        await response(scope, receive, send)

    def _respond(self, delivery: Delivery) -> Response:
        chat = self._chat()
        if chat is None:
            raise HttpError(404, "unknown", "There is no chat here.")
        if not chat.is_signed(delivery):
            raise HttpError(401, "unauthorized", "The request is not signed as it should be.")
        try:
            payload = parse_body(delivery)
        except DeliveryRefusedError as refused:
            raise HttpError(400, refused.refusal, str(refused)) from None
        if not isinstance(payload, dict):
            raise HttpError(400, "unreadable", "The body is not an object.")
        return self._acknowledged(chat, payload)  # pyright: ignore[reportUnknownArgumentType]

    def _acknowledged(self, chat: Chat, payload: Mapping[str, Any]) -> Response:
        if payload.get("type") == "url_verification":
            return _json({"challenge": str(payload.get("challenge", ""))[:1_000]})
        try:
            body = chat.accept(payload)
        except MatinsError as error:
            raise HttpError(503, "busy", str(error), headers={"Retry-After": "5"}) from None
        return Response(status_code=200) if body is None else _json(body)


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), 200, media_type=_JSON)


_CHANGES = ("policy.set", "policy.deleted")


class ChatHost(DaemonPart):
    """Holds the chat of the present settings. A chat that cannot start is logged, and stops nothing else."""

    def __init__(self, matins: Scheduler, url: str | None) -> None:
        """`url` is the address of the page, for links."""
        self._matins = matins
        self._url = url
        self._records = ChatRecords(matins, matins.store, matins.clock)
        self._chat: SlackChat | None = None
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] = lambda: None

    def inbound_routes(self, pool: Executor) -> list[Route]:
        return [Route("POST", PATH, ChatEndpoint(self.chat, pool))]

    def start(self) -> None:
        self._restart()
        self._unsubscribe = self._matins.subscribe(self._changed, _CHANGES)

    def stop(self) -> None:
        self._unsubscribe()
        with self._lock:
            self._end()

    def chat(self) -> SlackChat | None:
        return self._chat

    def _changed(self, event: dict[str, Any]) -> None:
        if event["data"].get("kind") == "chat":
            # Not in the thread of the outbox, which the end of a subscription waits for.
            threading.Thread(target=self._restart, name="matins-chat-restart", daemon=True).start()

    def _restart(self) -> None:
        with self._lock:
            self._end()
            app = self._records.app()
            if app is None:
                # A later chat does not say what happened until then.
                self._matins.subscriptions.delete(SUBSCRIPTION)
                return
            try:
                chat = SlackChat(app, self._records, lambda: self._url)
                chat.start(self._matins.subscribe)
                self._chat = chat
            except MatinsError as error:
                log.error("Slack is not connected: %s", f"{error.message} {error.hint or ''}".strip())

    def _end(self) -> None:
        if self._chat is not None:
            self._chat.stop()
            self._chat = None
