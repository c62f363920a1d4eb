"""The desktop of the machine that runs Matins: notify-send, or osascript."""

from __future__ import annotations

import os
import shutil
import subprocess

from matins.engine.notices import Message
from matins.executors.destinations.protocol import Address, DestinationKind, NotDelivered

_TIMEOUT_S = 10
_MAX_LENGTH = 400
_SCRIPT = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
"""The texts are arguments: they are never read as code."""


def send_to_desktop(address: Address, message: Message) -> None:
    command = _command(message)
    if command is None:
        raise NotDelivered("this machine has neither notify-send nor osascript", retry=False)
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotDelivered(f"{command[0]} did not answer: {error}") from None
    if done.returncode:
        raise NotDelivered(f"{command[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")


def _command(message: Message) -> list[str] | None:
    text = message.text[:_MAX_LENGTH]
    if program := shutil.which("notify-send", path=os.defpath):
        urgency = "critical" if message.level == "bad" else "normal"
        return [program, "--app-name=Matins", f"--urgency={urgency}", "--", message.title, text]
    if program := shutil.which("osascript", path=os.defpath):
        return [program, "-e", _SCRIPT, "--", message.title, text]
    return None


DESKTOP = DestinationKind("desktop", "A notice on the desktop of the machine that runs Matins.", send_to_desktop)
