"""How many modules of Matins a command loads, in a process of its own: ceilings, which only fall.

Which packages a command may load at all is said where the command is tested. `python tests/test_modules_loaded.py`
prints today's numbers; with --names also the modules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "surfaces" / "http"))

from http_server import HttpServer

from matins.mcp.app import McpApp

CEILINGS = {
    "import matins": 2,
    "import matins.library": 252,
    "matins --help": 17,
    "matins list": 33,
    "matins runs": 32,
    "matins add 'every day at 9am' --agent scout Hello": 65,
    "matins add --help": 34,
    "matins mcp": 27,
}
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
_LOADED = """
import json, shlex, sys
line = sys.argv[1]
try:
    if line.startswith("import "):
        exec(line)
    else:
        sys.argv = shlex.split(line)
        from matins.app import main
        main()
finally:
    names = sorted(name for name in sys.modules if name.partition(".")[0] == "matins")
    print("LOADED", json.dumps(names), file=sys.stderr)
"""


@contextmanager
def daemon(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of commands that reach a daemon. `matins mcp` is in a run, as agents start it."""
    server = HttpServer("sqlite://", start=False, parts=[McpApp("http://page.test")])
    try:
        server.matins.agents.set("scout", runner="demo")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_")}
        yield {**kept, "TZ": "UTC", "MATINS_HOME": str(folder), "MATINS_URL": server.url, "MATINS_TOKEN": server.token}
    finally:
        server.close()


def loaded(line: str, environment: dict[str, str]) -> list[str]:
    if line == "matins mcp":
        environment = {**environment, "MATINS_IN_RUN": "1"}
        del environment["MATINS_HOME"]
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, line],
        input=PING, env=environment, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if line == "matins mcp":
        assert "result" in json.loads(done.stdout), done.stdout
    return json.loads(done.stderr.rpartition("LOADED")[2])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with daemon(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.mark.parametrize("line", CEILINGS)
def test_a_command_loads_no_more_modules(line: str, environment: dict[str, str]) -> None:
    modules, ceiling = loaded(line, environment), CEILINGS[line]
    assert len(modules) <= ceiling, f"{line} loads {len(modules)} modules, not {ceiling}: {' '.join(modules)}"
    assert len(modules) >= ceiling * 0.9, f"{line} loads {len(modules)} modules: lower its ceiling"


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_loading_leaves_the_collector_as_it_was(state: str) -> None:
    """It is off while modules are loaded, also when one of them cannot be."""
    program = (
        f"import gc, sys, matins; gc.{state}(); before = gc.isenabled()\n"
        "sys.modules['matins.surfaces.client'] = None\n"
        "try:\n    matins.Client\nexcept ImportError:\n    assert gc.isenabled() == before\n"
        "else:\n    raise SystemExit('it was loaded')\n"
        "matins.Matins; assert gc.isenabled() == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=90)


def test_a_command_collects_no_garbage(tmp_path: Path) -> None:
    program = (
        "import gc, sys\n"
        "from matins.app import main\n"
        "before = gc.get_stats()\n"
        f"sys.argv = ['matins', '--home', {str(tmp_path)!r}, 'list']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*(now['collections'] - then['collections'] for now, then in zip(gc.get_stats(), before, strict=True)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=90, capture_output=True, text=True)
    youngest, *others = map(int, done.stdout.splitlines()[-1].split())
    assert youngest <= 2, done.stdout
    assert others == [0, 0]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, daemon(Path(temporary)) as around:
        for named in CEILINGS:
            found = loaded(named, around)
            print(f'"{named}": {len(found)},', *(found if "--names" in sys.argv else ()))  # noqa: T201
