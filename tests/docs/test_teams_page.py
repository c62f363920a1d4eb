"""The commands of docs/teams.md, one after the other on a new store, and its file."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from matins.testing import Sandbox

PAGE = (Path(__file__).parents[2] / "docs/teams.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS" and not name.startswith("MATINS_")}
    alone = {**plain, "MATINS_STORE": f"sqlite:///{tmp_path}/m.db", "HOME": str(tmp_path), "COLUMNS": "140"}
    for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            words = [sys.executable, "-m", "matins", *shlex.split(command)[1:]]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=alone)
            said = re.sub(r"code=[\w-]{43}", "code=…", done.stdout + done.stderr)
            assert said == output, command


def test_the_file_of_the_page_is_applied(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "matins.yaml").write_text(text, encoding="utf-8")
    sandbox = Sandbox(f"sqlite:///{tmp_path}/m.db")
    sandbox.watch_file(tmp_path / "matins.yaml")
    assert sandbox.file.apply().state == "applied"
    found = sandbox.sign_in.get()
    assert (found.issuer, found.domains, found.role) == ("https://accounts.example.com", ["example.com"], "viewer")
    sandbox.close()
