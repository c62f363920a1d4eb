"""`matins export`: what it prints makes the same store elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cli_user import User
from click.testing import CliRunner

from matins.api.use_case import USE_CASES
from matins.app import App
from matins.errors import NotFound
from matins.model.access import Principal
from matins.records import record_kinds
from matins.surfaces.cli import cli
from matins.testing import Sandbox

_FILE_PAGE = Path(__file__).parents[3] / "docs" / "file.md"


def matins(home: Path, *words: str) -> tuple[str, str]:
    result = CliRunner().invoke(cli, ["--home", str(home), *words], obj=App())
    assert result.exit_code == 0, result.stderr
    return result.stdout, result.stderr


def test_what_is_exported_makes_the_same_store(tmp_path: Path) -> None:
    """B11: every kind of record that a file may have; what is exported of the copy is the same text"""
    (example,) = re.findall(r"^```yaml\n(.*?)^```", _FILE_PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    one, other = tmp_path / "one", tmp_path / "other"
    for home, text in ((one, example), (other, None)):
        home.mkdir(mode=0o700)
        (home / "matins.yaml").write_text(text or matins(one, "export")[0], encoding="utf-8")
        matins(home, "apply", "--yes")
    first, again = (matins(home, "export") for home in (one, other))
    assert first == again
    assert held(one) == held(other)


def test_what_waits_for_an_approval_is_not_exported(bench: Sandbox) -> None:
    """B7: the owner applies the file, and what the owner applies needs no approval"""
    bench.agents.set("scout", runner="shell", command=["true"], isolation="none")
    bench.add("kept", when="every day at 9am", agent="scout", prompt="Sing")
    bench.acting_as(Principal("agent", "scout")).add("planted", when="5 * * * *", prompt="x")
    said = User(bench).types("export")
    assert "kept:" in said.stdout
    assert "planted" not in said.stdout
    assert "Not in it, because they wait for an approval: planted" in said.stderr


def held(home: Path) -> dict[str, Any]:
    """All records and schedules, as they are in the store."""
    transport = App().transport(home=home)
    found: dict[str, Any] = {}
    for noun, kind in record_kinds().items():
        try:
            documents = transport.document(USE_CASES[f"{noun}.{'get' if kind.single else 'list'}"], {})
        except NotFound:
            continue
        found[noun] = [
            {name: one.get(name) for name in kind.table} for one in ([documents] if kind.single else documents)
        ]
    schedules = transport.document(USE_CASES["schedules.list"], {"limit": 500})
    found["schedules"] = sorted(
        [item["agent"], item["name"], item["state"], item["settings"], item["job"], item["labels"]]
        for item in schedules
    )
    assert len(found["schedules"]) > 3
    return found
