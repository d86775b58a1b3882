"""`verdict run`: its documents, its exit codes, and the figures of recorded runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import needs

from verdict_cli.storage.tables.reader import read_table, table_columns

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
FIGURE = "\nevaluate: {level: {value: output.score, metrics: [mean]}}"
CASES = (
    "alpacaeval-claude-2",
    "judgebench-o1-mini-2024-09-12",
    "llmbar-GPT-4-Natural-Vanilla",
    "xstest-llama2orig",
)


def test_the_json_document_is_that_of_the_language(shell):
    gates = "\ngates: [{metric: level.mean, max: 4.9}]"
    config = shell.config(JUDGE + FIGURE + gates)
    done = shell("run", config, shell.rows(6), "--out", "out", "--json")
    assert done.code == 0
    document = done.json()
    assert list(document) == [
        "run",
        "status",
        "rows",
        "failed",
        "calls",
        "cost_usd",
        "evaluations",
        "gates",
    ]
    assert {
        key: document[key] for key in ("run", "status", "rows", "failed", "calls", "cost_usd")
    } == {
        "run": "out",
        "status": "finished",
        "rows": 6,
        "failed": 0,
        "calls": 6,
        "cost_usd": 0.0,
    }
    assert set(document["evaluations"]["level"]["mean"]) == {"value", "low", "high", "n"}
    assert document["evaluations"]["level"]["mean"]["n"] == 6
    for gate in document["gates"]:
        assert set(gate) == {"metric", "passed", "value", "limit", "verdict", "reason"}
    assert "level.mean" in [gate["metric"] for gate in document["gates"]]


def test_the_directory_holds_every_file_that_the_language_names(shell):
    shell(
        "run", shell.config(JUDGE + FIGURE), shell.rows(3), "--out", "out", "--format", "csv,jsonl"
    )
    for name in (
        "run.json",
        "spec.yaml",
        "results.parquet",
        "results.csv",
        "results.jsonl",
        "calls.parquet",
        "report.json",
        "report.md",
        "report.html",
        "junit.xml",
    ):
        assert (shell.folder / "out" / name).stat().st_size > 0
    columns = {
        "row",
        "id",
        "unit",
        "call",
        "attempt",
        "model",
        "messages",
        "reply",
        "finish_reason",
    }
    more = {"logprobs", "prompt_tokens", "completion_tokens", "cost_usd", "latency_s", "error"}
    assert columns | more <= set(table_columns(shell.folder / "out" / "calls.parquet"))


def test_the_report_is_on_standard_output_and_the_rest_on_standard_error(shell):
    done = shell("run", shell.config(JUDGE + FIGURE), shell.rows(3), "--out", "out")
    assert "mean" in done.out
    assert not any(line.endswith(" ") for line in done.out.splitlines())
    assert "rows 3/3" in done.err
    assert "\x1b" not in done.out + done.err
    assert "\r" not in done.err


def test_quiet_leaves_only_the_report(shell):
    done = shell("run", shell.config(JUDGE + FIGURE), shell.rows(3), "--out", "out", "--quiet")
    assert done.err == ""


def test_a_finished_run_is_not_repeated(shell):
    arguments = ("run", shell.config(JUDGE + FIGURE), shell.rows(3), "--out", "out", "--json")
    first = shell(*arguments)
    before = (shell.folder / "out" / "results.parquet").stat().st_mtime_ns
    second = shell(*arguments)
    assert second.json() == first.json()
    assert "nothing left to do" in second.err
    assert (shell.folder / "out" / "results.parquet").stat().st_mtime_ns == before


def test_the_default_directory_is_the_same_for_the_same_run_only(shell):
    config, data = shell.config(JUDGE), shell.rows(3)
    runs = {
        shell("run", config, data, "--json", *more).json()["run"]
        for more in ((), (), ("--seed", "1"))
    }
    assert len(runs) == 2


def test_exit_code_1_says_that_a_gate_failed(shell):
    config = shell.config(JUDGE + FIGURE + "\ngates: [{metric: level.mean, min: 5}]")
    done = shell("run", config, shell.rows(3), "--out", "out", "--json")
    assert done.code == 1
    assert done.json()["gates"][0]["passed"] is False


def test_exit_code_3_says_that_rows_failed(shell):
    config = shell.config(JUDGE + "\ngates: [{metric: run.coverage, min: 0.5}]")
    replay = shell.write(
        "calls.jsonl", '{"row": 0, "unit": "judge", "reply": "{\\"score\\": 3}"}\n'
    )
    done = shell("run", config, shell.rows(2), "--out", "out", "--replay", replay, "--json")
    assert (done.code, done.json()["failed"], done.json()["status"]) == (3, 1, "finished")


def test_a_call_that_is_not_recorded_is_its_rows_failure_and_never_live(shell):
    config = shell.config(JUDGE, "model: gpt-4o-mini")
    replay = shell.write(
        "calls.jsonl", '{"row": 0, "unit": "judge", "reply": "{\\"score\\": 3}"}\n'
    )
    shell("run", config, shell.rows(3), "--out", "out", "--replay", replay)
    (batch,) = read_table(shell.folder / "out" / "results.parquet", ["failure.kind"])
    assert batch["failure.kind"] == [None, "not-recorded", "not-recorded"]


def test_a_changed_recording_is_another_run(shell):
    config, data = shell.config(JUDGE), shell.rows(1)
    replay = shell.write(
        "calls.jsonl", '{"row": 0, "unit": "judge", "reply": "{\\"score\\": 3}"}\n'
    )
    assert shell("run", config, data, "--out", "out", "--replay", replay).code == 0
    shell.write("calls.jsonl", '{"row": 0, "unit": "judge", "reply": "{\\"score\\": 4}"}\n')
    done = shell("run", config, data, "--out", "out", "--replay", replay)
    assert done.code == 2
    assert "another pipeline" in done.err


def test_a_run_replays_from_another_runs_directory_and_never_over_itself(shell):
    config, data = shell.config(JUDGE + FIGURE), shell.rows(5)
    live = shell("run", config, data, "--out", "live", "--json").json()
    again = shell("run", config, data, "--out", "again", "--replay", "live", "--json").json()
    assert again["evaluations"] == live["evaluations"]
    itself = shell("run", config, data, "--out", "live", "--replay", "live", "--fresh")
    assert itself.code == 2
    assert (shell.folder / "live" / "calls.parquet").exists()


def test_standard_input_is_a_dataset(shell, monkeypatch):
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{"text": "b"}\n'), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    done = shell("run", shell.config(JUDGE), "-", "--out", "out", "--json")
    assert done.json()["rows"] == 2


def test_limit_and_sample_choose_rows(shell):
    config, data = shell.config(JUDGE), shell.rows(20)
    assert shell("run", config, data, "--limit", "4", "--json").json()["rows"] == 4
    assert shell("run", config, data, "--sample", "5", "--seed", "3", "--json").json()["rows"] == 5


def test_set_and_model_change_the_pipeline(shell):
    config = shell.config(
        "- layer: [{unit: JudgeUnit, prompt: Rate}]\n- {unit: MeanPoolUnit}", "model: gpt-4o"
    )
    done = shell(
        "run",
        config,
        shell.rows(2),
        "--model",
        "baseline/random",
        "--set",
        "pipeline[0].repeat=3",
        "--json",
    )
    assert done.json()["calls"] == 6


def test_report_measures_a_run_again_without_a_call(shell):
    config = shell.config(JUDGE + FIGURE)
    first = shell("run", config, shell.rows(3), "--out", "out", "--json")
    config.unlink()
    assert shell("report", "out", "--json").json() == first.json()
    assert shell("report", "nowhere").code == 2


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gives_its_values(name, shell, shared):
    case = shared / "spec" / "replay-cases" / name
    done = shell(
        "run",
        case / "pipeline.yaml",
        case / "data.jsonl",
        "--replay",
        case / "replay.jsonl",
        "--json",
    )
    document = done.json()
    for path, (value, tolerance) in json.loads((case / "expected.json").read_text()).items():
        evaluation, metric = path.rsplit(".", 1)
        assert document["evaluations"][evaluation][metric]["value"] == pytest.approx(
            value, abs=tolerance
        )


def test_another_models_name_keeps_the_files_settings_of_it(shell):
    config = shell.config(JUDGE, "model: {name: a, temperature: 0.25, retries: 7}")
    done = shell(
        "run",
        config,
        shell.rows(1),
        "--model",
        "baseline/lexical",
        "--out",
        "out",
        "--set",
        "model.timeout=9",
    )
    assert done.code == 0, done.err
    spec = (shell.folder / "out" / "spec.yaml").read_text()
    for line in ("name: baseline/lexical", "temperature: 0.25", "retries: 7", "timeout: 9"):
        assert line in spec


def test_the_sample_runs_on_the_embedded_model(shell, root):
    done = shell(
        "run",
        root / "configs" / "xstest.yaml",
        root / "datasets" / "xstest_sample.jsonl",
        "--model",
        "baseline/lexical",
        "--json",
    )
    document = done.json()
    assert (done.code, document["rows"], document["failed"], document["calls"]) == (0, 96, 0, 288)
    assert {"accuracy", "precision", "recall", "f1", "cohen_kappa"} <= set(
        document["evaluations"]["safety"]
    )
    assert document["evaluations"]["safety"]["accuracy"]["n"] == 96


@needs("benchmarks")
def test_the_real_prompts_are_imported_and_judged(shell, root, shared):
    source = shared / "data" / "xstest" / "xstest_prompts.csv"
    assert shell("datasets", "import", "xstest", source, "--out", "xstest.jsonl").code == 0
    done = shell(
        "run",
        root / "configs" / "xstest.yaml",
        "xstest.jsonl",
        "--model",
        "baseline/lexical",
        "--json",
    )
    document = done.json()
    assert (done.code, document["rows"], document["failed"]) == (0, 450, 0)


@needs("benchmarks")
def test_recorded_labels_give_the_published_accuracy_and_kappa(shell, root, shared):
    source = shared / "data" / "xstest" / "completions_llama2orig.csv"
    shell("datasets", "import", "xstest", source, "--out", "refusal.jsonl")
    done = shell(
        "run",
        root / "configs" / "xstest_refusal.yaml",
        "refusal.jsonl",
        "--replay",
        "refusal.replay.jsonl",
        "--json",
    )
    refusal = done.json()["evaluations"]["refusal"]
    assert refusal["accuracy"]["value"] == pytest.approx(347 / 450, abs=1e-12)
    assert refusal["accuracy"]["n"] == 450
    assert round(refusal["cohen_kappa"]["value"], 4) == 0.5795


def test_a_run_without_labels_imports_neither_pandas_nor_scipy_nor_litellm(tmp_path):
    config, data = tmp_path / "c.yaml", tmp_path / "d.jsonl"
    config.write_text(
        "verdict: 1\nname: t\nmodel: baseline/lexical\npipeline:\n- {unit: JudgeUnit, prompt: 'Rate {source.text}'}\n"
    )
    data.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert imported(config, data, tmp_path / "out", {"pandas", "scipy", "litellm"}) == set()


def imported(config: Path, data: Path, out: Path, names: set[str]) -> set[str]:
    """Which of these modules a run imports."""
    program = (
        "import sys\nfrom verdict_cli.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        f"print(*({names!r} & sys.modules.keys()), file=sys.stderr)"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "run",
        str(config),
        str(data),
        "--out",
        str(out),
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_metrics_and_intervals_need_no_distributions_of_scipy(
    tmp_path,
):
    config, data = tmp_path / "c.yaml", tmp_path / "d.jsonl"
    config.write_text(
        "verdict: 1\nname: t\nmodel: baseline/lexical\npipeline:\n- {unit: JudgeUnit, prompt: 'Rate {source.text}'}\n"
        "evaluate:\n"
        "  labels: {prediction: output.score > 2, target: source.label, probability: output.score / 5}\n"
        "  numbers: {prediction: output.score, target: source.number}\n"
        "  within: {prediction: output.score, target: source.number, cluster: source.of, metrics: [kendall_within]}\n"
        "  value: {value: output.score, cluster: source.of}\n"
        "  gold: {prediction: output.score > 2, gold: {target: source.label}}\n"
    )
    words = ("good", "bad", "quite good", "awful", "fine", "no", "excellent", "a")
    data.write_text(
        "".join(
            f'{{"text": "{word}", "label": {str(row % 3 > 0).lower()}, "number": {row % 5}, "of": {row // 4}}}\n'
            for row, word in enumerate(words * 5)
        )
    )
    assert imported(config, data, tmp_path / "out", {"scipy.stats", "scipy.special"}) == set()


def test_the_rows_of_a_pipe_are_judged(shell):
    config = shell.config("- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}")
    reader, writer = os.pipe()
    os.write(writer, b'{"text": "one"}\n{"text": "two"}\n')
    os.close(writer)
    try:
        done = shell("run", config, f"/dev/fd/{reader}", "--out", "piped", "--json")
    finally:
        os.close(reader)
    assert done.code == 0
    assert json.loads((shell.folder / "piped" / "run.json").read_text())["rows"] == 2


def test_a_sample_says_what_all_rows_would_take(shell):
    words = ("run", "xstest", "xstest_sample", "--model", "baseline/lexical", "--out", "r")
    done = shell(*words, "--sample", "24")
    assert done.code == 0, done.err
    assert "all 96 rows would take about 288 calls and $0" in done.err
    assert "would take" not in shell(*words, "--fresh").err
    assert "would take" not in shell(*words, "--fresh", "--sample", "24", "--quiet").err
