"""The live display of a run on standard error: lines that move on a terminal, lines now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from verdict_cli.cli.console import printable
from verdict_cli.run.progress import Progress

SHOW_EVERY_S = 5.0
"""Seconds between two lines where standard error is no terminal."""
MOST_UNITS_SHOWN = 8
"""Units shown at once."""


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
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
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    bar = Bar(TextColumn("{task.fields[words]}", markup=False), BarColumn(bar_width=None))
    task = bar.add_task("", total=None, words="starting")
    with Live(bar, console=Console(stderr=True), transient=True) as live:

        def show(progress: Progress) -> None:
            bar.update(task, total=progress.rows, completed=progress.done, words=words(progress))
            live.update(Group(bar, *(Text(line, no_wrap=True, overflow="ellipsis") for line in unit_counts(progress))))

        yield show


class _Lines:
    """Plain lines: the first after `EVERY_S`, and one when all rows are done."""

    def __init__(self) -> None:
        self.last = monotonic()
        self.finished = False

    def show(self, progress: Progress) -> None:
        """Prints a line when it is time."""
        over = progress.done == progress.rows
        if self.finished or (not over and monotonic() - self.last < SHOW_EVERY_S):
            return
        self.last = monotonic()
        self.finished = over
        with suppress(OSError):  # nobody reads standard error any more: the run itself goes on
            sys.stderr.writelines(f"{line}\n" for line in (words(progress), *unit_counts(progress)))
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
        parts.append(f"{elapsed_text(progress.left_s)} left")
    else:
        parts.append(elapsed_text(progress.elapsed_s))
    return " · ".join(parts)


def unit_counts(progress: Progress) -> list[str]:
    """A line for each unit: `  judge[0]  answered 118 · failed 1 · running 3 · waiting for a limit 5`.

    Of many units those with the most calls waiting, then running, are shown.
    """
    flows = list(progress.units.items())
    shown = sorted(flows, key=lambda each: (-each[1].waiting, -each[1].running))[:MOST_UNITS_SHOWN]
    kept = [each for each in flows if each in shown]
    width = max((len(printable(name)) for name, _ in kept), default=0)
    lines = []
    for name, flow in kept:
        parts = [f"answered {flow.answered:,}"]
        parts += [f"failed {flow.failed:,}"] if flow.failed else []
        parts += [f"running {flow.running:,}"] if flow.running else []
        parts += [f"waiting for a limit {flow.waiting:,}"] if flow.waiting else []
        lines.append(f"  {printable(name):{width}}  {' · '.join(parts)}")
    if len(flows) > len(kept):
        lines.append(f"  … {len(flows) - len(kept)} more units")
    return lines


def elapsed_text(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
