"""Pipelines written for haizelabs' `verdict` 0.2.7 run in it and in `verdict_cli.compat`, against one server.

Prompts, roles, calls, parameters, names of columns and values are compared. What differs is exactly what the tables of
docs/from-verdict.md list. The library is in an environment of its own: its dependencies conflict with this project's.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_server import MARKER, Sent, opened

import verdict_cli.compat

pytestmark = pytest.mark.ancestor

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ANCESTOR = Path(
    os.environ.get("VERDICT_ANCESTOR", ROOT / ".venv-ancestor" / "bin" / "python")
).absolute()
CASES = [
    node.name
    for node in ast.parse((HERE / "cases.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
]
NONCE = re.compile(r"^[A-Za-z]{10}\n")


@dataclass
class Outcome:
    """What one library did: the outputs of each case, and the requests that it sent."""

    results: dict[str, dict[str, Any]]
    sent: dict[str, list[Sent]]


def run(python: Path | str, library: str, folder: Path) -> Outcome:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if library != "verdict":
        environ["PYTHONPATH"] = str(ROOT)
    with opened() as server:
        done = subprocess.run(
            [str(python), str(HERE / "run_cases.py"), library, server.url],
            cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return Outcome(json.loads(done.stdout.splitlines()[-1]), dict(server.sent))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """(theirs, ours)."""
    if not ANCESTOR.exists():
        pytest.skip(
            f"haizelabs' `verdict` is not installed for {ANCESTOR.name}: make test-ancestor, or VERDICT_ANCESTOR=PYTHON"
        )
    folder = tmp_path_factory.mktemp("ancestor")
    return run(ANCESTOR, "verdict", folder), run(sys.executable, "verdict_cli.compat", folder)


def counted(sent: Iterable[Sent], key: Callable[[Sent], Any]) -> Counter[str]:
    return Counter(str(found) for one in sent if (found := key(one)))


def model(sent: Sent) -> str:
    return sent.model.rpartition("/")[2]


def parameters(sent: Sent) -> Any:
    return model(sent), {
        name: sent.body.get(name) for name in ("temperature", "top_p", "max_tokens", "top_logprobs")
    }


def sentence(sent: Sent) -> str:
    """The text behind the marker of a token prompt."""
    if sent.form != "logprobs":
        return ""
    return " ".join(str(sent.body["messages"][-1]["content"]).partition(MARKER)[2].split())


def number(value: Any) -> Any:
    """The value with numbers that are equal as one number: 4 as 4.0, 0.7499999 as 0.75."""
    if isinstance(value, bool | int | float):
        return round(float(value), 9)
    if isinstance(value, dict):
        return {name: number(item) for name, item in value.items()}
    return [number(item) for item in value] if isinstance(value, list) else value


def differences(case: str, theirs: Outcome, ours: Outcome) -> set[str]:
    """In what the two libraries differ."""
    ended, ended_here = theirs.results[case], ours.results[case]
    if "error" in ended or "error" in ended_here:
        return {"outcome"}
    sent, sent_here = theirs.sent.get(case, []), ours.sent.get(case, [])
    found = {"calls"} if len(sent) != len(sent_here) else set()
    keys: dict[str, Callable[[Sent], Any]] = {
        "prompts": lambda one: (one.core, model(one)),
        "roles": lambda one: one.roles,
        "parameters": parameters,
        "sentence": sentence,
    }
    found |= {name for name, key in keys.items() if counted(sent, key) != counted(sent_here, key)}
    outputs, outputs_here = ended["outputs"], ended_here["outputs"]
    if set(outputs) != set(outputs_here) or ended["leaves"] != ended_here["leaves"]:
        found.add("columns")
    values, values_here = (
        sorted(
            str(number(given[name]))
            for name in ended["leaves"]
            if name in outputs and name in outputs_here
        )
        for given in (outputs, outputs_here)
    )
    return found | ({"values"} if values != values_here else set())


def listed() -> dict[str, set[str]]:
    """What the page lists: (differences of each case)."""
    page = (ROOT / "docs" / "from-verdict.md").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for _, aspects, cases in re.findall(
        r"^\| (D\d+) \| ([a-z, ]+) \| ((?:`\w+`,? ?)+) \|", page, re.MULTILINE
    ):
        for case in re.findall(r"`(\w+)`", cases):
            found.setdefault(case, set()).update(aspect.strip() for aspect in aspects.split(","))
    return found


def test_the_page_lists_cases_that_exist_each_under_numbers_that_follow_each_other() -> None:
    assert set(listed()) <= set(CASES)
    page = (ROOT / "docs" / "from-verdict.md").read_text(encoding="utf-8")
    numbers = [int(found) for found in re.findall(r"^\| D(\d+) \|", page, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert re.findall(r"^\| (E\d+) \|", page, re.MULTILINE) == ["E1", "E2", "E3"]
    assert len(CASES) >= 33


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_differs_in_what_the_page_lists_and_in_nothing_else(
    case: str, both: tuple[Outcome, Outcome]
) -> None:
    theirs, ours = both
    assert "error" not in ours.results[case]
    said = theirs.results[case], ours.results[case], theirs.sent.get(case), ours.sent.get(case)
    assert differences(case, theirs, ours) == listed().get(case, set()), said


def test_the_differences_of_every_call_are_those_of_the_page(both: tuple[Outcome, Outcome]) -> None:
    theirs, ours = ([one for sent in outcome.sent.values() for one in sent] for outcome in both)
    for one in theirs:
        text = one.body["messages"][-1]["content"]
        if one.form == "logprobs":
            assert re.match(r"\s*\[\{'type': 'text'", text), "E3: a list as Python prints it"
        else:
            assert isinstance(text, list) and NONCE.match(text[0]["text"]), "E1: ten random letters"
    assert {one.form for one in theirs} == {"tools", "logprobs", "text"}, "E2"
    assert {one.form for one in ours} == {"response_format", "logprobs", "text"}, "E2"
    for one in ours:
        for message in one.body["messages"]:
            texts = (
                [part["text"] for part in message["content"] if "text" in part]
                if isinstance(message["content"], list)
                else [message["content"]]
            )
            assert not any(NONCE.match(text) or "{'type'" in text for text in texts), "E1, E3"


NAMES = """
import importlib, inspect, json, pathlib, verdict
root, names = pathlib.Path(verdict.__file__).parent, []
for path in sorted(root.rglob("*.py")):
    if path.stem != "__init__":
        module = importlib.import_module(".".join(("verdict", *path.relative_to(root).with_suffix("").parts)))
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__
            names += [name] if own and name[0] != "_" and (inspect.isclass(value) or inspect.isfunction(value)) else []
print(json.dumps(names))
"""


def test_every_public_name_of_the_library_is_on_the_page(tmp_path: Path) -> None:
    if not ANCESTOR.exists():
        pytest.skip("haizelabs' `verdict` is not installed: make test-ancestor")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [ANCESTOR, "-c", NAMES],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    names = json.loads(done.stdout.splitlines()[-1])
    page = (ROOT / "docs" / "from-verdict.md").read_text(encoding="utf-8")
    assert len(names) > 90
    assert [name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`", page)] == []
    compat = set(verdict_cli.compat.__all__)
    shown = page.partition("### Names without a counterpart")[0]
    hidden = {
        name
        for line in shown.splitlines()
        for part in re.findall(r"[^|;]*\(not in compat\)", line)
        for name in re.findall(r"`([A-Za-z]+)`", part)
    }
    assert hidden.isdisjoint(compat)
    assert [name for name in compat & set(names) if not re.search(rf"\b{name}\b", shown)] == [
        "Scale"
    ]
