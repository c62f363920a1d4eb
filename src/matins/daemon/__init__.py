"""`matins up`: the scheduler, the configuration file and the HTTP API in one process."""

from __future__ import annotations

from matins.daemon.daemon import Daemon

__all__ = ["Daemon"]
