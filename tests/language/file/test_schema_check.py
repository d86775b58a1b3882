"""The shipped JSON Schema, for editors, refuses what the program refuses as far as a schema can say it."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from shutil import which
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from paths import ROOT
from shell import needs

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.source_positions import Document, Position, ValueNode
from verdict_cli.plan.build import load_plan

SHIPPED = ROOT / "schemas" / "pipeline.schema.json"
VALIDATOR = Draft202012Validator(orjson.loads(SHIPPED.read_bytes()))
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
PIPELINES = [
    path
    for path in CONFIGS
    if b"\npipeline:" in path.read_bytes() and path.parent.name != "studies"
]

JUDGE = {"unit": "JudgeUnit", "prompt": "{source.a}"}


def file(step: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {
        "verdict": 1,
        "name": "p",
        "model": "baseline/lexical",
        "pipeline": [step or JUDGE],
        **keys,
    }


def document(data: Any) -> Document:
    return Document("p.yaml", data, ValueNode(data, Position(1, 1)))


def problems(data: Any) -> tuple[Problem, ...]:
    try:
        load_plan(document(data), ROOT / "configs")
    except SpecError as error:
        return error.problems
    return ()


WRONG = [
    file({**JUDGE, "unit": "JugeUnit"}),
    file({"layer": [{**JUDGE, "unit": "CotUnit"}], "repeat": 2}),
    file({"block": [JUDGE, {**JUDGE, "unit": "JudgeUnits"}]}),
    file({"use": "b"}, blocks={"b": [{"unit": "MeanPool"}]}),
    file(blocks={"unused": [{"layer": [{**JUDGE, "unit": "JugeUnit"}]}]}),
    file(blocks={"unused": [{**JUDGE, "scale": "bolean"}]}),
    file({**JUDGE, "scale": "bolean"}),
    file({"layer": [{**JUDGE, "scale": "licert"}]}),
    file({**JUDGE, "scale": {"type": "discreet"}}),
    file({**JUDGE, "scale": {"range": ["1", "5"]}}),
    file({**JUDGE, "extract": "regexp"}),
    file({**JUDGE, "extract": {"type": "strucured"}}),
    file({**JUDGE, "promt": "x"}),
    file({"layer": [JUDGE], "repeats": 3}),
    file({"layer": [JUDGE], "inner": "sequence"}),
    file(evaluate={"my metric/1": {"value": "output.score"}}),
    file(evaluate={"x": {"value": "output.score", "metrics": ["acuracy"]}}),
    file(evaluate={"x": {"panel": ["output.score", "output.score"], "value": "output.score"}}),
    file(evaluate={"x": {"value": "output.score", "target": "source.y"}}),
    file(evaluate={"x": {"gold": {"target": "source.y"}}}),
    file(evaluate={"x": {"prediction": "output.score"}}),
    file({"unit": "JudgeUnit"}),
    file({"unit": "Unit", "prompt": "x"}),
    file({"unit": "RubricUnit", "prompt": "x", "criteria": ["a"], "n": 5}),
    file({"unit": "BestOfKJudgeUnit", "prompt": "x"}),
    file({"unit": "CategoricalJudgeUnit", "prompt": "x"}),
    file(
        {
            "unit": "CategoricalJudgeUnit",
            "prompt": "x",
            "categories": ["a", "b"],
            "scale": "boolean",
        }
    ),
    file(
        {"layer": [JUDGE], "repeat": 2},
        pipeline=[JUDGE, {"unit": "MeanPoolUnit", "field": "score", "fields": ["score"]}],
    ),
    file({**JUDGE, "scale": {"type": "discrete"}}),
    file({**JUDGE, "scale": {"range": [1, 5], "values": [1, 2]}}),
    file({**JUDGE, "extract": {"type": "regex"}}),
    file(
        {
            **JUDGE,
            "extract": {"type": "regex", "pattern": "FIRST_INT", "fields": {"score": "FIRST_INT"}},
        }
    ),
    file(
        {
            **JUDGE,
            "scale": "1-5",
            "extract": {"type": "token_probability", "first_token": True, "after": "x"},
        }
    ),
    file(
        {
            **JUDGE,
            "scale": "1-5",
            "extract": {"type": "token_probability", "first_token": True, "sequence": True},
        }
    ),
    file({**JUDGE, "scale": "1-5", "extract": {"type": "weighted_summed_score", "min_mass": 3}}),
    file(gates=[{"metric": "x.accuracy", "minimum": 0.8}]),
    file(model={"name": "m", "temprature": 0.1}),
    file(models={"m": {"name": "m", "retries": -1}}),
]


@pytest.mark.parametrize("data", WRONG, ids=lambda data: json.dumps(data["pipeline"])[:60])
def test_a_wrong_file_is_refused_by_the_schema_too(data):
    assert problems(data)
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        file({"unit": "Mine", "prompt": "x"}, units={"Mine": {"base": "JudgeUnit"}}),
        file({**JUDGE, "scale": "mine"}, scales={"mine": {"range": [1, 3]}}),
        *(
            file({**JUDGE, "scale": name})
            for name in ("likert", "boolean", "continuous", "1-10", "-3-3")
        ),
        file({**JUDGE, "scale": {"range": ["a", "e"]}}),
    ],
    ids=lambda data: json.dumps(data["pipeline"])[:60],
)
def test_declared_and_built_in_names_are_accepted(data):
    assert (problems(data), VALIDATOR.is_valid(data)) == ((), True)


@pytest.mark.parametrize(
    ("parts", "place", "code"),
    [
        ({"blocks": {"unused": [{"unit": "JudgeUnit"}]}}, "blocks.unused[0]", "missing-key"),
        ({"blocks": {"unused": [{"unit": "Unit", "prompt": "x"}]}}, "blocks.unused[0]", "bad-unit"),
        ({"blocks": {"unused": [{**JUDGE, "scale": {"type": "discrete"}}]}}, "blocks.unused[0].scale", "bad-scale"),
        ({"blocks": {"unused": [{**JUDGE, "extract": {"type": "regex"}}]}}, "blocks.unused[0].extract", "bad-extractor"),
        ({"scales": {"unused": {"type": "discrete"}}}, "scales.unused", "bad-scale"),
    ],
)  # fmt: skip
def test_a_part_that_nobody_uses_is_refused_in_the_words_of_its_class(parts, place, code):
    data = file(**parts)
    assert [(problem.path, problem.code) for problem in problems(data)] == [(place, code)]
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        file({"unit": "RubricUnit", "prompt": "x", "n": 5, "criteria": None}),
        file({**JUDGE, "scale": {"range": [1, 5], "values": None}}),
        file(
            {
                **JUDGE,
                "scale": "1-5",
                "extract": {"type": "token_probability", "first_token": False, "after": "x"},
            }
        ),
    ],
    ids=lambda data: json.dumps(data["pipeline"])[:60],
)
def test_an_empty_key_counts_as_absent(data):
    assert (problems(data), VALIDATOR.is_valid(data)) == ((), True)


def test_every_wrong_file_of_the_findings_is_refused(shared):
    path = shared / "findings" / "cases" / "schema" / "wrong.jsonl"
    if not path.is_file():
        pytest.skip("the findings are not there")
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [case["what"] for case in cases if VALIDATOR.is_valid(case["file"])] == []


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_every_shipped_pipeline_is_accepted(path):
    assert [error.message for error in VALIDATOR.iter_errors(read_document(path).data)] == []


# What only the program can know, by the codes of its problems in files that the schema accepts.
ONLY_PROGRAM = {
    # texts with a grammar of their own
    "bad-expression", "bad-placeholder", "unknown-type",
    # names that other parts of the file declare, and the graph
    "unknown-block", "unknown-unit", "unknown-scale", "no-such-item", "no-model", "no-each", "nothing-to-pool", "bad-weights",
    "name-used-twice", "unequal-sizes", "field-type", "type-mismatch", "not-numeric",
    # keys that need or exclude others
    "missing-key", "bad-unit", "bad-evaluation", "bad-gate", "bad-extractor", "bad-scale", "bad-examples",
    # keys of a declared type, which are those of its base
    "unknown-key", "wrong-type", "wrong-value",
    # other files and the environment
    "bad-file", "file-not-found", "outside", "foreign-host", "unset-variable", "bad-calibration",
}  # fmt: skip
WORDS = (
    "x",
    "",
    "JudgeUnit",
    "likert",
    3,
    0,
    -1,
    0.5,
    True,
    None,
    [],
    {},
    ["x"],
    {"x": 1},
    "{source.nobody.x}",
    "output.score",
)


def spots(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every collection in the data with each of its keys or indices."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield data, key
            yield from spots(value)


def changed(data: Any, draw: random.Random) -> Any:
    """A copy with one change: a misspelled key or word, another value, a key that is gone."""
    changed_data = copy.deepcopy(data)
    owner, key = draw.choice(list(spots(changed_data)))
    misspell: Callable[[str], str] = lambda word: str(word)[:-1] + draw.choice("sxe_")  # noqa: E731
    match draw.randrange(4):
        case 0 if isinstance(owner, dict):
            owner[misspell(key)] = owner.pop(key)
        case 1:
            del owner[key]
        case 2 if isinstance(owner[key], str) and owner[key]:
            owner[key] = misspell(owner[key])
        case _:
            owner[key] = draw.choice(WORDS)
    return changed_data


@needs("batches", "rank")
def test_the_schema_refuses_what_it_can_say_and_nothing_else():
    """Both directions, over drawn changes of shipped files."""
    draw, only_program = random.Random(1), Counter[str]()
    for path in draw.sample(PIPELINES, 40):
        for _ in range(4):
            data = changed(read_document(path).data, draw)
            found_problems, accepted = problems(data), VALIDATOR.is_valid(data)
            assert not (accepted is False and not found_problems), (
                path.stem,
                [error.message for error in VALIDATOR.iter_errors(data)],
            )
            if found_problems and accepted:
                only_program.update(problem.code for problem in found_problems)
    assert set(only_program) <= ONLY_PROGRAM, only_program


@pytest.mark.skipif(
    which("yaml-language-server") is None, reason="yaml-language-server is not installed"
)
def test_an_editor_shows_an_error_in_each_wrong_file_and_none_in_a_shipped_one(
    tmp_path,
):
    import yaml

    texts = [yaml.safe_dump(data) for data in WRONG]
    shipped = [path.read_text(encoding="utf-8") for path in PIPELINES]
    diagnostic_counts = diagnostics([*texts, *shipped])
    assert [count > 0 for count in diagnostic_counts] == [True] * len(texts) + [False] * len(
        shipped
    )


def diagnostics(texts: list[str]) -> list[int]:
    """How many errors yaml-language-server shows for each text."""
    schema = SHIPPED.as_uri()
    settings = {
        "yaml": {"schemas": {schema: "*.yaml"}, "validate": True, "schemaStore": {"enable": False}}
    }
    with subprocess.Popen(
        ["yaml-language-server", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stdout is not None

        def send(**message: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]

        def receive() -> dict[str, Any]:
            length = 0
            while line := server.stdout.readline().strip():  # type: ignore[union-attr]
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message: dict[str, Any] = json.loads(server.stdout.read(length))  # type: ignore[union-attr]
            if message.get("method") == "workspace/configuration":
                wanted = [settings.get(item.get("section")) for item in message["params"]["items"]]
                send(id=message["id"], result=wanted)
            elif "id" in message and "method" in message:
                send(id=message["id"], result=None)
            return message

        capabilities = {
            "textDocument": {"publishDiagnostics": {}},
            "workspace": {"configuration": True},
        }
        send(
            id=1,
            method="initialize",
            params={"processId": None, "rootUri": None, "capabilities": capabilities},
        )
        while receive().get("id") != 1:
            pass
        send(method="initialized", params={})
        send(method="workspace/didChangeConfiguration", params={"settings": settings})
        counts: list[int] = []
        for number, text in enumerate(texts):
            uri = f"file:///texts/{number}.yaml"
            item = {
                "uri": uri,
                "languageId": "yaml",
                "version": 1,
                "text": text.partition("\n")[2] if text[0] == "#" else text,
            }
            send(method="textDocument/didOpen", params={"textDocument": item})
            while (message := receive()).get(
                "method"
            ) != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
                pass
            counts.append(len(message["params"]["diagnostics"]))
        server.kill()
    return counts
