"""A run whose rows are in several parts: finished parts are not opened again, and its tables are those of one part."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from part_cases import COUNTS, STEPS, Killed, cells, copies, spoken
from shell import needs

from verdict_cli.errors import BudgetError, DataError, JournalError, OutputError, Retryable, UsageError
from verdict_cli.messages import Reply, Request
from verdict_cli.run import open_parts
from verdict_cli.run.part_files import PartLayout, PartMark
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.journal import Journal


def stamps(run: RunDirectory, numbers: range) -> dict[str, tuple[int, ...]]:
    """What changes when a file of these parts is written, renamed, or read."""
    files = [
        path
        for number in numbers
        for path in (
            *(run.path / "parts" / f"{number:06}").iterdir(),
            *(run.path / table / f"{number:06}.parquet" for table in ("results.parquet", "calls.parquet")),
        )
    ]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The journals that are opened, by the names of their folders."""
    names: list[str] = []
    real = Journal.open.__func__  # type: ignore[attr-defined]

    def note(cls: type[Journal], path: Path, *args: Any, **kwargs: Any) -> Journal:
        names.append(path.parent.name)
        opened: Journal = real(cls, path, *args, **kwargs)
        return opened

    monkeypatch.setattr(Journal, "open", classmethod(note))
    return names


@pytest.mark.parametrize("size", [1, 5, 22])
def test_the_tables_of_parts_are_those_of_a_run_in_one(size: int, bench: Any) -> None:
    bench.rule = spoken
    rows = copies(bench.folder)
    whole = bench.job(rows, STEPS, out="whole")
    one = bench.run(whole)
    job = bench.job(rows, STEPS, out="parts", part_rows=size)
    many = bench.run(job)
    assert many.status == "finished"
    assert [getattr(many, name) for name in COUNTS] == [getattr(one, name) for name in COUNTS]
    for table in ("results", "calls"):
        path = getattr(job.directory, table)
        assert path.is_dir()
        assert len(list(path.glob("*.parquet"))) == -(-23 // size)
        assert cells(path) == cells(getattr(whole.directory, table))
    table = pyarrow.dataset.dataset(job.directory.results).to_table()
    assert table.equals(pyarrow.dataset.dataset(whole.directory.results).to_table())


def test_all_parts_have_the_columns_that_one_table_would_have(bench: Any) -> None:
    rows = bench.folder / "mixed.jsonl"
    kinds = [{"a": None}] * 4 + [{"a": 1, "late": "x"}] * 4 + [{"a": 2.5}] * 4 + [{"b": [1]}]
    rows.write_text("".join(json.dumps({"text": f"t{n}", **more}) + "\n" for n, more in enumerate(kinds)))
    whole, job = bench.job(rows, out="whole"), bench.job(rows, out="parts", part_rows=4)
    bench.run(whole)
    bench.run(job)
    folder, one = (pyarrow.dataset.dataset(each.directory.results) for each in (job, whole))
    assert folder.schema.equals(one.schema, check_metadata=True)
    assert folder.to_table().equals(one.to_table())
    layout = PartLayout(job.directory, 4, 13)
    assert sorted(layout.marks(job.start)) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(12))
def test_a_run_stopped_at_any_moment_repeats_no_call_and_opens_no_finished_part(
    seed: int, bench: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.rule = spoken
    rows = copies(bench.folder, 40)
    whole = bench.job(rows, STEPS, out="whole")
    one = bench.run(whole)
    draw = random.Random(seed)
    seal, write = open_parts.seal_part, PartMark.write
    moments = {"call": draw.randrange(45), "seal": draw.randrange(8), "mark": draw.randrange(8)}
    moment = draw.choice(list(moments))
    left = {name: moments[name] if name == moment else 10**6 for name in moments}

    def die(name: str) -> None:
        left[name] -= 1
        if left[name] < 0:
            raise Killed

    async def mortal(request: Request) -> Reply:
        die("call")
        return await spoken(request)

    def sealed(*args: Any) -> PartMark:  # the tables are closed, there is no mark
        die("seal")
        return seal(*args)

    def written(mark: PartMark, path: Path) -> None:
        die("mark")
        write(mark, path)

    bench.rule = mortal
    monkeypatch.setattr(open_parts, "seal_part", sealed)
    monkeypatch.setattr(PartMark, "write", written)
    job = bench.job(rows, STEPS, out="parts", part_rows=5)
    bench.asked.clear()
    with pytest.raises(Killed):
        bench.run(job)
    left = dict.fromkeys(moments, 10**6)
    before = PartLayout(job.directory, 5, 40).marks(job.start)
    opened.clear()
    facts = bench.run(job)
    assert {f"{number:06}" for number in before}.isdisjoint(opened)
    assert facts.status == "finished"
    assert [getattr(facts, name) for name in COUNTS] == [getattr(one, name) for name in COUNTS]
    assert facts.cost_usd == one.cost_usd
    assert cells(job.directory.results) == cells(whole.directory.results)
    assert cells(job.directory.calls) == cells(whole.directory.calls)
    repeated = Counter(bench.calls())
    assert sum(count - 1 for count in repeated.values()) <= 4  # what was in flight


def test_a_finished_part_is_left_as_it_is(bench: Any, opened: list[str]) -> None:
    job = bench.job(20, part_rows=5)

    async def stops(request: Request) -> Reply:
        if request.row.index == 17:
            bench.stop.request()
        return Reply('{"score": 3}')

    bench.rule = stops
    assert bench.run(job).status == "interrupted"
    before = stamps(job.directory, range(3))
    assert len(before) == 12
    opened.clear()
    bench.asked.clear()
    facts = bench.run(job)
    assert (facts.status, facts.done) == ("finished", 20)
    assert opened == ["out", "000003"]
    assert stamps(job.directory, range(3)) == before
    assert all(row >= 15 for row, *_ in bench.calls())


def test_only_parts_with_failed_rows_are_made_again_by_retry_failed(bench: Any, opened: list[str]) -> None:
    async def fails(request: Request) -> Reply:
        if request.row.index == 7:
            raise Retryable("down", kind="unavailable")
        return Reply('{"score": 3}')

    bench.rule = fails
    assert bench.run(bench.job(20, part_rows=5)).failed == 1
    job = bench.job(20, part_rows=5, retry_failed=True)
    before = stamps(job.directory, range(1)) | stamps(job.directory, range(2, 4))
    bench.rule = spoken
    opened.clear()
    bench.asked.clear()
    facts = bench.run(job)
    assert (facts.failed, facts.done, facts.calls) == (0, 20, 22)
    assert bench.calls() == [(7, "judge", 0, 2)]
    assert opened == ["out", "000001"]
    assert stamps(job.directory, range(1)) | stamps(job.directory, range(2, 4)) == before


def update_of(bench: Any, texts: list[str], **settings: Any) -> Any:
    path = bench.folder / "data.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return bench.job(path, part_rows=settings.pop("part_rows", 5), **settings)


def test_rows_added_leave_full_parts_and_call_the_new_rows_only(bench: Any) -> None:
    texts = [f"text {place}" for place in range(18)]
    first = update_of(bench, texts)
    bench.run(first)
    before = stamps(first.directory, range(3))
    bench.asked.clear()
    job = update_of(bench, [*texts, *(f"new {place}" for place in range(7))], update=True)
    facts = bench.run(job)
    assert (facts.done, facts.calls) == (25, 25)
    assert sorted(row for row, *_ in bench.calls()) == list(range(18, 25))
    tables = {name: stamp for name, stamp in stamps(job.directory, range(3)).items() if "done.json" not in name}
    assert tables == {name: stamp for name, stamp in before.items() if "done.json" not in name}
    assert len(cells(job.directory.results)) == 25


@needs("batches")
def test_batches_of_parts_that_are_in_flight_are_not_paid_a_second_time(bench: Any) -> None:
    texts = [f"text {place}" for place in range(18)]
    bench.run(update_of(bench, texts))
    intent = {"event": "intent", "batch": 1, "tag": "t", "wave": 1, "provider": "openai", "model": {"name": "gpt-4o"}}
    intent |= {"requests": 5, "sha256": "", "at": 0.0, "expected_usd": 0.0}
    ledger = bench.folder / "out" / "parts" / "000001" / "batches.jsonl"
    ledger.write_text(json.dumps(intent) + "\n")
    for job in (update_of(bench, texts), update_of(bench, ["new", *texts], update=True)):
        with pytest.raises(UsageError, match="has 1 batch in flight"):
            bench.run(job)
    ledger.write_text(f'{ledger.read_text()}{{"event": "ended", "batch": 1, "status": "cancelled", "at": "now"}}\n')
    assert bench.run(update_of(bench, ["new", *texts], update=True)).done == 19


def test_a_row_put_in_front_calls_that_row_alone(bench: Any) -> None:
    texts = [f"text {place}" for place in range(18)]
    bench.run(update_of(bench, texts))
    bench.asked.clear()
    facts = bench.run(update_of(bench, ["new", *texts], update=True))
    assert (facts.done, facts.recalled) == (19, 18)
    assert [row for row, *_ in bench.calls()] == [0]
    bench.asked.clear()
    bench.run(update_of(bench, texts[3:], update=True, part_rows=5))
    assert bench.asked == []


def test_a_changed_unit_runs_again_in_all_parts_and_the_other_is_recalled(bench: Any) -> None:
    bench.rule = spoken
    steps = STEPS.replace(", pin: true", "")
    bench.run(bench.job(20, steps, part_rows=5))
    bench.asked.clear()
    changed = bench.job(20, steps.replace("Rate", "Now rate"), part_rows=5, update=True)
    assert bench.run(changed).done == 20
    assert {node for _, node, *_ in bench.calls()} == {"judge"}
    bench.asked.clear()
    with pytest.raises(JournalError, match="another pipeline"):
        bench.run(bench.job(20, steps, part_rows=5))
    assert bench.run(bench.job(20, steps, part_rows=5, update=True)).done == 20
    assert bench.asked == []


def test_a_run_in_one_part_becomes_one_in_several_and_back(bench: Any) -> None:
    texts = [f"text {place}" for place in range(12)]
    bench.run(update_of(bench, texts[:4]))
    assert update_of(bench, texts[:4]).directory.results.is_file()
    job = update_of(bench, texts, update=True)
    bench.run(job)
    assert job.directory.results.is_dir()
    bench.asked.clear()
    small = update_of(bench, texts[6:10], update=True)
    bench.run(small)
    assert bench.asked == []
    assert small.directory.results.is_file()
    assert not (small.directory.path / "parts").exists()


def test_a_damaged_mark_or_a_lost_table_has_the_part_made_again_without_calls(bench: Any) -> None:
    job = bench.job(20, part_rows=5)
    bench.run(job)
    expected = cells(job.directory.results)
    (job.directory.path / "parts" / "000001" / "done.json").write_text('{"first": 5}')
    (job.directory.results / "000002.parquet").unlink()
    bench.asked.clear()
    facts = bench.run(job)
    assert bench.asked == []
    assert (facts.done, facts.recalled) == (20, 10)
    assert cells(job.directory.results) == expected


def test_a_full_disk_at_the_end_of_a_part_stops_the_run_with_one_error(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = PartMark.write

    def full(mark: PartMark, path: Path) -> None:
        if mark.first == 5:
            raise OutputError(f"{path} cannot be written: No space left on device")
        write(mark, path)

    monkeypatch.setattr(PartMark, "write", full)
    job = bench.job(20, part_rows=5)
    with pytest.raises(OutputError, match="No space left"):
        bench.run(job)
    monkeypatch.setattr(PartMark, "write", write)
    bench.asked.clear()
    assert bench.run(job).done == 20
    assert bench.run(bench.job(20, part_rows=5, fresh=True)).recalled == 0


def test_a_budget_counts_the_cost_of_finished_parts(bench: Any) -> None:
    bench.rule = spoken
    steps = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
    head = "model: {name: m, retries: 1, cost: {input_per_million: 1, output_per_million: 1}}"

    async def paid(_: Request) -> Reply:
        return Reply('{"score": 3}', cost_usd=1.0)

    bench.rule = paid
    job = bench.job(20, steps, head=head, part_rows=5, budget_usd=12.0, concurrency=1)
    for _ in range(2):
        with pytest.raises(BudgetError):
            bench.run(job)
    assert len(bench.asked) == 12


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\n \t\n\n"], ids=["lines", "windows", "blank lines"])
@pytest.mark.parametrize("last", ["", " ", "\n"], ids=["", "space", "blank"])
def test_lines_that_are_not_rows_are_read_past_as_well(breaks: str, last: str, tmp_path: Path) -> None:
    paths = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    rows = [f'{{"text":\r{place}}}' for place in range(12)]
    paths[0].write_bytes((breaks.join(["", *rows[:5]]) + breaks + last).encode())
    paths[1].write_bytes(breaks.join(rows[5:]).encode())
    dataset = Dataset(files=paths)
    every = list(stream_rows(dataset))
    assert [row.source["text"] for row in every] == [*range(12)]
    for skipped in range(1, 12):
        assert list(stream_rows(dataset, skipped=[range(skipped)])) == every[skipped:]
    paths[1].write_bytes(paths[1].read_bytes() + b"\n\n{")
    with pytest.raises(DataError) as error:
        list(stream_rows(dataset, skipped=[range(7)]))
    with pytest.raises(DataError) as whole:
        list(stream_rows(dataset))
    assert str(error.value) == str(whole.value)  # with its line


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize("dropped", [(), (0,), (0, 1), (1,), (0, 2), (0, 1, 2, 3, 4)])
def test_rows_of_finished_parts_are_read_past(dropped: tuple[int, ...], ending: str, tmp_path: Path) -> None:
    lines = [f"text {place % 3}" for place in range(23)]
    paths = (tmp_path / f"a.{ending}", tmp_path / f"b.{ending}")
    for path, part in zip(paths, (lines[:7], lines[7:]), strict=True):
        rows = (
            [json.dumps({"text": text}) + "\n\n" for text in part]
            if ending == "jsonl"
            else ["text\n", *map("{}\n".format, part)]
        )
        path.write_text("".join(rows))
    dataset = Dataset(files=paths)
    skipped = [range(5 * part, min(23, 5 * part + 5)) for part in dropped]
    every = list(stream_rows(dataset))
    expected = [row for row in every if not any(row.index in span for span in skipped)]
    assert list(stream_rows(dataset, skipped=skipped)) == expected
    kept = Dataset(files=paths, keep=lambda source: source["text"] != "text 1")
    every = list(stream_rows(kept))
    expected = [row for place, row in enumerate(every) if not any(place in span for span in skipped)]
    assert list(stream_rows(kept, skipped=skipped)) == expected
