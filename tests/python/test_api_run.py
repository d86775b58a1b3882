"""Running from Python: one row, a dataset, from a loop, from threads."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas
import pytest
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli import (
    BooleanScale,
    DataError,
    JournalError,
    Judge,
    JudgeUnit,
    Layer,
    MapUnit,
    MeanPoolUnit,
    Pipeline,
    Refused,
    Rejected,
    ReplyError,
    UsageError,
    load_run,
)
from verdict_cli.cli.app import app


def jury(model: str | None = "baseline/lexical") -> Pipeline:
    judge = JudgeUnit(BooleanScale()).prompt("Is {source.a} about {source.b}?")
    return Pipeline("jury", model=model) >> Layer(judge, 2) >> MeanPoolUnit("score")


ROWS = [{"a": "a red house", "b": "a red house"}, {"a": "ships", "b": "the law of bees"}]


def test_one_row_gives_the_last_output():
    judged = jury().run(ROWS[0])
    assert judged.score == judged["score"] and dict(judged) == {"score": judged.score}
    assert list(judged.nodes) == ["judge[0]", "judge[1]", "mean_pool"]
    assert len(judged.calls) == 2
    with pytest.raises(AttributeError, match="there is no 'scor' here, only score"):
        judged.scor  # noqa: B018


def test_several_last_units_are_found_by_id():
    judged = (
        Pipeline("p", model="baseline/lexical") >> Layer(JudgeUnit().prompt("J {source.a}"), 2)
    ).run({"a": "x"})
    assert list(judged) == ["judge[0]", "judge[1]"] and judged["judge[1]"].score in range(1, 6)


def test_a_row_is_run_inside_a_running_loop():
    async def within() -> tuple[Any, Any, Any]:
        several = await asyncio.gather(*(jury().arun(row) for row in ROWS))
        return jury().run(ROWS[0]), several[0], jury().run_dataset(ROWS)["output.score"][0]

    plain, awaited, table = asyncio.run(within())
    assert plain == awaited and table == plain.score


def test_rows_are_run_from_threads():
    pipeline = jury()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(pipeline.run, ROWS * 16))
    assert results == [pipeline.run(ROWS[0]), pipeline.run(ROWS[1])] * 16


def test_the_model_of_a_run_replaces_the_pipelines():
    judged = jury(None).run(ROWS[0], model={"name": "baseline/random"}, seed=3)
    assert {call.request.model.name for call in judged.calls} == {"baseline/random"}


@pytest.mark.parametrize(
    ("reply", "error", "failure"),
    [
        ("nonsense", ReplyError, "unreadable"),
        ('{"score": "blue"}', ReplyError, "off-scale"),
        ([], Rejected, "not-recorded"),
    ],
)
def test_a_row_that_fails_raises_its_failure(recorded, reply, error, failure):
    pipeline = Pipeline("p") >> JudgeUnit().prompt("J").via("m", retries=0)
    with pytest.raises(error, match=r"^judge: ") as caught:
        pipeline.run(
            {},
            replay=recorded(judge=reply, other="x")
            if reply
            else recorded(rows=[{}, {"judge": "1"}]),
        )
    assert caught.value.failure == failure


def test_a_row_without_a_column_is_refused_before_any_call():
    with pytest.raises(DataError, match="has no column 'b'"):
        jury().run({"a": "x"})
    with pytest.raises(UsageError, match="a row is a mapping"):
        jury().run("text")  # type: ignore[arg-type]


def test_columns_and_types_of_the_dataset_section_count_for_one_row_too():
    judge = JudgeUnit(BooleanScale()).prompt("{source.question} {source.n}")
    keys = {"columns": {"question": "prompt"}, "schema": {"n": "int"}, "id": "key"}
    pipeline = Pipeline("p", model="baseline/lexical", dataset=keys) >> judge
    judged = pipeline.run({"prompt": "who", "n": "3", "key": "k1"})
    assert judged.calls[0].request.messages[0].content.startswith("who 3")
    assert judged.calls[0].request.row.id == "k1"
    with pytest.raises(DataError, match="the column 'n'"):
        pipeline.run({"prompt": "who", "n": "three", "key": "k1"})


def test_a_model_that_cannot_answer_is_refused_before_any_call(
    monkeypatch,
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Refused, match=r"judge\[0\]: "):
        jury("gpt-4o-mini").run(ROWS[0])


def test_a_table_is_the_same_from_a_frame_a_list_and_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl(ROWS))
    tables = [
        jury().run_dataset(data)
        for data in (pandas.DataFrame(ROWS), ROWS, path, str(path), iter(ROWS))
    ]
    first = tables[0]
    assert list(first.columns)[:3] == ["row", "id", "status"]
    assert {
        "source.a",
        "judge[0].score",
        "judge[1].score",
        "mean_pool.score",
        "output.score",
    } <= set(first.columns)
    assert first["source.a"].tolist() == [row["a"] for row in ROWS]
    for table in tables[1:]:
        pandas.testing.assert_frame_equal(table, first)
    assert first["output.score"].tolist() == [jury().run(row).score for row in ROWS]


def test_missing_values_and_times_of_a_frame_are_read(recorded):
    frame = pandas.DataFrame(
        {"a": ["x", None], "n": [1.5, float("nan")], "t": pandas.to_datetime(["2024-01-02", None])}
    )
    pipeline = Pipeline("p", model="baseline/lexical") >> JudgeUnit(BooleanScale()).prompt(
        "J {source.t}"
    )
    table = pipeline.run_dataset(frame)
    assert table["source.a"].tolist()[1] is None or pandas.isna(table["source.a"].tolist()[1])
    assert str(table["source.t"][0]).startswith("2024-01-02")


def test_only_the_first_rows_are_taken():
    assert len(jury().run_dataset(ROWS, limit=1)) == 1


def test_a_failed_row_stays_in_the_table(recorded):
    pipeline = Pipeline("p") >> JudgeUnit().prompt("J {source.a}").via("m", retries=0)
    table = pipeline.run_dataset(
        ROWS, replay=recorded(rows=[{"judge": '{"score": 4}'}, {"judge": "nonsense"}])
    )
    assert table["status"].tolist() == ["ok", "failed"]
    assert table["output.score"][0] == 4 and table["failure.kind"][1] == "unreadable"


def test_the_directory_of_a_run_is_written_and_continued(tmp_path):
    out = tmp_path / "run"
    table = jury().run_dataset(ROWS, out=out)
    assert {"results.parquet", "calls.parquet", "run.json", "spec.yaml"} <= {
        path.name for path in out.iterdir()
    }
    assert Pipeline.from_yaml(out / "spec.yaml").fingerprint == jury().fingerprint
    pandas.testing.assert_frame_equal(jury().run_dataset(ROWS, out=out), table)
    with pytest.raises(JournalError, match="another pipeline"):
        (jury() >> MapUnit({"a": "1"})).run_dataset(ROWS, out=out)
    with pytest.raises(JournalError, match="another dataset") as caught:
        jury().run_dataset(ROWS[:1], out=out)
    assert "--" not in caught.value.hint


def test_a_saved_run_is_read_as_a_frame(tmp_path):
    table = jury().run_dataset(pandas.DataFrame(ROWS), out=tmp_path / "run")
    pandas.testing.assert_frame_equal(load_run(tmp_path / "run").to_pandas(), table)


def test_a_saved_run_has_the_report_and_the_gates_of_verdict_run(tmp_path):
    config = tmp_path / "pipeline.yaml"
    config.write_text(
        "verdict: 1\nname: t\nmodel: baseline/lexical\n"
        "pipeline: [{unit: JudgeUnit, scale: boolean, prompt: 'Is {source.a} about {source.b}?'}]\n"
        "evaluate: {right: {prediction: output.score, target: source.label, metrics: [accuracy]}}\n"
        "gates: [{metric: right.accuracy, min: 0.5}, {metric: run.failed, max: 0}]\n"
    )
    rows = [{**row, "label": not place} for place, row in enumerate(ROWS)]
    (tmp_path / "rows.jsonl").write_text(jsonl(rows))
    Pipeline.from_yaml(config).run_dataset(rows, tmp_path / "python")
    CliRunner().invoke(
        app, ["run", str(config), str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "command")]
    )
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("python", "command")]
    assert names[0] == names[1] >= {"report.html", "report.md", "report.json", "junit.xml"}
    from_python, from_command = (
        json.loads((tmp_path / name / "report.json").read_text()) for name in ("python", "command")
    )
    assert from_python["gates"] == from_command["gates"] and len(from_python["gates"]) == 3
    assert from_python["evaluations"] == from_command["evaluations"]


def test_a_run_with_a_function_is_continued_only_where_its_source_is_available(
    tmp_path,
):
    pipeline = jury() >> MapUnit(lambda outputs: {"score": outputs[0].score})
    table = pipeline.run_dataset(ROWS, out=tmp_path / "known")
    pandas.testing.assert_frame_equal(pipeline.run_dataset(ROWS, out=tmp_path / "known"), table)
    assert not (tmp_path / "known" / "spec.yaml").exists()
    unknown = jury() >> MapUnit(eval("lambda outputs: {'score': outputs[0].score}"))
    unknown.run_dataset(ROWS, out=tmp_path / "unknown")
    with pytest.raises(JournalError, match="the source of MapUnit in the unit 'map' is not known"):
        unknown.run_dataset(ROWS, out=tmp_path / "unknown")


@pytest.mark.parametrize("data", [3, {"a": 1}, object()])
def test_what_is_no_dataset_is_refused(data):
    with pytest.raises(UsageError, match="is not a dataset"):
        jury().run_dataset(data)


def test_a_list_of_something_else_is_refused():
    with pytest.raises(DataError, match="row 1 is 'text'"):
        jury().run_dataset([ROWS[0], "text"])  # type: ignore[list-item]
    with pytest.raises(DataError, match="row 0, column 'a': the value cannot be written as JSON"):
        jury().run_dataset([{"a": object(), "b": 1}])
    with pytest.raises(UsageError, match="concurrency is 0"):
        jury().run_dataset(ROWS, concurrency=0)


def test_a_saved_run_retries_what_failed(tmp_path, loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    pipeline = Pipeline("p") >> JudgeUnit(BooleanScale()).prompt("Is {source.a} about {source.b}?")
    broken = {"name": "openai/m", "api_base": "http://127.0.0.1:9/v1", "retries": 0}
    first = pipeline.run_dataset(ROWS, tmp_path / "run", model=broken)
    assert list(first["status"]) == ["failed", "failed"]
    works = {**broken, "api_base": loopback.url}
    assert list(pipeline.run_dataset(ROWS, tmp_path / "run", model=works)["status"]) == [
        "failed",
        "failed",
    ]
    again = pipeline.run_dataset(ROWS, tmp_path / "run", model=works, retry_failed=True)
    assert list(again["status"]) == ["ok", "ok"]
    with pytest.raises(UsageError, match="give its `out`"):
        pipeline.run_dataset(ROWS, model=works, retry_failed=True)


def test_runs_share_replies_where_the_caller_wants_it(loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    model = {"name": "openai/m", "api_base": loopback.url}
    pipeline = Pipeline("p", model=model) >> JudgeUnit(BooleanScale()).prompt(
        "Is {source.a} right?"
    )

    async def within() -> Any:
        return pipeline.run_dataset(ROWS, cache=True)

    pipeline.run_dataset(ROWS, cache=True)
    assert list(asyncio.run(within())["cost_usd"]) == [0.0, 0.0]
    with Judge(pipeline, cache=True) as judge, Judge(pipeline) as fresh:
        assert judge(ROWS[0]).calls[0].reply.cached
        assert not fresh(ROWS[0]).calls[0].reply.cached


IN_THREADS = """
import asyncio, sys, threading
from verdict_cli import JudgeUnit, Pipeline, VerdictError

model = {"name": "openai/x", "api_base": "http://127.0.0.1:9/v1", "retries": 0}
pipeline = Pipeline("p", model=model) >> JudgeUnit().prompt("{source.a}")

def run() -> None:
    try:
        pipeline.run({"a": "text"})
    except VerdictError as error:
        print(type(error).__name__)

async def in_a_loop() -> None:
    for _ in range(5):
        run()

if sys.argv[1] == "loop":
    asyncio.run(in_a_loop())
for _ in range(5 if sys.argv[1] == "threads" else 0):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("kind", ["loop", "threads"])
def test_threads_that_end_leave_a_client_that_others_can_use(kind):
    command = [sys.executable, "-c", IN_THREADS, kind]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENAI_API_KEY": "sk-none"},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["Retryable"] * 5), done.stderr[-2000:]


def test_a_frame_with_two_columns_of_one_name_is_refused():
    frame = pandas.DataFrame([["a", "b"]], columns=["text", "text"])
    with pytest.raises(UsageError, match="two columns 'text'"):
        jury().run_dataset(frame)
