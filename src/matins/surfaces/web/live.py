"""`GET /ui/stream`: the names of what changed, gathered for a moment. Pages fetch themselves again.

One way of rendering is enough, and nobody's text is in the stream."""

from __future__ import annotations

import orjson
from starlette.types import Receive, Scope, Send

from matins.surfaces.http.stream import EventFrame, Manner, Stream

_GATHER_S = 0.25
_HEARTBEAT_S = 4.0
"""A page says that it is not live after ten seconds of silence."""
_PING = b"event: ping\ndata:\n\n"
_GROUPS = {"approval": "approvals", "mission": "missions", "incident": "incidents", "throttle": "now"}


class LiveNames:
    """An ASGI application: the stream of events, reduced to names."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._stream.serve(scope, receive, send, Manner(names_text, _HEARTBEAT_S, _GATHER_S))


def names_text(frames: list[EventFrame]) -> bytes:
    """The names that the events concern, as one message."""
    if not frames:
        return _PING
    names = sorted({name for frame in frames for name in _names(frame)})
    return b"id: %d\ndata: %b\n\n" % (frames[-1].number, orjson.dumps(names))


def _names(frame: EventFrame) -> set[str]:
    group = frame.type.partition(".")[0]
    names = {"now", _GROUPS.get(group, f"{group}s")}
    if frame.schedule_id is not None:
        names.add(f"schedule-{frame.schedule_id}")
    if frame.run_id is not None:
        names.add(f"run-{frame.run_id}")
    return names
