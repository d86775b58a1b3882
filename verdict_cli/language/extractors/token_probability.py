"""Scores from token probabilities: where a reply's value is, what its alternatives say of the other values, and four readings
of that distribution: `token_probability`, `argmax_score`, `sample_score`, `weighted_summed_score`.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from verdict_cli.config_model import Issue, KeyRule, python_constructor
from verdict_cli.errors import ReplyError
from verdict_cli.language.calibrations import (
    MapKey,
    ProbabilityMap,
    ScoreWeights,
    ScoreWeightsKey,
    apply_map,
)
from verdict_cli.language.extractors.answer_text import drop_invisible
from verdict_cli.language.extractors.bound_extractor import (
    EXPLANATION,
    MASS_FIELD,
    BoundExtractor,
    Extractor,
    judged_fields,
)
from verdict_cli.language.fields.types import (
    MASS_TYPE,
    NUMBER,
    TEXT,
    DistributionType,
    FieldType,
    RecordType,
    ScaleType,
    Values,
)
from verdict_cli.language.scales import Scale, Value
from verdict_cli.language.scales.written_number import Tokens
from verdict_cli.messages import Alternative, JsonObject, Reply, Request, is_number
from verdict_cli.regex import regex

_PIECE = regex(r"[^\W\d_]+|\d+|.", re.DOTALL)


Probabilities = dict[Any, float]
"""The probability of each value."""
Evidence = tuple[Probabilities, float]
"""The probability of each value, and the sum of those of the scale's tokens."""


class Support:
    """The value of each token of a scale; `cased` where two values differ only in case."""

    def __init__(self, scale: Scale) -> None:
        folded: JsonObject = {}
        self.cased = any(
            folded.setdefault(token.strip().casefold(), value) != value
            for token, value in scale.tokens()
        )
        self.exact = {self.normal(token): value for token, value in scale.tokens()}

    def normal(self, token: str) -> str:
        """The token without surrounding space, and without case where case does not matter."""
        word = token.strip().strip("▁Ġ")
        return word if self.cased else word.casefold()

    def begun(self, word: str) -> tuple[Any, ...]:
        """The values whose tokens a normal word begins.

        A single Latin letter does not begin a word: it is rarely a tokenizer's first piece, but often a stray alternative.
        """
        tokens = [token for token in self.exact if word and token.startswith(word)]
        if len(word) == 1:
            tokens = [
                token for token in tokens if not (token[:2].isascii() and token[:2].isalpha())
            ]
        return tuple(dict.fromkeys(self.exact[token] for token in tokens))

    def values(self, token: str) -> tuple[Any, ...]:
        """The values that a token can mean: one of its own, else all that it begins."""
        word = self.normal(token)
        return (self.exact[word],) if word in self.exact else self.begun(word)

    def is_clear(self, value: Any, present: Set[Any]) -> bool:
        """Whether the token of a value means it and does not begin a longer one: `1` may begin `10` where the tokenizer
        writes digits one by one, which it does not where `10` is among the values that are ``present``."""
        words = (word for word, meaning in self.exact.items() if meaning == value)
        longer = {other for word in words for other in self.begun(word)} - {value}
        return not longer or not longer.isdisjoint(present)

    def continuations(self, text: str) -> tuple[Any, tuple[Any, ...]]:
        """The value that a text is, quotes and emphasis around it aside (None: no value), and the others that it begins."""
        word = self.normal(text)
        if word not in self.exact:
            word = self.normal(strip_token(word)) or word
        value = self.exact.get(word)
        return value, tuple(other for other in self.begun(word) if other != value)


def ambiguity(scale: Scale) -> str | None:
    """Why the first token does not distinguish the scale's values, None when it does.

    Numbers and single words are assumed to start with a token of their own, a minus sign aside; a value of several
    words or pieces starts with its first piece, which must not start another value.
    """
    support = Support(scale)
    starts: JsonObject = {}
    for token, value in scale.tokens():
        piece = token.strip()
        first = _PIECE.match(piece)
        if first is not None and (not is_number(value) or first[0] == "-"):
            piece = first[0]
        other = starts.setdefault(support.normal(piece), value)
        if other != value:
            return f"the values {other!r} and {value!r} begin with the same token {piece!r}"
    return None


QUOTES = "\"'`“”‘’"
_AROUND = QUOTES + "*_"  # quotes and markdown emphasis
_SPECIAL = regex(r"<.+>")
_SHOWN = 80

TokenPosition = tuple[Alternative, ...]


class FoundValue(NamedTuple):
    """The value that a reply writes, and where: an index in the text."""

    value: Any
    start: int


def find_value(text: str, support: Support, after: str | None) -> FoundValue:
    """The value that is the whole text, or all that follows the last ``after``. ReplyError for any other text."""
    start = 0
    if after is not None:
        last = text.rfind(after)
        if last < 0:
            raise ReplyError(
                f"the reply does not contain {after!r}", hint="ask for it in the prompt"
            )
        start = last + len(after)
    answer = candidate = text[start:].strip()
    start = len(text) - len(text[start:].lstrip())
    has_period = False
    while candidate:
        word = support.normal(candidate)
        if word in support.exact:
            return FoundValue(support.exact[word], start)
        if candidate.endswith(".") and not has_period:
            has_period, candidate = True, candidate[:-1].rstrip()
        elif candidate[0] in _AROUND:
            inner = candidate[1:].lstrip()
            start += len(candidate) - len(inner)
            candidate = inner
        elif candidate[-1] in _AROUND:
            candidate = candidate[:-1].rstrip()
        else:
            break
    excerpt = answer if len(answer) <= _SHOWN else answer[:_SHOWN] + "…"
    where = "the reply" if after is None else f"what follows {after!r}"
    raise ReplyError(
        f"{where} is not exactly one value of the scale: {excerpt!r}",
        hint="ask for the value alone, or use `after` where reasons come before it",
    )


def position_at(positions: Sequence[TokenPosition], text: str, start: int) -> tuple[int, str, str]:
    """The index of the position whose drawn token contains this place of the text, what that token has before it, and it.

    ReplyError where the drawn tokens do not spell the text.
    """
    if len(positions) == 1 and any(
        spell_token(alternative.token).strip() == text.strip() for alternative in positions[0]
    ):
        # Recordings of one token often have its alternatives in another order.
        return 0, text[:start], text
    pieces = [
        drop_invisible(spell_token(position[0].token)) if position else "" for position in positions
    ]
    # Some servers leave out the white space at the ends of the text, write reasoning before it, or a special token after it.
    while pieces and is_special(pieces[-1]) and not text.rstrip().endswith(pieces[-1].strip()):
        pieces.pop()
    token_text, wanted = "".join(pieces).rstrip(), text.strip()
    if not token_text.endswith(wanted):
        raise ReplyError("the reply's tokens do not spell its text", kind="no-logprobs")
    offset = len(token_text) - len(wanted) + start - (len(text) - len(text.lstrip()))
    for index, piece in enumerate(pieces):
        if offset < len(piece):
            return index, piece[:offset], piece
        offset -= len(piece)
    raise ReplyError("the reply's tokens end before its value", kind="no-logprobs")


def is_special(token: str) -> bool:
    """Whether a token is one of a tokenizer's own, such as `<|eot|>`."""
    return _SPECIAL.fullmatch(token.strip()) is not None


def spell_token(token: str) -> str:
    """The token's text: some servers write a leading space as `▁` or `Ġ`."""
    return " " + token[1:] if token[:1] in ("▁", "Ġ") else token


def strip_token(token: str) -> str:
    """The token without the quotes, emphasis and final period that a reply may have around its value."""
    word = token.strip().strip(_AROUND).strip()
    return word[:-1] if word.endswith(".") and len(word) > 1 else word


UNCLEAR_REPLY = 0.01
"""The share of the scale's probability that may be on tokens that begin several values. More would bias the result."""
_ROUNDING = 0.01
"""How far above 0 a log-probability may be: servers compute them in low precision."""


def is_logprob(value: float) -> bool:
    """Whether it is the logarithm of a probability: not NaN, and not above 0 beyond rounding."""
    return value <= _ROUNDING


def distribution(
    reply: Reply,
    scale: Scale,
    *,
    after: str | None = None,
    min_mass: float = 0.0,
    first_token: bool = False,
) -> Evidence:
    """The probability of each value, normalised over the token support and in its order; and the support's own mass.

    They are those at the position where the reply's value begins, with ``first_token`` at the first one.

    Raises:
        ReplyError: the model returned no log-probabilities, the reply is not exactly one value, the support's mass is
            below ``min_mass``, zero or NaN, or the value's first token does not identify it.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = Support(scale)
    if first_token:
        position, lead, around = reply.logprobs[0], "", False
    else:
        occurrence = find_value(reply.text, support, after)
        index, lead, drawn = position_at(reply.logprobs, reply.text, occurrence.start)
        position = reply.logprobs[index]
        around = not _values(support, drawn, lead, around=False)
        if _values(support, drawn, lead, around=around) != (occurrence.value,):
            raise _several_tokens(reply.text.strip())
    mass, unclear = _mass(support, position, lead, around=around)
    total = math.fsum(mass.values())
    if unclear > UNCLEAR_REPLY * total and unclear + total >= min_mass:
        raise _several_tokens(reply.text.strip())
    if total == 0 or total < min_mass:
        raise _low_mass(total, min_mass)
    return _shares(mass, scale), min(total, 1.0)


def _shares(products: Mapping[Any, float], scale: Scale) -> Probabilities:
    """The share of each value of a scale, in the order of its tokens."""
    total = math.fsum(products.values())
    return {value: products.get(value, 0.0) / total for value in scale.token_values()}


def decided_distribution(reply: Reply, anchors: Tokens) -> Evidence:
    """The probability of each value in a decision model's answer, and their sum. ``anchors`` are those of the scale.

    ReplyError where the reply has none.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    probabilities = {
        alternative.token: math.exp(alternative.logprob) for alternative in reply.logprobs[0]
    }
    unknown = [token for token, _ in anchors if token not in probabilities]
    if unknown:
        raise ReplyError(f"the answer has no probability of {unknown[0]!r:.80}", kind="no-logprobs")
    return {value: round(probabilities[token], _DIGITS) for token, value in anchors}, min(
        1.0, round(math.fsum(probabilities.values()), _DIGITS)
    )


_DIGITS = 12
"""Of a probability whose logarithm was taken; more would show the rounding."""


def _mass(support: Support, position: TokenPosition, lead: str, *, around: bool) -> Evidence:
    """The probability of each value, and of tokens that begin several values."""
    mass: Probabilities = {}
    unclear = 0.0
    read = [_values(support, alternative.token, lead, around=around) for alternative in position]
    present = {values[0] for values in read if len(values) == 1}
    for alternative, values in zip(position, read, strict=True):
        if len(values) == 1 and support.is_clear(values[0], present):
            mass[values[0]] = mass.get(values[0], 0.0) + _probability(alternative)
        elif values:
            unclear += _probability(alternative)
    return mass, unclear


def _values(support: Support, token: str, lead: str, *, around: bool) -> tuple[Any, ...]:
    """The values that a token can mean, without ``lead``, the text before the value in the token that was drawn.

    ``around``: the drawn token has quotes, emphasis or a period around its value, so other tokens may have them too.
    """
    word = strip_lead(spell_token(token), lead)
    return support.values(word) or (support.values(strip_token(word)) if around else ())


def _probability(alternative: Alternative) -> float:
    if not is_logprob(alternative.logprob):
        raise ReplyError(f"{alternative.logprob!r} is not a log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def strip_lead(word: str, lead: str) -> str:
    """A token's text without ``lead``, where it has it too; white space does not matter."""
    return word[len(lead) :] if lead.strip() and word.startswith(lead) else word


def _no_logprobs() -> ReplyError:
    return ReplyError(
        "the model returned no log-probabilities",
        hint="token extractors need a model that returns them; use `structured` or `regex` with this one",
        kind="no-logprobs",
    )


def _low_mass(mass: float, least: float) -> ReplyError:
    error = ReplyError(
        f"the scale's tokens have a probability of {mass:.2g} together, less than {least:g}",
        hint="ask for the value alone, or lower `min_mass`",
        kind="low-mass",
    )
    error.mass = mass
    return error


def _several_tokens(value_text: str) -> ReplyError:
    return ReplyError(
        f"this model writes values in several tokens, here {value_text!r}",
        hint="use a scale whose values are single tokens, such as letters, or give the extractor `sequence: true`",
        kind="no-logprobs",
    )


def sequence_distribution(
    reply: Reply, scale: Scale, *, after: str | None = None, min_mass: float = 0.0
) -> Evidence:
    """The probability of each value as the product along its tokens, normalised over the values; and their mass.

    The reply's own tokens give the path: at each of its positions the alternatives either finish a value, can begin only
    one, which they then count for, or leave it open which value they begin. A value that no alternative begins has none.

    Raises:
        ReplyError: as `distribution`, or more than `UNCLEAR_REPLY` of the probability is open.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = Support(scale)
    occurrence = find_value(reply.text, support, after)
    index, lead, _ = position_at(reply.logprobs, reply.text, occurrence.start)
    path = _Path(support, occurrence.value)
    for position in reply.logprobs[index:]:
        if not path.follow(position, lead):
            break
        lead = ""
    products, unclear = path.finished()
    if path.mass == 0 or path.mass < min_mass:
        raise _low_mass(path.mass, min_mass)
    if unclear > UNCLEAR_REPLY * path.mass:
        raise ReplyError(
            f"several values begin as {reply.text.strip()!r:.80} does, or as another token in its place",
            hint="use a scale whose values begin differently, such as letters",
            kind="no-logprobs",
        )
    if not any(products.values()):
        raise ReplyError("no value of the scale has a probability", kind="low-mass")
    return _shares(products, scale), min(path.mass, 1.0)


class _Path:
    """The walk along a reply's tokens: what they have spelled so far, and with which probability."""

    def __init__(self, support: Support, value: Any) -> None:
        self.support, self.value = support, value
        self.text, self.reached, self.mass = "", 1.0, 0.0
        self.products: Probabilities = {}
        self.open: list[tuple[Any, tuple[Any, ...], float]] = []
        """(value, longer values, probability) of texts that are a value, or None, and may continue as the longer ones."""

    def follow(self, position: TokenPosition, lead: str) -> bool:
        """Add one position's alternatives, of which the first was drawn. False where the value ends here."""
        complete, _ = self.support.continuations(self.text)
        continues = False
        for rank, alternative in enumerate(position):
            word = strip_lead(spell_token(alternative.token), lead)
            p = self.reached * _probability(alternative)
            if self.text and complete is not None and _is_end(word):
                self._add(complete, p)
                continue
            value, longer = self.support.continuations(self.text + word)
            if not self.text and (rank == 0 or value is not None or longer):
                self.mass += p
            if rank == 0 and (longer or value is None):
                continues = True
            elif not longer:
                self._add(value, p)
            elif value is None and len(longer) == 1:
                self._add(longer[0], p)
            else:
                self.open.append((value, longer, p))
        if continues:
            self.reached *= _probability(position[0])
            self.text += strip_lead(spell_token(position[0].token), lead)
        return continues

    def _add(self, value: Any, p: float) -> None:
        if value is not None:
            self.products[value] = self.products.get(value, 0.0) + p

    def finished(self) -> Evidence:
        """The products, and the probability of texts that may become a value without one."""
        value, longer = self.support.continuations(self.text)
        if self.value not in self.products and value == self.value:
            # The reply ends here, or its next token is not known.
            self.open.append((value, longer, self.reached))
        unclear = 0.0
        self.open.sort(key=lambda entry: (entry[0] is None, len(entry[1])))
        for value, longer, p in self.open:
            # Where the longer ones have tokens of their own, it is the whole value.
            if self.products.keys() >= set(longer):
                self._add(value, p)
            else:
                unclear += p
        return self.products, unclear


def _is_end(word: str) -> bool:
    """Whether a token ends the value before it: a special token, a line end, a quote, emphasis or a period."""
    return (
        not word or (not strip_token(word).strip(".") and bool(word.strip(" "))) or is_special(word)
    )


TOP_LOGPROBS = 20
"""Alternatives requested at each position: the most that OpenAI's API returns."""

DISTRIBUTION_FIELD = "distribution"

LEAST_PROBABILITY = 1e-10
"""What a value that is not among a reply's alternatives counts as in a logarithm: servers report none that is smaller."""

SPARE_TOKENS = 8
"""Tokens that a reply may have beside its value: quotes, emphasis, a period, white space."""

BYTES_A_TOKEN = 3
"""A cautious estimate of how much of a value one token writes."""


Score = Callable[[Probabilities, Request], Any]
"""The value of a distribution."""


def _draw(probabilities: Probabilities, request: Request) -> Any:
    key = f"{request.seed}|{request.row.draw_id}|{request.node}|{request.call}|{request.attempt}"
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
    return random.Random(seed).choices(list(probabilities), weights=list(probabilities.values()))[0]


class _TokenExtractor(Extractor):
    key_rules = (
        KeyRule("first_token", "after", (), "`first_token` and `after` exclude each other", "give one of them"),
        KeyRule("first_token", "sequence", (), "`first_token` and `sequence` exclude each other", "give one of them"),
    )  # fmt: skip
    after: Annotated[str, Field(min_length=1)] | None = None
    """Text that comes before the value, such as `Score:`, so that reasons may come before it; its last occurrence counts."""
    min_mass: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The least probability that the scale's tokens must have together; below it, the reply cannot be read."""
    first_token: bool = False
    """Read the alternatives of the reply's first token, whatever the reply says; `min_mass` still holds. For recordings of judges that were read so."""
    sequence: bool = False
    """Whether a value may have several tokens: its probability is then the product along them, where all are among the alternatives."""
    calibration: MapKey | None = None
    """A map that `verdict calibrate` fitted: the token probabilities are replaced by calibrated ones."""

    def validation_error(self, response: RecordType) -> Issue | None:
        """The response must be one field on a scale whose values start with tokens of their own."""
        fields = judged_fields(response)
        kinds = list(fields.values())
        scale = kinds[0].scale if len(kinds) == 1 and isinstance(kinds[0], ScaleType) else None
        if scale is None or not scale.tokens():
            return Issue(
                "",
                f"`{self.type}` needs a response of one field on a discrete or boolean scale, here it is {response.type_name()}",
                "give the unit such a scale, or use `structured`",
            )
        if len(fields) < len(response.fields) and self.after is None:
            return Issue(
                "",
                f"`{self.type}` needs `after` where an `explanation` comes before the value",
                'write `after: "Score:"`, or leave `explanation` out',
            )
        if MASS_FIELD in response.fields:
            hint = "choose another name for the response's field"
            return Issue("", f"`{self.type}` gives a field {MASS_FIELD!r} of its own", hint)
        return self.broken_rule() or self._value_error(scale)

    def _value_error(self, scale: Scale) -> Issue | None:
        """Why the scale's values, or a calibration of them, cannot be read."""
        ambiguous = None if self.sequence else ambiguity(scale)
        if ambiguous:
            return Issue(
                "",
                f"`{self.type}` cannot distinguish the values: {ambiguous}",
                "use values that begin differently, such as letters, or give the extractor `sequence: true`",
            )
        fitted = self.calibration
        if isinstance(fitted, ProbabilityMap) and fitted.method != "temperature":
            values = scale.token_values()
            if len(values) != 2 or fitted.positive not in values:
                return Issue(
                    "calibration",
                    f"`{fitted.method}` maps the probability of {fitted.positive!r}, one of two values; the values are {scale.display()}",
                    "fit one to this scale, or use `--method temperature`",
                )
        return None

    def output_field(self, field: str, kind: ScaleType) -> tuple[str, FieldType]:
        """The name and the type of the output, from those of the response's field."""
        return field, kind

    def score(self, scale: Scale) -> Score:
        """The function that makes the output of a distribution."""
        raise NotImplementedError

    def for_decisions(self) -> Extractor:
        """The extractor without what concerns only written tokens: a decision model's values are whole ones."""
        return self.model_copy(update={"sequence": True, "after": None, "first_token": False})

    def bind(self, response: RecordType) -> BoundExtractor:
        """The extractor for a scale: what it makes of the distribution, beside the evidence for it."""
        (field,) = judged_fields(response)
        scale, after, explains = _scale(response), self.after, EXPLANATION in response.fields
        anchors = scale.anchors()
        name, kind = self.output_field(field, ScaleType(scale))
        score = self.score(scale)

        def evidence(reply: Reply, request: Request) -> Evidence:
            least = self.min_mass
            if request.questions:
                return decided_distribution(reply, anchors)
            if self.sequence:
                return sequence_distribution(reply, scale, after=after, min_mass=least)
            first = self.first_token
            return distribution(reply, scale, after=after, min_mass=least, first_token=first)

        def read(reply: Reply, request: Request) -> Values:
            probabilities, mass = evidence(reply, request)
            if isinstance(self.calibration, ProbabilityMap):
                probabilities = apply_map(probabilities, self.calibration)
            explained = {EXPLANATION: _before(reply.text, after)} if explains else {}
            return {**explained, name: score(probabilities, request), MASS_FIELD: mass}

        explained = {EXPLANATION: TEXT} if explains else {}
        order = scale.values()
        worst_first = sorted(scale.tokens(), key=lambda pair: order.index(pair[1]))
        tokens = tuple(token for token, _ in worst_first)
        longest = max(-(-len(token.encode()) // BYTES_A_TOKEN) for token in tokens)
        return BoundExtractor(
            RecordType({**explained, name: kind, MASS_FIELD: MASS_TYPE}),
            read,
            top_logprobs=TOP_LOGPROBS,
            support=tokens,
            instruction=_instruction(after, explains=explains),
            token_cap=longest + SPARE_TOKENS if after is None else 0,
            sequence=self.sequence,
        )


def _instruction(after: str | None, *, explains: bool) -> str:
    if after is None:
        return "Do not explain. Respond with the value alone."
    end = f'"{after.strip()}" and the value alone.'
    return f"Explain first, then end with {end}" if explains else f"End with {end}"


def _before(text: str, after: str | None) -> str:
    """The reasons: what comes before the last ``after``."""
    return text[: text.rfind(after)].strip() if after is not None else ""


def _scale(response: RecordType) -> Scale:
    (field,) = judged_fields(response).values()
    assert isinstance(field, ScaleType)
    return field.scale


class TokenProbabilityExtractor(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The type of extractor."""
    log: bool = False
    """Gives the response's own field instead of `distribution`: the natural logarithm of the probability of the scale's best value, such as that of `true`."""

    def validation_error(self, response: RecordType) -> Issue | None:
        """In addition, `log` needs a best value."""
        issue = super().validation_error(response)
        if issue is None and self.log and _scale(response).best() is None:
            hint = "give the scale `ordered: true`, or leave `log` out and use `distribution`"
            return Issue(
                "log",
                "no value of the scale is the best, whose probability could be the score",
                hint,
            )
        return issue

    def output_field(self, field: str, kind: ScaleType) -> tuple[str, FieldType]:
        """The distribution, or with `log` the logarithm."""
        return (field, NUMBER) if self.log else (DISTRIBUTION_FIELD, DistributionType(kind.scale))

    def score(self, scale: Scale) -> Score:
        if not self.log:
            return lambda probabilities, _: probabilities
        best = scale.best()
        return lambda probabilities, _: math.log(max(probabilities[best], LEAST_PROBABILITY))


class ArgmaxScoreExtractor(_TokenExtractor):
    """The most probable value; of several, the first in the support's order."""

    type: Literal["argmax_score"] = "argmax_score"
    """The type of extractor."""

    def score(self, scale: Scale) -> Score:
        return lambda probabilities, _: max(probabilities, key=probabilities.__getitem__)


class SampleScoreExtractor(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The type of extractor."""

    def score(self, scale: Scale) -> Score:
        return _draw


class WeightedSummedScoreExtractor(_TokenExtractor):
    """The distribution's expectation, as in G-Eval (Liu et al., 2023)."""

    type: Literal["weighted_summed_score"] = "weighted_summed_score"
    """The type of extractor."""
    weights: ScoreWeightsKey | None = None
    """Numbers that replace the values' own: a mapping, or a file that `verdict calibrate` wrote."""

    @python_constructor
    def __init__(self, weights: Mapping[Any, float] | None = None, **keys: Any) -> None:
        keys["weights"] = dict(weights) if isinstance(weights, Mapping) else weights
        super().__init__(**keys)

    def validation_error(self, response: RecordType) -> Issue | None:
        """In addition, each value must have a number."""
        issue = super().validation_error(response)
        if issue:
            return issue
        scale = _scale(response)
        if self.weights is None:
            if scale.numeric():
                return None
            hint = "give the scale `scores:` or the extractor `weights:`"
            return Issue("", f"the values {scale.display()} have no number", hint)
        return scale.numbers_error("weights", self.numbers(), "weight")

    def output_field(self, field: str, kind: ScaleType) -> tuple[str, FieldType]:
        return field, NUMBER

    def score(self, scale: Scale) -> Score:
        number = scale.number if self.weights is None else self.numbers().__getitem__
        return lambda probabilities, _: math.fsum(
            p * (number(value) or 0.0) for value, p in probabilities.items()
        )

    def numbers(self) -> dict[Value, float]:
        """The weights, written out or fitted."""
        if isinstance(self.weights, ScoreWeights):
            return self.weights.weights
        assert isinstance(self.weights, dict)
        return self.weights
