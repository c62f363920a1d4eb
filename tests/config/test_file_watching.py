"""A watch on the file, whatever editors and orchestrators do to it. Row C7."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matins.service.file.reload import FileWatch

PATIENCE_S = 90


class Watcher:
    """What the watch saw, each time it called."""

    def __init__(self, path: Path) -> None:
        self.seen: queue.Queue[str | None] = queue.Queue()
        self.path = path
        self.watch = FileWatch(path, self.look, debounce_ms=50)
        self.watch.start()
        assert self.watch.watching.wait(PATIENCE_S)

    def look(self) -> None:
        self.seen.put(self.path.read_text() if self.path.exists() else None)

    def until(self, text: str | None) -> None:
        while self.seen.get(timeout=PATIENCE_S) != text:
            pass


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[[Path], Watcher]]:
    made: list[Watcher] = []

    def watch(path: Path) -> Watcher:
        made.append(Watcher(path))
        return made[-1]

    yield watch
    for watcher in made:
        watcher.watch.stop()


def truncate_and_write(path: Path, text: str) -> None:
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    new = path.with_name(".matins.yaml.tmp")
    new.write_text(text)
    new.replace(path)


def like_vim(path: Path, text: str) -> None:
    backup = path.with_name("matins.yaml~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def copy_over(path: Path, text: str) -> None:
    other = path.with_name("other")
    other.write_text(text)
    shutil.copy(other, path)


@pytest.mark.parametrize("save", [truncate_and_write, rename_over, like_vim, copy_over], ids=lambda way: way.__name__)
def test_c7_every_way_of_saving_is_seen(
    watched: Callable[[Path], Watcher], tmp_path: Path, save: Callable[[Path, str], None]
) -> None:
    """C7: watch; twice, since the first may replace what was watched"""
    path = tmp_path / "matins.yaml"
    path.write_text("one")
    watcher = watched(path)
    watcher.until("one")
    for text in ("two", "three"):
        save(path, text)
        watcher.until(text)


def test_c7_a_file_that_comes_and_goes(watched: Callable[[Path], Watcher], tmp_path: Path) -> None:
    """C7: one that is not there yet, vanishes, and comes again"""
    path = tmp_path / "matins.yaml"
    watcher = watched(path)
    watcher.until(None)
    path.write_text("one")
    watcher.until("one")
    path.unlink()
    watcher.until(None)
    path.write_text("two")
    watcher.until("two")


def test_c7_a_config_map_is_swapped(watched: Callable[[Path], Watcher], tmp_path: Path) -> None:
    """C7: matins.yaml → ..data/matins.yaml, and ..data → a folder that is replaced at once"""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(number: int) -> None:
        folder = mount / f"..2026_{number}"
        folder.mkdir()
        (folder / "matins.yaml").write_text(f"text {number}")
        new = mount / "..data_tmp"
        new.symlink_to(folder.name)
        new.replace(mount / "..data")

    publish(1)
    (mount / "matins.yaml").symlink_to("..data/matins.yaml")
    watcher = watched(mount / "matins.yaml")
    watcher.until("text 1")
    for number in (2, 3):
        publish(number)
        watcher.until(f"text {number}")
        assert watcher.watch.watching.wait(PATIENCE_S)


def test_other_files_are_not_its_business(watched: Callable[[Path], Watcher], tmp_path: Path) -> None:
    path = tmp_path / "matins.yaml"
    path.write_text("one")
    watcher = watched(path)
    watcher.until("one")
    (tmp_path / "matins.db-wal").write_text("busy")
    rename_over(path, "two")
    assert watcher.seen.get(timeout=PATIENCE_S) == "two"


def test_trouble_with_one_change_does_not_end_the_watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "matins.yaml"
    path.write_text("one")
    seen: queue.Queue[str] = queue.Queue()

    def look() -> None:
        seen.put(path.read_text())
        raise ValueError("no luck")

    watch = FileWatch(path, look, debounce_ms=50)
    watch.start()
    try:
        assert seen.get(timeout=PATIENCE_S) == "one"
        assert watch.watching.wait(PATIENCE_S)
        path.write_text("two")
        while seen.get(timeout=PATIENCE_S) != "two":
            pass
    finally:
        watch.stop()
    assert "could not be applied" in caplog.text
    watch.stop()


def test_what_could_not_be_taken_up_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The store may be busy for a moment; nobody saves the file a second time for that."""
    path = tmp_path / "matins.yaml"
    path.write_text("one")
    done, tries = threading.Event(), iter([OSError("busy"), OSError("busy"), None])

    def look() -> None:
        trouble = next(tries, None)
        if trouble is not None:
            raise trouble
        done.set()

    watch = FileWatch(path, look, debounce_ms=50)
    watch.start()
    try:
        assert done.wait(PATIENCE_S)
    finally:
        watch.stop()
