"""`verdict sweep`: variants side by side, shared replies, resuming, and what is refused beforehand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.features.sweep.compare_variants import short_labels
from verdict_cli.messages import Reply, Request, Usage

STEPS = """
- layer:
    - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is {source.text} good?"}
  repeat: 1
- {unit: ModePoolUnit, name: vote, field: score}
evaluate:
  right: {prediction: output.score, target: source.good, metrics: [accuracy, f1]}
"""
PRICED = "model: {name: m, retries: 0, cost: {input_per_million: 1000000, output_per_million: 0}}"
REPEAT = "pipeline[0].repeat=1,3,5"


@pytest.fixture
def requests(scripted_model: Any) -> list[Request]:
    """A model that is right the more often the later its copy comes; a dollar a call, three tenths of a second."""

    def answer(request: Request) -> Reply:
        copy = int((re.findall(r"\[(\d+)\]", request.node) or ["0"])[0])
        row = request.row.index
        right = row % 5 != copy
        return Reply(
            json.dumps({"score": right == (row % 2 == 0)}),
            usage=Usage(1, 0),
            cost_usd=1.0,
            model="m",
            latency_s=0.3,
        )

    scripted_model.answer = answer
    return scripted_model.requests


def rows(shell: Any, count: int = 20) -> Path:
    return shell.write(
        "d.jsonl",
        jsonl({"text": f"text {index}", "good": index % 2 == 0} for index in range(count)),
    )


def test_variants_share_replies_and_are_priced_by_themselves(shell, requests):
    done = shell(
        "sweep", shell.config(STEPS, PRICED), rows(shell), "--vary", REPEAT, "--out", "s", "--json"
    )
    document = done.json()
    assert done.code == 0, done.err
    assert len(requests) == 100  # the five copies of 20 rows, each once
    assert [variant["calls"] for variant in document["variants"]] == [20, 60, 100]
    assert [variant["cost_usd"] for variant in document["variants"]] == [20, 60, 100]
    assert [variant["paid_usd"] for variant in document["variants"]] == [20, 40, 40]
    assert [variant["cached"] for variant in document["variants"]] == [0, 20, 60]
    assert [variant["figure"]["value"] for variant in document["variants"]] == [0.8, 1.0, 1.0]
    assert document["metric"] == "right.accuracy"
    assert document["frontier_against"] == "cost"
    assert document["frontier"] == ["repeat=1", "repeat=3"]


def test_differences_are_those_of_compare_with_holm_over_all_variants(shell, requests):
    done = shell(
        "sweep", shell.config(STEPS, PRICED), rows(shell), "--vary", REPEAT, "--out", "s", "--json"
    )
    first, *others = done.json()["variants"]
    assert first["difference"] is None
    for variant in others:
        comparison = shell("compare", first["run"], variant["run"], "--json").json()["evaluations"][
            "right"
        ]
        difference = comparison["figures"]["accuracy"]["differences"]["b"]
        assert variant["difference"]["value"] == pytest.approx(difference["difference"])
        assert (
            variant["difference"]["low"]
            <= difference["low"]
            <= difference["high"]
            <= variant["difference"]["high"]
        )
        assert variant["p"] == pytest.approx(comparison["test"]["p"])
    ps = sorted(variant["p"] for variant in others)
    assert min(variant["p_holm"] for variant in others) == pytest.approx(min(1.0, 2 * ps[0]))


def test_the_same_command_continues_and_a_larger_grid_keeps_what_is_there(shell, requests):
    config, data = shell.config(STEPS, PRICED), rows(shell)
    words = ("sweep", config, data, "--out", "s", "--json", "--no-cache")
    stopped = shell(*words, "--vary", REPEAT, "--budget", "30", "--concurrency", "1")
    assert stopped.code == 3
    assert "the same command" in stopped.err
    assert len(requests) == 30
    assert shell(*words, "--vary", REPEAT).code == 0
    assert len(requests) == 100
    assert shell(*words, "--vary", REPEAT).code == 0
    assert shell(*words, "--vary", "pipeline[0].repeat=1,2,3,5").code == 0
    assert len(requests) == 100


def test_the_budget_is_of_the_whole_sweep_over_finished_variants_too(shell, requests):
    words = ("sweep", shell.config(STEPS, PRICED), rows(shell), "--out", "s", "--vary", REPEAT)
    shell(*words, "--budget", "30", "--concurrency", "1")
    again = shell(*words, "--budget", "30", "--concurrency", "1")
    assert again.code == 3
    assert len(requests) == 30


def test_a_step_is_left_out(shell):
    steps = "- {unit: CoTUnit, prompt: 'Think of {source.text}'}" + STEPS.replace("pool:", "pool:")
    done = shell(
        "sweep",
        shell.config(steps),
        rows(shell, 4),
        "--out",
        "s",
        "--vary",
        "pipeline[0]=off,on",
        "--json",
    )
    assert [variant["calls"] for variant in done.json()["variants"]] == [4, 8]
    assert done.json()["frontier_against"] == "calls"


def test_a_path_that_leads_nowhere_names_its_variant(shell):
    done = shell(
        "sweep", shell.config(STEPS), rows(shell), "--out", "s", "--vary", "pipeline[9].repeat=1,2"
    )
    assert done.code == 2
    assert "variant repeat=1" in done.err


def test_every_wrong_variant_is_reported_before_any_is_run(shell, requests):
    vary = "pipeline[0].repeat=1,0,x"
    done = shell("sweep", shell.config(STEPS, PRICED), rows(shell), "--out", "s", "--vary", vary)
    assert done.code == 2
    assert "variant repeat=0" in done.err
    assert "variant repeat=x" in done.err
    assert not requests
    assert not (shell.folder / "s").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metric", "wrong.accuracy"), "no evaluation 'wrong'"),
        (("--metric", "right.acuracy"), "accuracy"),
        (("--model", "x", "--vary", "model=a,b"), "--model"),
    ],
)
def test_what_cannot_be_measured_is_refused(shell, words, message):
    done = shell("sweep", shell.config(STEPS), rows(shell), "--vary", REPEAT, "--out", "s", *words)
    assert done.code == 2
    assert message in done.err


def test_a_pipeline_without_evaluations_has_nothing_to_sweep(shell):
    config = shell.config(STEPS.partition("evaluate")[0])
    done = shell("sweep", config, rows(shell), "--vary", REPEAT, "--out", "s")
    assert done.code == 2
    assert "no `evaluate`" in done.err


def test_the_page_has_the_frontier_and_the_runs(shell):
    done = shell(
        "sweep", shell.config(STEPS), rows(shell), "--vary", REPEAT, "--out", "s", "--metric", "f1"
    )
    assert done.code == 0
    page = (shell.folder / "s" / "sweep.html").read_text()
    assert "Frontier" in page
    assert "./variants/repeat%3D3/report.html" in page
    assert "right.f1" in done.out
    assert all(f"repeat={count} " in done.out for count in (1, 3, 5))
    assert max(map(len, done.out.splitlines())) <= 80
    table = (shell.folder / "s" / "sweep.md").read_text()
    assert table.count("<code>repeat=") == 5
    assert "is a baseline, not an LLM judge" in table


def test_a_recording_of_one_copy_answers_the_first_of_several(shell):
    shell.write(
        "r.jsonl",
        jsonl({"row": index, "unit": "judge", "reply": '{"score": true}'} for index in range(4)),
    )
    steps = STEPS.replace("scale: boolean", "scale: boolean, on_failure: skip")
    done = shell(
        "sweep", shell.config(steps), rows(shell, 4), "--vary", "pipeline[0].repeat=1,2",
        "--replay", "r.jsonl", "--out", "s", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert [variant["figure"]["value"] for variant in done.json()["variants"]] == [0.5, 0.5]


ONE = "- {unit: JudgeUnit, name: judge, scale: boolean, prompt: 'Is {source.text} good?'}\nevaluate: {right: {prediction: output.score, target: source.good, metrics: [accuracy]}}"


def test_variants_that_differ_in_one_row_are_no_evidence(shell, scripted_model):
    """A sweep whose variants differ in one row's number ended with an internal error after its last call."""
    scripted_model.answer = lambda request: json.dumps(
        {
            "score": (request.row.index % 2 == 0)
            != (request.model.name == "b" and request.row.index == 7)
        }
    )
    done = shell(
        "sweep", shell.config(ONE), rows(shell), "--vary", "model=a,b", "--out", "s", "--json"
    )
    assert done.code == 0, done.err
    assert [variant["p"] for variant in done.json()["variants"]] == [None, 1]
    assert (
        done.json()["conclusion"]
        == "no variant is significantly better than model=a on right.accuracy"
    )


def test_the_conclusion_names_the_best_variant_and_the_significantly_worse_ones(
    shell, scripted_model
):
    wrong = {"a": 8, "b": 0, "c": 19}
    scripted_model.answer = lambda request: json.dumps(
        {"score": (request.row.index % 2 == 0) != (request.row.index < wrong[request.model.name])}
    )
    done = shell(
        "sweep", shell.config(ONE), rows(shell), "--vary", "model=a,b,c", "--out", "s", "--json"
    )
    variant = done.json()["variants"][1]
    ends = f"[{variant['difference']['low']:.3f}, {variant['difference']['high']:.3f}]"
    assert done.json()["conclusion"] == (
        f"best: model=b, better than model=a on right.accuracy: +0.400 {ends}, p = {variant['p_holm']:.2g} "
        "(paired permutation test, adjusted); significantly worse: model=c"
    )
    page = (shell.folder / "s" / "sweep.html").read_text()
    assert '"labels":["b","c"]' in page and '"label"' not in page
    assert '<p class="conclusion">best: model=b' in page


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["repeat=1", "repeat=3"], ["1", "3"]),
        (["model=m repeat=1 until=x", "model=m repeat=3 until=x"], ["1", "3"]),
        (
            ["model=a k=1", "model=b k=1", "model=a k=2"],
            ["model=a k=1", "model=b k=1", "model=a k=2"],
        ),
        (["a b", "a"], ["a b", "a"]),
        (["one"], ["one"]),
    ],
)
def test_labels_of_variants_leave_out_what_they_share(names, labels):
    assert short_labels(names) == labels


def test_the_best_of_equal_variants_has_a_wider_interval_and_a_probability(shell, scripted_model):
    """The best variant had the interval of a single one: nothing told that it was chosen."""

    def often_right(request: Request) -> str:
        right = Random(f"{request.model.name} {request.row.index}").random() < 0.8
        return json.dumps({"score": (request.row.index % 2 == 0) == right})

    scripted_model.answer = often_right
    words = ("--vary", "model=a,b,c,d,e,f", "--against", "calls", "--out", "s")
    document = shell("sweep", shell.config(ONE), rows(shell, 60), *words, "--json").json()
    variants = {variant["name"]: variant for variant in document["variants"]}
    best, chosen = document["best"], variants[document["best"]["name"]]
    assert (
        chosen["figure"]["value"]
        == max(variant["figure"]["value"] for variant in variants.values())
        == best["value"]
    )
    assert best["low"] < chosen["figure"]["low"] < chosen["figure"]["high"] < best["high"]
    assert sum(variant["p_best"] for variant in variants.values()) == pytest.approx(1)
    assert 1 / 6 <= chosen["p_best"] < 0.95
    others = [variant for variant in variants.values() if not variant["frontier"]]
    assert others
    assert all(set(variant["like_frontier"]) <= set(document["frontier"]) for variant in others)
    assert any(variant["like_frontier"] for variant in others)
    text = (shell.folder / "s" / "sweep.md").read_text()
    assert "(chosen from all)" in text
    assert "not distinguishable from a variant on the frontier" in text
    narrow = shell(
        "sweep", shell.config(ONE), rows(shell, 60), *words, "--level", "0.8", "--json"
    ).json()
    assert (narrow["level"], narrow["best"]["low"] > best["low"]) == (0.8, True)


def test_without_the_cache_a_variant_finds_replies_in_the_databases_of_the_others(shell, requests):
    config, data = shell.config(STEPS, PRICED), rows(shell)
    words = ("sweep", config, data, "--out", "s", "--json", "--no-cache")
    shell(*words, "--vary", "pipeline[0].repeat=1,3")
    assert len(requests) == 60
    assert not list((shell.folder / "s").glob("*.sqlite3"))
    variants_run = shell(*words, "--vary", "pipeline[0].repeat=5,3").json()["variants"]
    assert len(requests) == 100  # of the new variant, the replies of copies 3 and 4 alone
    assert [variant["calls"] for variant in variants_run] == [100, 60]


def test_fresh_variants_do_not_look_at_what_they_replace(shell, requests):
    config, data = shell.config(STEPS, PRICED), rows(shell)
    words = ("sweep", config, data, "--out", "s", "--json", "--no-cache")
    shell(*words, "--vary", "pipeline[0].repeat=1,3")
    shell(*words, "--vary", "pipeline[0].repeat=1,3", "--fresh")
    assert len(requests) == 120


def test_the_data_are_checked_for_every_variants_evaluation(shell, requests):
    done = shell(
        "sweep", shell.config(STEPS, PRICED), rows(shell), "--out", "s",
        "--vary", "evaluate.right.target=source.good,source.goood",
    )  # fmt: skip
    assert done.code == 2
    assert "goood" in done.err
    assert not requests
