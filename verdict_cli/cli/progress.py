"""Progress on standard error: of a run, a live display on a terminal and a line every few seconds elsewhere; of other long
steps, a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

from verdict_cli.cli.console import printable
from verdict_cli.run.progress import Progress

SHOW_EVERY_S = 5.0
"""Seconds between two lines if standard error is not a terminal."""
MOST_UNITS_SHOWN = 8
"""Of more units, those with the most calls waiting or running are shown."""


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that displays a `Progress`."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _live() as show:
            yield show
    else:
        yield _Lines().show


@contextmanager
def show_steps(what: str, unit: str, *, quiet: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that displays how many of how many (None: unknown) are done, and the time left: on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    first: list[tuple[int, float]] = []  # a resumed download begins with what it has
    with _live_bar(what) as update:

        def show(done: int, total: int | None) -> None:
            if not first:
                first.append((done, monotonic()))
            ((start, started),) = first
            left = (monotonic() - started) * (total - done) / (done - start) if total and done > start else None
            update(done, total, steps_line(what, unit, done, total, left), [])

        yield show


def steps_line(what: str, unit: str, done: int, total: int | None, left_s: float | None) -> str:
    """`fetching rows.parquet: 12.0/48.1 MB · 8 s left`."""
    numbers = [done] if total is None else [done, total]
    shown = "/".join(f"{number / 1e6:,.1f}" if unit == "bytes" else f"{number:,}" for number in numbers)
    left = f" · {elapsed_text(left_s)} left" if left_s else ""
    return f"{what}: {shown} {'MB' if unit == 'bytes' else unit}{left}"


@contextmanager
def _live() -> Iterator[Callable[[Progress], None]]:
    with _live_bar("starting") as update:
        yield lambda progress: update(progress.done, progress.rows, progress_line(progress), unit_lines(progress))


@contextmanager
def _live_bar(what: str) -> Iterator[Callable[[int, int | None, str, Sequence[str]], None]]:
    """Yield a function that updates a bar, its summary and the lines below it."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    bar = Bar(TextColumn("{task.fields[summary]}", markup=False), BarColumn(bar_width=None))
    task = bar.add_task("", total=None, summary=printable(what))
    with Live(bar, console=Console(stderr=True), transient=True) as live:

        def update(done: int, total: int | None, summary: str, lines: Sequence[str]) -> None:
            bar.update(task, total=total, completed=done, summary=printable(summary))
            live.update(Group(bar, *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)))

        yield update


class _Lines:
    """Plain lines: one every `SHOW_EVERY_S` seconds, and one when all rows are done."""

    def __init__(self) -> None:
        self.last = monotonic()
        self.finished = False

    def show(self, progress: Progress) -> None:
        done = progress.done == progress.rows
        if self.finished or (not done and monotonic() - self.last < SHOW_EVERY_S):
            return
        self.last = monotonic()
        self.finished = done
        with suppress(OSError):  # a closed standard error must not end the run
            sys.stderr.writelines(f"{line}\n" for line in (progress_line(progress), *unit_lines(progress)))
            sys.stderr.flush()


def progress_line(progress: Progress) -> str:
    """`rows 120/450 · failed 1 · calls 360 (8 running, 2 waiting) · $0.0123 · 41 rows/s · 8 s left`."""
    calls = f"calls {progress.calls:,}"
    if progress.running or progress.waiting:
        calls += f" ({progress.running} running, {progress.waiting} waiting)"
    parts = [f"rows {progress.done:,}/{progress.rows:,}", f"failed {progress.failed:,}", calls]
    if progress.pending is not None and (pending := progress.pending.text()):
        parts.append(pending)
    if progress.recalled:
        parts.append(f"{progress.recalled:,} from the journal")
    if progress.cached:
        parts.append(f"{progress.cached:,} from the cache")
    parts.append("cost unknown" if progress.cost_usd is None else f"${progress.cost_usd:.4f}")
    parts.append(f"{progress.rate:,.0f} rows/s" if progress.rate >= 10 else f"{progress.rate:.1f} rows/s")
    if progress.left_s is not None and progress.done < progress.rows:
        parts.append(f"{elapsed_text(progress.left_s)} left")
    else:
        parts.append(elapsed_text(progress.elapsed_s))
    return " · ".join(parts)


def unit_lines(progress: Progress) -> list[str]:
    """One line per unit: `  judge[0]  answered 118 · failed 1 · running 3 · waiting for a limit 5`.

    If there are many units, only those with the most waiting, then the most running calls are returned.
    """
    counts = list(progress.units.items())
    busiest = sorted(counts, key=lambda item: (-item[1].waiting, -item[1].running))[:MOST_UNITS_SHOWN]
    shown = [item for item in counts if item in busiest]
    width = max((len(printable(name)) for name, _ in shown), default=0)
    lines = []
    for name, count in shown:
        parts = [f"answered {count.answered:,}"]
        parts += [f"failed {count.failed:,}"] if count.failed else []
        parts += [f"running {count.running:,}"] if count.running else []
        parts += [f"waiting for a limit {count.waiting:,}"] if count.waiting else []
        lines.append(f"  {printable(name):{width}}  {' · '.join(parts)}")
    if len(counts) > len(shown):
        lines.append(f"  … {len(counts) - len(shown)} more units")
    return lines


def elapsed_text(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
