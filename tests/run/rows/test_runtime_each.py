"""`each` is the graph written by hand with one copy for every entry; `when` the graph without the skipped part."""

from __future__ import annotations

import textwrap
from hashlib import blake2b
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdict_cli.messages import Request, Result

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
            return {
                "unit": "JudgeUnit",
                "name": name,
                "scale": "likert",
                "prompt": prompt,
                "extract": "post_hoc",
            }
        case "escalate":
            way = {"when": "output.score < 3", "to": "large"}
            return {
                "unit": "JudgeUnit",
                "name": name,
                "scale": "likert",
                "prompt": prompt,
                "escalate": way,
            }
    return {"unit": "JudgeUnit", "name": name, "scale": "likert", "prompt": prompt}


def body(kinds: tuple[str, ...], entry: str, place: str) -> Step:
    """What runs for one entry: one unit, units side by side, or a layer that stops early with its pool."""
    steps: list[Step] = []
    for number, kind in enumerate(kinds):
        if kind == "repeat":
            steps.append({"layer": [unit("", f"u{number}", entry, place)], "repeat": 2})
        elif kind == "models":
            steps.append(
                {"layer": [unit("", f"u{number}", entry, place)], "models": ["m", "large"]}
            )
        elif kind == "until":
            layer = {
                "layer": [unit("", f"u{number}", entry, place)],
                "repeat": 5,
                "until": {"confidence": 0.7},
            }
            pool = {"unit": "ModePoolUnit", "name": f"p{number}", "field": "score"}
            steps.append({"block": [layer, pool]})
        else:
            steps.append(unit(kind, f"u{number}", entry, place))
    return steps[0] if len(steps) == 1 else {"layer": steps}


def pipelines(kinds: tuple[str, ...], texts: list[str], pool: Step) -> tuple[str, str]:
    """The pipeline with `each`, and the one written by hand."""
    each = {"each": "source.claims", "as": "claim", **body(kinds, "{claim.text}", "{index}")}
    copies = [
        body(kinds, f"{{source.claims[{place}].text}}", str(place)) for place in range(len(texts))
    ]
    return tuple(
        yaml.safe_dump([step, pool], sort_keys=False)
        for step in (each, {"layer": copies, "outer": "dense"})
    )  # type: ignore[return-value]


KINDS = st.lists(
    st.sampled_from(
        ["judge", "pair", "shuffled", "post_hoc", "escalate", "repeat", "models", "until"]
    ),
    min_size=1,
    max_size=2,
).map(tuple)
POOLS = st.sampled_from(
    [
        {"unit": "MeanPoolUnit", "field": "score"},
        {"unit": "ModePoolUnit", "field": "score", "ties": "random"},
        {
            "unit": "MapUnit",
            "map": {"all": "outputs | map(attribute='score') | list", "n": "outputs | length"},
        },
    ]
)


def sent(result: Result) -> list[Any]:
    return [
        (
            call.request.written or call.request.node,
            call.request.call,
            call.request.attempt,
            call.request.messages,
        )
        for call in result.calls
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=KINDS,
    texts=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    pool=POOLS,
    seed=st.integers(0, 9),
)
def test_each_is_the_graph_with_a_copy_for_every_entry(
    plan_of,
    model,
    kinds,
    texts,
    pool,
    seed,
):
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


CONDITIONS = st.lists(st.booleans(), min_size=2, max_size=4)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=CONDITIONS, kind=st.sampled_from(["judge", "pair", "escalate"]), pool=POOLS)
def test_when_is_the_graph_without_the_skipped_part(plan_of, model, runs, kind, pool):
    if not any(runs):
        runs = [*runs, True]
    units = [unit(kind, f"u{number}", "x", "y") for number in range(len(runs))]
    gated = [{"when": f"source.run[{number}]", **step} for number, step in enumerate(units)]
    running = [step for step, run in zip(units, runs, strict=True) if run]
    row = {"document": "d", "a": "one", "b": "two", "run": runs}
    results = [
        model(rule=answer).run(
            plan_of(textwrap.indent(yaml.safe_dump([{"layer": layer}, pool]), "  ")),
            row,
            row_id="r",
        )
        for layer in (gated, running)
    ]
    assert sent(results[0]) == sent(results[1])
    assert [output for output in results[0].outputs[:-1] if output is not None] == list(
        results[1].outputs[:-1]
    )
    if pool["unit"] == "MapUnit":  # `outputs` has none in the place of a skipped unit
        return
    assert results[0].outputs[-1] == results[1].outputs[-1]


JUDGE = '{unit: JudgeUnit, name: check, scale: boolean, prompt: "{claim.text}", each: source.claims, as: claim%s}'
YES = lambda _: '{"score": true}'  # noqa: E731


def run_each(plan_of: Any, model: Any, claims: Any, keys: str = "", then: str = "") -> Any:
    fake = model(rule=YES)
    return fake, fake.run(plan_of(f"  - {JUDGE % keys}\n{then}"), {"claims": claims})


@pytest.mark.parametrize(
    ("claims", "keys", "message"),
    [
        ("text", "", "gives 'text', not a list"),
        ({"text": "a"}, "", "not a list"),
        ([{"text": "a"}, None], "", "entry 1: it is null"),
        ([{"text": "a"}, {"text": None}], "", "entry 1: claim.text is null"),
        ([{"text": "a"}, "b"], "", "entry 1: claim.text: claim has no 'text'"),
        (
            [{"text": "a"}, {"words": "b"}],
            "",
            "entry 1: claim.text: claim has no 'text', only words",
        ),
        ([{"text": "a"}] * 3, ", max: 2", "gives 3 entries, more than `max: 2`"),
        ([{"text": "a"}] * 101, "", "gives 101 entries, more than `max: 100`"),
    ],
)
def test_a_bad_list_fails_its_row_before_its_first_call(plan_of, model, claims, keys, message):
    fake, result = run_each(plan_of, model, claims, keys)
    assert fake.requests == []
    assert result.failure.node == "check"
    assert result.failure.kind == "input"
    assert message in result.failure.message


def test_entries_of_a_declared_type_are_read_before_the_first_call(plan_of, model):
    split = '  - {unit: Unit, name: split, response: {claims: "list[str]"}, prompt: x, propagate: {claims: "[1, 2]"}}\n'
    each = '  - {unit: JudgeUnit, scale: boolean, prompt: "{item}", each: previous.claims}\n'
    fake = model(rule=lambda _: '{"claims": ["a"]}')
    assert fake.run(plan_of(split + each)).failure is not None


def test_an_empty_list_gives_a_pool_nothing(plan_of, model):
    _, failed = run_each(plan_of, model, [], then="  - {unit: MeanPoolUnit, field: score}")
    assert (failed.failure.node, failed.failure.kind) == ("mean_pool", "empty-list")
    _, result = run_each(
        plan_of, model, [], then="  - {unit: MeanPoolUnit, field: score, empty: 0.5}"
    )
    assert result.outputs == ([], {"score": 0.5})
    _, result = run_each(
        plan_of, model, [], then='  - {unit: MapUnit, map: {n: "outputs | length"}}'
    )
    assert result.outputs == ([], {"n": 0})


def test_an_entry_has_its_own_condition(plan_of, model):
    claims = [{"text": "a", "ask": True}, {"text": "b", "ask": False}, {"text": "c", "ask": True}]
    then = "  - {unit: JudgeUnit, scale: boolean, prompt: '{previous.check.score}'}"
    fake, result = run_each(plan_of, model, claims, ", when: claim.ask", then)
    assert [entry and entry["score"] for entry in result.outputs[0]] == [True, None, True]
    assert fake.prompts()[-1].startswith("[true,true]\n")
    assert [request.row.item for request in fake.requests] == ["0", "2", ""]


def test_what_needs_a_skipped_unit_is_skipped_and_what_does_not_is_run(plan_of, model):
    steps = """
  - {unit: JudgeUnit, name: triage, scale: likert, prompt: t, when: source.ask}
  - {unit: JudgeUnit, name: free, scale: likert, prompt: f}
  - {unit: JudgeUnit, name: bound, scale: likert, prompt: "{previous.triage.score}"}
  - unit: MapUnit
    map: {score: "previous.triage.score if previous.triage is defined else 0", more: "previous.bound.score is defined"}
"""
    fake = model(rule=lambda _: '{"score": 3}')
    result = fake.run(plan_of(steps), {"ask": False})
    assert result.outputs == (None, {"score": 3}, None, {"score": 0, "more": False})
    assert result.skipped == ("triage", "bound")
    assert result.status == "ok"
    assert fake.run(plan_of(steps), {"ask": True}).outputs[3] == {"score": 3, "more": True}


def test_a_row_whose_last_step_is_skipped_has_no_output_and_no_failure(plan_of, model):
    steps = """
  - {block: [{unit: JudgeUnit, scale: likert, prompt: a}, {unit: JudgeUnit, scale: likert, prompt: b}], when: source.ask}
  - {unit: MeanPoolUnit, field: score}
"""
    result = model().run(plan_of(steps), {"ask": False})
    assert (result.outputs, result.status, result.calls) == ((None, None, None), "ok", ())
    assert (
        model(rule=lambda _: "{}")
        .run(plan_of(steps), {"ask": 1})
        .failure.message.startswith("`when: source.ask` gives")
    )


def test_an_each_inside_an_each_has_both_entries(plan_of, model):
    steps = """
  - each: source.sections
    as: section
    block:
      - {unit: JudgeUnit, name: title, scale: boolean, prompt: "{section.title}"}
      - each: section.claims
        as: claim
        unit: JudgeUnit
        name: check
        scale: boolean
        prompt: "{section.title} {index}: {claim} {previous.title.score}"
      - {unit: MeanPoolUnit, name: part, field: score}
  - {unit: MeanPoolUnit, field: score, name: whole}
  - {unit: MapUnit, map: {all: "previous.check.score", parts: "previous.part.score"}}
"""
    sections = [{"title": "A", "claims": ["x", "y"]}, {"title": "B", "claims": ["z"]}]
    fake = model(rule=YES)
    result = fake.run(plan_of(steps), {"sections": sections})
    prompts = sorted(prompt.split("\n")[0] for prompt in fake.prompts())
    assert prompts == ["A", "A 0: x true", "A 1: y true", "B", "B 0: z true"]
    assert result.outputs[1] == [[{"score": True}, {"score": True}], [{"score": True}]]
    assert result.outputs[4] == {"all": [[True, True], [True]], "parts": [1.0, 1.0]}
    assert [call.request.row.item for call in result.calls] == ["0", "0.0", "0.1", "1", "1.0"]
    assert result.entries[0] == [{"section": section} for section in sections]
    assert result.entries[1] == [
        [{"section": sections[0], "claim": "x"}, {"section": sections[0], "claim": "y"}],
        [{"section": sections[1], "claim": "z"}],
    ]


def test_a_failed_entry_fails_the_row_with_its_number_and_keeps_the_others(plan_of, model):
    fake = model(rule=lambda request: '{"score": true}' if request.row.item != "1" else "?")
    result = fake.run(plan_of(f"  - {JUDGE % ''}"), {"claims": [{"text": text} for text in "abc"]})
    assert result.failure.node == "check"
    assert result.failure.message.startswith("entry 1: ")
    assert [entry and entry["score"] for entry in result.outputs[0]] == [True, None, True]


def test_turns_of_a_conversation_are_entries(plan_of, model):
    messages = [
        {"role": role, "content": text}
        for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))
    ]
    step = "  - {unit: JudgeUnit, scale: boolean, each: \"turns(source.messages, 'user')\", as: turn, prompt: '%s'}"
    fake = model(rule=YES)
    result = fake.run(
        plan_of(step % "{turn.index} {turn.role} {turn.content} {index} {turn.before}"),
        {"messages": messages},
    )
    assert [prompt.split("\n")[0] for prompt in fake.prompts()] == [
        "0 user a 0 ",
        "2 user c 1 [1] user: a",
    ]
    assert result.entries[0] == [
        {"turn": {"index": 0, "role": "user", "content": "a"}},
        {"turn": {"index": 2, "role": "user", "content": "c"}},
    ]
    assert (
        "[0]: 'a' is not a message"
        in model().run(plan_of(step % "x"), {"messages": ["a"]}).failure.message
    )
