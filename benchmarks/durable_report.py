"""From measured cells to tables, ratios, and the aims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

MATINS = "Matins"
WITHOUT_GATES = "Matins without its gates"
NOW = "now"
GATES_AIM = 10
"""Per cent: what gates that are not configured may add to a fire."""
SLOWER = 1.1
"""Beside an earlier commit: a figure that is worse by this much, in the median and at best, is named."""
STEADY = ("cpu_us", "import_s", "command_add_s", "preview_ms", "rss_mb", "tick_us")
"""What is compared with an earlier commit: mostly CPU time, since rates depend on who else is at work."""


class Key(NamedTuple):
    measure: str
    store: str
    contestant: str
    side: str = NOW
    """`now`, or an earlier commit of Matins."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one contestant reached in one measure on one store: a figure of each round by name."""

    key: Key
    samples: dict[str, list[float]]

    def figure(self, name: str) -> float | None:
        values = self.samples.get(name)
        return median(values) if values else None

    @property
    def of_matins(self) -> bool:
        return self.key.contestant.startswith(MATINS)


class Aim(NamedTuple):
    """What Matins shall reach: a figure on its own, or that many times the best peer in the same run, or both."""

    measure: str
    store: str
    contestant: str
    figure: str
    value: float | None
    times_peers: float | None = None


AIMS = (
    Aim("drain", "SQLite", "Matins", "fires_per_s", 32_000, 15),
    Aim("drain", "SQLite", "Matins", "cpu_us", 31),
    Aim("drain", "SQLite", "Matins, one-shots of one instant, a payload each", "fires_per_s", 27_000, 12),
    Aim("drain", "SQLite", "Matins, one-shots of one instant, a payload each", "cpu_us", 35),
    Aim("drain", "SQLite", "Matins, one-shots, an instant and a payload each", "fires_per_s", 27_000, 12),
    Aim("drain", "SQLite", "Matins, one-shots, an instant and a payload each", "cpu_us", 35),
    Aim("drain", "SQLite", "Matins, interval from completion", "fires_per_s", 30_000),
    Aim("drain", "SQLite", "Matins, interval from completion", "cpu_us", 31),
    Aim("drain", "SQLite", "Matins, a small result", "fires_per_s", 27_000),
    Aim("drain", "SQLite", "Matins, a small result", "cpu_us", 35),
    Aim("drain", "SQLite", "Matins, limit of 64", "fires_per_s", 5_700),
    Aim("drain", "PostgreSQL", "Matins", "fires_per_s", 12_000, 3),
    Aim("drain", "PostgreSQL", "Matins, 2 engines", "fires_per_s", 20_000, 5),
    Aim("drain", "PostgreSQL", "Matins, limit of 64", "fires_per_s", 2_100),
    Aim("lines", "SQLite", "Matins", "lines_per_s", None, 5.5),
    Aim("failing", "SQLite", "Matins", "cpu_us", 150),
    Aim("failing", "PostgreSQL", "Matins", "cpu_us", 150),
    Aim("adding", "SQLite", "Matins", "added_per_s", 1_800),
    Aim("adding", "SQLite", "Matins, 32 threads", "added_per_s", 2_900),
    Aim("adding", "PostgreSQL", "Matins", "added_per_s", 900),
    Aim("bulk", "SQLite", "Matins", "added_per_s", 60_000),
    Aim("bulk", "SQLite", "Matins, a payload each", "added_per_s", 39_000),
    Aim("bulk", "SQLite", "Matins, a payload each", "cpu_us", 22),
    Aim("bulk", "SQLite", "Matins, a cron and a payload each", "added_per_s", 18_000),
    Aim("bulk", "SQLite", "Matins, a cron and a payload each", "cpu_us", 50),
    Aim("bulk", "PostgreSQL", "Matins", "added_per_s", 30_000, 2),
    Aim("catch-up", "SQLite", "Matins", "slots_per_s", 10_000),
    Aim("catch-up", "SQLite", "Matins", "cpu_us", 100),
    Aim("starting", "SQLite", "Matins", "import_s", 0.15),
    Aim("starting", "SQLite", "Matins", "command_add_s", 0.25),
    Aim("starting", "SQLite", "Matins", "preview_ms", 0.2),
    Aim("starting", "SQLite", "Matins", "preview_runs_per_day", 86_400),
    Aim("latency", "SQLite", "Matins", "earliest_ms", 0),
    Aim("latency", "SQLite", "Matins", "p50_ms", 0.3, 5),
    Aim("latency", "SQLite", "Matins", "p99_ms", 1.5),
    Aim("latency", "PostgreSQL", "Matins", "earliest_ms", 0),
    Aim("latency", "PostgreSQL", "Matins", "p50_ms", 0.5, 1_000),
    Aim("latency", "PostgreSQL", "Matins", "p99_ms", 1.5),
    Aim("idle", "SQLite", "Matins, a thousand", "rss_mb", 40),
    Aim("idle", "SQLite", "Matins, a thousand", "tick_us", 290),
    Aim("idle", "SQLite", "Matins, a million", "rss_mb", 50),
    Aim("idle", "SQLite", "Matins, a million", "cpu_percent", 0.14),
    Aim("idle", "SQLite", "Matins, a million", "ready_s", 0.3),
    Aim("backlog", "SQLite", "Matins, 100,000 events behind", "stop_s", 2),
    Aim("backlog", "PostgreSQL", "Matins, 100,000 events behind", "stop_s", 2),
)


def gather(rounds: Iterable[tuple[Key, dict[str, float]]]) -> list[Cell]:
    """Cells from what each round gave."""
    cells: dict[Key, Cell] = {}
    for key, figures in rounds:
        cell = cells.setdefault(key, Cell(key, {}))
        for name, value in figures.items():
            cell.samples.setdefault(name, []).append(value)
    return list(cells.values())


def more_is_better(figure: str) -> bool:
    return figure.endswith("_per_s") or figure in ("earliest_ms", "preview_runs_per_day")


def ratio(figure: str, matins: float, peer: float) -> float:
    """Above one, Matins is ahead."""
    return matins / peer if more_is_better(figure) else peer / matins


def best_peer(cells: Iterable[Cell], figure: str) -> float | None:
    """Without one that begins before the instant: its lateness is below zero."""
    found = [value for cell in cells if not cell.of_matins and (value := cell.figure(figure)) is not None and value > 0]
    return (max if more_is_better(figure) else min)(found) if found else None


def rows_of(cells: Iterable[Cell], measure: str, store: str) -> list[Cell]:
    """The contestants of a measure, as they are now."""
    return [cell for cell in cells if cell.key[:2] == (measure, store) and cell.key.side == NOW]


def table(cells: Sequence[Cell], measure: str, store: str) -> str:
    """Markdown: a row for each contestant, its medians, and behind each how many times Matins is ahead of it."""
    rows = rows_of(cells, measure, store)
    names = list(dict.fromkeys(name for cell in rows for name in cell.samples))
    matins = next((cell for cell in rows if cell.of_matins), None)
    lines = [["contestant", *names, "rounds"], ["---", *["---:"] * (len(names) + 1)]]
    for cell in rows:
        rounds = str(max(map(len, cell.samples.values()), default=0))
        lines.append([cell.key.contestant, *(told(cell, name, matins) for name in names), rounds])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def told(cell: Cell, name: str, matins: Cell | None) -> str:
    value, own = cell.figure(name), matins and matins.figure(name)
    if value is None:
        return ""
    if cell.of_matins or not own or value <= 0 or name == "earliest_ms":
        return f"{value:,g}"
    return f"{value:,g} ({ratio(name, own, value):.1f}×)"


def beside(cells: Sequence[Cell], side: str) -> Iterator[str]:
    """Markdown: every figure beside that of an earlier commit, and then what has become slower."""
    earlier = {cell.key[:3]: cell for cell in cells if cell.key.side == side}
    slower: list[str] = []
    yield f"| measure | store | contestant | figure | {side} | now | now / {side} | of the best rounds | rounds |"
    yield "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for cell in cells:
        before = earlier.get(cell.key[:3])
        if cell.key.side != NOW or before is None:
            continue
        for name in cell.samples:
            a, b = before.figure(name), cell.figure(name)
            if not a or not b or a < 0 or b < 0:
                continue
            best = max if more_is_better(name) else min
            median_ratio, best_ratio = b / a, best(cell.samples[name]) / (best(before.samples[name]) or a)
            figures = f"{name} | {a:,g} | {b:,g} | {median_ratio:.2f} | {best_ratio:.2f}"
            yield f"| {' | '.join(cell.key[:3])} | {figures} | {len(cell.samples[name])} |"
            if name in STEADY and min(median_ratio, best_ratio) > SLOWER:
                slower.append(
                    f"- SLOWER than {side}: {' on '.join(cell.key[:2])}, {cell.key[2]}, {name}: {b / a:.2f} times"
                )
    yield ""
    yield from slower or [f"- Nothing takes {SLOWER} times what it took at {side}."]


def verdict(cells: Sequence[Cell], aims: Sequence[Aim] = AIMS) -> Iterator[str]:
    """Every aim that was measured: reached or not."""
    for aim in aims:
        rows = rows_of(cells, aim.measure, aim.store)
        own = next((cell.figure(aim.figure) for cell in rows if cell.key.contestant == aim.contestant), None)
        if own is None:
            continue
        about = f"{aim.measure} on {aim.store}, {aim.contestant}, {aim.figure}"
        if aim.value is not None:
            reached = own >= aim.value if more_is_better(aim.figure) else own <= aim.value
            share = f", {own / aim.value:.2f} of it" if aim.value else ""
            yield f"- {'reached' if reached else 'MISSED'}: {about}: {own:,g} (aim {aim.value:,g}{share})"
        peer = best_peer(rows, aim.figure)
        if aim.times_peers and peer:
            times = ratio(aim.figure, own, peer)
            word = "reached" if times >= aim.times_peers else "MISSED"
            yield f"- {word}: {about}: {times:.1f} times the best peer (aim {aim.times_peers:g})"
    yield from gates_verdict(cells)


def gates_verdict(cells: Sequence[Cell]) -> Iterator[str]:
    """By CPU time: how long a drain takes is up to the disk as well."""
    for store in ("SQLite", "PostgreSQL"):
        found = {cell.key.contestant: cell.figure("cpu_us") for cell in rows_of(cells, "drain", store)}
        own, without = found.get(MATINS), found.get(WITHOUT_GATES)
        if own and without:
            added = 100 * (own / without - 1)
            word = "reached" if added < GATES_AIM else "MISSED"
            yield f"- {word}: drain on {store}: gates that are not configured add {added:.1f} % (aim below {GATES_AIM})"


def report(cells: Sequence[Cell], bases: Sequence[str] = ()) -> str:
    measured = dict.fromkeys(cell.key[:2] for cell in cells)
    parts = [
        f"{measure}, {store} (behind a peer: how many times Matins is ahead)\n\n{table(cells, measure, store)}"
        for measure, store in measured
    ]
    parts += ["\n".join([f"Beside {side}", "", *beside(cells, side)]) for side in bases]
    return "\n\n".join([*parts, "\n".join(verdict(cells))])
