"""What the endpoints answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from served import ONE_JUDGE, ROWS, asking

from verdict_cli import Pipeline
from verdict_cli.features.guard.middleware import AccessPolicy
from verdict_cli.features.server.service import Limits, Overloaded

FAILING = ONE_JUDGE.replace("baseline/lexical", "{name: m, retries: 0}")


def recorded(folder: Path, *replies: str) -> Path:
    path = folder / "rec.jsonl"
    lines = [
        json.dumps({"row": index, "unit": "judge", "reply": reply})
        for index, reply in enumerate(replies)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_row_is_answered_as_the_pipeline_answers_it(house):
    async def work(client: Any, _: Any) -> Any:
        return (await client.post("/judge", json={"row": {**ROWS[0], "key": "k1"}})).json()

    judged = house.within(work)
    assert judged["output"] == dict(Pipeline.from_yaml(ONE_JUDGE).run(ROWS[0]))
    assert (judged["status"], judged["id"], judged["failure"], judged["calls"]) == (
        "ok",
        "k1",
        None,
        1,
    )
    assert "accepted" not in judged


def test_a_rule_says_whether_a_row_is_accepted(house):
    async def work(client: Any, _: Any) -> Any:
        return [(await client.post("/judge", json={"row": row})).json() for row in ROWS]

    judged = house.within(work, accept="output.score > 3")
    assert [row["accepted"] for row in judged] == [row["output"]["score"] > 3 for row in judged]


@pytest.mark.parametrize(
    ("policy", "status", "accepted"), [("closed", 502, False), ("open", 200, True)]
)
def test_a_failed_judgement_is_answered_by_the_policy(house, policy, status, accepted):
    async def work(client: Any, _: Any) -> Any:
        return await client.post("/judge", json={"row": ROWS[0]})

    replies = recorded(house.folder, "mud")
    response = house.within(
        work, FAILING, recording=replies, policy=policy, accept="output.score > 1"
    )
    assert response.status_code == status
    document = response.json()
    assert (document["status"], document["output"], document["accepted"]) == (
        "failed",
        None,
        accepted,
    )
    assert document["failure"]["kind"] == "unreadable"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"row": {"a": "x"}}', "no column 'b'"),
        (b'{"row": {"a": NaN}}', "JSON decode error"),
        (b'{"row": []}', "valid dictionary"),
        (b'{"row": {}, "other": 1}', "Extra inputs"),
        (b'{"row": {"a": "x", "b": "y", "key": [1]}}', "an id is a string or an integer"),
        (b'{"row": {"a": "x", "b": "y"}, "deadline_s": 0}', "greater than 0"),
    ],
)
def test_what_is_no_row_is_refused_whatever_the_policy(house, content, message):
    async def work(client: Any, _: Any) -> Any:
        return await client.post(
            "/judge", content=content, headers={"content-type": "application/json"}
        )

    response = house.within(work, policy="open")
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


def test_a_picture_is_never_a_file_of_the_server(house, tmp_path):
    text = ONE_JUDGE.replace(
        "dataset: {id: key}", "dataset: {columns: {a: picture}, schema: {a: image}}"
    )
    (tmp_path / "secret.png").write_bytes(b"\x89PNG")

    async def work(client: Any, _: Any) -> Any:
        row = {"picture": str(tmp_path / "secret.png"), "b": "x"}
        return [
            (await client.post("/judge", json={"row": row})).json(),
            (await client.post("/judge", json={"row": {**row, "a": row["picture"]}})).json(),
        ]

    for response in house.within(work, text):
        assert "the server does not read local files" in response["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        ("image?", "FILE", "a"),
        ("list[image]", ["https://x/y.png", "FILE"], "a[1]"),
        ("list[image]", '["FILE"]', "a[0]"),
        ("{photo: image?}", {"photo": "FILE"}, "a.photo"),
        ("list[{photo: image}]", [{"photo": "FILE"}], "a[0].photo"),
        ("list[{photo: image}]?", '[{"photo": "FILE"}]', "a[0].photo"),
    ],
)
def test_a_picture_within_a_list_or_a_mapping_is_never_a_file_either(
    house, tmp_path, kind, value, path
):
    text = ONE_JUDGE.replace(
        "dataset: {id: key}", f"dataset: {{schema: {{a: {json.dumps(kind)}}}}}"
    )
    (tmp_path / "secret.png").write_bytes(b"\x89PNG")
    row = json.loads(
        json.dumps({"a": value, "b": "x"}).replace("FILE", str(tmp_path / "secret.png"))
    )

    async def work(client: Any, _: Any) -> Any:
        return (await client.post("/judge", json={"row": row})).json()

    message = house.within(work, text)["error"]["message"]
    assert f"the column {path!r} is not an http:, https: or data: URL" in message


def test_the_token_the_host_and_the_origin_are_checked(house):
    async def work(client: Any, _: Any) -> Any:
        row = {"row": ROWS[0]}
        return [
            (await client.post("/judge", json=row, headers=headers)).status_code
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": "bearer right"},
                {"authorization": "Bearer right", "host": "elsewhere"},
                {"authorization": "Bearer right", "host": "test:8000"},
                {"authorization": "Bearer right", "origin": "http://page"},
                {"authorization": "Bearer right", "origin": "http://mine"},
            )
        ] + [
            (await client.get(path)).status_code
            for path in ("/health/live", "/metrics", "/openapi.json")
        ]

    door = AccessPolicy("right", ("test",), ("http://mine",))
    assert house.within(work, door=door) == [401, 401, 200, 421, 200, 403, 200, 200, 401, 401]


def test_every_answer_has_headers_that_keep_pages_out(house):
    async def work(client: Any, _: Any) -> Any:
        return [
            await client.get("/health"),
            await client.get("/nowhere"),
            await client.get("/judge"),
        ]

    for response, status in zip(house.within(work), (200, 404, 405), strict=True):
        assert response.status_code == status
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"


def test_an_unknown_path_is_answered_with_where_the_endpoints_are(house):
    async def work(client: Any, _: Any) -> Any:
        return (await client.get("/")).json()

    error = house.within(work)["error"]
    assert (
        error["message"] == "there is no /; GET /openapi.json lists the endpoints and their bodies"
    )


def test_a_body_is_bounded_however_it_is_sent(house):
    async def work(client: Any, _: Any) -> Any:
        async def pieces() -> Any:
            for _ in range(20):
                yield b" " * 100

        whole = await client.post("/judge", content=b" " * 2000)
        return whole, await client.post("/judge", content=pieces())

    for response in house.within(work, limits=Limits(body_bytes=1000)):
        assert (response.status_code, response.json()["error"]["kind"]) == (413, "body-too-large")


def test_a_stalled_provider_sheds_load_and_keeps_deadlines(house, loopback):
    url = loopback.start("--latency-ms", "60000")

    async def work(client: Any, service: Any) -> Any:
        loop = asyncio.get_running_loop()

        async def judge_one(place: int) -> Any:
            began = loop.time()
            body = {"row": {"a": f"x{place}", "b": "y"}, "deadline_s": 0.4 if place else 600}
            response = await client.post("/judge", json=body)
            return response, loop.time() - began

        responses = await asyncio.gather(*(judge_one(place) for place in range(12)))
        assert service.admission.admitted == service.admission.judging == 0
        return responses, (await client.get("/metrics")).text

    limits = Limits(in_flight=2, queue=3, deadline_s=1.0)
    responses, metrics = house.within(work, asking(url), limits=limits)
    shed = [(response, took) for response, took in responses if response.status_code == 429]
    late = [(response, took) for response, took in responses if response.status_code == 504]
    assert (len(shed), len(late)) == (7, 5)
    assert all(int(response.headers["retry-after"]) >= 1 for response, _ in shed)
    assert all(response.json()["failure"]["kind"] == "deadline" for response, _ in late)
    assert max(took for _, took in shed) < min(took for _, took in late)
    assert min(took for _, took in late) >= 0.4
    assert 'verdict_shed_total{status="429"} 7.0' in metrics
    assert 'verdict_failures_total{kind="deadline"} 5.0' in metrics


def test_more_rows_than_ever_fit_are_rejected_as_such(house):
    async def work(_: Any, service: Any) -> Any:
        with pytest.raises(Overloaded) as error:
            await service.results(ROWS * 3, service.deadline(None))
        return error.value.status

    assert house.within(work, limits=Limits(in_flight=2, queue=3)) == 413


def test_a_provider_that_refuses_and_a_spent_budget_are_errors(house, loopback):
    async def work(client: Any, _: Any) -> Any:
        for _ in range(9):
            response = await client.post("/judge", json={"row": ROWS[0]})
        return response.status_code, response.json()["failure"]["kind"]

    dear = asking(loopback.url, cost={"input_per_million": 1e6, "output_per_million": 1e6})
    assert house.within(work, dear, budget=0.5) == (503, "budget")
    refusing = loopback.start("--error-rate", "401=1")
    assert house.within(work, asking(refusing)) == (502, "refused-by-provider")


def test_a_reload_is_refused_unless_it_is_valid(house):
    async def work(client: Any, service: Any) -> Any:
        before = (await client.get("/pipeline")).json()
        (house.folder / "pipeline.yaml").write_text(ONE_JUDGE.replace("prompt:", "promt:"))
        refused = await client.post("/reload")
        unchanged = (await client.get("/pipeline")).json()
        judged = await client.post("/judge", json={"row": ROWS[0]})
        (house.folder / "pipeline.yaml").write_text(ONE_JUDGE.replace("Is {", "Well, is {"))
        reloaded = await client.post("/reload")
        return before, refused, unchanged, judged, reloaded, (await client.get("/pipeline")).json()

    before, refused, unchanged, judged, reloaded, after = house.within(work)
    assert (refused.status_code, judged.status_code, reloaded.status_code) == (409, 200, 200)
    assert (
        "did you mean" in refused.json()["error"]["message"]
        and "promt" in unchanged["reload_error"]
    )
    assert unchanged["fingerprint"] == before["fingerprint"] != after["fingerprint"]
    assert reloaded.json() == {"before": before["fingerprint"], "after": after["fingerprint"]}
    assert after["reload_error"] is None


def test_the_document_of_the_endpoints_names_them_all(house):
    async def work(client: Any, _: Any) -> Any:
        return (await client.get("/openapi.json")).json()

    paths = set(house.within(work)["paths"])
    assert paths == {
        "/judge", "/health", "/health/live", "/health/ready",
        "/metrics", "/pipeline", "/reload", "/v1/chat/completions", "/v1/models", "/v1/models/{name}",
        "/v1/decisions", "/v1/systemone",
    }  # fmt: skip
