"""What the parts of `gpu.py` found, as Markdown: a table of what agrees with the CPU, and one of times."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

Columns: TypeAlias = dict[str, tuple[str, str, float]]
"""Heading, name in a row, format, factor."""

APART: Columns = {
    "log-probabilities of tokens differ by": ("logprob_apart", "{:.1e}", 1),
    "gradients by, of their length": ("gradient_apart", "{:.1e}", 1),
}
"""The same of the first table: largest differences."""
COLUMNS: Columns = {
    "s": ("s", "{:.3f}", 1),
    "over the first's": ("over_first", "{:.2f}", 1),
    "tokens/s": ("tokens_s", "{:,.0f}", 1),
    "distinct tokens/s": ("distinct_tokens_s", "{:,.0f}", 1),
    "MFU": ("mfu", "{:.1f} %", 100),
    "peak GiB": ("peak_gib", "{:.1f}", 1),
}
"""Of all other parts."""


def table(folder: Path, found: dict[str, dict[str, Any] | None]) -> str:
    """A line for each thing that was measured, and for each part that found nothing why."""
    done = [part for part in found.values() if part is not None]
    return "\n".join([*_head(folder, done), "", *lines_of(found), ""])


def lines_of(found: dict[str, dict[str, Any] | None]) -> list[str]:
    """The lines of both tables, with an empty one between them."""
    parity = {name: part for name, part in found.items() if name.startswith("parity")}
    times = {name: part for name, part in found.items() if name not in parity}
    tables = [_lines(parts, columns) for parts, columns in ((parity, APART), (times, COLUMNS)) if parts]
    return [*tables[0], *(line for table in tables[1:] for line in ("", *table))]


def _lines(found: dict[str, dict[str, Any] | None], columns: Columns) -> list[str]:
    lines = [f"| | {' | '.join(columns)} | |", "|---" * (len(columns) + 2) + "|"]
    firsts: dict[str, float] = {}  # of parts that do the same work: their names up to the colon are alike
    for name, part in found.items():
        group = name.partition(":")[0]
        for row in rows_of(part):
            if "s" in row and not group.startswith("history"):
                row["over_first"] = row["s"] / firsts.setdefault(group, row["s"])
            side = f", {row['side']}" if "side" in row else ""
            remark = "" if "logprob_apart" in row else row.get("remark", "")
            cells = [
                form.format(factor * row[key]) if row.get(key) is not None else ""
                for key, form, factor in columns.values()
            ]
            cells.append(remark.replace("|", "/").replace("\n", " "))
            lines.append(f"| {name}{side} | {' | '.join(cells)} |")
    return lines


def _head(folder: Path, done: list[dict[str, Any]]) -> list[str]:
    """Machines, commits and the command; several where parts were run on several."""

    def all_of(key: str) -> str:
        return "; ".join(dict.fromkeys(str(part[key]) for part in done if part.get(key)))

    torches = "; ".join(
        dict.fromkeys(f"torch {part['packages']['torch']}" for part in done if "packages" in part)
    )
    sizes = "; ".join(dict.fromkeys(part["size"] for part in done))
    lines = [
        f"Machine: {all_of('card') or 'no GPU'}; {all_of('machine')}; {torches}",
        f"Commit: {all_of('commit')}",
        f"Command: `python benchmarks/gpu.py {folder} --size {sizes}`",
    ]
    return [f"{line}  " for line in lines]  # two spaces: a line of its own


def rows_of(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Its rows; one with a remark alone where there are none."""
    if part is None:
        return [{"remark": "not run"}]
    if "rows" in part:
        rows: list[dict[str, Any]] = part["rows"]
        return rows
    return [{"remark": "out of memory" if "out_of_memory" in part else f"failed: {part['error'][:300]}"}]
