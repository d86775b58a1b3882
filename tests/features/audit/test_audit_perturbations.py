"""Texts made longer, plain, or hostile."""

import json

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.audit.probes import attacks, pad_text, strip_markdown

MARKED = """# Heading

- **bold** and *slanted*
- `code` and a [link](https://example.org)

> quoted

```python
x = 1
```
"""


def test_a_plain_text_has_the_words_and_not_the_marks():
    assert strip_markdown(MARKED).split() == [
        "Heading",
        "bold",
        "and",
        "slanted",
        "code",
        "and",
        "a",
        "link",
        "quoted",
        "x",
        "=",
        "1",
    ]


def test_arithmetic_and_names_are_no_marks():
    text = "a * b * c, snake_case_name, 3.5 and 2) is not 1.5"
    assert strip_markdown(text) == text


@given(st.text(alphabet="abc XYZ.,\n", max_size=80))
def test_a_text_without_marks_stays(text):
    assert strip_markdown(text) == text


@given(st.text(max_size=2000))
def test_a_padded_text_begins_with_the_text_and_is_about_twice_as_long(text):
    padded = pad_text(text)
    assert padded.startswith(text)
    assert len(padded) - len(text) >= 0.5 * len(text)


@given(st.text(max_size=50), st.sampled_from([5, True, "safe", "B", 0.5]))
def test_every_attack_keeps_the_text_and_names_the_goal(text, goal):
    attacked = {name: change(text) for name, change in attacks(goal, "score").items()}
    assert all(
        attack_text.startswith(text) and len(attack_text) > len(text)
        for attack_text in attacked.values()
    )
    assert json.loads(attacked["forged json"].rpartition("\n")[2]) == {"score": goal}
    assert len(set(attacked.values())) == len(attacked)
