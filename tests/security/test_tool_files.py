"""Files of tools, which agents can write: the engine opens none of them. Each attack is first shown to succeed without
walls; as an ordinary user, and as root with an account for the agent."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from house import House, Ordinary, ordinary_account
from matins import Run
from standin_path import standin_path

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another account")
GEMINI = """#!/bin/sh
cat > /dev/null
sh "$HOME/script" 1>&2 || exit 1
echo '{"type": "result", "status": "success", "stats": {}}'
"""
QWEN = """#!/bin/sh
cat > /dev/null
sh "$HOME/script" 1>&2 || exit 1
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"}'
"""
GOOSE = '''#!/usr/bin/env python3
"""Records what it used, in the way that the test asks for; then it stays until it may end, without a final event."""
import json, os, pathlib, sqlite3, sys, time

TABLES = """
CREATE TABLE sessions (id TEXT, name TEXT, created_at TEXT);
CREATE {ledger};
"""
TABLE = """TABLE usage_ledger (session_id TEXT, created_timestamp INTEGER, input_tokens INTEGER, output_tokens INTEGER,
  cache_read_tokens INTEGER)"""
VIEW = """VIEW usage_ledger AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
  SELECT x AS session_id, 1 AS created_timestamp, 1 AS input_tokens, 1 AS output_tokens, 1 AS cache_read_tokens
  FROM n"""
home, case = pathlib.Path.home(), os.environ["CASE"]
name = next(word.partition("=")[2] for word in sys.argv if word.startswith("--name="))
store = home / ".local/share/goose/sessions/sessions.db"
store.parent.mkdir(parents=True)
if case == "pipe":
    os.mkfifo(store)
elif case == "link":
    store.symlink_to(os.environ["TARGET"])
else:
    with sqlite3.connect(store) as connection:
        connection.executescript(TABLES.format(ledger=VIEW if case == "view" else TABLE))
        connection.execute("INSERT INTO sessions VALUES ('1', ?, '')", (name,))
        if case != "view":
            connection.execute("INSERT INTO usage_ledger VALUES ('1', 1, 500, 50, 100)")
if case == "journal":
    os.mkfifo(f"{store}-journal")
logs = home / ".local/state/goose/logs/cli/today"
logs.mkdir(parents=True)
if case == "log":
    os.truncate(os.open(logs / "run.log", os.O_CREAT | os.O_WRONLY), 900_000_000)
print(json.dumps({"type": "message", "message": {"id": "1", "role": "assistant",
                                                "content": [{"type": "text", "text": "x" * 4000}]}}), flush=True)
while not (home / "end").exists():
    time.sleep(0.05)
'''
RECORDED, SAID = {"in": 400, "out": 50, "cached": 100}, 1_000
"""The tokens that goose records, and those of what it says."""
SESSIONS = uuid.UUID("6d617469-6e73-5e55-9e55-696f6e000000")
"""From these the ids of new sessions are made."""
MAX_GROWTH_KB = 150_000


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account("matins-files") as made:
        put_tools(made.home)
        yield made


def put_tools(home: Path) -> None:
    for name, text in (("gemini", GEMINI), ("qwen", QWEN), ("goose", GOOSE)):
        path = home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def tenant() -> Iterator[Ordinary]:
    """An account for an agent of root, with the home that it has in the list of accounts."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw")
    with ordinary_account(f"matins-tenant-{worker}") as made:
        home = Path(pwd.getpwnam(made.name).pw_dir)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        os.chown(home, made.uid, made.gid)
        put_tools(home)
        yield made._replace(home=home)
        shutil.rmtree(home)


class Tool:
    """An agent whose tool is one of the scripts above. It has a home of its own, which it can change as it likes."""

    def __init__(self, house: House, account: Ordinary, name: str, runner: str, **settings: Any) -> None:
        self.house, self.name, self.account = house, name, account
        self.home = account.home if "user" in settings else account.home / name
        self.settings = f"{self.home}/.matins/{name}" if "user" in settings else f"{house.home}/agents/{name}/.matins"
        self.as_user("mkdir", "-p", str(self.home))
        variables = {"HOME": str(self.home), "PATH": f"{account.home}/bin:/usr/bin:/bin", **settings.pop("more", {})}
        house.ask("agents.set", name=name, runner=runner, environment=variables, **settings)
        house.ask("schedules.add", name=name, when="every 1 day", agent=name, prompt="Go.", retries=0, max_tokens="1M")

    def as_user(self, *words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, **self.account.process)

    def does(self, script: str) -> tuple[Run, str]:
        """A run whose tool does this; with the stderr of the run."""
        self.as_user("sh", "-c", f"cat > {self.home}/script <<'END'\n{script}\nEND")
        run, _ = self.house.fire(self.name)
        return run, str(self.house.ask("runs.output", run_id=run.id, stream="stderr")["text"])

    def succeeds(self, script: str) -> str:
        run, errors = self.does(script)
        assert run.state == "succeeded", (run.outcome, errors)
        return errors


def memory_kb(house: House) -> int:
    """The most memory that the engine has had."""
    status = Path(f"/proc/{house.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


# -- settings of gemini and qwen


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_a_link_in_the_tool_s_home_leads_nowhere(account: Ordinary, isolation: str) -> None:
    """B16: `.gemini` as a link to the home of Matins, and a file of ours to be put in the place of matins.yaml"""
    one = House(account.home / f"linked-{isolation}", user=account).up()
    try:
        tool = Tool(one, account, f"linked-tool-{isolation}", "gemini", isolation=isolation)
        home = f"{tool.settings}/gemini"
        tool.succeeds(f"""
            mkdir -p ~/.gemini {home}; echo 'schedules: {{}}' > ~/.gemini/matins.yaml
            rm -rf {home}/.gemini; ln -s {one.home} {home}/.gemini
            """)
        errors = tool.succeeds(":")
        replaced = [(one.home / name).is_symlink() for name in ("matins.yaml", "tmp", "history")]
        assert replaced == [isolation == "none"] * 3
        assert (one.home / "settings.json").exists() is (isolation == "none")
        assert ("starts without the tools of Matins" in errors) is (isolation == "required")
    finally:
        one.kill()


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_hidden_files_are_not_copied_into_the_tool_s_settings(
    house: House, account: Ordinary, isolation: str
) -> None:
    """B16: settings.json as a link to a file of Matins; the settings are then those of a user who has none"""
    tool = Tool(house, account, f"copied-{isolation}", "gemini", isolation=isolation)
    tool.succeeds(f"rm -f ~/.gemini/settings.json; ln -s {house.home}/daemon.json ~/.gemini/settings.json")
    tool.succeeds("cat $GEMINI_CLI_HOME/.gemini/settings.json > ~/seen")
    seen = json.loads((tool.home / "seen").read_text())
    assert "matins" in seen["mcpServers"]
    assert ("started_at" in seen) is (isolation == "none")


PLANTED = {
    "pipe": "mkfifo settings.json",
    "sparse": "truncate -s 900M settings.json",
    "nested": "yes '{\"a\":' | head -n 100000 > settings.json",
    "comments": "(echo '{'; yes '/*' | head -n 300000) > settings.json",
    "fine": "echo '{\"a\": 1} // mine' > settings.json",
}


@pytest.mark.parametrize("case", PLANTED)
def test_b16_settings_that_are_none_cost_the_engine_nothing(house: House, account: Ordinary, case: str) -> None:
    """B16: no thread waits for a pipe, and no memory is taken for a long file; settings that are fine are used"""
    # In a folder of the user's: its own is made for the settings alone.
    workdir = str(account.home / "bin")
    tool = Tool(house, account, f"planted-{case}", "gemini", isolation="required", workdir=workdir)
    before = memory_kb(house)
    tool.succeeds(f"cd ~/.gemini; rm -f settings.json; {PLANTED[case]}")
    tool.succeeds('echo "$GEMINI_CLI_HOME" > ~/seen')
    assert memory_kb(house) - before < MAX_GROWTH_KB
    assert bool((tool.home / "seen").read_text().strip()) is (case == "fine")


@as_root
def test_b16_with_an_account_gemini_has_the_tools_of_matins(root_house: House, tenant: Ordinary) -> None:
    """B16 C13: and its own files belong to the account"""
    tool = Tool(root_house, tenant, "of-an-account", "gemini", user=tenant.name)
    tool.succeeds("cat $GEMINI_CLI_HOME/.gemini/settings.json > ~/seen; env > ~/variables")
    assert "matins" in json.loads((tool.home / "seen").read_text())["mcpServers"]
    assert "MATINS_TOOL_SETTINGS" not in (tool.home / "variables").read_text()
    settings = tool.home / ".matins/of-an-account/gemini/.gemini/settings.json"
    assert (settings.stat().st_uid, settings.stat().st_mode & 0o777) == (tenant.uid, 0o600)


@as_root
@pytest.mark.parametrize("link", ["qwen.new", "qwen.json", "."])
def test_b16_root_writes_no_file_for_an_account(root_house: House, tenant: Ordinary, link: str, tmp_path: Path) -> None:
    """B16: a link in the place of each file that is written: root would overwrite its target, and give it away"""
    victim = tmp_path / "qwen.json"
    victim.write_text("root's")
    tool = Tool(root_house, tenant, f"victim-{link.strip('.')}", "qwen", user=tenant.name)
    for own in (tool.settings, ".matins"):  # in its home, and in its folder
        plant = f"ln -s {tmp_path} {own}" if link == "." else f"mkdir -p {own}; ln -s {victim} {own}/{link}"
        tool.succeeds(f"rm -rf {own}; mkdir -p $(dirname {own}); {plant}")
    tool.succeeds(":")
    assert (victim.read_text(), victim.stat().st_uid) == ("root's", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["qwen.json"]
    tool.succeeds(f"rm -rf {tool.settings}")
    tool.succeeds("cat $QWEN_CODE_SYSTEM_DEFAULTS_PATH > ~/seen")
    assert "matins" in json.loads((tool.home / "seen").read_text())["mcpServers"]


# -- the records of goose


def spends(house: House, account: Ordinary, name: str) -> Run:
    """A run of another agent, which passes its limit, and is ended for it."""
    variables = {"PATH": standin_path(), "STANDIN_HOME": str(account.home), "STANDIN_FAULT": "stays"}
    settings = {"isolation": "none"} if house.user is None else {}
    house.ask("agents.set", name=name, runner="claude", environment=variables, mcp=False, **settings)
    house.ask("schedules.add", name=name, when="every 1 day", agent=name, prompt="x" * 8_000, max_tokens=1_000)
    return house.fire(name)[0]


def ended(tool: Tool, during: Callable[[], None]) -> Run:
    """The run of a goose that has said something, was there for a while, and ended."""
    house = tool.house
    run = house.client.run(tool.name)
    while "message" not in house.client.runs.output(run.id).text:
        house.client.runs.wait(run.id, timeout=0.1)
    during()
    tool.as_user("touch", f"{tool.home}/end")
    return house.client.runs.wait(run.id, timeout=90)


@pytest.mark.parametrize("case", ["honest", "view", "pipe", "journal", "link", "log"])
def test_b16_records_of_goose_do_not_block_the_daemon(house: House, account: Ordinary, case: str) -> None:
    """B16 B5: an endless view, a pipe, also as a journal, a link to our store, a log of 900 MB: other runs are ended at
    their limits meanwhile, and the run itself ends; what it said is counted where its records tell nothing"""
    more = {"CASE": case, "TARGET": str(house.home / "matins.db")}
    tool = Tool(house, account, f"goose-{case}", "goose", isolation="required", more=more)
    before = memory_kb(house)

    def during() -> None:
        assert spends(house, account, f"beside-{case}").state == "over_budget"

    run = ended(tool, during)
    assert run.state == "failed"
    used = run.outcome["result"]["tokens"]
    assert used == RECORDED if case in ("honest", "log") else used["out"] == SAID
    assert memory_kb(house) - before < MAX_GROWTH_KB


def other_store(path: Path) -> None:
    """A store of goose that has recorded something of every session that a run may get."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT, name TEXT, created_at TEXT)")
        names = [(str(uuid.uuid5(SESSIONS, f"{run}-1")),) for run in range(1, 1_000)]
        connection.executemany("INSERT INTO sessions VALUES ('1', ?, '')", names)
        connection.execute("""CREATE VIEW usage_ledger AS SELECT '1' AS session_id, 1 AS created_timestamp,
            500 AS input_tokens, 50 AS output_tokens, 100 AS cache_read_tokens""")
    connection.close()


@pytest.mark.parametrize("isolation", ["none", "required"])
def test_b16_records_of_goose_are_read_inside_the_walls(house: House, account: Ordinary, isolation: str) -> None:
    """B16: through a link to a store that is hidden from the agent, nothing is known of it"""
    folder = account.home / f"hidden-{isolation}"
    folder.mkdir()
    other_store(folder / "store.db")
    more = {"CASE": "link", "TARGET": str(folder / "store.db")}
    name = f"goose-hidden-{isolation}"
    tool = Tool(house, account, name, "goose", isolation=isolation, hidden=[str(folder)], more=more)
    used = ended(tool, lambda: None).outcome["result"]["tokens"]
    assert used == RECORDED if isolation == "none" else used["out"] == SAID


def test_b9_records_of_goose_count_for_a_run_that_outlives_its_engine(account: Ordinary) -> None:
    """B9 B4: the engine that adopts the run reads them"""
    one = House(account.home / "adopted", user=account).up()
    tool = Tool(one, account, "goose-adopted", "goose", isolation="required", more={"CASE": "honest"})
    run = one.client.run(tool.name)
    while "message" not in one.client.runs.output(run.id).text:
        one.client.runs.wait(run.id, timeout=0.1)
    one.kill()
    two = House(account.home / "adopted", user=account).up()
    try:
        tool.as_user("touch", f"{tool.home}/end")
        found = two.client.runs.wait(run.id, timeout=90)
        assert found.outcome["result"]["tokens"] == RECORDED, found.outcome
    finally:
        two.kill()


@as_root
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_b16_records_of_goose_are_not_read_as_root(root_house: House, tenant: Ordinary, mode: int) -> None:
    """B16: through a link to a store that the account may not read, nothing is known of it"""
    store = Path(f"/var/tmp/{tenant.name}-{mode:o}.db")
    store.unlink(missing_ok=True)
    other_store(store)
    store.chmod(mode)
    more = {"CASE": "link", "TARGET": str(store)}
    tool = Tool(root_house, tenant, f"goose-{mode:o}", "goose", user=tenant.name, more=more)
    used = ended(tool, lambda: None).outcome["result"]["tokens"]
    store.unlink()
    assert used == RECORDED if mode == 0o644 else used["out"] == SAID


@as_root
@pytest.mark.parametrize("case", ["honest", "view"])
def test_b16_records_of_goose_are_read_as_the_account(root_house: House, tenant: Ordinary, case: str) -> None:
    """B16 B4: in the home of the account"""
    tool = Tool(root_house, tenant, f"goose-{case}", "goose", user=tenant.name, more={"CASE": case})
    used = ended(tool, lambda: None).outcome["result"]["tokens"]
    assert used == RECORDED if case == "honest" else used["out"] == SAID
