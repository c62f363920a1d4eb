"""Nothing else can be put in the place of the home, or of what Matins runs from: what leads there is pinned.
Without pins the attacks succeed."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from house import House, Ordinary, ordinary_account
from matins.executors.isolation import Isolation, Places, engine_paths, frozen_folders, pinned_steps
from matins.executors.processes.launch import Account
from matins.executors.processes.walls import Layout, Probe
from matins.model.agent import Agent

INSIDE = """
import json, subprocess, sys, tempfile
from matins.executors.processes.walls import Layout, Walls
layout, script = Layout(*map(tuple, json.loads(sys.argv[1]))), sys.argv[2]
walls = Walls(tempfile.mkdtemp())
with walls.entered(layout):
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd="/")
print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""
PINS = """
import json, sys
from matins.executors.isolation import pinned_steps
print(json.dumps(pinned_steps(*json.loads(sys.argv[1]), None)))
"""
SECOND = """
import json, sys
from pathlib import Path
from matins.executors.isolation import Places, hidden_folders, pinned_steps
hidden = hidden_folders(Places(Path(sys.argv[1]), Path(sys.argv[1])))
print(json.dumps([hidden, [], [], pinned_steps(hidden, hidden, None)]))
"""
REPLACED = "{way} {step} {step}.away && echo moved $(basename {step}) && mv {step}.away {step}"
"""A step is put away, and comes back."""


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account("matins-pins") as made:
        yield made


def as_user(account: Ordinary, *command: str) -> str:
    variables = os.environ | account.environment
    done = subprocess.run(command, capture_output=True, text=True, cwd=account.home, env=variables, **account.process)
    assert done.returncode == 0, done.stderr
    return done.stdout


def inside(account: Ordinary, layout: Layout, script: str) -> tuple[int, str, str]:
    """What a script of the account does in a view of this layout."""
    return tuple(json.loads(as_user(account, sys.executable, "-c", INSIDE, json.dumps(layout), script)))


def pins(account: Ordinary, ways: Sequence[Path], hidden: Sequence[Path]) -> tuple[str, ...]:
    """As an engine of the account finds them."""
    words = json.dumps([list(map(str, ways)), list(map(str, hidden))])
    return tuple(json.loads(as_user(account, sys.executable, "-c", PINS, words)))


@pytest.fixture
def deep(account: Ordinary) -> Path:
    """A home below two folders, and a link that leads there."""
    made = Path(as_user(account, "mktemp", "-d", str(account.home / "deep.XXXX")).strip())
    as_user(
        account,
        "sh",
        "-c",
        f"mkdir -p {made}/share/apps/home; echo t > {made}/share/apps/home/token; ln -s share/apps {made}/link",
    )
    return made


@pytest.mark.parametrize("pinned", [False, True])
def test_b16_no_step_of_the_way_can_be_renamed_or_replaced(account: Ordinary, deep: Path, pinned: bool) -> None:
    """B16: folders and links, by rename, delete, and with another link in its place"""
    home, way = deep / "share/apps/home", deep / "link/home"
    found = pins(account, [home, way], [home])
    assert found[-4:] == tuple(map(str, (deep, deep / "share", deep / "link", deep / "share/apps")))
    layout = Layout((str(home),), pinned=found if pinned else ())
    tries = [
        REPLACED.format(way="mv -T", step=step) for step in (deep, deep / "share", deep / "link", deep / "share/apps")
    ]
    tries.append(f"ln -s /etc {deep}/new && mv -T {deep}/new {deep}/link && echo relinked; rm -f {deep}/new")
    tries.append(f"rm {deep}/link && echo removed")
    _, output, errors = inside(account, layout, "\n".join(tries))
    wanted = [f"moved {name}" for name in (deep.name, "share", "link", "apps")] + ["relinked", "removed"]
    assert output.splitlines() == ([] if pinned else wanted), errors
    if pinned:
        assert errors.count("busy") == 6, errors
        assert (way / "token").read_text() == "t\n"


def test_b16_a_namespace_of_its_own_cannot_undo_a_pin(account: Ordinary, deep: Path) -> None:
    """B16: as its root it may mount, and still neither unmounts nor renames; what it mounts itself it can unmount"""
    home = deep / "share/apps/home"
    layout = Layout((str(home),), pinned=pins(account, [home, deep / "link/home"], [home]))
    script = f"""
        mkdir {deep}/mine && mount -t tmpfs own {deep}/mine && umount {deep}/mine && echo control
        for step in {deep} {deep}/share {deep}/share/apps {deep}/link; do
          umount $step && echo unmounted; umount -l $step && echo unmounted
          mv -T $step $step.away && echo moved
        done
        mount --bind {deep} {deep}/mine && echo bound without what is mounted
        mount --rbind {deep} {deep}/mine; mv -T {deep}/mine/share {deep}/mine/away && echo moved
        mv -T {deep}/mine/link {deep}/mine/away && echo moved
        cat {deep}/mine/share/apps/home/token && echo read
        chroot {deep} /x 2>/dev/null && echo odd
        """
    code, output, errors = inside(account, layout, f"unshare -Urm sh -c '{script}'")
    assert output.splitlines() == ["control"], (code, errors)
    assert (deep / "link/home/token").read_text() == "t\n"


def test_b16_a_second_mount_of_a_parent_is_no_way_round(account: Ordinary, deep: Path) -> None:
    """B16: the folder is the same one there, so it cannot be renamed under its other path either"""
    second = deep / "second"
    as_user(account, "mkdir", str(second))
    home = deep / "share/apps/home"
    script = f"mv -T {second}/apps {second}/away && echo moved; mv -T {deep}/share/apps {deep}/share/away && echo moved"
    program = f"""
mount --bind {deep}/share {second}
found=$({sys.executable} -c '{SECOND}' {home})
echo "$found"
exec {sys.executable} -c '{INSIDE}' "$found" '{script}'
"""
    shown = as_user(account, "unshare", "-Urm", "sh", "-c", program)
    first, last = map(json.loads, shown.splitlines())
    assert first[0] == [str(home), str(second / "apps/home")]
    assert str(second / "apps") in first[3]
    assert last[1] == "", last


def test_b16_ordinary_work_goes_on_in_pinned_folders(account: Ordinary, deep: Path) -> None:
    """B16: files, links, git; what is moved out of one is copied, as between two disks"""
    home = deep / "share/apps/home"
    layout = Layout((str(home),), pinned=pins(account, [home, deep / "link/home"], [home]))
    script = f"""
        set -e
        cd {deep}/share
        echo one > a; mv a b; ln b c; ln -s b d; mkdir -p x/y; mv x z; cat d; mv z/y ../y; mv b ../b; cat ../b
        git init -q repository; cd repository; git -c user.name=a -c user.email=b commit -q --allow-empty -m empty
        cd ..; git clone -q repository clone; git -C clone log --format=%s; git -C clone worktree add -q ../../tree
        rm -r repository clone; cd ../link; echo linked > there; cat {deep}/share/apps/there
        """
    code, output, errors = inside(account, layout, script)
    assert (code, output.split()) == (0, ["one", "one", "empty", "linked"]), errors


def test_b16_only_what_the_user_could_replace_is_pinned(account: Ordinary, deep: Path) -> None:
    """B16: by owner and mode; where the folder is sticky, an account replaces only its own"""
    home, elsewhere = deep / "share/apps/home", Account(60_000, 60_000, (60_000,))
    assert pinned_steps([str(home)], [str(home)], elsewhere) == []
    deep.chmod(0o777)
    assert pinned_steps([str(home)], [str(home)], elsewhere) == [str(deep / "share")]
    deep.chmod(0o1777)
    assert pinned_steps([str(home)], [str(home)], elsewhere) == []
    (deep / "share").chmod(0o770)
    grouped = Account(60_000, 60_000, (60_000, (deep / "share").stat().st_gid))
    assert pinned_steps([str(home)], [str(home)], grouped) == [str(deep / "share/apps")]
    (deep / "share").chmod(0o555)  # its owner can change that
    assert str(deep / "share/apps") in pins(account, [home], [home])


# -- with a daemon


@pytest.fixture(scope="module")
def environment(account: Ordinary) -> Path:
    """A virtual environment of the user's own that imports a copy of Matins from a checkout."""
    folder, source = account.home / "apps/venv", account.home / "checkout/src"
    as_user(account, "mkdir", "-p", str(account.home / "apps"), str(source))
    as_user(account, sys.executable, "-m", "venv", "--without-pip", str(folder))
    import matins

    as_user(account, "cp", "-r", str(Path(matins.__file__).parent), str(source / "matins"))
    (packages,) = folder.glob("lib/python*/site-packages")
    found = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "ours.pth").write_text("\n".join([*found, str(source)]))
    for name in found:
        for information in Path(name).glob("matins-*.dist-info"):
            as_user(account, "cp", "-r", str(information), str(packages))
    return folder


def started(account: Ordinary, environment: Path) -> House:
    program = (str(environment / "bin/python"), "-P", "-m", "matins", "up", "--port", "0")
    return House(account.home / "data/link/home", program=program, user=account).up()


PLANTED = "agents: {evil: {runner: shell, isolation: none, command: [cat, token]}}"


def test_b16_a_restart_finds_the_same_home_and_the_same_code(account: Ordinary, environment: Path) -> None:
    """B16: an agent tries to put a home and code of its own in their places; the next daemon has neither"""
    base, checkout = account.home / "data", account.home / "checkout"
    as_user(account, "sh", "-c", f"mkdir -p {base}/real/home && ln -s real {base}/link && chmod 700 {base}/real/home")
    one = started(account, environment)
    try:
        token = (one.home / "token").read_text()
        steps = [base, base / "link", base / "real", environment.parent, environment, checkout, checkout / "src"]
        tries = [REPLACED.format(way="mv -T", step=step) for step in steps]
        tries.append(f"echo 'raise SystemExit(7)' > {checkout}/src/sitecustomize.py && echo written")
        tries.append(f"echo 'raise SystemExit(7)' >> {checkout}/src/matins/__init__.py && echo written")
        tries.append(f"touch {environment}/evil && echo written")
        home = f"{base}/real/home"
        tries.append(f"mv -T {base}/real {base}/old && mkdir -p {home} && echo '{PLANTED}' > {home}/matins.yaml")
        tries.append(f"echo notes > {checkout}/notes && cat {checkout}/notes")
        one.shell("mover", "\n".join(tries), isolation="required", workdir=str(checkout))
        doubts = [found["sentence"] for found in one.ask("system.doctor") if found["what"] == "isolation"]
        assert f"The agent mover cannot change {checkout}/src: Matins runs from it" in doubts
        run, output = one.fire("mover")
        assert (run.state, output) == ("succeeded", "notes\n"), run.outcome
        assert one.stop() == 0
    finally:
        one.kill()
    again = started(account, environment)
    try:
        assert (again.home / "token").read_text() == token
        assert [agent["name"] for agent in again.ask("agents.list")] == ["mover"]
    finally:
        again.kill()


def test_b16_what_matins_runs_from_is_frozen_where_the_agent_could_change_it() -> None:
    """B16: not for an account that cannot write there"""
    nobody: Any = Account(60_000, 60_000, (60_000,))
    assert frozen_folders(nobody) == []
    if os.geteuid() == 0:
        assert os.path.realpath(sys.prefix) in frozen_folders(None)


def test_b16_the_user_s_folder_of_python_is_frozen_also_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: outside a virtual environment Python imports from it at the next start; an agent would make it"""
    folder = tmp_path / "lib" / "site-packages"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(folder))
    places = Places(tmp_path / "runs")

    def frozen() -> list[str]:
        engine_paths.cache_clear()
        layout = Isolation(lambda: places, lambda: Probe(True)).layout(Agent("a", "shell"), "/", "/")
        assert layout is not None
        return [path for path in layout.frozen if path.startswith(str(tmp_path))]

    try:
        monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
        assert (frozen(), folder.exists()) == ([], False)  # control: a virtual environment does not import from it
        monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
        assert frozen() == [str(folder)]
    finally:
        engine_paths.cache_clear()
