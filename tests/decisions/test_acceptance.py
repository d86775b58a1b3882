"""Decision models as judges, in both wire formats, against a loopback server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.storage.tables.reader import read_table, table_columns

FORMATS = ("decisions", "systemone")
Shell = Any
Servers = Any


@pytest.fixture(params=FORMATS)
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The `model:` line of a server in one of the formats."""

    def line(url: str, **keys: Any) -> str:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        name = {"decisions": "decisions/gpt-6-luna", "systemone": "systemone/jev"}[request.param]
        base = {"decisions": f"{url}/v1", "systemone": url}[request.param]
        return "model: " + json.dumps({"name": name, "api_base": base, **keys})

    line.format = request.param  # type: ignore[attr-defined]
    return line


def table(path: Path) -> list[dict[str, Any]]:
    names = table_columns(path)
    rows: list[dict[str, Any]] = []
    for batch in read_table(path, tuple(names)):
        rows += [
            dict(zip(names, values, strict=True))
            for values in zip(*(batch[name] for name in names), strict=True)
        ]
    return rows


def judged(
    shell: Shell, steps: str, head: str, data: list[dict[str, Any]], *options: str, code: int = 0
) -> list[dict[str, Any]]:
    """The results of a run, which ends with this code."""
    config = shell.config(steps, head)
    rows = shell.write("d.jsonl", jsonl(data))
    done = shell("run", config, rows, "--out", "out", "--no-cache", "--yes", *options)
    assert done.code == code, done.err + done.out
    return table(shell.folder / "out" / "results.parquet")


def calls(shell: Shell) -> list[dict[str, Any]]:
    return table(shell.folder / "out" / "calls.parquet")


def facts(shell: Shell) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shell.folder / "out" / "run.json").read_text())
    return loaded


ROW = {"id": 1, "q": "2+2?", "a": "4"}
CORRECT = '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is {source.a} the answer to {source.q}?"}'
RATED = """- unit: JudgeUnit
  name: j
  scale: {values: [bad, fair, good], ordered: true, scores: {bad: 0, fair: 5, good: 10}, descriptions: {bad: wrong, good: right}}
  prompt: "@system\\nRate the answer.\\n@user\\nQ: {source.q}\\nA: {source.a}"
"""
RATED_RULE = {"match": "Rate", "probabilities": {"0": 0.1, "1": 0.3, "2": 0.6}}


def test_a_yes_or_no_question_is_about_the_fields_of_the_row(shell, decision_servers, model):
    url = decision_servers.start(rules=[{"match": "answer", "p": 0.83}])
    (row,) = judged(shell, CORRECT, model(url), [ROW])
    assert row["output.score"] is True
    assert row["output.p"] == row["output.expected"] == 0.83
    assert json.loads(json.dumps(row["output.distribution"])) == {"true": 0.83, "false": 0.17}
    (sent,) = decision_servers.get(url, "requests")
    text = "Is `a` the answer to `q`?"
    if model.format == "systemone":
        assert sent["body"] == {
            "model": "jev",
            "state": {"a": "4", "q": "2+2?"},
            "questions": {"q1": {"type": "noul", "instructions": text}},
        }
    else:
        data = {"type": "input_json", "data": {"a": "4", "q": "2+2?"}}
        assert sent["body"] == {
            "model": "gpt-6-luna",
            "input": [{"role": "user", "content": [data]}],
            "questions": [{"type": "predicate", "name": "q1", "instructions": text}],
        }
    assert facts(shell)["requests"] == facts(shell)["calls"] == 1


def test_a_system_section_is_the_question_and_levels_have_their_descriptions(
    shell, decision_servers, model
):
    url = decision_servers.start(rules=[RATED_RULE])
    (row,) = judged(shell, RATED, model(url), [ROW])
    assert (row["output.score"], row["output.p"], row["output.expected"]) == ("good", 0.6, 7.5)
    (sent,) = decision_servers.get(url, "requests")
    if model.format == "systemone":
        assert sent["body"]["state"] == "Q: 2+2?\nA: 4"
        criteria = ["bad (worst): wrong", "fair", "good (best): right"]
        assert sent["body"]["questions"] == {
            "q1": {"type": "score", "instructions": "Rate the answer.", "criteria": criteria}
        }
    else:
        assert sent["body"]["questions"][0]["levels"] == [
            {"label": "bad (worst)", "description": "wrong"},
            {"label": "fair"},
            {"label": "good (best)", "description": "right"},
        ]
        assert sent["body"]["input"] == [
            {"role": "user", "content": [{"type": "input_text", "text": "Q: 2+2?\nA: 4"}]}
        ]


def test_a_chat_model_is_shown_the_descriptions_before_the_scale(
    shell, scripted_model, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    scripted_model.answer = lambda _: '{"score": "good"}'
    judged(shell, RATED, "model: openai/gpt-x", [ROW])
    text = scripted_model.texts()[0]
    assert "- bad: wrong\n- good: right\nThe score must be one of: bad, fair, good" in text


@pytest.mark.parametrize(
    ("extract", "outputs"),
    [
        ("weighted_summed_score", {"score": 7.5, "mass": 1.0}),
        ("argmax_score", {"score": "good", "mass": 1.0}),
        (
            "token_probability",
            {"distribution": {"bad": 0.1, "fair": 0.3, "good": 0.6}, "mass": 1.0},
        ),
        ("structured", {"score": "good"}),
    ],
)
def test_existing_extractors_read_the_distribution(
    shell, decision_servers, model, extract, outputs
):
    url = decision_servers.start(rules=[RATED_RULE])
    (row,) = judged(shell, RATED + f"  extract: {extract}\n", model(url), [ROW])
    values = {name.removeprefix("output."): row[name] for name in row if name.startswith("output.")}
    assert values == outputs


def test_values_that_begin_alike_are_accepted_for_a_decision_model_only(
    shell, decision_servers, model
):
    url = decision_servers.start(
        rules=[{"match": "Rate", "probabilities": {"very good": 0.9, "very bad": 0.1}}]
    )
    steps = '- {unit: JudgeUnit, name: j, extract: argmax_score, scale: {values: [very good, very bad]}, prompt: "Rate {source.a}"}'
    assert judged(shell, steps, model(url), [ROW])[0]["output.score"] == "very good"
    chat = shell("validate", shell.config(steps, "model: openai/gpt-x"))
    assert chat.code == 2
    assert "begin with the same token" in chat.out + chat.err


RUBRIC = """- unit: JudgeUnit
  name: j
  each: source.rubric
  as: criterion
  scale: boolean
  prompt: "@system\\nIs it met? {criterion.text}\\n@user\\n{source.a}"
"""
RUBRIC_HEAD = "\ndataset: {id: id, schema: {rubric: {type: array}}}"


def rubric_rows(count: int, criteria: int = 5) -> list[dict[str, Any]]:
    texts = [{"text": f"criterion {number}", "points": 1} for number in range(criteria)]
    return [{"id": number, "a": f"answer {number}", "rubric": texts} for number in range(count)]


POOL = "- {unit: RubricPoolUnit, name: pool}\n"


@pytest.mark.parametrize(
    ("keys", "flags", "sizes"), [("", (), [5]), ("  per_call: 2\n", (), [2, 2, 1])]
)
def test_the_criteria_of_a_row_share_requests(
    shell,
    decision_servers,
    model,
    keys,
    flags,
    sizes,
):
    url = decision_servers.start(*flags)
    judged(shell, RUBRIC + keys, model(url), rubric_rows(1))
    stats = decision_servers.get(url, "stats")
    assert (stats["requests"], stats["questions"], stats["most_questions"]) == (
        len(sizes),
        5,
        max(sizes),
    )
    rows = calls(shell)
    assert [row["item"] for row in rows] == list("01234")
    assert len({row["request"] for row in rows}) == len(sizes)
    assert sum(row["prompt_tokens"] for row in rows) == stats["input_tokens"]
    assert (facts(shell)["calls"], facts(shell)["requests"]) == (5, len(sizes))


def test_a_servers_limit_is_learnt_once(shell, decision_servers, model):
    url = decision_servers.start("--max-questions", "3")
    (row,) = judged(shell, RUBRIC, model(url), rubric_rows(1))
    assert row["status"] == "ok"
    stats = decision_servers.get(url, "stats")
    assert stats["by_status"] == {"400": 1, "200": 2}
    assert stats["most_questions"] == 3


def test_packing_changes_no_score(shell, decision_servers, model):
    url = decision_servers.start()
    outputs = []
    for keys in ("", "  per_call: 2\n", "  per_call: 1\n"):
        outputs.append(
            [
                row["j.distribution"]
                for row in judged(shell, RUBRIC + keys, model(url), rubric_rows(3), "--fresh")
            ]
        )
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_questions_of_two_rows_are_never_in_one_request(shell, decision_servers, model):
    url = decision_servers.start()
    rows = [{**row, "a": "the same"} for row in rubric_rows(8)]
    judged(shell, RUBRIC, model(url), rows, "--concurrency", "32")
    assert decision_servers.get(url, "stats")["most_questions"] == 5
    assert decision_servers.get(url, "stats")["requests"] == 8


def test_a_refused_question_fails_alone(shell, decision_servers, model):
    url = decision_servers.start(rules=[{"match": "criterion 3", "fault": "refusal"}])
    (row,) = judged(shell, RUBRIC, model(url), rubric_rows(1), code=3)
    stats = decision_servers.get(url, "stats")
    if model.format == "decisions":
        assert row["failure.kind"] == "refused"
        assert (stats["requests"], stats["questions"]) == (1, 5)
    else:
        assert row["failure.kind"] == "invalid"
        assert "has no answer to `q1`" in row["failure.message"]
        assert (stats["requests"], stats["questions"]) == (3, 7)


def test_the_other_questions_of_a_refused_one_count(shell, decision_servers, model):
    url = decision_servers.start(rules=[{"match": "criterion 3", "fault": "refusal"}])
    steps = RUBRIC + "  on_failure: skip\n"
    (row,) = judged(shell, steps, model(url, retries=0), rubric_rows(1))
    assert [entry is not None for entry in row["j.score"]] == [True, True, True, False, True]


BAD = (
    "unnormalised", "nan", "negative", "outside", "wrongtype", "lessoptions", "null", "malformed", "html", "error200", "noanswers",
    "sum2", "empty", "reset",
)  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("steps", [CORRECT, RATED], ids=["boolean", "score"])
def test_no_fault_of_a_server_is_a_score(shell, decision_servers, model, fault, steps):
    if steps == CORRECT and fault in ("unnormalised", "lessoptions", "negative", "sum2"):
        pytest.skip("a yes or no answer has one number")
    url = decision_servers.start()
    head = model(url, retries=0, params={"extra_headers": {"x-mock-fault": fault}})
    (row,) = judged(shell, steps, head, [ROW], code=3)
    assert row["failure.kind"] in (
        "invalid",
        "unavailable",
        *(["refused"] if fault == "null" else []),
    )
    assert row.get("output.score") is None


@pytest.mark.parametrize(
    "fault",
    [
        "extra",
        "noconfidence",
        "nolegend",
        "listlegend",
        "contradiction",
        "unknownoption",
        "nousage",
    ],
)
def test_what_does_not_touch_the_probabilities_is_read(shell, decision_servers, model, fault):
    url = decision_servers.start(rules=[{"match": "Which", "probabilities": {"x": 0.7, "y": 0.3}}])
    steps = '- {unit: CategoricalJudgeUnit, name: j, categories: [x, y], prompt: "Which is {source.a}?"}'
    head = model(url, retries=0, params={"extra_headers": {"x-mock-fault": fault}})
    (row,) = judged(shell, steps, head, [ROW])
    assert (row["output.choice"], row["output.p"]) == ("x", 0.7)
    if fault == "contradiction":
        assert "less probable" in calls(shell)[0]["usage_note"]


def test_rounded_probabilities_of_many_options_are_read(shell, decision_servers, model):
    url = decision_servers.start("--round", "2")
    names = ", ".join(f"c{number}" for number in range(77))
    steps = f'- {{unit: CategoricalJudgeUnit, name: j, categories: [{names}], prompt: "Which is {{source.a}}?"}}'
    (row,) = judged(shell, steps, model(url), [ROW])
    assert math.isclose(sum(row["output.distribution"].values()), 1)


def test_a_rate_limit_is_waited_for(shell, decision_servers, model):
    url = decision_servers.start("--limit", "2", "--retry-after", "0.1", "--latency-ms", "5")
    rows = judged(
        shell,
        CORRECT,
        model(url, retries=0),
        [{**ROW, "id": n, "a": str(n)} for n in range(50)],
        "--concurrency",
        "32",
    )
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["attempt"] for row in calls(shell)} == {0}


def test_doubtful_rows_continue_to_a_chat_model(shell, decision_servers, loopback, model):
    chat = json.dumps({"name": "openai/gpt-x", "api_base": loopback.url})
    steps = CORRECT.replace(
        "- {", f"- {{extract: decision, escalate: {{when: output.p < 0.8, to: {chat}}}, "
    )
    url = decision_servers.start(rules=[{"match": r"\\bdoubt", "p": 0.6}])
    rows = [{"id": n, "q": "doubtful" if n % 2 else "certain", "a": "4"} for n in range(6)]
    results = judged(shell, steps, model(url), rows)
    doubtful = [row for row in results if row["output.answered_by"] == "openai/gpt-x"]
    escalated = {row["row"] for row in calls(shell) if row["model"] == "openai/gpt-x"}
    assert {row["row"] for row in doubtful} == escalated
    assert escalated
    assert all(row["output.p"] is None and row["output.distribution"] is None for row in doubtful)
    assert all(row["output.p"] >= 0.8 for row in results if row not in doubtful)
    stages = facts(shell)["stages"]["j"]
    assert [stage["answered"] for stage in stages] == [6 - len(escalated), len(escalated)]


PAIR = "- {unit: PairwiseJudgeUnit, name: j, positions: both, tie: true, options: [source.x, source.y]%s}"


@pytest.mark.parametrize("labels", [(), ("first", "second")])
def test_a_pair_is_judged_in_both_orders(shell, decision_servers, model, labels):
    url = decision_servers.start("--position-bias", "50")
    more = f", labels: [{', '.join(labels)}]" if labels else ""
    (row,) = judged(shell, PAIR % more, model(url), [{"id": 1, "x": "one", "y": "two"}])
    assert (row["output.choice"], row["output.consistent"]) == ("tie", False)
    names = labels or ("A", "B")
    bodies = [sent["body"] for sent in decision_servers.get(url, "requests")]
    if model.format == "systemone":
        assert [body["state"] for body in bodies] == [
            dict(zip(names, ("one", "two"), strict=True)),
            dict(zip(names, ("two", "one"), strict=True)),
        ]
        assert list(bodies[0]["questions"]["q1"]["criteria"]) == [*names, "tie"]
        assert "two" not in bodies[0]["questions"]["q1"]["instructions"]
    else:
        assert [choice["value"] for choice in bodies[0]["questions"][0]["choices"]] == [
            *names,
            "tie",
        ]


def test_the_letter_of_a_shuffled_best_of_k_is_mapped_back(shell, decision_servers, model):
    url = decision_servers.start("--position-bias", "50")
    steps = "- {unit: BestOfKJudgeUnit, name: j, shuffle: true, original: true, options: [source.x, source.y, source.z]}"
    rows = [{"id": n, "x": "one", "y": "two", "z": "three"} for n in range(6)]
    results = judged(shell, steps, model(url), rows)
    assert len({row["output.choice"] for row in results}) > 1
    texts = {"A": "one", "B": "two", "C": "three"}
    assert all(texts[row["output.choice"]] == row["output.chosen"] for row in results)


REFUSED = {
    "explanation": CORRECT.replace("{unit", "{explanation: true, unit"),
    "cot": '- {unit: CoTUnit, name: j, prompt: "Is {source.a} right?"}',
    "ranker": "- {unit: RankerUnit, name: j, k: 2, options: [source.q, source.a]}",
    "regex": CORRECT.replace("{unit", "{extract: {type: regex, pattern: FIRST_INT}, unit"),
    "range": CORRECT.replace("boolean", "{range: [1, 300]}"),
    "nothing": '- {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is it right?"}',
    "stream": CORRECT.replace("{unit", "{stream: true, unit"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_decision_model_cannot_do_is_refused_before_the_run(shell, case):
    done = shell("validate", shell.config(REFUSED[case], "model: typesafe/jev-1.13.0"))
    assert done.code == 2, done.out
    assert "jev-1.13.0" in done.err + done.out or case == "nothing"


@pytest.mark.parametrize(
    "setting",
    [
        "temperature: 0",
        "top_p: 0.5",
        "seed: 1",
        "stop: x",
        "max_tokens: 5",
        "reasoning_effort: low",
    ],
)
def test_settings_that_no_decision_model_has_are_refused(shell, monkeypatch, setting):
    monkeypatch.setenv("TYPESAFE_API_KEY", "test")
    done = shell(
        "validate", shell.config(CORRECT, f"model: {{name: typesafe/jev-1.13.0, {setting}}}")
    )
    assert done.code == 2, done.out
    assert f"takes no {setting.partition(':')[0]}" in done.err + done.out


def test_an_estimate_counts_requests_and_bills_no_output(shell):
    config = shell.config(RUBRIC, "model: typesafe/jev-1.13.0")
    rows = shell.write("d.jsonl", jsonl(rubric_rows(100)))
    done = shell("estimate", config, rows, "--json")
    assert done.code == 0, done.err
    line = done.json()
    assert (line["calls"], line["requests"], line["completion_tokens"]) == (500, 100, 0)
    assert math.isclose(line["cost_usd"], line["prompt_tokens"] * 0.042e-6)


def test_questions_are_cached_one_by_one(shell, decision_servers, model):
    url = decision_servers.start()
    config = shell.config(RUBRIC, model(url))
    for criteria, out, cached, requests in (
        (5, "one", 0, 10),
        (5, "two", 50, 0),
        (6, "three", 50, 10),
    ):
        rows = shell.write("d.jsonl", jsonl(rubric_rows(10, criteria)))
        decision_servers.reset(url)
        done = shell("run", config, rows, "--out", out, "--yes")
        assert done.code == 0, done.err
        facts = json.loads((shell.folder / out / "run.json").read_text())
        assert (facts["cached"], facts["requests"]) == (cached, requests)
        assert decision_servers.get(url, "stats")["requests"] == requests


def test_the_servers_own_cost_counts_unless_the_pipeline_has_one(shell, decision_servers, model):
    url = decision_servers.start("--cost")
    judged(shell, RUBRIC, model(url), rubric_rows(2))
    tokens = decision_servers.get(url, "stats")["input_tokens"]
    assert math.isclose(sum(row["cost_usd"] for row in calls(shell)), tokens * 0.1e-6)
    judged(
        shell,
        RUBRIC,
        model(url, cost={"input_per_million": 7, "output_per_million": 0}),
        rubric_rows(2),
        "--fresh",
    )
    assert math.isclose(sum(row["cost_usd"] for row in calls(shell)), tokens * 7e-6)


def test_a_continuous_scale_is_the_mean_of_its_anchors(shell, decision_servers, model):
    url = decision_servers.start(
        rules=[{"match": "much", "probabilities": {"0": 0.2, "1": 0.2, "2": 0.6}}]
    )
    scale = "{min: 0, max: 1, descriptions: {0: none, 0.5: half, 1: all}}"
    steps = f'- {{unit: JudgeUnit, name: j, scale: {scale}, prompt: "How much of {{source.a}}?"}}'
    (row,) = judged(shell, steps, model(url), [ROW])
    assert math.isclose(row["output.score"], 0.7)


def test_a_recorded_run_is_replayed_without_a_server(shell, decision_servers, model):
    url = decision_servers.start("--alias", "jev=jev-1.13.0")
    first = judged(shell, RUBRIC, model(url), rubric_rows(2))
    if model.format == "systemone":
        assert {row["served_model"] for row in calls(shell)} == {"jev-1.13.0"}
    config, rows = shell.folder / "pipeline.yaml", shell.folder / "d.jsonl"
    before = decision_servers.get(url, "stats")["requests"]
    done = shell("run", config, rows, "--replay", "out", "--out", "again", "--yes")
    assert done.code == 0, done.err
    again = table(shell.folder / "again" / "results.parquet")
    assert [row["output.distribution"] for row in again] == [
        row["output.distribution"] for row in first
    ]
    assert decision_servers.get(url, "stats")["requests"] == before
