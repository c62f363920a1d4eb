"""A stand-in for Telegram's Bot API, which `python-telegram-bot`'s own client accepts: updates that stay until a later
offset is asked for, one poller for each bot, its HTML, its limits. It keeps what it is told."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from email import policy
from email.parser import BytesParser
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

TOKEN, BOT, NAME = "123456:secret-1", 123456, "matins_bot"
PATIENCE_S = 30
_TAGS = {"b", "i", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"}
_ME = {
    "id": BOT, "is_bot": True, "first_name": "Matins", "username": NAME, "can_join_groups": True,
    "can_read_all_group_messages": False, "supports_inline_queries": False,
}  # fmt: skip


class Refused(Exception):  # noqa: N818 - it names what happened
    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.parameters = parameters


class Call(NamedTuple):
    method: str
    arguments: dict[str, Any]
    text: str = ""
    """What a reader sees of a message."""
    ts: str = ""

    @property
    def buttons(self) -> dict[str, dict[str, Any]]:
        rows = (self.arguments.get("reply_markup") or {}).get("inline_keyboard", [])
        return {button["text"]: button for row in rows for button in row}


class _Visible(HTMLParser):
    """The text of Telegram's HTML. Raises Refused for what Telegram does not take."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _TAGS:
            raise Refused(400, f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}"')
        if "pre" in self._open or "code" in self._open:
            raise Refused(400, "Bad Request: can't parse entities: nested in code")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise Refused(400, f'Bad Request: can\'t parse entities: Unmatched end tag "{tag}"')

    def handle_data(self, data: str) -> None:
        self.text += data

    def whole(self) -> str:
        self.close()
        if self._open:
            raise Refused(400, f"Bad Request: can't parse entities: Can't find end tag \"{self._open[-1]}\"")
        return self.text


def visible(text: str) -> str:
    if re.search(r"<(?![/a-z])", text) or re.search(r"&(?!(?:lt|gt|amp|quot|#\d+|#x[0-9a-f]+);)", text):
        raise Refused(400, "Bad Request: can't parse entities: a character is not escaped")
    parser = _Visible()
    parser.feed(text)
    return parser.whole()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client may end its connection whenever it likes."""


class Telegram:
    """`url` is the address of the API. `answers` replaces the answer to a method. `cut` ends the connection of a method
    "before" the call is made, or "after" it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.cut: dict[str, str] = {}
        self.updates: list[dict[str, Any]] = []
        self.messages: dict[str, dict[str, Any]] = {}
        """What was posted and not changed since, by chat/id."""
        self.webhook = ""
        self.commands: list[dict[str, str]] = []
        self.polls = 0
        self._poll = 0
        """The number of the latest poll: it ends those before it."""
        self._ids = 100
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.interrupt()
        self._server.shutdown()
        self._server.server_close()

    # -- what users do

    def say(self, text: str, user: int = 81230, chat: int | None = None, *, reply_to: str = "", **more: Any) -> str:
        """Say something to the bot, in private or in a group; the id of the message."""
        with self._changed:
            ts = self._next()
            message = self._message(ts, user, user if chat is None else chat, text)
            if reply_to:
                message["reply_to_message"] = self.messages.get(f"{message['chat']['id']}/{reply_to}") or {
                    **message, "message_id": int(reply_to)
                }  # fmt: skip
            self._add({"message": {**message, **more}})
        return str(ts)

    def click(self, call: Call, label: str, user: int = 81230, **more: Any) -> None:
        data = call.buttons[label]["callback_data"]
        chat = int(call.arguments["chat_id"])
        with self._changed:
            message = self.messages.get(f"{chat}/{call.ts}") or {
                "message_id": int(call.ts),
                "date": 0,
                "chat": _chat(chat),
            }
            query = {"id": str(10**18 + self._next()), "from": _user(user), "message": message,
                     "chat_instance": "1", "data": data}  # fmt: skip
            self._add({"callback_query": {**query, **more}})

    def _add(self, update: dict[str, Any]) -> None:
        self.updates.append({"update_id": 1_000 + self._next(), **update})
        self._changed.notify_all()

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def _message(self, ts: int, user: int, chat: int, text: str) -> dict[str, Any]:
        sender = {"id": BOT, "is_bot": True, "first_name": "Matins"} if user == BOT else _user(user)
        return {"message_id": ts, "date": int(time.time()), "chat": _chat(chat), "from": sender, "text": text}

    # -- what the bot does

    def said(self, method: str = "sendMessage") -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def wait(self, until: Callable[[], Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(until, PATIENCE_S), self.calls

    def interrupt(self) -> None:
        """End the polls that wait, as another poller does."""
        with self._changed:
            self._poll += 1
            self._changed.notify_all()

    def result(self, method: str, given: dict[str, Any]) -> Any:
        if method in self.answers:
            return self.answers[method](given)
        made: Any = getattr(self, re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", f"_{method}"), None)
        if made is None:
            raise Refused(404, "Not Found")
        return made(given)

    def _get_me(self, given: dict[str, Any]) -> Any:
        return _ME

    def _get_updates(self, given: dict[str, Any]) -> Any:
        if self.webhook:
            raise Refused(409, "Conflict: can't use getUpdates method while webhook is active")
        offset, limit = int(given.get("offset") or 0), int(given.get("limit") or 100)
        with self._changed:
            self.polls += 1
            self._poll += 1
            mine = self._poll
            self._changed.notify_all()
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            self._changed.wait_for(lambda: self.updates or self._poll != mine, float(given.get("timeout") or 0))
            if self._poll != mine:
                raise Refused(409, "Conflict: terminated by other getUpdates request; make sure that only one bot "
                                   "instance is running")  # fmt: skip
            return self.updates[:limit]

    def _send_message(self, given: dict[str, Any]) -> Any:
        with self._changed:
            return self._posted(self._next(), given)

    def _edit_message_text(self, given: dict[str, Any]) -> Any:
        key = f"{given['chat_id']}/{given['message_id']}"
        with self._changed:
            if key not in self.messages:
                raise Refused(400, "Bad Request: message to edit not found")
            before = self.messages[key]
            made = self._posted(int(given["message_id"]), given, forget=True)
            if (made["text"], made.get("reply_markup")) == (before["text"], before.get("reply_markup")):
                raise Refused(400, "Bad Request: message is not modified: specified new message content and reply "
                                   "markup are exactly the same")  # fmt: skip
            self.messages[key] = made
        return made

    def _posted(self, ts: int, given: dict[str, Any], *, forget: bool = False) -> dict[str, Any]:
        shown = visible(given["text"]) if given.get("parse_mode") == "HTML" else given["text"]
        if not shown.strip():
            raise Refused(400, "Bad Request: message text is empty")
        if len(shown.encode("utf-16-le")) // 2 > 4_096:
            raise Refused(400, "Bad Request: message is too long")
        for row in (given.get("reply_markup") or {}).get("inline_keyboard", []):
            for button in row:
                if len(button.get("callback_data", "").encode()) > 64:
                    raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")
                if "url" in button and (urlsplit(button["url"]).hostname or "localhost") == "localhost":
                    raise Refused(400, "Bad Request: BUTTON_URL_INVALID")
        message = self._message(ts, BOT, int(given["chat_id"]), shown)
        reply_to = (given.get("reply_parameters") or {}).get("message_id")
        if reply_to:
            message["reply_to_message"] = {**self._message(int(reply_to), BOT, int(given["chat_id"]), "…")}
        if given.get("reply_markup"):
            message["reply_markup"] = given["reply_markup"]
        if not forget:
            self.messages[f"{given['chat_id']}/{ts}"] = message
        return message

    def _send_document(self, given: dict[str, Any]) -> Any:
        with self._changed:
            message = self._message(self._next(), BOT, int(given["chat_id"]), "")
        name, data = given["document"]
        del message["text"]
        file = {"file_id": "F1", "file_unique_id": "U1", "file_name": name, "file_size": len(data)}
        return {**message, "document": file}

    def _answer_callback_query(self, given: dict[str, Any]) -> Any:
        if len(given.get("text") or "") > 200:
            raise Refused(400, "Bad Request: MESSAGE_TOO_LONG")
        return True

    def _set_my_commands(self, given: dict[str, Any]) -> Any:
        for command in given["commands"]:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]) or not 1 <= len(command["description"]) <= 256:
                raise Refused(400, "Bad Request: BOT_COMMAND_INVALID")
        self.commands = given["commands"]
        return True

    def _get_my_commands(self, given: dict[str, Any]) -> Any:
        return self.commands

    def _set_webhook(self, given: dict[str, Any]) -> Any:
        self.webhook = given["url"]
        return True

    def _delete_webhook(self, given: dict[str, Any]) -> Any:
        self.webhook = ""
        return True

    def keep(self, method: str, given: dict[str, Any], result: Any) -> None:
        with self._changed:
            if method != "getUpdates":
                message = result if isinstance(result, dict) else {}
                ts = str(message.get("message_id", ""))
                self.calls.append(Call(method, given, message.get("text", str(given.get("text", ""))), ts))
            self._changed.notify_all()


def _user(user: int) -> dict[str, Any]:
    return {"id": user, "is_bot": False, "first_name": "Ada"}


def _chat(chat: int) -> dict[str, Any]:
    return (
        {"id": chat, "type": "private", "first_name": "Ada"}
        if chat > 0
        else {"id": chat, "type": "supergroup", "title": "G"}
    )


def _handler(telegram: Telegram) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            given = _arguments(self.headers.get("Content-Type", ""), body)
            token, _, method = urlsplit(self.path).path.removeprefix("/bot").partition("/")
            if telegram.cut.get(method) == "before":
                self.close_connection = True
                return
            status, document = self._document(token, method, given)
            if telegram.cut.get(method) == "after":
                self.close_connection = True
                return
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.do_POST()

        def _document(self, token: str, method: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            try:
                if token != TOKEN:
                    raise Refused(401, "Unauthorized")
                result = telegram.result(method, given)
            except Refused as refused:
                parameters = {"parameters": refused.parameters} if refused.parameters else {}
                error = {"ok": False, "error_code": refused.status, "description": str(refused), **parameters}
                return refused.status, error
            telegram.keep(method, given, result)
            return 200, {"ok": True, "result": result}

    return Handler


def _arguments(media: str, body: bytes) -> dict[str, Any]:
    if media.startswith("application/json"):
        return json.loads(body or b"{}")
    if not media.startswith("multipart/"):
        return {name: _value(values[0]) for name, values in parse_qs(body.decode()).items()}
    whole = BytesParser(policy=policy.HTTP).parsebytes(f"Content-Type: {media}\r\n\r\n".encode() + body)
    found: dict[str, Any] = {}
    for part in whole.iter_parts():
        data, name = part.get_payload(decode=True), str(part.get_param("name", header="content-disposition"))
        found[name] = (part.get_filename(), data) if part.get_filename() else _value(data.decode())
    return found


def _value(text: str) -> Any:
    """A field of a form: objects and lists are JSON."""
    try:
        return json.loads(text) if text[:1] in ("{", "[") else text
    except json.JSONDecodeError:
        return text
