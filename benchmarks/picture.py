"""A picture of the ratios: what each peer takes of CPU time for the same work, as a multiple of what Matins takes.

python benchmarks/picture.py rounds.jsonl docs/pictures/speed.svg    # of what `durable.py --json rounds.jsonl` measured
"""

from __future__ import annotations

import json
import sys
from math import log10
from pathlib import Path
from xml.sax.saxutils import escape

from durable_report import MATINS, Cell, Key, gather

GROUPS = {
    ("drain", "SQLite"): "a fire on SQLite",
    ("drain", "PostgreSQL"): "a fire on PostgreSQL",
    ("adding", "SQLite"): "adding one, SQLite",
    ("adding", "PostgreSQL"): "adding one, PostgreSQL",
    ("bulk", "SQLite"): "adding in bulk, SQLite",
    ("bulk", "PostgreSQL"): "adding in bulk, PostgreSQL",
}
_WIDTH, _LEFT, _DECADE, _ROW, _HEAD = 760, 290, 130, 22, 30
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.g{font-weight:600}.n{fill:#57606a;font-size:12px}"
    ".a{fill:#1a7f37}.b{fill:#bf8700}.l{stroke:#8c959f}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#8d96a0}.a{fill:#3fb950}.b{fill:#d29922}}"
)


def ratios(cells: dict[Key, Cell]) -> dict[str, list[tuple[str, float]]]:
    """For each kind of work, the peers by how many times the CPU time of Matins they take."""
    found: dict[str, list[tuple[str, float]]] = {}
    for (measure, store), words in GROUPS.items():
        own = cells.get(Key(measure, store, MATINS))
        base = None if own is None else own.figure("cpu_us")
        for key, cell in cells.items():
            figure = cell.figure("cpu_us")
            if key[:2] == (measure, store) and not cell.of_matins and base and figure:
                found.setdefault(words, []).append((key.contestant, figure / base))
    return {words: sorted(rows, key=lambda row: row[1]) for words, rows in found.items()}


def drawn(groups: dict[str, list[tuple[str, float]]], caption: str) -> str:
    lines: list[str] = []
    y = _HEAD
    for words, rows in groups.items():
        lines.append(f'<text class="g" x="8" y="{y + 14}">{escape(words)}</text>')
        y += _ROW
        for peer, ratio in rows:
            length = log10(ratio) * _DECADE
            left, kind = (_LEFT, "a") if length >= 0 else (_LEFT + length, "b")
            shown = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
            lines += [
                f'<text x="20" y="{y + 14}">{escape(peer)}</text>',
                f'<rect class="{kind}" x="{left:.0f}" y="{y + 3}" width="{max(abs(length), 1):.0f}" height="14"/>',
                f'<text x="{max(_LEFT, _LEFT + length) + 6:.1f}" y="{y + 14}">×{shown}</text>',
            ]
            y += _ROW
        y += 6
    axis = f'<line class="l" x1="{_LEFT}" x2="{_LEFT}" y1="{_HEAD - 4}" y2="{y - 4}"/>'
    axis += f'<text class="n" x="{_LEFT}" y="18" text-anchor="middle">Matins</text>'
    foot = f'<text class="n" x="8" y="{y + 14}">{escape(caption)}</text>'
    size = f'width="{_WIDTH}" height="{y + 24}" viewBox="0 0 {_WIDTH} {y + 24}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{_STYLE}</style>'
    return "\n".join([head, axis, *lines, foot, "</svg>"]) + "\n"


def main(source: str, target: str) -> None:
    rows = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    commit = next(row["commit"] for row in rows if "commit" in row)
    loads = sorted(row["load"] for row in rows if "load" in row)
    caption = (
        f"CPU time for the same work, logarithmic; commit {commit}, load {loads[0]:.0f} to {loads[-1]:.0f} on 2 cores."
    )
    rounds = [
        (Key(row["measure"], row["store"], row["contestant"], row["side"]), {"cpu_us": row["cpu_us"]})
        for row in rows
        if "cpu_us" in row
    ]
    cells = {cell.key: cell for cell in gather(rounds)}
    Path(target).write_text(drawn(ratios(cells), caption), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
