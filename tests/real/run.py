"""Drives real tools through `matins up`, and prints a table of tools and cases. See `make test-real`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from house import Ordinary, ordinary_account
from real import first_agent  # noqa: F401 - its case
from real.bench import Bench, Ran
from real.cases import CASES, Unreached
from real.install import cache, installed, version_of
from real.tools import TOOLS, Tool

_ALONE = ("kill_and_adopt", "at_a_keyboard")
"""Cases that end the daemon or change the tool's own settings: each has a daemon and a home of its own."""
_lock = threading.Lock()


class Cell(NamedTuple):
    tool: str
    case: str
    mark: str
    words: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    began = time.monotonic()
    tools = [TOOLS[name] for name in options.tool or TOOLS]
    programs = installed(tools)
    versions = {tool.name: version_of(programs, tool) for tool in tools}
    _say("  ".join(f"{name} {version}" for name, version in versions.items()))
    folder = Path(tempfile.mkdtemp(prefix="runs-", dir=cache()))
    folder.chmod(0o755)
    with ordinary_account("matins-real") as user, ThreadPoolExecutor(options.jobs) as pool:
        cells = [cell for tool in tools for cell in _drive(pool, tool, programs, folder, user, options)]
    _say(table(cells, versions))
    failed = [cell for cell in cells if cell.mark == "✗"]
    for cell in cells:
        if cell.mark != "✓":
            _say(f"{cell.mark} {cell.tool} {cell.case}: {cell.words}")
    _say(f"{len(cells)} cells in {time.monotonic() - began:.0f} s, {len(failed)} failed; runs are in {folder}")
    return 1 if failed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="only this tool; may be repeated")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    parser.add_argument("--jobs", type=int, default=4, help="cases at a time")
    parser.add_argument("--record", type=Path, help="keep what the tools wrote in this folder")
    return parser.parse_args(arguments)


def _drive(
    pool: ThreadPoolExecutor, tool: Tool, programs: Path, folder: Path, user: Ordinary, options: argparse.Namespace
) -> list[Cell]:
    names = [name for name in options.case or CASES if name not in _ALONE]
    alone = [name for name in options.case or CASES if name in _ALONE]
    bench = Bench(tool, programs, folder, user)
    try:
        # The first one alone: opencode makes its database then, and several of it at once fail.
        cells = [_cell(bench, name, options) for name in names[:1]]
        cells += pool.map(lambda name: _cell(bench, name, options), names[1:])
    finally:
        bench.close()
    for name in alone:
        bench = Bench(tool, programs, folder, user, name=name)
        try:
            cells.append(_cell(bench, name, options))
        finally:
            bench.close()
    return cells


def _cell(bench: Bench, name: str, options: argparse.Namespace) -> Cell:
    began = time.monotonic()
    try:
        ran = CASES[name](bench)
        mark, words = "✓", ""
        if options.record is not None and ran is not None:
            _record(bench, name, ran, options.record)
    except Unreached as reason:
        mark, words = "–", str(reason)
    except AssertionError as error:
        mark, words = "✗", str(error)
    except Exception:
        mark, words = "✗", traceback.format_exc()
    cell = Cell(bench.tool.name, name, mark, words, time.monotonic() - began)
    _say(f"  {mark} {cell.tool:9} {name:18} {cell.seconds:6.1f} s  {words[:300]}")
    return cell


def _record(bench: Bench, name: str, ran: Ran, folder: Path) -> None:
    from real.recordings import record

    record(bench, name, ran, folder)


def table(cells: Sequence[Cell], versions: dict[str, str]) -> str:
    """Cases by tools, as Markdown."""
    marks = {(cell.case, cell.tool): cell.mark for cell in cells}
    tools = list(versions)
    cases = [name for name in CASES if any(cell.case == name for cell in cells)]
    head = f"| case | {' | '.join(f'{tool} {versions[tool]}' for tool in tools)} |"
    rows = [f"| {name} | {' | '.join(marks.get((name, tool), ' ') for tool in tools)} |" for name in cases]
    return "\n".join([head, f"| --- |{' --- |' * len(tools)}", *rows])


def _say(words: str) -> None:
    with _lock:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
