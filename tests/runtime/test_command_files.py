"""Which files commands run, and which of them an agent can write."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from matins.engine.policies import NO_POLICIES, Policies
from matins.model.agent import Agent
from matins.runtime.command_files import files_run_by, in_reach

AS_NOBODY = replace(NO_POLICIES, agents={"a": Agent("a", "demo", user="nobody")})
SAME = replace(NO_POLICIES, agents={"a": Agent("a", "demo")})
root_only = pytest.mark.skipif(os.getuid() != 0, reason="gives files to other users")


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("./a", "a"), (["./a", "b"], "ab"), ("sh a", "a"), (". ./a", "a"), ("sh -c '. ./a'", "a"), ("exec ./a", "a"),
        ("test -f a", ""), ("[ -f a ] && ./b", "b"), ("./b > a", "b"), ("./b 2>a", "b"), ("./b >& a", "b"),
        ("sh < a", "a"), ("cat a | sh", "a"), ("cat a | tail | grep x", ""),
        ("cat a | tail | sh", "a"), ("{ cat a; } | sh", "a"),
        ("cat a\n./b", "b"), ("cat a; ./b", "b"), ("if test -f a; then ./b; fi", "b"),
        ("X=1 ./b", "b"), ("echo $(./a)", "a"), ("cat a # ;", ""), ("python b --config=a", "ab"),
        ("(cd / && ./a)", "a"),
        ("eval `cat a`", "a"), ('sh -c "$(cat a)"', "a"),
        ("! ./a", "a"), (["sh", "-c", "test -f a && ./b"], "b"), ("unclosed ' a", "a"), (["test", "-f", "a"], ""),
    ],
)  # fmt: skip
def test_scripts_are_found_and_data_is_left_out(tmp_path: Path, command: str | list[str], run: str) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    given = command if isinstance(command, str) else tuple(command)
    found = files_run_by([given], str(tmp_path))
    assert {path for path in found if path.startswith(str(tmp_path))} == {str(tmp_path / name) for name in run}


@root_only
@pytest.mark.parametrize(
    ("file", "folder", "reached"),
    [
        ((0, 0o755), (0, 0o755), False), ((0, 0o775), (0, 0o755), True), ((65534, 0o555), (0, 0o755), True),
        ((0, 0o755), (65534, 0o755), True), ((0, 0o755), (0, 0o777), True), ((0, 0o755), (0, 0o1777), False),
        ((65534, 0o555), (0, 0o1777), True),
    ],
)  # fmt: skip
def test_owner_and_mode_of_file_and_folder_decide(
    file: tuple[int, int], folder: tuple[int, int], reached: bool
) -> None:
    """Below /: the folders of a test may belong to any account."""
    below = Path("/", f"matins-test-{os.getpid()}")
    below.mkdir()
    try:
        script = below / "check.sh"
        script.write_text("")
        for path, (uid, mode) in ((script, file), (below, folder)):
            os.chown(path, uid, 0)
            path.chmod(mode)
        assert in_reach(str(script), AS_NOBODY) is reached
    finally:
        below.chmod(0o700)
        (below / "check.sh").unlink()
        below.rmdir()


def test_the_same_user_reaches_its_own_files_and_no_programs_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "check.sh").write_text("")
    assert in_reach(str(tmp_path / "check.sh"), SAME)
    assert in_reach("/bin/sh", SAME) == (os.getuid() == 0)
    assert not in_reach(str(tmp_path / "check.sh"), NO_POLICIES)


@pytest.mark.parametrize("way", ["plain", "link", "agents", "link in the home"])
def test_the_home_is_out_of_reach_but_a_link_to_it_is_not(tmp_path: Path, way: str) -> None:
    home = tmp_path / "home"
    (home / "agents").mkdir(parents=True)
    for folder in (home, home / "agents"):
        (folder / "check.sh").write_text("")
    (tmp_path / "link").symlink_to(home)
    (home / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("")
    policies: Policies = replace(SAME, out_of_reach=(os.path.realpath(home),))
    path = {"plain": home / "check.sh", "link": tmp_path / "link" / "check.sh",
            "agents": home / "agents" / "check.sh", "link in the home": home / "out"}[way]  # fmt: skip
    assert in_reach(str(path), policies) is (way != "plain")
