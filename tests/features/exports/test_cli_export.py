"""`verdict export`: the scores of a run as other tools read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl
from shell import needs

TRACE, SPAN = "5b8aa5a2d2c872e8321cf37308d69df2", "051581bf3cb55c13"
WORDS = "scale: {type: discrete, values: [bad, good], scores: {bad: 0, good: 1}}"
JUDGE = (
    "- {{unit: JudgeUnit, name: judge, explanation: true, {scale}, prompt: 'Rate {{source.text}}'}}"
)
TRACED = (
    "model: {name: m, retries: 0}\ndataset: {id: key, trace: source.trace_id, span: source.span_id}"
)


@pytest.fixture
def judged(shell: Any, scripted_model: Any) -> Any:
    """Runs three rows, with and without a trace and one without a score, on a scale with these values."""

    def run(value: Any, scale: str = WORDS, head: str = TRACED, third: str | None = TRACE) -> None:
        reply = json.dumps({"explanation": "because", "score": value})
        scripted_model.answer = lambda request: "nothing" if request.row.index == 2 else reply
        ids = [(TRACE, SPAN), (None, None), (third, None)]
        rows = [
            {
                "key": f"r{index}",
                "text": f"text {index}",
                "meta": {"n": [1, None]},
                "trace_id": trace,
                "span_id": span,
            }
            for index, (trace, span) in enumerate(ids)
        ]
        shell.write("rows.jsonl", jsonl(rows))
        shell(
            "run", shell.config(JUDGE.format(scale=scale), head), "rows.jsonl", "--out", "out", "-q"
        )

    return run


def exported(shell: Any, tool: str, *more: str) -> list[Any]:
    """The documents of the exported file."""
    suffix = "json" if tool == "inspect" else "jsonl"
    done = shell("export", "out", "--to", tool, "--out", f"scores.{suffix}", *more)
    assert done.code == 0, done.err
    return [
        json.loads(line)
        for line in (shell.folder / f"scores.{suffix}").read_text(encoding="utf-8").splitlines()
    ]


CREATE_SCORE = {
    "id": str, "traceId": str, "sessionId": str, "observationId": str, "datasetRunId": str, "name": str, "value": (str, int, float),
    "comment": str, "metadata": dict, "environment": str, "queueId": str, "dataType": str, "configId": str, "source": str,
}  # fmt: skip
"""The fields of `CreateScoreRequest` in Langfuse's public API definition (fern/apis/server/definition/scores.yml): there is no other."""


@pytest.mark.parametrize(
    ("scale", "judged_score", "kind", "value"),
    [
        (WORDS, "good", "CATEGORICAL", "good"),
        ("scale: boolean", True, "BOOLEAN", 1.0),
        ("scale: {type: discrete, values: ['false', 'true']}", "true", "CATEGORICAL", "true"),
        ("scale: {type: discrete, values: [1, 2, 3]}", 2, "NUMERIC", 2.0),
    ],
)
def test_a_langfuse_score_has_the_fields_of_its_api(
    shell, judged, scale, judged_score, kind, value
):
    judged(judged_score, scale)
    (score,) = exported(shell, "langfuse")
    assert {
        key: score[key]
        for key in ("traceId", "observationId", "name", "value", "dataType", "comment")
    } == {
        "traceId": TRACE,
        "observationId": SPAN,
        "name": "t.score",
        "value": value,
        "dataType": kind,
        "comment": "because",
    }
    assert score.keys() <= CREATE_SCORE.keys()
    assert all(isinstance(score[key], CREATE_SCORE[key]) for key in score)
    assert (kind == "CATEGORICAL") == isinstance(score["value"], str), (
        "a text for categories, else a number"
    )
    assert kind != "BOOLEAN" or score["value"] in (0, 1)
    assert exported(shell, "langfuse")[0] == score, "a second upload must replace the first"


def test_rows_without_a_trace_are_counted_and_left_out_for_langfuse(shell, judged):
    judged("good")
    done = shell("export", "out", "--to", "langfuse")
    assert done.code == 0 and "1 scores: out-langfuse.jsonl; 1 row has no trace" in done.err
    judged("good", head=TRACED.partition(", trace")[0] + "}")
    done = shell("export", "out", "--to", "langfuse")
    assert done.code == 2 and "dataset: {trace: source.trace_id}" in done.err


@needs("imports")
def test_an_inspect_log_has_every_row_and_is_imported_again(shell, judged):
    judged("good")
    (log,) = exported(shell, "inspect")
    assert (log["status"], log["eval"]["task"], log["results"]["completed_samples"]) == (
        "success",
        "t",
        2,
    )
    assert "error" not in log["samples"][0] and log["samples"][2]["error"]["message"]
    assert shell("import", "inspect", "scores.json", "--out", "back.jsonl").code == 0
    back = [
        json.loads(line)
        for line in (shell.folder / "back.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [row["id"] for row in back] == ["r0", "r1", "r2"]
    assert [row["scores"].get("t.score") for row in back] == ["good", "good", None]
    assert back[0]["explanations"] == {"t.score": "because"}


def test_otlp_events_are_of_the_protocol_and_on_the_judged_spans(shell, judged):
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    judged("good")
    (document,) = exported(shell, "otlp")
    first, second = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (first.pop("traceId"), first.pop("spanId")) == (TRACE, SPAN)
    assert "traceId" not in second
    request = ParseDict(document, ExportLogsServiceRequest())
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    assert record.event_name == "gen_ai.evaluation.result"
    attributes = {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in record.attributes
    }
    assert attributes == {
        "gen_ai.evaluation.name": "t.score",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "good",
        "gen_ai.evaluation.explanation": "because",
        "verdict.row.index": 0,
        "verdict.row.id": "r0",
    }


def test_a_trace_id_of_another_form_is_for_langfuse_alone(shell, judged):
    judged("good", third="my-trace")
    assert len(exported(shell, "langfuse")) == 1
    done = shell("export", "out", "--to", "otlp", "--out", "events.jsonl")
    assert (
        done.code == 2 and "row 2" in done.err and "'my-trace', expected 32 hex digits" in done.err
    )
    assert not list(shell.folder.glob("events.jsonl*"))


def test_a_file_with_another_ending_than_the_tools_is_one_error(shell, judged):
    judged("good")
    done = shell("export", "out", "--to", "otlp", "--out", "x.csv")
    assert done.code == 2 and "otlp reads .jsonl" in done.err


def test_a_directory_without_a_run_is_an_error(shell):
    done = shell("export", ".", "--to", "inspect")
    assert done.code == 2 and "not the directory of a run" in done.err


def test_each_unit_of_a_last_step_has_its_own_score_and_text_is_none(shell, scripted_model):
    scripted_model.answer = lambda request: (
        '{"score": 2}' if request.node != "c" else '{"why": "text"}'
    )
    layer = """- layer:
    - {unit: JudgeUnit, name: a, scale: {type: discrete, values: [1, 2, 3]}, prompt: 'A {source.text}'}
    - {unit: JudgeUnit, name: b, scale: {type: discrete, values: [1, 2, 3]}, prompt: 'B {source.text}'}
    - {unit: Unit, name: c, response: {why: str}, prompt: 'C {source.text}'}"""
    shell(
        "run",
        shell.config(layer, "model: {name: m, retries: 0}"),
        shell.rows(1),
        "--out",
        "out",
        "-q",
    )
    (log,) = exported(shell, "inspect")
    scores = {name: score["value"] for name, score in log["samples"][0]["scores"].items()}
    assert scores == {"t.a.score": 2.0, "t.b.score": 2.0}


def test_inspect_itself_reads_the_log(shell, judged):
    inspect_log = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed")
    judged(True, "scale: boolean")
    exported(shell, "inspect")
    log = inspect_log.read_eval_log("scores.json")
    assert (log.status, log.results.total_samples, [sample.id for sample in log.samples]) == (
        "success",
        3,
        ["r0", "r1", "r2"],
    )
    score = log.samples[0].scores["t.score"]
    assert (score.value, score.explanation, log.samples[2].error is None) == (
        True,
        "because",
        False,
    )
    assert inspect_log.read_eval_log("scores.json", header_only=True).eval.task == "t"
    assert [
        summary.id for summary in inspect_log.read_eval_log_sample_summaries("scores.json")
    ] == [
        "r0",
        "r1",
        "r2",
    ]


def test_inspect_lists_the_log_in_its_folder(shell, judged):
    judged(True, "scale: boolean")
    for more in ([], ["--out", "others"]):
        assert shell("export", "out", "--to", "inspect", *more).code == 0
    (log,) = (shell.folder / "logs").iterdir()
    assert [path.name for path in (shell.folder / "others").iterdir()] == [log.name]
    inspect_log = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed")
    (listed,) = inspect_log.list_eval_logs(str(shell.folder / "logs"))
    assert listed.name.endswith(log.name) and listed.task == "t"
    assert inspect_log.read_eval_log(listed).status == "success"
