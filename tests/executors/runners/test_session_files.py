"""Tools' records of their sessions, which the agent can write: bounded, without links, and only of its account."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from matins.executors.runners import session_files
from matins.executors.runners.protocol import SessionUsage
from matins.executors.runners.session_files import JsonLinesLedger, newest
from matins.executors.runners.tool_events import Event
from matins.texts import untrusted_folder
from matins.texts.untrusted_folder import OwnFolders, UntrustedFolder

LINE = json.dumps({"tokens": 5}) + "\n"


class Account:
    problem: str | None = None

    def __init__(self) -> None:
        self._total = 0

    def add(self, event: Event) -> None:
        self._total += event.count("tokens")

    def usage(self) -> SessionUsage | None:
        return SessionUsage((self._total, 0, 0))


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    (tmp_path / "tool" / "projects" / "p").mkdir(parents=True)
    (tmp_path / "tool" / "projects" / "p" / "s1.jsonl").write_text(LINE)
    return tmp_path / "tool" / "projects"


def ledger(sessions: Path, owner: int | None = None) -> JsonLinesLedger:
    return JsonLinesLedger(sessions, "*/{}.jsonl", Account, owner)


def tokens(one: JsonLinesLedger, session: str = "s1") -> int | None:
    usage = one.usage(session)
    return None if usage is None else usage.tokens[0]


def test_what_is_new_is_added(sessions: Path) -> None:
    one = ledger(sessions)
    assert tokens(one) == 5
    with (sessions / "p" / "s1.jsonl").open("a") as file:
        file.write(LINE + LINE[:-1])
        file.flush()
        assert tokens(one) == 10  # the last line is being written
        file.write("\n")
    assert tokens(one) == 15


def test_a_folder_that_is_the_owner_s_link_is_read(sessions: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").symlink_to("tool")
    assert tokens(ledger(tmp_path / "dotfiles" / "projects")) == 5


@pytest.mark.parametrize("level", ["file", "folder"])
def test_no_link_is_followed(sessions: Path, tmp_path: Path, level: str) -> None:
    other = tmp_path / "other"
    (sessions / "p").rename(other)
    if level == "folder":
        (sessions / "p").symlink_to(other)
    else:
        (sessions / "p").mkdir()
        (sessions / "p" / "s1.jsonl").symlink_to(other / "s1.jsonl")
    assert (sessions / "p" / "s1.jsonl").read_text() == LINE  # control: an ordinary read follows
    assert tokens(ledger(sessions)) is None


def test_a_link_that_is_put_there_later_is_not_followed(sessions: Path, tmp_path: Path) -> None:
    one = ledger(sessions)
    assert tokens(one) == 5
    (sessions / "p").rename(tmp_path / "other")
    with (tmp_path / "other" / "s1.jsonl").open("a") as file:
        file.write(LINE)
    (sessions / "p").symlink_to(tmp_path / "other")
    assert tokens(one) is None


def test_the_folder_does_not_lead_into_the_home(sessions: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "agents").mkdir(parents=True)
    sessions.rename(home / "agents" / "robin")
    sessions.symlink_to(home / "agents" / "robin")
    own = OwnFolders(lambda: [home])
    assert tokens(ledger(sessions)) is None
    assert tokens(ledger(home / "agents" / "robin")) == 5  # as the owner writes it
    own.close()
    assert tokens(ledger(sessions)) == 5  # control


def test_a_pipe_is_not_waited_for(sessions: Path) -> None:
    (sessions / "p" / "s1.jsonl").unlink()
    os.mkfifo(sessions / "p" / "s1.jsonl")
    assert tokens(ledger(sessions)) is None


def test_a_large_file_costs_little(sessions: Path) -> None:
    """A sparse line of 900 MB: nothing of it is kept, and the session is not read further than its bound."""
    path = sessions / "p" / "s1.jsonl"
    with path.open("r+b") as file:
        file.seek(session_files.MAX_SESSION_BYTES + session_files.MAX_LOOK_BYTES)
        file.write(b"\n" + LINE.encode())
        file.truncate(900_000_000)
    one = ledger(sessions)
    tracemalloc.start()
    assert tokens(one) == 5
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    assert tokens(one) == 5


def test_a_long_line_is_skipped_and_the_next_is_read(sessions: Path) -> None:
    """Also one that is longer than a look."""
    long = json.dumps({"tokens": 7, "text": "x" * 1_000_000}) + "\n"
    longer = json.dumps({"tokens": 9, "text": "x" * 9_000_000}) + "\n"
    most = json.dumps({"tokens": 3, "text": "x" * 900_000}) + "\n"
    (sessions / "p" / "s1.jsonl").write_text(f"{LINE}{long}{most}{longer}{LINE}")
    assert tokens(ledger(sessions)) == 5 + 3 + 5
    assert ledger(sessions).usage("s1", 10**15) == SessionUsage((13, 0, 0))


@pytest.mark.parametrize("session", ["*", "../p/s1", "s1/../s1", "", "s?", "{}", "x" * 300])
def test_an_id_is_no_pattern_and_no_path(sessions: Path, session: str) -> None:
    assert ledger(sessions).usage(session) is None


def test_the_newest_is_found_and_the_search_ends(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (sessions / f"q{number}").mkdir()
        path = sessions / f"q{number}" / "rollout-1-s1.jsonl"
        path.touch()
        os.utime(path, ns=(0, number))
        os.utime(path.parent, ns=(0, number))
    with UntrustedFolder(sessions.parent) as folder:
        assert newest(folder, "projects/q*/rollout-*-s1.jsonl") == "projects/q2/rollout-1-s1.jsonl"
        assert newest(folder, "projects/*/s1.jsonl") == "projects/p/s1.jsonl"
        assert newest(folder, "projects/*/missing.jsonl") is None
        monkeypatch.setattr(session_files, "MAX_ENTRIES", 1)
        assert newest(folder, "*/q*/rollout-*-s1.jsonl") is None  # the first folder was all that it saw
    monkeypatch.setattr(untrusted_folder, "MAX_ENTRIES", 3)
    assert tokens(ledger(sessions)) is None  # a folder with too many entries is not listed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has agents of another account")
def test_files_must_belong_to_the_account(sessions: Path) -> None:
    uid = 12345
    path = sessions / "p" / "s1.jsonl"
    assert tokens(ledger(sessions, uid)) is None  # the folder is root's
    os.chown(sessions, uid, uid)
    assert tokens(ledger(sessions, uid)) is None  # the file is root's
    os.chown(path, uid, uid)
    assert tokens(ledger(sessions, uid)) == 5
    os.link(path, sessions / "p" / "second")
    assert tokens(ledger(sessions, uid)) is None  # it may be another program's file
