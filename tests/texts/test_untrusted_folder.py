"""A folder that another process changes meanwhile: nothing outside it is read or written, and nothing is waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matins.texts import beneath, untrusted_folder
from matins.texts.beneath import Refused, identities, open_named, read_named
from matins.texts.untrusted_folder import UntrustedFolder

SECRET = b"the owner's token"
TRIES = 3_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open below a folder."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    return request.param


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of an agent beside a folder with a secret."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_bytes(SECRET)
    (tmp_path / "agent" / "sub").mkdir(parents=True)
    (tmp_path / "agent" / "note").write_bytes(b"hello")
    (tmp_path / "agent" / "sub" / "note").write_bytes(b"below")
    return tmp_path


def test_reads_files_and_files_below(place: Path) -> None:
    with UntrustedFolder(place / "agent") as folder:
        assert folder.read("note") == b"hello"
        assert folder.read("note", 2, 1) == b"el"
        assert folder.read_whole("sub/note") == b"below"


@pytest.mark.parametrize("name", ["link", "linked/token", "chain", "sub/link"])
def test_no_link_is_followed_at_any_level(place: Path, name: str) -> None:
    (place / "agent" / "link").symlink_to(place / "home" / "token")
    (place / "agent" / "sub" / "link").symlink_to("../../home/token")
    (place / "agent" / "linked").symlink_to("../home")
    (place / "agent" / "chain").symlink_to("link")
    with UntrustedFolder(place / "agent") as folder:
        for read in (folder.read, folder.read_whole):
            with pytest.raises(Refused, match="link"):
                read(name)
    assert (place / "agent" / name).read_bytes() == SECRET  # control: an ordinary read follows


@pytest.mark.parametrize("name", ["../home/token", "sub/../../home/token", "/etc/passwd", ".."])
def test_no_name_leads_out(place: Path, name: str) -> None:
    with UntrustedFolder(place / "agent") as folder, pytest.raises(Refused, match="leads out"):
        folder.read(name)


def test_a_pipe_is_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "agent" / "pipe")
    with UntrustedFolder(place / "agent") as folder:
        with pytest.raises(Refused, match="not a regular file"):
            folder.read_whole("pipe")
        with pytest.raises(Refused, match="not a regular file"):
            folder.open_lock("pipe")
    with pytest.raises(Refused, match="not a regular file"):
        read_named(str(place / "agent" / "pipe"), 10)


def test_a_large_file_costs_no_memory(place: Path) -> None:
    with (place / "agent" / "large").open("wb") as file:
        file.truncate(900_000_000)
    with UntrustedFolder(place / "agent") as folder:
        with pytest.raises(Refused, match="larger than 1,000,000 bytes"):
            folder.read_whole("large")
        assert len(folder.read("large", 4_000)) == 4_000
    with pytest.raises(Refused, match="larger than 64 bytes"):
        read_named(str(place / "agent" / "large"), 64)


def test_writing_replaces_a_link_and_leaves_what_it_leads_to(place: Path) -> None:
    (place / "agent" / "out").symlink_to(place / "home" / "token")
    with UntrustedFolder(place / "agent") as folder:
        folder.replace("out", b"new", 0o640)
        (place / "agent" / "link").symlink_to(place / "home")
        with pytest.raises(Refused, match="link"):
            folder.replace("link/out", b"new")
    assert (place / "home" / "token").read_bytes() == SECRET
    assert (place / "agent" / "out").read_bytes() == b"new"
    assert not (place / "agent" / "out").is_symlink()
    assert (place / "agent" / "out").stat().st_mode & 0o777 == 0o640
    assert names(place / "agent") == ["link", "note", "out", "sub"]  # nothing is left behind


def test_folders_are_made_and_links_in_their_place_are_refused(place: Path) -> None:
    (place / "agent" / "linked").symlink_to(place / "home")
    with UntrustedFolder(place / "agent") as folder:
        folder.make_folder("a/b/c")
        folder.make_folder("a/b/c")
        with pytest.raises(Refused, match="link"):
            folder.make_folder("linked/evil")
        with pytest.raises(Refused, match="link"):
            folder.make_folder("linked")
    assert (place / "agent" / "a" / "b" / "c").is_dir()
    assert names(place / "home") == ["token"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_only_the_new_folder_is_given_away(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with UntrustedFolder(place / "agent") as folder:
        folder.make_folder("agents/robin", 12345)
        folder.make_folder("sub", 12345)
        make = os.mkdir

        def exchanged(name: str, *words: Any, dir_fd: int) -> None:
            """Another process replaces a new folder by another one, or by a link, before it is opened."""
            make(name, *words, dir_fd=dir_fd)
            os.rmdir(name, dir_fd=dir_fd)
            os.rename("full" if name == "a" else "link", name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

        (place / "agent" / "full").mkdir()
        (place / "agent" / "full" / "secret").touch()
        (place / "agent" / "link").symlink_to(place / "home")
        monkeypatch.setattr(os, "mkdir", exchanged)
        for name, reason in (("a", "another folder"), ("b", "link")):
            with pytest.raises(Refused, match=reason):
                folder.make_folder(name, 12345)
    owners = {path.name: path.lstat().st_uid for path in (place / "agent").rglob("*")}
    assert [name for name, owner in owners.items() if owner == 12345] == ["robin"]
    assert (place / "home").stat().st_uid == os.getuid()


def test_lists_only_files_and_folders(place: Path) -> None:
    (place / "agent" / "link").symlink_to(place / "home")
    os.mkfifo(place / "agent" / "pipe")
    with UntrustedFolder(place / "agent") as folder:
        assert sorted((entry.name, entry.is_folder) for entry in folder.entries()) == [("note", False), ("sub", True)]
        assert sorted(entry.name for entry in folder.walk()) == ["note", "sub/note"]
        with pytest.raises(Refused, match="link"):
            folder.entries("link")


def test_listing_ends(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_folder, "MAX_ENTRIES", 10)
    for number in range(11):
        (place / "agent" / "sub" / str(number)).touch()
    with UntrustedFolder(place / "agent") as folder:
        with pytest.raises(Refused, match="more than 10 entries"):
            folder.entries("sub")
        with pytest.raises(Refused, match="more than 10 entries"):
            list(folder.walk())
    monkeypatch.undo()
    deep = place / "deep"
    for _ in range(20):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    with UntrustedFolder(place / "deep") as folder:
        assert list(folder.walk()) == []  # 16 levels


def test_the_folder_itself_may_be_a_link_but_not_into_a_forbidden_one(place: Path) -> None:
    (place / "elsewhere").symlink_to(place / "agent")
    (place / "into").symlink_to(place / "home")
    (place / "home" / "deep").mkdir()
    (place / "below").symlink_to(place / "home" / "deep")
    forbidden = identities([place / "home", place / "missing"])
    with UntrustedFolder(place / "elsewhere", forbidden) as folder:
        assert folder.read("note") == b"hello"
    for name in ("into", "below", "home"):
        with pytest.raises(Refused, match="leads into the directory of Matins"):
            UntrustedFolder(place / name, forbidden)


def test_files_of_another_user_and_second_names_are_refused(place: Path) -> None:
    with pytest.raises(Refused, match="another user"):
        UntrustedFolder(place / "agent", owner=os.getuid() + 1)
    os.link(place / "home" / "token", place / "agent" / "hard")
    with UntrustedFolder(place / "agent", owner=os.getuid()) as folder:
        assert folder.read("note") == b"hello"
        with pytest.raises(Refused, match="second name"):
            folder.read("hard")


def test_a_named_path_follows_links_but_not_into_a_forbidden_folder(place: Path) -> None:
    forbidden = identities([place / "home"])
    (place / "a").symlink_to("b")
    (place / "b").symlink_to(place / "agent")
    (place / "agent" / "up").symlink_to("sub/../note")
    assert read_named(str(place / "a" / "up"), 100, forbidden) == b"hello"
    assert read_named(str(place / "agent" / "sub" / ".." / "note"), 100, forbidden) == b"hello"
    (place / "agent" / "key").symlink_to(place / "home" / "token")
    (place / "agent" / "door").symlink_to("../home")
    for name in ("agent/key", "agent/door/token", "home/token"):
        with pytest.raises(Refused, match="leads into the directory of Matins"):
            read_named(str(place / name), 100, forbidden)
        assert read_named(str(place / name), 100) == SECRET  # control
    (place / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="too many links"):
        read_named(str(place / "loop"), 100)
    with pytest.raises(FileNotFoundError):
        read_named(str(place / "nothing" / "here"), 100)


@pytest.mark.parametrize("target", ["/proc/self/environ", "/proc/self/cwd/x.sh", "/dev/fd/0", "/proc/1/environ"])
def test_no_named_path_leads_through_proc(place: Path, target: str) -> None:
    (place / "key").symlink_to(target)
    for path in (str(place / "key"), target):
        with pytest.raises(Refused, match="through /proc"):
            open_named(path)


@pytest.fixture
def exchange(place: Path) -> Iterator[None]:
    """A thread that exchanges a folder and a link to the home, again and again."""
    at, other = place / "agent" / "sub", place / "agent" / "other"
    (place / "home" / "note").write_bytes(SECRET)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            at.rename(other)
            at.symlink_to(place / "home")
            at.unlink()
            other.rename(at)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("exchange")
def test_no_race_reads_or_writes_elsewhere(place: Path) -> None:
    forbidden = identities([place / "home"])
    before = names(place / "home")
    with UntrustedFolder(place / "agent") as folder:
        for _ in range(TRIES):
            for attempt in (
                lambda: folder.read("sub/note"),
                lambda: read_named(str(place / "agent" / "sub" / "note"), 100, forbidden),
            ):
                try:
                    assert attempt() == b"below"
                except OSError:
                    continue
        for _ in range(TRIES // 30):
            try:
                folder.replace("sub/new", b"mine")
            except OSError:
                continue
    assert names(place / "home") == before
