"""`verdict`: the last PASS or FAIL and the last `SCORE: n` of a text; nothing found means FAIL and 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.extractors.keys import Extractor
from verdict_cli.extractors.reading import EXPLANATION, Reading, Trouble
from verdict_cli.fields import INTEGER, TEXT, OnScale, Record
from verdict_cli.scales import Categories

if TYPE_CHECKING:
    from verdict_cli.values import Reply, Request

_VERDICT = re.compile(r"\b(pass|fail)\b", re.IGNORECASE)
_SCORE = re.compile(r"score\s*(?:[:=]\s*)?(\d+)", re.IGNORECASE)
_MOST_DIGITS = 18  # a 64-bit integer holds them

OUTPUT = Record({"verdict": OnScale(Categories(values=("FAIL", "PASS"))), "score": INTEGER})
"""What the extractor reads."""


def parse_verdict(judge_text: str) -> dict[str, Any]:
    """`{"verdict": "PASS" | "FAIL", "score": int}`: the last of each that the text mentions, in any case.

    A text that mentions none is FAIL and 0: an unreadable reply never passes. The score is not clamped; a
    number of more than 18 digits is no score.
    """
    verdicts = _VERDICT.findall(judge_text)
    scores = _SCORE.findall(judge_text)
    readable = bool(scores) and len(scores[-1]) <= _MOST_DIGITS
    return {
        "verdict": verdicts[-1].upper() if verdicts else "FAIL",
        "score": int(scores[-1]) if readable else 0,
    }


def build_rubric(criteria: Sequence[str]) -> str:
    """The judge's prompt: the numbered criteria, and the two lines that `parse_verdict` reads."""
    listed = "\n".join(f"{place}. {text}" for place, text in enumerate(criteria, 1))
    return (
        f"Rubric\n{listed}\n\n"
        "Judge the text against every criterion of the rubric. Reason first. End with exactly these two lines:\n"
        "VERDICT: PASS or VERDICT: FAIL\n"
        "SCORE: <0-10>"
    )


class Verdict(Extractor):
    """Last `PASS`/`FAIL` and last `SCORE: n` of the text, any case; nothing found means FAIL and 0."""

    type: Literal["verdict"] = "verdict"
    """The kind of extractor."""

    def problem(self, response: Record) -> Trouble | None:
        """A response with fields other than verdict, score and explanation does not fit."""
        for name, kind in response.fields.items():
            if name not in ("verdict", "score") and not (name == EXPLANATION and kind == TEXT):
                return (
                    "",
                    f"`verdict` reads `verdict` and `score`, not {name!r}",
                    "use `structured` or `regex`",
                )
        return None

    def bind(self, response: Record) -> Reading:
        """Reads both; the whole text is the explanation where one is asked for."""
        explained = {EXPLANATION: TEXT} if EXPLANATION in response.fields else {}

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            return dict.fromkeys(explained, reply.text) | parse_verdict(reply.text)

        return Reading(Record(explained | dict(OUTPUT.fields)), read, whole=True)
