"""Links between steps: the shared cases, and any pipeline against an oracle written from language.md, section 7."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paths import SHARED

from verdict_cli.errors import SpecError, UsageError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import Plan

CASES = SHARED / "spec" / "wiring-cases.json"
CASE_LIST = json.loads(CASES.read_text(encoding="utf-8"))["cases"] if CASES.exists() else []


def planned(pipeline: list, settings: tuple[str, ...] = ()) -> Plan:
    data = {"verdict": 1, "name": "x", "model": "m", "pipeline": pipeline}
    document = parse_document(json.dumps(data).encode(), "p.yaml")
    return build_plan(validate_document(apply_override(document, settings), Path())).plan


@pytest.mark.skipif(not CASE_LIST, reason="spec/wiring-cases.json is not there: set VERDICT_SHARED")
@pytest.mark.parametrize("case", CASE_LIST, ids=lambda case: case["name"])
def test_a_shared_case_is_wired_as_it_says(case):
    expected = case["expect"]
    if "error" in expected:
        with pytest.raises(SpecError) as caught:
            planned(case["pipeline"])
        assert [problem.code for problem in caught.value.problems] == ["unequal-sizes"]
        return
    plan = planned(case["pipeline"])
    assert [node.id for node in plan.nodes] == expected["nodes"]
    assert sorted(map(list, plan.edges)) == sorted(expected["edges"])
    assert [node.id for node in plan.nodes if not node.parents] == expected["roots"]
    assert [node.id for node in plan.nodes if not node.children] == expected["leaves"]
    assert [plan.nodes[index].id for index in plan.outputs] == expected["outputs"]


# The oracle decides for each two nodes whether they are linked, from the ways that lead to them.


class UnequalError(Exception):
    """Two layers that cannot be paired."""


def laid_out(step: dict) -> dict:
    """The step with the copies of a layer's items written out."""
    if "layer" in step:
        items = [laid_out(item) for item in step["layer"]] * step.get("repeat", 1)
        return {**step, "layer": items}
    return (
        {**step, "block": [laid_out(item) for item in step["block"]]} if "block" in step else step
    )


def items(step: dict) -> list | None:
    return step.get("layer") or step.get("block")


def ways(step: dict, way: tuple = ()):
    if items(step) is None:
        yield way, step["name"]
    for place, item in enumerate(items(step) or []):
        yield from ways(item, (*way, place))


def chosen(step: dict, key: str) -> list[int]:
    count = len(step["layer"])
    if key in step:
        places = sorted(place % count for place in step[key])
    else:
        places = [0] if key == "roots" and step.get("inner") == "chain" else list(range(count))
    return places[-1:] if key == "leaves" and step.get("outer") == "last" else places


def paired(before: dict, place: int, after: dict, other: int) -> bool:
    leaves, roots = chosen(before, "leaves"), chosen(after, "roots")
    mode = before.get("outer") or ("broadcast" if len(leaves) == len(roots) else "dense")
    if mode in ("broadcast", "cumulative") and len(leaves) != len(roots):
        raise UnequalError
    if place not in leaves or other not in roots:
        return False
    left, right = leaves.index(place), roots.index(other)
    return {"broadcast": left == right, "cumulative": left <= right}.get(mode, True)


def joined(before: dict, way: tuple, after: dict, to: tuple) -> bool:
    """Whether a link from one step to the next goes from this node of the one to that node of the other."""
    if "block" in before:
        last = len(before["block"]) - 1
        return way[0] == last and joined(before["block"][last], way[1:], after, to)
    if "layer" in before and "layer" in after:
        fits = paired(before, way[0], after, to[0])
        return fits and joined(before["layer"][way[0]], way[1:], after["layer"][to[0]], to[1:])
    if "layer" in before:
        return way[0] in chosen(before, "leaves") and joined(
            before["layer"][way[0]], way[1:], after, to
        )
    if "block" in after:
        return to[0] == 0 and joined(before, way, after["block"][0], to[1:])
    if "layer" in after:
        return to[0] in chosen(after, "roots") and joined(
            before, way, after["layer"][to[0]], to[1:]
        )
    return True


def linked(whole: dict, way: tuple, to: tuple) -> bool:
    here = whole
    while way[0] == to[0]:
        here, way, to = items(here)[way[0]], way[1:], to[1:]
    follows = to[0] == way[0] + 1 and ("block" in here or here.get("inner") == "chain")
    return follows and joined(items(here)[way[0]], way[1:], items(here)[to[0]], to[1:])


def given_on(step: dict, way: tuple) -> bool:
    if "block" in step:
        return way[0] == len(step["block"]) - 1 and given_on(step["block"][-1], way[1:])
    return "layer" not in step or (
        way[0] in chosen(step, "leaves") and given_on(step["layer"][way[0]], way[1:])
    )


def numbered(names: list[str]) -> list[str]:
    total, numbers = Counter(names), Counter()
    ids = []
    for name in names:
        ids.append(f"{name}[{numbers[name]}]" if total[name] > 1 else name)
        numbers[name] += 1
    return ids


UNITS = st.sampled_from("abc").map(
    lambda name: {"unit": "CoTUnit", "name": name, "prompt": "Think."}
)


@st.composite
def layers(draw, parts) -> dict:
    layer: dict = {"layer": draw(st.lists(parts, min_size=1, max_size=3))}
    layer["repeat"] = draw(st.integers(1, 3))
    count = len(layer["layer"]) * layer["repeat"]
    for key, values in (
        ("inner", ["none", "chain"]),
        ("outer", ["dense", "broadcast", "cumulative", "last"]),
    ):
        value = draw(st.none() | st.sampled_from(values))
        layer |= {key: value} if value else {}
    for key in ("roots", "leaves"):
        if draw(st.booleans()) and draw(st.booleans()):
            places = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True))
            layer[key] = [place - count if draw(st.booleans()) else place for place in places]
    return layer


STEPS = st.recursive(
    UNITS,
    lambda parts: (
        layers(parts) | st.lists(parts, min_size=1, max_size=3).map(lambda steps: {"block": steps})
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=4))
def test_any_pipeline_is_wired_as_the_language_says(pipeline):
    whole = laid_out({"block": pipeline})
    nodes = list(ways(whole))[:60]
    if len(list(ways(whole))) > 60:
        return
    ids = numbered([name for _, name in nodes])
    try:
        edges = {
            (ids[a], ids[b])
            for a, (way, _) in enumerate(nodes)
            for b, (to, _) in enumerate(nodes)
            if a != b and linked(whole, way, to)
        }
    except UnequalError:
        with pytest.raises(SpecError) as caught:
            planned(pipeline)
        assert {problem.code for problem in caught.value.problems} == {"unequal-sizes"}
        return
    plan = planned(pipeline)
    assert [node.id for node in plan.nodes] == ids
    assert set(plan.edges) == edges
    assert [plan.nodes[index].id for index in plan.outputs] == [
        name for name, (way, _) in zip(ids, nodes, strict=True) if given_on(whole, way)
    ]
    check_graph(plan)


def check_graph(plan: Plan) -> None:
    """Links only go forward, both ends know them, and every node is reached from one without predecessors."""
    reached = set()
    for place, node in enumerate(plan.nodes):
        assert node.index == place and all(parent < place for parent in node.parents)
        assert all(place in plan.nodes[parent].children for parent in node.parents)
        assert all(place in plan.nodes[child].parents for child in node.children)
        if not node.parents or reached.intersection(node.parents):
            reached.add(place)
    assert reached == set(range(len(plan.nodes)))


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.sampled_from(["chain", "none", "last", "JudgeUnit", "{previous.x}"]),
    lambda part: (
        st.lists(part, max_size=2)
        | st.dictionaries(st.sampled_from(["unit", "layer", "prompt"]), part)
    ),
    max_leaves=4,
)
PLACES = st.sampled_from(
    [
        "repeat",
        "inner",
        "outer",
        "roots",
        "leaves",
        "models",
        "layer",
        "unit",
        "prompt",
        "scale",
        "pin",
        "extract",
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=3), st.integers(-2, 3), PLACES, ANY)
@example([{"unit": "CoTUnit", "prompt": "Think."}], 0, "prompt", {"unit": []})
def test_any_setting_gives_a_plan_or_a_clear_error(pipeline, step, key, value):
    try:
        plan = planned(pipeline, (f"pipeline[{step}].{key}={json.dumps(value)}",))
    except UsageError as error:
        assert "--set" in error.message
    except SpecError as error:
        assert error.problems
        assert all(
            problem.message and (problem.line >= 1 <= problem.column or problem.file == "--set")
            for problem in error.problems
        )
    else:
        check_graph(plan)


def test_a_pipeline_has_a_limit_of_units():
    think = {"unit": "CoTUnit", "prompt": "Think."}
    with pytest.raises(SpecError, match="more than 10,000 units"):
        planned([{"layer": [think], "repeat": 10**20}])


def test_a_pipeline_has_a_limit_of_links():
    think = {"unit": "CoTUnit", "prompt": "Think."}
    with pytest.raises(SpecError, match="more than 1,000,000 links"):
        planned(
            [
                {"layer": [think], "repeat": 1001, "outer": "dense"},
                {"layer": [think], "repeat": 1001},
            ]
        )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"roots": [3]}, "no item 3"),
        ({"leaves": [-4]}, "no item -4"),
        ({"leaves": [0, -3]}, "named twice"),
        ({"repeat": 3, "models": ["a"]}, "both `repeat` and `models`"),
    ],
)
def test_a_layer_that_makes_no_sense_is_refused(keys, message):
    layer = {"layer": [{"unit": "CoTUnit", "prompt": "Think."}], "repeat": 3}
    with pytest.raises(SpecError, match=message):
        planned([{**layer, **keys}])
