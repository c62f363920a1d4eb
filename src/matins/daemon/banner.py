"""The text that `matins up` prints: addresses, and commands to try."""

from __future__ import annotations

from typing import NamedTuple

from matins._version import __version__
from matins.surfaces.home import RunningDaemon


class Banner(NamedTuple):
    running: RunningDaemon
    home: str
    link: str | None
    """Link that logs a browser in, once. None where it would be kept in a log."""
    moved: bool
    """Whether the default port is in use."""
    command: str
    """The command that reaches this daemon."""
    agents: str | None
    """How agents run; None if they are isolated, as they should be."""
    next_step: str
    """A command to try."""


def banner_text(at: Banner) -> str:
    daemon = at.running
    port = "  (the default port is in use)" if at.moved else ""
    rows = [
        ("home", at.home),
        ("store", "" if daemon.store == f"sqlite:///{at.home}/matins.db" else daemon.store),
        ("file", "" if daemon.file in (None, f"{at.home}/matins.yaml") else daemon.file),
        ("API", f"{daemon.url}{port}"),
        ("in", f"{daemon.inbound}/in/NAME" if daemon.inbound else ""),
        ("link", f"{at.link}  (works once, for 10 minutes)" if at.link else "printed on a terminal only: matins login"),
        ("agents", at.agents or ""),
    ]
    lines = "\n".join(f"  {name:6} {text}" for name, text in rows if text)
    return f"""\
Matins {__version__} is running (process {daemon.pid}).

{lines}

Ctrl-C stops it. Next, in another terminal:
  {at.command} {at.next_step}"""
