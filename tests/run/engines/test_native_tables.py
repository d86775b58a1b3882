"""Lists and mappings of the tables are lists and structs for programs that read Parquet, and text where their form is open."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from verdict_cli.messages import Alternative, Reply, Request
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import export_table, read_table
from verdict_cli.storage.tables.writer import ParquetTable

STEPS = """
- {unit: Unit, name: split, prompt: 'Split {source.text}', response: {claims: "list[{text: str, weight: float?}]"}}
- {unit: JudgeUnit, name: check, scale: boolean, prompt: "Check {claim.text}", each: previous.claims, as: claim}
- {unit: MeanPoolUnit, name: all}
"""
CLAIMS = [{"text": "a", "weight": None}, {"text": "b", "weight": 0.5}]


async def reply(request: Request) -> Reply:
    if request.node == "split":
        return Reply(json.dumps({"claims": CLAIMS if request.row.index else []}))
    logprobs = ((Alternative("yes", -0.1), Alternative("no", float("-inf"))),)
    return Reply('{"score": "yes"}', logprobs=logprobs)


@pytest.fixture
def run(bench: Any, tmp_path: Path) -> Path:
    bench.rule = reply
    data = tmp_path / "data.parquet"
    contexts = pa.array([["x", None], None, []], pa.list_(pa.string()))
    tree = pa.array([{"n": 1, "of": [{"m": 0.5}]}] * 3)
    pq.write_table(pa.table({"text": ["a", "b", "c"], "contexts": contexts, "tree": tree}), data)
    job = bench.job(data, STEPS)
    bench.run(job)
    return Path(job.directory.path)


COLUMNS = {
    "source.contexts": [["x", None], None, []],
    "source.tree": [{"n": 1, "of": [{"m": 0.5}]}] * 3,
    "split.claims": [[], CLAIMS, CLAIMS],
    "check.item": [[], *[[{"claim": claim} for claim in CLAIMS]] * 2],
    "check.score": [[], [True, True], [True, True]],
}
LOGPROBS = [[{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": None}]]


def test_results_and_calls_have_lists_and_structs(run):
    results, calls = (pq.read_table(run / f"{name}.parquet") for name in ("results", "calls"))
    assert {name: results.column(name).to_pylist() for name in COLUMNS} == COLUMNS
    assert [value for value in calls.column("logprobs").to_pylist() if value] == [LOGPROBS] * 4
    assert all(pa.types.is_nested(results.schema.field(name).type) for name in COLUMNS)


def test_the_text_of_messages_and_parameters_is_marked_as_json(run):
    schema = pq.read_schema(run / "calls.parquet")
    for name in ("messages", "params"):
        assert schema.field(name).type == pa.string()
        assert b"application/json" in b"".join(schema.field(name).metadata.values())


def test_our_reader_gives_the_same(run):
    (batch,) = read_table(run / "results.parquet", [*COLUMNS])
    assert batch == COLUMNS


def test_pandas_reads_them_without_parsing(run):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(run / "results.parquet")
    assert [list(scores) for scores in frame["check.score"]] == COLUMNS["check.score"]
    assert frame["source.tree"][0]["of"][0] == {"m": 0.5}


def test_polars_reads_them_without_parsing(run):
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(run / "results.parquet")
    assert frame["check.score"].list.len().to_list() == [0, 2, 2]
    assert frame["split.claims"].explode().struct.field("weight").drop_nulls().to_list() == [
        0.5,
        0.5,
    ]


def test_duckdb_reads_them_without_parsing(run):
    duckdb = pytest.importorskip("duckdb")
    query = f"""select list_count("check.score"), "source.tree".n from '{run / "results.parquet"}' order by row"""
    assert duckdb.sql(query).fetchall() == [(0, 1), (2, 1), (2, 1)]


def test_csv_has_json_text(run):
    export_table(run / "results.parquet", run / "r.csv")
    with (run / "r.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [json.loads(row["check.score"]) for row in rows] == COLUMNS["check.score"]


def test_lists_of_unknown_form_are_marked_text(bench, tmp_path):
    bench.rule = reply
    data = tmp_path / "d.jsonl"
    data.write_text('{"text": "a", "open": [1, "x"]}\n', encoding="utf-8")
    job = bench.job(data, STEPS)
    bench.run(job)
    schema = pq.read_schema(job.directory.results)
    assert (schema.field("source.open").type, schema.field("source.open").metadata[b"verdict"]) == (
        pa.string(),
        b"json",
    )
    (batch,) = read_table(job.directory.results, ["source.open"])
    assert batch["source.open"] == [[1, "x"]]


LISTS = DeclaredType({"type": "array", "items": {"type": "integer"}})
RECORDS = DeclaredType(
    {"type": "object", "properties": {"1": {"type": "number"}, "b": {"type": "string"}}}
)


def write_and_read(
    path: Path, declared: DeclaredType, values: list[Any], row_group: int = 2
) -> tuple[Any, list[Any]]:
    with ParquetTable(path, {"x": "native"}, row_group, {"x": declared}) as table:
        for value in values:
            table.write({"x": value})
    read = [value for batch in read_table(path) for value in batch["x"]]
    return pq.read_schema(path).field("x").type, read


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (LISTS, [[1, 2], None, [], [None], [3]]),
        (LISTS, [None, None]),
        (LISTS, []),
        (RECORDS, [{"1": 1, "b": "x"}, None, {"1": None, "b": None}]),
        (RECORDS, [{1: 0.5, "b": "x"}]),
    ],
)  # fmt: skip
def test_values_of_the_declared_form_are_native(tmp_path, declared, values):
    kind, read = write_and_read(tmp_path / "t.parquet", declared, values)
    assert pa.types.is_nested(kind)
    assert read == [None if value is None else json.loads(json.dumps(value)) for value in values]


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (LISTS, [[1], ["a"]]),
        (LISTS, [[1], [1.5]]),
        (LISTS, [[1], {"a": 1}]),
        (LISTS, [[1], "text"]),
        (LISTS, [[1], [2**70]]),
        (LISTS, [[1], [[1]]]),
        (RECORDS, [{"1": 1.5, "b": "x"}, {"1": 1.5}]),
        (RECORDS, [{"1": 1.5, "b": "x"}, {"1": 1.5, "b": "x", "c": 0}]),
        (RECORDS, [{"1": 1.5, "b": "x"}, {"1": "1", "b": "x"}]),
        (RECORDS, [{"1": 1.5, "b": "\ud800"}]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 1, 4])
def test_values_of_another_form_make_the_column_text(tmp_path, declared, values, before):
    values = [values[0]] * before + values
    kind, read = write_and_read(tmp_path / "t.parquet", declared, values)
    assert (kind, read) == (pa.string(), values)
