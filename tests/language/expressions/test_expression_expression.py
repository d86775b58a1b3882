"""Expressions, and what they can and cannot do."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, Resolved

OUTPUT = {"score": 4, "choice": "safe", "ok": True, "items": [1, 2, 3]}
OUTPUTS = [{"score": 3}, {"score": 1}, {"score": 2}]


def value(text: str, **values: Any) -> Any:
    return compile_expression(text)({"output": OUTPUT, "outputs": OUTPUTS, **values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output.score / 5", 0.8),
        ("'safe' if output.score > 3 else 'unsafe'", "safe"),
        ("outputs | map(attribute='score') | max", 3),
        ("outputs | map(attribute='score') | mean", 2.0),
        ("outputs | map(attribute='score') | median", 2.0),
        ("outputs | map(attribute='score') | variance", 1.0),
        ("outputs | map(attribute='score') | stdev", 1.0),
        ("['b', 'a', 'a'] | mode", "a"),
        ("outputs[0].score - outputs[-1]['score']", 1),
        ("output.choice.upper() ~ '!'", "SAFE!"),
        ("output.items | length", 3),
        ("output.get('none', 7)", 7),
        ("not output.ok or output.score in [4, 5]", True),
        ("{'a': output.score}", {"a": 4}),
        ("2 ** 10 + 7 // 2 - 7 % 4", 1024),
        ("0.9 ** 2000 < 1", True),
        ("none", None),
    ],
)
def test_an_expression_gives_its_value(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("outputs | map(attribute='score')", [3, 1, 2]),
        ("outputs | selectattr('score', 'gt', 1)", [{"score": 3}, {"score": 2}]),
        ("output.items | batch(2)", [[1, 2], [3]]),
        ("(1, (2, 3))", [1, [2, 3]]),
        ("{'a': [1] | map('string')}", {"a": ["1"]}),
        ("outputs[0].items()", [["score", 3]]),
        ("outputs[0].keys()", ["score"]),
        ("outputs[0].values()", [3]),
        ("'<' | escape", "&lt;"),
        ("[1] | tojson", "[1]"),
    ],
)
def test_what_comes_out_is_json_and_not_a_lazy_object(text, expected):
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output.scor", "there is no 'scor' among the fields: score, choice, ok, items"),
        ("output['scor'] + 1", "there is no 'scor' among the fields: score"),
        ("output.scor ** 2", "there is no 'scor' among the fields: score"),
        ("outputs | map(attribute='scor') | max", "there is no 'scor' among the fields: score"),
        ("outputs | map(attribute='scor') | mean", "there is no 'scor' among the fields: score"),
        ("{}.a", "there is no 'a' among the fields: none"),
        ("none.score", "there is no 'score': the value before it is missing"),
        ("outputs[9].score", "list object has no element 9"),
        ("nowhere", "'nowhere' is undefined"),
        ("output.keys", "`keys` is a method: call it with `()`"),
        ("output.choice / 2", "unsupported operand"),
        ("output.score / 0", "division by zero"),
        ("(-8) ** 0.5", "complex"),
        ("[] | mean", "mean of no values"),
        ("['a'] | mean", "mean needs numbers, found 'a'"),
        ("5 | mean", "not iterable"),
        ("'abc' | truncate(-5)", "expected length"),
    ],
)
def test_a_row_whose_values_do_not_fit_says_the_expression_and_what_is_wrong(text, message):
    with pytest.raises(RowError) as caught:
        value(text)
    assert caught.value.message.startswith(f"`{text}`: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "''.__class__",
        "output.__class__",
        "''.join.__self__",
        "'' | attr('__class__')",
        "[''] | map(attribute='__class__') | list",
        "'{0.__class__}'.format(1)",
        "'{a.__class__}'.format_map({'a': 1})",
        "output.pop('score')",
        "output.update({'score': 5})",
        "output.items.append(4)",
        "output.clear()",
        "(5).bit_length()",
        "(0.5).hex()",
    ],
)
def test_nothing_of_python_is_reached_and_nothing_is_changed(text):
    before = repr(OUTPUT)
    with pytest.raises(RowError):
        value(text)
    assert repr(OUTPUT) == before


@pytest.mark.parametrize(
    "text",
    ["'a' * 100000000", "[0] * 10000000", "100000000 * 'a'", "2 ** 100000", "10 ** 1000 ** 9"],
)
def test_a_result_that_would_fill_the_memory_is_refused(text):
    with pytest.raises(RowError):
        value(text)


def test_a_whole_number_too_long_to_be_written_is_refused():
    with pytest.raises(RowError, match="a whole number of more than"):
        value("x * x * x", x=10**2000)


@pytest.mark.parametrize("text", ["", "N/A", [1], {"a": 1}])
@pytest.mark.parametrize("filter_name", ["int", "float", "int(base=16)"])
def test_what_is_no_number_is_an_error_and_never_zero(filter_name, text):
    with pytest.raises(RowError, match="reads no number in"):
        value(f"x | {filter_name}", x=text)


def test_null_stays_null_as_a_number_and_a_default_replaces_what_is_none():
    assert value("[x | int, x | float]", x=None) == [None, None]
    assert value("[x | int(0), x | float(default=0.5), x | int(none)]", x="N/A") == [0, 0.5, None]
    assert value("[x | int, x | float, x | int(0, 16)]", x="12") == [12, 12.0, 18]


def test_keys_of_a_row_come_before_the_methods_of_a_mapping():
    assert value("source.items", source={"items": 3}) == 3
    assert value("source.keys + source['values']", source={"keys": 1, "values": 2}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an expression"),
        ("{{ output.score }}", "is not an expression"),
        ("output.score +", "is not an expression"),
        ("output score", "chunk after expression"),
        ("1" * 5000, "is not an expression"),
        ("output.score | maen", "there is no filter `maen`"),
        ("1 if output.ok else 2 | maen", "there is no filter `maen`"),
        ("1e310 > output.score", "too large"),
        ("output.score is evn", "there is no test `evn`"),
        ("(" * 500 + "1" + ")" * 500, "nested too deeply"),
        ("not " * 5000 + "1", "nested too deeply"),
        ("range(3)", "unknown name `range`"),
        ("output.choice.join(*nowhere)", "unknown name `nowhere`"),
        ("output.choice.join(**nowhere)", "unknown name `nowhere`"),
        ("outptu.score", "unknown name `outptu`"),
    ],
)
def test_what_can_never_be_evaluated_is_refused_before_a_row_is_read(text, message):
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, ("output", "outputs"))
    assert message in caught.value.message
    assert caught.value.hint


def test_a_hint_names_the_nearest_name():
    with pytest.raises(ExpressionError) as caught:
        compile_expression("outptu.score", ("output", "source"))
    assert caught.value.hint == "did you mean `output`?"
    with pytest.raises(ExpressionError) as caught:
        compile_expression("[1] | maen")
    assert caught.value.hint == "did you mean `mean`?"


PIECES = [
    "output",
    "x",
    ".",
    "[",
    "]",
    "(",
    ")",
    "'a'",
    "|",
    "map",
    "max",
    "1",
    "2.5",
    "-",
    "*",
    "**",
    "/",
    "if",
    "else",
    "not",
    "is",
    "in",
    "{",
    "}",
    ":",
    ",",
    "~",
    "==",
    "<",
    "attribute=",
    "'score'",
    "%",
    "defined",
    "list",
    "int",
    "float",
    "join",
    "nan",
    "1e999",
    "inf",
    "mean",
    "mode",
    "|",
    "float",
    ".items()",
    ".format",
    "round",
]


@settings(deadline=None, max_examples=120)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)))
def test_any_text_is_an_expression_or_an_error_and_runs_or_raises_a_row_error(
    text,
):
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return
    with contextlib.suppress(RowError):
        expression({"output": OUTPUT, "x": "s"})


def test_paths_are_collected_and_replaced_by_what_they_mean():
    def resolve(path: tuple[str | int, ...]) -> Resolved:
        if path == ("previous", "score"):
            return Resolved((("previous", "judge[0]", "score"),))
        if path == ("previous", "judge"):
            return Resolved((("previous", "judge[0]"), ("previous", "judge[1]")), many=True)
        return Resolved((path,))

    expression = compile_expression(
        "previous.score + (previous.judge | map(attribute='score') | sum) + source['x y'][-1]",
        None,
        resolve,
    )
    assert expression.paths == (("previous", "score"), ("previous", "judge"), ("source", "x y", -1))
    previous = {"judge[0]": {"score": 1}, "judge[1]": {"score": 2}}
    assert expression({"previous": previous, "source": {"x y": [10, 20]}}) == 24


def test_the_object_of_a_method_and_its_arguments_are_paths_too():
    expression = compile_expression(
        "source.text.startswith(input.word) and source.text.split(sep=unit.sep)"
    )
    assert expression.paths == (
        ("source", "text"),
        ("input", "word"),
        ("source", "text"),
        ("unit", "sep"),
    )


def test_a_path_that_nothing_fills_is_refused_with_its_own_words():
    def resolve(path: tuple[str | int, ...]) -> Resolved:
        raise ExpressionError("no such unit", "the units are a, b")

    with pytest.raises(ExpressionError, match="no such unit"):
        compile_expression("previous.c + 1", None, resolve)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "items", "upper"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(
    st.sampled_from(
        ["source.a", "source['b'].a", "source.items", "source.a[0]", "source.a.upper", "source"]
    ),
    st.dictionaries(st.sampled_from(["a", "b", "items"]), VALUES),
)
def test_a_mere_path_gives_what_the_template_gives(text, source):
    def outcome(expression: Any) -> Any:
        try:
            return expression({"source": source})
        except RowError as error:
            return str(error), error.failure

    expression = compile_expression(text, ("source",))
    assert expression.path is not None
    assert outcome(expression) == outcome(replace(expression, path=None))


def test_what_is_more_than_a_path_has_no_path():
    for text in ("a.b + 0", "a.b | length", "a[b]", "a.b()", "[a.b]", "none"):
        assert compile_expression(text).path is None
