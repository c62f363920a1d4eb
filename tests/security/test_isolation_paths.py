"""What an isolated agent does not see: hidden folders, second paths to the same files, and a frozen environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from house import House, Ordinary, ordinary_account
from matins.executors.isolation import Places, hidden_folders


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account("matins-paths") as made:
        yield made


def as_user(account: Ordinary, *command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=account.home, **account.process)


@pytest.fixture(scope="module")
def environment(account: Ordinary) -> Path:
    """A virtual environment of the user's own, from which Matins runs."""
    folder = account.home / "venv"
    as_user(account, sys.executable, "-m", "venv", "--without-pip", str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    found = [path for path in sys.path if path.endswith(("site-packages", "/src"))]
    (packages / "ours.pth").write_text("\n".join(found))
    return folder


@pytest.fixture(scope="module")
def house(account: Ordinary, environment: Path) -> Iterator[House]:
    (account.home / "second").symlink_to(account.home / "home")
    program = (str(environment / "bin/python"), "-m", "matins", "up", "--port", "0")
    one = House(account.home / "home", program=program, user=account).up()
    os.link(one.home / "token", account.home / "hard")
    yield one
    one.kill()


def tried(house: House, name: str, script: str, **settings: object) -> list[str]:
    house.shell(name, script, **settings)
    run, output = house.fire(name)
    assert run.state == "succeeded", run.outcome
    return output.splitlines()


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_hidden_folders_are_empty(house: House, account: Ordinary, isolation: str) -> None:
    """B16: folders that the owner names, also through a symbolic link and by `..`; nothing can be written there"""
    keys = account.home / f"keys-{isolation}"
    as_user(account, "sh", "-c", f"mkdir {keys}; echo secret > {keys}/key; ln -s {keys} {keys}-link")
    script = (
        f"cat {keys}/key {keys}-link/key {keys}/../{keys.name}/key 2>/dev/null; touch {keys}/new && echo written; :"
    )
    said = tried(house, f"hidden-{isolation}", script, isolation=isolation, hidden=[f"{keys}-link"])
    assert said == (["secret"] * 3 + ["written"] if isolation == "none" else [])
    assert (keys / "new").exists() is (isolation == "none")


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_a_link_is_no_way_round(house: House, account: Ordinary, isolation: str) -> None:
    """B16: a symbolic link to the home that was there before, and links that the agent makes, symbolic and hard"""
    script = f"""
        cat {account.home}/second/token 2>/dev/null
        ln -s {house.home}/token soft && cat soft 2>/dev/null
        ln {house.home}/token hard 2>/dev/null && cat hard
        :
        """
    said = tried(house, f"links-{isolation}", script, isolation=isolation)
    assert len(said) == (3 if isolation == "none" else 0)


def test_b16_a_hard_link_made_by_the_owner_is_a_copy(house: House, account: Ordinary) -> None:
    """B16: not promised, as the docs say: what lies elsewhere is seen"""
    assert tried(house, "copy", f"cat {account.home}/hard", isolation="required")[0].startswith("mtn_")


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_the_environment_of_matins_is_frozen(house: House, environment: Path, isolation: str) -> None:
    """B16: whoever writes there is the engine after the next start; its programs still work, by a second path too"""
    site = next(environment.glob("lib/python*/site-packages"))
    script = f"""
        touch {site}/evil-{isolation}.pth 2>/dev/null && echo written
        ln -s {environment} other && touch other/bin/evil-{isolation} 2>/dev/null && echo written
        {environment}/bin/python -c 'print("works")'
        """
    said = tried(house, f"frozen-{isolation}", script, isolation=isolation)
    assert said == (["written", "written", "works"] if isolation == "none" else ["works"])


def test_b16_a_second_mount_of_the_home_is_hidden_too(tmp_path: Path) -> None:
    """B16: a bind mount shows the same folder elsewhere; it is made in a namespace of its own"""
    home, second = tmp_path / "home", tmp_path / "second"
    home.mkdir()
    second.mkdir()
    tell = (
        "import sys; from pathlib import Path; from matins.executors.isolation import Places, hidden_folders;"
        "print(*hidden_folders(Places(Path(sys.argv[1]), Path(sys.argv[1]))))"
    )
    shown = f'mount --bind {home} {second} && exec {sys.executable} -c "{tell}" {home}'
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", shown], capture_output=True, text=True)
    assert done.stdout.split() == [str(home), str(second)], done.stderr


def test_b16_the_socket_s_folder_among_temporary_files_is_hidden(tmp_path: Path) -> None:
    """B16: a path that is too long for a socket has its socket there; the store's own folder is hidden, one that holds
    other files is not"""
    sockets, store = tmp_path / f"matins-{os.getuid()}", tmp_path / "store"
    for folder in (sockets, store, tmp_path / "runs"):
        folder.mkdir()
    (store / "matins.db").touch()
    places = Places(tmp_path / "runs", None, store / "matins.db", sockets / "a.sock")
    assert hidden_folders(places) == [str(tmp_path / "runs"), str(sockets), str(store)]
    (store / "notes.txt").touch()
    assert hidden_folders(places) == [str(tmp_path / "runs"), str(sockets)]


def test_b16_a_folder_with_many_files_is_not_the_store_s_own(tmp_path: Path) -> None:
    """B16: whatever their names are, it is not listed to its end"""
    (tmp_path / "store").mkdir()
    for number in range(1_000):
        (tmp_path / "store" / f"matins.db-{number}").touch()
    places = Places(tmp_path / "runs", None, tmp_path / "store" / "matins.db")
    assert hidden_folders(places) == [str(tmp_path / "store")]
    (tmp_path / "store" / "matins.db").touch()
    assert hidden_folders(places) == []
