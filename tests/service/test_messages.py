"""Messages that an agent sends during its run: to whom, how many, and what is kept of them."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matins import Matins
from matins.errors import Conflict, InvalidInput, NotAllowed
from matins.model.access import Principal

WHEN = "0 9 * * *"


class Talk:
    """An agent whose run waits for a file, and speaks meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir()
        (folder / "key").write_text("hunter2hunter2")
        self.matins = Matins(f"sqlite:///{folder}/m.db")
        for name in ("notes", "more"):
            self.matins.destinations.set(name, kind="file", to=[str(folder / name)])
        wait = ["sh", "-c", "while [ ! -e ../go ]; do sleep 0.02; done; echo All done."]
        self.matins.agents.set(
            "scout", runner="shell", command=wait, workdir=str(self.work), isolation="none",
            environment={"KEY": f"file:{folder}/key"},
        )  # fmt: skip

    def begin(self, **settings: Any) -> Matins:
        """The library as the agent in its run sees it."""
        self.matins.add("morning", when=WHEN, agent="scout", prompt="Look", **settings)
        run = self.matins.run("morning")
        self.run_id = run.id
        while self.matins.runs.get(run.id).state != "running":
            pass
        return self.matins.acting_as(Principal("agent", "scout", int(run.id)))

    def end(self) -> None:
        (self.folder / "go").touch()
        assert self.matins.runs.wait(self.run_id, timeout=60).state == "succeeded"

    def notes(self, wanted: int, name: str = "notes") -> list[str]:
        found: list[Path] = []
        while len(found) < wanted:
            found = sorted((self.folder / name).glob("*.md"))
        return [path.read_text() for path in found]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    made = Talk(tmp_path)
    with made.matins:
        yield made
        (tmp_path / "go").touch()
    made.matins.close()


def test_a_message_arrives_before_the_answer_which_arrives_all_the_same(talk: Talk) -> None:
    """B21: a row, an event with a digest, no secret, and the answer at the end."""
    agent = talk.begin(deliver=["notes", "more"])
    (talk.work / "half.csv").write_text("1;2")
    sent = agent.runs.send("Half **done**, key hunter2hunter2.", to=["notes"], title="So far", files=["half.csv"])
    assert (sent.number, sent.to, sent.left) == (1, ["notes"], 9)
    (note,) = talk.notes(1)
    assert note.startswith("# So far\n\nHalf **done**, key ")
    assert "hunter2" not in note
    assert [path.read_text() for path in (talk.folder / "notes").rglob("*.csv")] == ["1;2"]
    (told,) = talk.matins.events.list(types=["run.message"])
    assert (told.data["number"], told.data["to"], len(told.data["digest"])) == (1, ["notes"], 32)
    assert "Half" not in str(told.data)
    talk.end()
    assert any("All done." in text for text in talk.notes(2))
    assert len(talk.notes(1, "more")) == 1


def test_only_destinations_of_the_schedule_get_messages(talk: Talk) -> None:
    """B21: an agent cannot send elsewhere."""
    agent = talk.begin(deliver=["notes"])
    with pytest.raises(NotAllowed, match='does not deliver to "more"') as caught:
        agent.runs.send("x", to=["more"])
    assert caught.value.hint == "Its destinations: notes."
    with pytest.raises(NotAllowed):
        agent.runs.send("x", to=["ada@example.com"])
    assert agent.runs.send("x").to == ["notes"]


def test_a_schedule_that_delivers_to_nobody_sends_nothing(talk: Talk) -> None:
    agent = talk.begin()
    with pytest.raises(Conflict, match="delivers its answers nowhere"):
        agent.runs.send("x")


def test_a_run_sends_as_many_as_the_owner_allows(talk: Talk) -> None:
    """B21: max_messages; 0 forbids."""
    talk.matins.agent_rules.set("scout", max_messages=2)
    agent = talk.begin(deliver=["notes"])
    assert [agent.runs.send(text).left for text in ("one", "two")] == [1, 0]
    with pytest.raises(NotAllowed, match="This run has sent 2 of at most 2 messages") as caught:
        agent.runs.send("three")
    assert caught.value.field == "max_messages"
    talk.matins.agent_rules.set("scout", max_messages=0)
    with pytest.raises(NotAllowed):
        agent.runs.send("four")


def test_files_that_cannot_be_sent_are_refused(talk: Talk) -> None:
    """Below its directory only, no link, and none with a secret."""
    agent = talk.begin(deliver=["notes"])
    (talk.work / "link").symlink_to(talk.folder / "key")
    (talk.work / "secret.txt").write_text("hunter2hunter2")
    for files, why in (
        (["../key"], "it leads out of the folder"),
        (["link"], "not all of them are files"),
        (["missing"], "not all of them are files"),
        (["secret.txt"], "it contains a secret"),
    ):
        with pytest.raises(InvalidInput, match=why) as caught:
            agent.runs.send("x", files=files)
        assert caught.value.field == "files"
    assert talk.matins.events.list(types=["run.message"]) == []


def test_files_of_a_run_in_its_worktree_are_those_of_the_worktree(talk: Talk) -> None:
    """B21 B22: the directory of the run is the worktree, not the checkout that it was made from."""
    (talk.work / "report.txt").write_text("old")
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *identity, *words], cwd=talk.work, check=True)
    wait = f"echo new > report.txt; touch {talk.folder}/there; while [ ! -e {talk.folder}/go ]; do sleep 0.02; done"
    talk.matins.agents.edit("scout", worktree="per_run", command=["sh", "-c", wait])
    agent = talk.begin(deliver=["notes"])
    while not (talk.folder / "there").exists():
        pass
    agent.runs.send("Look.", files=["report.txt"])
    talk.notes(1)
    assert [path.read_text() for path in (talk.folder / "notes").rglob("*.txt")] == ["new\n"]


def test_files_of_a_run_on_another_machine_are_not_looked_for_here(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """B16: the same path is another file here, which the agent may not be allowed to read"""
    agent = talk.begin(deliver=["notes"])
    (talk.work / "half.csv").write_text("1;2")
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    with pytest.raises(Conflict, match="its files are there"):
        agent.runs.send("x", files=["half.csv"])


def test_what_the_agent_does_not_see_is_not_sent(talk: Talk) -> None:
    """B16: a hidden folder in its directory, and a secret that the schedule gives it."""
    (talk.work / "private").mkdir()
    (talk.work / "private" / "key.txt").write_text("of the owner")
    (talk.work / "mine.txt").write_text("token: correcthorse")
    (talk.folder / "other").write_text("correcthorse")
    talk.matins.agents.edit("scout", hidden=[str(talk.work / "private")])
    agent = talk.begin(deliver=["notes"], environment={"TOKEN": f"file:{talk.folder}/other"})
    with pytest.raises(InvalidInput, match="not all of them are files"):
        agent.runs.send("x", files=["private/key.txt"])
    with pytest.raises(InvalidInput, match="it contains a secret"):
        agent.runs.send("x", files=["mine.txt"])
    agent.runs.send("It is correcthorse.")
    (note,) = talk.notes(1)
    assert "It is " in note
    assert "correcthorse" not in note


def test_what_is_refused_leaves_no_copies(talk: Talk) -> None:
    """B16: an agent does not fill the disk of the owner with messages that it may not send."""
    talk.matins.agent_rules.set("scout", max_messages=1)
    agent = talk.begin(deliver=["notes"])
    (talk.work / "a.txt").write_text("a")
    (talk.work / "b.txt").write_text("hunter2hunter2")
    for files in (["a.txt", "b.txt"], ["a.txt"] * 11, ["a" * 1_001]):
        with pytest.raises(InvalidInput):
            agent.runs.send("x", files=files)
    agent.runs.send("x", files=["a.txt"])
    with pytest.raises(NotAllowed):
        agent.runs.send("x", files=["a.txt"])
    assert len(list(talk.folder.rglob("attached/*/*"))) == 1


def test_what_is_no_message_is_refused(talk: Talk) -> None:
    agent = talk.begin(deliver=["notes"])
    for arguments in ({"text": " "}, {"text": "x" * 40_000}, {"text": "x", "title": "t" * 300}):
        with pytest.raises(InvalidInput, match="must be text of 1 to"):
            agent.runs.send(**arguments)
    with pytest.raises(Conflict, match="Only an agent in a run sends messages"):
        talk.matins.runs.send("x")
    talk.end()
    with pytest.raises(Conflict, match="is over: succeeded"):
        agent.runs.send("too late")
