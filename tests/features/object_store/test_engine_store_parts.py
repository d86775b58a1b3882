"""A run in parts whose directory is in a store: finished parts are not opened again, wherever it is resumed."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from part_cases import COUNTS, STEPS, Killed, cells, copies, spoken

from verdict_cli.features.object_store import run_store as segments
from verdict_cli.features.object_store.run_store import RemoteFolder
from verdict_cli.messages import Reply, Request
from verdict_cli.run import open_parts
from verdict_cli.run.job import RunJob
from verdict_cli.run.part_files import PartMark
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts

fsspec = pytest.importorskip("fsspec")
URL = "memory://parts/run"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFolder]:
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(segments, "PACE_S", 0.0)
    yield RemoteFolder.at(URL)
    fsspec.filesystem("memory").store.clear()


def stored(bench: Any, job: RunJob) -> RunFacts:
    """The facts of the job, which is run in the store."""
    directory = RunDirectory.open_url(URL)
    with directory.lock():
        facts: RunFacts = bench.run(replace(job, directory=directory))
        if facts.status == "finished":
            directory.get_tables()
            shutil.rmtree(bench.folder / "fetched", ignore_errors=True)
            shutil.copytree(directory.path, bench.folder / "fetched")
    return facts


def same_tables(bench: Any, whole: RunJob) -> bool:
    run = bench.folder / "fetched"
    return all(cells(run / f"{name}.parquet") == cells(getattr(whole.directory, name)) for name in ("results", "calls"))


def test_a_finished_run_has_its_parts_in_the_store_and_nothing_else(bench: Any, store: RemoteFolder) -> None:
    bench.rule = spoken
    rows = copies(bench.folder)
    whole = bench.job(rows, STEPS, out="whole")
    one = bench.run(whole)
    facts = stored(bench, bench.job(rows, STEPS, part_rows=10))
    assert [getattr(facts, name) for name in COUNTS] == [getattr(one, name) for name in COUNTS]
    assert same_tables(bench, whole)
    parts = [
        name
        for part in range(3)
        for name in (
            f"parts/{part:06}/journal.jsonl",
            f"parts/{part:06}/done.json",
            f"results.parquet/{part:06}.parquet",
            f"calls.parquet/{part:06}.parquet",
        )
    ]
    assert set(store.names()) == {*parts, "parts/checked.json", "run.json", "spec.yaml", "journal.jsonl"}
    assert not list((bench.folder / "cache" / "runs").iterdir())


@pytest.mark.parametrize("keeps", [True, False], ids=["here", "on another machine"])
@pytest.mark.parametrize("seed", range(6))
def test_a_run_stopped_at_any_moment_reads_the_marks_of_finished_parts_only(
    seed: int, keeps: bool, bench: Any, store: RemoteFolder, monkeypatch: pytest.MonkeyPatch
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

    def sealed(*args: Any) -> PartMark:
        die("seal")
        return seal(*args)

    def written(mark: PartMark, path: Path) -> None:
        die("mark")
        write(mark, path)

    bench.rule = mortal
    monkeypatch.setattr(open_parts, "seal_part", sealed)
    monkeypatch.setattr(PartMark, "write", written)
    bench.asked.clear()
    job = bench.job(rows, STEPS, part_rows=5)
    with pytest.raises(Killed):
        stored(bench, job)
    left = dict.fromkeys(moments, 10**6)
    if not keeps:
        shutil.rmtree(bench.folder / "cache")
    finished = [name.rpartition("/")[0] for name in store.names("parts") if name.endswith("done.json")]
    read: list[str] = []
    fetch = RemoteFolder.get_all
    monkeypatch.setattr(
        RemoteFolder, "get_all", lambda self, names, to: (read.extend(names), fetch(self, names, to))[1]
    )
    bench.stop.release()
    facts = stored(bench, job)
    assert not [name for name in read if name.rpartition("/")[0] in finished and not name.endswith("done.json")]
    assert [getattr(facts, name) for name in COUNTS] == [getattr(one, name) for name in COUNTS]
    assert same_tables(bench, whole)
    repeated = Counter(bench.calls())
    assert sum(count - 1 for count in repeated.values()) <= 4  # what was in flight


def test_columns_that_a_later_part_widens_are_widened_in_the_store(bench: Any, store: RemoteFolder) -> None:
    rows = bench.folder / "mixed.jsonl"
    kinds = [{"a": None}] * 4 + [{"a": 1, "late": "x"}] * 4 + [{"a": 2.5}] * 4 + [{"b": [1]}]
    rows.write_text("".join(json.dumps({"text": f"t{n}", **more}) + "\n" for n, more in enumerate(kinds)))
    whole = bench.job(rows, out="whole")
    bench.run(whole)

    async def stops(request: Request) -> Reply:
        if request.row.index == 9:
            bench.stop.request()
        return Reply('{"score": 3}')

    bench.rule = stops
    job = bench.job(rows, part_rows=4)
    assert stored(bench, job).status == "interrupted"
    shutil.rmtree(bench.folder / "cache")
    assert stored(bench, job).status == "finished"
    assert same_tables(bench, whole)
    mark = PartMark.decode(store.read("parts/000000/done.json") or b"")
    assert mark is not None
    assert list(mark.columns["results.parquet"])[-3:] != []
    assert set(mark.digests) == {
        "parts/000000/journal.jsonl",
        "results.parquet/000000.parquet",
        "calls.parquet/000000.parquet",
    }


def test_failed_rows_and_new_rows_touch_their_parts_only(bench: Any, store: RemoteFolder) -> None:
    data = bench.folder / "data.jsonl"

    def job(count: int, **settings: Any) -> RunJob:
        data.write_text("".join(json.dumps({"text": f"text {place}"}) + "\n" for place in range(count)))
        made: RunJob = bench.job(data, part_rows=5, **settings)
        return made

    async def fails(request: Request) -> Reply:
        if request.row.index == 7 and request.attempt < 2:
            raise_down()
        return Reply('{"score": 3}')

    bench.rule = fails
    assert stored(bench, job(18)).failed == 1
    bench.asked.clear()
    facts = stored(bench, job(18, retry_failed=True))
    assert (facts.failed, facts.done) == (0, 18)
    assert bench.calls() == [(7, "judge", 0, 2)]
    before = {name: store.read(name) for name in store.names() if "00000" in name and "000003" not in name}
    bench.asked.clear()
    facts = stored(bench, job(23, update=True))
    assert facts.done == 23
    assert sorted(row for row, *_ in bench.calls()) == list(range(18, 23))
    kept = [name for name in before if not name.endswith("done.json")]
    assert {name: store.read(name) for name in kept} == {name: before[name] for name in kept}
    bench.asked.clear()
    facts = stored(bench, job(4, update=True))
    assert (facts.done, bench.asked) == (4, [])
    assert not [name for name in store.names() if "/" in name]


def raise_down() -> None:
    from verdict_cli.errors import Retryable

    raise Retryable("down", kind="unavailable")
