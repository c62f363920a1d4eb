"""Tools for agents beside the engine: how late fires are while tools are called; how quickly `matins mcp` starts.

A Matins on a SQLite file fires every 50 ms: alone, while tools are called, and, where the SDK of MCP is installed,
while that is imported. The last is why Matins has a protocol of its own. Each round is a process, since a process
imports once. One JSON line has the measures, then come the aims.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

LATE_AIM_MS = 10
"""How much later the median fire may be, while tools are called, than without."""
START_AIM_MS = 150
FIRING, GAP_S, SECONDS = 20, 0.05, 2.0


def one_round(folder: Path) -> None:
    """Print the latenesses in milliseconds: alone, while tools are called, while the SDK is imported."""
    from matins import Matins
    from matins.api.use_case import Caller
    from matins.mcp.json_rpc import read, request_of
    from matins.mcp.principal_calls import PrincipalCalls
    from matins.mcp.tool_server import ToolServer
    from matins.model.access import OWNER

    late: list[float] = []
    matins = Matins(f"sqlite:///{folder}/matins.db")
    desk = PrincipalCalls(cast("Caller", matins), OWNER, "http://127.0.0.1:7411")
    server = ToolServer(asyncio.to_thread)
    message = read(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status"}}))

    @matins.job("note")
    def note(run: Any) -> None:
        if run.slot is not None:
            late.append(time.time() * 1000 - run.slot.timestamp() * 1000)

    async def call() -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            answer = await server.answer(message, request_of(message), desk, "")
            assert answer is not None
            assert not answer["result"]["isError"], answer
            await asyncio.sleep(GAP_S)

    def load() -> None:
        if find_spec("mcp") is not None:
            thread = threading.Thread(target=import_module, args=("mcp.server.streamable_http_manager",))
            thread.start()
            thread.join()

    found: list[list[float]] = []
    with matins:
        for n in range(FIRING):
            matins.add(f"fire-{n}", when="1s", job="note", anchor="grid")
            time.sleep(GAP_S)
        time.sleep(1)
        for work in (lambda: time.sleep(SECONDS), lambda: asyncio.run(call()), load):
            late.clear()
            work()
            found.append(list(late))
    sys.stdout.write(json.dumps(found))


def rounds(count: int) -> list[list[float]]:
    found: list[list[float]] = [[], [], []]
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--round", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for all_of_it, part in zip(found, json.loads(done.stdout), strict=True):
            all_of_it += part
    return found


def start() -> tuple[float, float]:
    """Milliseconds from the start of `matins mcp` to its end, and of CPU. Its daemon is away: the bridge counts."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    environment = {**os.environ, "MATINS_IN_RUN": "1", "MATINS_URL": "http://127.0.0.1:1", "MATINS_TOKEN": "mtr_1_1_x"}
    before, began = _children_s(), time.perf_counter()
    done = subprocess.run([Path(sys.executable).with_name("matins"), "mcp"], input=line, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    took, cpu = time.perf_counter() - began, _children_s() - before
    assert '"error"' in done.stdout, done.stderr
    return took * 1000, cpu * 1000


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--round", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--starts", type=int, default=20)
    options = parser.parse_args()
    if options.round is not None:
        one_round(options.round)
        return
    alone, called, imported = rounds(options.rounds)
    starts = [start() for _ in range(options.starts)]
    wall, cpu = (statistics.median(values) for values in zip(*starts, strict=True))
    report: dict[str, Any] = {"load": round(os.getloadavg()[0], 1), "start_ms": round(wall), "start_cpu_ms": round(cpu)}
    for name, values in (("alone", alone), ("tools are called", called), ("the SDK is imported", imported)):
        if values:
            percentiles = {f"p{percent}": round(percentile(values, percent), 1) for percent in (50, 90, 99)}
            report[name] = {**percentiles, "fires": len(values)}
    later = statistics.median(called) - statistics.median(alone)
    sys.stdout.write(
        f"{json.dumps(report)}\n"
        f"fires are {later:.1f} ms later while tools are called (aim: at most {LATE_AIM_MS})\n"
        f"matins mcp takes {wall:.0f} ms, {cpu:.0f} ms of CPU (aim: under {START_AIM_MS})\n"
    )


if __name__ == "__main__":
    main()
