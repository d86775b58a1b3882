"""`verdict rank`: scores, pairs, groups; what it states beforehand, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.messages import Request

SCORE = "- {unit: JudgeUnit, prompt: 'Rate {source.answer} to {source.question}'}"
PAIR = """
- unit: PairwiseJudgeUnit
  options: [source.one, source.two]
  prompt: "{source.question}\\nA: {input.A}\\nB: {input.B}"
"""
GROUP = """
- unit: BestOfKJudgeUnit
  k: 3
  options: ["source.answers[0]", "source.answers[1]", "source.answers[2]"]
  prompt: "A: {input.A}\\nB: {input.B}\\nC: {input.C}"
"""
HEAD = "model: {name: m, retries: 0}"
ASKED = '{"question": "why?"}'


@pytest.fixture
def model(scripted_model: Any) -> Callable[[Callable[[list[int]], str]], list[Request]]:
    """A model that is shown texts such as `value 7` and answers by their numbers."""

    def install(rule: Callable[[list[int]], str]) -> list[Request]:
        def answer(request: Request) -> str:
            return rule(
                [int(number) for number in re.findall(r"value (\d+)", request.messages[-1].content)]
            )

        scripted_model.answer = answer
        return scripted_model.requests

    return install


def best(numbers: list[int]) -> str:
    return json.dumps({"choice": "ABC"[numbers.index(max(numbers))]})


def values(shell: Any, numbers: list[int], name: str = "c.jsonl") -> Path:
    return shell.write(name, "".join(f'"value {number}"\n' for number in numbers))


def test_a_scoring_judge_scores_each_candidate(shell, model):
    model(lambda numbers: json.dumps({"score": numbers[0]}))
    done = shell(
        "rank", shell.config(SCORE, HEAD), values(shell, [2, 5, 1, 5]), "--row", ASKED, "--json"
    )
    document = done.json()
    assert (done.code, document["kind"], document["best"], document["judgements"]) == (
        0,
        "scores",
        {"index": 1, "candidate": "1"},
        4,
    )
    ranking = [
        (candidate["index"], candidate["score"]["value"]) for candidate in document["ranking"]
    ]
    assert ranking == [(1, 5.0), (3, 5.0), (0, 2.0), (2, 1.0)]
    assert [candidate["rank"] for candidate in document["ranking"]] == [
        [1, 4]
    ] * 4  # one sample each
    assert "4 candidates scored: at most 4 judgements, 4 model calls" in done.err


def test_several_samples_give_intervals(shell, model):
    count = iter(range(100))
    model(lambda numbers: json.dumps({"score": numbers[0] + next(count) % 2}))
    config, file = shell.config(SCORE, HEAD), values(shell, [1, 4])
    ranking = shell("rank", config, file, "--row", ASKED, "--samples", "8", "--json").json()[
        "ranking"
    ]
    assert [candidate["index"] for candidate in ranking] == [1, 0]
    scores = [candidate["score"] for candidate in ranking]
    assert all(score["low"] < score["value"] < score["high"] for score in scores)
    assert [candidate["rank"] for candidate in ranking] == [[1, 1], [2, 2]]


def test_pairs_are_in_both_orders_and_the_strongest_comes_first(shell, model):
    requests = model(best)
    numbers = [3, 9, 1, 7, 5]
    done = shell("rank", shell.config(PAIR, HEAD), values(shell, numbers), "--row", ASKED, "--json")
    document = done.json()
    assert [numbers[candidate["index"]] for candidate in document["ranking"]] == [9, 7, 5, 3, 1]
    assert [candidate["wins"] for candidate in document["ranking"]] == [4, 3, 2, 1, 0]
    assert (document["judgements"], len(requests)) == (20, 20)
    assert document["consistency"] == {
        "pairs": 10, "ties": 0, "pairs_in_both_orders": 10, "flips": 0, "triples": 10, "intransitive": 0,
        "first_place_wins": 10, "decided": 20,
    }  # fmt: skip
    assert "all pairs, 10 pairs in both orders: at most 20 judgements, 20 model calls" in done.err


def test_a_judge_that_always_takes_the_first_place_is_detected(shell, model):
    model(lambda _: '{"choice": "A"}')
    done = shell(
        "rank", shell.config(PAIR, HEAD), values(shell, [1, 2, 3]), "--row", ASKED, "--json"
    )
    consistency = done.json()["consistency"]
    assert (
        consistency["flips"],
        consistency["ties"],
        consistency["first_place_wins"],
        consistency["decided"],
    ) == (
        3,
        3,
        6,
        6,
    )
    assert [candidate["rank"] for candidate in done.json()["ranking"]] == [[1, 3]] * 3
    text = shell("rank", shell.config(PAIR, HEAD), values(shell, [1, 2, 3]), "--row", ASKED).out
    assert "3 of 3 candidates may be first: 0, 1, 2" in " ".join(text.split())
    assert "order: 3 of 3 pairs changed with it" in text


def test_circles_are_reported(shell, model):
    beats = {(1, 2), (2, 3), (3, 1)}
    model(lambda numbers: json.dumps({"choice": "A" if tuple(numbers) in beats else "B"}))
    done = shell(
        "rank", shell.config(PAIR, HEAD), values(shell, [1, 2, 3]), "--row", ASKED, "--json"
    )
    assert (done.json()["consistency"]["triples"], done.json()["consistency"]["intransitive"]) == (
        1,
        1,
    )


def test_many_candidates_meet_in_swiss_rounds_of_a_stated_number(shell, model):
    requests = model(best)
    done = shell(
        "rank", shell.config(PAIR, HEAD), values(shell, list(range(20))), "--row", ASKED, "--json"
    )
    document = done.json()
    assert (
        "a Swiss tournament of 7 rounds, 70 pairs in both orders: at most 140 judgements"
        in done.err
    )
    assert document["best"]["index"] == 19 and len(requests) == document["judgements"] <= 140
    again = shell(
        "rank",
        shell.config(PAIR, HEAD),
        values(shell, list(range(20))),
        "--row",
        ASKED,
        "--json",
        "--no-cache",
    )
    assert again.json()["ranking"] == document["ranking"]


def test_a_judge_of_groups_gets_groups(shell, model):
    requests = model(best)
    done = shell(
        "rank",
        shell.config(GROUP, HEAD),
        values(shell, [4, 1, 8, 2, 6, 3, 5]),
        "--json",
        "--rounds",
        "5",
    )
    document = done.json()
    assert (document["kind"], document["best"]["index"], len(requests)) == ("groups", 2, 15)
    assert sum(document["consistency"]["wins_by_place"]) == document["consistency"]["groups"] == 15
    few = shell("rank", shell.config(GROUP, HEAD), values(shell, [4, 1]))
    assert (few.code, "the judge chooses among 3, but there are 2 candidates" in few.err) == (
        2,
        True,
    )


def test_objects_texts_and_files_are_candidates(shell, model):
    model(lambda numbers: json.dumps({"score": numbers[0]}))
    config = shell.config(SCORE, HEAD)
    objects = shell.write(
        "o.json", json.dumps([{"id": f"c{n}", "answer": f"value {n}"} for n in (2, 4)])
    )
    document = shell("rank", config, objects, "--row", ASKED, "--json").json()
    assert document["best"]["candidate"] == "c4"
    texts = [shell.write(f"{name}.txt", f"value {n}\n") for name, n in (("low", 1), ("high", 3))]
    assert (
        shell("rank", config, *texts, "--row", ASKED, "--json").json()["best"]["candidate"]
        == "high"
    )
    with_columns = shell(
        "rank", shell.config(PAIR, HEAD), objects, "--row", ASKED, "--as", "one,two", "--json"
    )
    assert with_columns.code in (0, 3)


def test_a_failed_candidate_has_no_rank_and_is_reported(shell, model):
    model(lambda numbers: "mud" if numbers[0] == 2 else json.dumps({"score": numbers[0]}))
    done = shell("rank", shell.config(SCORE, HEAD), values(shell, [2, 5]), "--row", ASKED, "--json")
    last = done.json()["ranking"][-1]
    assert (done.code, last["index"], last["rank"], last["score"]["value"], last["failed"]) == (
        3,
        0,
        None,
        None,
        1,
    )


@pytest.mark.parametrize(
    ("steps", "content", "options", "message"),
    [
        (SCORE, '"a"\n', (), "1 candidate: a ranking needs at least 2"),
        (SCORE, '"a"\n"b"\n', (), "which column takes the candidate?"),
        (SCORE, '"a"\n3\n', ("--row", ASKED), "candidate 1 is 3"),
        (SCORE, '"a"\n"b\n', ("--row", ASKED), "c.jsonl:2:"),
        (SCORE, '"a"\n"b"\n', ("--row", ASKED, "--rounds", "2"), "need a judge that compares"),
        (PAIR, '"a"\n"b"\n', ("--row", ASKED, "--samples", "2"), "need a judge that scores"),
        (PAIR, '{"x": "a", "y": "b"}\n{"x": "c", "y": "d"}\n', ("--row", ASKED), "--field response"),
        (PAIR, '"a"\n"b"\n', ("--row", "[]"), "--row: a row must be an object"),
        (PAIR.replace("source.one", "source.one ~ '!'"), '"a"\n"b"\n', ("--row", ASKED), "--as response_A,response_B"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_reported(shell, steps, content, options, message):
    done = shell("rank", shell.config(steps), shell.write("c.jsonl", content), *options)
    assert (done.code, message in done.err) == (2, True), done.err
