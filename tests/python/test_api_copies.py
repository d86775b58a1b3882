"""Pipelines and judges as values: copied, pickled, sent to other processes; values of DataFrames; a notebook's view."""

from __future__ import annotations

import copy
import decimal
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

from verdict_cli import (
    BooleanScale,
    DataError,
    Judge,
    JudgeUnit,
    Pipeline,
    RowError,
    UsageError,
    load_run,
)

COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
]


def judge() -> Pipeline:
    unit = JudgeUnit(BooleanScale(), name="j").prompt("Is {source.text} right?")
    return Pipeline("p", model="baseline/lexical") >> unit


def score(pipeline: Pipeline) -> Any:
    return pipeline.run({"text": "a"}).score


@pytest.mark.parametrize("copied", COPIES)
def test_a_pipeline_is_copied_and_pickled_before_and_after_a_run(copied):
    pipeline = judge()
    assert copied(pipeline).fingerprint == pipeline.fingerprint
    assert score(copied(pipeline)) == score(pipeline)
    assert score(copied(pipeline)) == score(pipeline)
    with pytest.raises(UsageError, match="immutable"):
        copied(pipeline).steps = ()


def test_the_pipeline_of_a_file_is_pickled_with_its_folder(tmp_path):
    (tmp_path / "p.md").write_text("Is {source.text} right?")
    file = tmp_path / "p.yaml"
    unit = "{unit: JudgeUnit, prompt: {file: p.md}}"
    file.write_text(f"verdict: 1\nname: t\nmodel: baseline/lexical\npipeline: [{unit}]\n")
    pipeline = Pipeline.from_yaml(file)
    assert pickle.loads(pickle.dumps(pipeline)).fingerprint == pipeline.fingerprint


@pytest.mark.parametrize("copied", COPIES)
def test_a_judge_is_copied_and_pickled_and_keeps_its_options(copied):
    with Judge(judge(), reward="2 if output.score else 1", seed=3) as first:
        expected = first.reward([{"text": "a"}])
        with copied(first) as second:
            assert second.reward([{"text": "a"}]) == expected
    with copied(first) as third:  # a closed judge is copied as an open one
        assert third.reward([{"text": "a"}]) == expected


def test_a_spawn_pool_judges_by_a_pipeline_and_a_judge():
    pipeline = judge()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(score, (pipeline,)).get(60) == score(pipeline)
        with Judge(pipeline) as local_judge:
            assert pool.apply_async(local_judge.reward, ([{"text": "a"}],)).get(
                60
            ) == local_judge.reward([{"text": "a"}])


def test_a_pipeline_with_functions_says_how_another_process_gets_it():
    pipeline = judge() >> JudgeUnit().prompt("{source.text}").propagate(lambda output: output)
    assert copy.deepcopy(pipeline) is pipeline
    for value in (pipeline, Judge(pipeline)):
        with pytest.raises(UsageError, match="holds Python functions") as caught:
            pickle.dumps(value)
        assert "make it in each process" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([np.array([1, 2]), np.array(["c"])], dtype=object), [[1, 2], ["c"]]),
        (decimal.Decimal("1.10"), 1.1),
        (decimal.Decimal("2"), 2),
        (pandas.Timedelta(90, "s"), 90.0),
        (pandas.Timestamp("2024-01-01"), "2024-01-01T00:00:00"),
        (2**70, 2**70),
    ],
)
def test_the_values_of_a_frame_and_of_a_row_are_those_of_a_file(value, plain, tmp_path):
    pipeline = judge()
    frame = pandas.DataFrame({"text": pandas.Series([value, value], dtype=object)})
    assert list(pipeline.run_dataset(frame, tmp_path / "run").status) == ["ok", "ok"]
    prompts = [str(call.request.messages) for call in pipeline.run({"text": value}).calls]
    assert prompts == [str(call.request.messages) for call in pipeline.run({"text": plain}).calls]


def test_a_value_without_a_form_is_refused_with_its_column():
    frame = pandas.DataFrame(
        {"id": [1, 2], "text": pandas.period_range("2024", periods=2, freq="M")}
    )
    with pytest.raises(DataError, match="row 0, column 'text'"):
        judge().run_dataset(frame)
    with pytest.raises(DataError, match="column 'text'"):
        judge().run({"text": frame.text[0]})


def test_nan_is_missing_in_a_row_as_in_a_frame():
    for value in (float("nan"), pandas.NaT, pandas.NA, None):
        with pytest.raises(RowError, match="it is null; a prompt needs a value"):
            judge().run({"text": value})


def test_a_notebook_shows_small_escaped_html(tmp_path):
    pipeline = judge()
    pipeline.run_dataset([{"text": "a"}], tmp_path / "a&b")
    run = load_run(str(tmp_path / "a&b"))
    assert run.to_pandas().status.tolist() == ["ok"]
    for value in (pipeline, Judge(pipeline), run):
        html = value._repr_html_()
        assert len(html) < 2000
    assert "a&amp;b" in run._repr_html_()
    assert "<table>" in run._repr_html_()
