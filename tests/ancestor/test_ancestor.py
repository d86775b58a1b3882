"""Pipelines of haizelabs' `verdict` 0.2.7 and the same in `verdict_cli`'s names run against one server.

Prompts, roles, calls, parameters, fields and values are compared. What differs is exactly what DIFFERENCES lists. The
library is in an environment of its own: its dependencies conflict with this project's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_server import Sent, opened
from ours import CASES, Case

from verdict_cli.language.conversation import looks_like_conversation, transcript

pytestmark = pytest.mark.ancestor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ANCESTOR = Path(
    os.environ.get("VERDICT_ANCESTOR", ROOT / ".venv-ancestor" / "bin" / "python")
).absolute()
NONCE = re.compile(r"^[A-Za-z]{10}\n")
TOKEN_FIELDS = {"fields", "parameters"}
"""Token scores have the probability of the scale's values, and as many tokens are requested as the longest value needs."""
DIFFERENCES = {
    "argmax": TOKEN_FIELDS,
    "token_probability": TOKEN_FIELDS,
    "weighted_1_to_5": TOKEN_FIELDS,
    "weighted_1_to_10": TOKEN_FIELDS,
    # The token ` yes` is "yes" too.
    "weighted_boolean": TOKEN_FIELDS | {"values"},
    # The second call has other words.
    "post_hoc": {"prompts"},
    # A retry shows the model its unusable reply, and what was wrong with it.
    "validate_retries": {"prompts", "roles"},
    # The first unit of the next layer receives the first output, as in figure 2 of the paper; there it receives all.
    "cumulative": {"values"},
    # The library gives `{}` in the place of mean and variance.
    "g_eval_repeated": {"fields", "values"},
    # The library also pools the explanations.
    "max_of_explained": {"fields"},
    # The output has the letter and the option's text, there the text alone.
    "pairwise_original": {"fields"},
    "best_of_k_original": {"fields"},
    "ranker_original": {"fields"},
    # With `explanation` the library's schema loses the categories: "maybe" passes for "safe" or "unsafe".
    "categorical_off_scale": {"calls", "parameters", "prompts", "roles", "values"},
    # `DiscreteScale([1, 5])` stops the library at the first reply.
    "jury_of_figure_4": {"outcome"},
    # The library stops at the mean of texts.
    "mean_of_explained": {"outcome"},
    # `propagate` of the library needs a function of four arguments.
    "propagate_output_alone": {"outcome"},
    # A pinned unit never ends in the library.
    "pinned": {"outcome"},
    # The prompt of the library keeps `type='image/png' data='…'` beside the image.
    "image": {"prompts"},
    # The library's HTTP client repeats a failed attempt once by itself.
    "policy_of_two_models": {"prompts", "parameters"},
    # In a chain of the library, a block follows the first unit of the block before it.
    "chain_of_blocks": {"values"},
}


@dataclass
class Outcome:
    """What one library did: the outputs of each case, and the requests that it sent."""

    results: dict[str, dict[str, Any]]
    sent: dict[str, list[Sent]]


def run_theirs(folder: Path) -> Outcome:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with opened() as server:
        done = subprocess.run(
            [str(ANCESTOR), str(HERE / "run_theirs.py"), server.url],
            cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return Outcome(json.loads(done.stdout.splitlines()[-1]), dict(server.sent))


def run_ours() -> Outcome:
    results = {}
    with opened() as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENAI_API_KEY", "sk-loopback")
        for name, case in CASES.items():
            patched.setenv("OPENAI_BASE_URL", f"{server.url}/{name}/v1")
            results[name] = outputs_of(case)
        return Outcome(results, dict(server.sent))


def outputs_of(case: Callable[[], Case]) -> dict[str, Any]:
    """The fields of all units, and with their values those of the units that nothing follows."""
    pipeline, data = case()
    plan = pipeline.plan()
    parents = {parent for node in plan.nodes for parent in node.parents}
    outputs: dict[str, dict[str, Any]] = {}
    if isinstance(data, list):
        table = pipeline.run_dataset(data)
        for node in plan.nodes:
            columns = [name for name in table if str(name).startswith(f"{node.id}.")]
            outputs[node.id] = {
                name.removeprefix(f"{node.id}."): table[name].tolist() for name in columns
            }
    else:
        outputs = {name: dict(output) for name, output in pipeline.run(data).nodes.items()}
    leaves = [node.id for node in plan.nodes if node.index not in parents]
    return {
        "fields": [field for output in outputs.values() for field in output],
        "leaves": [
            (field, plain(value)) for leaf in leaves for field, value in outputs[leaf].items()
        ],
    }


def plain(value: Any) -> Any:
    """The value as JSON has it; a conversation as a prompt shows it."""
    if isinstance(value, list | tuple):
        turns = [plain(item) for item in value]
        return transcript(turns) if looks_like_conversation(turns) else turns
    if hasattr(value, "keys"):
        return {name: plain(value[name]) for name in value}
    return value


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """(theirs, ours)."""
    if not ANCESTOR.exists():
        pytest.skip(
            f"haizelabs' `verdict` is not installed for {ANCESTOR.name}: make test-ancestor, or VERDICT_ANCESTOR=PYTHON"
        )
    return run_theirs(tmp_path_factory.mktemp("ancestor")), run_ours()


def counted(sent: Iterable[Sent], key: Callable[[Sent], Any]) -> Counter[str]:
    return Counter(str(key(call)) for call in sent)


def model(sent: Sent) -> str:
    return sent.model.rpartition("/")[2]


def parameters(sent: Sent) -> Any:
    return model(sent), {
        name: sent.body.get(name) for name in ("temperature", "top_p", "max_tokens", "top_logprobs")
    }


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
    if "error" in ended:
        return {"outcome"}
    sent, sent_here = theirs.sent.get(case, []), ours.sent.get(case, [])
    aspects: dict[str, Callable[[Sent], Any]] = {
        "prompts": lambda call: (call.core, model(call)),
        "roles": lambda call: call.roles,
        "parameters": parameters,
    }
    differing = {
        name for name, key in aspects.items() if counted(sent, key) != counted(sent_here, key)
    }
    if len(sent) != len(sent_here):
        differing.add("calls")
    if Counter(ended["fields"]) != Counter(ended_here["fields"]):
        differing.add("fields")
    fields = {name for name, _ in ended["leaves"]} & {name for name, _ in ended_here["leaves"]}
    values, values_here = (
        sorted(str((name, number(value))) for name, value in leaves if name in fields)
        for leaves in (ended["leaves"], ended_here["leaves"])
    )
    if values != values_here:
        differing.add("values")
    return differing


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_differs_in_what_is_listed_and_in_nothing_else(case, both):
    theirs, ours = both
    details = theirs.results[case], ours.results[case], theirs.sent.get(case), ours.sent.get(case)
    assert differences(case, theirs, ours) == DIFFERENCES.get(case, set()), details


def test_each_library_runs_the_same_cases(both):
    theirs, ours = both
    assert list(theirs.results) == list(ours.results)
    assert DIFFERENCES.keys() <= CASES.keys()


def test_no_request_has_the_random_letters_and_the_printed_lists_of_the_library(
    both,
):
    theirs, ours = ([call for sent in outcome.sent.values() for call in sent] for outcome in both)
    for call in theirs:
        text = call.body["messages"][-1]["content"]
        if call.form == "logprobs":
            assert re.match(r"\s*\[\{'type': 'text'", text), "a list as Python prints it"
        else:
            assert isinstance(text, list) and NONCE.match(text[0]["text"]), "ten random letters"
    assert {call.form for call in theirs} == {"tools", "logprobs", "text"}
    assert {call.form for call in ours} == {"response_format", "logprobs", "text"}
    for call in ours:
        for message in call.body["messages"]:
            parts = message["content"]
            texts = [parts] if isinstance(parts, str) else [part.get("text", "") for part in parts]
            assert not any(NONCE.match(text) or "{'type'" in text for text in texts)


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


def test_every_public_name_of_the_library_is_on_the_page(tmp_path):
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
