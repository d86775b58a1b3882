"""Runs whose directory is in a store: what is there when the process, the store or the machine's copy is gone."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import pytest

from verdict_cli.features.object_store.run_store import RemoteFolder
from verdict_cli.storage.tables.reader import read_table

pytestmark = pytest.mark.slow  # `make test-all`


ROWS = 60
STEPS = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
FILES = {
    *("results.parquet", "calls.parquet", "run.json", "spec.yaml", "run.db"),
    *("report.html", "report.json", "report.md", "junit.xml"),
}


def stats(url: str) -> dict[str, Any]:
    """What the server has counted."""
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return dict(json.load(answer))


def words(shell: Any, url: str, out: str, *more: str) -> list[str]:
    config = shell.config(
        STEPS,
        f"model: {{name: openai/m, api_base: '{url}', cache: false}}",
    )
    return ["run", str(config), str(shell.rows(ROWS)), "--out", out, "--concurrency", "4", *more]


def wait_for_requests(process: Any, url: str, requests: int) -> None:
    end = monotonic() + 30
    while stats(url)["requests"] < requests and monotonic() < end:
        assert process.poll() is None, process.communicate()
        sleep(0.005)


def killed(shell: Any, command: list[str], url: str, requests: int) -> None:
    """Start a run and kill it after so many requests."""
    process = shell.start(*command)
    wait_for_requests(process, url, requests)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def rows(path: Path) -> list[Any]:
    return list(read_table(path))


def inside(place: RemoteFolder, name: str) -> RemoteFolder:
    return RemoteFolder.at(f"{place.url}/{name}")


def fetched(place: RemoteFolder, folder: Path) -> Path:
    """The run's directory, copied."""
    folder.mkdir()
    for name in place.names():
        place.get(name, folder / name)
    assert {path.name for path in folder.iterdir()} == FILES
    return folder


def test_a_killed_run_continues_on_its_machine_and_repeats_no_finished_call(shell, loopback, s3):
    url = loopback.start("--latency-ms", "120", "--score", "hash")
    place = s3.bucket("killed")
    command = words(shell, url, f"{place.url}/run", "--quiet")
    killed(shell, command, url, 32)
    assert shell(*command).code == 0
    counted = stats(url)
    assert counted["distinct_bodies"] == ROWS
    assert counted["requests"] <= ROWS + 2 * 4
    run = fetched(inside(place, "run"), shell.folder / "fetched")
    assert not list((shell.folder / "cache" / "runs").iterdir())
    assert shell(*words(shell, url, "whole", "--quiet")).code == 0
    assert rows(run / "results.parquet") == rows(shell.folder / "whole" / "results.parquet")


def test_a_killed_run_continues_elsewhere_and_repeats_what_was_in_no_segment(shell, loopback, s3):
    url = loopback.start("--latency-ms", "700", "--score", "hash")
    place = s3.bucket("elsewhere")
    command = words(shell, url, f"{place.url}/run", "--quiet")
    process = shell.start(*command)
    end = monotonic() + 30
    while b'"series":""' in (place.read("run/writer.json") or b'"series":""'):
        assert monotonic() < end, process.poll()
        sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = stats(url)["requests"]
    assert 12 <= before < ROWS
    shutil.rmtree(shell.folder / "cache")
    assert shell(*command).code == 0
    counted = stats(url)
    assert counted["distinct_bodies"] == ROWS
    assert counted["requests"] <= ROWS + 3 * 4
    run = fetched(inside(place, "run"), shell.folder / "fetched")
    assert shell(*words(shell, url, "whole", "--quiet")).code == 0
    assert rows(run / "results.parquet") == rows(shell.folder / "whole" / "results.parquet")


def test_a_run_killed_before_its_first_segment_starts_over_elsewhere(shell, loopback, s3):
    url = loopback.start("--latency-ms", "120", "--score", "hash")
    place = s3.bucket("early")
    command = words(shell, url, f"{place.url}/run", "--quiet")
    killed(shell, command, url, 4)
    assert not inside(place, "run/segments").names()
    shutil.rmtree(shell.folder / "cache")
    assert shell(*command).code == 0
    assert stats(url)["distinct_bodies"] == ROWS


def test_a_copy_from_before_another_machine_finished_the_run_is_not_used(shell, loopback, s3):
    url = loopback.start("--latency-ms", "120", "--score", "hash")
    place = s3.bucket("stale")
    command = words(shell, url, f"{place.url}/run", "--quiet")
    killed(shell, command, url, 12)
    stale, cache = shell.folder / "stale", shell.folder / "cache"
    cache.rename(stale)
    assert shell(*command).code == 0
    database, requests = place.read("run/run.db"), stats(url)["requests"]
    shutil.rmtree(cache)
    stale.rename(cache)
    assert shell(*command).code == 0
    assert stats(url)["requests"] == requests
    assert len(place.read("run/run.db") or b"") == len(database or b"")


def test_a_store_that_disappears_stops_the_run_with_a_clear_error_and_loses_nothing(
    shell, loopback, s3
):
    url = loopback.start("--latency-ms", "40")
    place = s3.bucket("gone")
    command = words(shell, url, f"{place.url}/run")
    process = shell.start(*command)
    wait_for_requests(process, url, 20)
    s3.stop()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2, stderr
    assert "the store refuses, or cannot be reached: Could not connect" in stderr
    assert "the same command resumes the run" in stderr
    assert "Traceback" not in stderr
    s3.start()
    assert shell(*command).code == 0
    assert stats(url)["requests"] <= ROWS + 4
    facts = json.loads(place.read("run/run.json") or b"{}")
    assert (facts["status"], facts["done"]) == ("finished", ROWS)


def test_ctrl_c_leaves_finished_rows_in_the_store_and_the_printed_command_continues(
    shell, loopback, s3
):
    url = loopback.start("--latency-ms", "100")
    place = inside(s3.bucket("stopped"), "run")
    process = shell.start(*words(shell, url, place.url))
    wait_for_requests(process, url, 12)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert f"their results are in {place.url}" in stderr
    facts = json.loads(place.read("run.json") or b"{}")
    assert facts["status"] == "interrupted"
    place.get("results.parquet", shell.folder / "partial.parquet")
    assert len(rows(shell.folder / "partial.parquet")[0]["row"]) == facts["done"] > 0
    assert not place.names("lease")
    assert shell(*words(shell, url, place.url), "--quiet").code == 0
    assert stats(url)["requests"] == ROWS
    again = shell(*words(shell, url, place.url))
    assert (again.code, "nothing left to do" in again.err) == (0, True)
    assert set(place.names()) == FILES


def test_a_second_run_on_the_same_place_is_refused(shell, loopback, s3):
    url = loopback.start("--latency-ms", "3000")
    place = inside(s3.bucket("held"), "run")
    process = shell.start(*words(shell, url, place.url))
    wait_for_requests(process, url, 4)
    second = shell(*words(shell, url, place.url))
    assert (second.code, f"another run is writing to {place.url}" in second.err) == (2, True)
    assert process.poll() is None


def test_fresh_discards_what_the_store_has(shell, s3, loopback):
    url = loopback.start()
    place = inside(s3.bucket("fresh"), "run")
    assert shell(*words(shell, url, place.url, "--format", "parquet,csv")).code == 0
    assert "results.csv" in place.names()
    assert shell(*words(shell, url, place.url, "--fresh")).code == 0
    assert stats(url)["requests"] == 2 * ROWS
    assert set(place.names()) == FILES


def test_a_dataset_in_a_store_is_judged(shell, s3):
    place = s3.bucket("data")
    for name in ("some/a.jsonl", "some/b.jsonl", "some/notes.txt"):
        place.put(shell.rows(3), name)
    config = shell.config(STEPS)
    for data, count in (("some/a.jsonl", 3), ("some", 6), ("some/*.jsonl", 6)):
        done = shell("run", config, f"{place.url}/{data}", "--fresh", "--out", "out", "--json")
        assert (done.code, done.json()["rows"]) == (0, count), data
    missing = shell("run", config, f"{place.url}/none.jsonl", "--out", "out")
    assert (missing.code, "no dataset at this URL" in missing.err) == (2, True)


def test_a_missing_bucket_is_reported_and_not_created(shell, s3):
    config = shell.config(STEPS)
    done = shell("run", config, shell.rows(2), "--out", "s3://mistyped/run")
    assert (done.code, "s3://mistyped/run" in done.err) == (2, True)
    assert "bucket" in done.err


def test_a_file_url_is_a_path_and_memory_a_store(shell):
    pytest.importorskip("fsspec")
    config = shell.config(STEPS)
    assert shell("run", config, shell.rows(2), "--out", (shell.folder / "here").as_uri()).code == 0
    assert (shell.folder / "here" / "results.parquet").exists()
    assert shell("run", config, shell.rows(2), "--out", "memory://here/run").code == 0
    assert set(RemoteFolder.at("memory://here/run").names()) >= FILES


def test_a_run_copied_from_a_store_is_verified(shell):
    pytest.importorskip("fsspec")
    place = RemoteFolder.at("memory://verified/run")
    config = shell.config(STEPS)
    data = shell.rows(5)
    for _ in range(2):  # the second one writes the report again
        assert shell("run", config, data, "--out", place.url).code == 0
        run = shell.folder / "copied"
        place.get_all(place.names(), run)
        verified = shell("verify", run)
        assert verified.code == 0, verified.err
        shutil.rmtree(run)
    assert not list((shell.folder / "cache" / "runs").iterdir())


@pytest.mark.parametrize(
    ("url", "message"), [("nowhere://a/b", "nowhere"), ("s3://a/*", "stand for several names")]
)
def test_an_impossible_place_is_reported(url, message, shell):
    config = shell.config(STEPS)
    done = shell("run", config, shell.rows(2), "--out", url)
    assert (done.code, message in done.err) == (2, True)


def test_a_writer_that_was_stopped_and_taken_over_makes_no_call_after_it_wakes(
    shell, scripted_model, monkeypatch
):
    from verdict_cli.features.object_store import run_store

    place = RemoteFolder.at("memory://stopped/run")

    def answer(_: Any) -> str:
        if (
            len(scripted_model.requests) == 8
        ):  # the process stands still, and another one takes the run over
            now = run_store._clock()
            monkeypatch.setattr(run_store, "_clock", lambda: now + 60)
            place.write("lease/00000009", b'{"mark": "of the other"}')
            place.write("run.json", b"of the other")
        return "5"

    scripted_model.answer = answer
    config = shell.config(
        STEPS,
        "model: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}",
    )
    done = shell(
        "run", config, shell.rows(ROWS), "--out", place.url, "--concurrency", "4", "--no-cache"
    )
    assert (done.code, "another run has taken over" in done.err) == (2, True), done.err
    assert len(scripted_model.requests) <= 8 + 4
    assert place.read("run.json") == b"of the other"
