"""Mistakes that only the data shows are told before the first call is paid."""

from __future__ import annotations

import io
import json
import sqlite3
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.storage.tables.reader import read_table

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
COMMANDS = ("validate", "run", "estimate")


def data(shell: Any, *rows: dict[str, Any], name: str = "data.jsonl") -> Any:
    return shell.write(name, jsonl(rows))


def judge(shell: Any, prompt: str = "Rate {source.text}", more: str = "") -> Any:
    return shell.config(f"- {{unit: JudgeUnit, name: judge, prompt: {json.dumps(prompt)}}}{more}")


class TestBraces:
    """A brace that names a column without `source.`."""

    @pytest.mark.parametrize("placeholder", ["{text}", "{{text}}", "{{ text }}"])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_column_without_its_root_is_an_error(self, shell, command, placeholder):
        done = shell(command, judge(shell, f"Rate {placeholder}"), data(shell, {"text": "a"}))
        assert done.code == 2
        assert f"pipeline.yaml:5:42: pipeline[0].prompt: {placeholder} is literal text" in done.err
        assert "write {source.text}; \\" + placeholder + " prints it literally" in done.err
        assert not (shell.folder / "runs").exists()

    def test_a_name_with_a_space_is_spelled_as_a_path(self, shell):
        done = shell("validate", judge(shell, "Rate {my text}"), data(shell, {"my text": "a"}))
        assert done.code == 2
        assert "write {source['my text']}" in done.err

    def test_every_such_brace_is_reported_at_once(self, shell):
        rows = data(shell, {"text": "a", "other": "b"})
        done = shell("validate", judge(shell, "Rate {text} and {{other}}"), rows, "--json")
        assert [error["code"] for error in done.json()["errors"]] == ["literal-column"] * 2

    def test_one_row_is_checked_too(self, shell):
        done = shell("judge", judge(shell, "Rate {text}"), "--row", '{"text": "a"}')
        assert (done.code, "write {source.text}" in done.err) == (2, True)

    def test_an_escaped_brace_and_one_that_is_no_column_are_literal(self, shell):
        config = judge(shell, "Rate {source.text}; write \\{text} or {word} or {Text}")
        rows = data(shell, {"text": "a"})
        assert shell("validate", config, rows).code == 0
        done = shell("judge", config, "--row", '{"text": "a"}', "--explain")
        assert "write {text} or {word} or {Text}" in done.out

    def test_a_bare_name_in_a_jinja_prompt_is_an_error_without_data(self, shell):
        config = shell.config(
            "- {unit: JudgeUnit, name: judge, prompt: {jinja: 'Rate {{ text }}'}}"
        )
        done = shell("validate", config)
        assert (done.code, "unknown name `text`" in done.err) == (2, True)


def labelled(shell: Any, scale: str, labels: list[Any], evaluate: str = "") -> tuple[Any, Any]:
    """A judge on this scale, and rows with these labels."""
    rows = data(
        shell, *[{"text": f"text {place}", "label": label} for place, label in enumerate(labels)]
    )
    right = evaluate or "{prediction: output.score, target: source.label}"
    config = shell.config(
        f"- {{unit: JudgeUnit, name: judge, prompt: 'Rate {{source.text}}', scale: {scale}}}\n"
        f"evaluate: {{right: {right}}}",
        head="model: baseline/random",
    )
    return config, rows


NEVER = [
    ("boolean", ["yes", "no"], "predictions are false or true, targets are text such as"),
    ("boolean", ["Yes", "No"], "`prediction: \"'yes' if output.score else 'no'\"`"),
    ("{values: [bad, ok]}", ["BAD", "Ok"], "`target: source.label | lower`"),
    ("{range: [1, 5]}", ["1", "5"], "`target: source.label | float`"),
    ("{range: [1, 5]}", ["1", "5", "N/A"], "`target: source.label | float(none)`"),
    ("{range: [1, 5]}", ["good", "bad"], "correct the labels or the scale"),
    ("{min: 0, max: 1}", ["0.5", "1"], "`target: source.label | float`"),
    ("{values: ['1', '2']}", [1, 2], "`target: source.label | string`"),
]


class TestLabels:
    """Labels that predictions cannot equal."""

    @pytest.mark.parametrize(("scale", "labels", "message"), NEVER)
    def test_labels_that_no_prediction_can_equal_are_an_error_with_the_conversion(
        self, shell, scale, labels, message
    ):
        config, rows = labelled(shell, scale, labels * 20)
        for command in COMMANDS:
            done = shell(command, config, rows)
            assert (done.code, "no prediction can ever equal a target" in done.err) == (2, True), (
                done.err
            )
            assert message in done.err
        assert not (shell.folder / "runs").exists()
        if message.startswith("`target: "):
            cure = message.strip("`").removeprefix("target: ")
            config.write_text(config.read_text().replace("target: source.label", f"target: {cure}"))
            assert shell("validate", config, rows).code == 0

    @pytest.mark.parametrize(
        ("said", "label", "cure"),
        [
            ("yes", True, "`prediction: source.said == 'yes'`"),
            (True, "yes", "`target: source.label == 'yes'`"),
            ("3", 3, "`prediction: source.said | float`"),
            (3.5, "3", "`target: source.label | float`"),
        ],
    )
    def test_two_columns_of_types_that_never_equal_are_an_error_with_a_cure(
        self, shell, said, label, cure
    ):
        config = judge(
            shell, more="\nevaluate: {e: {prediction: source.said, target: source.label}}"
        )
        rows = data(shell, *[{"text": text, "said": said, "label": label} for text in "ab"])
        for command in COMMANDS:
            done = shell(command, config, rows)
            assert (done.code, cure in done.err) == (2, True), done.out + done.err
        assert not (shell.folder / "runs").exists()
        key, _, expression = cure.strip("`").partition(": ")
        column = expression.split()[0]
        config.write_text(config.read_text().replace(f"{key}: {column}", f'{key}: "{expression}"'))
        assert shell("validate", config, rows).code == 0

    def test_two_columns_of_one_type_are_compared_without_a_word(self, shell):
        config = judge(
            shell, more="\nevaluate: {e: {prediction: source.said, target: source.label}}"
        )
        pairs = (("x", "x"), (1, "y"), (None, "x"))
        rows = data(shell, *[{"text": "a", "said": said, "label": label} for said, label in pairs])
        assert shell("validate", config, rows).err == ""

    def test_labels_of_another_scale_are_an_error(self, shell):
        config, rows = labelled(shell, "{values: [poor, fair, high]}", ["bad", "ok", "good"])
        done = shell("validate", config, rows)
        assert done.code == 2
        assert (
            "pipeline.yaml:6:19: evaluate.right: no prediction can ever equal a target" in done.err
        )
        assert (
            "predictions are 'poor', 'fair', 'high', targets are text such as 'bad' (1), 'good' (1)"
            in done.err
        )
        assert "correct the labels or the scale" in done.err

    def test_some_labels_off_the_scale_are_a_warning_with_their_counts(self, shell):
        config, rows = labelled(shell, "{values: [bad, ok]}", ["bad", "ok", "ok", "Ok"])
        for command in COMMANDS:
            done = shell(command, config, rows)
            assert done.code == 0, done.err
            assert (
                "pipeline.yaml:6:19: evaluate.right: 1 of 4 labels can equal no prediction"
                in done.err
            )
            assert "'Ok' (1); predictions are 'bad' or 'ok'" in done.err
            assert "`target: source.label | lower`" in done.err
        assert "label-off-scale" in [
            warning["code"]
            for warning in shell("validate", config, rows, "--json").json()["warnings"]
        ]
        assert "label" in shell("run", config, rows, "-q", "--out", "o").err

    @pytest.mark.parametrize(
        ("label", "message"), [({"helpful": "yes"}, "is a mapping, not a label"), (["a"], "")]
    )
    def test_a_label_that_is_a_mapping_is_an_error(self, shell, label, message):
        config, rows = labelled(shell, "boolean", [label])
        done = shell("validate", config, rows)
        assert (done.code, message in done.err) == (2 if message else 0, True)
        assert not message or "such as `source.label.helpful`" in done.err

    def test_s15_nan_in_a_table_is_no_label(self, shell):
        from verdict_cli.storage.tables.writer import ParquetTable

        config, _ = labelled(shell, "boolean", [True])
        with ParquetTable(shell.folder / "data.parquet") as table:
            table.write({"text": "a", "label": 1.0})
            table.write({"text": "b", "label": float("nan")})
        done = shell("run", config, "data.parquet")
        assert (done.code, "on 1 row" in done.out) == (0, True), done.out + done.err

    def test_words_among_numbers_are_reported(self, shell):
        config, rows = labelled(shell, "{range: [1, 5]}", ["1", "2", "nan"])
        done = shell("validate", config, rows)
        assert (done.code, "'nan' (1)" in done.err) == (2, True)

    def test_one_label_alone_is_a_warning(self, shell):
        config, rows = labelled(shell, "boolean", [True, True])
        done = shell("validate", config, rows)
        assert (done.code, "all 2 labels are true" in done.err) == (0, True)

    def test_no_label_at_all_is_a_warning(self, shell):
        config, rows = labelled(shell, "boolean", [None, None])
        done = shell("validate", config, rows)
        assert (done.code, "`source.label` is null in all 2 rows" in done.err) == (0, True)

    def test_a_probability_of_words_needs_its_positive_label(self, shell):
        evaluate = "{probability: output.score, target: source.label}"
        config, rows = labelled(shell, "{min: 0, max: 1}", ["yes", "no"], evaluate)
        done = shell("run", config, rows)
        assert (done.code, "`probability` needs `positive`" in done.err) == (2, True)

    @pytest.mark.parametrize(
        ("label", "positive", "code", "cure"),
        [
            ("yes", "'Yes'", 2, "write `positive: 'yes'`"),
            (True, "'true'", 2, "write `positive: true`"),
            ("yes", "maybe", 0, "name one of the labels"),
            ("yes", "yes", 0, ""),
            (True, "1", 0, ""),
        ],
    )
    @pytest.mark.parametrize("measured", ["probability: source.p", "prediction: source.label"])
    def test_a_positive_label_that_no_row_has_is_told(
        self, shell, label, positive, code, cure, measured
    ):
        evaluate = f"{{{measured}, target: source.label, positive: {positive}}}"
        config = judge(shell, more=f"\nevaluate: {{e: {evaluate}}}")
        other = False if label is True else "no"
        rows = [{"text": "a", "p": 0.5, "label": value} for value in (label, other, label)]
        done = shell("validate", config, data(shell, *rows))
        assert (done.code, cure in done.err, bool(done.err)) == (code, True, bool(cure)), done.err

    @pytest.mark.parametrize(
        ("where", "code"), [("source.kept", 2), ("source.kept == 'false'", 0), ("1", 2)]
    )
    def test_a_filter_of_the_dataset_that_gives_no_truth_selects_no_row(self, shell, where, code):
        head = f'model: baseline/lexical\ndataset: {{where: "{where}"}}'
        config = shell.config(JUDGE, head=head)
        done = shell("validate", config, data(shell, {"text": "a", "kept": "false"}))
        assert (done.code, "not true or false" in done.err) == (code, code == 2), done.err
        assert "compare, as in" in done.err or code == 0

    def test_a_filter_that_is_true_in_no_row_is_a_warning(self, shell):
        evaluate = "{prediction: output.score, target: source.label, where: source.text == 'x'}"
        config, rows = labelled(shell, "boolean", [True, False], evaluate)
        done = shell("validate", config, rows)
        assert (done.code, "is true in no row: nothing is measured" in done.err) == (0, True)

    @pytest.mark.parametrize(
        ("scale", "labels", "evaluate"),
        [
            ("boolean", [True, False], ""),
            ("boolean", [1, 0], ""),
            ("{range: [1, 5]}", [1, 2.5], ""),
            ("{min: 0, max: 1}", [0.2, 7], ""),
            ("{values: [a, b]}", ["a", "b", None], ""),
            ("boolean", ["yes", "no"], "{prediction: output.score, target: source.label == 'yes'}"),
            ("boolean", ["x", "y"], "{prediction: output.score, target: human.label}"),
            (
                "{values: [a, b]}",
                ["a", "b", "other"],
                "{prediction: output.score, target: source.label, where: source.label != 'other'}",
            ),
        ],
    )
    def test_labels_that_fit_are_not_mentioned(self, shell, scale, labels, evaluate):
        config, rows = labelled(shell, scale, labels, evaluate)
        done = shell("validate", config, rows)
        assert (done.code, done.err) == (0, "")


class TestIds:
    """Ids that repeat."""

    @pytest.mark.parametrize("command", COMMANDS)
    def test_ids_in_several_rows_are_a_warning_with_the_first(self, shell, command):
        rows = data(
            shell,
            *[
                {"key": key, "text": f"{index}"}
                for index, key in enumerate(["a", "b", "a", 1, "1", "b"])
            ],
        )
        config = shell.config(JUDGE, head="model: baseline/lexical\ndataset: {id: key}")
        done = shell(command, config, rows)
        assert done.code == 0
        assert "2 ids of the column 'key' are in several rows, such as 'a' in 2" in done.err

    def test_an_id_within_a_column_repeats_like_any_other(self, shell):
        config = shell.config(JUDGE, head="model: baseline/lexical\ndataset: {id: conv.id}")
        done = shell(
            "validate", config, data(shell, *[{"conv": {"id": "a"}, "text": text} for text in "xy"])
        )
        assert (
            done.code,
            "the column 'conv.id' is in several rows, such as 'a' in 2" in done.err,
        ) == (0, True), done.err

    def test_ids_that_differ_are_not_mentioned(self, shell):
        config = shell.config(JUDGE, head="model: baseline/lexical\ndataset: {id: key}")
        assert shell("validate", config, shell.rows(5_000)).err == ""
        repeated = data(
            shell, {"key": "a", "text": "b"}, {"key": "c", "text": "d"}, {"key": "a", "text": "b"}
        )
        assert "in several rows" not in shell("estimate", config, repeated, "--limit", "2").err


class TestShownLabels:
    """A prompt that shows the label which its judge is measured by."""

    @pytest.mark.parametrize(
        ("prompt", "target", "is_shown"),
        [
            ("Rate {source.label}", "source.label", True),
            ("Rate {source}", "source.label", True),
            ("Rate {source.gold.helpful}", "source.gold.helpful | int", True),
            ("Rate {source.gold.text}", "source.gold.helpful", False),
            ("Rate {source.text}", "source.label", False),
        ],
    )
    def test_a_label_in_the_prompt_is_a_warning(self, shell, prompt, target, is_shown):
        more = f"\nevaluate: {{right: {{prediction: output.score, target: {json.dumps(target)}}}}}"
        done = shell("validate", judge(shell, prompt, more))
        assert done.code == 0
        warning = (
            "pipeline[0].prompt: the prompt shows `"
            + target.removesuffix(" | int")
            + "`, which is the target"
        )
        assert (warning in done.err) is is_shown

    def test_a_run_warns_of_it_too(self, shell):
        config, rows = labelled(shell, "boolean", [True, False])
        config.write_text(config.read_text().replace("source.text", "source.label"))
        done = shell("run", config, rows)
        assert (done.code, "which is the target of `evaluate.right`" in done.err) == (0, True)


class TestTogether:
    """What is wrong with a first run, in one list."""

    def test_missing_keys_columns_and_types_are_reported_at_once(self, shell, monkeypatch):
        for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.delenv(key, raising=False)
        units = "- layer:\n" + "".join(
            f"  - {{unit: JudgeUnit, name: {model[:3]}, model: {model}, prompt: 'Rate {{source.text}}'}}\n"
            for model in ("gpt-4o-mini", "claude-haiku-4-5")
        )
        config = shell.config(units, head="dataset: {schema: {n: int, day: str}}")
        done = shell(
            "run", config, data(shell, {"n": "many", "text": "a", "day": 3}, {"n": 1, "day": "x"})
        )
        for part in (
            "OPENAI_API_KEY is not set",
            "ANTHROPIC_API_KEY is not set",
            "data.jsonl:1: the row breaks the schema: the column 'n': 'many' is not an integer; the column 'day': ",
        ):
            assert done.err.count(part) == 1, done.err
        assert done.code == 4
        assert not (shell.folder / "runs").exists()

    def test_every_missing_column_of_a_table_is_reported(self, shell):
        config = judge(
            shell,
            "Rate {source.text} by {source.rule}",
            "\nevaluate: {e: {value: output.score, by: source.kind}}",
        )
        done = shell("validate", config, shell.write("d.csv", "txt\na\n"), "--json")
        assert [error["message"] for error in done.json()["errors"]] == [
            "the data has no column 'rule'", "the data has no column 'text'"
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "key",
        [
            "cluster: source.kind",
            "where: source.kind == 'a'",
            "group: source.kind, reduce: {prediction: max, target: first}",
        ],
    )
    def test_a_missing_column_of_another_key_than_the_label_is_an_error(self, shell, key):
        more = f"\nevaluate: {{e: {{prediction: output.score, target: source.label, {key}}}}}"
        config = judge(shell, more=more)
        done = shell("run", config, data(shell, {"text": "a", "label": 1}), "--out", "out")
        assert (done.code, "the data has no column 'kind'" in done.err) == (2, True), done.err
        assert not (shell.folder / "out").exists()
        # Without its labels, the evaluation compares nothing: the rows are judged all the same.
        done = shell("run", config, data(shell, {"text": "a"}), "--out", "out")
        assert (done.code, "there are no labels" in done.err) == (0, True), done.err

    @pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
    def test_a_device_is_no_dataset(self, shell, device):
        done = shell("validate", judge(shell), device)
        assert (done.code, f"{device}: this is a device, not a file of rows" in done.err) == (
            2,
            True,
        ), done.err

    def test_a_metric_is_not_split_by_a_column_that_is_missing(self, shell):
        config = judge(shell, more="\nevaluate: {e: {value: output.score, by: source.kind}}")
        done = shell("run", config, data(shell, {"text": "a"}), "--out", "out")
        assert (
            done.code,
            "there is no column 'kind', so no metric is split by it" in done.err,
        ) == (0, True)
        assert "by source.kind" not in done.out

    def test_standard_input_is_named_as_such(self, shell, monkeypatch):
        monkeypatch.setattr(
            "sys.stdin", io.TextIOWrapper(io.BytesIO(b"<html>\n"), encoding="utf-8")
        )
        done = shell("run", judge(shell), "-", "--out", "out")
        assert done.code == 2
        assert "standard input: this is a page of HTML" in done.err


def test_a_run_that_exists_keeps_the_ids_it_began_with(shell):
    rows = data(shell, {"id": "a", "text": "x"}, {"id": "b", "text": "y"})
    words = ("run", judge(shell), rows, "--out", "out")
    assert shell(*words).code == 0
    path = shell.folder / "out" / "run.json"
    facts = json.loads(path.read_text())
    assert facts["id_column"] == "id"
    del facts["id_column"]  # as a version wrote it that took the rows' numbers
    path.write_text(json.dumps(facts | {"status": "interrupted"}))
    with sqlite3.connect(path.with_name("run.db")) as connection:
        connection.execute("DELETE FROM rows")
    connection.close()
    assert shell(*words).code == 0
    assert json.loads(path.read_text())["id_column"] is None
    (batch,) = read_table(shell.folder / "out" / "results.parquet", ["id"])
    assert batch["id"] == [0, 1]
    assert shell(*words, "--fresh").code == 0
    assert json.loads(path.read_text())["id_column"] == "id"
