"""Short ways to send events to a real server, and to see what came in."""

from __future__ import annotations

from typing import Any

import orjson

from matins.testing import Sandbox
from net.sites import Site


def deliver(bench: Sandbox, milliseconds: int = 0) -> None:
    bench.clock.advance(milliseconds)
    bench.outbox.run_once(bench.clock.now_ms())


def sent(site: Site) -> list[dict[str, Any]]:
    return [orjson.loads(body) for _, _, _, body in site.seen]


def types(site: Site) -> list[str]:
    return [event["type"].removeprefix("matins.") for event in sent(site)]


def answer(site: Site, status: int, path: str = "/in") -> None:
    site.pages[path] = (status, {}, b"")
