"""Batches that are acknowledged and judged later."""

from __future__ import annotations

import asyncio
from typing import Any

from served import ONE_JUDGE, ROWS, asking

from verdict_cli import Pipeline
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
        page = (await client.get(taken.headers["location"], params={"offset": 4, "limit": 1})).json()
        gone = [(await client.delete(f"/batches/{name}")).status_code for _ in range(2)]
        return taken, whole, page, gone, (await client.get("/batches/..%2Fx")).status_code

    taken, whole, page, gone, outside = house.within(work, accept="output.score > 3")
    assert taken.status_code == 202
    assert (whole["rows"], whole["done"], whole["failed"], whole["next_offset"]) == (6, 6, 0, None)
    alone = [Pipeline.from_yaml(ONE_JUDGE).run(row).score for row in ROWS] * 3
    assert [one["output"]["score"] for one in whole["results"]] == alone
    assert [one["id"] for one in whole["results"]] == [f"k{place}" for place in range(6)]
    assert [one["accepted"] for one in whole["results"]] == [score > 3 for score in alone]
    assert page["results"] == whole["results"][4:5] and page["next_offset"] == 5
    assert gone == [204, 404] and outside == 404


def test_a_batch_is_the_directory_of_a_run(house: Any) -> None:
    async def work(client: Any, _: Any) -> Any:
        taken = await client.post("/judge/batch", params=LATER, json={"rows": ROWS})
        await finished(client, taken.json()["id"])
        return taken.json()["id"]

    name = house.within(work)
    _, facts, plan = load_run(house.folder / "state" / "batches" / name)
    assert (facts.status, facts.done, plan.name) == ("finished", 2, "t")


def test_a_row_that_the_pipeline_cannot_take_keeps_the_batch_from_being_acknowledged(house: Any) -> None:
    async def work(client: Any, _: Any) -> Any:
        found = await client.post("/judge/batch", params=LATER, json={"rows": [ROWS[0], {"a": "x"}]})
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
