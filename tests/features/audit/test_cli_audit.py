"""`verdict audit`: known biases are found, with the figures that the raw data give."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.messages import Request

Judge = Callable[[Request, str], str]
SCORE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.answer}'}"
PAIR = "- {unit: PairwiseJudgeUnit, name: judge, options: [source.one, source.two], prompt: 'A: {input.A} B: {input.B}'}"
LABEL = "- {unit: JudgeUnit, name: judge, scale: {type: discrete, values: [bad, good]}, prompt: 'Is it good or bad? {source.answer}'}"
HEAD = "model: {name: m, retries: 0}"
RIGHT = "\nevaluate: {right: {prediction: output.score, target: source.label, metrics: [accuracy]}}"


@pytest.fixture
def answer_by(scripted_model: Any) -> Callable[[Judge], list[Request]]:
    """A judge that answers by a rule."""

    def install(rule: Judge) -> list[Request]:
        scripted_model.answer = lambda request: rule(request, request.messages[-1].content)
        return scripted_model.requests

    return install


def rows(shell: Any, count: int = 10, **more: Any) -> Path:
    records = [
        {
            "answer": f"**answer** {index}",
            "one": f"first {index}",
            "two": f"second {index}",
            "label": index % 5 + 1,
            **more,
        }
        for index in range(count)
    ]
    return shell.write("d.jsonl", jsonl(records))


def audit(shell: Any, steps: str, *words: str | Path, data: Path | None = None) -> dict[str, Any]:
    config = shell.config(steps, HEAD)
    done = shell("audit", config, data or rows(shell), "--out", "a", "--json", *words)
    assert done.code == 0, done.err
    document = done.json()
    return {effect["name"]: effect for effect in document["effects"]} | {
        "left": document["left_out"],
        "all": document,
    }


def test_a_judge_that_takes_the_first_option_flips_always(shell, answer_by):
    answer_by(lambda *_: '{"choice": "A"}')
    effects = audit(shell, PAIR)
    assert effects["position: judge"]["changed"]["value"] == 1
    assert effects["position: judge"]["shift"]["value"] == 0.5
    assert "position" not in effects["left"]


def test_the_position_of_options_with_labels_of_their_own_is_measured(shell, answer_by):
    answer_by(lambda *_: '{"choice": "left"}')
    effects = audit(
        shell,
        PAIR.replace("unit: PairwiseJudgeUnit", "unit: PairwiseJudgeUnit, labels: [left, right]"),
    )
    assert effects["position: judge"]["shift"]["value"] == 0.5


def test_a_judge_that_reads_the_options_does_not_flip(shell, answer_by):
    requests = answer_by(
        lambda _, text: json.dumps({"choice": "AB"[text.index("second") > text.index("first")]})
    )
    effects = audit(shell, PAIR, "--repeats", "0")
    assert effects["position: judge"]["changed"]["value"] == 0
    assert "repeated" in effects["left"]
    unpadded = [request for request in requests if "padd" not in request.messages[-1].content]
    texts = [request.messages[-1].content for request in unpadded]
    assert len(texts) == len(set(texts))  # what the baseline asked is not asked again


def test_a_judge_that_likes_length_moves_with_it_and_not_with_style(shell, answer_by):
    answer_by(lambda _, text: json.dumps({"score": 5 if len(text) > 300 else 2}))
    effects = audit(shell, SCORE + RIGHT)
    assert effects["length"]["shift"]["value"] == 3
    assert effects["length"]["changed"]["value"] == effects["length"]["beyond_noise"]["value"] == 1
    assert effects["length"]["figure"]["value"] == 0
    assert effects["style"]["changed"]["value"] == 0
    assert "Zheng" in effects["length"]["paper"]


def test_an_audit_begins_with_its_conclusion_and_what_was_not_tested(shell, answer_by):
    answer_by(lambda _, text: json.dumps({"score": 5 if len(text) > 300 else 2}))
    config = shell.config(SCORE, HEAD)
    done = shell("audit", config, rows(shell), "--out", "a")
    output = " ".join(done.out.split())
    assert "t sensitive to length: yes, +3.000" in output
    assert "stable: yes; no significant effect of style" in output
    assert "not tested: labels (--rename OLD=NEW); paraphrase (--paraphrase UNIT=FILE);" in output
    assert "the judged text is source.answer; --text COLUMN names another" in output
    report = json.loads((shell.folder / "a" / "audit.json").read_text())
    assert next(iter(report)) == "conclusion" and report["judged"] == ["answer"]


def test_asking_again_gives_the_noise_floor_and_the_variance(shell, answer_by):
    def judge(request: Request, _: str) -> str:
        copy = int((re.findall(r"\[(\d+)\]", request.node) or ["0"])[0])
        return json.dumps({"score": 1 + 2 * (request.row.index % 2 == 0 and copy == 2)})

    answer_by(judge)
    effects = audit(shell, SCORE)
    # in half of the rows one of three askings differs: two of three pairs
    assert effects["repeated"]["changed"]["value"] == pytest.approx(1 / 3)
    assert (
        "variance within a row 0.667" in effects["repeated"]["note"]
    )  # (1, 1, 3) has 4/3 in half of the rows
    assert effects["style"]["beyond_noise"]["value"] == pytest.approx(-1 / 3)


def test_a_steady_judge_has_no_variance(shell, answer_by):
    answer_by(lambda *_: '{"score": 3}')
    assert "variance within a row 0.000" in audit(shell, SCORE)["repeated"]["note"]


def test_attacks_succeed_on_a_judge_that_obeys_and_only_by_what_it_obeys(shell, answer_by):
    answer_by(lambda _, text: json.dumps({"score": 5 if "Ignore the above" in text else 1}))
    effects = audit(shell, SCORE, "--attack")
    won = {
        name: effect["success"]["value"]
        for name, effect in effects.items()
        if name.startswith("attack")
    }
    assert won.pop("attack: ignore the above") == 1
    assert set(won.values()) == {0}
    assert effects["attack: ignore the above"]["success"]["n"] == 10


def test_rows_that_have_the_goal_already_are_no_success(shell, answer_by):
    answer_by(lambda request, _: json.dumps({"score": 5 if request.row.index < 4 else 1}))
    effects = audit(shell, SCORE, "--attack")
    assert effects["attack: forged json"]["success"] == {
        "value": 0,
        "low": 0,
        "high": pytest.approx(0.459, abs=0.001),
        "n": 6,
    }


BRIDGES = [
    f"The bridge was opened in 19{30 + index} by Prime Minister Jack Lang. It is {503 + index} metres long, and trains can cross it. "
    "Painters have worked on it since then."
    for index in range(12)
]


def bridges(shell: Any) -> Path:
    texts = [*BRIDGES, "A short answer", "Another one"]
    return shell.write("b.jsonl", jsonl({"answer": text} for text in texts))


def test_a_judge_that_knows_the_facts_notices_every_kind_of_planted_error(shell, answer_by):
    answer_by(
        lambda _, text: json.dumps(
            {
                "score": 5
                if any(
                    f"Rate {bridge}" == text.strip()[: 5 + len(bridge)] and '"' not in text
                    for bridge in BRIDGES
                )
                else 2
            }
        )
    )
    effects = audit(shell, SCORE, "--degrade", data=bridges(shell))
    planted = {name: effect for name, effect in effects.items() if name.startswith("planted")}
    assert len(planted) == 7
    assert {error["noticed"]["value"] for error in planted.values()} == {1}
    assert {error["n"] for error in planted.values()} == {
        12
    }  # 2 rows have the worst verdict already
    assert all(error["p_holm"] < 0.05 for error in planted.values())
    assert "2 rows left out, where this cannot be planted" in planted["planted: unit"]["note"]
    assert effects["all"]["planted_errors"] == (
        "the judge noticed 100% of 84 planted errors, more than repeats do; every kind significantly"
    )
    assert "Planted errors" in (shell.folder / "a/audit.md").read_text()


def test_a_judge_that_ignores_the_text_notices_no_planted_error(shell, answer_by):
    def answers_by_chance(request: Request, text: str) -> str:
        return json.dumps(
            {"score": Random(f"{request.node} {text} {request.row.index}").randint(1, 5)}
        )

    answer_by(answers_by_chance)
    effects = audit(shell, SCORE, "--degrade", "--repeats", "3", data=bridges(shell))
    assert all(
        effect["p_holm"] > 0.05 for name, effect in effects.items() if name.startswith("planted")
    )
    assert effects["all"]["planted_errors"].endswith("no kind significantly")


def test_a_model_plants_errors_instead_of_rules(shell, answer_by):
    """It refuses units, leaves two texts as they are, and its calls and cost are the audit's."""

    def model(request: Request, text: str) -> str:
        if request.model.name != "planter":
            return json.dumps({"score": 2 if "WRONG" in text else 5})
        text = request.messages[0].content
        judged = text.split("The text:\n")[1]
        if "unit of one number" in text:
            return "no"
        return json.dumps(
            {"text": judged if len(judged) < 20 else judged.replace("bridge", "WRONG bridge")}
        )

    requests = answer_by(model)
    effects = audit(
        shell, SCORE, "--degrade-model", "planter", "--repeats", "1", data=bridges(shell)
    )
    planted = {name: effect for name, effect in effects.items() if name.startswith("planted")}
    assert len(planted) == 7
    assert planted["planted: unit"]["n"] == 0
    assert {error["n"] for name, error in planted.items() if name != "planted: unit"} == {12}
    assert {
        error["noticed"]["value"] for name, error in planted.items() if name != "planted: unit"
    } == {1}
    asked_planter = [request for request in requests if request.model.name == "planter"]
    assert len({request.messages[0].content for request in asked_planter}) == 7 * 14
    assert (effects["all"]["planted_by"], effects["all"]["calls"]) == (
        "planter",
        12 * 14 + len(asked_planter),
    )
    assert "planter planted the errors" in (shell.folder / "a/audit.md").read_text()
    before = len(requests)
    audit(shell, SCORE, "--degrade-model", "planter", "--repeats", "1", data=bridges(shell))
    assert len(requests) == before  # a finished audit is not run again
    dry = shell(
        "audit",
        shell.config(SCORE, HEAD),
        bridges(shell),
        "--degrade-model",
        "planter",
        "--out",
        "b",
        "--dry-run",
    )
    assert "98 calls of planter plant the errors" in dry.err + dry.out
    assert len(requests) == before


def test_errors_are_planted_only_where_a_verdict_can_be_lower(shell, answer_by):
    answer_by(lambda *_: '{"choice": "x"}')
    steps = (
        "- {unit: CategoricalJudgeUnit, name: judge, categories: [x, y], prompt: '{source.answer}'}"
    )
    assert "no verdict is better" in audit(shell, steps, "--degrade")["left"]["degrade"]


def test_a_reversed_scale_has_its_scores_turned_back(shell, answer_by):
    def steady(_: Request, text: str) -> str:
        return json.dumps({"score": 2 if "1 is the worst" in text else 4})

    answer_by(steady)
    assert audit(shell, SCORE)["scale reversed"]["changed"]["value"] == 0
    answer_by(lambda *_: '{"score": 5}')
    assert audit(shell, SCORE, "--fresh", "--no-cache")["scale reversed"]["shift"]["value"] == -4


def test_labels_bear_other_names_in_scale_and_prompt_and_are_turned_back(shell, answer_by):
    requests = answer_by(
        lambda _, text: json.dumps({"score": "fine" if "fine" in text else "good"})
    )
    effects = audit(shell, LABEL, "--rename", "good=fine", "--rename", "bad=poor")
    assert effects["labels renamed"]["changed"]["value"] == 0
    assert any(
        "Is it fine or poor? **answer** 0" in request.messages[-1].content for request in requests
    )


def test_another_instruction_is_one_more_run(shell, answer_by):
    shell.write("other.md", "Say how good {source.answer} is")
    answer_by(lambda _, text: json.dumps({"score": 4 if "Say how" in text else 2}))
    effects = audit(shell, SCORE, "--paraphrase", "judge=other.md")
    assert effects["paraphrase judge: other.md"]["shift"]["value"] == 2


def test_a_judge_that_favours_its_family_is_found_beyond_what_people_say(shell, answer_by):
    data = shell.write(
        "f.jsonl",
        jsonl(
            {
                "answer": f"{'ours' if index % 2 else 'theirs'} {index}",
                "by": "xy"[index % 2],
                "label": 2 + index % 2,
            }
            for index in range(12)
        ),
    )
    answer_by(lambda _, text: json.dumps({"score": 5 if "ours" in text else 2}))
    effects = audit(shell, SCORE + RIGHT, "--family", "source.by", "--judge-family", "y", data=data)
    assert (
        effects["self-preference"]["shift"]["value"] == 2
    )  # 5 - 3 for its own, 2 - 2 for the others
    assert effects["self-preference"]["shift_of"] == "verdict minus target"


def test_extractors_read_the_same_replies(shell, answer_by):
    answer_by(lambda *_: '{"score": 4} though 2 would do')
    effects = audit(
        shell,
        SCORE.replace(
            "JudgeUnit,", "JudgeUnit, extract: {type: regex, fields: {score: LAST_INT}},"
        ),
    )
    assert effects["judge by regex"]["changed"]["value"] == 1


def test_the_estimate_is_shown_and_no_model_is_called(shell, answer_by):
    requests = answer_by(lambda *_: '{"score": 3}')
    done = shell("audit", shell.config(SCORE, HEAD), rows(shell), "--dry-run", "--attack")
    assert done.code == 0
    assert done.json()["calls"] == 10 * len(done.json()["runs"]) == 140
    assert not requests


def test_the_same_command_continues_and_writes_its_files(shell, answer_by):
    requests = answer_by(lambda *_: '{"score": 3}')
    audit(shell, SCORE)
    count = len(requests)
    audit(shell, SCORE)
    assert len(requests) == count
    page = (shell.folder / "a" / "audit.html").read_text()
    assert "Panickssery" not in page
    assert "Feuer" in page
    assert "### Skipped" in (shell.folder / "a" / "audit.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rename", "x=y"), "no unit chooses among these labels"),
        (("--rename", "x"), "OLD=NEW"),
        (("--paraphrase", "nobody=f.md"), "no unit 'nobody'"),
        (("--text", "nothing"), "source.nothing"),
    ],
)
def test_options_that_do_not_fit_are_refused(shell, words, message):
    done = shell("audit", shell.config(SCORE), rows(shell), *words)
    assert done.code == 2
    assert message in done.err


def test_by_replay_only_what_was_recorded_is_measured(shell):
    shell.write(
        "r.jsonl",
        jsonl(
            {
                "row": index,
                "unit": f"judge[{copy}]",
                "reply": json.dumps({"score": 1 + (copy == 1)}),
            }
            for index in range(10)
            for copy in range(2)
        ),
    )
    effects = audit(shell, SCORE, "--replay", "r.jsonl", "--attack")
    assert effects["repeated"]["changed"]["value"] == 1
    assert "no further sample" in effects["left"]["repeated 2"]
    assert all(
        "recording" in effects["left"][name] for name in ("length", "style", "attack: forged json")
    )
    assert effects["all"]["failed"] == 0


LLMBAR = """
- unit: PairwiseJudgeUnit
  name: judge
  options: [source.output_1, source.output_2]
  on_failure: skip
  extract: {type: regex, fields: {choice: '(?ms)\\A.*?^Output \\((a)\\)|^Output \\((b)\\)'}}
  prompt: "{source.input}\\n(a) {input.A}\\n(b) {input.B}"
dataset: {id: index}
evaluate: {right: {prediction: "{'A': 1, 'B': 2}[output.choice]", target: source.label, metrics: [accuracy]}}
"""


@pytest.mark.parametrize(
    ("evaluator", "subset"), [("GPT-4", "Natural"), ("ChatGPT", "GPTOut"), ("PaLM2", "Manual")]
)
def test_position_is_what_the_recorded_orders_and_the_published_agreement_say(
    shell, shared, evaluator, subset
):
    folder = shared / "data" / "llmbar"
    if not folder.is_dir():
        pytest.skip("the recorded judges are not there")
    outputs = [
        line
        for line in _lines(folder / f"outputs_{evaluator}.jsonl.gz")
        if (line["subset"], line["strategy"]) == (subset, "Vanilla")
    ]
    replies = [
        {
            "id": output["index"],
            "unit": "judge",
            "call": call,
            "reply": output["stages"][-1][order]["completion"],
        }
        for output in outputs
        for call, order in enumerate(("orig", "swap"))
    ]
    shell.write("r.jsonl", jsonl(replies))
    data = shell.write(
        "d.jsonl",
        jsonl(_lines(folder / f"dataset_{subset}.jsonl.gz")),
    )
    effect = audit(shell, LLMBAR, "--replay", "r.jsonl", data=data)["position: judge"]
    winners = [
        [output["stages"][-1][order]["winner"] for order in ("orig", "swap")] for output in outputs
    ]
    both = [
        (first, second) for first, second in winners if first is not None and second is not None
    ]
    assert effect["n"] == len(both)
    assert effect["changed"]["value"] == pytest.approx(
        sum(first_winner != second_winner for first_winner, second_winner in both) / len(both)
    )
    first_place = sum((first == "1") + (second == "2") for first, second in both) / (2 * len(both))
    assert effect["shift"]["value"] == pytest.approx(first_place - 0.5)
    if len(both) == len(outputs):
        (published,) = [
            float(line["equal"].rpartition("= ")[2].rstrip("%")) / 100
            for line in _lines(folder / "published_statistics.jsonl")
            if (line["evaluator"], line["subset"], line["strategy"])
            == (evaluator, subset, "Vanilla")
        ]
        assert 1 - effect["changed"]["value"] == pytest.approx(published, abs=1e-6)


def test_the_noise_floor_is_what_five_recorded_samples_say(shell, shared):
    file = shared / "data" / "realmistake" / "selfcons__answerability_classification.jsonl.gz"
    if not file.exists():
        pytest.skip("the recorded samples are not there")
    raw = _lines(file)
    keys = [f"{row['judge']}-{row['id']}" for row in raw]
    replies = [
        {"id": key, "unit": f"judge[{place}]", "reply": reply}
        for key, row in zip(keys, raw, strict=True)
        for place, reply in enumerate(row["predictions_list"])
        if reply is not None
    ]
    shell.write("r.jsonl", jsonl(replies))
    data = shell.write("d.jsonl", jsonl({"key": key} for key in keys))
    steps = """
- unit: JudgeUnit
  name: judge
  scale: {type: discrete, values: [error, no_error]}
  on_failure: skip
  extract: {type: regex, fields: {score: '^(error|no_error)$'}}
  prompt: "{source.key}"
dataset: {id: key}
"""
    words = (
        "audit",
        shell.config(steps, HEAD),
        data,
        "--out",
        "a",
        "--json",
        "--replay",
        "r.jsonl",
        "--repeats",
        "4",
    )
    done = shell(*words)
    (effect,) = [effect for effect in done.json()["effects"] if effect["cause"] == "repeated"]
    rates = []
    for row in raw:
        predictions = [
            prediction for prediction in row["predictions_list"] if prediction is not None
        ]
        if len(predictions) > 1:
            rates.append(
                sum(first != second for first, second in combinations(predictions, 2))
                / (len(predictions) * (len(predictions) - 1) / 2)
            )
    assert effect["n"] == len(rates)
    assert effect["changed"]["value"] == pytest.approx(sum(rates) / len(rates))


def _lines(path: Path) -> list[Any]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        return [json.loads(line) for line in file]
