"""Paths that the owner named, where an agent puts links in their place: none leads into a folder of Matins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins.errors import InvalidInput
from matins.executors.secrets import resolve
from matins.github import read_token
from matins.texts.beneath import Refused, read_named
from matins.texts.untrusted_folder import OwnFolders, forbidden, open_folder, read_file

TOKEN = "the-owner-s-token"
NAMES = ["key", "sub/key", "deep/er/key"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A home of Matins with a token and an agent's folder, beside a folder that agents can write."""
    (tmp_path / "home" / "agents" / "robin").mkdir(parents=True)
    (tmp_path / "home" / "token").write_text(f"{TOKEN}\n")
    for name in NAMES:
        path = tmp_path / "user" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("own\n")
    own = OwnFolders(lambda: [tmp_path / "home"])
    yield tmp_path
    own.close()


def swap(path: Path, target: Path) -> None:
    path.rename(path.with_name(f"{path.name}.old"))
    path.symlink_to(target)


@pytest.mark.parametrize("name", NAMES)
def test_an_ordinary_secret_is_read(place: Path, name: str) -> None:
    assert resolve(f"file:{place}/user/{name}", "S") == "own"
    assert read_token(f"file:{place}/user/{name}") == "own"
    (place / "linked").symlink_to(place / "user")
    assert resolve(f"file:{place}/linked/{name}", "S") == "own"


@pytest.mark.parametrize(
    ("name", "at", "target"),
    [
        ("key", "key", "home/token"),
        ("sub/token", "sub", "home"),
        ("deep/er/token", "deep/er", "home"),
        ("deep/home/token", "deep", "."),
        ("deep/home/token", "deep", "user/.."),
    ],
)
def test_a_secret_does_not_lead_into_the_home(place: Path, name: str, at: str, target: str) -> None:
    swap(place / "user" / at, place / target)
    path = place / "user" / name
    assert path.read_text().strip() == TOKEN  # control: an ordinary read follows
    for read, secret in ((lambda text: resolve(text, "S"), "S"), (read_token, "token")):
        with pytest.raises(InvalidInput, match="leads into the directory of Matins") as refused:
            read(f"file:{path}")
        assert refused.value.message == f"{secret} refers to file:{path}, but it leads into the directory of Matins."
        assert TOKEN not in f"{refused.value.message} {refused.value.hint}"


def test_a_path_that_is_written_inside_the_home_is_the_owner_s(place: Path) -> None:
    """But no link leads from an agent's folder there to the rest; `..` is not written inside."""
    assert resolve(f"file:{place}/home/token", "S") == TOKEN
    (place / "other-name").symlink_to(place / "home")
    with pytest.raises(InvalidInput, match="directory of Matins"):
        resolve(f"file:{place}/other-name/token", "S")
    robin = place / "home" / "agents" / "robin"
    (robin / "note").write_text("mine")
    assert resolve(f"file:{robin}/note", "S") == "mine"
    (robin / "key").symlink_to("../../token")
    (robin / "up").symlink_to("../..")
    (robin / "out").symlink_to(place / "user" / "key")
    for name in ("key", "up/token", "../../token"):
        assert (robin / name).read_text().strip() == TOKEN
        with pytest.raises(InvalidInput, match="directory of Matins"):
            resolve(f"file:{robin}/{name}", "S")
    assert resolve(f"file:{robin}/out", "S") == "own"


def test_a_home_that_is_a_link_has_two_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "token").write_text(TOKEN)
    (tmp_path / "home").symlink_to("real")
    own = OwnFolders(lambda: [tmp_path / "home"])
    for name in ("home", "real"):
        assert read_file(tmp_path / name / "token", 100) == TOKEN.encode()
    (tmp_path / "key").symlink_to("real/token")
    with pytest.raises(Refused, match="directory of Matins"):
        read_file(tmp_path / "key", 100)
    own.close()
    assert read_file(tmp_path / "key", 100) == TOKEN.encode()  # control: no scheduler claims the folder any more


def test_a_scheduler_that_is_gone_claims_nothing(tmp_path: Path) -> None:
    before = forbidden()
    own = OwnFolders(lambda: [tmp_path])
    assert len(forbidden()) == len(before) + 1
    del own
    assert forbidden() == before


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_is_bounded_and_not_waited_for(place: Path, name: str) -> None:
    path = place / "user" / name
    with path.open("wb") as file:
        file.truncate(900_000_000)
    with pytest.raises(InvalidInput, match="but it is larger than 64,000 bytes"):
        resolve(f"file:{path}", "S")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="but it is not a regular file"):
        resolve(f"file:{path}", "S")
    path.unlink()
    path.symlink_to("/proc/self/environ")
    with pytest.raises(InvalidInput, match="but it leads through /proc"):
        resolve(f"file:{path}", "S")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the files of others")
def test_as_root_a_link_of_another_user_leads_to_files_of_that_user_only(place: Path) -> None:
    (place / "root-only").write_text("of root")
    (place / "root-only").chmod(0o600)
    (place / "user" / "own").write_text("own")
    for name, target in (("bad", place / "root-only"), ("good", place / "user" / "own")):
        (place / "user" / name).symlink_to(target)
        os.chown(place / "user" / name, 12345, 12345, follow_symlinks=False)
    os.chown(place / "user" / "own", 12345, 12345)
    assert read_named(str(place / "user" / "good"), 100) == b"own"
    assert read_named(str(place / "root-only"), 100) == b"of root"
    with pytest.raises(InvalidInput, match="a link of another user leads there"):
        resolve(f"file:{place}/user/bad", "S")


def test_a_folder_does_not_lead_into_the_home(place: Path) -> None:
    with open_folder(place / "user") as folder:
        assert folder.read("key") == b"own\n"
    (place / "home" / "agents" / "robin" / "note").write_text("mine")
    with open_folder(place / "home" / "agents" / "robin") as folder:
        assert folder.read("note") == b"mine"
    swap(place / "user" / "sub", place / "home")
    (place / "home" / "agents" / "robin" / "memory").symlink_to("../..")
    for path in (place / "user" / "sub", place / "home" / "agents" / "robin" / "memory"):
        with pytest.raises(Refused, match="directory of Matins"):
            open_folder(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root opens the folders of others")
def test_as_root_a_folder_behind_another_user_s_link_must_be_that_user_s(place: Path) -> None:
    """An account's link to another account's folder: its tasks would be in the prompt."""
    for name in ("mine", "theirs"):
        (place / name).mkdir(mode=0o700)
        (place / name / "TASKS.yaml").touch()
        (place / "user" / name).symlink_to(place / name)
        os.chown(place / "user" / name, 12345, 12345, follow_symlinks=False)
    os.chown(place / "mine", 12345, 12345)
    os.chown(place / "theirs", 54321, 54321)
    open_folder(place / "user" / "mine").__exit__()
    open_folder(place / "theirs").__exit__()
    with pytest.raises(Refused, match="a link of another user leads there"):
        open_folder(place / "user" / "theirs")
    os.link(place / "theirs" / "TASKS.yaml", place / "mine" / "hard")
    with open_folder(place / "mine") as folder, pytest.raises(Refused, match="it has a second name"):
        folder.read("hard")
