"""Columns stay small, and unusual values keep their meaning."""

import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.stats.columns.column import MISSING, ColumnBuilder, LabelSet
from verdict_cli.stats.columns.sample import Sample


def columns(*given_values):
    places = {}
    growing = [ColumnBuilder(places) for _ in given_values]
    for builder, values in zip(growing, given_values, strict=True):
        builder.extend(values, np.arange(len(values)))
    return [builder.column() for builder in growing]


def test_labels_are_equal_as_values_are_and_keep_their_spelling():
    first, second = columns([1, "1", True, 2.5, None], [1.0, 1, "1", ["a"], 2**60])
    labels = LabelSet.of(first, second)
    a, b = labels.codes(first), labels.codes(second)
    assert a[0] == a[2] == b[0] == b[1]
    assert a[1] == b[2] != a[0]
    assert a[4] == MISSING
    assert labels.values[b[3]] == ["a"]
    assert labels.values[b[4]] == str(2**60)


def test_booleans_are_spelled_as_the_target_spells_them():
    target, prediction = columns([True, False], [1, 0])
    assert LabelSet.of(target, prediction).values == (False, True)
    assert LabelSet.of(prediction, target).values == (0, 1)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
        max_size=20,
    )
)
def test_codes_are_equal_exactly_where_values_are(values):
    column = columns(values)[0]
    codes = LabelSet.of(column, column).codes(column)
    for i, first in enumerate(values):
        for j, second in enumerate(values):
            if codes[i] == MISSING or codes[j] == MISSING:
                continue
            big = any(isinstance(v, int) and abs(v) > 2**53 for v in (first, second))
            if not big:
                assert (codes[i] == codes[j]) == (first == second)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=30
    )
)
def test_every_unit_is_left_out_once(rows):
    target, prediction, cluster = np.array(rows).T
    rng = np.random.default_rng(0)
    plain = Sample.of((target, prediction))
    clustered = Sample.of((target, prediction), cluster)
    for sample in (plain, clustered):
        total = sum(float(alike.sum()) for _, alike in sample.deletions(rng))
        assert total == sample.units


def test_a_run_with_an_evaluation_imports_no_pandas(tmp_path):
    """Arrow imports pandas, 28 MB and 0.2 s, where it is installed and a Python value is to become an Arrow one."""
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n  - {unit: JudgeUnit, prompt: 'Rate {source.text}'}\n"
        "evaluate: {e: {prediction: output.score, target: source.label}}\n"
    )
    (tmp_path / "d.jsonl").write_text('{"text": "a b", "label": 3}\n')
    script = (
        "import sys\nfrom verdict_cli.cli.app import main\ntry:\n    main()\n"
        "finally:\n    assert 'pandas' not in sys.modules\n"
    )
    command = [sys.executable, "-c", script, "run", "p.yaml", "d.jsonl", "--out", "out", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
