"""`cache_control` in Anthropic's messages: at the end of what calls share, where the provider caches that much."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.language.load import load
from verdict_cli.llm.providers.anthropic_messages import ANTHROPIC_MESSAGES, marked_parts
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_row

DOCUMENT = " ".join(f"{number:06d}" for number in range(700))
"""4,899 bytes: 1,225 tokens."""
JUDGE = "{unit: JudgeUnit, name: judge, prompt: '{source.text} How good is it?'}"
VERIFIER = "{unit: JudgeUnit, name: verify, explanation: false, prompt: '{source.text} Is {previous.judge.score} right?'}"


def bodies(
    folder: Path, steps: str, text: str = DOCUMENT, head: str = "model: claude-sonnet-4-5"
) -> list[Any]:
    """The bodies of a row's calls, in order."""
    path = folder / "p.yaml"
    path.write_text(f"verdict: 1\nname: p\n{head}\npipeline:\n{textwrap.dedent(steps)}\n")
    requests: list[Request] = []

    async def ask(request: Request) -> Reply:
        requests.append(request)
        (field,) = request.json_schema["properties"] if request.json_schema else ("score",)
        return Reply('{"choice": "A"}' if field == "choice" else '{"score": 3}')

    plan = build_plan(load(path)).plan
    source = {"text": text, "a": "one", "b": "two", "list": ["x", "y"]}
    result = asyncio.run(run_row(plan, Row(0, "r", source, "k"), Context(ask)))
    assert result.failure is None, result.failure
    return [ANTHROPIC_MESSAGES.content(request) for request in requests]


def marked(body: Any) -> list[str]:
    """The texts that are marked, each from the start of its message."""
    marks = []
    for blocks in (body.get("system", []), *(turn["content"] for turn in body["messages"])):
        texts = [block["text"] for block in blocks]
        marks += [
            "".join(texts[: index + 1])
            for index, block in enumerate(blocks)
            if "cache_control" in block
        ]
    return marks


def test_units_that_share_a_document_mark_its_end_and_copies_the_end_of_all(tmp_path):
    steps = f"- {{layer: [{JUDGE}], repeat: 2}}\n- {{layer: [{VERIFIER}], repeat: 2, inner: none}}"
    judge, _, verifier, _ = bodies(tmp_path, steps)
    assert marked(judge)[0] == DOCUMENT
    assert len(marked(judge)) == 2
    assert judge["messages"][0]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert marked(verifier)[0] == DOCUMENT


@pytest.mark.parametrize(
    ("steps", "text", "head"),
    [
        (f"- {JUDGE}", DOCUMENT, "model: claude-sonnet-4-5"),
        (f"- {{layer: [{JUDGE}], repeat: 2}}", DOCUMENT[:3000], "model: claude-sonnet-4-5"),
        (f"- {{layer: [{JUDGE}], repeat: 2}}", DOCUMENT, "model: claude-haiku-4-5"),
        (f"- {{layer: [{JUDGE}], repeat: 2}}", DOCUMENT, "model: {name: claude-sonnet-4-5, prompt_cache: off}"),
        (
            f"- {{layer: [{JUDGE}], repeat: 2}}",
            DOCUMENT,
            "model: {name: claude-sonnet-4-5, params: {cache_control: {type: ephemeral}}}",
        ),
        (f"- {JUDGE}\n- {{unit: JudgeUnit, name: v, prompt: '{{previous.judge.score}} {{source.text}}'}}", DOCUMENT,
         "model: claude-sonnet-4-5"),
    ],
    ids=["one call", "short", "a larger minimum", "off", "the pipeline's own", "other texts first"],
)  # fmt: skip
def test_nothing_is_marked_where_it_would_not_pay(tmp_path, steps, text, head):
    assert [marked(body) for body in bodies(tmp_path, steps, text, head)] in ([[]], [[], []])


def test_a_long_preamble_that_all_rows_share_is_marked_in_the_system_prompt(tmp_path):
    prompt = f"|\n    @system\n    {DOCUMENT}\n    @user\n    {{source.a}}"
    (body,) = bodies(tmp_path, f"- unit: JudgeUnit\n  prompt: {prompt}")
    assert marked(body) == [DOCUMENT]


def test_options_in_both_orders_share_what_precedes_them(tmp_path):
    steps = (
        "- {unit: PairwiseJudgeUnit, positions: both, options: [source.a, source.b],"
        " prompt: '{source.text} A: {input.A} B: {input.B}'}"
    )
    sent = bodies(tmp_path, steps)
    assert [marked(body)[-1].endswith(f"{DOCUMENT} A: ") for body in sent] == [True, True]


def test_at_most_four_places_are_marked(tmp_path):
    units = "".join(
        f"- {{unit: JudgeUnit, name: j{n}, prompt: '{{source.text}} {'x' * n}{{source.a}}'}}\n"
        for n in range(7)
    )
    assert all(1 <= len(marked(body)) <= 4 for body in bodies(tmp_path, units))


@given(st.text(), st.lists(st.integers(0, 40), max_size=4), st.booleans())
def test_blocks_are_the_message_without_blank_ends_and_none_is_blank(text, positions, image):
    positions = sorted({position for position in positions if position <= len(text)})
    images = ((len(text) // 2, "https://x/y.png"),) if image else ()
    parts = marked_parts(Message("user", text, images), positions)
    joined = "".join(part.get("text", "") for part in parts)
    assert joined.strip() == text.strip() or not positions
    assert all(part["type"] != "text" or part["text"].strip() for part in parts) or not positions
    assert sum(part["type"] == "image" for part in parts) == len(images)
    assert sum("cache_control" in part for part in parts) <= len(positions)
