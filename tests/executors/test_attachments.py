"""Files that a run attaches to its answer: which ones, as they were at its end, and what is left out."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from office import Office, office

from matins import InvalidInput
from matins.executors.attachments import attach
from matins.texts.beneath import Refused
from matins.texts.untrusted_folder import OwnFolders, UntrustedFolder

__all__ = ["office"]
WHEN = "0 9 * * *"


def ended(office: Office, command: str, folder: Path, **settings: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    office.matins.add("report", when=WHEN, command=command, workdir=str(folder), **settings)
    run = office.fire("report")
    assert run.state == "succeeded", run.outcome
    return run.outcome["result"]


def test_files_that_the_run_wrote_are_copied(office: Office, tmp_path: Path) -> None:
    """B21: regular files, changed in the run; a copy, so that a later run changes nothing."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old.pdf").write_text("old")
    os.utime(folder / "old.pdf", (1, 1))
    command = "mkdir -p out/deep; printf new > new.pdf; printf deep > out/deep/x.csv; printf no > notes.txt"
    result = ended(office, command, folder, attach=["*.pdf", "out/**/*.csv"])
    assert [(file["name"], file["size"], file["media_type"]) for file in result["files"]] == [
        ("new.pdf", 3, "application/pdf"), ("x.csv", 4, "text/csv"),
    ]  # fmt: skip
    assert result["left_out"] == []
    new = result["files"][0]
    assert new["digest"] == hashlib.sha256(b"new").hexdigest()
    (folder / "new.pdf").write_text("changed later")
    assert Path(new["path"]).read_text() == "new"
    assert Path(new["path"]).stat().st_mode & 0o777 == 0o600


def test_what_is_left_out_is_said(office: Office, tmp_path: Path) -> None:
    """B21: what is no file of its own, too large, or has a secret of the run. The run succeeds all the same."""
    (tmp_path / "key").write_text("hunter2hunter2")
    (tmp_path / "outside.txt").write_text("private")
    command = (
        f"ln -s {tmp_path}/outside.txt a-link.txt; mkfifo b-pipe.txt; truncate -s 10000001 c-large.txt; "
        "printf 'the key is %s.' $KEY > d-secret.txt; printf fine > e-fine.txt"
    )
    environment = {"KEY": f"file:{tmp_path}/key"}
    result = ended(office, command, tmp_path / "work", attach=["*.txt"], environment=environment)
    assert [file["name"] for file in result["files"]] == ["e-fine.txt"]
    assert result["left_out"] == [
        "c-large.txt: it is larger than 10,000,000 bytes", "d-secret.txt: it contains a secret",
    ]  # fmt: skip


def test_at_most_ten_files(office: Office, tmp_path: Path) -> None:
    result = ended(
        office, "for n in a b c d e f g h i j k l; do echo $n > $n.txt; done", tmp_path / "work", attach=["*"]
    )
    assert len(result["files"]) == 10
    assert result["left_out"] == [f"{n}.txt: there are more than 10 files" for n in "kl"]


def test_a_folder_in_the_place_of_another_leads_nowhere(tmp_path: Path) -> None:
    """An agent that puts a link in the place of a folder gets nothing from behind it."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "secret.pdf").write_text("secret")
    (work / "reports").symlink_to(other)
    found = attach(["reports/*.pdf", "**/*.pdf"], str(work), None, 0, (), tmp_path / "copies" / "1-1")
    assert found.files == []
    assert found.left_out == []


def test_folders_of_matins_are_passed_over(tmp_path: Path) -> None:
    """A command in the home directory attaches nothing of what Matins keeps there."""
    home = tmp_path / ".matins"
    home.mkdir()
    (home / "token.txt").write_text("token")
    (tmp_path / "mine.txt").write_text("mine")
    own = OwnFolders(lambda: [home])
    try:
        found = attach(["**/*.txt", ".matins/*"], str(tmp_path), None, 0, (), tmp_path / "copies" / "1-1")
    finally:
        own.close()
    assert [file["name"] for file in found.files] == ["mine.txt"]


def test_folders_that_the_agent_does_not_see_are_passed_over(office: Office, tmp_path: Path) -> None:
    """B16: files are copied outside the walls, and `hidden` holds there too."""
    private = tmp_path / "work" / "private"
    private.mkdir(parents=True)
    office.matins.agents.set("ann", runner="shell", command=["true"], hidden=[str(private)], isolation="none")
    command = "echo secret > private/key.txt; echo fine > fine.txt"
    result = ended(office, command, tmp_path / "work", agent="ann", attach=["**/*.txt", "private/*", "private/key.txt"])
    assert [file["name"] for file in result["files"]] == ["fine.txt"]


@pytest.mark.parametrize("leads_to", ["private", "private/deep"])
def test_a_link_in_the_place_of_the_folder_leads_to_nothing_hidden(
    office: Office, tmp_path: Path, leads_to: str
) -> None:
    """B16: an agent may rename its own folder, and put a link to what it does not see in its place."""
    (tmp_path / "private/deep").mkdir(parents=True)
    (tmp_path / leads_to / "key.txt").write_text("secret")
    hidden = [str(tmp_path / "private")]
    office.matins.agents.set("ann", runner="shell", command=["true"], hidden=hidden, isolation="none")
    work = tmp_path / "work"
    command = f"touch {tmp_path}/{leads_to}/key.txt; mv {work} {work}.old; ln -s {tmp_path}/{leads_to} {work}"
    result = ended(office, command, work, agent="ann", attach=["*.txt"])
    assert (result["files"], len(result["left_out"])) == ([], 1)


def test_names_that_are_no_text_are_shown(office: Office, tmp_path: Path) -> None:
    """B16: names are bytes, and the agent's. The outcome stays what it is, and names stay short."""
    long = "/".join(["0" * 250] * 3)
    command = f"printf x > $(printf 'a\\377.txt'); mkdir -p {long}; truncate -s 10000001 {long}/b.txt; echo Done."
    result = ended(office, command, tmp_path / "work", attach=["**/*.txt"])
    assert [file["name"] for file in result["files"]] == ["a\ufffd.txt"]
    (reason,) = result["left_out"]
    assert reason.startswith("…0000")
    assert reason.endswith("0/b.txt: it is larger than 10,000,000 bytes")
    assert len(reason) < 250
    assert result["text"] == "Done.\n"


def test_a_file_is_a_file_and_no_message(tmp_path: Path) -> None:
    """B16: a client would show an attached message as one that came."""
    for name in ("a.eml", "b.vpm", "c.pdf", "d.txt.gz"):
        (tmp_path / name).touch()
    found = attach(["*"], str(tmp_path), None, 0, (), tmp_path / "copies" / "1-1")
    types = {file["name"]: file["media_type"] for file in found.files}
    assert types == {**dict.fromkeys(types, "application/octet-stream"), "c.pdf": "application/pdf"}


def test_many_files_are_counted_not_named(tmp_path: Path) -> None:
    """B16: what an agent writes does not fill the record of its run."""
    work = tmp_path / "work"
    work.mkdir()
    for number in range(500):
        (work / f"{number:03}.txt").touch()
    found = attach(["*"], str(work), None, 0, (), tmp_path / "copies" / "1-1")
    assert len(found.files) == 10
    assert found.left_out == [
        *(f"{number:03}.txt: there are more than 10 files" for number in range(10, 20)),
        "480 more files: there are too many",
    ]


def test_a_secret_is_found_wherever_it_is(tmp_path: Path) -> None:
    """B16: files are searched in pieces, and a secret may lie across two of them."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "big.bin").write_bytes(b"x" * ((1 << 20) - 4) + b"hunter2hunter2" + b"x" * 100)
    found = attach(["*"], str(work), None, 0, ("hunter2hunter2",), tmp_path / "copies" / "1-1")
    assert (found.files, found.left_out) == ([], ["big.bin: it contains a secret"])


def test_however_many_copies_there_are_old_ones_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("new")
    for number in range(10_001):
        (tmp_path / "copies" / f"{number}-1").mkdir(parents=not number)
    os.utime(tmp_path / "copies" / "7-1", (1, 1))
    found = attach(["new.txt"], str(tmp_path), None, 40 * 86_400_000, (), tmp_path / "copies" / "x")
    assert found.left_out == []
    assert not (tmp_path / "copies" / "7-1").exists()


def test_copies_are_deleted_after_a_month(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("new")
    old = tmp_path / "copies" / "1-1"
    old.mkdir(parents=True)
    (old / "0").write_text("old")
    os.utime(old, (1, 1))
    attach(["new.txt"], str(tmp_path), None, 40 * 86_400_000, (), tmp_path / "copies" / "2-1")
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == ["2-1"]


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../x", "~/x"])
def test_patterns_that_lead_out_are_refused(office: Office, tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidInput, match="must name files below the directory of the run") as caught:
        office.matins.add("report", when=WHEN, command="true", attach=[pattern])
    assert caught.value.field == "attach"


def test_patterns_are_few_and_short(office: Office) -> None:
    for patterns in (["a"] * 21, ["a" * 501]):
        with pytest.raises(InvalidInput, match='"attach" must be at most 20 patterns of at most 500 characters'):
            office.matins.add("report", when=WHEN, command="true", attach=patterns)


def test_patterns_match_as_they_do_elsewhere(tmp_path: Path) -> None:
    for name in ("a.txt", "b/a.txt", "b/c/a.txt", "b/c/x.md", ".git/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def found(pattern: str) -> list[str]:
        with UntrustedFolder(tmp_path) as folder:
            return sorted(entry.name for entry in folder.matching(pattern))

    assert found("*.txt") == ["a.txt"]
    assert found("b/*.txt") == ["b/a.txt"]
    assert found("*/*.txt") == [".git/a.txt", "b/a.txt"]
    assert found("**/*.txt") == [".git/a.txt", "a.txt", "b/a.txt", "b/c/a.txt"]
    assert found("b/**") == ["b/a.txt", "b/c/a.txt", "b/c/x.md"]
    assert found("missing/*") == []
    with pytest.raises(Refused):
        found("../*")
