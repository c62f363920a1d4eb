"""One zone is found by its own file: no process lists all of them to read one. Row S6."""

from __future__ import annotations

import subprocess
import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins.engine.when.zones import is_zone, load_zone

_ADDS = """
import sys, zoneinfo
from matins import Matins
def listed(): raise AssertionError("all zones were listed")
zoneinfo.available_timezones = listed
m = Matins()
m.job("work")(lambda run: None)
m.add("a", when="0 9 * * *", job="work", timezone="Europe/London")
m.add("b", when="0 9 * * *", job="work", timezone="local")
m.add("c", when="TZ=Asia/Tokyo 0 9 * * *", job="work")
print(m.get("b").timezone, m.get("c").timezone)
"""


def test_each_zone_that_is_listed_is_found() -> None:
    """S6"""
    assert [name for name in sorted(zoneinfo.available_timezones()) if not is_zone(name)] == []


@pytest.mark.parametrize(
    "name",
    ["", ".", "/", "Europe", "Europe/", "europe/london", "Europe/london", "/Europe/London", "Europe//London",
     "../zoneinfo/UTC", "Europe/../UTC", "posix/UTC", "right/UTC", "posixrules", "zone.tab", "tzdata.zi", "UTC\n",
     "UTC/x", "é", "__init__.py"],
)  # fmt: skip
def test_no_other_file_is_a_zone(name: str) -> None:
    """S6"""
    assert name not in zoneinfo.available_timezones()
    assert not is_zone(name)


@pytest.fixture
def packaged() -> Iterator[None]:
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=())
    yield
    zoneinfo.reset_tzpath(to=before)


@pytest.mark.usefixtures("packaged")
def test_without_files_of_the_system_the_package_has_them() -> None:
    """S6: Windows, and small containers"""
    assert is_zone("America/Argentina/Ushuaia")
    assert not is_zone("Mars/Olympus")
    assert not is_zone("Europe/__init__.py")


def test_a_system_that_ignores_case_finds_no_other_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6: there, a file is opened by any spelling; only its own is the name of a zone"""
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Nowhere").write_bytes(load_zone("UTC").data)
    (tmp_path / "Europe" / "Notes").write_text("no zone", encoding="utf-8")
    is_dir, is_file, read = Path.is_dir, Path.is_file, Path.read_bytes

    def real(path: Path) -> Path:
        return Path(str(path).replace("europe", "Europe").replace("nowhere", "Nowhere"))

    monkeypatch.setattr(Path, "is_dir", lambda path: is_dir(real(path)))
    monkeypatch.setattr(Path, "is_file", lambda path: is_file(real(path)))
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(real(path)))
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path),))
    assert (tmp_path / "europe" / "nowhere").is_file()
    assert is_zone("Europe/Nowhere")
    assert not is_zone("europe/nowhere")
    assert not is_zone("Europe/nowhere")
    assert not is_zone("Europe/Notes")


def test_the_first_add_of_a_process_lists_no_zones() -> None:
    """Listing takes 30 ms. Row S7."""
    done = subprocess.run(
        [sys.executable, "-c", _ADDS], capture_output=True, text=True, env={"TZ": "Asia/Seoul"}, timeout=60
    )
    assert (done.returncode, done.stdout.split()) == (0, ["Asia/Seoul", "Asia/Tokyo"]), done.stderr
