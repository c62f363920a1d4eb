"""The site of the documentation, and the files that others build from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {path.name for path in DOCS.glob("*.md")}


def test_every_page_has_its_place() -> None:
    """In the site and in the map that index.md is, under the same heading and in the same order."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    (front, *sections) = ((title, content) for entry in nav for title, content in entry.items())
    assert front[1] == "index.md"
    in_site = {title: [page for entry in content for page in entry.values()] for title, content in sections}
    index = (DOCS / "index.md").read_text()
    in_index = {
        heading: re.findall(r"\]\(([a-z-]+\.md)\)", text)
        for heading, text in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL)
    }
    assert in_site == in_index
    assert sorted(PAGES - {"index.md"}) == sorted(page for pages in in_site.values() for page in pages)


def test_every_link_leads_somewhere() -> None:
    """Pages, headings and pictures of the repository. `make docs` checks the site again."""
    sources = [*DOCS.glob("*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks/README.md"]
    headings = {path.resolve(): anchors(path.read_text(encoding="utf-8")) for path in sources}
    broken: list[str] = []
    for source in headings:
        for target in re.findall(r"\]\(([^)\s]+)\)", source.read_text(encoding="utf-8")):
            if "://" in target or target.startswith("mailto:"):
                continue
            page, _, anchor = target.partition("#")
            there = (source.parent / page).resolve() if page else source
            if not there.exists() or (anchor and there in headings and anchor not in headings[there]):
                broken.append(f"{source.name}: {target}")
    assert broken == []


def anchors(text: str) -> set[str]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def test_the_dockerfile_has_no_finding() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


def docker_answers() -> bool:
    return bool(shutil.which("docker")) and not subprocess.run(["docker", "info"], capture_output=True).returncode


@pytest.mark.skipif(not docker_answers(), reason="no docker engine answers here")
def test_the_container_says_its_version() -> None:
    subprocess.run(["docker", "build", "--quiet", "--tag", "matins-test", ROOT], check=True, timeout=280)
    said = subprocess.run(["docker", "run", "--rm", "matins-test", "--version"], capture_output=True, text=True)
    assert said.stdout.startswith("matins, version "), said.stderr
