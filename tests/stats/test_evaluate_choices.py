"""What a pairwise judge prefers: the same in both orders, the first option, the longer one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.intervals.interval_methods import clopper_pearson
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable

CHOICES = {
    "prediction": "output.choice",
    "consistent": "output.consistent",
    "options": ["source.a", "source.b"],
}


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Writes rows of (choice, whether both orders agree, option a, option b); a choice of None is a failed row."""

    def write(rows):
        path = tmp_path_factory.mktemp("run") / "results.parquet"
        with ParquetTable(path, {"row": "int", "status": "str"}) as out:
            for index, (choice, consistent, a, b) in enumerate(rows):
                row = {"row": index, "id": index, "status": "ok" if choice else "failed"}
                row |= {"source.a": a, "source.b": b}
                if choice:
                    row |= {"output.choice": choice, "output.consistent": consistent}
                out.write(row)
        return path

    return write


def counted(values):
    """The share that is true and of how many, None where there are none."""
    return (sum(values) / len(values) if values else None), len(values)


texts = st.sampled_from(["", "a", "two", "also"])
judged = st.tuples(st.sampled_from(["A", "B", "tie", None]), st.booleans(), texts, texts)


@settings(deadline=None, max_examples=60)
@given(st.lists(judged, min_size=1, max_size=20))
def test_preferences_are_shares_counted_by_hand(table, rows):
    shares = measure({"e": Evaluation(**CHOICES)}, table(rows))["e"].values
    done = [row for row in rows if row[0]]
    decided = [row for row in done if row[0] != "tie"]
    unequal = [row for row in decided if len(row[2]) != len(row[3])]
    by_hand = {
        "consistency": [consistent for _, consistent, _, _ in done],
        "first_position_rate": [choice == "A" for choice, *_ in decided],
        "longer_preference": [(choice == "A") == (len(a) > len(b)) for choice, _, a, b in unequal],
    }
    assert set(shares) - {"first_position_rate"} == {"consistency", "longer_preference"}
    for name, share in shares.items():
        value, n = counted(by_hand[name])
        assert (share.value, share.n) == (
            value if value is None else pytest.approx(value, abs=1e-12),
            n,
        )
        if n:
            assert (share.low, share.high) == pytest.approx(
                clopper_pearson(sum(by_hand[name]), n, 0.95)
            )


def test_lengths_may_be_numbers(table):
    rows = [("A", True, 30, 20), ("B", True, 5, 9), ("B", True, 9, 5), ("A", True, 7, 7)]
    share = measure({"e": Evaluation(**CHOICES)}, table(rows))["e"].values["longer_preference"]
    assert (share.value, share.n) == (pytest.approx(2 / 3), 3)


def test_choices_between_other_labels_are_no_positions(table):
    rows = [("left", True, "a", "b"), ("right", False, "a", "b")]
    evaluation = Evaluation(prediction="output.choice", metrics=["first_position_rate"])
    share = measure({"e": evaluation}, table(rows))["e"].values["first_position_rate"]
    assert share.value is None and "A and B" in share.reason


def test_a_pairwise_judge_with_a_target_also_has_its_first_position_rate(table):
    rows = [("A", True, "A", ""), ("B", True, "A", ""), ("A", False, "B", "")]
    measures = measure(
        {"e": Evaluation(prediction="output.choice", target="source.a")}, table(rows)
    )["e"]
    assert measures.kind == "pairwise"
    assert measures.values["accuracy"].value == pytest.approx(1 / 3)
    assert measures.values["first_position_rate"].value == pytest.approx(2 / 3)


def test_an_option_without_a_length_is_left_out_with_a_warning(table):
    rows = [("A", True, "aa", True), ("A", True, "aa", "b")]
    measures = measure({"e": Evaluation(**CHOICES)}, table(rows))["e"]
    assert measures.values["longer_preference"].n == 1
    assert any("nor a length" in warning for warning in measures.warnings)


def test_a_length_controlled_win_rate_alone_needs_no_target():
    from verdict_cli.language.evaluations import evaluation_problems

    alone = Evaluation(
        prediction="output.choice",
        options=["source.a", "source.b"],
        metrics=["length_controlled_win_rate"],
    )
    assert not [problem for problem in evaluation_problems("e", alone) if "target" in str(problem)]
