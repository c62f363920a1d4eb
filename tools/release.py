"""`make release VERSION=1.2.0`: changelog, wheel and sdist that were installed and tried, bill of materials, tag.

It uploads nothing: the last line says how.

`--check` builds, installs and tries what is here, and changes nothing in the tree.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
VERSION_FILE = ROOT / "src/matins/_version.py"
CHANGELOG = ROOT / "CHANGELOG.md"
CONSTRAINTS = ROOT / "constraints.txt"
_HEADING = "## Unreleased\n"
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_PATIENCE_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--constraints", action="store_true", help="renew constraints.txt, and nothing else")
    asked = parser.parse_args()
    if asked.constraints:
        write_constraints()
        return 0
    if asked.check:
        with tempfile.TemporaryDirectory() as folder:
            checked(Path(folder))
        return 0
    if asked.version is None or not _VERSION.fullmatch(asked.version):
        parser.error("name the version: make release VERSION=1.2.0")
    problem = refusal(asked.version)
    if problem:
        print(f"Not released: {problem}", file=sys.stderr)
        return 1
    release(asked.version)
    return 0


def refusal(version: str) -> str | None:
    """Why this version cannot be released now."""
    if run("git", "status", "--porcelain"):
        return "the tree has changes that are not committed."
    if run("git", "tag", "--list", f"v{version}"):
        return f"there is a tag v{version} already."
    if not unreleased().strip():
        return "CHANGELOG.md says nothing under Unreleased."
    return None


def release(version: str) -> None:
    VERSION_FILE.write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    text = CHANGELOG.read_text(encoding="utf-8")
    dated = f"{_HEADING}\n## {version} ({datetime.now(UTC):%Y-%m-%d})\n"
    CHANGELOG.write_text(text.replace(_HEADING, dated, 1), encoding="utf-8")
    write_constraints()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    built = checked(dist)
    run("git", "commit", "--all", "--message", f"Matins {version}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"Matins {version}")
    print(f"Matins {version} is built and tagged: {', '.join(path.name for path in built)}.")
    print(f"To publish it: git push origin HEAD v{version}; twine upload dist/*.whl dist/*.tar.gz")


def unreleased() -> str:
    text = CHANGELOG.read_text(encoding="utf-8")
    return text.partition(_HEADING)[2].partition("\n## ")[0]


def write_constraints() -> None:
    """The versions of everything that `matins[all]` has now: pip install -c constraints.txt matins."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "all")
        run(python, "-m", "pip", "install", "--quiet", f"{ROOT}[all]")
        found = run(python, "-m", "pip", "freeze", "--exclude", "matins")
    head = "# The versions that a release was tried with, by `make constraints`: pip install -c constraints.txt …\n"
    CONSTRAINTS.write_text(f"{head}{found}\n", encoding="utf-8")
    print(f"Wrote {CONSTRAINTS.name}: {len(found.splitlines())} packages.")


def checked(dist: Path) -> list[Path]:
    """Build the wheel and the sdist. Install each as its users would, and let it run something."""
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (sdist,) = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (wheel, sdist):
            python = environment(folder / path.suffix)
            run(python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, path)
            tried(python.with_name("matins"), folder)
            print(f"{path.name}: installs and runs.")
        own = {**os.environ, "PIPX_HOME": f"{folder}/pipx", "PIPX_BIN_DIR": f"{folder}/pipx-bin"}
        run(TOOLS / "pipx", "install", "--quiet", wheel, environment=own)
        tried(folder / "pipx-bin/matins", folder)
        own = {**os.environ, "UV_TOOL_DIR": f"{folder}/uv", "UV_TOOL_BIN_DIR": f"{folder}/uv-bin"}
        run(TOOLS / "uv", "tool", "install", "--quiet", wheel, environment=own)
        tried(folder / "uv-bin/matins", folder)
        print(f"{wheel.name}: installs and runs by pipx and by uv.")
        bill = dist / f"{wheel.name.partition('-py3')[0]}.sbom.json"
        run(TOOLS / "cyclonedx-py", "environment", "--output-file", bill, folder / ".whl/bin/python")
        parts = json.loads(bill.read_text(encoding="utf-8"))["components"]
        print(f"{bill.name}: {len(parts)} components.")
    return [wheel, sdist, bill]


def environment(folder: Path) -> Path:
    """The Python of an empty environment."""
    venv.create(folder, with_pip=True)
    return folder / "bin/python"


def tried(matins: Path, folder: Path) -> None:
    """A daemon of this installation runs a command on time, and says what it answered."""
    home = Path(tempfile.mkdtemp(dir=folder))
    at = (matins, "--home", home)
    with subprocess.Popen(
        [*at, "up", "--port", "0"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as daemon:
        try:
            run(*at, "add", "in 1 second", "--name", "first", "--command", "echo It works.")
            until = time.monotonic() + _PATIENCE_S
            while "It works." not in (said := run(*at, "logs", "first", may_fail=True)):
                if time.monotonic() > until or daemon.poll() is not None:
                    daemon.terminate()
                    raise SystemExit(f"{matins} did not run a command: {said}{daemon.stderr and daemon.stderr.read()}")
                time.sleep(0.2)
        finally:
            daemon.terminate()


def run(*words: object, environment: dict[str, str] | None = None, may_fail: bool = False) -> str:
    """What a command prints. One that fails ends the release with what it said."""
    argv: Sequence[str] = [str(word) for word in words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode and not may_fail:
        raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
