"""The user at the other end of a unix socket, by the kernel's word, and the folder of a socket. Standalone processes
import it too."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

_LOCAL_PEERCRED = 1
_SOL_LOCAL = 0
_XUCRED_BYTES = 76


def peer_uid(sock: socket.socket) -> int | None:
    """The user id of the peer; None where the system does not provide it, so that nobody is taken for the owner."""
    try:
        if sys.platform == "linux":
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return struct.unpack("3i", credentials)[1]
        # macOS and the BSDs: struct xucred begins with a version and the user id.
        return struct.unpack_from("2I", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES))[1]
    except (OSError, struct.error):
        return None


def shared_by(folder: Path) -> str | None:
    """Why others may use this folder or have made it, so that a socket in it may be theirs; None when it is ours."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is a link, or not a folder"
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    return "others may use it" if found.st_mode & 0o077 else None
