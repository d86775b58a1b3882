"""A row's story shows the entries of `each` as a table."""

from verdict_cli.report.row_details import EntryTable, entry_tables


def test_units_that_share_a_list_share_a_table():
    outputs = {
        "split.claims": ["a", "b"],
        "check.item": [{"claim": "a"}, {"claim": "b"}],
        "check.score": [True, False],
        "check.tags": [["x"], []],
        "why.item": [None, {"claim": "b"}],
        "why.text": [None, "no"],
        "mean.score": 0.5,
    }
    tables, others = entry_tables(outputs)
    columns = ["entry", "claim", "check.score", "check.tags", "why.text"]
    assert tables == [
        EntryTable(columns, [["0", "a", True, ["x"], None], ["1", "b", False, [], "no"]])
    ]
    assert others == {"split.claims": ["a", "b"], "mean.score": 0.5}


def test_entries_inside_entries_have_two_numbers():
    section, other = {"section": "A"}, {"section": "B"}
    outputs = {
        "check.item": [
            [{**section, "claim": "x"}, {**section, "claim": "y"}],
            [{**other, "claim": "z"}],
        ],
        "check.score": [[1, 2], [3]],
    }
    ((table,), others) = entry_tables(outputs)
    assert table.columns == ["entry", "section", "claim", "check.score"]
    assert table.rows == [["0.0", "A", "x", 1], ["0.1", "A", "y", 2], ["1.0", "B", "z", 3]]
    assert others == {}
