"""Findings S4, S14, S27 and S28: what is checked before a call is paid."""

import sys

import pytest

from verdict_cli.errors import DataError
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import scan

SPEAKER = "- {unit: ConversationalUnit, name: a, role_name: pro, prompt: 'Argue. {source.text}'}"


@pytest.mark.parametrize("value", ['"my notes"', "3", '[{"text": "x"}]'])
def test_s28_a_column_that_is_no_conversation_is_refused_before_a_call(shell, value):
    rows = shell.write("rows.jsonl", f'{{"text": "x", "conversation": {value}}}\n')
    for command in ("validate", "run"):
        done = shell(command, shell.config(SPEAKER), rows)
        assert (done.code, "another name" in done.err) == (2, True), done.err


def test_s28_the_cure_begins_a_new_conversation(shell):
    rows = shell.write("rows.jsonl", '{"text": "x", "conversation": "my notes"}\n')
    head = "model: baseline/lexical\ndataset: {columns: {conversation_text: conversation}}"
    assert shell("run", shell.config(SPEAKER, head=head), rows).code == 0


@pytest.mark.parametrize("value", ["[]", '[{"role": "pro", "content": "x"}]'])
def test_s28_a_conversation_is_continued(shell, value):
    rows = shell.write("rows.jsonl", f'{{"text": "x", "conversation": {value}}}\n')
    assert shell("run", shell.config(SPEAKER), rows).code == 0


def test_s14_tables_that_cannot_be_written_are_reported_before_a_call(
    shell, scripted_model, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    config = shell.config(
        "- {unit: JudgeUnit, name: j, prompt: 'Rate {source.text}'}", head="model: openai/m"
    )
    done = shell("run", config, shell.write("rows.jsonl", '{"text": "x"}\n'))
    assert (done.code, "numpy>=2" in done.err, scripted_model.requests) == (2, True, [])


def test_s27_a_damaged_workbook_is_one_message(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    import zipfile

    book = openpyxl.Workbook()
    book.active.append(["text"])
    book.active.append(["a"])
    book.save(tmp_path / "whole.xlsx")
    whole = zipfile.ZipFile(tmp_path / "whole.xlsx")
    for part in ("xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"):
        damaged = tmp_path / "damaged.xlsx"
        with zipfile.ZipFile(damaged, "w") as file:
            for name in whole.namelist():
                content = whole.read(name)
                file.writestr(name, content[: len(content) // 2] if name == part else content)
        with pytest.raises(DataError, match="Excel workbook"):
            scan(Dataset((damaged,)))
    assert scan(Dataset((tmp_path / "whole.xlsx",))).rows == 1


def test_s4_an_input_field_that_names_an_option_keeps_its_place_too(shell):
    pair = (
        "- {unit: PairwiseJudgeUnit, name: p, options: [source.a, source.b], positions: both, "
        "input: {mine: source.a}, prompt: '{input.mine} {input.A} {input.B}'}"
    )
    assert "keeps its place" in shell("validate", shell.config(pair)).err
