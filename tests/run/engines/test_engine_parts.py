"""A run in parts, each with a journal and tables of its own, gives the table of a run in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.errors import JournalError, Rejected
from verdict_cli.messages import Output, Reply, Request
from verdict_cli.run.job import Partition, RunJob, Stop, join_partitions
from verdict_cli.run.local import run_part
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates

STEPS = """
- {unit: CoTUnit, name: rule, prompt: 'Say how to rate', pin: true}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} as {previous.thinking}'}
"""


async def spoken(request: Request) -> Reply:
    if request.row.source.get("text") == "text 3":
        raise Rejected("too long", kind="context-too-long")
    return Reply('{"score": 3}' if request.json_schema else "strictly", cost_usd=0.5)


def parts(job: RunJob, cuts: Sequence[int], pinned: dict[int, Output | None] | None = None) -> list[Partition]:
    """The job's rows between the cuts; each part's folder is named by its number."""
    every = list(number_duplicates(stream_rows(job.dataset, job.data.selection)))
    ends = zip((0, *cuts), (*cuts, len(every)), strict=True)
    return [
        Partition(every[start:end], end - start, RunDirectory(job.directory.path / f"part-{place}"), pinned)
        for place, (start, end) in enumerate(ends, 1)
    ]


def ran(job: RunJob, cuts: Sequence[int]) -> list[Partition]:
    """The parts, once they are run: a first one for the pinned unit, and the rows'."""
    first = Partition((), 0, RunDirectory(job.directory.path / "part-0"))
    pinned = run_part(job, first, Stop(), lambda _: None)
    assert pinned.complete
    every = parts(job, cuts, dict(pinned.pinned))
    tally = pinned.stats
    for part in every:
        done = run_part(job, part, Stop(), lambda _: None)
        assert done.complete
        tally.include(done.stats)
    assert (tally.done, tally.failed) == (20, 1)
    assert (tally.calls, tally.cost_usd) == (21, 10.0)
    return [first, *every]


@pytest.mark.parametrize("cuts", [(), (7,), (1, 2, 19), (10, 10)])
def test_parts_joined_are_the_table_of_a_run_in_one(cuts: tuple[int, ...], bench: Any) -> None:
    bench.rule = spoken
    whole = bench.job(20, STEPS, out="whole")
    bench.run(whole)
    asked = len(bench.asked)
    job = bench.job(20, STEPS, out="parts")
    join_partitions(ran(job, cuts), job)
    assert len(bench.asked) == 2 * asked == 42
    assert job.directory.results.read_bytes() == whole.directory.results.read_bytes()
    assert job.directory.calls.read_bytes() == whole.directory.calls.read_bytes()


def test_journals_of_parts_behind_one_another_are_the_journal_of_the_run(bench: Any) -> None:
    bench.rule = spoken
    job = bench.job(20, STEPS)
    done = ran(job, (4, 11))
    lines = b"".join(part.folder.journal.read_bytes() for part in reversed(done))
    job.directory.journal.write_bytes(lines)
    bench.asked.clear()
    assert bench.run(job).recalled == 20
    assert bench.asked == []


def test_a_part_goes_on_by_its_own_journal(bench: Any) -> None:
    bench.rule = spoken
    job = bench.job(20, STEPS)
    done = ran(job, (4, 11))
    bench.asked.clear()
    run_part(job, replace(done[2], rows=list(done[2].rows)[::-1]), Stop(), lambda _: None)
    assert bench.asked == []


def test_two_at_one_part_exclude_each_other(bench: Any, tmp_path: Path) -> None:
    from verdict_cli.storage.journal.journal import Journal

    job = bench.job(20)
    (part,) = parts(job, ())
    with Journal.open(part.folder.journal), pytest.raises(JournalError, match="another run is writing"):
        run_part(job, part, Stop(), lambda _: None)
