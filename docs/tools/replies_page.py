"""Write docs/reference/replies.md: what each extractor reads in the same replies: `python docs/tools/replies_page.py`."""

from __future__ import annotations

import re
from pathlib import Path

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.bound_extractor import BoundExtractor
from verdict_cli.language.extractors.regex import RegexExtractor
from verdict_cli.language.extractors.structured import StructuredOutputExtractor
from verdict_cli.language.extractors.token_probability import ArgmaxScoreExtractor
from verdict_cli.language.extractors.verdict import VerdictExtractor
from verdict_cli.language.fields.types import TEXT, RecordType, ScaleType
from verdict_cli.language.scales.discrete import DiscreteScale
from verdict_cli.messages import Alternative, Reply, Request, Row
from verdict_cli.model import Model

PAGE = Path(__file__).resolve().parents[1] / "reference" / "replies.md"
HEAD = """# Replies

<!-- Written by `make reference` from what the extractors read; not by hand. -->

The same replies to each extractor, on a scale from 1 to 10: the value that is read, or why the reply is refused. A refused reply is retried, then its row
fails; it never becomes a value. `regex` has the patterns `FIRST_INT` and `LAST_INT`; `verdict` reads `verdict` and `score`; `tokens` stands for `argmax_score` and
the other token extractors, which get a log-probability for each character and mark here. `raw` keeps every text as it is, and `post_hoc` has the answer without its thoughts
structured by a second call, whose reply is read as by `structured`. [How thoughts and numbers are read](../language.md#extractors).
"""
REPLIES: list[tuple[str, tuple[int, ...]]] = [
    ("8", (8,)),
    ("8.0", (8,)),
    ("8.", (8,)),
    ("**8**", (8,)),
    ("`8`", (8,)),
    ("“8”", (8,)),
    ("Score: 8", (8,)),
    ("Score - 8", (8,)),
    ("8/10", (8,)),
    ("**8**/10", (8,)),
    ("8 / 10", (8,)),
    ("8 out of 10", (8,)),
    ("8 of 10", (8,)),
    ("8 (out of 10)", (8,)),
    ("8/5", ()),
    ("80%", ()),
    ("8,0", (8,)),
    ("8٫0", (8,)),
    ("８", (8,)),
    ("8️⃣", (8,)),
    ("+8", (8,)),
    ("-8", ()),
    ("−8", ()),
    ("minus 8", ()),
    ("8.5", ()),
    ("8½", ()),
    ("7-8", ()),
    ("7 or 8", ()),
    ("1,000", ()),
    ("2026-11-25", ()),
    ("8th", ()),
    ("eight", ()),
    ("", ()),
    ("On a 1-10 scale: 8", (8,)),
    ("From 1 (worst) to 10 (best): 8", (8,)),
    ("Out of 10, I give 8.", (8,)),
    ("8 (max. 10)", (8,)),
    ("$\\frac{8}{10}$", (8,)),
    ("<score>8</score>", (8,)),
    ("11", ()),
    ("999999999999999999999999999999", ()),
    ("<think>2?</think>8", (8,)),
    ("<THINKING>2?</THINKING>\n8", (8,)),
    ("[THINK]2?[/THINK]8", (8,)),
    ("◁think▷2?◁/think▷8", (8,)),
    ("Perhaps 2.\n</think>\n\n8", (8,)),
    ("Perhaps 2.</think>8", ()),
    ("<think>8", ()),
    ("<think>8</think>", ()),
    ("<|channel|>analysis<|message|>2?<|end|><|start|>assistant<|channel|>final<|message|>8", (8,)),
    ("8<|im_end|>", (8,)),
    ("8</s>", (8,)),
    ("\ufeff8", (8,)),
    ("\u200b8\u200b", (8,)),
    ('{"score": 8}', (8,)),
    ('{"score": 8,}', (8,)),
    ('{"score": "8/10"}', (8,)),
    ('{"score": null}', ()),
    ('{"score": 11}', ()),
    ('```json\n{"score": 8}\n```', (8,)),
    ('```json\n{"score": 8}\n```\nI rate it 2.', (8, 2)),
    ('{"score": 8}\n{"score": 2}', (8, 2)),
    ('{"score": 8}<|eot_id|>', (8,)),
    ("VERDICT: PASS\nSCORE: 8", (8,)),
    ("**VERDICT:** PASS\n**SCORE:** 8", (8,)),
    ("VERDICT: PASSED\nSCORE (0-10)： 8/10", (8,)),
    ('{"verdict": "PASS", "score": 8}', (8,)),
    ("VERDICT: NOT PASS\nSCORE: 8", (8,)),
    ("VERDICT: PASS", ()),
    ("VERDICT: PASS or FAIL\nSCORE: <1-10>", ()),
    ("It could fail, but it may pass. Score: 8", (8,)),
    ("I'm sorry, but I can't help with that.", ()),
]
"""Replies, and the scores that each one states; () for one that means no score, or not clearly one."""


_TOKEN = re.compile(r"<\|[^|]*\|>|</s>|.", re.DOTALL)


def extractors() -> dict[str, BoundExtractor]:
    """The extractors of the page, for a score from 1 to 10."""
    scale = ScaleType(DiscreteScale(range=(1, 10)))
    score = RecordType({"score": scale})
    return {
        "structured": StructuredOutputExtractor().bind(score),
        "FIRST_INT": RegexExtractor(pattern="FIRST_INT").bind(score),
        "LAST_INT": RegexExtractor(pattern="LAST_INT").bind(score),
        "verdict": VerdictExtractor().bind(RecordType({"verdict": TEXT, "score": scale})),
        "tokens": ArgmaxScoreExtractor(sequence=True).bind(score),
    }


def reading(extractor: BoundExtractor, text: str) -> tuple[int | None, str]:
    """The score that is read, and the verdict beside it; None and the refusal for a reply that is not read."""
    request = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
    tokens = tuple((Alternative(token, -0.001),) for token in _TOKEN.findall(text))
    try:
        found = extractor.read(Reply(text, logprobs=tokens), request)
    except ReplyError as error:
        return None, error.message
    return found["score"], found.get("verdict", "")


def page() -> str:
    """The page's text."""
    bound = extractors()
    lines = [HEAD, f"| reply | {' | '.join(bound)} |", "| --- |" + " --- |" * len(bound)]
    refusals = [
        f"\n## Why a reply is refused\n\n| reply | {' | '.join(bound)} |",
        "| --- |" + " --- |" * len(bound),
    ]
    for text, _ in REPLIES:
        found = [reading(extractor, text) for extractor in bound.values()]
        cells = [
            f"{beside} {score}".strip() if score is not None else "–" for score, beside in found
        ]
        lines.append(f"| {_code(text)} | {' | '.join(cells)} |")
        if any(score is None for score, _ in found):
            reasons = ["" if score is not None else _cell(beside) for score, beside in found]
            refusals.append(f"| {_code(text)} | {' | '.join(reasons)} |")
    return "\n".join(lines + refusals) + "\n"


def _code(text: str) -> str:
    shown = "".join(
        char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text
    )
    return f"<code>{_cell(shown)}</code>" if text else "(empty)"


def _cell(text: str) -> str:
    marks = {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "|": "&#124;",
        "\n": "⏎",
        "*": "&#42;",
        "`": "&#96;",
        "{": "&#123;",
    }
    return "".join(marks.get(char, char) for char in text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
