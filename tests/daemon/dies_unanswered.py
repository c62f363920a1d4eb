"""A daemon that is killed between the commit of a delivery and its answer."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from matins.app import main
from matins.surfaces.http import inbound


def _killed(received: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


inbound._response = _killed
sys.argv = ["matins", "up", "--port", "0"]
main()
