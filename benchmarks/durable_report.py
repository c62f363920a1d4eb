"""From measured cells to tables beside the aims, and ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

MATINS = "Matins"
WITHOUT_GATES = "Matins without its gates"
GATES_AIM = 10
"""Per cent: what gates that are not configured may add to a fire."""
MORE_IS_BETTER = ("fires_per_s", "one_by_one_per_s", "in_bulk_per_s")


@dataclass(frozen=True, slots=True)
class Cell:
    """What one contestant reached in one measure on one store: a figure of each round by name."""

    measure: str
    store: str
    contestant: str
    samples: dict[str, list[float]]

    def figure(self, name: str) -> float | None:
        values = self.samples.get(name)
        return median(values) if values else None

    @property
    def of_matins(self) -> bool:
        return self.contestant.startswith(MATINS)


@dataclass(frozen=True, slots=True)
class Aim:
    """What Matins shall reach: a figure on its own, or that many times the best peer in the same run."""

    measure: str
    store: str
    contestant: str
    figure: str
    value: float
    times_peers: float | None = None


AIMS = (
    Aim("drain", "SQLite", "Matins", "fires_per_s", 30_000, 7),
    Aim("drain", "PostgreSQL", "Matins", "fires_per_s", 12_000, 15),
    Aim("drain", "PostgreSQL", "Matins, 2 processes", "fires_per_s", 20_000, 15),
    Aim("latency", "SQLite", "Matins", "p50_ms", 1.5),
    Aim("latency", "SQLite", "Matins", "p99_ms", 5),
    Aim("latency", "PostgreSQL", "Matins", "p50_ms", 3),
    Aim("latency", "PostgreSQL", "Matins", "p99_ms", 8),
    Aim("idle", "SQLite", "Matins, a million", "cpu_percent", 0.05),
    Aim("idle", "SQLite", "Matins, a million", "rss_mb", 60),
    Aim("idle", "SQLite", "Matins, a million", "ready_s", 0.3),
    Aim("adding", "SQLite", "Matins", "one_by_one_per_s", 3_000),
    Aim("adding", "SQLite", "Matins", "in_bulk_per_s", 60_000),
)


def gather(rounds: Iterable[tuple[tuple[str, str, str], dict[str, float]]]) -> list[Cell]:
    """Cells from (measure, store, contestant) and what each round gave."""
    cells: dict[tuple[str, str, str], Cell] = {}
    for key, figures in rounds:
        cell = cells.setdefault(key, Cell(*key, {}))
        for name, value in figures.items():
            cell.samples.setdefault(name, []).append(value)
    return list(cells.values())


def better(figure: str) -> Callable[[Iterable[float]], float]:
    return max if figure in MORE_IS_BETTER else min


def ratio(figure: str, matins: float, peer: float) -> float:
    """Above one, Matins is ahead."""
    return matins / peer if figure in MORE_IS_BETTER else peer / matins


def best_peer(cells: Iterable[Cell], figure: str) -> float | None:
    found = [value for cell in cells if not cell.of_matins and (value := cell.figure(figure)) is not None]
    return better(figure)(found) if found else None


def table(cells: Sequence[Cell], measure: str, store: str) -> str:
    """Markdown: a row for each contestant, its medians, and behind each how many times Matins is ahead of it."""
    rows = [cell for cell in cells if (cell.measure, cell.store) == (measure, store)]
    names = list(dict.fromkeys(name for cell in rows for name in cell.samples))
    matins = next((cell for cell in rows if cell.of_matins), None)
    lines = [["contestant", *names, "rounds"], ["---", *["---:"] * (len(names) + 1)]]
    lines += [[cell.contestant, *(told(cell, name, matins) for name in names), rounds(cell)] for cell in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rounds(cell: Cell) -> str:
    return str(max(map(len, cell.samples.values()), default=0))


def told(cell: Cell, name: str, matins: Cell | None) -> str:
    value, own = cell.figure(name), matins and matins.figure(name)
    if value is None:
        return ""
    if cell.of_matins or not own or value <= 0:
        return f"{value:,g}"
    return f"{value:,g} ({ratio(name, own, value):.1f}×)"


def verdict(cells: Sequence[Cell], aims: Sequence[Aim] = AIMS) -> Iterator[str]:
    """Every aim that was measured: reached or not."""
    for aim in aims:
        beside = [cell for cell in cells if (cell.measure, cell.store) == (aim.measure, aim.store)]
        own = next((cell.figure(aim.figure) for cell in beside if cell.contestant == aim.contestant), None)
        if own is None:
            continue
        reached = own >= aim.value if aim.figure in MORE_IS_BETTER else own <= aim.value
        about = f"{aim.measure} on {aim.store}, {aim.contestant}, {aim.figure}"
        yield f"- {'reached' if reached else 'MISSED'}: {about}: {own:,g} (aim {aim.value:,g})"
        peer = best_peer(beside, aim.figure)
        if aim.times_peers and peer:
            times = ratio(aim.figure, own, peer)
            word = "reached" if times >= aim.times_peers else "MISSED"
            yield f"- {word}: {about}: {times:.1f} times the best peer (aim {aim.times_peers:g})"
    yield from gates_verdict(cells)


def gates_verdict(cells: Sequence[Cell]) -> Iterator[str]:
    """By CPU time: how long a drain takes is up to the disk as well."""
    found = {(cell.store, cell.contestant): cell.figure("cpu_us_per_fire") for cell in cells if cell.measure == "drain"}
    for (store, contestant), without in found.items():
        own = found.get((store, MATINS))
        if contestant == WITHOUT_GATES and without and own:
            added = 100 * (own / without - 1)
            word = "reached" if added < GATES_AIM else "MISSED"
            yield f"- {word}: drain on {store}: gates that are not configured add {added:.1f} % (aim below {GATES_AIM})"
