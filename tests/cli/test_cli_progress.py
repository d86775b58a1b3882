"""The live display: what it says of the run and of each unit, and that it is plain where nobody watches."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from verdict_cli.cli import progress as display
from verdict_cli.llm.middleware.rate_limit import Flow
from verdict_cli.run.progress import Progress
from verdict_cli.run_facts import Counts
from verdict_cli.storage.datasets.files import open_bytes
from verdict_cli.storage.file_reads import FileRead, is_observed, reads_observed, report_read
from verdict_cli.storage.tables.reader import read_table


def at(done: int, units: dict[str, Flow]) -> Progress:
    counts = Counts(rows=10, done=done, failed=1, calls=20, cost_usd=0.5)
    return Progress(counts, elapsed_s=2.0, waiting=3, running=2, units=units)


FLOWS = {"think": Flow(0, 0, 9, 0), "judge[0]": Flow(3, 2, 1200, 4)}


def test_each_unit_says_what_became_of_its_calls():
    assert display.progress_line(at(4, FLOWS)).startswith(
        "rows 4/10 · failed 1 · calls 20 (2 running, 3 waiting)"
    )
    assert display.unit_lines(at(4, FLOWS)) == [
        "  think     answered 9",
        "  judge[0]  answered 1,200 · failed 4 · running 2 · waiting for a limit 3",
    ]


def test_of_many_units_the_busy_ones_are_shown():
    flows = {f"u{place}": Flow(waiting=place) for place in range(20)}
    lines = display.unit_lines(at(4, flows))
    assert lines[0].startswith("  u12")
    assert lines[-1] == "  … 12 more units"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "moves"), [(io.StringIO, False), (Terminal, True)])
def test_only_a_terminal_is_drawn_upon(stream, moves, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr := stream())
    monkeypatch.setenv("TERM", "xterm")
    with display.show_progress(quiet=False) as show:
        show(at(10, FLOWS | {"\x1b[31m": Flow()}))
    text = stderr.getvalue()
    assert "rows 10/10" in text
    assert "judge[0]  answered 1,200" in text
    assert ("\x1b[" in text) == moves
    assert "\x1b[31m" not in text


@pytest.mark.parametrize(("stream", "moves"), [(io.StringIO, False), (Terminal, True)])
def test_steps_are_shown_with_the_time_left(stream, moves, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr := stream())
    monkeypatch.setenv("TERM", "xterm")
    now = 0.0
    monkeypatch.setattr(display, "monotonic", lambda: now)
    with display.show_steps("fetching \x1b[31mx", "bytes") as show:
        show(1_000_000, 4_000_000)
        now = 4.0
        show(2_000_000, 4_000_000)
        assert moves or not stderr.getvalue()
        now = 6.0
        show(2_500_000, 4_000_000)
        now = 7.0
        show(4_000_000, 4_000_000)
    text = stderr.getvalue()
    assert ("\x1b[" in text) == moves and "\x1b[31m" not in text
    assert moves or text == "fetching \\x1b[31mx: 2.5/4.0 MB · 6.0 s left\n"


def lines_of(path: Path) -> int:
    with open_bytes(path) as stream:
        return sum(1 for _ in stream)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_a_file_is_read_by_its_bytes_on_disk(tmp_path, name):
    path = tmp_path / name
    content = b"".join(b'{"text": "%d"}\n' % number**9 for number in range(200_000))
    compressed = {
        ".gz": lambda: gzip.compress(content, 1),
        ".zst": lambda: pa.compress(content, "zstd", asbytes=True),
    }
    path.write_bytes(compressed.get(path.suffix, lambda: content)())
    reads: list[FileRead] = []
    with reads_observed(reads.append):
        assert lines_of(path) == 200_000
    assert lines_of(path) == 200_000  # nobody watches any more
    assert {(read.path, read.unit, read.total) for read in reads} == {
        (path, "bytes", path.stat().st_size)
    }
    assert len(reads) > 1 and [read.done for read in reads] == sorted(read.done for read in reads)
    assert reads[-1].done == reads[-1].total


def test_the_rows_of_a_table_are_counted(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": list(range(2500))}), path)
    reads: list[FileRead] = []
    with reads_observed(reads.append):
        assert sum(len(batch["n"]) for batch in read_table(path, ["n"], 1000)) == 2500
    assert [(read.unit, read.done, read.total) for read in reads] == [("rows", 1000, 2500), ("rows", 2000, 2500), ("rows", 2500, 2500)]  # fmt: skip


def test_a_file_that_is_read_twice_has_a_new_time_left(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    now = 0.0
    monkeypatch.setattr(display, "monotonic", lambda: now)
    with display.show_reading("importing"):
        for second, done in ((0.0, 100), (10.0, 300), (20.0, 100), (30.0, 200), (40.0, 400)):
            now = second
            report_read(tmp_path / "log.json", "rows", done, 400)
    assert stderr.getvalue().splitlines() == [
        "importing log.json: 300/400 rows · 5.0 s left",
        "importing log.json: 100/400 rows",
        "importing log.json: 200/400 rows · 20 s left",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_an_earlier_journal_is_displayed_until_the_run_runs(quiet, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    now = 0.0
    monkeypatch.setattr(display, "monotonic", lambda: now)
    journal = Path("journal.jsonl")
    with display.show_progress(quiet=quiet) as show:
        for second, done in ((1.0, 10), (9.0, 30)):
            now = second
            report_read(journal, "bytes", done * 1_000_000, 40_000_000)
        now = 20.0
        show(at(4, {}))
        now = 40.0
        report_read(Path("rows.jsonl"), "bytes", 1, 2)
        show(at(10, {}))
    first, *later = stderr.getvalue().splitlines() or [""]
    assert first == ("" if quiet else "reading journal.jsonl: 30.0/40.0 MB · 4.0 s left")
    assert [line.split(" ·")[0] for line in later] == ([] if quiet else ["rows 4/10", "rows 10/10"])


def test_steps_without_a_known_end_count():
    assert (
        display.steps_line("importing inspect", "rows", 1200, None, None)
        == "importing inspect: 1,200 rows"
    )
    assert (
        display.steps_line("reproducing", "cases", 3, 9, 61.0)
        == "reproducing: 3/9 cases · 1 min 1 s left"
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_a_quiet_command_leaves_its_reads_uncounted(quiet):
    with display.show_reading(quiet=quiet):
        assert is_observed() is not quiet
    with display.show_progress(quiet=quiet):
        assert is_observed() is not quiet
