"""The scale that `verdict init` proposes for human labels: yes or no, numbers, words ordered by their meaning, or categories.

The order of words is never guessed from their spelling: where no table below knows it, the user is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, floor
from typing import Any, Literal

from msgspec import Struct

from verdict_cli.language.scales.written_number import are_labels, folded

MAX_CATEGORIES = 12
"""A column with more distinct texts than this is not treated as categories."""
_MOST_NUMBERS = 100

_ORDERS = (
    # The five middle words of the first line are the opinion scale of ITU-T P.800.
    "terrible|awful|horrible|very bad|unusable < bad|very poor|unacceptable < poor|weak|inadequate|insufficient < "
    "below average < mediocre|so so|marginal|borderline < "
    "fair|ok|okay|average|acceptable|medium|moderate|neutral|adequate|satisfactory|decent < above average < good|strong "
    "< very good < great < excellent|outstanding|superb < perfect|exceptional|flawless",
    "none|zero|absent < minimal|negligible < very low|very small|tiny < low|small|little|slight < "
    "medium|moderate|mid|middle < high|large|big < very high|very large < extreme|maximal|huge",
    "none|cosmetic|trivial < minor|low|mild|slight < moderate|medium|normal < major|high|serious < severe < critical|blocker|fatal",
    "never < almost never|very rarely < rarely|seldom < occasionally|sometimes < often|frequently < "
    "usually|very often|mostly < almost always < always",
    "strongly disagree|completely disagree|totally disagree < disagree < somewhat disagree|slightly disagree < "
    "neutral|neither|neither agree nor disagree|undecided|unsure < somewhat agree|slightly agree < agree < "
    "strongly agree|completely agree|totally agree",
    "very unlikely|impossible < unlikely|improbable < possible|neutral < likely|probable < very likely < certain",
    "very negative < negative|neg < neutral|neu|mixed < positive|pos < very positive",
    "no|none|fail|failed|wrong|not at all < partial|partly|partially|somewhat|maybe|mixed|borderline|needs work|needs improvement < "
    "mostly|largely < yes|full|fully|complete|completely|pass|passed|right",
    "much worse < worse|slightly worse < same|equal|similar < better|slightly better < much better",
    "thumbs down|thumbsdown|👎|-|−|✗|✘|❌|dislike|disliked|downvote|down < thumbs up|thumbsup|👍|+|✓|✔|✅|like|liked|upvote|up",
    "reject|rejected|decline|declined|deny|denied|disapproved < revise|borderline < accept|accepted|approve|approved",
    "spam < ham",
    "sehr schlecht|ungenügend|mangelhaft < schlecht < mittel|mittelmäßig|befriedigend|neutral|okay|ok < gut < sehr gut < ausgezeichnet|hervorragend",
    "falsch|nicht richtig < teilweise richtig|teilweise < richtig",
    "muy malo|muy mala|pésimo|pésima < malo|mala|mal < regular < bueno|buena|bien < muy bueno|muy buena|muy bien < excelente",
    "très mauvais|très mauvaise < mauvais|mauvaise|mal < moyen|moyenne|passable < bon|bonne|bien < très bon|très bonne|très bien < excellent",
    "pessimo|pessima < cattivo|cattiva|scarso|scarsa|insufficiente < sufficiente|discreto < buono|buona < ottimo|ottima < eccellente",
    "péssimo|péssima < ruim|mau|má < regular|razoável < bom|boa < muito bom|muito boa|ótimo|ótima < excelente",
    "slecht < matig < goed < uitstekend",
    "dårlig|dålig < middels|medel|medium < god|bra|godt",
    "очень плохо < плохо|плохой < средне|нормально|удовлетворительно < хорошо|хороший < отлично|отличный",
    "неверно|неправильно < частично верно|частично < верно|правильно",
    "很差|极差|非常差 < 差|坏|不好|较差 < 一般|中|中等|普通 < 好|良|良好|较好 < 很好|优|优秀|非常好",
    "错误|错|不正确|錯誤|錯 < 部分正确|部分正確 < 正确|对|正確|對",
    "悪い < 普通 < 良い|よい",
    "不正解|誤り|誤|間違い < 部分正解 < 正解|正しい|正",
    "나쁨 < 보통 < 좋음",
    "오답|틀림 < 부분 정답 < 정답|맞음",
    "गलत < सही",
    "خطأ < صحيح",
    "novice|beginner|basic < intermediate < advanced|proficient < expert",
    "bronze < silver < gold < platinum",
    "f < e < d- < d < d+ < c- < c < c+ < b- < b < b+ < a- < a < a+",
)
"""Orders from worst to best, or from least to most. Alternatives are separated by bars: two of them among the labels have
no known order."""
_STEPS = tuple(
    {word: rank for rank, step in enumerate(order.split(" < ")) for word in step.split("|")} for order in _ORDERS
)
_GRADES = _STEPS[-1]

_DEGREES = {
    "not at all": 0, "not": 1, "non": 1, "barely": 2, "hardly": 2, "slightly": 2, "a little": 2, "marginally": 2, "somewhat": 3,
    "partially": 3, "partly": 3, "fairly": 3, "moderately": 4, "mostly": 5, "largely": 5, "": 6, "fully": 7,
    "completely": 7, "entirely": 7, "very": 7, "highly": 7, "extremely": 8, "perfectly": 8,
}  # fmt: skip
"""How much of a quality the word before it says: `partially relevant` is less than `relevant`."""
_NEGATIONS = ("un", "in", "ir", "im", "il", "dis", "non")

_TRUTHS = {
    "yes": True, "y": True, "true": True, "t": True, "ja": True, "oui": True, "sí": True, "sì": True, "si": True, "sim": True,
    "vrai": True, "wahr": True, "verdadero": True, "vero": True, "verdadeiro": True, "tak": True, "evet": True, "да": True,
    "ya": True, "ano": True, "igen": True, "kyllä": True, "ναι": True, "có": True, "ใช่": True, "是": True, "はい": True, "예": True, "네": True, "हाँ": True, "نعم": True,
    "no": False, "n": False, "false": False, "f": False, "nein": False, "non": False, "não": False, "nao": False, "nee": False,
    "nej": False, "faux": False, "unwahr": False, "falso": False, "nie": False, "hayır": False, "нет": False, "否": False,
    "tidak": False, "ne": False, "nem": False, "ei": False, "όχι": False, "không": False, "ไม่": False, "ไม่ใช่": False, "不是": False, "いいえ": False, "아니오": False, "아니요": False, "नहीं": False, "لا": False,
}  # fmt: skip
_PARTNERS = {
    "yes": "no", "y": "n", "true": "false", "t": "f", "ja": "nein", "oui": "non", "sí": "no", "sì": "no", "sim": "não",
    "vrai": "faux", "wahr": "falsch", "vero": "falso", "verdadero": "falso", "да": "нет", "是": "否", "はい": "いいえ", "예": "아니오",
}  # fmt: skip

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)")


class LabelScale(Struct, frozen=True):
    """A scale for labels. ``values``: of `boolean` none, of a `range` (whole numbers) or `continuous` the two ends as text, of
    `ordered` words the worst first, of `nominal` ones in no order."""

    kind: Literal["boolean", "range", "continuous", "ordered", "nominal"]
    values: tuple[str, ...] = ()

    def option(self) -> str:
        """The scale as `--scale` takes it."""
        if self.kind in ("range", "continuous"):
            return "-".join(self.values)
        return {"boolean": "boolean", "nominal": "categories"}.get(self.kind) or ",".join(self.values)


BOOLEAN = LabelScale("boolean")


def given_labels(values: Iterable[Any]) -> list[Any]:
    """The labels without nulls and empty cells."""
    return [value for value in values if value is not None and not (isinstance(value, str) and not value.strip())]


def numeric(value: Any) -> bool:
    """Whether a value is a number, or a text that is one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is not None)


def truth(value: Any) -> bool | None:
    """Whether the label says yes or no; None where it says neither."""
    return value if isinstance(value, bool) else _TRUTHS.get(folded(value)) if isinstance(value, str) else None


def partner(word: str) -> str:
    """The other word of a pair such as yes and no, in the same case."""
    plain = folded(word)
    other = _PARTNERS.get(plain) or next((yes for yes, no in _PARTNERS.items() if no == plain), "no")
    return other.upper() if word.isupper() and len(word) > 1 else other.capitalize() if word[:1].isupper() else other


def label_words(values: Iterable[Any]) -> list[str]:
    """The distinct labels as texts, the most frequent first."""
    counts = Counter(str(value) for value in given_labels(values))
    return sorted(counts, key=lambda word: -counts[word])


def proposed_scale(values: Sequence[Any]) -> LabelScale | None:
    """The scale of these labels; None where there is none, or where the words have no known order."""
    seen = given_labels(values)
    if not seen or not all(isinstance(value, str | int | float) for value in seen):
        return None
    if all(truth(value) is not None for value in seen):
        return BOOLEAN
    if all(numeric(value) for value in seen):
        return _number_scale([float(value) for value in seen])
    words = label_words(seen)
    if not 1 < len(words) <= MAX_CATEGORIES:
        return None
    order = meaning_order(words)
    first = order or _negative_first(words)
    if are_labels(first):
        return LabelScale("nominal", first)
    return LabelScale("ordered", order) if order else None


def _number_scale(numbers: Sequence[float]) -> LabelScale | None:
    low, high = min(numbers), max(numbers)
    whole = all(number.is_integer() for number in numbers)
    if whole and {low, high} <= {0, 1}:
        return BOOLEAN
    if not whole and low >= 0 and high <= 1:
        return LabelScale("continuous", ("0.0", "1.0"))
    if not whole and low >= -1 and high <= 1:
        return LabelScale("continuous", ("-1.0", "1.0"))
    # Ratings that nobody gave are on the scale too: labels from 2 to 4 are proposed as 1 to 5.
    for first, last in ((1, 3), (1, 5), (0, 3), (0, 4), (0, 5), (1, 6), (1, 7), (1, 10), (0, 10), (0, _MOST_NUMBERS)):
        is_known = (last != 3 or high == 3) and ((first, last) != (0, 4) or (low, high) == (0, 4))
        if first <= low and high <= last and is_known and (last not in (6, 7) or high == last):
            return LabelScale("range", (str(first), str(last)))
    if 0 < high - low <= MAX_CATEGORIES:
        return LabelScale("range", (str(floor(low)), str(ceil(high))))
    return None


def meaning_order(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words from worst to best, or from least to most; None where that is not known."""
    plain = [
        " ".join(re.split(r"[\s_-]+", folded(word))).strip() or word if not _is_grade(word) else folded(word)
        for word in words
    ]
    if all(word in _GRADES for word in plain) and not ("f" in plain or any(len(word) > 1 for word in plain)):
        return None  # A, B and C may be the options of a question
    if (numbered := _numbered_order(words)) is not None:
        return numbered
    orders = {
        tuple(words[index] for index in sorted(range(len(words)), key=lambda index: steps[index] or 0))
        for steps in ([steps.get(word) for word in plain] for steps in _STEPS)
        if None not in steps and len(set(steps)) == len(words)
    }
    return orders.pop() if len(orders) == 1 else None if orders else _by_degree(words, plain)


def _numbered_order(words: Sequence[str]) -> tuple[str, ...] | None:
    """The order of words with a number each, such as `1 star`, `2 stars`, or `1 - poor`, `5 - excellent`."""
    numbers = [re.findall(r"\d+(?:\.\d+)?", word) for word in words]
    ends = all(re.match(r"\d|.*\d$", word.strip()) and re.search("[^\\W\\d_]{2}|[★⭐*]", word) for word in words)
    if not ends or len(words) < 2 or not all(len(written) == 1 for written in numbers):
        return None
    values = [float(written[0]) for written in numbers]
    texts = {re.sub(r"[\d.]+|s\b", "", word).strip() for word in words}
    if len(set(values)) < len(words) or max(values) > _MOST_NUMBERS or (len(texts) > 1 and not _are_first(words)):
        return None
    return tuple(word for _, word in sorted(zip(values, words, strict=True)))


def _are_first(words: Sequence[str]) -> bool:
    """Whether each word begins with its number: texts behind it name the level."""
    return all(re.match(r"\s*\d+\s*[-–:.)=]", word) for word in words)


def _is_grade(word: str) -> bool:
    return folded(word) in _GRADES


def _by_degree(words: Sequence[str], plain: Sequence[str]) -> tuple[str, ...] | None:
    """The order of words that say how much of one quality there is: `irrelevant`, `partially relevant`, `relevant`."""
    for quality in sorted({word.split(" ")[-1] for word in plain}, key=len):
        degrees = [_degree(word, quality) for word in plain]
        if None not in degrees and len(set(degrees)) == len(words):
            return tuple(words[index] for index in sorted(range(len(words)), key=lambda index: degrees[index] or 0.0))
    return None


def _degree(word: str, quality: str) -> float | None:
    *before, last = word.split(" ")
    degree = _DEGREES.get(" ".join(before))
    if last == quality or degree is None:
        return None if degree is None else float(degree)
    # Of a negated quality, more is worse: very unhelpful, unhelpful, slightly unhelpful, then slightly helpful.
    return 1 - degree / 10 if any(last == prefix + quality for prefix in _NEGATIONS) else None


def _negative_first(words: Sequence[str]) -> tuple[str, ...]:
    """Of two words of which one is the negation of the other, the negation first."""
    return tuple(
        sorted(
            words, key=lambda word: not any(folded(word).endswith(folded(other)) for other in words if other != word)
        )
    )


def parse_scale(text: str, values: Sequence[Any] = ()) -> LabelScale | str:
    """The scale that the user wrote, checked against the labels; a text says what is wrong with it."""
    text = text.strip()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    ends = _RANGE.fullmatch("1-5" if text == "likert" else text)
    if text == "boolean":
        scale = BOOLEAN
    elif ends and float(ends[1]) < float(ends[2]):
        scale = LabelScale("continuous" if "." in text else "range", (ends[1], ends[2]))
    elif text == "categories":
        scale = LabelScale("nominal", tuple(label_words(values)))
        if not 1 < len(scale.values) <= MAX_CATEGORIES:
            return f"categories are taken from 2 to {MAX_CATEGORIES} different labels, here are {len(scale.values)}"
    elif len(words) > 1:
        scale = LabelScale("nominal" if are_labels(words) else "ordered", words)
    else:
        return f"{text!r} is not a scale"
    return misfit(scale, values) or scale


def misfit(scale: LabelScale, values: Sequence[Any]) -> str:
    """Why labels are not on the scale; empty where they are."""
    seen = given_labels(values)
    if scale.kind == "boolean":
        off = [value for value in seen if truth(value) is None and str(value) not in ("0", "1", "0.0", "1.0")]
    elif scale.kind in ("range", "continuous"):
        low, high = map(float, scale.values)
        off = [value for value in seen if not numeric(value) or not low <= float(value) <= high]
    else:
        off = [value for value in seen if value not in scale.values]
    if not off:
        return ""
    listed = ", ".join(label_words(off)[:5])
    return f"the scale {scale.option()} does not have these labels: {listed}"
