"""The user at the other end of a unix socket, by the kernel's word. Standalone processes import it too."""

from __future__ import annotations

import socket
import struct
import sys

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
