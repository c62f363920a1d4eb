"""Runs tests against a copy of Matins from which a guard was taken out: `make mutants`."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "docs", "pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile")
FAILED = 1
"""pytest's exit code when tests failed; others mean that they were not run."""
LIMIT_S = 60
"""A test that takes longer hangs, unless one takes long with all guards in place."""
SLOWER = 2
ALL_LIMIT_S = 900
_DURATION = re.compile(r"(?m)^(\d+\.\d+)s (?:setup|call|teardown) ")
SAVED = threading.Lock()


class Copy:
    """A copy of the repository with an environment of its own, in which the packages of this one are seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limit_s = LIMIT_S
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, folder / name)
        environment = folder / ".venv"
        venv.EnvBuilder(symlinks=True).create(environment)
        self.python = environment / "bin" / "python"
        packages = next((environment / "lib").glob("python*")) / "site-packages"
        (packages / "copy.pth").write_text(f"{folder / 'src'}\n{_own_packages()}\n")
        program = environment / "bin" / "matins"
        program.write_text(f"#!{self.python}\nfrom matins.app import main\nmain()\n")
        program.chmod(0o755)

    def run(self, *tests: str, stop: bool = True) -> tuple[int, str]:
        """The exit code of pytest, and what it printed."""
        environment = {
            **os.environ,
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
            environment.pop(name, None)
        command = [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-x", f"--timeout={self.limit_s}"] if stop else [f"--timeout={ALL_LIMIT_S}", "--durations=1"]
        with tempfile.TemporaryFile("w+") as output:
            code = subprocess.run(
                [*command, *(f"tests/{test}" for test in tests)],
                cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
                timeout=4 * self.limit_s if stop else None, check=False,
            ).returncode  # fmt: skip
            output.seek(0)
            return code, output.read()

    @contextlib.contextmanager
    def without(self, mutant: Mutant) -> Generator[None]:
        path = self.folder / "src" / "matins" / mutant.file
        before = path.read_text(encoding="utf-8")
        changed = _changed(before, mutant)
        compile(changed, mutant.file, "exec")
        path.write_text(changed, encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")


def _changed(source: str, mutant: Mutant) -> str:
    if source.count(mutant.text) != 1:
        raise LookupError(f"{mutant.file}: {source.count(mutant.text)} times, not once: {mutant.text!r}")
    return source.replace(mutant.text, mutant.without)


def _own_packages() -> str:
    return next(path for path in sys.path if path.endswith("site-packages"))


def check_text(mutant: Mutant) -> None:
    """Raise LookupError unless the guard is where the table says."""
    source = (ROOT / "src" / "matins" / mutant.file).read_text(encoding="utf-8")
    compile(_changed(source, mutant), mutant.file, "exec")


@contextlib.contextmanager
def copied() -> Generator[Copy]:
    """A copy in a folder that other accounts can read, too."""
    folder = Path(tempfile.mkdtemp(prefix="matins-mutant-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield Copy(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def survived(copy: Copy, mutant: Mutant) -> str | None:
    """Why the mutant lives on; None when its test fails as it should."""
    with copy.without(mutant):
        try:
            code, output = copy.run(mutant.test)
        except subprocess.TimeoutExpired:
            return None  # it hangs without the guard
    if code == FAILED:
        return None
    return f"pytest ended with {code}\n{output[-2000:]}"


def _run_all(mutants: Sequence[Mutant], jobs: int) -> int:
    copies: SimpleQueue[Copy] = SimpleQueue()
    problems: list[Mutant] = []

    def run(mutant: Mutant) -> None:
        copy, began = copies.get(), time.monotonic()
        try:
            problem = survived(copy, mutant)
        except LookupError as error:
            problem = str(error)
        finally:
            copies.put(copy)
        with SAVED:
            if problem is not None:
                problems.append(mutant)
            print(f"{'LIVES' if problem else 'dies '} {time.monotonic() - began:5.1f} s  {mutant.file}  {mutant.test}")  # noqa: T201
            if problem:
                print(f"       without {mutant.text!r}\n{problem}", flush=True)  # noqa: T201

    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(copied()) for _ in range(jobs)]
        code, output = made[0].run(*sorted({mutant.test for mutant in mutants}), stop=False)
        if code:
            print(f"Tests fail with all guards in place:\n{output[-4000:]}")  # noqa: T201
            return 1
        for copy in made:  # slow is not dead: other work may have the cores
            copy.limit_s = max(LIMIT_S, SLOWER * round(max(map(float, _DURATION.findall(output)), default=0)))
            copies.put(copy)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, mutants))
    print(f"{len(mutants)} mutants, {len(problems)} live on")  # noqa: T201
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="Mutants whose file, test or promise contains this.")
    parser.add_argument("--jobs", type=int, default=2, help="How many at a time.")
    given = parser.parse_args()
    chosen = [
        mutant
        for promise, mutants in MUTANTS.items()
        for mutant in mutants
        if given.only in f"{promise} {mutant.file} {mutant.test}" and (os.geteuid() == 0 or not mutant.root)
    ]
    return _run_all(chosen, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
