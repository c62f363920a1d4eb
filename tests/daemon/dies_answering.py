"""A daemon that is killed while it answers a request with an Idempotency-Key: before the commit, or after it."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from matins.app import main
from matins.service import idempotency
from matins.surfaces.http.endpoint import Endpoint


def _killed(*arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[1] == "before":
    Endpoint._as_stored = _killed
else:
    once = idempotency.IdempotencyStore.once
    idempotency.IdempotencyStore.once = lambda *arguments: _killed(once(*arguments))
sys.argv = ["matins", "up", "--port", "0"]
main()
