"""The systemd unit, and notifications to systemd."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

from matins.surfaces.home import Home, absolute_url, redacted_url

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
# Every user can read a unit, and the URL of the store has a password: set MATINS_STORE=… in this private file.
EnvironmentFile={folder}/environment
"""
_SYSTEM_ONLY = """\
User=matins
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


def systemd_unit(
    store: str | None = None,
    file: str | Path | None = None,
    home: str | Path | None = None,
    *,
    system: bool | None = None,
) -> str:
    """A unit for the current user: agents need that user's keys and directories. For root, a unit with its own user."""
    system = os.geteuid() == 0 if system is None else system
    folder = str(Home(home).path) if home or not system else "/var/lib/matins"
    # -P: otherwise matins.py in the working directory would be the daemon.
    argv = [sys.executable, "-P", "-m", "matins", "--home", folder, "up"]
    secret = store is not None and redacted_url(store) != store
    argv += ["--store", absolute_url(store)] if store and not secret else []
    argv += ["--file", str(Path(file).absolute())] if file else []
    directory = "/etc/systemd/system" if system else "~/.config/systemd/user"
    ctl = "systemctl" if system else "systemctl --user"
    steps = "" if system else "# To run it while you are logged out: loginctl enable-linger\n"
    return f"""\
# {directory}/matins.service
# Then: {ctl} daemon-reload && {ctl} enable --now matins
{steps}
[Unit]
Description=Matins, a scheduler for AI agents
After=network.target

[Service]
Type=notify
ExecStart={" ".join(map(_quoted, argv))}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=-{folder.replace("%", "%%")}
Environment={_quoted(f"PATH={os.environ.get('PATH', os.defpath)}")}
{_ENVIRONMENT.format(folder=folder) if secret else ""}{_SYSTEM_ONLY if system else ""}{_COMMON}
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
    """The argument, quoted for systemd, which expands percent and dollar signs."""
    argument = argument.replace("%", "%%").replace("$", "$$")
    return (
        argument
        if shlex.quote(argument) == argument
        else '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
