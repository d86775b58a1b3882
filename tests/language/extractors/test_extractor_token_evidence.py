"""Evidence of token scores, against an oracle that was written from the language's page (A2) and shares no code with it."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.errors import ReplyError, SpecError
from verdict_cli.language.extractors.token_probability import (
    TokenProbabilityExtractor,
    distribution,
    sequence_distribution,
)
from verdict_cli.language.fields.types import TEXT, RecordType, ScaleType
from verdict_cli.language.load import load
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.discrete import LIKERT, Categories, DiscreteScale
from verdict_cli.messages import Alternative, Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.build import build_plan
from verdict_cli.storage.tables.reader import read_table

Positions = list[list[tuple[str, float]]]
REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())


def reply(positions: Positions) -> Reply:
    """A reply whose first alternative at each position was drawn; the numbers are probabilities."""
    return Reply(
        "".join(position[0][0] for position in positions),
        logprobs=tuple(
            tuple(Alternative(token, math.log(p) if p else -math.inf) for token, p in position)
            for position in positions
        ),
    )


# The oracle for replies of one token a value.

VALUES: dict[str, tuple[Scale, dict[str, Any]]] = {
    "likert": (LIKERT, {str(number): number for number in range(1, 6)}),
    "letters": (Categories(values=("A", "B", "C")), {"a": "A", "b": "B", "c": "C"}),
    "boolean": (BooleanScale(), {"yes": True, "true": True, "no": False, "false": False}),
    "words": (DiscreteScale(["unsafe", "safe"]), {"unsafe": "unsafe", "safe": "safe"}),
}
AROUND = " \n\t\"'`*_"


def oracle(positions: Positions, values: dict[str, Any], after: str, least: float) -> Any:
    """(distribution, mass), `unreadable` or `low-mass`, by the words of A2."""
    text = "".join(position[0][0] for position in positions)
    begin = 0
    if after:
        if after not in text:
            return "unreadable"
        begin = text.rindex(after) + len(after)
    core = text[begin:].strip(AROUND)
    core = core.removesuffix(".").strip(AROUND)  # a final period
    if core.lower() not in values:
        return "unreadable"
    place = text.index(core, begin)
    start = 0
    for position in positions:
        if start <= place < start + len(position[0][0]):
            break
        start += len(position[0][0])
    mass = dict.fromkeys(values.values(), 0.0)
    for token, p in position:
        if token.strip().lower() in values:
            mass[values[token.strip().lower()]] += p
    total = sum(mass.values())
    if total < least:
        return "low-mass"
    return {value: p / total for value, p in mass.items()}, total


FRAMES = [
    ["V"], [" V"], ["V", "."], ["**", "V", "**"], ['"', "V", '"'], ["_", "V", "_", "\n"], [" V", "."], ["\n", "V", "\n"], ["`", "V", "`", "."],
    ["The", " score", " is", " V"], ["V", " closer", " look", " shows", " that", " V", " is", " better", "."], ["V", "V"], ["V", "/", "5"],
    ["V", ".", "."], ["V", " or", " V"], ["(", "V", ")"], ["Because", ".", " Score:", " V"], ["Score:", " V", ".", " Score:", " **", "V", "**"],
]  # fmt: skip


def drawn(seed: int) -> tuple[Scale, dict[str, Any], Positions, str, float]:
    """A scale, and a reply in one of many forms with probabilities of any size on the scale."""
    draw = random.Random(seed)
    scale, values = VALUES[draw.choice(list(VALUES))]
    frame = FRAMES[seed % len(FRAMES)]
    share = draw.choice([1e-5, 0.2, 0.55, 0.9, 0.99])
    positions: Positions = []
    for piece in frame:
        if "V" not in piece:
            positions.append([(piece, 0.9), (draw.choice(list(values)), 0.05)])
            continue
        words = draw.sample(list(values), draw.randint(1, len(values)))
        weights = [draw.random() + 0.01 for _ in words]
        tokens = [(piece.replace("V", word), share * weight / sum(weights)) for word, weight in zip(words, weights, strict=True)]  # fmt: skip
        positions.append(
            [*tokens, (" " + words[0].upper(), share / 100), ("The", 0.001), ("42", 0.001)]
        )
    return (
        scale,
        values,
        positions,
        draw.choice(["", "", "Score:"]),
        draw.choice([0.0, 0.5, 0.5, 0.9]),
    )


def test_200_drawn_replies_agree_with_the_oracle():
    kinds: dict[str, int] = {}
    for seed in range(200):
        scale, values, positions, after, least = drawn(seed)
        expected = oracle(positions, values, after, least)
        extractor = TokenProbabilityExtractor(after=after or None, min_mass=least)
        reading = extractor.bind(RecordType({"score": ScaleType(scale)}))
        try:
            output = reading.read(reply(positions), REQUEST)
        except ReplyError as error:
            assert error.failure == expected, (seed, positions)
        else:
            assert not isinstance(expected, str), (seed, positions, expected)
            assert output["distribution"] == pytest.approx(expected[0]), (seed, positions)
            assert output["mass"] == pytest.approx(min(1, expected[1]))
        kinds[expected if isinstance(expected, str) else "read"] = kinds.get(expected if isinstance(expected, str) else "read", 0) + 1  # fmt: skip
    assert set(kinds) == {"read", "unreadable", "low-mass"}
    assert min(kinds.values()) >= 20, kinds


@pytest.mark.parametrize(
    ("tokens", "scale", "value"),
    [
        (["**", "2", "**"], LIKERT, 2),
        (['"', "4", '"'], LIKERT, 4),
        ([" B", "."], Categories(values=("A", "B")), "B"),
        (["The", " score", " is", " 4"], LIKERT, "unreadable"),
        (
            ["A", " closer", " look", " shows", " that", " B", " is", " better"],
            Categories(values=("A", "B")),
            "unreadable",
        ),
        (["42"], LIKERT, "unreadable"),
    ],
)
def test_the_replies_that_the_language_names(tokens, scale, value):
    read = TokenProbabilityExtractor().bind(RecordType({"score": ScaleType(scale)})).read
    positions: Positions = [[(token, 0.9), ("1", 0.02), ("A", 0.02)] for token in tokens]
    if value == "unreadable":
        with pytest.raises(ReplyError) as caught:
            read(reply(positions), REQUEST)
        assert caught.value.failure == "unreadable"
    else:
        distribution_read = read(reply(positions), REQUEST)["distribution"]
        assert max(distribution_read, key=distribution_read.__getitem__) == value


def test_a_position_with_1e_5_on_the_scale_is_unreadable():
    read = TokenProbabilityExtractor().bind(RecordType({"score": ScaleType(LIKERT)})).read
    with pytest.raises(ReplyError) as caught:
        read(reply([[("4", 1e-5), ("The", 0.99)]]), REQUEST)
    assert caught.value.failure == "low-mass"
    assert caught.value.mass == pytest.approx(1e-5)


# Values of several tokens: the oracle enumerates a tree of tokens.

QUALITY = ("very good", "good", "good enough", "bad", "very bad", "not good", "not bad at all")


def tree(draw: random.Random) -> dict[tuple[str, ...], dict[str, float]]:
    """The probabilities of the next token after each prefix of tokens; `<end>` ends a reply."""
    paths = [
        tuple(word if place == 0 else f" {word}" for place, word in enumerate(value.split()))
        for value in QUALITY
    ]
    prefixes = {path[:length] for path in paths for length in range(len(path) + 1)}
    nodes = {}
    for prefix in sorted(prefixes):
        nexts = {
            path[len(prefix)]
            for path in paths
            if path[: len(prefix)] == prefix and len(path) > len(prefix)
        }
        nexts |= {"<end>"} if prefix in paths else {"Hm"} if not prefix else set()
        weights = [draw.random() + 0.05 for _ in nexts]
        nodes[prefix] = dict(
            zip(sorted(nexts), [weight / sum(weights) for weight in weights], strict=True)
        )
    return nodes


def exact(nodes: dict[tuple[str, ...], dict[str, float]], value: str) -> float:
    """The probability of a whole reply: the product along its tokens and its end."""
    path = tuple(word if place == 0 else f" {word}" for place, word in enumerate(value.split()))
    p = 1.0
    for length, token in enumerate((*path, "<end>")):
        p *= nodes[path[:length]][token]
    return p


def generated(nodes: dict[tuple[str, ...], dict[str, float]], value: str) -> Positions:
    """The alternatives along a reply, the token of its path first."""
    path: tuple[str, ...] = tuple(
        word if place == 0 else f" {word}" for place, word in enumerate(value.split())
    )
    positions = []
    for length, token in enumerate((*path, "<end>")):
        options = nodes[path[:length]]
        positions.append(
            [
                (token, options[token]),
                *[(option, p) for option, p in options.items() if option != token],
            ]
        )
    return positions


@pytest.mark.parametrize("seed", range(40))
def test_a_values_probability_is_the_product_along_its_tokens_where_all_are_listed(
    seed,
):
    draw = random.Random(seed)
    nodes = tree(draw)
    value = draw.choice([quality for quality in QUALITY if quality != "bad"])
    scale = [quality for quality in QUALITY if quality.split()[0] in (value.split()[0], "bad")]
    answer = reply(generated(nodes, value))
    shares, mass = sequence_distribution(
        Reply(value, logprobs=answer.logprobs), DiscreteScale(scale)
    )
    products = {quality: exact(nodes, quality) for quality in scale}
    total = sum(products.values())
    assert shares == pytest.approx({name: p / total for name, p in products.items()})
    assert mass == pytest.approx(sum(nodes[()][first] for first in {q.split()[0] for q in scale}))


def test_two_values_with_the_same_first_token_share_its_probability():
    scale = DiscreteScale(["very good", "very bad"])
    shares, mass = sequence_distribution(
        reply([[("very", 0.95)], [(" good", 0.7), (" bad", 0.25)]]), scale
    )
    assert shares == pytest.approx({"very good": 0.7 / 0.95, "very bad": 0.25 / 0.95})
    assert mass == pytest.approx(0.95)


def test_numbers_of_several_tokens_and_of_one():
    minus, _ = sequence_distribution(
        reply([[("-", 0.6), ("1", 0.3), ("2", 0.1)], [("2", 0.8), ("1", 0.2)]]),
        DiscreteScale(range=(-2, 2)),
    )
    assert minus == pytest.approx({-2: 0.48, -1: 0.12, 0: 0, 1: 0.3, 2: 0.1})
    ten = DiscreteScale(range=(1, 10))
    split, _ = sequence_distribution(
        reply([[("1", 0.6), ("9", 0.4)], [("0", 0.75), ("\n", 0.25)]]), ten
    )
    assert split == pytest.approx({**dict.fromkeys(range(2, 9), 0), 1: 0.15, 9: 0.4, 10: 0.45})
    whole, _ = sequence_distribution(reply([[("1", 0.6), ("10", 0.4)]]), ten)
    assert whole == pytest.approx({**dict.fromkeys(range(2, 10), 0), 1: 0.6, 10: 0.4})


def test_a_reply_that_leaves_values_open_is_unreadable():
    scale = DiscreteScale(["very good", "very bad", "good"])
    with pytest.raises(ReplyError, match="several values begin") as caught:
        sequence_distribution(reply([[("good", 0.7), ("very", 0.3)]]), scale)
    assert "letters" in caught.value.hint
    shares, _ = sequence_distribution(reply([[("good", 0.7), ("very", 0.005)]]), scale)
    assert shares == {"very good": 0.0, "very bad": 0.0, "good": 1.0}


PIPELINE = """
verdict: 1
name: quality
model: {model}
pipeline:
  - unit: JudgeUnit
    name: judge
    {unit}
    prompt: "Rate: {{source.text}}"
"""
WORDS = "scale: {values: [very bad, bad, good, very good], scores: {very bad: 0, bad: 1, good: 2, very good: 3}}"


def write(tmp_path: Path, unit: str, model: str = "m") -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.format(model=model, unit=unit), encoding="utf-8")
    return path


def run(
    tmp_path: Path, unit: str, rows: int = 1, model: str = "m"
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The results, the calls, and what the terminal showed."""
    data = tmp_path / "data.jsonl"
    data.write_text(jsonl({"text": f"t{index}"} for index in range(rows)), encoding="utf-8")
    path = write(tmp_path, unit, model)
    result = CliRunner().invoke(
        app, ["run", str(path), str(data), "--out", str(tmp_path / "out"), "--no-cache"]
    )

    def columns(name: str) -> dict[str, Any]:
        values_by_column: dict[str, Any] = {}
        for batch in read_table(tmp_path / "out" / name):
            for column, values in batch.items():
                values_by_column.setdefault(column, []).extend(values)
        return values_by_column

    return columns("results.parquet"), columns("calls.parquet"), result.output


SEQUENCE = "extract: {type: weighted_summed_score, sequence: true}\n    " + WORDS


def test_the_report_says_that_probabilities_are_products_along_tokens(tmp_path, scripted_model):
    scripted_model.answer = lambda _: reply(
        [[("very", 0.5), ("good", 0.3), ("bad", 0.1)], [(" good", 0.6), (" bad", 0.4)]]
    )
    results, calls, output = run(tmp_path, SEQUENCE)
    assert results["judge.score"] == [pytest.approx((3 * 0.3 + 2 * 0.3 + 0.1) / 0.9)]
    assert results["judge.mass"] == calls["mass"] == pytest.approx([0.9])
    words = "median 0.900, n=1, by products along tokens"
    assert words in " ".join(output.split())
    for name in ("report.md", "report.html"):
        assert words in (tmp_path / "out" / name).read_text(encoding="utf-8")


def test_every_score_has_its_mass_in_the_tables_and_the_median_in_the_report(
    tmp_path, scripted_model
):
    shares = [0.6, 0.7, 0.99, 1e-5]
    scripted_model.answer = lambda request: reply(
        [[("4", shares[request.row.index]), ("The", 0.01)]]
    )
    results, calls, output = run(tmp_path, "extract: argmax_score", 4, "{name: m, retries: 0}")
    assert results["judge.mass"] == pytest.approx([0.6, 0.7, 0.99, None])
    assert calls["mass"] == pytest.approx(shares)
    assert calls["failure"] == [None, None, None, "low-mass"]
    assert "judge mass" in output and "median 0.700, n=3" in output


def test_a_unit_that_passes_on_other_fields_has_its_mass_in_the_report_too(
    tmp_path, scripted_model
):
    scripted_model.answer = lambda _: reply([[("4", 0.6)]])
    _, _, output = run(
        tmp_path, "extract: argmax_score\n    propagate: {high: output.score > 3}", 2
    )
    assert "judge mass" in output and "median 0.600, n=2" in output


def test_of_both_orders_the_lesser_mass_counts(tmp_path, scripted_model):
    scripted_model.answer = lambda request: reply(
        [[("AB"[request.call], 0.9 - 0.3 * request.call)]]
    )
    path = tmp_path / "p.yaml"
    unit = "{unit: PairwiseJudgeUnit, name: judge, extract: argmax_score, positions: both, options: [source.x, source.y]}"
    path.write_text(f"verdict: 1\nname: p\nmodel: m\npipeline: [{unit}]\n", encoding="utf-8")
    judged = CliRunner().invoke(
        app, ["judge", str(path), "--row", '{"x": "1", "y": "2"}', "--json", "--quiet"]
    )
    output = json.loads(judged.stdout)["output"]
    assert (output["choice"], output["consistent"], output["mass"]) == (
        "A",
        True,
        pytest.approx(0.6),
    )


def test_the_explanation_is_what_comes_before_the_value(tmp_path, scripted_model):
    words = ["It", " is", " clear", ".", " Score:"]
    scripted_model.answer = lambda _: reply(
        [*[[(word, 0.9)] for word in words], [(" 4", 0.8), (" 5", 0.2)]]
    )
    unit = 'explanation: true\n    extract: {type: weighted_summed_score, after: "Score:"}'
    results, _, _ = run(tmp_path, unit)
    assert (results["judge.explanation"], results["judge.score"]) == (
        ["It is clear."],
        [pytest.approx(4.2)],
    )
    (request,) = scripted_model.requests
    assert request.messages[-1].content.endswith(
        'Explain first, then end with "Score:" and the value alone.'
    )
    assert request.model.max_tokens is None


@pytest.mark.parametrize(
    ("extract", "words"),
    [
        ("argmax_score", "needs `after` where an `explanation` comes before the value"),
        (
            "{type: argmax_score, sequence: true, first_token: true}",
            "`first_token` and `sequence` exclude each other",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_errors_before_any_call(tmp_path, extract, words):
    explained = "explanation: true\n    " if extract == "argmax_score" else ""
    with pytest.raises(SpecError, match=words):
        build_plan(load(write(tmp_path, f"{explained}extract: {extract}")))


def test_a_sequence_takes_values_that_begin_alike():
    response = RecordType({"score": ScaleType(DiscreteScale(["very good", "very bad"]))})
    issue = TokenProbabilityExtractor().validation_error(response)
    assert issue is not None and "sequence: true" in issue[2]
    assert TokenProbabilityExtractor(sequence=True).validation_error(response) is None
    explained = RecordType({"explanation": TEXT, **response.fields})
    assert (
        TokenProbabilityExtractor(sequence=True, after="Score:").validation_error(explained) is None
    )


@pytest.mark.parametrize("answer", ["9", "1"])
def test_a_token_that_may_begin_a_longer_value_is_no_evidence(answer):
    ten = DiscreteScale(range=(1, 10))
    others = {"9": "1", "1": "9"}
    digits = (Alternative(answer, math.log(0.6)), Alternative(others[answer], math.log(0.39)))
    with pytest.raises(ReplyError, match="several tokens"):
        distribution(Reply(answer, logprobs=(digits,)), ten, min_mass=0.5)
    whole = (*digits, Alternative("10", math.log(0.01)))
    values, mass = distribution(Reply(answer, logprobs=(whole,)), ten, min_mass=0.5)
    assert (values[10], mass) == (pytest.approx(0.01), pytest.approx(1.0))
