"""Tools of agents work inside the walls: ssh with included files, npm, git over a bare repository, and sandboxes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from house import House, Ordinary, ordinary_account
from matins import Client, Matins

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of root")


def needs(program: str) -> pytest.MarkDecorator:
    """`make test-real` requires it."""
    missing = shutil.which(program) is None and "MATINS_TEST_REAL" not in os.environ
    return pytest.mark.skipif(missing, reason=f"no {program} here; make test-real requires it")


INCLUDED = """
set -e
mount -t tmpfs none /etc/ssh/ssh_config.d
mkdir /etc/ssh/ssh_config.d/more
printf 'Include /etc/ssh/ssh_config.d/more/*.conf\\nHost one.test\\n  Port 2201\\n' > /etc/ssh/ssh_config.d/one.conf
printf 'Host two.test\\n  Port 2202\\n' > /etc/ssh/ssh_config.d/more/two.conf
grep -qs '^Include /etc/ssh/ssh_config.d' /etc/ssh/ssh_config
exec setpriv --reuid {uid} --regid {gid} --clear-groups {up}
"""
"""Root's own view of its ssh configuration, with files that include each other."""


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account("matins-tools") as made:
        yield made


def ran(house: House, name: str, script: str) -> str:
    house.shell(name, script, isolation="required")
    run, output = house.fire(name)
    assert run.state == "succeeded", (run.outcome, house.ask("runs.output", run_id=run.id, stream="stderr"))
    assert run.outcome["result"]["isolated"] is True
    return output


@as_root
@needs("ssh")
def test_b16_ssh_reads_files_that_include_each_other(account: Ordinary) -> None:
    """B16: root's files belong to nobody inside, and ssh refuses such files where they are included"""
    up = shlex.join([sys.executable, "-m", "matins", "up", "--port", "0"])
    script = INCLUDED.format(uid=account.uid, gid=account.gid, up=up)
    folder = account.home / "with-ssh"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    one = House(folder / "home", program=("unshare", "-m", "sh", "-c", script), **account.environment).up()
    try:
        said = ran(one, "ssh", "for host in one two; do ssh -G $host.test | grep '^port'; done")
        assert said.splitlines() == ["port 2201", "port 2202"]
    finally:
        one.kill()


@needs("npm")
def test_b16_npm_installs_inside(house: House) -> None:
    """B16: a package from the disk, with a command that runs"""
    script = """
        set -e
        mkdir tool work; cd tool
        echo '{"name": "tool", "version": "1.0.0", "bin": {"tool": "tool.js"}}' > package.json
        printf '#!/usr/bin/env node\\nconsole.log("tool works")\\n' > tool.js; chmod +x tool.js
        cd ../work; echo '{"name": "work", "version": "1.0.0"}' > package.json
        npm install --offline --no-audit --no-fund --silent ../tool >&2
        node_modules/.bin/tool
        """
    assert ran(house, "npm", script) == "tool works\n"


@needs("bwrap")
def test_b16_bubblewrap_works_inside_and_shows_nothing_more(house: House) -> None:
    """B16: the sandbox of Claude Code and Codex on Linux"""
    inside = f"ls {house.home}; cat {house.home}/token 2>/dev/null || echo refused"
    script = f"exec bwrap --ro-bind / / --dev /dev --proc /proc --unshare-pid sh -c {shlex.quote(inside)}"
    assert ran(house, "bwrap", script).splitlines() == ["agents", "refused"]


def put_tool(account: Ordinary, name: str, isolation: str, script: str) -> Path:
    """A tool of the account in a folder of its own, which the account can write."""
    folder = account.home / f"{name}-{isolation}"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return tool


def sees_home(tool: Path) -> bool:
    """Whether the tool, which listed the home of Matins in `seen`, found the owner's token there."""
    return "token" in (tool.parent / "seen").read_text().split()


@pytest.mark.parametrize(("isolation", "seen"), [("none", True), ("required", False)])
def test_b16_a_tool_is_asked_for_its_options_behind_the_walls(
    house: House, account: Ordinary, isolation: str, seen: bool
) -> None:
    """B16: an agent may have replaced the tool, which must not free it; without walls it would see the home"""
    listed = f"ls {house.home} >seen; echo $PPID >by"
    tool = put_tool(account, "opencode", isolation, f'cd "${{0%/*}}"; case "$*" in *--help*) {listed};; esac')
    variables = {"PATH": f"{tool.parent}:/usr/bin:/bin"}
    house.ask("agents.set", name=isolation, runner="opencode", environment=variables, isolation=isolation)
    house.ask("schedules.add", name=isolation, when="every 1 day", agent=isolation, prompt="Go.", retries=0)
    house.fire(isolation)
    assert sees_home(tool) is seen
    assert int((tool.parent / "by").read_text()) != house.process.pid


def test_b16_only_the_owner_can_have_a_tool_started_for_its_version(house: House, account: Ordinary) -> None:
    """B16: an agent that replaced a tool cannot have the daemon start it"""
    tool = account.home / "goose"
    tool.write_text(f"#!/bin/sh\necho started >>{account.home}/started\necho 1.2.3\n")
    tool.chmod(0o755)
    house.ask("agents.set", name="versions", runner="goose", command=[str(tool)])
    made = house.ask("tokens.create", name="reader", role="agent", rights=["read"])
    with closing(Client(house.url, made["token"])) as reader:
        for client, version in ((reader, None), (house.client, "1.2.3")):
            (found,) = [one for one in client.system.tools() if one.agent == "versions"]
            assert (found.version, (account.home / "started").exists()) == (version, version is not None)


@pytest.mark.parametrize(("isolation", "seen"), [("none", True), ("required", False)])
def test_b16_a_tool_tells_its_version_behind_the_walls(
    house: House, account: Ordinary, isolation: str, seen: bool
) -> None:
    """B16: the owner lists the agents, and one of them has replaced its tool; without walls it would see the home"""
    tool = put_tool(account, "goose", isolation, f'cd "${{0%/*}}"; ls {house.home} >seen; echo $PPID >by; echo 1.2.3')
    name = f"told-{isolation}"
    house.ask("agents.set", name=name, runner="goose", command=[str(tool)], isolation=isolation)
    (found,) = [one for one in house.client.system.tools() if one.agent == name]
    assert found.version == "1.2.3"
    assert sees_home(tool) is seen
    assert int((tool.parent / "by").read_text()) != house.process.pid
    (again,) = [one for one in house.client.system.tools() if one.agent == name]
    assert again == found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has agents of another account")
def test_b16_a_tool_of_an_account_is_not_started_by_root_for_its_version(account: Ordinary, tmp_path: Path) -> None:
    """B16: it tells its version as its account"""
    tool = account.home / "versions-of-an-account"
    tool.write_text("#!/bin/sh\necho 1.2.$(id -u)\n")
    tool.chmod(0o755)
    account.home.chmod(0o755)
    with Matins(f"sqlite:///{tmp_path}/matins.db") as matins:
        matins.agents.set("theirs", runner="goose", command=[str(tool)], user=account.name)
        matins.agents.set("ours", runner="goose", command=[str(tool)], isolation="none")
        found = {tool.agent: tool.version for tool in matins.system.tools()}
    assert (found["theirs"], found["ours"]) == (f"1.2.{account.uid}", "1.2.0")
