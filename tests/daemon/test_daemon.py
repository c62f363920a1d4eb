"""`matins up` as a process: what it makes, how it is found, how it ends, and what is left when it is killed."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from house import House, environment
from matins.daemon import daemon
from matins.errors import MatinsError
from matins.surfaces.home import Home

Start = Callable[..., House]


def add(one: House) -> None:
    one.ask("agents.set", name="demo", runner="demo")
    one.ask("schedules.add", name="day", when="every 1 day", agent="demo", prompt="Say what day it is.")


def test_it_says_where_everything_is(shared: House) -> None:
    said = "\n".join(shared.said)
    assert re.match(rf"Matins \S+ is running \(process {shared.process.pid}\)", said)
    assert str(shared.home) in said
    assert shared.url in said
    assert re.search(rf"--home {shared.home} (add|list)\b.*$", said), said  # whole: the other terminal is elsewhere
    assert len(shared.said) <= 10


def test_b16_the_login_link_is_printed_on_a_terminal_only(shared: House, tmp_path: Path) -> None:
    """B16: a log is read by more programs than the owner's terminal"""
    assert "/login?code=" not in "\n".join([*shared.said, *shared.log])
    assert any("printed on a terminal only" in line for line in shared.said)
    ours, theirs = pty.openpty()
    environment = {**shared.environment, "MATINS_HOME": str(tmp_path / "home"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "matins", "up", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        os.close(theirs)
        said = b""
        while b"Ctrl-C stops it" not in said:
            said += os.read(ours, 4_096)
        process.terminate()
    os.close(ours)
    (link,) = re.findall(rb"http://\S+/login\?code=\S+", said)
    assert link


def test_nothing_that_it_makes_can_be_read_by_others(house: Start) -> None:
    """Also under a generous umask: folders 0700, files and sockets 0600, and agents keep the user's own umask."""
    before = os.umask(0o000)
    try:
        one = house().up()
        one.shell("touch", "umask; touch made")
        run = one.ask("schedules.run", name="touch")
        assert one.logged("run.succeeded touch")
        assert one.ask("runs.output", run_id=run["id"])["text"].strip() == "0000"
        one.ask("system.backup", path=str(one.home / "copy.db"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(one.home.stat().st_mode) == 0o700
    found = {path.name: path for path in one.home.rglob("*") if path.name != "made"}
    assert {"matins.db", "matins.db-wal", "daemon.json", "token", "copy.db", "matins.db.sock"} <= set(found)
    for path in found.values():
        mode = path.lstat().st_mode
        behind = (
            stat.S_ISSOCK(mode) and path.parent.name == "matins.db.runs"
        )  # in a closed folder; and it asks who knocks
        assert behind or stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def test_commands_find_it_and_when_it_is_gone_open_the_store(house: Start) -> None:
    one = house().up()
    add(one)
    assert [schedule["name"] for schedule in one.json("list")] == ["day"]
    assert one.json("stats")["running"] is True
    assert one.stop() == 0
    assert not (one.home / "daemon.json").exists()
    assert [schedule["name"] for schedule in one.json("list")] == ["day"]
    assert one.json("stats")["running"] is False
    one.matins("pause", "day")
    assert one.json("show", "day")["state"] == "paused"


def test_it_ends_cleanly(house: Start) -> None:
    one = house().up()
    one.signal(signal.SIGINT)
    assert one.ended() == 0
    assert {path.name for path in one.home.iterdir()} == {
        "matins.db",
        "matins.db.lock",
        "matins.db.runs",
        "token",
    }
    assert not any("Traceback" in line for line in one.log)


def test_killed_it_leaves_nothing_that_is_in_the_way(house: Start) -> None:
    """SIGKILL: commands see that it is gone, and the next start goes on with schedules, token and history."""
    one = house().up()
    add(one)
    token = (one.home / "token").read_text()
    one.kill()
    assert (one.home / "daemon.json").read_text() != ""
    assert [schedule["name"] for schedule in one.json("list")] == ["day"]
    two = house().up()
    assert two.ask("schedules.get", name="day")["state"] == "active"
    assert (two.home / "token").read_text() == token
    assert json.loads((two.home / "daemon.json").read_text())["pid"] == two.process.pid
    assert two.ask("audit.verify")["problems"] == []


def agent_that_waits(one: House) -> Path:
    """In a folder of its own: behind walls it sees nothing else of ours. What is returned lets it go on."""
    workdir = one.home.parent / "work"
    workdir.mkdir()
    os.mkfifo(workdir / "go")
    one.shell("wait", "echo begun; read go < go; echo done", workdir=str(workdir))
    return workdir / "go"


def test_an_agent_that_runs_when_it_is_killed_is_taken_up(house: Start) -> None:
    """B9: the run goes on, and the next daemon hears how it ended."""
    one = house().up()
    fifo = agent_that_waits(one)
    run = one.ask("schedules.run", name="wait")
    assert one.logged("run.started wait")
    one.kill()
    two = house().up()
    assert two.ask("runs.get", run_id=run["id"])["live"]
    fifo.write_text("go\n")
    assert two.logged("run.succeeded wait")
    assert two.ask("runs.output", run_id=run["id"])["text"].split() == ["begun", "done"]


def test_a_second_signal_ends_it_at_once(house: Start) -> None:
    """What runs is left to the next start."""
    one = house().up()
    fifo = agent_that_waits(one)
    one.ask("schedules.run", name="wait")
    assert one.logged("run.started wait")
    one.signal(signal.SIGTERM)
    assert one.logged("Stopping")
    one.signal(signal.SIGTERM)
    assert one.ended() == 128 + signal.SIGTERM
    two = house().up()
    fifo.write_text("go\n")
    assert two.logged("run.succeeded wait")


def test_two_on_one_store(house: Start) -> None:
    """The second says who is there and what to do, and harms nothing; also from another home."""
    one = house().up()
    for home in ("home", "other"):
        two = house("--store", f"sqlite:///{one.home}/matins.db", home=home)
        assert two.ended() == 1
        told = "\n".join(two.log)
        assert str(one.process.pid) in told
        assert "kill" in told
        assert "Traceback" not in told
    assert one.ask("system.stats")["running"] is True
    assert json.loads((one.home / "daemon.json").read_text())["pid"] == one.process.pid


def test_a_port_that_is_taken(house: Start) -> None:
    """Asked for: an error that says so. Not asked for: another one, and it says that too."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = house("--port", port)
        assert refused.ended() == 2
        assert f"Matins cannot listen on 127.0.0.1:{port}" in "\n".join(refused.log)
        assert {path.name for path in refused.home.iterdir()} == {"matins.db", "matins.db.lock"}


def test_the_usual_port_or_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual one of this test, which nobody else on the machine lets go meanwhile."""
    with daemon.bind_address("127.0.0.1", 0) as taken:
        monkeypatch.setattr(daemon, "PORT", taken.getsockname()[1])
        with daemon.bind_address("127.0.0.1", None) as other:
            assert other.getsockname()[1] not in (0, daemon.PORT)


def get(url: str, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=90) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def test_the_api_wants_the_token(shared: House) -> None:
    token = (shared.home / "token").read_text().strip()
    assert get(f"{shared.url}/v1/stats")[0] == 401
    assert get(f"{shared.url}/v1/stats", Authorization=f"Bearer {token}")[0] == 200
    assert get(f"{shared.url}/v1/stats", Authorization=f"Bearer {token}", Host="evil")[0] == 421
    assert get(f"{shared.url}/readyz")[0] == 200


def test_a_token_can_be_made_used_and_revoked(shared: House) -> None:
    made = shared.ask("tokens.create", name="reader", role="viewer")
    reader = {"Authorization": f"Bearer {made['token']}"}
    assert get(f"{shared.url}/v1/whoami", **reader)[1]["role"] == "viewer"
    assert get(f"{shared.url}/v1/tokens", **reader)[0] == 403
    assert shared.ask("tokens.revoke", token_id=made["id"]) is True
    assert get(f"{shared.url}/v1/whoami", **reader)[0] == 401


def test_no_token_is_in_any_file_or_line(house: Start) -> None:
    """B7: made, used and backed up, its secret is nowhere but where it was shown."""
    one = house().up()
    secret = one.json("tokens", "create", "laptop")["token"].rpartition("_")[2]
    assert secret not in str(one.ask("tokens.list")) + str(one.ask("events.list"))
    one.ask("system.backup", path=str(one.home / "copy.db"))
    assert one.stop() == 0
    assert secret not in "\n".join(one.log + one.said)
    for path in (path for path in one.home.rglob("*") if path.is_file()):
        assert secret.encode() not in path.read_bytes(), path


def test_whoever_takes_its_port_is_not_sent_the_token(tmp_path: Path) -> None:
    """A daemon that was killed leaves its address behind; who listens there now is somebody else."""
    home = Home(tmp_path)
    home.lock()
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        said = {"url": f"http://127.0.0.1:{thief.getsockname()[1]}", "pid": os.getpid(), "started_at": "", "file": None}
        (tmp_path / "daemon.json").write_text(json.dumps({**said, "store": home.store}))
        assert home.running() is not None
        home.withdraw()
        assert home.running() is None
        (tmp_path / "daemon.json").write_text(json.dumps({**said, "store": home.store}))
        os.close(home._lock_fd or 0)
        assert Home(tmp_path).running() is None


def test_what_it_tells_to_programs(house: Start, tmp_path: Path) -> None:
    """B14: systemd hears when it is up and when it stops, a URL outside is called while all is well, and each line of
    its log is a document."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, socket.socket() as outside:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(90)
        outside.bind(("127.0.0.1", 0))
        outside.listen()
        outside.settimeout(90)
        ping = f"http://127.0.0.1:{outside.getsockname()[1]}/ping"
        one = house("--log", "json", NOTIFY_SOCKET=str(tmp_path / "notify"), MATINS_HEARTBEAT_URL=ping)
        assert systemd.recv(100) == b"READY=1"
        caller, _ = outside.accept()
        with caller:
            assert caller.recv(1000).startswith(b"GET /ping ")
            caller.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        add(one.up())
        assert one.logged("schedule.created")
        one.signal(signal.SIGTERM)
        assert systemd.recv(100) == b"STOPPING=1"
        assert one.ended() == 0
    told = [json.loads(line) for line in one.log]
    assert [line["schedule"] for line in told if line.get("type") == "schedule.created"] == ["day"]
    assert {"at", "level", "message"} <= set(told[0])


def test_the_watchdog_of_systemd_hears_that_it_works(house: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(90)
        one = house(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="300000")
        assert systemd.recv(100) == b"READY=1"
        assert [systemd.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        one.signal(signal.SIGTERM)
        while (said := systemd.recv(100)) == b"WATCHDOG=1":
            pass
        assert said == b"STOPPING=1"
        assert one.ended() == 0


def test_the_file_is_followed(house: Start) -> None:
    """C7: saved, it is taken up; broken or gone, nothing changes and somebody is told; SIGHUP looks again."""
    text = "agents: {scout: {runner: demo}}\nschedules: {review: {agent: scout, when: every 1h, prompt: Review.}}\n"
    one = house().up()
    file = one.home / "matins.yaml"
    file.write_text(text)
    assert one.logged("schedule.created review")  # and not only seen: by then it is applied
    file.write_text(text.replace("1h", "2h"))
    assert one.logged("schedule.updated review")
    assert one.logged("hot-reloaded: +0 -0 ~1")
    assert one.ask("schedules.get", name="review")["trigger_text"] == "every 2 hours"
    with pytest.raises(MatinsError) as refused:
        one.ask("schedules.edit", name="review", prompt="Something else.")
    assert str(file) in str(refused.value)
    file.write_text(text.replace("1h", "evry 2h"))
    assert one.logged("error: ")
    (wrong,) = [finding for finding in one.ask("system.doctor") if finding["what"] == "file"]
    assert wrong["ok"] is False
    assert "line 2" in wrong["sentence"]
    file.unlink()
    assert one.logged("waits: the file is gone")
    one.signal(signal.SIGHUP)
    assert one.logged("Read the file again: waits")
    assert one.ask("schedules.get", name="review")["trigger_text"] == "every 2 hours"
    one.kill()
    two = house().up()
    assert two.logged("waits: the file is gone")
    assert two.ask("schedules.get", name="review")["state"] == "active"


def test_a_file_that_was_asked_for_must_be_there(house: Start) -> None:
    one = house("--file", "none.yaml")
    assert one.ended() == 2
    assert any("There is no file" in line and "none.yaml" in line for line in one.log)


def test_on_postgresql(house: Start, postgres_url: str) -> None:
    """Two of them on one database, and no password where others could find it."""
    secret = "hunter2"
    store = postgres_url.replace("postgresql://postgres:", f"postgresql://postgres:{secret}")
    one = house("--store", store, home="one").up()
    two = house("--store", store, home="two").up()
    add(one)
    assert [schedule["name"] for schedule in two.ask("schedules.list")] == ["day"]
    assert (one.stop(), two.stop()) == (0, 0)
    for each in (one, two):
        assert secret not in "\n".join(each.log + each.said)
    assert environment(one.home)["MATINS_HOME"] == str(one.home)


def test_a_signal_that_comes_to_another_thread_is_heard(house: Start) -> None:
    """The kernel may pick any thread that does not block it."""
    one = house().up()
    pid = one.process.pid
    other = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid)
    assert ctypes.CDLL(None).tgkill(pid, other, signal.SIGTERM) == 0
    assert one.ended() == 0


NEVER_LOOKS = """
import sys
from matins.app import main
from matins.surfaces.http.stream import Feed
Feed.__init__.__defaults__ = (3600.0,)
sys.argv = ["matins", "up", "--port", "0"]
main()
"""


def test_s7_streams_hear_at_once_of_what_the_engine_does(house: Start) -> None:
    """S7: nobody waits for the next look at the store"""
    one = house(program=(sys.executable, "-c", NEVER_LOOKS)).up()
    add(one)
    with closing(one.client.events.follow(after="0")) as events:  # type: ignore[type-var]
        assert next(events).id
        one.ask("schedules.run", name="day")
        assert any(event.type == "run.succeeded" for event in events)
