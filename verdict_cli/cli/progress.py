"""The live display of a run on standard error: one line that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from verdict_cli.engines import Progress

EVERY_S = 5.0
"""Seconds between two lines where standard error is no terminal."""


@contextmanager
def showing(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A function that shows each progress it is given."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _live() as show:
            yield show
    else:
        yield _Lines().show


@contextmanager
def _live() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.fields[words]}"),
        BarColumn(bar_width=None),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None, words="starting")

        def show(progress: Progress) -> None:
            bar.update(task, total=progress.rows, completed=progress.done, words=words(progress))

        yield show


class _Lines:
    """Plain lines: the first after `EVERY_S`, and one when all rows are done."""

    def __init__(self) -> None:
        self.last = monotonic()
        self.finished = False

    def show(self, progress: Progress) -> None:
        """Prints a line when it is time."""
        over = progress.done == progress.rows
        if self.finished or (not over and monotonic() - self.last < EVERY_S):
            return
        self.last = monotonic()
        self.finished = over
        with suppress(OSError):  # nobody reads standard error any more: the run itself goes on
            sys.stderr.write(f"{words(progress)}\n")
            sys.stderr.flush()


def words(progress: Progress) -> str:
    """`rows 120/450 · failed 1 · calls 360 (8 running, 2 waiting) · $0.0123 · 41 rows/s · 8 s left`."""
    calls = f"calls {progress.calls:,}"
    if progress.running or progress.waiting:
        calls += f" ({progress.running} running, {progress.waiting} waiting)"
    parts = [f"rows {progress.done:,}/{progress.rows:,}", f"failed {progress.failed:,}", calls]
    if progress.recalled:
        parts.append(f"{progress.recalled:,} from the journal")
    if progress.cached:
        parts.append(f"{progress.cached:,} from the cache")
    parts.append("cost unknown" if progress.cost_usd is None else f"${progress.cost_usd:.4f}")
    parts.append(f"{progress.rate:,.0f} rows/s" if progress.rate >= 10 else f"{progress.rate:.1f} rows/s")
    if progress.left_s is not None and progress.done < progress.rows:
        parts.append(f"{duration(progress.left_s)} left")
    else:
        parts.append(duration(progress.elapsed_s))
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
