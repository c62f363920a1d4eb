"""The systemd unit, and notifications to systemd."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

_COMMON = """\
Restart=on-failure
# The daemon notifies systemd every 20 seconds while it works. A daemon that hangs is restarted and takes over its runs.
WatchdogSec=60
WatchdogSignal=SIGKILL
RestartSec=2
# The daemon gives runs 30 seconds to finish; then it stops them.
TimeoutStopSec=60
# systemd signals only the daemon. Agents have their own supervisors: when the daemon dies, agents continue, and the
# next daemon takes them over. KillMode=mixed or control-group would kill them.
KillMode=process
OOMPolicy=continue
# Agents always run without new privileges.
NoNewPrivileges=yes
"""
_ENVIRONMENT = """\
# Every user can read a unit, and the URL of the store has a password: MATINS_STORE=… is in this private file.
EnvironmentFile={file}
"""
ACCOUNT = "matins"
"""The account of a daemon that belongs to the machine."""
_SYSTEM_ONLY = f"""\
User={ACCOUNT}
StateDirectory=matins
StateDirectoryMode=0700
ProtectSystem=full
ProtectClock=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
"""


def unit_folder(*, system: bool) -> Path:
    """Where units lie: those of the machine, or of the current user."""
    own = os.environ.get("XDG_CONFIG_HOME", "")
    return Path("/etc") / "systemd/system" if system else Path(own or "~/.config").expanduser() / "systemd/user"


def systemd_unit(argv: Sequence[str], folder: Path, mark: str, environment: Path | None, *, system: bool) -> str:
    """A unit for the current user: agents need that user's keys and directories. For the machine, a unit with its own
    user."""
    private = "" if environment is None else _ENVIRONMENT.format(file=str(environment).replace("%", "%%"))
    return f"""\
# {mark}
[Unit]
Description=Matins, a scheduler for AI agents
After=network.target

[Service]
Type=notify
ExecStart={" ".join(_quoted(one.replace("$", "$$")) for one in argv)}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=-{str(folder).replace("%", "%%")}
Environment={_quoted(f"PATH={os.environ.get('PATH', os.defpath)}")}
{private}{_SYSTEM_ONLY if system else ""}{_COMMON}
[Install]
WantedBy={"multi-user.target" if system else "default.target"}
"""


def watchdog_interval_s() -> float | None:
    """The seconds between two notifications of systemd: a third of WatchdogSec; None without a watchdog."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    limit_us = os.environ.get("WATCHDOG_USEC", "")
    return int(limit_us) / 3_000_000 if limit_us.isdigit() and int(limit_us) else None


def notify(state: str) -> None:
    """Notify systemd, if it started this process with Type=notify."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            sock.sendall(state.encode())


def _quoted(argument: str) -> str:
    """The argument, quoted for systemd, which expands percent signs."""
    argument = argument.replace("%", "%%")
    return (
        argument
        if shlex.quote(argument) == argument
        else '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
