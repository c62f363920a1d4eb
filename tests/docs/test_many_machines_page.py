"""The commands of docs/many-machines.md, as they stand there. Row B18."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sysconfig
from pathlib import Path

import pytest

import postgres_fixtures

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"


def blocks(tag: str) -> list[str]:
    return re.findall(rf"```{tag}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def pasted(script: str, folder: Path) -> str:
    """What a shell and everything that it started have printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_")}
    environment |= {"HOME": str(folder), "MATINS_HOME": str(folder / "home")}
    environment["PATH"] = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    with (folder / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["sh", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            shell.wait(240)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)  # the server, the worker and the daemons of this shell
    return (folder / "log").read_text()


def changed(text: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.mark.long
def test_b18_three_nodes_by_copy_and_paste(postgres_url: str, tmp_path: Path) -> None:
    """B18: why names the nodes; the agent of a node that was killed goes on, and the node follows it when it is back"""
    tried, killed = blocks("sh")
    up = "until [ $(matins --json nodes | tr ',' '\\n' | grep -c '\"live\": *true') = {} ]; do sleep 0.3; done\n"
    started = "until matins --json runs train | grep -q '\"running\"'; do sleep 0.2; done\n"
    tried = changed(tried, {
        "postgresql://matins@127.0.0.1/matins": f"'{postgres_url}'",
        "matins nodes\n": f"{up.format(3)}matins nodes\n",
        "--runner shell": "--runner shell --isolation none",
        "matins node open one\n": f"matins node open one\n{started}",
    })  # fmt: skip
    text = re.sub(r"--port \d+", "--port 0", tried + killed)
    said = pasted(text, tmp_path)
    sentences = " ".join(said.split())
    assert "one is cordoned by owner" in sentences, said
    assert "two and three have no gpu" in sentences or "three and two have no gpu" in sentences, said
    assert "run.adopted train (run 1)" in said, said
    assert "trained by attempt 1" in said, said
    assert "succeeded" in said.partition("trained by attempt 1")[2], said


@pytest.mark.long
def test_b18_the_page_can_be_copied_and_pasted(tmp_path: Path) -> None:
    """B18: server, worker, connection, agent, schedule, daemon, run and doctor"""
    (block,) = blocks("shell")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    lines = block.replace("7233", port).splitlines()
    assert lines.pop(0).startswith("pip install ")
    # The server needs its port, the tests' user may be root, and the daemon must not take the usual port.
    text = changed("\n".join(lines), {
        "start-dev": f"start-dev --ip 127.0.0.1 --port {port} --log-level error",
        "--runner shell": "--runner shell --isolation none",
        "matins up": "matins up --port 0",
    })  # fmt: skip
    up, rest = text.split("matins up --port 0 &\n")
    waits = "until matins status >/dev/null 2>&1 && [ -e home/daemon.json ]; do sleep 0.2; done"
    said = pasted(f"{up}matins up --port 0 & \n{waits}\n{rest}", tmp_path)
    assert "trained in run 1" in said, said
    assert "temporal main: Temporal 1." in said, said
    assert "build-1@" in said, said
