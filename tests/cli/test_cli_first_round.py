"""All mistakes of a pipeline and of its data are reported in the first round, with cures that can be applied as printed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from jsonl import jsonl
from paths import ROOT

HEAD = "verdict: 1\nname: judge\nmodel: baseline/lexical\n"
UNIT = (
    "pipeline:\n  - unit: JudgeUnit\n    scale: boolean\n    prompt: 'Is {source.answer} right?'\n"
)
EVALUATE = "evaluate:\n  right: {prediction: output.score, target: source.label}\n"
RIGHT = HEAD + UNIT + EVALUATE
ROWS = [
    {"question": "1 + 1?", "answer": "2", "label": True},
    {"question": "2 + 2?", "answer": "5", "label": False},
]

Mistake = tuple[str, str]
"""A text of the right file, and what a newcomer writes in its place."""
WRONG: dict[str, list[Mistake]] = {
    "a key of the top level": [("evaluate:", "evaluat:")],
    "another tool's word for the metrics": [("evaluate:", "tests:")],
    "another tool's word for the steps": [("pipeline:", "steps:")],
    "a misspelled key of a unit": [("    scale:", "    scal:")],
    "a scale in Python's word": [("boolean", "bool")],
    "a scale in capitals": [("boolean", "Boolean")],
    "a misspelled unit": [("JudgeUnit", "JugdeUnit")],
    "a misspelled column": [("source.answer", "source.anwser")],
    "a misspelled label": [("source.label", "source.labl")],
    "a misspelled field": [("output.score", "output.scor")],
    "a version that is none": [("verdict: 1", "verdict: 2")],
    "a name with a blank and capitals": [("name: judge", "name: My Judge")],
    "a metric's short name": [("source.label}", "source.label, metrics: [acc]}")],
    "a misspelled metric": [("source.label}", "source.label, metrics: [acuracy]}")],
    "metrics as a metric": [("source.label}", "source.label, metric: [accuracy]}")],
    "a prompt without quotes": [("'Is {source.answer} right?'", "{source.answer}")],
    "a template": [("    prompt:", "    template:")],
    "the prediction's misspelled key": [("{prediction:", "{predicton:")],
    "two misspelled columns": [("source.answer", "source.anwser"), ("source.label", "source.labl")],
    "a key and a column": [("    scale:", "    scal:"), ("source.answer", "source.anwser")],
    "a scale and a metric": [
        ("boolean", "bool"),
        ("source.label}", "source.label, metrics: [acc]}"),
    ],
    "a unit and a label": [("JudgeUnit", "JugdeUnit"), ("source.label", "source.labl")],
    "a version and a scale": [("verdict: 1", "verdict: 2"), ("boolean", "bool")],
    "a name and a column": [("name: judge", "name: My Judge"), ("source.answer", "source.anwser")],
    "the steps and a scale": [("pipeline:", "steps:"), ("boolean", "bool")],
    "the steps, a unit and a column": [
        ("pipeline:", "steps:"),
        ("JudgeUnit", "JugdeUnit"),
        ("answer}", "anwser}"),
    ],
    "the evaluation and its field": [("evaluate:", "eval:"), ("output.score", "output.scor")],
    "the evaluation and its label": [("evaluate:", "evals:"), ("source.label", "source.labl")],
    "a prompt without quotes and a label": [
        ("'Is {source.answer} right?'", "{source.answer}"),
        ("source.label", "source.labl"),
    ],
    "another tool's word for the prompt": [("    prompt:", "    criteria:")],
    "the version in another word": [("verdict: 1", "version: 1")],
    "a scale as its values": [("boolean", "yes/no")],
    "the extractor in another word": [("boolean", "boolean\n    extract: json")],
    "a truth as a word": [("boolean", "boolean\n    explanation: yes")],
    "a unit without its ending": [("JudgeUnit", "Judge")],
    "another library's metric": [("source.label}", "source.label, metrics: [macro_f1]}")],
    "one metric without a list": [("source.label}", "source.label, metrics: accuracy}")],
    "another tool's word for the target": [("target:", "ground_truth:")],
    "a column without `source`": [("source.label", "label")],
    "a strict limit": [("source.label}", "source.label}\ngates:\n  - right.accuracy > 0.9")],
    "a gate without a list": [("source.label}", "source.label}\ngates: right.accuracy >= 0.9")],
    "everything at once": [
        ("verdict: 1", "verdict: 2"),
        ("pipeline:", "stages:"),
        ("boolean", "bool"),
        ("source.answer", "source.anwser"),
        ("source.label}", "source.labl, metrics: [acc]}"),
    ],
}


def broken(mistakes: list[Mistake]) -> str:
    text = RIGHT
    for right, wrong in mistakes:
        assert right in text
        text = text.replace(right, wrong)
    return text


def cured(text: str, problems: list[dict[str, Any]]) -> str:
    """The file with each cure written where the message points."""
    lines = text.splitlines()
    for problem in sorted(
        problems, key=lambda problem: (problem["line"], problem["column"] or 1), reverse=True
    ):
        line = lines[problem["line"] - 1]
        start = max(problem["column"] - 1, 0)
        head, tail = line[:start], line[start:]
        suggestion = re.search(r"did you mean [`'](.+?)[`']\?", problem["hint"])
        write = (
            re.search(r"write `(?:.*?: )?(.+?)`", problem["hint"])
            or re.search(r"prompt: ('.+')", problem["hint"])
            or re.search(r"is `(source\..+?)`", problem["hint"])
        )
        wrong = re.search(
            r"(?:unknown key|unknown scale|unknown unit type|no column|unknown name|no field) [`'](.+?)[`']",
            problem["message"],
        )
        wrong = (
            wrong
            or re.match(r"'?(.+?)'? is not", problem["message"])
            or re.match(r"'(.+?)':", problem["message"])
        )
        if suggestion and wrong:
            near = tail if wrong[1] in tail else line
            if near is line:
                lines[problem["line"] - 1] = line.replace(wrong[1], suggestion[1])
                continue
            lines[problem["line"] - 1] = head + tail.replace(wrong[1], suggestion[1], 1)
        elif write:
            value = re.match(r"\{.*?\}|'[^']*'|[^,}]+", tail)
            assert value
            lines[problem["line"] - 1] = head + write[1] + tail[value.end() :]
        else:
            raise AssertionError(f"no cure in {problem}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", WRONG)
def test_the_cures_of_the_first_round_make_the_file_valid(name, shell):
    text = broken(WRONG[name])
    data = shell.write("data.jsonl", jsonl(ROWS))
    done = shell("validate", shell.write("judge.yaml", text), "--data", data, "--json")
    problems = done.json()["errors"]
    assert done.code == 2
    assert len(problems) >= len(WRONG[name]), problems
    assert all(problem["line"] for problem in problems), problems
    again = shell("validate", shell.write("judge.yaml", cured(text, problems)), "--data", data)
    assert again.code == 0, (problems, cured(text, problems), again.err)


def test_several_pipelines_are_checked_at_once(shell):
    good = shell.write("good.yaml", RIGHT)
    bad = shell.write("bad.yaml", RIGHT.replace("boolean", "bool"))
    done = shell("validate", good, bad)
    assert done.code == 2
    assert f"{good}: valid" in done.out and "bad.yaml:6:12" in done.err
    assert [document["ok"] for document in shell("validate", good, bad, "--json").json()] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("scale", "code"), [("boolean", 0), ("bool", 2)])
def test_the_pre_commit_hook_checks_two_files(scale, code, shell):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    files = [shell.write(f"judges/{name}.yaml", RIGHT) for name in ("one", "two")]
    files[1].write_text(RIGHT.replace("boolean", scale))
    assert all(re.search(hook["files"], f"judges/{file.name}") for file in files)
    assert shell(*hook["entry"].split()[1:], *files).code == code


def test_the_second_argument_may_still_be_a_dataset(shell):
    data = shell.write("data.jsonl", jsonl(ROWS))
    wrong = shell.write("judge.yaml", RIGHT.replace("source.label", "source.labl"))
    assert "no column 'labl'" in shell("validate", wrong, data).err
