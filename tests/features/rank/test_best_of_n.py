"""`verdict rank DATASET --prompt --correct`: the accuracy of the candidate that is chosen among n."""

from __future__ import annotations

import json
import re
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import jsonl

from verdict_cli.features.rank.best_of_n import best_of

SCORE = "- {unit: JudgeUnit, prompt: 'Rate {source.answer} to {source.question}'}"
PAIR = """
- unit: PairwiseJudgeUnit
  options: [source.one, source.two]
  prompt: "{source.question}\\nA: {input.A}\\nB: {input.B}"
"""
HEAD = "model: {name: m, retries: 0}"
WORDS = ("--prompt", "source.question", "--correct", "source.right", "--json")


@given(
    st.lists(
        st.tuples(st.sampled_from([None, 1.0, 2.0, 3.0]), st.booleans()), min_size=1, max_size=5
    ),
    st.data(),
)
def test_the_best_of_n_is_the_mean_over_all_choices_of_n(candidates, data):
    n = data.draw(st.integers(1, len(candidates)))
    hits = []
    for subset in combinations(candidates, n):
        for order in permutations(subset):
            value, right = max(
                order, key=lambda candidate: -1.0 if candidate[0] is None else candidate[0]
            )
            hits.append(value is not None and right)
    values, correct = zip(*candidates, strict=True)
    assert best_of(values, correct, n) == pytest.approx(sum(hits) / len(hits))


def rows(shell: Any, prompts: int = 6, candidates: int = 3) -> str:
    lines = [
        {"question": f"q{prompt}", "answer": f"value {place}", "right": place == candidates - 1}
        for prompt in range(prompts)
        for place in range(candidates)
    ]
    return str(shell.write("d.jsonl", jsonl(lines)))


def number(text: str) -> list[int]:
    return [int(number_text) for number_text in re.findall(r"value (\d+)", text)]


def test_a_judge_that_knows_the_best_is_right_where_a_right_one_is_there(shell, scripted_model):
    scripted_model.answer = lambda request: json.dumps(
        {"score": number(request.messages[-1].content)[0] + 1}
    )
    document = shell("rank", shell.config(SCORE, HEAD), rows(shell), *WORDS).json()
    points = document["best_of_n"]
    assert [point["n"] for point in points] == [1, 2, 3]
    expected = pytest.approx([1 / 3, 2 / 3, 1])
    assert [point["accuracy"]["value"] for point in points] == expected
    assert [point["possible"] for point in points] == expected
    assert (document["judgements"], document["calls"], points[0]["prompts"]) == (18, 18, 6)


def test_a_judge_that_scores_all_alike_gains_nothing(shell, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"score": 3})
    document = shell("rank", shell.config(SCORE, HEAD), rows(shell), *WORDS).json()
    assert [point["accuracy"]["value"] for point in document["best_of_n"]] == pytest.approx(
        [1 / 3] * 3
    )


def test_a_reply_that_cannot_be_read_is_never_a_right_choice(shell, scripted_model):
    scripted_model.answer = lambda _: "mud"
    done = shell("rank", shell.config(SCORE, HEAD), rows(shell), *WORDS)
    document = done.json()
    assert (done.code, document["failed"]) == (3, 18)
    assert [point["accuracy"]["value"] for point in document["best_of_n"]] == [0, 0, 0]


def test_a_judge_of_pairs_holds_a_tournament_for_each_prompt(shell, scripted_model):
    def answer(request: Any) -> str:
        numbers = number(request.messages[-1].content)
        return json.dumps({"choice": "AB"[numbers.index(max(numbers))]})

    scripted_model.answer = answer
    done = shell("rank", shell.config(PAIR, HEAD), rows(shell), "--field", "answer", *WORDS)
    document = done.json()
    assert (document["kind"], document["judgements"]) == ("pairs", 6 * 3 * 2)
    assert document["best_of_n"][-1]["accuracy"]["value"] == 1


@pytest.mark.parametrize(
    ("line", "words", "message"),
    [
        ({"question": "q", "answer": "a", "right": "yes"}, WORDS, "--correct 'yes'"),
        ({"question": "alone", "answer": "a", "right": True}, WORDS, "has one candidate"),
        ({"question": "q", "answer": "a", "right": True}, WORDS[:2], "need each other"),
        ({"question": "q", "answer": "a", "right": True}, (*WORDS, "--row", "{}"), "remove --row"),
    ],
)
def test_what_cannot_be_chosen_from_is_reported_before_a_call(
    shell, scripted_model, line, words, message
):
    data = shell.write("d.jsonl", json.dumps(line) + "\n")
    done = shell("rank", shell.config(SCORE, HEAD), str(data), *words)
    assert done.code == 2 and message in " ".join(done.err.split())
    assert not scripted_model.requests
