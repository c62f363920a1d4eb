"""A stand-in for Discord that the library `discord.py` accepts: its gateway, with sessions that are resumed and
compressed frames, and the part of its REST API that bots use, with its limits. It keeps what it is told."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from aiohttp import WSMsgType, web

TOKEN, BOT, APPLICATION, NAME = "MTA.secret-1.x", "900000000000000001", "900000000000000002", "matins"
GUILD, CHANNEL = "700000000000000001", "710000000000000001"
PATIENCE_S = 30
_CONTENT = 1 << 15
_ME = {"id": BOT, "username": NAME, "discriminator": "0", "avatar": None, "bot": True, "global_name": None}
_SNOWFLAKE = re.compile(r"[0-9]{17,20}")


class Refused(Exception):  # noqa: N818 - it names what happened
    def __init__(self, status: int, message: str, code: int = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.document = {"message": message, "code": code, **more}


class Call(NamedTuple):
    method: str
    path: str
    body: dict[str, Any]
    ts: str = ""
    """The id of the message."""
    channel: str = ""
    private: bool = False

    @property
    def text(self) -> str:
        return str(self.body.get("content", ""))

    @property
    def plain(self) -> str:
        """The text as a reader sees it, but for its marks."""
        return re.sub(r"\\([\\*_~`|<>\[\]@#>+.-])", r"\1", self.text)

    @property
    def buttons(self) -> dict[str, dict[str, Any]]:
        rows = self.body.get("components") or []
        return {button["label"]: button for row in rows for button in row["components"]}


class Discord:
    """`url` is the address of the API. `answers` replaces the answer to a call, by method and the end of its path;
    `cut` ends the connection "before" such a call is made, or "after" it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.cut: dict[str, str] = {}
        self.channels: dict[str, dict[str, Any]] = {CHANNEL: _channel(CHANNEL)}
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        self.commands: list[dict[str, Any]] = []
        self.texts_allowed = True
        """Whether the bot has the intent for the texts of messages."""
        self.sessions = 0
        """How many have begun."""
        self.resumed = 0
        self._interactions: dict[str, dict[str, Any]] = {}
        """By token: what was made of it."""
        self._nonces: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self._ids = 800000000000000000
        self._changed = threading.Condition()
        self._sockets: set[web.WebSocketResponse] = set()
        self._ready: set[web.WebSocketResponse] = set()
        self._packers: dict[web.WebSocketResponse, Any] = {}
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        started.set()
        self._loop.run_forever()

    async def _open(self) -> None:
        app = web.Application(client_max_size=32 << 20)
        for path in ("/gateway", "/gateway/"):
            app.router.add_get(path, self._gateway)
        app.router.add_route("*", "/api/{path:.*}", self._call)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url, self.gateway_url = f"http://127.0.0.1:{port}/api", f"ws://127.0.0.1:{port}/gateway"

    def add_channel(self, number: str) -> None:
        self.channels[number] = _channel(number)

    # -- what users do

    def say(self, text: str, user: str, channel: str = CHANNEL, *, direct: bool = False, **more: Any) -> str:
        """A message of a user, which the bot hears. Returns its id."""
        made = {**self._message(channel, {"content": text}), "author": _user(user), **more}
        if not direct:
            made |= {"guild_id": GUILD, "member": _member(None)}
        self._send("MESSAGE_CREATE", made)
        return str(made["id"])

    def reply(self, text: str, user: str, to: Call, **more: Any) -> str:
        reference = {"message_id": to.ts, "channel_id": to.channel}
        return self.say(text, user, to.channel, type=19, message_reference=reference, **more)

    def open_thread(self, on: str, channel: str = CHANNEL) -> str:
        """A user opens a thread on a message: it has the id of the message."""
        assert (channel, on) in self.messages
        self.channels[on] = _channel(on, type=11, parent_id=channel)
        return on

    def command(self, verb: str, user: str, channel: str = CHANNEL, **given: str) -> str:
        """A slash command, as the client of a user sends it: only what is offered."""
        offered = {one["name"]: one for one in self.commands[0]["options"]}[verb]
        names = {one["name"]: one["required"] for one in offered["options"]}
        assert given.keys() <= names.keys(), (given, names)
        assert all(name in given for name, required in names.items() if required)
        options = [{"name": name, "type": 3, "value": value} for name, value in given.items()]
        data = {
            "id": self._id(),
            "name": "matins",
            "type": 1,
            "options": [{"name": verb, "type": 1, "options": options}],
        }
        return self._interact({"type": 2, "data": data}, user, channel)

    def click(self, call: Call, label: str, user: str, **changed: Any) -> str:
        data = {"custom_id": call.buttons[label]["custom_id"], "component_type": 2}
        message = self.messages[call.channel, call.ts]
        return self._interact({"type": 3, "data": data, "message": message, **changed}, user, call.channel)

    def _interact(self, made: dict[str, Any], user: str, channel: str) -> str:
        number, token = self._id(), f"itoken-{self._ids}"
        direct = channel.startswith("72")
        who = {"user": _user(user)} if direct else {"member": _member(user), "guild_id": GUILD}
        self._interactions[token] = {
            "id": number,
            "channel": channel,
            "private": False,
            "original": None,
            "done": False,
        }
        document = {
            "id": number, "application_id": APPLICATION, "token": token, "version": 1, "channel_id": channel, **who,

            "channel": self.channels.get(channel, {"id": channel, "type": 1}), "locale": "en-GB", "entitlements": [],
            "app_permissions": "0", "attachment_size_limit": 10_485_760,
            "authorizing_integration_owners": {}, "context": 1 if direct else 0, **made,
        }  # fmt: skip
        self._send("INTERACTION_CREATE", document)
        return token

    # -- what a test sees

    def said(self) -> list[Call]:
        """What users see, in its order."""
        return [call for call in self.calls if call.ts]

    def wait(self, done: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(done, PATIENCE_S), self.calls

    def cut_off(self) -> None:
        """End all connections, so that clients resume their sessions."""
        sockets = list(self._sockets)
        closing = [asyncio.run_coroutine_threadsafe(one.close(code=4000), self._loop) for one in sockets]
        for future in closing:
            future.result(PATIENCE_S)

    # -- gateway

    def _send(self, event: str, data: dict[str, Any]) -> None:
        asyncio.run_coroutine_threadsafe(self._dispatch(event, data), self._loop).result(PATIENCE_S)

    async def _dispatch(self, event: str, data: dict[str, Any]) -> None:
        frame = {"op": 0, "t": event, "s": len(self.events) + 1, "d": data}
        self.events.append(frame)
        for socket in list(self._ready):
            await self._write(socket, frame)

    async def _write(self, socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
        packer = self._packers[socket]
        data = json.dumps(frame).encode()
        if socket.closed:
            return
        if packer is None:
            await socket.send_str(data.decode())
        else:
            await socket.send_bytes(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        assert (request.query["v"], request.query["encoding"]) == ("10", "json")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._packers[socket] = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self._sockets.add(socket)
        await self._write(socket, {"op": 10, "d": {"heartbeat_interval": 41_250}, "t": None, "s": None})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._heard(socket, json.loads(message.data))
        finally:
            self._sockets.discard(socket)
            self._ready.discard(socket)
        return socket

    async def _heard(self, socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
        data = frame.get("d")
        if frame["op"] == 1:
            await self._write(socket, {"op": 11, "d": None, "t": None, "s": None})
        elif frame["op"] in (2, 6) and data["token"] != TOKEN:
            await socket.close(code=4004, message=b"Authentication failed.")
        elif frame["op"] == 2:
            if data["intents"] & _CONTENT and not self.texts_allowed:
                await socket.close(code=4014, message=b"Disallowed intent(s).")
                return
            await self._begin(socket)
        elif frame["op"] == 6:
            self._ready.add(socket)
            for event in self.events[data["seq"] :]:
                await self._write(socket, event)
            await self._write(socket, {"op": 0, "t": "RESUMED", "s": len(self.events), "d": {}})
            self.resumed += 1
            self._tell()

    async def _begin(self, socket: web.WebSocketResponse) -> None:
        guild = {"id": GUILD, "unavailable": True}
        self._ready.add(socket)
        for event, data in (
            ("READY", {"v": 10, "user": _ME, "guilds": [guild], "session_id": f"session-{self.sessions}",
                       "resume_gateway_url": self.gateway_url, "application": {"id": APPLICATION, "flags": 0}}),
            ("GUILD_CREATE", {"id": GUILD, "name": "Garden", "channels": [_channel(CHANNEL)], "members": [],
                              "roles": [],
                              "emojis": [], "threads": [], "stickers": [], "member_count": 3, "owner_id": BOT,
                              "voice_states": [], "presences": [], "stage_instances": [], "features": [],
                              "guild_scheduled_events": [], "soundboard_sounds": []}),
        ):  # fmt: skip
            frame = {"op": 0, "t": event, "s": len(self.events) + 1, "d": data}
            self.events.append(frame)
            await self._write(socket, frame)
        self.sessions += 1
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- REST

    async def _call(self, request: web.Request) -> web.Response:
        path, body = f"/{request.match_info['path']}", await _body(request)
        name = f"{request.method} {path}"
        cut = next(
            (
                when
                for end, when in self.cut.items()
                if name.startswith(end.split(" ")[0]) and name.endswith(end.split(" ")[1])
            ),
            None,
        )
        try:
            if cut != "before":
                free = path.startswith(("/interactions/", "/webhooks/"))
                if not free and request.headers.get("authorization") != f"Bot {TOKEN}":
                    raise Refused(401, "401: Unauthorized")
                end = next(
                    (
                        end
                        for end in self.answers
                        if name.startswith(end.split(" ")[0]) and name.endswith(end.split(" ")[1])
                    ),
                    None,
                )
                found = self.answers[end](body) if end else self._answer(request.method, path, body, request.query)
            if cut is not None:
                assert request.transport is not None
                request.transport.abort()
            response = _json(found) if found is not None else web.Response(status=204)
        except Refused as refused:
            after = {"retry-after": str(refused.document["retry_after"])} if refused.status == 429 else {}
            response = _json(refused.document, refused.status, after)
        self._tell()
        return response

    def _answer(self, method: str, path: str, body: dict[str, Any], query: Mapping[str, str]) -> Any:  # noqa: C901 - a route each
        match method, path.strip("/").split("/"):
            case "GET", ["users", "@me"]:
                return _ME
            case "GET", ["gateway"]:
                return {"url": self.gateway_url}
            case "GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]:
                return {"id": APPLICATION, "name": NAME, "description": "", "icon": None, "bot_public": False,
                        "bot_require_code_grant": False, "verify_key": "0", "flags": 0, "owner": _user("1" * 18),
                        "rpc_origins": [], "team": None, "summary": ""}  # fmt: skip
            case (("GET" | "PUT"), ["applications", application, "commands"]) if application == APPLICATION:
                if method == "PUT":
                    self.commands = [_checked_command(one) for one in body["list"]]
                more = {"application_id": APPLICATION, "version": "1", "default_member_permissions": None}
                return [{"id": self._id(), **more, **one} for one in self.commands]
            case "GET", ["channels", channel]:
                return self._known_channel(channel)
            case "POST", ["channels", channel, "messages"]:
                return self._posted(channel, body, path)
            case "PATCH", ["channels", channel, "messages", message]:
                return self._edited(channel, message, body, path)
            case "GET", ["channels", channel, "messages", message]:
                return self._known_message(channel, message)
            case "POST", ["channels", channel, "messages", message, "threads"]:
                self._known_message(channel, message)
                if message in self.channels:
                    raise Refused(400, "A thread has already been created for this message", 160004)
                self.channels[message] = _channel(message, type=11, parent_id=channel, name=body["name"])
                return self.channels[message]
            case "POST", ["interactions", number, token, "callback"]:
                return self._acknowledged(number, token, body, query)
            case "PATCH", ["webhooks", application, token, "messages", "@original"] if application == APPLICATION:
                known = self._interaction(token)
                if known["original"] is None:
                    raise Refused(404, "Unknown Webhook", 10015)
                return self._edited(known["channel"], known["original"], body, path, private=known["private"])
            case "POST", ["webhooks", application, token] if application == APPLICATION:
                known = self._interaction(token)
                if not known["done"]:
                    raise Refused(404, "Unknown Webhook", 10015)
                return self._posted(known["channel"], body, path)
            case _:
                raise Refused(404, "404: Not Found")

    def _interaction(self, token: str) -> dict[str, Any]:
        if token not in self._interactions:
            raise Refused(401, "Invalid Webhook Token", 50027)
        return self._interactions[token]

    def _acknowledged(self, number: str, token: str, body: dict[str, Any], query: Mapping[str, str]) -> Any:
        known = self._interactions.get(token)
        if known is None or known["id"] != number:
            raise Refused(404, "Unknown interaction", 10062)
        if known["done"]:
            raise Refused(400, "Interaction has already been acknowledged.", 40060)
        known["done"] = True
        known["private"] = bool((body.get("data") or {}).get("flags", 0) & 64)
        resource: dict[str, Any] = {"type": body["type"]}
        if body["type"] == 5:
            made = self._message(known["channel"], {"content": ""})
            known["original"] = made["id"]
        elif body["type"] != 6:
            raise Refused(400, "Invalid Form Body", 50035)
        if query.get("with_response", "").lower() not in ("true", "1"):
            return None
        return {
            "interaction": {
                "id": number,
                "type": 2,
                "activity_instance_id": None,
                "response_message_id": known["original"],
            },
            "resource": resource,
        }

    def _posted(self, channel: str, body: dict[str, Any], path: str) -> dict[str, Any]:
        if not path.startswith("/webhooks"):
            self._known_channel(channel)
        _check_message(body)
        nonce = str(body.get("nonce", ""))
        if body.get("enforce_nonce") and nonce in self._nonces:
            return self._nonces[nonce]
        reference = body.get("message_reference")
        if (
            reference
            and (channel, str(reference["message_id"])) not in self.messages
            and reference.get("fail_if_not_exists", True)
        ):
            raise Refused(400, "Invalid Form Body", 50035)
        made = self._message(channel, body)
        if nonce:
            self._nonces[nonce] = made
        private = bool(body.get("flags", 0) & 64)
        self.calls.append(Call("POST", path, body, str(made["id"]), channel, private))
        return made

    def _edited(
        self, channel: str, message: str, body: dict[str, Any], path: str, *, private: bool = False
    ) -> dict[str, Any]:
        known = self._known_message(channel, message)
        _check_message(body)
        known |= {name: body[name] for name in ("content", "components") if name in body}
        self.calls.append(Call("PATCH", path, body, message, channel, private))
        return known

    def _message(self, channel: str, body: dict[str, Any]) -> dict[str, Any]:
        files = [
            {
                "id": self._id(),
                "filename": name,
                "size": len(data),
                "url": "https://cdn/x",
                "proxy_url": "https://cdn/x",
            }
            for name, data in body.get("files", {}).items()
        ]
        made = {
            "id": self._id(), "channel_id": channel, "author": _ME, "content": body.get("content", ""), "type": 0,
            "timestamp": "2026-03-27T08:00:00+00:00", "edited_timestamp": None, "tts": False, "pinned": False,
            "mention_everyone": False, "mentions": [], "mention_roles": [], "attachments": files,
            "embeds": body.get("embeds", []), "components": body.get("components", []), "flags": body.get("flags", 0),
        }  # fmt: skip
        self.messages[channel, str(made["id"])] = made
        return made

    def _known_channel(self, channel: str) -> dict[str, Any]:
        if channel not in self.channels and not channel.startswith("72"):
            raise Refused(404, "Unknown Channel", 10003)
        return self.channels.get(channel, {"id": channel, "type": 1, "recipients": [_user("1" * 18)]})

    def _known_message(self, channel: str, message: str) -> dict[str, Any]:
        if (channel, message) not in self.messages:
            raise Refused(404, "Unknown Message", 10008)
        return self.messages[channel, message]

    def _id(self) -> str:
        self._ids += 1
        return str(self._ids)


def _json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """As Discord answers: the client reads nothing else than exactly this type."""
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


async def _body(request: web.Request) -> dict[str, Any]:
    if request.content_type.startswith("multipart/"):
        form = await request.post()
        files = {part.filename: part.file.read() for part in form.values() if isinstance(part, web.FileField)}
        return {**json.loads(str(form["payload_json"])), "files": files}
    given = await request.json() if request.can_read_body else {}
    return given if isinstance(given, dict) else {"list": given}


def _check_message(body: dict[str, Any]) -> None:
    """Raise what Discord answers to a message that it does not take."""
    if len(body.get("content") or "") > 2_000:
        raise Refused(400, "Invalid Form Body: Must be 2000 or fewer in length.", 50035)
    if not (body.get("content") or body.get("embeds") or body.get("files")):
        raise Refused(400, "Cannot send an empty message", 50006)
    for row in body.get("components") or []:
        if row["type"] != 1 or not 1 <= len(row["components"]) <= 5:
            raise Refused(400, "Invalid Form Body: components", 50035)
        for button in row["components"]:
            link = button["style"] == 5
            fine = button["type"] == 2 and 1 <= len(button["label"]) <= 80 and ("url" in button) == link
            if not fine or len(button.get("custom_id", "x")) > 100 or ("custom_id" in button) == link:
                raise Refused(400, "Invalid Form Body: button", 50035)
            if link and not re.match(r"https?://[\w-]+(\.[\w-]+)+", button["url"]):
                raise Refused(400, "Not a well formed URL.", 50035)
    ids = [button.get("custom_id") for row in body.get("components") or [] for button in row["components"]]
    if len({one for one in ids if one}) < len([one for one in ids if one]):
        raise Refused(400, "Component custom id cannot be duplicated", 50035)


def _checked_command(command: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    options = command.get("options", [])
    required = [one.get("required", False) for one in options]
    fine = re.fullmatch(r"[-_a-z0-9]{1,32}", command["name"]) and 1 <= len(command["description"]) <= 100
    if not fine or len(options) > 25 or depth > 2 or required != sorted(required, reverse=True):
        raise Refused(400, f"Invalid Form Body: {command['name']}", 50035)
    if len({one["name"] for one in options}) < len(options):
        raise Refused(400, "Application command option names must be unique", 50035)
    for one in options:
        _checked_command(one, depth + 1)
    return command


def _channel(number: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": number, "type": 0, "guild_id": GUILD, "name": "general", "position": 0, "parent_id": None,
        "permission_overwrites": [], "topic": None, "nsfw": False, "last_message_id": None,
    }  # fmt: skip
    if more.get("type") == 11:
        made |= {
            "owner_id": BOT,
            "message_count": 0,
            "member_count": 1,
            "rate_limit_per_user": 0,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 1440,
                "archive_timestamp": "2026-03-27T08:00:00+00:00",
                "locked": False,
            },
        }
    return {**made, **more}


def _user(number: str) -> dict[str, Any]:
    return {"id": number, "username": f"user{number[-2:]}", "discriminator": "0", "avatar": None, "global_name": None}


def _member(user: str | None) -> dict[str, Any]:
    made = {"roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0,
            "permissions": "0", "avatar": None, "nick": None}  # fmt: skip
    return made if user is None else {**made, "user": _user(user)}
