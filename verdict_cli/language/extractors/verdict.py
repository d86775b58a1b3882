"""`verdict`: the last PASS or FAIL and the last `SCORE: n` of a text; without them, FAIL and 0.

A score with decimals is read only if the response declares a type with decimals; else the reply is unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor, Extractor, ExtractorIssue
from verdict_cli.language.fields.types import INTEGER, NUMBER, TEXT, FieldType, RecordType, ScaleType
from verdict_cli.language.scales.discrete import Categories

if TYPE_CHECKING:
    from verdict_cli.messages import Reply, Request

_VERDICT = re.compile(r"\b(pass|fail)\b", re.IGNORECASE)
_SCORE = re.compile(r"score\s*(?:[:=]\s*)?(\d+)", re.IGNORECASE)
_WRITTEN = re.compile(r"score\s*(?:[:=]\s*)?(\d*[.,]\d+|\d+)", re.IGNORECASE)
_ZERO_TO_TEN = tuple(map(str, range(11)))
"""The scores that `build_rubric` asks for."""
_MOST_DIGITS = 18  # a 64-bit integer holds them

OUTPUT = RecordType({"verdict": ScaleType(Categories(values=("FAIL", "PASS"))), "score": INTEGER})
"""The fields that the extractor reads."""


def parse_verdict(judge_text: str) -> dict[str, Any]:
    """`{"verdict": "PASS" | "FAIL", "score": int}`: the last of each that the text mentions, in any case.

    A text that mentions none is FAIL and 0: an unreadable reply never passes. Of a score with decimals this takes the
    integer part; the extractor does not. The score is not clamped; a number of more than 18 digits is not a score.
    """
    verdicts = _VERDICT.findall(judge_text)
    scores = _SCORE.findall(judge_text)
    return {
        "verdict": verdicts[-1].upper() if verdicts else "FAIL",
        "score": int(scores[-1]) if scores and len(scores[-1]) <= _MOST_DIGITS else 0,
    }


def build_rubric(criteria: Sequence[str]) -> str:
    """The judge's prompt: the numbered criteria, and the two lines that `parse_verdict` reads."""
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(criteria, 1))
    return (
        f"Rubric\n{listed}\n\n"
        "Judge the text against every criterion of the rubric. Reason first. End with exactly these two lines:\n"
        "VERDICT: PASS or VERDICT: FAIL\n"
        "SCORE: <0-10>"
    )


class VerdictExtractor(Extractor):
    """The last `PASS`/`FAIL` and the last `SCORE: n` of the text, in any case; without them, FAIL and 0. `n` is whole, or
    has decimals if the type of the response's `score` allows them; else a reply with decimals is unreadable."""

    type: Literal["verdict"] = "verdict"
    """The type of extractor."""

    def validation_error(self, response: RecordType) -> ExtractorIssue | None:
        for name, kind in response.fields.items():
            if name not in ("verdict", "score") and not (name == EXPLANATION and kind == TEXT):
                return ("", f"`verdict` reads `verdict` and `score`, not {name!r}", "use `structured` or `regex`")
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """Read both; the whole text is the explanation, if there is one."""
        explained = {EXPLANATION: TEXT} if EXPLANATION in response.fields else {}
        decimals = "score" in response.fields and _has_decimals(response.fields["score"])
        output = dict(OUTPUT.fields) | ({"score": NUMBER} if decimals else {})

        def read(reply: Reply, _: Request) -> dict[str, Any]:
            fields = parse_verdict(reply.text)
            written = _decimal(reply.text)
            if written is not None and not decimals:
                raise ReplyError(
                    f"the score {written!r} is not a whole number",
                    hint="declare `score: float`, or a scale with decimals, to read it",
                    kind="unreadable",
                )
            if decimals:
                fields["score"] = float(fields["score"]) if written is None else written
            return dict.fromkeys(explained, reply.text) | fields

        support = () if decimals else _ZERO_TO_TEN
        return BoundExtractor(RecordType(explained | output), read, support=support, whole=True)


def _decimal(text: str) -> float | None:
    """The last score, where it is written with a fraction (0.62 or 0,62); None for a whole one, such as 8.0, or none."""
    scores = _WRITTEN.findall(text)
    value = float(scores[-1].replace(",", ".")) if scores and len(scores[-1]) <= _MOST_DIGITS else 0.0
    return None if value.is_integer() else value


def _has_decimals(kind: FieldType) -> bool:
    """Whether some value of the type has decimals."""
    schema = kind.json_schema()
    return schema.get("type") == "number" or any(isinstance(value, float) for value in schema.get("enum", ()))
