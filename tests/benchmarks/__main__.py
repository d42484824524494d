"""Measure, and print one table: `python -m tests.benchmarks [--quick] [--only ROW ...]`."""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time

from ..interop import install
from .lab import ContenderFailed, Lab, Rounds
from .rows import ROWS, Row

CONTENDERS = {"bare": "bare", "sdk": "SDK 2.3", "ours": "ours"}
HEADINGS = ("row", "bare", "SDK 2.3", "ours", "ours/bare", "ours/SDK", "target")


def main() -> None:
    """Run the chosen rows; a missed target never changes the exit code."""
    options = _options()
    if "sdk" in options.contenders:
        install.install(["sdk1", "sdk2"])
    lab = Lab(options.contenders, options.quick)
    lines, failures = [], []
    start = time.monotonic()
    with lab.serving():
        for row in ROWS:
            if options.only and row.key not in options.only:
                continue
            print(f"{row.title} ...", file=sys.stderr, flush=True)
            try:
                lines.append(_line(row, row.measure(lab)))
            except (ContenderFailed, subprocess.SubprocessError) as failure:
                failures.append(str(failure))
                lines.append((row.title, "-", "-", "-", "-", "-", "failed"))
    print(f"\nPython {platform.python_version()}, {time.monotonic() - start:.0f} s\n")
    _print_table([HEADINGS, *lines])
    for note in [*lab.notes, *failures]:
        print(f"! {note}")
    if failures:
        sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a measurement")
    parser.add_argument(
        "--only", nargs="+", choices=[row.key for row in ROWS], metavar="ROW", help="these rows"
    )
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    return parser.parse_args()


def _line(row: Row, rounds: Rounds) -> tuple[str, ...]:
    cells = [
        _number(statistics.median(rounds[name]), row.unit) if rounds.get(name) else "-" for name in CONTENDERS
    ]
    ratios = [_ratio(rounds, name) for name in ("bare", "sdk")]
    verdicts = []
    for target in row.targets:
        value = target.value(rounds)
        sign = ">=" if target.at_least else "<="
        scale = f"x {CONTENDERS[target.against]}" if target.against else f" {row.unit}"
        verdict = "" if value is None else " met" if target.met(value) else " MISSED"
        verdicts.append(f"{sign} {target.bound:g}{scale}".strip() + verdict)
    return (row.title, *cells, *ratios, ", ".join(verdicts))


def _ratio(rounds: Rounds, name: str) -> str:
    ours, other = rounds.get("ours"), rounds.get(name)
    if not ours or not other:
        return "-"
    return f"{statistics.median(mine / theirs for mine, theirs in zip(ours, other)):.2f}"


def _number(value: float, unit: str) -> str:
    digits = 0 if value == int(value) or value >= 1000 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}".strip()


def _print_table(lines: list[tuple[str, ...]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    for number, line in enumerate(lines):
        left, *middle, right = line
        cells = [
            left.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(middle, widths[1:])),
            right,
        ]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


if __name__ == "__main__":
    main()
