"""Batches that are acknowledged and judged later."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from served import ONE_JUDGE, ROWS, asking
from typer.testing import CliRunner

from verdict_cli import Pipeline
from verdict_cli.cli.app import app
from verdict_cli.run.load_run import load_run

LATER = {"wait": "false"}


async def finished(client: Any, name: str) -> Any:
    """The batch once it is finished or stopped."""
    async with asyncio.timeout(60):
        while True:
            state = (await client.get(f"/batches/{name}")).json()
            if state["status"] in ("finished", "stopped"):
                return state
            await asyncio.sleep(0.02)


def test_a_batch_is_kept_judged_and_given_in_pages(house: Any) -> None:
    async def work(client: Any, _: Any) -> Any:
        rows = [{**row, "key": f"k{place}"} for place, row in enumerate(ROWS * 3)]
        taken = await client.post("/judge/batch", params=LATER, json={"rows": rows})
        name = taken.json()["id"]
        whole = await finished(client, name)
        page = (
            await client.get(taken.headers["location"], params={"offset": 4, "limit": 1})
        ).json()
        gone = [(await client.delete(f"/batches/{name}")).status_code for _ in range(2)]
        return taken, whole, page, gone, (await client.get("/batches/..%2Fx")).status_code

    taken, whole, page, gone, outside = house.within(work, accept="output.score > 3")
    assert taken.status_code == 202
    assert (taken.json()["left_s"], whole["left_s"]) == (None, None)
    assert (whole["rows"], whole["done"], whole["failed"], whole["next_offset"]) == (6, 6, 0, None)
    alone = [Pipeline.from_yaml(ONE_JUDGE).run(row).score for row in ROWS] * 3
    assert [one["output"]["score"] for one in whole["results"]] == alone
    assert [one["id"] for one in whole["results"]] == [f"k{place}" for place in range(6)]
    assert [one["accepted"] for one in whole["results"]] == [score > 3 for score in alone]
    assert page["results"] == whole["results"][4:5] and page["next_offset"] == 5
    assert gone == [204, 404] and outside == 404


def test_a_running_batch_says_how_long_it_will_take(house: Any) -> None:
    async def work(client: Any, service: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": ROWS * 40})
        states = []
        async with asyncio.timeout(60):
            while not states or states[-1]["status"] not in ("finished", "stopped"):
                states.append((await client.get(f"/batches/{taken.json()['id']}")).json())
        return states

    states = house.within(work)
    running = [
        state["left_s"]
        for state in states
        if state["status"] == "running" and 0 < state["done"] < state["rows"]
    ]
    assert all(left is not None and left >= 0 for left in running)


def test_a_batch_is_the_directory_of_a_run(house: Any) -> None:
    async def work(client: Any, _: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": ROWS})
        await finished(client, taken.json()["id"])
        return taken.json()["id"]

    name = house.within(work)
    _, facts, plan = load_run(house.folder / "state" / "batches" / name)
    assert (facts.status, facts.done, plan.name) == ("finished", 2, "t")


VOTE = """
verdict: 1
name: t
model: baseline/random
pipeline:
  - layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: '{source.key}'}]
    repeat: 3
  - {unit: ModePoolUnit, name: vote, field: score}
evaluate: {right: {prediction: output.score, target: source.label, metrics: [accuracy]}}
gates: [{metric: run.calibration_age_days, max: 30}]
"""


def calibrated_vote(folder: Path) -> str:
    """A vote with weights that were fitted on one of its runs."""
    (folder / "vote.yaml").write_text(VOTE)
    rows = [{"key": f"row {place}", "label": place % 3 > 0} for place in range(60)]
    (folder / "labelled.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run, weights = str(folder / "run"), str(folder / "w.yaml")
    for words in (
        ["run", str(folder / "vote.yaml"), str(folder / "labelled.jsonl"), "--out", run],
        ["calibrate", run, "--fit", "pool_weights", "--target", "source.label", "--out", weights],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (0, 1), done.output
    return VOTE.replace("field: score}", "field: score, weights: {file: w.yaml}}")


def test_a_batch_has_the_calibration_date_the_recording_and_the_report_of_a_run(house: Any) -> None:
    text = calibrated_vote(house.folder)
    recording = house.folder / "run"

    async def work(client: Any, _: Any) -> Any:
        rows = [{"key": f"row {place}", "label": True} for place in range(4)]
        taken = await client.post("/judge/batch", params=LATER, json={"rows": rows})
        state = await finished(client, taken.json()["id"])
        return taken.json()["id"], state

    name, state = house.within(work, text, recording=recording, replay=recording)
    assert (state["status"], state["done"]) == ("finished", 4)
    result = load_run(house.folder / "state" / "batches" / name)
    assert result.facts.calibrated == result.plan.calibrated != ""
    assert result.facts.replay == "run"
    report = json.loads((result.directory.path / "report.json").read_text())
    assert ("run.calibration_age_days", True) in [
        (gate["metric"], gate["passed"]) for gate in report["gates"]
    ]
    assert {"report.html", "report.md", "junit.xml"} <= {
        path.name for path in result.directory.path.iterdir()
    }


def test_a_batch_without_the_labels_of_an_evaluation_is_finished(house: Any) -> None:
    text = calibrated_vote(house.folder)

    async def work(client: Any, _: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": [{"key": "a"}]})
        return await finished(client, taken.json()["id"])

    state = house.within(work, text)
    assert (state["status"], state["done"], len(state["results"])) == ("finished", 1, 1)


def test_a_row_that_the_pipeline_cannot_take_keeps_the_batch_from_being_acknowledged(
    house: Any,
) -> None:
    async def work(client: Any, _: Any) -> Any:
        found = await client.post(
            "/judge/batch", params=LATER, json={"rows": [ROWS[0], {"a": "x"}]}
        )
        return found.status_code

    assert house.within(work) == 422
    assert not (house.folder / "state").exists()


def test_a_batch_is_judged_by_the_pipeline_that_it_was_accepted_for(house: Any) -> None:
    async def first(client: Any, service: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": ROWS})
        return taken.json()["id"]

    async def second(client: Any, _: Any) -> Any:
        return await finished(client, name)

    name = house.within(first)  # ends before the batch is judged, or while it is
    other = ONE_JUDGE.replace("JudgeUnit", "CoTUnit").replace("name: judge, ", "")
    state = house.within(second, other)
    alone = [Pipeline.from_yaml(ONE_JUDGE).run(row).score for row in ROWS]
    assert [one["output"]["score"] for one in state["results"]] == alone


def test_what_stops_a_batch_is_told_and_a_reload_tries_again(house: Any, loopback: Any) -> None:
    async def work(client: Any, service: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": ROWS})
        stopped = await finished(client, taken.json()["id"])
        service.client.spending.budget_usd = None
        await client.post("/reload")
        return stopped, await finished(client, taken.json()["id"])

    text = asking(loopback.url, cost={"input_per_million": 1e6, "output_per_million": 1e6})
    stopped, done = house.within(work, text, budget=0.0)
    assert stopped["status"] == "stopped" and "budget" in stopped["error"]
    assert (done["status"], done["done"], done["failed"]) == ("finished", 2, 0)


def test_two_servers_do_not_share_a_directory(house: Any) -> None:
    import pytest

    from verdict_cli import UsageError

    async def inner(client: Any, _: Any) -> Any:
        await client.post("/judge/batch", params=LATER, json={"rows": ROWS})
        with pytest.raises(UsageError, match="is in use by another server"):
            await asyncio.to_thread(house.within, inner)

    house.within(inner)
