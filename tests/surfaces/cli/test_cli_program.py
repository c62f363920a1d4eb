"""`matins` as a program: what it loads, signals, pipes, terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from house import read_terminal
from matins import Matins

PROGRAM = [sys.executable, "-m", "matins"]
LOADED = """
import sys
from matins.app import App
from matins.surfaces.cli import cli
try:
    cli(sys.argv[1:], obj=App())
finally:
    parts = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("matins.")}
    heavy = {"apsw", "fastapi", "uvicorn", "ruamel", "msgspec"}.intersection(sys.modules)
    print("LOADED", *sorted(parts | heavy), file=sys.stderr)
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_") and name != "COLUMNS"}
    return {**kept, "MATINS_HOME": str(home), **more}


def loaded(home: Path, *words: str) -> tuple[str, set[str]]:
    result = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=60, env=environment(home)
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, set(result.stderr.split("LOADED", 1)[1].split())


@pytest.fixture
def daemon() -> Iterator[str]:
    """Something that answers as the daemon does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"items": [], "next": None}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


LIGHT = {"matins._version", "matins.api", "matins.app", "matins.errors", "matins.model", "matins.surfaces"}


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """C13: the 120 ms of `matins --help` are kept by what it does not import"""
    for words in (["--help"], ["add", "--help"], ["call", "--help"], ["events", "--help"]):
        assert loaded(tmp_path, *words)[1] <= LIGHT, words


@pytest.mark.parametrize("noun", ["agents", "budgets", "webhooks", "throttles", "work-sources"])
def test_help_of_records_loads_no_engine(tmp_path: Path, noun: str) -> None:
    """C13: neither what plans and runs, nor a store"""
    loads = loaded(tmp_path, noun, "set", "--help")[1]
    assert loads.isdisjoint(["matins.runtime", "matins.service", "matins.store", "matins.executors", "apsw", "msgspec"])


def test_list_with_a_daemon_loads_nothing_heavy(tmp_path: Path, daemon: str) -> None:
    """C13: neither engine nor service nor a database, and so 250 ms are enough"""
    text, modules = loaded(tmp_path, "list", "--url", daemon, "--token", "t")
    assert text.startswith(f"No schedules (looked in the daemon at {daemon}). Add one: ")
    assert modules <= LIGHT


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/matins.db"
    matins = Matins(url)
    matins.job("work")(lambda run: None)
    matins.add_many(
        [{"name": f"schedule-{n}", "when": "every weekday at 9am and 5:30pm", "job": "work"} for n in range(900)]
    )
    matins.close()
    return url


def test_a_reader_that_goes_away(tmp_path: Path, store: str) -> None:
    """Quiet, as `head` likes it"""
    words = [*PROGRAM, "list", "--limit", "1000", "--store", store]
    listing = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    assert listing.stdout.readline().startswith("NAME")
    listing.stdout.close()
    assert listing.stderr.read() == ""
    listing.stderr.close()
    assert listing.wait(90) in (0, 1)


def on_a_terminal(columns: int, words: list[str], env: dict[str, str]) -> list[str]:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    program = subprocess.Popen([*PROGRAM, *words], stdout=follower, stderr=follower, env=env)
    os.close(follower)
    text = read_terminal(leader)
    assert program.wait(90) == 0
    return text.replace("\r", "").splitlines()


def test_a_real_terminal(tmp_path: Path, store: str) -> None:
    """B12: its width, and colours where they are wanted"""
    words = ["list", "--limit", "3", "--store", store]
    plain = on_a_terminal(60, words, environment(tmp_path, NO_COLOR="1", TERM="xterm"))
    assert plain[1].startswith("schedule-0")
    assert max(map(len, plain)) == 60
    coloured = on_a_terminal(60, words, environment(tmp_path, TERM="xterm"))
    assert coloured[0].startswith("\x1b[1mNAME")


def test_a_terminal_that_knows_no_such_letters(tmp_path: Path) -> None:
    """It shows another one, and does not fail"""
    env = environment(tmp_path, PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    result = subprocess.run([*PROGRAM, "stats"], capture_output=True, text=True, timeout=60, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert "? not running: matins up" in result.stdout


def test_a_look_makes_nothing(tmp_path: Path) -> None:
    """Neither a store nor a folder"""
    home = tmp_path / "home"
    for words in (["list"], ["next"], ["next", "5m"], ["stats"], ["agents"]):
        result = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=60, env=environment(home))
        assert (result.returncode, result.stderr) == (0, ""), words
    assert not home.exists()


def test_the_first_schedule_of_a_new_user(tmp_path: Path) -> None:
    """B10: nothing is set up before; others cannot look into it"""
    home = tmp_path / "home"
    words = ["add", "every weekday at 9am", "--agent", "demo", "Summarise my open PRs"]
    result = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=60, env=environment(home))
    assert result.returncode == 0, result.stderr
    assert result.stderr.endswith("No engine is running. Start the daemon: matins up\n")
    assert (home.stat().st_mode & 0o777, (home / "matins.db").stat().st_mode & 0o777) == (0o700, 0o600)
    again = subprocess.run(
        [*PROGRAM, "list", "--json"], capture_output=True, text=True, timeout=60, env=environment(home)
    )
    assert again.returncode == 0, again.stderr
    assert [item["name"] for item in json.loads(again.stdout)] == ["summarise-my-open-prs"]
