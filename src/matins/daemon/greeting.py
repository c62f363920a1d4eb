"""What `matins up` prints: where everything is, and what to try."""

from __future__ import annotations

from typing import NamedTuple

from matins._version import __version__
from matins.surfaces.home import Running


class Whereabouts(NamedTuple):
    running: Running
    home: str
    link: str
    """Opens the page of whoever follows it, once."""
    moved: bool
    """Whether the usual port was taken."""
    command: str
    """How `matins` is called so that it finds this daemon."""
    try_: tuple[str, ...]
    """Commands worth trying."""


def greeting(at: Whereabouts) -> str:
    said = at.running
    port = "  (the usual port is taken)" if at.moved else ""
    file = said.file or f"none; {at.home}/matins.yaml is read when it is there"
    tries = "\n".join(f"  {at.command} {words}" for words in at.try_)
    return f"""\
Matins {__version__} is up (process {said.pid}).

  store  {said.store}
  file   {file}
  API    {said.url}{port}
  link   {at.link}  (good once, for ten minutes)
  token  {at.home}/token
  log    here, on stderr

Try, in another terminal:
{tries}
Ctrl-C stops it; what is due meanwhile is recorded when it is up again."""
