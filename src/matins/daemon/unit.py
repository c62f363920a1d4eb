"""A unit for systemd, and what systemd is told."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

from matins.surfaces.home import Home, shown, whole

_OF_ALL = """\
Restart=on-failure
RestartSec=2
# Runs that are under way get half a minute; then the daemon ends them itself.
TimeoutStopSec=60
# Only the daemon is signalled. Agents have keepers of their own: when the daemon dies, they go on, and the one that
# systemd starts next takes them up. KillMode=mixed or control-group would kill them with it.
KillMode=process
OOMPolicy=continue
# Agents run without new privileges in any case.
NoNewPrivileges=yes
"""
_ENVIRONMENT = """\
# A unit is for all to read. The store has a password: MATINS_STORE=… stands in this file, which is yours alone.
EnvironmentFile={folder}/environment
"""
_OF_SYSTEM = """\
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
    """For the user who asks: agents need that user's keys and folders. For root, a unit with a user of its own."""
    system = os.geteuid() == 0 if system is None else system
    folder = str(Home(home).path) if home or not system else "/var/lib/matins"
    words = [sys.executable, "-m", "matins", "--home", folder, "up"]
    secret = store is not None and shown(store) != store
    words += ["--store", whole(store)] if store and not secret else []
    words += ["--file", str(Path(file).absolute())] if file else []
    place = "/etc/systemd/system" if system else "~/.config/systemd/user"
    ctl = "systemctl" if system else "systemctl --user"
    steps = "" if system else "# and so that it runs while you are not logged in: loginctl enable-linger\n"
    return f"""\
# {place}/matins.service
# then: {ctl} daemon-reload && {ctl} enable --now matins
{steps}
[Unit]
Description=Matins wakes AI agents on time
After=network.target

[Service]
Type=notify
ExecStart={" ".join(map(_quoted, words))}
ExecReload=/bin/kill -HUP $MAINPID
Environment={_quoted(f"PATH={os.environ.get('PATH', os.defpath)}")}
{_ENVIRONMENT.format(folder=folder) if secret else ""}{_OF_SYSTEM if system else ""}{_OF_ALL}
[Install]
WantedBy={"multi-user.target" if system else "default.target"}
"""


def notify(state: str) -> None:
    """Tell systemd, where it has started us and wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            link.sendall(state.encode())


def _quoted(word: str) -> str:
    """As systemd reads words: percent and dollar signs are its own."""
    word = word.replace("%", "%%").replace("$", "$$")
    return word if shlex.quote(word) == word else '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
