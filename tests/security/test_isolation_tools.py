"""Tools of agents work inside the walls: ssh with included files, npm, git over a bare repository, and sandboxes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator

import pytest

from house import House, Ordinary, ordinary_account

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


@pytest.fixture(scope="module")
def house(account: Ordinary) -> Iterator[House]:
    one = House(account.home / "home", user=account).up()
    yield one
    one.kill()


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
