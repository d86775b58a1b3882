"""Judges of promptfoo and DeepEval as pipelines: what is translated is valid and runs, what is not is named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict_cli.features.imports.promptfoo import TRANSLATED, promptfoo_judges
from verdict_cli.features.imports.translate import Translation
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validated
from verdict_cli.plan.build import build_plan

CONFIG = """\
prompts: ['Answer: {{question}}']
providers: [openai:gpt-4o-mini, anthropic:messages:claude-haiku-4-5]
shared: {polite: {type: llm-rubric, value: 'Is polite about {{question}}'}}
defaultTest:
  options: {provider: 'openai:chat:gpt-4.1'}
  assert:
    - {$ref: '#/shared/polite'}
    - type: javascript
      value: output.length < 100
tests:
  - vars: {question: Where is it?, context: It left Linz., query: Where?}
    assert:
      - {type: factuality, value: It left Linz on Monday}
      - {type: context-faithfulness, threshold: 0.8}
      - {type: contains, value: Linz}
  - vars: {question: 'How do I {pay}?', context: By card., query: pay}
    assert:
      - {type: g-eval, value: [Is it short?, Is it clear?], weight: 2}
      - {type: answer-relevance, threshold: 0.7}
      - {type: model-graded-closedqa, value: mentions cards}
      - {type: assert-set, assert: [{type: not-llm-rubric, value: is rude}]}
      - {type: llm-rubric, value: 'mentions {{context}}', threshold: 0.5, provider: {id: 'openai:gpt-4o', config: {temperature: 0}}}
      - {type: llm-rubric, value: '{% if context %}x{% endif %}'}
      - {type: llm-rubric, value: file://rubric.txt, rubricPrompt: 'Check {{output}} by {{rubric}}.'}
      - {type: select-best, value: the clearest}
"""


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


def no_model() -> dict[str, Any]:
    return {"name": "baseline/lexical"}


def translated(folder: Path, text: str, outputs: Path | None = None) -> Translation:
    path = folder / "promptfooconfig.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "rubric.txt").write_text("Is it short?\n", encoding="utf-8")
    return promptfoo_judges(path, outputs, no_model)


def units(text: str) -> dict[str, dict[str, Any]]:
    """The units of the pipeline's layer by name, of blocks the last one."""
    layer = parse_document(text.encode(), "judge.yaml").data["pipeline"][0]["layer"]
    found = [{**item, **item["block"][-1]} if "block" in item else item for item in layer]
    return {item["name"]: item for item in found}


def results(folder: Path) -> Path:
    """Results of promptfoo: two outputs for each of the two test cases."""
    cases = (("Where is it?", "It left Linz.", "Where?"), ("How do I {pay}?", "By card.", "pay"))
    found = [
        {
            "prompt": {"raw": f"Answer: {question}"},
            "vars": {"question": question, "context": context, "query": query},
            "response": {"output": context if place == 0 else "No idea"},
            "success": place == 0,
            "score": 1 - place,
            "provider": {"id": f"model-{place}"},
            "testIdx": at,
            "promptIdx": place,
        }
        for at, (question, context, query) in enumerate(cases)
        for place in range(2)
    ]
    path = folder / "results.json"
    path.write_text(json.dumps({"results": {"results": found}}), encoding="utf-8")
    return path


def test_each_assertion_of_a_model_is_a_unit_and_the_others_are_named_with_their_line(tmp_path: Path) -> None:
    made = translated(tmp_path, CONFIG)
    (pipeline,) = made.pipelines
    found = units(pipeline.text)
    assert list(found) == [
        "llm_rubric", "factuality", "context_faithfulness", "g_eval", "answer_relevance", "model_graded_closedqa",
        "llm_rubric_2", "llm_rubric_3", "llm_rubric_4",
    ]  # fmt: skip
    assert "Is polite about {source.question}" in found["llm_rubric"]["prompt"]
    assert "{source.factuality_value}" in found["factuality"]["prompt"]
    assert found["llm_rubric_3"]["model"] == {"name": "gpt-4o", "temperature": 0}
    assert found["llm_rubric_4"]["prompt"].strip() == "Check {source.output} by {source.llm_rubric_4_value}."
    assert "model: gpt-4.1\n" in pipeline.text
    assert "previous.context_faithfulness.score >= 0.8" in pipeline.text
    assert "previous.g_eval.score / 10 >= 0.7" in pipeline.text
    assert "not (previous.llm_rubric_2.score)" in pipeline.text
    assert made.left_out == [
        "promptfooconfig.yaml:8: javascript",
        "promptfooconfig.yaml:15: contains",
        "promptfooconfig.yaml:23: llm-rubric with a template that has more than {{variables}}",
        "promptfooconfig.yaml:25: select-best compares outputs of one test: give its results with --outputs",
    ]
    first, second = pipeline.rows
    assert (first["input"], first["output"], first["question"]) == ("Answer: Where is it?", None, "Where is it?")
    assert (first["factuality_value"], second["factuality_value"]) == ("It left Linz on Monday", None)
    assert (first["llm_rubric_3_value"], second["llm_rubric_3_value"]) == (None, "mentions By card.")
    assert (second["g_eval_value"], second["llm_rubric_4_value"]) == ("- Is it short?\n- Is it clear?", "Is it short?")
    assert not pipeline.complete


def test_without_outputs_the_two_next_commands_are_printed(shell: Any) -> None:
    shell.write("promptfooconfig.yaml", CONFIG.replace("file://rubric.txt", "short"))
    done = shell("init", "--from", "promptfoo", "promptfooconfig.yaml")
    assert done.code == 0, done.err
    assert "promptfoo eval -c promptfooconfig.yaml -o results.json" in done.err
    assert "--from promptfoo promptfooconfig.yaml --outputs results.json --force" in done.err
    assert "verdict: warning: not translated: promptfooconfig.yaml:8: javascript" in done.err
    assert "No API key" not in done.err
    assert shell("validate", "judge.yaml").code == 0


def test_with_results_every_output_is_judged_and_compared_with_their_verdict(shell: Any) -> None:
    hosted = CONFIG.replace("openai:chat:gpt-4.1", "python:x.py").replace("file://rubric.txt", "short")
    shell.write(
        "promptfooconfig.yaml", hosted.replace(", provider: {id: 'openai:gpt-4o', config: {temperature: 0}}", "")
    )
    done = shell("init", "--from", "promptfoo", "promptfooconfig.yaml", "--outputs", results(shell.folder))
    assert done.code == 0, done.err
    assert "rows 4 · failed 0" in done.out and "theirs (classification)" in done.out
    assert "the provider python:x.py of llm-rubric" in done.err
    rows = [json.loads(line) for line in (shell.folder / "judge.jsonl").read_text().splitlines()]
    assert [row["output"] for row in rows] == ["It left Linz.", "No idea", "By card.", "No idea"]
    assert "unit: BestOfKJudgeUnit" in (shell.folder / "judge_select_best.yaml").read_text()
    for name in ("judge", "judge_select_best"):
        assert shell("validate", f"{name}.yaml", f"{name}.jsonl").code == 0
        assert shell("run", f"{name}.yaml", f"{name}.jsonl", "--limit", "3", "--model", "baseline/lexical").code == 0


def test_lists_of_values_are_test_cases_and_echoed_prompts_are_outputs(tmp_path: Path) -> None:
    config = "prompts: ['Say {{x}}']\nproviders: [echo]\ndefaultTest: {threshold: 0.5, assert: [{type: llm-rubric, value: ok}]}\n"
    (tmp_path / "t.csv").write_text("x,__expected\none,llm-rubric(0.3): is one\ntwo,contains: two\n", encoding="utf-8")
    (pipeline,) = translated(tmp_path, f"{config}tests: [{{vars: {{x: [a, b]}}}}]\n").pipelines
    assert [row["output"] for row in pipeline.rows] == ["Say a", "Say b"]
    assert pipeline.complete and ">= 0.5" in pipeline.text
    made = translated(tmp_path, f"{config}tests: file://t.csv\n")
    assert [row["x"] for row in made.pipelines[0].rows] == ["one", "two"]
    assert list(units(made.pipelines[0].text)) == ["llm_rubric", "llm_rubric_2"]
    assert made.left_out == ["promptfooconfig.yaml:4: contains"]


@pytest.mark.parametrize(
    "reference", ["file:///etc/hostname", "file://../secret.txt", "file://rubric.js", "file://none.txt"]
)
def test_files_outside_and_programs_are_named_not_read(tmp_path: Path, reference: str) -> None:
    (tmp_path.parent / "secret.txt").write_text("secret", encoding="utf-8")
    made = translated(tmp_path, f"tests: [{{assert: [{{type: llm-rubric, value: '{reference}'}}]}}]\n")
    assert any(reference in place for place in made.left_out)
    assert "secret" not in made.pipelines[0].text if made.pipelines else True


ASSERTIONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [*(kind for kind in TRANSLATED if kind != "select-best"), "not-llm-rubric", "not-g-eval"]
        ),
        "value": st.sampled_from(["Is it {good}?", "Says {{x}}", '"quoted": #1', ["a", "b"], "line\n@system\nline"]),
    },
    optional={
        "threshold": st.sampled_from([0, 0.5, 1]),
        "weight": st.sampled_from([0, 1, 2.5]),
        "metric": st.sampled_from(["Tone", "x", "1st"]),
        "rubricPrompt": st.sampled_from(["{{output}} {{rubric}}", [{"role": "system", "content": "{{rubric}} {a}"}]]),
    },
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ASSERTIONS, min_size=1, max_size=3), st.lists(ASSERTIONS, max_size=2))
def test_whatever_the_assertions_are_the_pipeline_is_valid(tmp_path: Path, own: list[Any], default: list[Any]) -> None:
    config = {
        "prompts": ["{{x}}"],
        "defaultTest": {"assert": default},
        "tests": [{"vars": {"x": "one", "context": "c"}, "assert": own}, {"vars": {"x": "{x}", "context": "d"}}],
    }
    (pipeline,) = translated(tmp_path, json.dumps(config)).pipelines
    build_plan(validated(parse_document(pipeline.text.encode(), "judge.yaml"), Path()))


METRICS = """\
from deepeval.metrics import GEval as G, AnswerRelevancyMetric
from deepeval.metrics.g_eval import Rubric
from deepeval.models import OllamaModel
from deepeval.test_case import LLMTestCase, LLMTestCaseParams as P
import pathlib
pathlib.Path("executed").touch()
STEPS = ["Check the facts", "Ignore {style}"]
G(name="Correct", criteria="Is it " "right?", evaluation_params=[P.INPUT, P.ACTUAL_OUTPUT, P.EXPECTED_OUTPUT], threshold=0.7)
G("Tone & style", [P.ACTUAL_OUTPUT, P.RETRIEVAL_CONTEXT], evaluation_steps=STEPS, model=OllamaModel(model="llama3.2"),
  rubric=[Rubric(score_range=(1, 2), expected_outcome="Bad."), Rubric(score_range=(3, 6), expected_outcome="Good.")])
G(name="Strict", criteria="c", evaluation_params=[P.ACTUAL_OUTPUT, P.TAGS], strict_mode=True)
G(name="computed", criteria=f"x {STEPS}", evaluation_params=[P.INPUT])
AnswerRelevancyMetric(threshold=0.5)
def test_a():
    LLMTestCase(input="Capital?", actual_output="Paris", expected_output="Paris", retrieval_context=["It is Paris."])
    LLMTestCase(input="Capital?", actual_output=app("x"))
"""


def test_g_eval_metrics_are_read_from_python_that_is_never_executed(shell: Any) -> None:
    shell.write("test_judges.py", METRICS)
    done = shell("init", "--from", "deepeval", "test_judges.py")
    assert done.code == 0, done.err
    assert not (shell.folder / "executed").exists()
    text = (shell.folder / "judge.yaml").read_text()
    found = units(text)
    assert list(found) == ["correct", "tone_style", "strict"]
    assert "Is it right?" in found["correct"]["prompt"] and "{source.target}" in found["correct"]["prompt"]
    assert found["tone_style"]["scale"] == {"type": "discrete", "range": [1, 6]}
    assert found["tone_style"]["model"] == "ollama/llama3.2"
    assert "2. Ignore \\{style}" in found["tone_style"]["prompt"] and "3-6: Good." in found["tone_style"]["prompt"]
    assert "{source.retrieval_context | numbered}" in found["tone_style"]["prompt"]
    assert found["strict"]["scale"] == "boolean"
    assert "previous.correct.score / 10 >= 0.7" in text and "(previous.tone_style.score - 1) / 5 >= 0.5" in text
    for said in (
        "test_judges.py:12: GEval: its criteria is computed",
        "test_judges.py:13: AnswerRelevancyMetric",
        "test_judges.py:11: the parameter TAGS of 'Strict'",
        "test_judges.py:16: a test case is not a row: its actual_output is computed",
    ):
        assert said in done.err
    assert len((shell.folder / "judge.jsonl").read_text().splitlines()) == 1
    assert shell("validate", "judge.yaml", "judge.jsonl").code == 0


def test_metrics_in_json_judge_the_cases_of_a_test_run(shell: Any, root: Path) -> None:
    metric = {
        "name": "Right",
        "criteria": "Is the output right?",
        "evaluationParams": ["input", "actualOutput"],
        "rubric": [
            {"scoreRange": [0, 4], "expectedOutcome": "wrong"},
            {"scoreRange": [5, 9], "expectedOutcome": "right"},
        ],
    }
    shell.write("metric.json", json.dumps(metric))
    log = root / "tests" / "features" / "imports" / "log_formats" / "logs" / "deepeval-4.3.1.json"
    done = shell("init", "--from", "deepeval", "metric.json", "--outputs", log)
    assert done.code == 0, done.err
    assert "failed 0" in done.out and "range: [0, 9]" in (shell.folder / "judge.yaml").read_text()
    assert "which does not have the criteria of its metrics" in shell("init", "--from", "deepeval", log, "--force").err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "x = (", "a.py:1: not valid Python"),
        ("a.json", "{", "not valid JSON"),
        ("a.py", "x = 1", "no judge that can be translated"),
        ("a.py", "from deepeval.metrics import GEval\nGEval(name='x', criteria='c')", "'x' has no evaluation_params"),
        ("b.py", None, "no such file: b.py"),
    ],
)
def test_a_file_without_metrics_is_told(shell: Any, name: str, text: str | None, said: str) -> None:
    if text is not None:
        shell.write(name, text)
    done = shell("init", "--from", "deepeval", name)
    assert (done.code, said in done.err) == (2, True), done.err
    assert not (shell.folder / "judge.yaml").exists()
