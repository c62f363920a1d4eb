"""docs/start.md, typed on a daemon with a mail server, and the files of docs/recipes.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from house import House
from matins.testing import Sandbox
from standins.mails import open_mails

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = re.findall(r"```yaml\n(.*?)```", (DOCS / "recipes.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_hour(house: Callable[..., House], tmp_path: Path) -> None:
    """B21: with an agent that needs no login in the place of Claude, and a mail server on this machine."""
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "start.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = "".join(blocks).splitlines()
    assert lines[1].startswith("$ matins service install")  # `test_service.py` installs it
    typed = [line.removeprefix("$ matins ") for line in lines[2:] if line.startswith("$ matins ")]
    assert len(typed) >= 15
    here = house(HOME=str(tmp_path)).up()
    here.matins("agents", "set", "claude", "--runner", "demo")
    with open_mails() as (mails, port):
        local = f"--host 127.0.0.1 --port {port} --tls none"
        said = {line: here.matins(*shlex.split(line.replace("--host mail.example.com", local))) for line in typed}
        with closing(here.client.events.follow(after="0", types=["answer.delivered"])) as events:  # type: ignore[type-var]
            next(events)
        (mail,) = [message for recipients, message in mails.taken if recipients == ["ada@example.com"]]
    assert "I was given 10 words" in mail.get_body(("plain",)).get_content()
    assert "%" in said["run disk --wait"]
    assert 'quiet hours "nights"' in said["preview reviews"] or "Runs." in said["preview reviews"]
    assert "/login" in said["login"]


@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text.partition(":")[0])
def test_each_recipe_is_a_file_that_applies(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "a secret of at least sixteen characters")
    path = tmp_path / "matins.yaml"
    path.write_text(text, encoding="utf-8")
    with closing(Sandbox(f"sqlite:///{tmp_path}/m.db")) as sandbox:
        sandbox.watch_file(path)
        applied = sandbox.file.apply()
        assert applied.added >= 1
        assert [schedule.state for schedule in sandbox.list()] == ["active"]
