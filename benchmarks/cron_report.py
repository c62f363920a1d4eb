"""From measured cells to a table of ratios and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from cron_contestants import CroniterRs, Cronsim, MatinsDatetimes, MatinsIntegers

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one contestant needs for one expression in one zone, in microseconds."""

    measure: str
    expression: str
    zone: str
    contestant: str
    us: float
    p10: float
    p90: float
    repetitions: int

    @property
    def key(self) -> Key:
        return self.measure, self.expression, self.zone


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times longer a peer takes than Matins; above one, Matins is quicker."""

    key: Key
    matins: str
    peer: str
    value: float

    @property
    def measure(self) -> str:
        return self.key[0]

    @property
    def zone(self) -> str:
        return self.key[2]

    def __str__(self) -> str:
        measure, expression, zone = self.key
        return f"{measure}: `{expression}` in {zone}: {self.peer} / {self.matins} = {self.value:.2f}"


def summarise(key: Key, contestant: str, samples: Sequence[float]) -> Cell:
    tenths = quantiles(samples, n=10, method="inclusive") if len(samples) > 1 else list(samples) * 9
    us, p10, p90 = (round(figure, 3) for figure in (median(samples), tenths[0], tenths[8]))
    return Cell(*key, contestant, us, p10, p90, len(samples))


def by_row(cells: Iterable[Cell]) -> dict[Key, dict[str, float]]:
    rows: dict[Key, dict[str, float]] = {}
    for cell in cells:
        rows.setdefault(cell.key, {})[cell.contestant] = cell.us
    return rows


def ratios(cells: Iterable[Cell]) -> list[Ratio]:
    faces = MatinsIntegers.name, MatinsDatetimes.name
    return [
        Ratio(key, face, peer, us / row[face])
        for key, row in by_row(cells).items()
        for face in faces
        for peer, us in row.items()
        if peer not in faces
    ]


def table(cells: Sequence[Cell], measure: str, peers: Sequence[str]) -> str:
    """Markdown: Matins in microseconds, peers as ratios against `next_ms` and against `next_after`."""
    heads = ["expression", "zone", "next_ms µs", "next_after µs", *peers]
    lines = [heads, ["---", "---", *["---:"] * (len(heads) - 2)]]
    for (kind, expression, zone), row in by_row(cells).items():
        if kind == measure:
            lines.append([f"`{expression}`", zone, *table_figures(row, peers)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table_figures(row: dict[str, float], peers: Sequence[str]) -> Iterator[str]:
    integers, datetimes = row[MatinsIntegers.name], row[MatinsDatetimes.name]
    yield f"{integers:.2f}"
    yield f"{datetimes:.2f}"
    for peer in peers:
        yield f"{row[peer] / integers:.2f} / {row[peer] / datetimes:.2f}" if peer in row else ""


def verdict(cells: Sequence[Cell]) -> Iterator[str]:
    found = ratios(cells)
    aware = [ratio for ratio in found if ratio.peer != CroniterRs.name]
    behind = [ratio for ratio in aware if ratio.value <= 1]
    yield f"Not ahead of a zone-aware peer: {len(behind)} of {len(aware)} comparisons"
    yield from (f"- {ratio}" for ratio in behind)
    yield "cronsim / Matins in zones with DST:"
    yield from extent(ratio for ratio in found if ratio.peer == Cronsim.name and ratio.zone != "UTC")
    yield "croniter-rs / Matins in UTC, the only zone it knows:"
    yield from extent(ratio for ratio in found if ratio.peer == CroniterRs.name)


def extent(chosen: Iterable[Ratio]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[float]] = {}
    for ratio in chosen:
        groups.setdefault((ratio.measure, ratio.matins), []).append(ratio.value)
    for (measure, face), values in groups.items():
        yield f"- {measure}, {face}: least {min(values):.2f}, median {median(values):.2f}, most {max(values):.2f}"
