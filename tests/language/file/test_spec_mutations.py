"""Bad input of every kind is a clear error: a good pipeline file, changed at random, and documents made at random."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from verdict_cli.errors import SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.source_positions import Document, Position, ValueNode
from verdict_cli.language.json_schema import pipeline_schema
from verdict_cli.language.load import validate_document
from verdict_cli.language.pipeline_file import PipelineFile
from verdict_cli.language.units import TYPES
from verdict_cli.plan.build import build_plan

pytestmark = pytest.mark.slow  # `make test-all`


FOLDER = Path(__file__).parent
GOOD = (FOLDER / "rich.yaml").read_text(encoding="utf-8")
COPIES = 120
SCHEMA = Draft202012Validator(pipeline_schema())

CHARACTERS = "{}[]:,-'\"#&*!|>%@`~ \t\n\x00\x1b\u2028éa0"
WRONG = (
    "yes", "no", "on", "true", "null", "~", "0", "-1", "3", "0.5", "1e300", ".inf", "'1'", "x", "''", "[]", "{}", "[x]", "{x: 1}",
    "{type: boolean}", "{name: x}", "[[]]", "*x", "&x y", "!!int x", "2020-01-01", "${X}", "'{source.nobody.x}'", "1_000", "JudgeUnit",
)  # fmt: skip


def changed(text: str, draw: random.Random) -> str:
    """The text with one change of a random kind."""
    lines = text.split("\n")
    place, line = draw.randrange(len(text)), draw.randrange(len(lines))
    values = list(re.finditer(r"(?<=: )[^\s,{}\[\]][^,{}\[\]\n]*", text))
    keys = list(re.finditer(r"\w+(?=: )", text))
    value, key = draw.choice(values), draw.choice(keys)
    kind = draw.randrange(10)
    if kind == 0:
        return text[:place] + text[place + draw.randint(1, 5) :]
    if kind == 1:
        return text[:place] + draw.choice(CHARACTERS) + text[place:]
    if kind == 2:
        return text[:place] + draw.choice(CHARACTERS) + text[place + 1 :]
    if kind == 3:
        return text[:place] + text[place : place + draw.randint(1, 30)] * 2 + text[place:]
    if kind == 4:
        return "\n".join([*lines[:line], *lines[line + 1 :]])
    if kind == 5:
        return "\n".join([*lines[:line], lines[draw.randrange(len(lines))], *lines[line:]])
    if kind == 6:
        indented = (
            " " * draw.randint(1, 3) + lines[line] if draw.random() < 0.6 else lines[line][1:]
        )
        return "\n".join([*lines[:line], indented, *lines[line + 1 :]])
    if kind == 7:
        return text[: value.start()] + draw.choice(WRONG) + text[value.end() :]
    if kind == 8:
        name = key[0][::-1] if draw.random() < 0.3 else key[0][:-1] + draw.choice("sxe_")
        return text[: key.start()] + name + text[key.end() :]
    return text[: key.start()] + draw.choice(keys)[0] + text[key.end() :]


def copy_of_good(seed: int) -> bytes:
    """A changed copy; one of six is cut off at any byte."""
    draw = random.Random(seed)
    if seed % 6 == 0:
        data = GOOD.encode()
        return data[: draw.randrange(len(data))]
    text = GOOD
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = changed(text, draw) or "x"
    return text.encode()


def check_agreement(data: object) -> None:
    """The classes and the JSON Schema accept the same documents, but for what the plan decides."""
    try:
        PipelineFile.model_validate(data)
        refused: object = None
    except ValidationError as error:
        refused = [(error["loc"], error["type"]) for error in error.errors()]
    forbidden = [error.message for error in SCHEMA.iter_errors(data)]
    if refused is None and forbidden:
        with pytest.raises(SpecError):
            build_plan(
                validate_document(Document("p.yaml", data, ValueNode(data, Position(1, 1))), FOLDER)
            )
        return
    assert (refused is None) == (not forbidden), (refused, forbidden[:3])


def check_problems(error: SpecError, lines: int) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.code and problem.message and problem.file == "p.yaml"
        assert 1 <= problem.line <= lines and problem.column >= 1
        assert "<" not in problem.path  # no name of a union's member
    assert str(error)


def test_the_good_file_is_good():
    build_plan(validate_document(parse_document(GOOD.encode(), "p.yaml"), FOLDER))


def test_changed_copies_are_valid_or_clear_errors():
    outcomes = {"yaml": 0, "spec": 0, "valid": 0}
    for seed in range(COPIES):
        text = copy_of_good(seed)
        lines = len(text.splitlines()) + 1
        try:
            document = parse_document(text, "p.yaml")
        except SpecError as error:
            check_problems(error, lines)
            outcomes["yaml"] += 1
            continue
        check_agreement(document.data)
        try:
            build_plan(validate_document(document, FOLDER))
            outcomes["valid"] += 1
        except SpecError as error:
            check_problems(error, lines)
            outcomes["spec"] += 1
    assert min(outcomes.values()) >= 10, outcomes


def is_bad(seed: int) -> bool:
    try:
        build_plan(validate_document(parse_document(copy_of_good(seed), "p.yaml"), FOLDER))
    except SpecError:
        return True
    return False


def test_the_command_line_names_the_place_of_what_is_wrong(tmp_path):
    seeds = list(itertools.islice(filter(is_bad, range(COPIES)), 10))
    for seed in seeds:
        (tmp_path / f"{seed}.yaml").write_bytes(copy_of_good(seed))
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "verdict_cli", "validate", f"{seed}.yaml"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(FOLDER.parent.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for seed in seeds
    ]
    for seed, process in zip(seeds, running, strict=True):
        out, err = process.communicate()
        assert process.returncode == 2 and "Traceback" not in err + out
        assert re.search(rf"{seed}\.yaml:\d+:\d+: \S", err), err


# Documents made of the language's own words.

KEYS = st.sampled_from(
    [*sorted(set(re.findall(r"(\w+): ", GOOD))), "cost", "concurrent", "cache", "on_failure", "reduce", "published", "scores", "weights"]
)  # fmt: skip
WORDS = st.sampled_from(
    [*TYPES, "likert", "boolean", "discrete", "continuous", "structured", "raw", "regex", "str", "int", "list[str]",
     "none", "chain", "dense", "last", "max", "accuracy", "safety.f1", "both", "for", "skip", "x", "", "a\n", "yes"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 30)
    | st.sampled_from([1.0, 0.5, -0.0, 1e300, 10**25, 10**300, 3.0])
    | WORDS
)
VALUES = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(KEYS, part, max_size=4),
    max_leaves=8,
)


def at_random(data: object, draw: st.DataObject) -> object:
    """A copy with some values and keys replaced."""
    chance = draw.draw(st.integers(0, 30))
    if chance == 0:
        return draw.draw(VALUES)
    if isinstance(data, list):
        return [at_random(item, draw) for item in data]
    if not isinstance(data, dict):
        return data
    content = {key: at_random(value, draw) for key, value in data.items()}
    if chance == 1:
        content[draw.draw(KEYS | st.integers(0, 2) | st.booleans())] = draw.draw(VALUES)
    return content


PARTS = parse_document(GOOD.encode(), "p.yaml").data
STEPS = [
    *PARTS["pipeline"],
    *PARTS["blocks"]["checked"],
    *PARTS["blocks"]["others"],
    *PARTS["blocks"]["others"][0]["layer"],
]
SMALL = [{"verdict": 1, "name": "x", "pipeline": [step]} for step in STEPS] + [
    {"verdict": 1, "name": "x", "pipeline": [{"use": "x"}], key: PARTS[key]}
    for key in ("model", "models", "scales", "units", "dataset", "evaluate", "gates")
]


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.data())
def test_schema_and_classes_agree_about_any_changed_document(data, draw):
    check_agreement(at_random(data, draw))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_schema_and_classes_agree_about_any_document(data):
    check_agreement(data)
    check_agreement({"verdict": 1, "name": "x", "pipeline": [data]})
    check_agreement({"verdict": 1, "name": "x", "pipeline": [{"unit": "JudgeUnit", **data}]})
