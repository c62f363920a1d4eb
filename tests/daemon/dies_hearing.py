"""A daemon that is killed while it answers a message in Telegram, at the point that is named."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from matins.app import main
from matins.chat.telegram.chat import TelegramVoice
from matins.chat.use_cases import ChatRecords


def _killed(*arguments: Any, **named: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _then_killed(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: _killed(method(*arguments, **named))


POINTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "heard": (ChatRecords, "accept", lambda method: _killed),
    "accepted": (ChatRecords, "accept", _then_killed),
    "done": (ChatRecords, "once", _then_killed),
    "posted": (TelegramVoice, "send", _then_killed),
    "finished": (ChatRecords, "finish", _then_killed),
}
if __name__ == "__main__":
    owner, name, broken = POINTS[sys.argv[1]]
    setattr(owner, name, broken(getattr(owner, name)))
    sys.argv = ["matins", "up", "--port", "0"]
    main()
