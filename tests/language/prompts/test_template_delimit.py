"""`delimit`: a boundary around each text that others wrote, which none of them can contain."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.paths import Resolved, unresolved
from verdict_cli.language.fields.types import INTEGER, TEXT, ScaleType
from verdict_cli.language.prompts import sections
from verdict_cli.language.prompts.jinja import compile_jinja
from verdict_cli.language.prompts.prompt import compile_prompt
from verdict_cli.language.prompts.sections import Delimited, boundary
from verdict_cli.language.scales.discrete import LIKERT
from verdict_cli.messages import Message

TAG = re.compile(r"(?s)<data-([0-9a-f]{16})>\n(.*?)\n</data-\1>")
TEXTS = st.text(st.characters(codec=None)) | st.sampled_from(
    ["</data-", "<data-0>\n", "@system", "{source.b}", "{{ b }}"]
)


def compiled(text: str, kind: str) -> Any:
    if kind == "plain":
        return compile_prompt(text, unresolved, _no, _no, delimit=True)
    return compile_jinja(
        text, ("source", "previous", "input", "unit"), unresolved, _no, delimit=True
    )


def plain(
    text: str, values: dict[str, Any], types: dict[str, Any] | None = None
) -> tuple[Message, ...]:
    def resolve(path: Any) -> Resolved:
        kind = (types or {}).get(str(path[-1]))
        return unresolved(path) if kind is None else Resolved((path,), kind)

    return compile_prompt(text, resolve, _no, _no, delimit=True).render(values).messages


def jinja(text: str, values: dict[str, Any]) -> tuple[Message, ...]:
    template = compile_jinja(
        text, ("source", "previous", "input", "unit"), unresolved, _no, delimit=True
    )
    assert template is not None
    return template.render(values).messages


def _no(*parts: str) -> None:
    raise AssertionError(parts)


def row(**values: Any) -> dict[str, Any]:
    return {"source": values, "unit": {"name": "judge"}, "previous": {}, "input": {}}


@pytest.mark.parametrize("kind", ["plain", "jinja"])
@given(st.tuples(TEXTS, TEXTS))
def test_the_texts_come_back_whole_between_tags_that_they_do_not_contain(kind, texts):
    values = row(a=texts[0], b=texts[1])
    if kind == "plain":
        messages = plain("@system\nJudge.\n@user\nA: {source.a}\nB: {source.b}", values)
    else:
        messages = jinja("@system\nJudge.\n@user\nA: {{ source.a }}\nB: {{ source.b }}", values)
    assert [message.role for message in messages] == ["system", "user"]
    content = messages[1].content
    mark = re.findall("<data-([0-9a-f]{16})> and", content)[-1]
    assert not any(mark in text.lower() for text in texts)
    expected = "".join(
        f"{name}: <data-{mark}>\n{text}\n</data-{mark}>\n"
        for name, text in zip("AB", texts, strict=True)
    )
    assert content.startswith(expected)
    assert content.count(mark) == 6


def test_a_text_that_knows_the_boundary_has_another(monkeypatch):
    first = hashlib.sha256(b"1").hexdigest()
    second = hashlib.sha256(first.encode()).hexdigest()
    answers = iter([first, second])
    monkeypatch.setattr(sections, "_digest", lambda _: next(answers))
    assert boundary([Delimited(f"</DATA-{first[:16].upper()}>")]) == second[:24]


@pytest.mark.parametrize("kind", ["plain", "jinja"])
@given(st.tuples(TEXTS, TEXTS, TEXTS))
def test_all_prompts_of_a_row_have_the_same_boundary(kind, texts):
    both = (
        ("{source.a}", "{source.b} {source.a}")
        if kind == "plain"
        else ("{{source.a}}", "{{source.b}}{{source.a}}")
    )
    source = dict(zip("abc", texts, strict=True))
    prompts = [
        replace(compiled(text, kind), columns=("a", "b"))
        .render(row(**source) | {"previous": {"x": text}})
        .messages
        for text in both
    ]
    marks = {re.findall("<data-([0-9a-f]{16})> and", prompt[-1].content)[-1] for prompt in prompts}
    assert len(marks) == 1
    other = replace(compiled(both[1], kind), columns=("a", "b")).render(
        row(**source | {"c": "another label"})
    )
    assert other.messages == prompts[1]


def test_the_same_row_has_the_same_boundary_and_another_row_another():
    first, again, of_other_row = (
        plain("{source.a}", row(a=text))[0].content for text in ("x", "x", "y")
    )
    assert first == again != of_other_row.replace("\ny\n", "\nx\n")
    pairs = (
        plain("{source.a}{source.b}", row(a=a, b=b))[0].content
        for a, b in (("xy", "z"), ("x", "yz"))
    )
    assert len({re.findall("<data-([0-9a-f]+)", content)[0] for content in pairs}) == 2


def test_numbers_values_of_a_scale_and_the_units_own_words_have_none():
    values = row(n=3, p=0.5, label="5", why="text")
    types = {"n": INTEGER, "label": ScaleType(LIKERT), "why": TEXT}
    from_plain = plain("{unit.name} {source.n} {source.p:.1f} {source.label}", values, types)
    assert from_plain == (Message("user", "judge 3 0.5 5"),)
    assert plain("{source.why}", values, types)[0].content.startswith("<data-")
    from_jinja = jinja(
        "{{ unit.name }} {{ source.n }} {{ 'own' if source.n else 'words' }}", values
    )
    assert from_jinja == (Message("user", "judge 3 own"),)


@pytest.mark.parametrize(
    "value", [["a", "b"], {"a": ["b"]}, [{"role": "user", "content": "x"}], "", "5"]
)
def test_lists_mappings_and_conversations_have_one(value):
    for messages in (plain("{source.a}", row(a=value)), jinja("{{ source.a }}", row(a=value))):
        assert TAG.match(messages[0].content)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for x in source.l %}- {{ x }}\n{% endfor %}", ["a", "b"]),
        ("{% set x = source.a %}{{ x }}", ["A"]),
        ("{% set x %}<{{ source.a }}>{% endset %}{{ x }}", ["<A>"]),
        ("{% macro m(x) %}: {{ x }}{% endmacro %}{{ m(source.a) }}", ["A"]),
        ("{{ source.a | lower }} {{ source.a ~ source.l[0] }}", ["a", "Aa"]),
        (
            "{% macro m() %}: {{ caller() }}{% endmacro %}{% call m() %}{{ source.a }}{% endcall %}",
            ["A"],
        ),
        (
            "{% for x in [source.l] recursive %}{{ x if x is string else loop(x) }}{% endfor %}",
            None,
        ),
        ("{{ 'own' }} {{ unit.name }}", []),
    ],
)
def test_whatever_a_template_does_with_a_text_it_is_delimited_once(text, expected):
    messages = jinja(text, row(a="A", l=["a", "b"]))
    tags = TAG.findall(messages[0].content)
    if expected is not None:
        assert [content for _, content in tags] == [*expected]
    bare = TAG.sub("", messages[0].content).partition("Each text between")[0]
    assert not re.search(r"[A-Z]|\d{39}", bare)


@pytest.mark.parametrize(
    "text",
    [
        "{% set x %}{{ source.a }}{% endset %}{% set y = x[:45] %}@user\n{{ y }}",
        "{% set x %}a\n@system\nb{% endset %}{{ x ~ source.a }}",
    ],
)
def test_a_delimited_text_that_is_cut_is_the_rows_error(text):
    with pytest.raises(RowError, match="delimit: false"):
        jinja(text, row(a="A" * 50))


def test_the_word_on_the_boundary_follows_the_last_text_of_the_user():
    sections = plain("@system\nA {source.a}\n@user\nB\n@assistant\nC", row(a="x"))
    assert [message.content.partition("\n\n")[0] for message in sections[1:]] == ["B", "C"]
    assert "Each text between" in sections[1].content
    assert [message.role for message in plain("@system\n{source.a}", row(a="x"))] == [
        "system",
        "user",
    ]
