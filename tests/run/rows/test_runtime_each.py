"""`each` is the graph written by hand with one copy for every entry; `when` the graph without the skipped part."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict_cli.messages import Request, Result
from verdict_cli.plan.node import Plan

WORDS = ("red", "blue", "green", "dog", "cat")
Step = dict[str, Any]


def answer(request: Request) -> str:
    """A score that the prompt and the copy of the unit decide, as a model that samples would give."""
    text = f"{request.written or request.node}|{request.call}|{request.attempt}|{request.messages}|{request.model.name}"
    digest = blake2b(text.encode(), digest_size=4).digest()
    if (request.json_schema or {}).get("properties", {}).get("choice"):
        return f'{{"choice": "{"AB"[digest[0] % 2]}"}}'
    if digest[1] % 7 == 0 and request.attempt == 0:
        return "unreadable"
    if request.json_schema is None:
        return "some text"
    return f'{{"score": {digest[0] % 5 + 1}}}'


def unit(draw: Any, name: str, entry: str, place: str) -> Step:
    """A judge that shows an entry; `entry` and `place` are how it is written in this graph."""
    prompt = f"{{source.document}} {place} {entry}"
    match draw:
        case "pair":
            return {
                "unit": "PairwiseJudgeUnit",
                "name": name,
                "prompt": f"{prompt} {{input.options}}",
                "options": ["source.a", "source.b"],
                "positions": "both",
                "propagate": {"score": "1 if output.choice == 'A' else 2"},
            }
        case "shuffled":
            return {
                "unit": "BestOfKJudgeUnit",
                "name": name,
                "prompt": f"{prompt} {{input.options}}",
                "options": ["source.a", "source.b"],
                "shuffle": True,
                "propagate": {"score": "1 if output.choice == 'A' else 2"},
            }
        case "post_hoc":
            return {"unit": "JudgeUnit", "name": name, "scale": "likert", "prompt": prompt, "extract": "post_hoc"}
        case "escalate":
            way = {"when": "output.score < 3", "to": "large"}
            return {"unit": "JudgeUnit", "name": name, "scale": "likert", "prompt": prompt, "escalate": way}
    return {"unit": "JudgeUnit", "name": name, "scale": "likert", "prompt": prompt}


def body(kinds: tuple[str, ...], entry: str, place: str) -> Step:
    """What runs for one entry: one unit, units side by side, or a layer that stops early with its pool."""
    steps: list[Step] = []
    for number, kind in enumerate(kinds):
        if kind == "repeat":
            steps.append({"layer": [unit("", f"u{number}", entry, place)], "repeat": 2})
        elif kind == "models":
            steps.append({"layer": [unit("", f"u{number}", entry, place)], "models": ["m", "large"]})
        elif kind == "until":
            layer = {"layer": [unit("", f"u{number}", entry, place)], "repeat": 5, "until": {"confidence": 0.7}}
            pool = {"unit": "ModePoolUnit", "name": f"p{number}", "field": "score"}
            steps.append({"block": [layer, pool]})
        else:
            steps.append(unit(kind, f"u{number}", entry, place))
    return steps[0] if len(steps) == 1 else {"layer": steps}


def pipelines(kinds: tuple[str, ...], texts: list[str], pool: Step) -> tuple[str, str]:
    """The pipeline with `each`, and the one written by hand."""
    each = {"each": "source.claims", "as": "claim", **body(kinds, "{claim.text}", "{index}")}
    copies = [body(kinds, f"{{source.claims[{place}].text}}", str(place)) for place in range(len(texts))]
    return tuple(yaml.safe_dump([step, pool], sort_keys=False) for step in (each, {"layer": copies, "outer": "dense"}))  # type: ignore[return-value]


KINDS = st.lists(
    st.sampled_from(["judge", "pair", "shuffled", "post_hoc", "escalate", "repeat", "models", "until"]),
    min_size=1,
    max_size=2,
).map(tuple)
POOLS = st.sampled_from(
    [
        {"unit": "MeanPoolUnit", "field": "score"},
        {"unit": "ModePoolUnit", "field": "score", "ties": "random"},
        {"unit": "MeanVariancePoolUnit", "field": "score"},
        {"unit": "MapUnit", "map": {"all": "outputs | map(attribute='score') | list", "n": "outputs | length"}},
    ]
)


def sent(result: Result) -> list[Any]:
    return [
        (call.request.written or call.request.node, call.request.call, call.request.attempt, call.request.messages)
        for call in result.calls
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=KINDS, texts=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), pool=POOLS, seed=st.integers(0, 9))
def test_each_is_the_graph_with_a_copy_for_every_entry(
    plan_of: Callable[..., Plan], model: Any, kinds: tuple[str, ...], texts: list[str], pool: Step, seed: int
) -> None:
    row = {"document": "d", "a": "one", "b": "two", "claims": [{"text": text} for text in texts]}
    results = [
        model(rule=answer).run(plan_of(textwrap.indent(text, "  ")), row, seed=seed, row_id="r")
        for text in pipelines(kinds, texts, pool)
    ]
    assert sent(results[0]) == sent(results[1])
    assert results[0].outputs[-1] == results[1].outputs[-1]
    assert results[0].failure == results[1].failure is None
    units = len(results[0].outputs) - 1
    flat = [results[0].outputs[unit][entry] for entry in range(len(texts)) for unit in range(units)]
    assert flat == list(results[1].outputs[:-1])
    assert sum(results[0].saved.values()) == sum(results[1].saved.values())
