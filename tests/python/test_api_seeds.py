"""Every code block of the seeds runs as printed, but for its imports."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import verdict_cli


def blocks(shared: Path, seed: str, fence: str) -> list[str]:
    """The fenced code blocks of a seed that hold Python."""
    (path,) = (shared / "seeds").glob(f"{seed}_*.txt")
    found = re.findall(rf"^{fence}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [block for block in found if "Unit" in block]


def run_block(block: str, **names: Any) -> tuple[Any, dict[str, Any]]:
    """The value of the block's last expression or assignment, and the names that it leaves."""
    tree = ast.parse(re.sub(r"^from verdict.*\n", "", block, flags=re.MULTILINE))
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("made", ast.Store())], last.value), last)
        ast.fix_missing_locations(tree)
    space: dict[str, Any] = {name: getattr(verdict_cli, name) for name in verdict_cli.__all__} | names
    exec(compile(tree, "a seed", "exec"), space)
    return space.get("made", space.get("pipeline")), space


def test_the_debate_of_figure_4_runs(shared: Path, recorded: Any) -> None:
    debate, _ = blocks(shared, "000", "```")
    pipeline, _ = run_block(debate)
    assert pipeline.name == "debate"
    turns = {f"conversational[{place}]": f"turn {place}" for place in range(6)}
    judged = pipeline.run({}, model="gpt-4o", replay=recorded(turns, judge='{"score": true}'))
    assert judged.score is True
    assert [turn["role"] for turn in judged.nodes["conversational[5]"].conversation] == ["Proponent", "Opponent"] * 3
    (asked,) = (call.request for call in judged.calls if call.request.node == "judge")
    assert "<Opponent>\nturn 5\n</Opponent>" in asked.messages[0].content


def test_the_g_eval_of_figure_5_runs(shared: Path, recorded: Any) -> None:
    _, geval = blocks(shared, "000", "```")
    pipeline, _ = run_block(
        geval, TASK="Rate the summary.", criteria_name="Coherence", criteria_description="it hangs together"
    )
    alternatives = [{"token": "4", "logprob": -0.6931471805599453}, {"token": "5", "logprob": -0.6931471805599453}]
    judges = {f"judge[{place}]": {"reply": "4", "logprobs": [alternatives]} for place in range(5)}
    thoughts = {f"cot[{place}]": {"row": -1, "id": "pinned", "reply": f"steps {place}"} for place in range(5)}
    replay = recorded(judges)
    replay.write_text(
        replay.read_text()
        + "".join(
            json.dumps({"id": "pinned", "unit": unit, "reply": said["reply"]}) + "\n" for unit, said in thoughts.items()
        )
    )
    judged = pipeline.run({"source": "A long text.", "summary": "A text."}, replay=replay)
    assert judged.mean == pytest.approx(4.5) and judged.variance == pytest.approx(0, abs=1e-12)
    prompts = {call.request.node: call.request.messages[0].content for call in judged.calls}
    assert "Coherence (1, 2, 3, 4, 5) - it hangs together" in prompts["judge[3]"]
    assert "steps 3" in prompts["judge[3]"] and "A long text." in prompts["judge[3]"]
    models = {call.request.node.partition("[")[0]: call.request.model for call in judged.calls}
    assert (models["cot"].name, models["cot"].temperature) == ("gpt-4o", 0.6)
    assert (models["judge"].name, models["judge"].temperature, models["judge"].retries) == ("gpt-4o-mini", 0.0, 3)


def test_the_first_block_of_the_unit_page_runs(shared: Path, recorded: Any) -> None:
    chained, _ = blocks(shared, "003", "```python")
    unit, _ = run_block(f"(\n{chained})")
    pipeline = verdict_cli.Pipeline("empathy") >> unit
    judged = pipeline.run({}, replay=recorded({"CXEmpathyJudge": "I say 4 of 5"}))
    assert judged.score == 0.8
    node = pipeline.plan().nodes[0]
    assert node.name == "CXEmpathyJudge" and list(node.output.fields) == ["score"]


def test_the_custom_unit_of_the_unit_page_runs(shared: Path, recorded: Any) -> None:
    _, custom = blocks(shared, "003", "```python")
    _, names = run_block(custom)
    pipeline = verdict_cli.Pipeline("pair", model="gpt-4o") >> names["PairwiseJudgeUnit"]()
    judged = pipeline.run(
        {"A": "the left one", "B": "the right one"}, replay=recorded(pairwise_judge='{"winner": "B"}')
    )
    assert dict(judged) == {"winner": "the right one"}
    content = judged.calls[0].request.messages[0].content
    assert content.startswith("You must choose the better option") and "A:\nthe left one" in content
