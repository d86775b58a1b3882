"""No expression and no template takes more text or time than it may."""

import time

import pytest

from verdict_cli.errors import RowError
from verdict_cli.language.expressions import sandbox
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import unresolved
from verdict_cli.language.expressions.value_text import insert
from verdict_cli.language.prompts.jinja import compile_jinja

EXPRESSIONS = r"""
'a' * 10**9
[1] * 10**9
'%999999999d' | format(1)
'%0999999999d' % 1
'%*d' % (10**9, 1)
('%s' * 100000) % ((('a' * 10000),) * 100000)
'{:>999999999}'.format(1)
'{:>{}}'.format(1, 10**9)
('{0}' * 100000).format('a' * 10000)
'{a:999999999}'.format_map({'a': 1})
'x' | center(10**9)
'x'.ljust(10**9)
'x'.zfill(10**9)
('\t' * 100000).expandtabs(100000)
'aa' | replace('a', 'b' * 1000) | replace('b', 'c' * 1000) | replace('c', 'd' * 1000)
('a' * 1000000).replace('a', 'b' * 1000000)
('a' * 1000000).translate({97: 'b' * 100000})
(['a' * 1000000] * 1000) | join
('a' * 100000).join(('b' * 100000) | list)
('a' * 1000) | list | map('center', 1000000) | list
'a' | indent(10**9)
('\n' * 100000) | indent('x' * 100000)
[1] | slice(10**8) | list
[1] | slice(10**6, 'x') | list
[1] | batch(3 * 10**7, 'x') | list
([[1] * 1000] * 1000) | sum(start=[])
2**13000 * 2**13000
10 ** 100000
1 | round(10**8)
""".strip().splitlines()

LIST = "'abcdefghij' * 100"
TEMPLATES = {
    "doubled by ~": "{% set a = 'xxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "doubled by +": "{% set a = 'xxxxxxxx' %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "doubled by a block": "{% set a = 'xxxxxxxx' %}"
    + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40
    + "{{ a }}",
    "doubled in a macro": "{% macro m(a) %}{{ a }}{{ a }}{% endmacro %}{% set a = 'xxxxxxxx' %}"
    + "{% set a = m(a) %}" * 40
    + "{{ a }}",
    "lists in lists": "{% set a = ['x'] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "mappings in mappings": "{% set a = {'x': 1} %}"
    + "{% set a = {'a': a, 'b': a} %}" * 40
    + "{{ a }}",
    "compared lists": "{% set a = [1] %}{% set b = [1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ a == b }}",
    "products": "{% set a = 3 %}" + "{% set a = a * a %}" * 60 + "{{ a }}",
    "loops": "{% for a in L %}{% for b in L %}{% for c in L %}{% for d in L %}{% endfor %}{% endfor %}{% endfor %}"
    "{% endfor %}".replace("L", LIST),
    "loops that print": "{% for a in L %}{% for b in L %}{% for c in L %}{{ c }}xxxxxxxxxxx{% endfor %}{% endfor %}"
    "{% endfor %}".replace("L", LIST),
    "a slow test of many items": "{% set a = 'a' * 1000000 %}"
    "{{ (a | list) | select('in', ['b'] * 1000) | list | length }}",
    "macros that call themselves": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(90) }}",
    "a loop that calls itself": "{% for a in [[1]] recursive %}{{ loop(['xxxx', 'yyyy']) }}{% endfor %}",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_ends_before_it_fills_the_memory(text):
    with pytest.raises(RowError):
        compile_expression(text)({})


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_ends_before_it_fills_memory_or_time(name, monkeypatch):
    monkeypatch.setattr(sandbox, "LONGEST_RENDER_S", 0.1)
    template = compile_jinja(TEMPLATES[name], (), unresolved, lambda *_: None)
    assert template is not None
    started = time.thread_time()
    with pytest.raises(RowError):
        template.render({})
    assert time.thread_time() - started < 5  # unbounded, each would take years, or all memory


@pytest.mark.parametrize("spec", [">1000000000", "01000000000d", ".1000000000f"])
def test_a_placeholder_is_not_padded_to_a_gigabyte(spec):
    with pytest.raises(RowError, match="four digits"):
        insert(1, spec)


def test_each_rendering_has_its_own_account():
    third = compile_expression(f"('a' * {sandbox.LARGEST_TEXT // 3}) | length")
    for _ in range(5):
        assert third({}) == sandbox.LARGEST_TEXT // 3


def test_a_long_document_passes():
    text = "word " * 400_000
    template = compile_jinja(
        "{% for one in x %}- {{ one | trim }}\n{% endfor %}", ("x",), unresolved, lambda *_: None
    )
    assert template is not None
    assert template.render({"x": [text, text]}).messages[0].content.count("word") == 800_000


def test_loops_over_a_rows_own_values_end(monkeypatch):
    monkeypatch.setattr(sandbox, "LONGEST_RENDER_S", 0.1)
    loops = "".join(f"{{% for {name} in x %}}" for name in "abcd")
    template = compile_jinja(loops + "{% endfor %}" * 4, ("x",), unresolved, lambda *_: None)
    assert template is not None
    with pytest.raises(RowError, match="takes more than"):
        template.render({"x": list(range(120))})
