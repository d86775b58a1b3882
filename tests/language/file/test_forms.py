"""A value of another form than expected: the message says how to write it, and what is written so is accepted."""

import pytest

WHOLE = """verdict: 1
name: g
model: baseline/lexical
pipeline:
  - {unit: JudgeUnit, name: j, scale: boolean, prompt: "Is {source.text} right?"}
evaluate:
  right: {prediction: output.score, target: source.target, metrics: [accuracy]}
gates:
  - {metric: right.accuracy, min: 0.5}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ("metrics: [accuracy]", "metrics: accuracy", "write `[accuracy]`"),
        ("  - {unit", "  {unit", "begin each entry of `pipeline` with `- `"),
        ("metric: right.accuracy", "metric: accuracy", "write `right.accuracy`"),
        ("verdict: 1\n", "", "write `verdict: 1`"),
        ("  right: {pred", "  - {pred", "give each entry of `evaluate` a name"),
        (
            "name: g\n",
            "name: g\ndataset: data.jsonl\n",
            "remove it: the data is an argument of the command",
        ),
    ],
)
def test_a_value_of_another_form_says_how_to_write_it(right, wrong, hint, shell):
    assert shell("validate", shell.write("right.yaml", WHOLE)).code == 0
    assert WHOLE.count(right) == 1
    done = shell("validate", shell.write("wrong.yaml", WHOLE.replace(right, wrong)))
    assert (done.code, hint in done.err) == (2, True), done.err


def test_of_several_evaluations_a_bare_metric_names_none(shell):
    two = WHOLE.replace("gates:", "  other: {value: output.score}\ngates:")
    wrong = two.replace("metric: right.accuracy", "metric: accuracy")
    done = shell("validate", shell.write("wrong.yaml", wrong))
    assert (done.code, "write `EVALUATION.accuracy`" in done.err) == (2, True), done.err
