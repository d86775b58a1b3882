"""Candidates for a better unit: examples from labelled rows, and guidelines and prompts that a proposer model writes.

The proposer sees the prompt, rows that the judge got wrong with its reasons, the right answers and what people noted, and writes what
it would change: the reflection of GEPA (Agrawal et al., 2025) and the guidelines of MemAlign, one call for each batch of rows.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FEW_SHOT = (("balanced", 4), ("nearest", 4), ("errors", 4), ("nearest", 8))
BATCH_WRONG, BATCH_RIGHT = 6, 2
"""Rows that a proposal sees: those that the judge got wrong, and some that it got right and should not lose."""
MOST_SHOWN = 2_000
"""Characters of a text that a proposal sees."""
JUDGED = "judged"
"""The column of the examples with what the judge said, for `choose: errors`."""


@dataclass(frozen=True, slots=True)
class PromptCandidate:
    """A changed unit: its name, what it comes from, and the settings (`--set`) that make it."""

    name: str
    origin: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row of `fit`: what the judge read and said, its reasons, the right answer, and people's note."""

    source: Mapping[str, Any]
    judged: Any
    right: Any
    correct: bool
    explanation: str = ""
    note: str = ""


def few_shot(path: str, rows: Sequence[JudgedRow], target: str, cluster: str | None) -> list[PromptCandidate]:
    """The unit at this path with examples from the rows, chosen in several ways."""
    examples = [{**row.source, JUDGED: row.judged} for row in rows]
    shared = {"rows": examples, "target": target} | ({"cluster": cluster} if cluster is not None else {})
    made = []
    for choose, k in FEW_SHOT:
        if choose == "errors" and all(row.correct for row in rows):
            continue
        key = {**shared, "k": k, "choose": choose}
        if choose == "errors":
            key["prediction"] = f"source.{JUDGED}"
        made.append(
            PromptCandidate(f"examples {choose} {k}", f"{k} {choose} examples", (f"{path}.examples={json.dumps(key)}",))
        )
    return made


def proposal_batches(rows: Sequence[JudgedRow], count: int, seed: int) -> list[list[JudgedRow]]:
    """Different rows for each of `count` proposals; none where the judge made no mistake."""
    wrong = [row for row in rows if not row.correct]
    right = [row for row in rows if row.correct]
    if not wrong:
        return []
    draw = random.Random(seed)
    return [
        draw.sample(wrong, min(BATCH_WRONG, len(wrong))) + draw.sample(right, min(BATCH_RIGHT, len(right)))
        for _ in range(count)
    ]


def reflection_request(prompt: str, batch: Sequence[JudgedRow], columns: Sequence[str]) -> str:
    """What the proposer is asked about one batch of rows."""
    parts = [
        "A language model judges texts by the prompt below. People judged the same texts. Find out why the judge differs from them, and "
        "write what would make it agree.",
        f"<prompt>\n{prompt}\n</prompt>",
    ]
    for number, row in enumerate(batch, 1):
        shown = [f"{name}: {_short(row.source.get(name))}" for name in columns]
        lines = [f"Row {number} ({'right' if row.correct else 'wrong'})", *shown, f"judge: {_short(row.judged)}"]
        lines += [f"judge's reasons: {_short(row.explanation)}"] if row.explanation else []
        lines += [f"right answer: {_short(row.right)}"]
        lines += [f"people's note: {_short(row.note)}"] if row.note else []
        parts.append("\n".join(lines))
    parts.append(
        "Answer with `diagnosis` (why the judge was wrong, in a few sentences), `guidelines` (at most eight short rules to add to the prompt, "
        "general ones that hold for other texts too; never an answer to a row above), and `prompt` (the whole prompt, rewritten). The "
        "rewritten prompt must keep every placeholder in braces exactly as it is, and the same possible answers."
    )
    return "\n\n".join(parts)


def proposal_pipeline(model: str) -> dict[str, Any]:
    """The pipeline that asks the proposer: a row a batch, so that a killed search pays for no proposal twice."""
    unit = {
        "unit": "Unit",
        "name": "proposal",
        "prompt": "{source.request}",
        "response": {"diagnosis": "str", "guidelines": "str", "prompt": "str"},
    }
    return {"verdict": 1, "name": "align-proposals", "model": model, "pipeline": [unit]}


def proposed(path: str, prompt: str, proposal: Mapping[str, Any], name: str) -> list[PromptCandidate]:
    """The candidates of one proposal: its guidelines behind the prompt, and its own prompt."""
    made = []
    guidelines, rewritten = str(proposal.get("guidelines") or "").strip(), str(proposal.get("prompt") or "").strip()
    if guidelines:
        text = f"{prompt.rstrip()}\n\nGuidelines:\n{literal(guidelines)}"
        made.append(PromptCandidate(f"guidelines {name}", "guidelines of the proposer", (_prompt_setting(path, text),)))
    if rewritten and rewritten != prompt.strip():
        made.append(PromptCandidate(f"rewrite {name}", "a prompt of the proposer", (_prompt_setting(path, rewritten),)))
    return made


def literal(text: str) -> str:
    """The text so that a prompt shows it as it is: braces are no placeholders, and no line begins a section."""
    escaped = text.replace("{", "\\{")
    return re.sub(r"^@", " @", escaped, flags=re.MULTILINE)


def _prompt_setting(path: str, prompt: str) -> str:
    return f"{path}.prompt={json.dumps(prompt)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
