"""An expression that fails for every value of its declared types is refused before a call; what some allow is legal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import FAULTS, compile_expression, to_plain
from verdict_cli.language.expressions.paths import ExpressionError, Resolved
from verdict_cli.language.expressions.sandbox import sandbox_environment
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    DistributionType,
    FieldType,
    ItemsType,
    ListType,
    OptionalType,
    RecordType,
    ScaleType,
    TextListType,
    TranscriptType,
    UnknownType,
)
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale

JUDGE = RecordType({"explanation": TEXT, "score": ScaleType(LIKERT)})
LABEL = RecordType({"choice": ScaleType(DiscreteScale(values=("safe", "unsafe")))})
OPEN = RecordType({}, "it raises on made-up values")

FIELDS: dict[str, FieldType] = {
    "t": TEXT,
    "i": INTEGER,
    "f": NUMBER,
    "b": TRUTH,
    "likert": ScaleType(LIKERT),
    "share": ScaleType(ContinuousScale(min=0, max=1)),
    "yes": ScaleType(BooleanScale()),
    "word": ScaleType(DiscreteScale(values=("a", "b"))),
    "texts": TextListType(),
    "numbers": ListType(NUMBER),
    "claims": ListType(RecordType({"text": TEXT, "weight": OptionalType(NUMBER)})),
    "maybe": OptionalType(NUMBER),
    "talk": TranscriptType(),
    "chances": DistributionType(LIKERT),
    "judge": JUDGE,
    "any": UnknownType(),
    "outputs": ItemsType((JUDGE, JUDGE)),
    "mixed": ItemsType((JUDGE, LABEL)),
    "open": ItemsType((JUDGE, OPEN)),
}


def resolve(path: tuple[str | int, ...]) -> Resolved:
    kind = FIELDS[str(path[0])]
    for part in path[1:]:
        if not isinstance(kind, RecordType) or str(part) not in kind.fields:
            return Resolved((path,))
        kind = kind.fields[str(part)]
    return Resolved((path,), kind)


def compiled(text: str) -> Any:
    return compile_expression(text, FIELDS, resolve)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("outputs | map(attribute='choice') | max", "no item has a field 'choice'"),
        (
            "outputs | map(attribute='explanation') | mean",
            "`| mean` takes numbers, not items of type str",
        ),
        ("outputs | selectattr('choice', 'eq', 1) | list", "no item has a field 'choice'"),
        ("outputs | sort(attribute='choice')", "no item has a field 'choice'"),
        ("(outputs | first).choice", "no item has a field 'choice'"),
        ("outputs[i].choice", "no item has a field 'choice'"),
        ("judge.explanation / 2", "`/` takes numbers, not `judge.explanation` of type str"),
        ("t / 2", "`/` takes numbers"),
        ("2 - t", "`-` takes numbers"),
        ("-t", "`-` takes a number"),
        ("word * 1.5 + word / 2", "`/` takes numbers"),
        ("t ** 2", "`**` takes numbers"),
        ("i + t", "`+` takes two values of one kind, not `i` of type int and `t` of type str"),
        ("texts + 1", "`+` takes two values of one kind"),
        ("texts / 2", "`/` takes numbers"),
        ("judge + 1", "`+` takes two values of one kind"),
        ("t > 3", "`>` takes two values of one kind"),
        ("word < likert", "`<` takes two values of one kind"),
        ("i in likert", "`in` takes a list, a mapping or a text to look in"),
        ("1 if t > 3 else 0", "`>` takes two values of one kind"),
        ("likert | mean", "`| mean` takes a list, not `likert` of type discrete scale"),
        ("i | length", "`| length` takes a list"),
        ("t | round", "`| round` takes a number"),
        ("texts | sum", "`| sum` takes numbers"),
        ("[t, t] | mean", "`| mean` takes numbers"),
        ("likert.upper()", "`likert` of type discrete scale 1, 2, 3, 4, 5 has no method `upper`"),
        ("t.uper()", "`t` of type str has no method `uper`"),
        ("claims | map(attribute='weigth') | list", "no item has a field 'weigth'"),
        ("i + 1 if b else t / 2", "`/` takes numbers"),
        ("b and t / 2 > 1", "`/` takes numbers"),
        ("outputs | map(attribute='score.x') | max", "no item has a field 'x'"),
    ],
)
def test_what_no_value_allows_is_refused(text, message):
    with pytest.raises(ExpressionError) as caught:
        compiled(text)
    assert caught.value.message.startswith(f"`{text}`: ") and message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "outputs | map(attribute='score') | max",
        "outputs | map(attribute='explanation') | map('length') | mean",
        "outputs | map(attribute='choice', default='none') | list",
        "outputs | selectattr('choice', 'defined') | list",
        "mixed | map(attribute='choice') | select('defined') | list",
        "open | map(attribute='anything') | max",
        "outputs[9].score",
        "outputs[i].score / i",
        "outputs | max(attribute='score')",
        "(outputs | max(attribute='score')).explanation",
        "outputs | length",
        "i / f // likert % 2 ** share",
        "yes + likert",
        "t + 'x' * 2",
        "'%s!' % t",
        "t ~ i ~ likert",
        "texts + [t]",
        "texts | length + i",
        "t in texts and t in 'abc' and i in numbers and likert in [4, 5]",
        "word == 1 or t != none",
        "maybe + 1",
        "maybe is none or maybe > 3",
        "claims | map(attribute='weight') | sum",
        "(claims | first).text.upper()",
        "numbers | sum / (numbers | length)",
        "numbers[0] - numbers[-1]",
        "t | int + 1",
        "t | float / 2",
        "(t if b else i) + 1",
        "t / 2 if t is number else 0",
        "any / 2 + any.x | mean",
        "chances['4'] * 4 + chances[5] * 5",
        "talk | length",
        "talk | last(2)",
        "judge.items() | list",
        "judge.get('choice', 0)",
        "judge.get('score') / 5",
        "t.split()[0]",
        "(any | default(t)) / 2",
        "['a', t] | mode",
        "t < 'b'",
        "claims[0:2] | map(attribute='text') | join(', ')",
    ],
)
def test_what_some_values_allow_is_legal(text):
    compiled(text)


def test_records_of_different_units_are_alternatives():
    assert compiled("judge if b else any").type == compiled("[t]").type == UnknownType()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "t": st.sampled_from(["", "1", "text"]),
    "i": st.integers(-3, 3),
    "f": st.sampled_from([0.0, 0.5, -2.0]),
    "b": st.booleans(),
    "likert": st.integers(1, 5),
    "word": st.sampled_from(["a", "b"]),
    "texts": st.lists(st.sampled_from(["a", "2"]), min_size=1, max_size=2),
    "numbers": st.lists(st.sampled_from([0.0, 1.5]), min_size=1, max_size=2),
    "maybe": st.none() | st.just(1.0),
    "judge": st.just({"explanation": "so", "score": 4}),
    "outputs": st.just([{"explanation": "so", "score": 4}, {"explanation": "no", "score": 1}]),
}
LEAVES = st.sampled_from([*VALUES, "outputs[0].score", "judge.explanation", "2", "'a'", "[1, 2]"])
DRAWN = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format, inner, st.sampled_from([*"+-*/%<", "//", "in", "==", "~"]), inner
        ),
        st.builds(
            "({} | {})".format,
            inner,
            st.sampled_from(
                [
                    "length",
                    "mean",
                    "max",
                    "sum",
                    "list",
                    "first",
                    "int",
                    "round",
                    "map(attribute='score')",
                    "upper",
                    "sort",
                ]
            ),
        ),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=4,
)


JINJA = sandbox_environment()


@settings(deadline=None, max_examples=60)
@given(DRAWN, st.fixed_dictionaries(VALUES))
def test_what_is_refused_fails_for_every_value_that_reaches_it(text, values):
    try:
        compiled(text)
    except ExpressionError as refused:
        assert refused.message.startswith(f"`{text}`: ")
        with pytest.raises((RowError, *FAULTS)):
            to_plain(JINJA.compile_expression(text, undefined_to_none=False)(values))
