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
    isolation: str
    """Whether agents are isolated."""
    try_: tuple[str, ...]
    """Commands to try."""


def banner_text(at: Banner) -> str:
    daemon = at.running
    port = "  (the default port is in use)" if at.moved else ""
    file = daemon.file or f"none; create {at.home}/matins.yaml to use one"
    inbound = f"\n  in     {daemon.inbound}/in/NAME" if daemon.inbound else ""
    link = f"{at.link}  (works once, for 10 minutes)" if at.link else "printed on a terminal only; use the token"
    tries = "\n".join(f"  {at.command} {arguments}" for arguments in at.try_)
    return f"""\
Matins {__version__} is running (process {daemon.pid}).

  store  {daemon.store}
  file   {file}
  API    {daemon.url}{port}{inbound}
  link   {link}
  token  {at.home}/token
  agents {at.isolation}
  log    stderr

Try in another terminal:
{tries}
Ctrl-C stops it. Slots missed meanwhile are recorded at the next start."""
