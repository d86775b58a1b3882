"""Progress on standard error, of a run, of files that are read and of other long steps: a live display on a terminal, and
elsewhere a line every few seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import monotonic

from verdict_cli.cli.console import printable
from verdict_cli.run.progress import Progress
from verdict_cli.storage.file_reads import FileRead, reads_observed

Update = Callable[[int, int | None, str, Sequence[str]], None]
"""Displays how many of how many (None: unknown) are done, in a summary with lines below it."""

SHOW_EVERY_S = 5.0
"""Seconds between two lines if standard error is not a terminal."""
SHOW_AFTER_S = 0.5
"""Files that are read faster are not displayed."""
MOST_UNITS_SHOWN = 8
"""Of more units, those with the most calls waiting or running are shown."""


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that displays a `Progress`. Before the first of a run, the files that are read are displayed."""
    is_running = False

    with _display("starting", quiet=quiet, of_run=True) as update:
        steps = _Steps(update)

        def show(progress: Progress) -> None:
            nonlocal is_running
            counts = progress.counts
            is_running = counts.done < counts.rows
            update(counts.done, counts.rows, progress_line(progress), unit_lines(progress))

        def show_read(read: FileRead) -> None:
            if not is_running:
                steps.show_read("reading", read)

        with reads_observed(None if quiet else show_read):
            yield show


@contextmanager
def show_steps(
    label: str, unit: str, *, quiet: bool = False
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that displays how many of how many (None: unknown) are done, and the time left."""
    with _display(label, quiet=quiet) as update:
        yield partial(_Steps(update).show, label, unit)


@contextmanager
def show_reading(label: str = "reading", *, quiet: bool = False) -> Iterator[None]:
    """Display how much of a file is read, and the time left, where reading within the context takes longer than a moment."""
    with _display("", quiet=quiet, after_s=SHOW_AFTER_S) as update:
        show_read = partial(_Steps(update).show_read, label)
        with reads_observed(None if quiet else show_read):
            yield


class _Steps:
    """Displays one step after the other, with the time left. That follows from what was done since the first look: a resumed
    download begins with what it has."""

    def __init__(self, update: Update) -> None:
        self._update = update
        self._what = ""
        self._first = (0, 0.0)
        self._latest = 0

    def show_read(self, label: str, read: FileRead) -> None:
        """Display how much of a file is read."""
        self.show(f"{label} {read.path.name}", read.unit, read.done, read.total)

    def show(self, label: str, unit: str, done: int, total: int | None) -> None:
        """Display how many of how many (None: unknown) are done."""
        now = monotonic()
        if label != self._what or done < self._latest:  # less than before: a file is read again
            self._what, self._first = label, (done, now)
        self._latest = done
        start, started = self._first
        left_s = None
        if total and done > start:
            left_s = (now - started) * (total - done) / (done - start)
        self._update(done, total, steps_line(label, unit, done, total, left_s), [])


def steps_line(label: str, unit: str, done: int, total: int | None, left_s: float | None) -> str:
    """`fetching rows.parquet: 12.0/48.1 MB · 8 s left`."""
    numbers = [done] if total is None else [done, total]
    amount, unit_shown = "/".join(f"{number:,}" for number in numbers), unit
    if unit == "bytes":
        amount, unit_shown = "/".join(f"{number / 1e6:,.1f}" for number in numbers), "MB"
    time_text = f" · {elapsed_text(left_s)} left" if left_s else ""
    return f"{label}: {amount} {unit_shown}{time_text}"


@contextmanager
def _display(
    label: str, *, quiet: bool, of_run: bool = False, after_s: float = 0.0
) -> Iterator[Update]:
    """Yield a function that updates what is displayed: on a terminal a bar (after some seconds, where `after_s` is given),
    elsewhere lines."""
    if quiet:
        yield lambda _done, _total, _summary, _lines: None
    elif not sys.stderr.isatty():
        yield _Lines(has_last=of_run).update
    else:
        begins = monotonic() + after_s
        bar: Update | None = None
        with ExitStack() as stack:

            def update(done: int, total: int | None, summary: str, lines: Sequence[str]) -> None:
                nonlocal bar
                if bar is None and monotonic() >= begins:
                    bar = stack.enter_context(_live_bar())
                if bar is not None:
                    bar(done, total, summary, lines)

            update(0, None, label, ())
            yield update


@contextmanager
def _live_bar() -> Iterator[Update]:
    """Yield a function that updates a bar, its summary and the lines below it."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    bar = Bar(TextColumn("{task.fields[summary]}", markup=False), BarColumn(bar_width=None))
    task = bar.add_task("", total=None, summary="")
    with Live(bar, console=Console(stderr=True), transient=True) as live:

        def update(done: int, total: int | None, summary: str, lines: Sequence[str]) -> None:
            bar.update(task, total=total, completed=done, summary=printable(summary))
            texts = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
            live.update(Group(bar, *texts))

        yield update


class _Lines:
    """Plain lines: one every `SHOW_EVERY_S` seconds, and with `has_last` one when all is done."""

    def __init__(self, *, has_last: bool) -> None:
        self.last = monotonic()
        self.has_last = has_last
        self.is_done = False

    def update(self, done: int, total: int | None, summary: str, lines: Sequence[str]) -> None:
        was_done, self.is_done = self.is_done, done == total
        is_last = self.has_last and self.is_done and not was_done
        if not is_last and (self.is_done or monotonic() - self.last < SHOW_EVERY_S):
            return
        self.last = monotonic()
        with suppress(OSError):  # a closed standard error must not end the command
            sys.stderr.writelines(f"{line}\n" for line in (printable(summary), *lines))
            sys.stderr.flush()


def progress_line(progress: Progress) -> str:
    """`rows 120/450 · failed 1 · calls 360 (8 running, 2 waiting) · $0.0123 · 41 rows/s · 8 s left`."""
    counts = progress.counts
    calls = f"calls {counts.calls:,}"
    if progress.running or progress.waiting:
        calls += f" ({progress.running} running, {progress.waiting} waiting)"
    parts = [f"rows {counts.done:,}/{counts.rows:,}", f"failed {counts.failed:,}", calls]
    if counts.recalled:
        parts.append(f"{counts.recalled:,} from the run before")
    if counts.cached:
        parts.append(f"{counts.cached:,} from the cache")
    parts.append("cost unknown" if counts.cost_usd is None else f"${counts.cost_usd:.4f}")
    decimals = 0 if progress.rate >= 10 else 1
    parts.append(f"{progress.rate:,.{decimals}f} rows/s")
    if progress.left_s is not None and counts.done < counts.rows:
        parts.append(f"{elapsed_text(progress.left_s)} left")
    else:
        parts.append(elapsed_text(progress.elapsed_s))
    return " · ".join(parts)


def unit_lines(progress: Progress) -> list[str]:
    """One line per unit: `  judge[0]  answered 118 · failed 1 · running 3 · waiting for a limit 5`.

    If there are many units, only those with the most waiting, then the most running calls are returned.
    """
    units = list(progress.units.items())
    busiest = sorted(units, key=lambda item: (-item[1].waiting, -item[1].running))
    top_units = [item for item in units if item in busiest[:MOST_UNITS_SHOWN]]
    width = max((len(printable(name)) for name, _ in top_units), default=0)
    lines = []
    for name, count in top_units:
        rarer = {
            "failed": count.failed,
            "running": count.running,
            "waiting for a limit": count.waiting,
        }
        parts = [f"{word} {number:,}" for word, number in rarer.items() if number]
        text = " · ".join([f"answered {count.answered:,}", *parts])
        lines.append(f"  {printable(name):{width}}  {text}")
    if len(units) > len(top_units):
        lines.append(f"  … {len(units) - len(top_units)} more units")
    return lines


def elapsed_text(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"
