"""The examples of docs/cli.md, typed one after the other. Run it to renew what they print."""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_daemon import served
from cli_user import User

from matins.surfaces.cli import times
from matins.surfaces.cli.context import CliContext
from matins.testing import ManualClock, Sandbox

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
START = "2026-03-27T08:00:00Z"
_SESSION = re.compile(r"(```shell-session\n)(.*?)(```)", re.DOTALL)
_COMMAND = re.compile(r"^(?:\$ .*|# at [0-9:]+)$", re.MULTILINE)


def rendered(page: str, folder: Path, *, over_http: bool = False) -> str:
    """The page with what each command prints now, by the store itself or by a daemon."""
    with pytest.MonkeyPatch.context() as patch:
        bench = Sandbox(f"sqlite:///{folder}/matins.db", clock=ManualClock(START))
        for job in ("scheduled-task", "backup"):
            bench.job(job)(lambda run: None)
        patch.setattr(times, "now", lambda: datetime.fromtimestamp(bench.clock.now_ms() / 1000, UTC))
        patch.setattr(CliContext, "wait", lambda context, seconds: bench.settle())
        patch.setenv("TZ", "UTC")
        time.tzset()
        typist = Typist(bench)
        try:
            with served(bench) if over_http else nullcontext() as client:
                if client is not None:
                    patch.setattr(typist.user.app, "transport", lambda **location: client)
                return _SESSION.sub(lambda found: found[1] + typist.session(found[2]) + found[3], page)
        finally:
            bench.engine.close()
            bench.close()
            patch.undo()
            time.tzset()


class Typist:
    def __init__(self, bench: Sandbox) -> None:
        self.bench = bench
        self.user = User(bench)
        self.code = 0

    def session(self, text: str) -> str:
        return "".join(f"{line}\n{self.prints(line)}" for line in _COMMAND.findall(text))

    def prints(self, line: str) -> str:
        if line.startswith("# at "):
            self.bench.run_until(f"2026-03-27T{line.removeprefix('# at ')}:00Z")
            return ""
        if line == "$ echo $?":
            return f"{self.code}\n"
        result = self.user.types(*shlex.split(line.removeprefix("$ matins "), comments=True), code=None)
        self.code = result.exit_code
        self.bench.settle()
        return result.output


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), Path(temporary)), encoding="utf-8")
