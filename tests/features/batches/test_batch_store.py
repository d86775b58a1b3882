"""Runs of batches whose directory is in a store, and `--retry-failed` by batches."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_bench import BatchBench, killed_at_note
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts

pytestmark = pytest.mark.slow  # `make test-all`


fsspec = pytest.importorskip("fsspec")
segments = pytest.importorskip("verdict_cli.features.object_store.run_store")
URL = "memory://batches/run"
DETACHED = BatchOptions(every_model=True, detach=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(segments, "PACE_S", 0.0)
    yield segments.RemoteFolder.at(URL)
    fsspec.filesystem("memory").store.clear()


def fetched(bench: BatchBench, store: Any) -> RunFacts:
    """The facts of the run in the store, whose files are then in a folder."""
    store.get_all(store.names(), bench.folder / "fetched")
    facts = RunDirectory(bench.folder / "fetched").facts()
    assert facts is not None
    return facts


@pytest.mark.parametrize("keeps", [True, False], ids=["here", "on another machine"])
@pytest.mark.parametrize(("step", "after"), [*((step, True) for step in (1, 2, 3, 4, 6, 8)), (3, False), (4, False)])
def test_a_run_in_a_store_that_is_killed_at_any_note_pays_once(
    bench: BatchBench, store: Any, step: int, after: bool, keeps: bool
) -> None:
    with killed_at_note(step, after=after):
        bench.run(4, out=URL)
    if not keeps:
        shutil.rmtree(bench.folder / "cache")
    assert bench.run(4, out=URL).status == "finished"
    assert set(bench.server.paid.values()) == {1}
    assert (len(bench.server.paid), bench.server.sizes) == (24, [12, 12])
    fetched(bench, store)
    bench.run(4, out="live", batches=BatchOptions())
    assert bench.tables("fetched") == bench.tables("live")
    assert not store.names("batches")
    assert not list((bench.folder / "cache" / "runs").iterdir())


def test_processes_killed_before_their_batches_are_acknowledged_pay_once_from_any_machine(
    bench: BatchBench, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.bucket("killed-batches")
    place = bucket.below("run")
    monkeypatch.setenv("VERDICT_CACHE_DIR", str(bench.folder / "cache"))
    bench.options(4)
    command = [
        sys.executable,
        "-m",
        "verdict_cli",
        "run",
        "pipeline.yaml",
        "4.jsonl",
        "--batch",
        "--out",
        place.url,
        "-q",
    ]
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        running[-1].kill()

    bench.server.on_create = kill
    codes = []
    while len(codes) < 3:
        running.append(
            subprocess.Popen(command, cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        codes.append(running[-1].wait())
        if len(codes) == 1:
            shutil.rmtree(bench.folder / "cache")
            place.remove(place.names("lease"))
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert (bench.server.sizes, set(bench.server.paid.values())) == ([12, 12], {1})
    fetched(bench, place)
    bench.run(4, out="live", batches=BatchOptions())
    assert bench.tables("fetched") == bench.tables("live")


def test_batch_commands_take_the_url_of_a_run(bench: BatchBench, store: Any) -> None:
    def said(*words: str | Path) -> str:
        result = CliRunner().invoke(app, ["batch", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.output

    bench.server.hangs = True
    bench.run(4, out=URL, batches=DETACHED)
    shutil.rmtree(bench.folder / "cache")
    assert store.names("batches") == ["batches/00001.jsonl", "batches/00001.keys"]
    assert "0 of 12 answered  in_progress  batch-0" in said("status", URL)
    assert said("cancel", URL) == "1 batch cancelled\n"
    bench.server.hangs = False
    assert "12 not; 0 in flight" in said("fetch", URL)
    document = json.loads(store.read("run.json") or b"{}")
    assert [each["status"] for each in document["batches"]] == ["cancelled"]
    assert bench.run(4, out=URL).status == "finished"
    assert set(bench.server.paid.values()) == {1}


def test_failed_calls_are_retried_by_batches(bench: BatchBench, monkeypatch: pytest.MonkeyPatch) -> None:
    import batch_server
    from batch_server import reply_to

    def mostly(body: Any) -> Any:
        reply = reply_to(body)
        if "text 2" in json.dumps(body):
            reply["choices"][0]["message"]["content"] = "no score"
        return reply

    bench.run(out="live", batches=BatchOptions(), head="retries: 0")
    monkeypatch.setattr(batch_server, "reply_to", mostly)
    first = bench.run(head="retries: 0")
    assert (first.done, first.failed, bench.server.sizes) == (10, 1, [30, 27])
    monkeypatch.setattr(batch_server, "reply_to", reply_to)
    paid = len(bench.server.paid)
    for command in (DETACHED, DETACHED, BatchOptions(every_model=True)):
        facts = bench.run(head="retries: 0", retry_failed=True, batches=command)
    assert (facts.done, facts.failed, facts.status) == (10, 0, "finished")
    assert bench.server.sizes == [30, 27, 3, 3]
    assert len(bench.server.paid) == paid + 6
    assert bench.tables("out") == bench.tables("live")


def test_calls_that_fail_again_are_retried_once_a_command(bench: BatchBench, monkeypatch: pytest.MonkeyPatch) -> None:
    import batch_server

    monkeypatch.setattr(batch_server, "reply_to", lambda body: {**_PLAIN})
    for sizes in ([6], [6, 6], [6, 6, 6]):
        facts = bench.run(2, head="retries: 0", retry_failed=len(sizes) > 1)
        assert (facts.failed, bench.server.sizes) == (2, sizes)


_PLAIN = {"choices": [{"message": {"role": "assistant", "content": "no score"}, "finish_reason": "stop"}], "usage": {}}


def test_ordinary_models_beside_batched_ones_are_called_once(bench: BatchBench) -> None:
    steps = """
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}', model: {name: gpt-4o, api_base: 'URL'}}
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text} by {previous.thinking}'}
- {unit: JudgeUnit, name: verify, prompt: 'Check {previous.score} of {source.text}'}
"""
    steps = steps.replace("URL", f"{bench.server.url}/v1")
    facts = bench.run(5, steps, head="batch: true", batches=BatchOptions())
    assert (facts.status, facts.calls, bench.server.sizes) == ("finished", 15, [5, 5])
    assert bench.server.live == 5
    assert facts.failed == facts.recalled == 0
