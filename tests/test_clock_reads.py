"""Only the clock reads the clock: `now` is an argument everywhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import matins

pytestmark = pytest.mark.usefixtures("undisturbed")
SOURCE = Path(matins.__file__).parent
READS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime",
             "clock_gettime_ns", "localtime", "gmtime", "strftime", "ctime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}  # fmt: skip
MAY_READ = {
    "runtime/clock.py": "it is the clock",
    "net/outbound.py": "deadlines of sockets, on which no schedule depends",
    "executors/processes/proc.py": "keeper and wardens, which go on when there is no engine to hand them a clock",
    "seeds/cortex/tasks.py": "patience for a lock that another process holds",
    "surfaces/cli/times.py": "how far an instant is from whoever reads",
    "surfaces/transports/http_client.py": "how long a follower of events has heard nothing",
    "api/runs.py": "how long the caller of `runs.wait` waits",
}


def clock_reads(text: str) -> Iterator[str]:
    """The places that read a clock, also under another name: `from time import monotonic as tick`."""
    tree = ast.parse(text)
    modules: dict[str, str] = {"datetime": "datetime", "date": "date"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name == "time"}
            modules |= {alias.asname: "datetime" for alias in node.names if alias.name == "datetime" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in READS}
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"{node.lineno}: from time import {a.name}" for a in node.names if a.name in READS["time"])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if node.attr in READS.get(modules.get(owner, ""), ()):
                yield f"{node.lineno}: {owner}.{node.attr}"


def test_only_the_clock_reads_the_clock() -> None:
    found = {str(path.relative_to(SOURCE)): [*clock_reads(path.read_text("utf-8"))] for path in SOURCE.rglob("*.py")}
    assert {name: reads for name, reads in found.items() if reads and name not in MAY_READ} == {}
    assert MAY_READ.keys() <= found.keys()


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.monotonic()",
        "import time as clock\nclock.time()",
        "from time import monotonic\nmonotonic()",
        "from time import perf_counter as tick",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import date as day\nday.today()",
        "import datetime\ndatetime.datetime.utcnow()",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "import time\nread = time.monotonic",
    ],
)
def test_every_way_to_read_it_is_found(text: str) -> None:
    assert [*clock_reads(text)]


@pytest.mark.parametrize(
    "text", ["import time\ntime.sleep(1)", "class A:\n    def now(self): ...\nA().now()", "from time import sleep"]
)
def test_nothing_else_is(text: str) -> None:
    assert not [*clock_reads(text)]
