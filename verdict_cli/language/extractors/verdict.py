"""`verdict`: the verdict and the score of a text, as people write them; and `parse_verdict`, the lesson's own parser.

A reply that states one of them and not the other is unreadable. Only a reply that states neither is FAIL and 0, after the
last attempt, and the row says so (`defaulted`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from verdict_cli.config_model import Issue
from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.answer_text import drop_invisible
from verdict_cli.language.extractors.bound_extractor import (
    DEFAULTED_FIELD,
    EXPLANATION,
    BoundExtractor,
    Extractor,
    judged_fields,
)
from verdict_cli.language.extractors.structured import json_object
from verdict_cli.language.fields.types import (
    DEFAULTED_TYPE,
    INTEGER,
    NUMBER,
    TEXT,
    Fields,
    FieldType,
    RecordType,
    ScaleType,
    Values,
)
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.scales.written_number import (
    Ends,
    find_numbers,
    mask_mentions,
    number_ends,
    strip_markup,
)
from verdict_cli.messages import Reply, Request
from verdict_cli.regex import regex

_VERDICT = regex(r"\b(pass|fail)\b", re.IGNORECASE)
_SCORE = regex(r"score\s*(?:[:=]\s*)?(\d+)", re.IGNORECASE)
_LONGEST_LINE = 200
_TEN = (0.0, 10.0)
_ZERO_TO_TEN = tuple(map(str, range(11)))
"""The scores that `build_rubric` asks for."""
_MOST_INT_DIGITS = 4300  # `int` refuses more
_MOST_DIGITS = 18  # a 64-bit integer holds them

_SEPARATOR = r"[\])}]*\s*[:：∶﹕︰=|>–—→-]+"
_COLONS = frozenset(":：=∶﹕︰")
_LABEL = regex(
    r"\b(?:(?P<main>verdict)|decision|judge?ment|conclusion|outcome|result|final[ \t]+answer)\b(?:[ \t]*\([^()\n]*\))?"
    rf"(?P<separator>{_SEPARATOR}|(?<=verdict)[ \t]+is\b|[ \t]*(?=\n))\s*",
    re.IGNORECASE,
)
_NOT = (
    r"(?:\b(?:not|non|no|never|cannot|hardly|barely)\b|n['’]t\b|\b(?:fail(?:s|ed|ing)?|unable|refuse[sd]?)[ \t]+to\b|\bwithout\b)"
    r"(?:[ \t]+(?:an?|be|been|have|the|quite|fully|really|clear|yet|let|this|it|that|to|deserve|merit)\b){0,4}[ \t]*[-‐‑]?[ \t]*"
)
_DENIED = regex(rf"{_NOT}\Z", re.IGNORECASE)
_LONGEST_DENIAL = 60
_WORD = regex(r"\b(?P<word>(?P<pass>pass(?:ed|es)?)|fail(?:ed|s|ure)?)\b", re.IGNORECASE)
_ALONE = regex(r"^[^\w\n]*((?:pass|fail)(?:ed)?)[^\w\n]*$", re.IGNORECASE | re.MULTILINE)
_OTHER = regex(r"\s*(?:/|\||\bor\b)\s*\W*(?:verdict\W+)?(?:pass|fail)", re.IGNORECASE)
_SCORE_LABEL = regex(
    r"scores?(?:[ \t]*(?:[(\[][^()\[\]\n]{0,40}[)\]]|/[ \t]*\d+|out[ \t]+of[ \t]+\d+|\d+[ \t]*[-–][ \t]*\d+(?=[ \t]*[:：=])))?"
    rf"(?:(?P<separator>{_SEPARATOR})|[ \t]+(?:is|of)\b)?\s*[<(\[{{{{]*[ \t]*",
    re.IGNORECASE,
)
_QUOTE_MARKS = frozenset("\"“”*`#'‘’_")
_QUOTES = regex(r"[\"“”*`#]|(?<!\w)['‘’_]+|['‘’_]+(?!\w)")

OUTPUT = RecordType({"verdict": ScaleType(Categories(values=("FAIL", "PASS"))), "score": INTEGER})
"""The fields that the extractor reads."""


def parse_verdict(judge_text: str) -> Values:
    """`{"verdict": "PASS" | "FAIL", "score": int}`: the last of each that the text mentions, in any case.

    These are the lesson's rules to the letter; the extractor promises more. A text that mentions none is FAIL and 0: an
    unreadable reply never passes. Of a score with decimals this takes the integer part. The score is not clamped; a number
    that Python does not read, of thousands of digits, is not a score.
    """
    verdicts = _VERDICT.findall(judge_text)
    scores = _SCORE.findall(judge_text)
    return {
        "verdict": verdicts[-1].upper() if verdicts else "FAIL",
        "score": int(scores[-1]) if scores and len(scores[-1]) <= _MOST_INT_DIGITS else 0,
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
    """The labelled verdict and score of a text (`VERDICT: PASS`, `SCORE: 8`), through Markdown and JSON, the last of each; of
    no labelled verdict the words pass and fail. `score` has decimals if the response's type allows them. A reply with one of
    the two alone is unreadable."""

    type: Literal["verdict"] = "verdict"
    """The type of extractor."""
    default: Literal["fail", "none"] = "fail"
    """What a unit gets whose last reply states neither verdict nor score: FAIL and 0 with `defaulted: true`, or `none`: the row fails."""

    def validation_error(self, response: RecordType) -> Issue | None:
        for name in judged_fields(response):
            if name not in ("verdict", "score"):
                return Issue(
                    "",
                    f"`verdict` reads `verdict` and `score`, not {name!r}",
                    "use `structured` or `regex`",
                )
        return None

    def bind(self, response: RecordType) -> BoundExtractor:
        """Read both; the whole text is the explanation, if there is one."""
        explained = {EXPLANATION: TEXT} if EXPLANATION in response.fields else {}
        kind = response.fields.get("score", INTEGER)
        decimals = _has_decimals(kind)
        ends = number_ends(kind.scale) if isinstance(kind, ScaleType) else None
        needs_score = "score" in response.fields or "verdict" not in response.fields
        needs_verdict = "verdict" in response.fields or "score" not in response.fields
        output = dict(OUTPUT.fields) | ({"score": NUMBER} if decimals else {})
        if not needs_score:
            del output["score"]
        defaults = self.default == "fail"

        def read(reply: Reply, _: Request) -> Values:
            text = _plain(reply.text)
            explanation = dict.fromkeys(explained, reply.text)
            verdict = _verdict(text)
            score = _score(text, ends, decimals=decimals) if needs_score else None
            if verdict is None and score is None:
                error = ReplyError(
                    f"the reply states no verdict and no score: {reply.text[:200]!r}",
                    kind="no-verdict" if defaults else "unreadable",
                )
                error.default = (
                    explanation | _fields(output, "FAIL", 0) | {DEFAULTED_FIELD: True}
                    if defaults
                    else None
                )
                raise error
            if (needs_verdict and verdict is None) or (needs_score and score is None):
                missing = "verdict" if verdict is None else "score"
                raise ReplyError(f"the reply states no {missing}: {text[-200:]!r}")
            read = explanation | _fields(output, verdict or "FAIL", score or 0)
            return {**read, DEFAULTED_FIELD: False} if defaults else read

        support = () if decimals else _ZERO_TO_TEN
        added = {DEFAULTED_FIELD: DEFAULTED_TYPE} if defaults else {}
        return BoundExtractor(
            RecordType(explained | output | added), read, support=support, whole=True
        )


def _fields(output: Fields, verdict: str, score: float) -> Values:
    values = {"verdict": verdict, "score": score}
    return {name: kind.read(values[name]) for name, kind in output.items()}


def _plain(text: str) -> str:
    """The text without Markdown's emphasis and quotes; of a JSON object, its verdict and score alone, one a line."""
    text = drop_invisible(text)
    if "{" in text:
        try:
            fields = {name.lower().strip(): value for name, value in json_object(text).items()}
        except ReplyError:
            if len(re.findall(r'"verdict"\s*:', text, re.IGNORECASE)) > 1:
                raise
            fields = {}
        if fields.keys() & {"verdict", "score"}:
            text = "\n".join(
                f"{name}: {fields[name]}" for name in ("verdict", "score") if name in fields
            )
    return strip_markup(_QUOTES.sub("", text) if _QUOTE_MARKS & set(text) else text)


def _verdict(text: str) -> str | None:
    """The last labelled verdict, else the last line that is nothing else, else what the words pass and fail agree on; None
    without such words. ReplyError where it is not clear which one is meant."""
    for label in reversed(list(_LABEL.finditer(text))):
        line = text[label.end() : label.end() + _LONGEST_LINE].partition("\n")[0]
        if _WORD.search(line) or _is_statement(label):
            return _stated(line)
    if lines := _ALONE.findall(text):
        return _stated(lines[-1])
    words = [word for word in _words(text) if word.meaning is not None]
    if len({word.meaning for word in words}) > 1 and not words[-1].match[0].isupper():
        raise ReplyError(
            f"the reply says both pass and fail, without a label: {_around(text, words[-1].match)}"
        )
    return words[-1].meaning if words else None


def _is_statement(label: re.Match[str]) -> bool:
    """Whether what follows a label must be the verdict."""
    return label["main"] is not None and not _COLONS.isdisjoint(label["separator"])


def _stated(line: str) -> str:
    """The verdict of a line after its label: the word that it begins with, or else the only one in it."""
    words = list(_words(line))
    begins = words and not re.search(r"[^\W\d_]", line[: words[0].start])
    if begins and not _OTHER.match(line, words[0].match.end()):
        words = words[:1]
    meanings = {word.meaning for word in words}
    meaning = meanings.pop() if len(meanings) == 1 else None
    if meaning is None:
        raise ReplyError(f"the verdict {line[:80]!r} is not clearly PASS or FAIL")
    return meaning


class _Word(NamedTuple):
    """A word pass or fail, from where its denial begins, and what both say; None for "not fail", which is not quite a pass."""

    match: re.Match[str]
    start: int
    meaning: str | None


def _words(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        begin = max(0, match.start() - _LONGEST_DENIAL)
        denied = _DENIED.search(text[begin : match.start()])
        if denied:
            yield _Word(match, begin + denied.start(), "FAIL" if match["pass"] else None)
        else:
            yield _Word(match, match.start(), "PASS" if match["pass"] else "FAIL")


def _around(text: str, match: re.Match[str]) -> str:
    return f"{text[max(0, match.start() - 40) : match.end() + 40]!r}"


def _score(text: str, ends: Ends, *, decimals: bool) -> float | None:
    """The last score with a colon after its label, else the last one; None without one. ReplyError for one that cannot be
    read."""
    labels = list(_SCORE_LABEL.finditer(text))
    scale = ends or _TEN
    written_numbers = find_numbers(mask_mentions(text, scale), scale) if labels else []
    numbers = {number.start: number for number in written_numbers}
    colons = [
        label
        for label in labels
        if label["separator"] and not _COLONS.isdisjoint(label["separator"])
    ]
    labels = colons[-1:] or [label for label in labels if label.end() in numbers][-1:]
    if not labels:
        return None
    number = numbers.get(labels[0].end())
    value = None if number is None or text[number.end : number.end + 1].isalnum() else number.value
    if value is None or value >= 10**_MOST_DIGITS or (ends is None and value < 0):
        raise ReplyError(f"no score can be read from {_around(text, labels[0])}")
    if value != int(value) and not decimals:
        raise ReplyError(
            f"the score {float(value)!r} is not a whole number",
            hint="declare `score: float`, or a scale with decimals, to read it",
        )
    if ends is not None and not ends[0] <= value <= ends[1]:
        raise ReplyError(
            f"the score {float(value):g} is not between {ends[0]:g} and {ends[1]:g}",
            kind="off-scale",
        )
    return float(value) if decimals else int(value)


def _has_decimals(kind: FieldType) -> bool:
    """Whether some value of the type has decimals."""
    schema = kind.json_schema()
    return schema.get("type") == "number" or any(
        isinstance(value, float) for value in schema.get("enum", ())
    )
