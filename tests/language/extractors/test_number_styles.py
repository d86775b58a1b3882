"""A number in the styles in which people write one is read as it is meant, or refused: never as another value."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.bound_extractor import BoundExtractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.extractors.token_probability import ArgmaxScoreExtractor
from verdict_cli.language.extractors.verdict import VerdictExtractor
from verdict_cli.language.fields.types import RecordType, ScaleType
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import DiscreteScale
from verdict_cli.messages import Alternative, Reply, Request, Row
from verdict_cli.model import Model

REQUEST = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
FULLWIDTH = str.maketrans("0123456789.-", "０１２３４５６７８９．－")
ARABIC = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")
PLAIN: list[str] = [
    "{n}",
    " {n}\n",
    "{n}.",
    "**{n}**",
    "`{n}`",
    "Score: {n}",
    "I give it a {n}.",
    "Rating - {n}",
    "{n}\n\nIt is clear.",
]
"""Styles that are read."""
STYLES: dict[str, Callable[[str, str], str]] = {
    **{style: (lambda n, high, style=style: style.format(n=n)) for style in PLAIN},
    "fraction": lambda n, high: f"{n}/{high}",
    "spaced fraction": lambda n, high: f"{n} / {high}",
    "bold fraction": lambda n, high: f"**{n}**/{high}",
    "fraction slash": lambda n, high: f"{n}⁄{high}",
    "fullwidth fraction": lambda n, high: f"{n}／{high}",
    "out of": lambda n, high: f"{n} out of {high}",
    "of": lambda n, high: f"a {n} of {high}",
    "von": lambda n, high: f"{n} von {high}",
    "out of in parentheses": lambda n, high: f"{n} (out of {high})",
    "points": lambda n, high: f"{n} points out of a possible {high}",
    "stars": lambda n, high: f"{n} stars out of {high}",
    "tex fraction": lambda n, high: f"$\\frac{{{n}}}{{{high}}}$",
    "boxed": lambda n, high: f"\\boxed{{{n}}}",
    "scale before": lambda n, high: f"On a scale of {high}: {n}",
    "out of before": lambda n, high: f"Out of {high}, I give {n}.",
    "maximum": lambda n, high: f"{n} (max. {high})",
    "full marks": lambda n, high: f"{n}（满分{high}）",
    "point scale": lambda n, high: f"{n} on the {high}-point scale",
    "html": lambda n, high: f"<b>{n}</b>/<b>{high}</b>",
    "tag": lambda n, high: f"<score>{n}</score>",
    "table": lambda n, high: f"| score | {n} |",
    "quotes": lambda n, high: f"“{n}”",
    "decimal": lambda n, high: f"{n}.0" if "." not in n else n,
    "comma": lambda n, high: n.replace(".", ","),
    "fullwidth": lambda n, high: n.translate(FULLWIDTH),
    "arabic": lambda n, high: n.translate(ARABIC),
    "minus": lambda n, high: n.replace("-", "−"),
    "en dash": lambda n, high: n.replace("-", "–"),
    "spaced minus": lambda n, high: n.replace("-", "− "),
    "word": lambda n, high: n.replace("-", "minus "),
    "plus": lambda n, high: n if n[0] == "-" else f"+{n}",
    "zero-width": lambda n, high: f"\u200b{n}\u200b",
    "keycap": lambda n, high: "".join(f"{char}\ufe0f\u20e3" if char.isdigit() else char for char in n),
    "thought": lambda n, high: f"<think>{high}?</think>\n{n}",
    "end of turn": lambda n, high: f"{n}<|im_end|>",
    "json": lambda n, high: f'{{"score": {n}}}',
    "latin thousands": lambda n, high: f"{n} ",
    "approximately": lambda n, high: f"≈{n}",
    "range": lambda n, high: f"{n}-{high}",
}  # fmt: skip
TEN, UNIT, HUNDRED, SIGNED = (1, 10), (0, 1), (0, 100), (-5, 5)
NUMBERS = st.one_of(
    st.tuples(st.just(TEN), st.integers(1, 10).map(str)),
    st.tuples(st.just(SIGNED), st.integers(-5, 5).map(str)),
    st.tuples(st.just(HUNDRED), st.integers(0, 100).map(str)),
    st.tuples(st.just(UNIT), st.integers(0, 100).map(lambda cents: f"{cents / 100:g}")),
)
READERS = [
    "FIRST_INT",
    "LAST_INT",
    "FIRST_FLOAT",
    "LAST_FLOAT",
    "unique",
    "verdict",
    "structured",
    "tokens",
]


def bound(reader: str, ends: tuple[int, int], response: RecordType) -> BoundExtractor:
    if reader == "structured":
        return StructuredOutputExtractor().bind(response)
    if reader == "verdict":
        return VerdictExtractor().bind(response)
    if reader == "tokens":
        return ArgmaxScoreExtractor(sequence=True, min_mass=0).bind(response)
    match = "unique" if reader == "unique" else "first"
    return RegexExtractor(pattern="FIRST_FLOAT" if match == "unique" else reader, match=match).bind(
        response
    )


def read(reader: str, ends: tuple[int, int], number: str) -> Decimal:
    continuous = ends == UNIT and reader != "tokens"
    scale = (
        ContinuousScale(min=0, max=1)
        if continuous
        else DiscreteScale(range=(0, 1, 0.25) if ends == UNIT else ends)
    )
    reading = bound(reader, ends, RecordType({"score": ScaleType(scale)}))
    text = {
        "verdict": f"VERDICT: PASS\nSCORE: {number}",
        "structured": json.dumps({"score": number}),
    }.get(reader, number)
    logprobs = tuple((Alternative(char, -0.01),) for char in text) if reader == "tokens" else None
    return Decimal(str(reading.read(Reply(text, logprobs=logprobs), REQUEST)["score"]))


@settings(deadline=None, max_examples=400)
@given(NUMBERS, st.sampled_from(list(STYLES)), st.sampled_from(READERS))
def test_a_number_in_any_style_has_its_intended_value_or_is_refused(number, style, reader):
    ends, n = number
    try:
        value = read(reader, ends, STYLES[style](n, str(ends[1])))
    except ReplyError:
        return
    assert value == Decimal(n), (style, STYLES[style](n, str(ends[1])), reader)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 100), st.sampled_from(["{}%", "{} %", "{}％", "{} percent", "**{}%**", "Score: {}\\%"]), st.sampled_from(READERS))  # fmt: skip
def test_a_percentage_is_a_share_or_refused(percent, style, reader):
    for ends, expected in ((UNIT, Decimal(percent) / 100), (HUNDRED, Decimal(percent))):
        try:
            assert read(reader, ends, style.format(percent)) == expected
        except ReplyError:
            assert reader in ("tokens", "structured", "verdict") or reader.endswith("INT")
    for ends in (TEN, SIGNED):
        with pytest.raises(ReplyError):
            read(reader, ends, style.format(percent))


@pytest.mark.parametrize("style", PLAIN)
@pytest.mark.parametrize("reader", ["FIRST_INT", "LAST_INT", "FIRST_FLOAT", "LAST_FLOAT", "unique"])
def test_plain_styles_are_read(style, reader):
    for ends, n in ((TEN, "10"), (TEN, "7"), (HUNDRED, "0"), (SIGNED, "-3")):
        if n == "-3" and "- {n}" in style:
            continue
        assert read(reader, ends, style.format(n=n)) == Decimal(n)
    if "FLOAT" in reader:
        assert read(reader, UNIT, style.format(n="0.25")) == Decimal("0.25")
