"""The files that commands name, where an agent puts something else in their place."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from matins.runtime.agent_folders import files_of, not_covered

SCRIPT = b"exit 0\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "check.sh").write_bytes(SCRIPT)
    return tmp_path / "check.sh"


def found(script: Path, command: str = "sh check.sh") -> str | None:
    return files_of(command, str(script.parent)).get(str(script))


def test_a_file_is_named_by_its_content(script: Path) -> None:
    assert found(script) == sha256(SCRIPT).hexdigest()
    assert files_of("sh check.sh > /dev/null -v . missing.sh ~nobody-here/x", str(script.parent)).keys() == {
        str(script)
    }
    assert files_of(None, str(script.parent)) == {}


def test_a_link_is_named_by_what_it_leads_to(script: Path) -> None:
    """Also through `..`, which counts from where a link leads: so the run sees it."""
    (script.parent / "a" / "b").mkdir(parents=True)
    (script.parent / "a" / "check.sh").write_bytes(b"rm -rf /\n")
    (script.parent / "sub").symlink_to("a/b")
    path = f"{script.parent}/sub/../check.sh"
    assert Path(path).read_bytes() == b"rm -rf /\n"
    assert files_of(["sh", path], "/") == {path: sha256(b"rm -rf /\n").hexdigest()}


@pytest.mark.parametrize("target", ["/proc/self/cwd/x.sh", "/dev/fd/0", "/proc/self/cwd/missing/x.sh"])
def test_what_leads_through_proc_is_not_covered(script: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine would see a file of its own working directory there, and the run one of the agent's."""
    monkeypatch.chdir(script.parent)
    (script.parent / "x.sh").write_bytes(SCRIPT)
    script.unlink()
    script.symlink_to(target)
    files = files_of("sh check.sh", str(script.parent))
    assert not_covered(files) == {str(script): "it leads through /proc"}


def test_a_pipe_is_not_waited_for_and_not_covered(script: Path) -> None:
    script.unlink()
    os.mkfifo(script)
    assert found(script) == "not covered: it is not a regular file"


def test_a_device_is_not_opened(script: Path) -> None:
    """A link to a terminal of the agent has whatever content the agent types."""
    script.unlink()
    script.symlink_to("/dev/zero")
    assert found(script) == "not covered: it is a device"


def test_a_large_file_costs_no_memory(script: Path) -> None:
    with script.open("wb") as file:
        file.truncate(900_000_000)
    assert found(script) == "not covered: it is larger than 1 MB"


def test_a_loop_of_links_is_not_covered(script: Path) -> None:
    script.unlink()
    script.symlink_to("check.sh")
    assert found(script) == "not covered: it leads through too many links"


def test_a_command_with_many_files_says_that_some_are_not_covered(tmp_path: Path) -> None:
    names = [f"f{number:02}" for number in range(40)]
    for name in names:
        (tmp_path / name).write_bytes(SCRIPT)
    files = files_of(["cat", *names, "f00"], str(tmp_path))
    assert not_covered(files) == {str(tmp_path / "f32"): "it and what follows are more than 32 files"}
    assert len(files) == 33
    assert not_covered(files_of(["cat", *names[:32], "f00"], str(tmp_path))) == {}
