"""`matins mcp install`: the configuration of coding agents, each in a home of its own."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from house import House
from matins.app import App
from matins.errors import MatinsError, NotAllowed
from matins.mcp.commands import INSTALLED
from matins.mcp.install import CLIENTS
from matins.surfaces.cli import cli
from matins.surfaces.client import Client
from matins.texts.foreign_entry import entry_in

Install = Callable[..., Result]
FILES = {
    "claude": (".claude.json", '{"mcpServers": {"other": {"command": "x"}}, "projects": {"/a": {"n": 1}}}'),
    "codex": (".codex/config.toml", 'model = "o3" # mine\n\n[mcp_servers.other]\ncommand = "x" # keep\n'),
    "gemini": (
        ".gemini/settings.json",
        '{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"} // keep\n  }\n}\n',
    ),
    "goose": (
        ".config/goose/config.yaml",
        "# mine\nextensions:\n  # keep\n  other:\n    enabled: false\nB: auto\n",
    ),
    "cursor": (".cursor/mcp.json", '{"mcpServers": {"other": {"command": "x"}}}'),
    "vscode": (".config/Code/User/mcp.json", '{\n  // mine\n  "servers": {"other": {"command": "x"}}\n}\n'),
    "opencode": (".config/opencode/opencode.jsonc", '{\n  // mine\n  "mcp": {"other": {"type": "local"}},\n}\n'),
}
BROKEN = {
    "claude": '{"a": ',
    "codex": "a = ]\n",
    "gemini": '{"a" 1}',
    "goose": "a: [1",
    "opencode": "{",
    "cursor": "{",
    "vscode": "{",
}
CLAUDE = """#!{python}
# What Claude Code 2.1 does for these two commands: it refuses a name that it has, and writes the file anew.
import json, os, pathlib, sys
file = pathlib.Path(os.environ["HOME"]) / ".claude.json"
found = json.loads(file.read_text()) if file.exists() else {{}}
servers = found.setdefault("mcpServers", {{}})
verb, name = sys.argv[2], sys.argv[5]
assert sys.argv[1] == "mcp" and sys.argv[3:5] == ["--scope", "user"], sys.argv
if (verb == "add-json") == (name in servers):
    sys.exit(f"MCP server {{name}} already exists, or does not")
if verb == "add-json":
    servers[name] = json.loads(sys.argv[6])
else:
    del servers[name]
file.write_text(json.dumps(found, indent=2))
"""


class ClosedApp(App):
    """Closes its connections: a command leaves that to the end of its process."""

    def __init__(self) -> None:
        self.opened: list[Any] = []

    def transport(self, *location: Any, **named: Any) -> Any:
        self.opened.append(super().transport(*location, **named))
        return self.opened[-1]

    def close(self) -> None:
        for one in self.opened:
            one.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("install") / "home").up()
    for name in ("cursor", "vscode"):  # Matins cannot run these, so their agents are made by hand
        one.ask("agents.set", name=name, runner="demo")
    made = {"night": "claude", "pair": "codex"} | {
        name: name for name in ("claude", "codex", "gemini", "goose", "opencode")
    }
    for name, runner in made.items() if os.geteuid() == 0 else ():  # root is asked for their account otherwise
        one.ask("agents.set", name=name, runner=runner)
    yield one
    one.kill()


@pytest.fixture
def install(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """`matins mcp install` of a user whose home is the test's folder."""
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)

    def run(*words: str) -> Result:
        app = ClosedApp()
        try:
            return CliRunner().invoke(cli, ["--home", str(house.home), "mcp", "install", *words], obj=app)
        finally:
            app.close()

    return run


def of(client: str, home: Path, text: str | None = None) -> Path:
    """The client's file, with a text of its own."""
    name, usual = FILES[client]
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(usual if text is None else text, encoding="utf-8")
    return home / name


def values(client: str, file: Path) -> dict[str, Any]:
    return CLIENTS[client].form.load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("client", INSTALLED)
def test_p4_one_command_gives_a_coding_agent_the_tools(
    install: Install, house: House, tmp_path: Path, client: str
) -> None:
    """P4 B7: tried before it is called done, as an agent; twice changes nothing; without it the file is as before"""
    file = of(client, tmp_path)
    text, before = file.read_text(encoding="utf-8"), values(client, file)
    assert install(client, "--dry-run").output.startswith(f"Would add Matins to {file}: ")
    assert [file.read_text(encoding="utf-8"), *file.parent.glob("*.before-matins")] == [text]

    found = json.loads(install(client, "--json").output)
    assert (found["changed"], len(found["tools"])) == (True, 13)
    assert Path(found["backup"]).read_text(encoding="utf-8") == text
    assert stat.S_IMODE(Path(found["backup"]).stat().st_mode) == 0o600
    written = file.read_text(encoding="utf-8")
    entry = entry_in(values(client, file), CLIENTS[client].place)
    assert entry == found["entry"] == json.loads(install(client, "--dry-run", "--json").output)["entry"]
    assert "mt_" not in json.dumps(entry)  # a token
    assert {**values(client, file), CLIENTS[client].place[0]: None} == {**before, CLIENTS[client].place[0]: None}
    assert client in [agent["name"] for agent in house.ask("agents.list")]
    assert [one["role"] for one in house.ask("tokens.list") if one["name"] == client] == ["agent"]

    assert install(client).output.startswith(f"Matins is already in {file}.")
    assert file.read_text(encoding="utf-8") == written
    assert install(client, "--remove").output.startswith(f"Removed Matins from {file}.")
    assert values(client, file) == before
    assert client == "claude" or file.read_text(encoding="utf-8") == text
    assert "nothing to remove" in install(client, "--remove").output


@pytest.mark.parametrize("client", INSTALLED)
def test_a_broken_file_is_named_and_left_alone(install: Install, tmp_path: Path, client: str) -> None:
    """P4 B12: with the place of the mistake"""
    file = of(client, tmp_path, BROKEN[client])
    failed = install(client)
    assert failed.exit_code != 0
    assert f"{file} cannot be changed" in failed.output
    assert "line" in failed.output
    assert "Nothing was written" in failed.output
    assert file.read_text(encoding="utf-8") == BROKEN[client]
    assert not list(file.parent.glob("*.before-matins"))


def test_an_older_entry_is_replaced_and_a_link_stays_a_link(install: Install, tmp_path: Path) -> None:
    """P4: by Claude Code itself, and in a file that lies elsewhere; with the name of another agent"""
    old = {"mcpServers": {"matins": {"type": "stdio", "command": "/old", "args": [], "env": {"A": "1"}}}}
    claude = of("claude", tmp_path, json.dumps(old))
    told = install("claude", "--agent=night").output
    assert "Added" in told
    assert "Removed from the entry: env." in told
    entry = json.loads(claude.read_text(encoding="utf-8"))["mcpServers"]["matins"]
    assert (entry["args"][-1], "env" in entry) == ("--client=night", False)
    dotfiles = of("codex", tmp_path).rename(tmp_path / "dotfiles.toml")
    (tmp_path / ".codex" / "config.toml").symlink_to(dotfiles)
    assert "Added" in install("codex").output
    assert (tmp_path / ".codex" / "config.toml").is_symlink()
    assert "mcp_servers.matins" in dotfiles.read_text(encoding="utf-8")


PROJECT = {
    "claude": ".mcp.json", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json",
    "opencode": "opencode.json", "vscode": ".vscode/mcp.json",
}  # fmt: skip


@pytest.mark.parametrize("client", INSTALLED)
def test_p4_in_the_settings_of_a_project(
    install: Install, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: the file below the current directory, for tools that have one; the user's own is as it was"""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    done = install(client, "--scope", "project", "--json")
    if client not in PROJECT:
        assert "has no MCP servers of a project" in done.output
        return
    found = json.loads(done.output)
    file = tmp_path / "project" / PROJECT[client]
    assert (found["file"], len(found["tools"])) == (str(file), 13)
    assert entry_in(values(client, file), CLIENTS[client].place) == found["entry"]
    assert not (tmp_path / FILES[client][0]).exists()
    assert json.loads(install(client, "--scope", "project", "--json").output)["changed"] is False
    assert json.loads(install(client, "--scope", "project", "--remove", "--json").output)["changed"] is True
    assert entry_in(values(client, file), CLIENTS[client].place) is None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize("client", PROJECT)
@pytest.mark.parametrize("linked", ["file", "missing", "folder", "backup"])
def test_b7_no_link_of_a_project_is_followed(
    install: Install, project: Path, tmp_path: Path, client: str, linked: str
) -> None:
    """B7: an agent linked the file, its folder, or the name of the former file"""
    file, elsewhere = project / PROJECT[client], tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / file.name).write_text("{}", encoding="utf-8")
    if linked == "folder":
        if file.parent == project:
            return
        file.parent.symlink_to(elsewhere)
    else:
        file.parent.mkdir(exist_ok=True)
        target = elsewhere / (file.name if linked != "missing" else "new")
        (file if linked != "backup" else file.with_name(f"{file.name}.before-matins")).symlink_to(target)
        if linked == "backup":
            file.write_text("{}", encoding="utf-8")
    done = install(client, "--scope", "project")
    assert {each.name for each in elsewhere.iterdir()} == {file.name}
    assert (elsewhere / file.name).read_text(encoding="utf-8") == "{}"
    if linked == "backup":  # the link is replaced
        assert not file.with_name(f"{file.name}.before-matins").is_symlink()
        assert "Added" in done.output
    else:
        assert done.exit_code == 2
        assert f"{PROJECT[client]} is a link. Nothing was written." in done.output


@pytest.mark.parametrize("client", PROJECT)
def test_b7_of_a_prepared_entry_only_our_fields_stay(install: Install, project: Path, client: str) -> None:
    """B7: an agent wrote what the owner's client would then run; another server is the owner's affair"""
    file, place = project / PROJECT[client], CLIENTS[client].place
    file.parent.mkdir(exist_ok=True)
    wrong = {
        "env": {"PYTHONPATH": "/agent"},
        "args": ["--evil"],
        "cwd": "/agent",
        "command": "/agent/x",
        "envFile": "e",
    }
    file.write_text(json.dumps({place[0]: {place[1]: wrong, "other": {"command": "x"}}}), encoding="utf-8")
    told = install(client, "--scope", "project").output
    found = values(client, file)[place[0]]
    assert found["other"] == {"command": "x"}
    assert found["matins"].keys() == CLIENTS[client].entry(["matins"]).keys()
    assert "/agent" not in json.dumps(found)
    names = [name for name in wrong if name not in found["matins"]]
    assert f"Removed from the entry: {', '.join(names)}." in told
    assert "env" in names


def test_b7_what_was_written_is_tried_and_not_what_the_file_says_later(
    install: Install, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B7: an agent writes another command between the two"""
    from matins.mcp import install as module

    canary, file, make = project / "canary", project / ".mcp.json", module.make

    def make_and_change(*arguments: Any) -> Any:
        kept = make(*arguments)
        wrong = {"mcpServers": {"matins": {"command": "/usr/bin/touch", "args": [str(canary)]}}}
        file.write_text(json.dumps(wrong), encoding="utf-8")
        return kept

    monkeypatch.setattr(module, "make", make_and_change)
    assert "The server answers" in install("claude", "--scope", "project").output
    assert not canary.exists()


@pytest.mark.parametrize("client", INSTALLED)
def test_p4_by_the_address_of_the_daemon(install: Install, house: House, tmp_path: Path, client: str) -> None:
    """P4 B7: the entry names a variable and has no token; it replaces a command whole, and the other way round"""
    file = of(client, tmp_path)
    install(client)
    done = install(client, "--http", "--json")
    if client == "goose":
        assert "cannot read a token from a variable" in done.output
        return
    found = json.loads(done.output)
    assert (found["changed"], len(found["tools"])) == (True, 13)
    entry = entry_in(values(client, file), CLIENTS[client].place)
    assert entry == found["entry"]
    assert f"{house.url}/mcp" in entry.values()
    assert "MATINS_MCP_TOKEN" in json.dumps(entry)
    assert not {"command", "args"} & entry.keys()
    token = Path(found["token_file"]).read_text().strip()
    assert token not in file.read_text(encoding="utf-8")
    assert f"export MATINS_MCP_TOKEN=$(cat {found['token_file']})" in install(client, "--http").output
    assert "command" in json.loads(install(client, "--json").output)["entry"]
    assert not {"url", "httpUrl", "headers"} & entry_in(values(client, file), CLIENTS[client].place).keys()
    install(client, "--remove")


@pytest.mark.parametrize("way", [(), ("--http",)])
def test_b7_a_token_that_was_revoked_is_replaced_by_installing_again(
    install: Install, house: House, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """B7: by the person who installs, and not by the bridge itself; one that is valid is kept"""
    kept = house.home / "mcp" / "codex.token"
    install("codex", *way)
    first = kept.read_text()
    install("codex", *way)
    assert kept.read_text() == first
    house.ask("tokens.revoke", token_id=first.split("_")[1])
    assert json.loads(install("codex", *way, "--json").output)["changed"] is False
    assert kept.read_text() != first
    tokens = [one for one in house.ask("tokens.list") if one["name"] == "codex" and not one["revoked_at"]]
    assert [one["role"] for one in tokens] == ["agent"]


def test_b7_a_person_may_want_no_asking_and_then_the_client_is_an_operator(
    install: Install, house: House, tmp_path: Path
) -> None:
    """B7 P4: never with govern, with approve only if that is asked for; another role is another token, and the former
    is dead"""

    def token(*words: str) -> tuple[str, dict[str, Any], int]:
        """The token that the client has afterwards, as it is stored, and how many tools it opens."""
        found = json.loads(install("codex", "--agent=pair", *words, "--json").output)
        kept = (house.home / "mcp" / "pair.token").read_text().strip()
        (stored,) = [
            one for one in house.ask("tokens.list") if one["name"].startswith("pair") and not one["revoked_at"]
        ]
        assert stored["id"] == kept.split("_")[1]
        assert (stored["role"], stored["rights"]) == (found["role"], found["rights"])
        return kept, stored, len(found["tools"])

    agent, stored, tools = token()
    assert (stored["role"], stored["rights"], tools) == ("agent", ["change", "read", "run"], 13)
    operator, stored, tools = token("--role=operator")
    assert (stored["role"], stored["rights"], tools) == ("operator", ["change", "read", "run"], 13)
    assert token("--role=operator")[0] == operator
    assert "runs without asking you" in install("codex", "--agent=pair", "--role=operator").output
    with closing(Client(house.url, operator)) as client:
        assert client.add("asked", when="every day at 9am", agent="pair", prompt="Look").state == "active"
        for refused in (lambda: client.approvals.approve("1", digest="x"), lambda: client.agents.delete("pair")):
            with pytest.raises(NotAllowed):
                refused()
        approver, stored, tools = token("--role=operator", "--with-approvals", "--http")
        assert (stored["role"], stored["rights"], tools) == ("operator", ["approve", "change", "read", "run"], 14)
        assert "If it can show forms" in install("codex", "--agent=pair", "--role=operator", "--with-approvals").output
        last, stored, _ = token()
        assert stored["role"] == "agent"
        assert len({agent, operator, approver, last}) == 4
        with pytest.raises(MatinsError, match="token"):
            client.list()


def test_b7_an_agent_never_approves(install: Install, tmp_path: Path) -> None:
    """B7: said before anything is written"""
    refused = install("codex", "--with-approvals")
    assert "The role agent never approves." in refused.output
    assert "--role operator" in refused.output
    assert not (tmp_path / ".codex").exists()
    assert install("codex", "--role=owner").exit_code == 2


def test_a_tool_that_matins_cannot_run_needs_an_agent(install: Install, tmp_path: Path) -> None:
    """P4: said before anything is written"""
    refused = install("cursor", "--agent=nobody")
    assert 'There is no agent "nobody", and Matins cannot run cursor' in refused.output
    assert not (tmp_path / ".cursor").exists()


def test_it_is_for_people_and_says_what_is_missing(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4 B7: a tool that writes its file itself must be there; an agent in a run changes nobody's tools"""
    (tmp_path / "bin" / "claude").unlink()
    assert "claude is not installed" in install("claude").output
    monkeypatch.setenv("MATINS_IN_RUN", "1")
    refused = install("codex")
    assert refused.exit_code == 4
    assert not (tmp_path / ".codex").exists()


def test_the_command_names_every_client_that_is_declared() -> None:
    """P4: the list of the command loads nothing"""
    assert sorted(CLIENTS) == sorted(INSTALLED)
