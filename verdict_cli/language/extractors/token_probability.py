"""Scores from token probabilities: where a reply's value is, what its alternatives say of the other values, and four readings
of that distribution: `token_probability`, `argmax_score`, `sample_score`, `weighted_summed_score`.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

from msgspec import Struct
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
from verdict_cli.language.extractors.answer_text import visible
from verdict_cli.language.extractors.bound_extractor import (
    EXPLANATION,
    MASS_FIELD,
    BoundExtractor,
    Extractor,
)
from verdict_cli.language.fields.types import (
    MASS_TYPE,
    NUMBER,
    TEXT,
    DistributionType,
    FieldType,
    RecordType,
    ScaleType,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.discrete import Value
from verdict_cli.messages import Alternative, Reply, Request
from verdict_cli.regex import regex

_PIECE = regex(r"[^\W\d_]+|\d+|.", re.DOTALL)


class Support(Struct, frozen=True, dict=True):
    """The value of each token; `cased` where two values differ only in case."""

    exact: Mapping[str, Any]
    cased: bool

    def values(self, token: str) -> tuple[Any, ...]:
        """The values that a token can mean: one of its own, else all that it begins.

        A single Latin letter does not begin a word: it is rarely a tokenizer's first piece, but often a stray alternative.
        """
        word = self.normal(token)
        if word in self.exact:
            return (self.exact[word],)
        candidates = [
            value
            for known, value in self.exact.items()
            if known.startswith(word) and may_begin(word, known)
        ]
        return tuple(dict.fromkeys(candidates))

    def is_clear(self, value: Any, present: Set[Any]) -> bool:
        """Whether the token of a value means it and does not begin a longer one: `1` may begin `10` where the tokenizer
        writes digits one by one, which it does not where `10` is among the values that are ``present``."""
        longer = self.longer.get(value)
        return longer is None or not longer.isdisjoint(present)

    @cached_property
    def longer(self) -> dict[Any, frozenset[Any]]:
        """The longer values that each value begins, where it begins some."""
        begun: dict[Any, frozenset[Any]] = {}
        for word, value in self.exact.items():
            longer = {
                other
                for known, other in self.exact.items()
                if known.startswith(word) and may_begin(word, known)
            }
            if longer - {value}:
                begun[value] = begun.get(value, frozenset()) | (longer - {value})
        return begun

    def normal(self, token: str) -> str:
        """The token without surrounding space, and without case where case does not matter."""
        word = token.strip().strip("▁Ġ")
        return word if self.cased else word.casefold()


def may_begin(word: str, known: str) -> bool:
    """Whether a token that a known one starts with may mean it: not a single Latin letter of a word."""
    return bool(word) and not (len(word) == 1 and known[:2].isascii() and known[:2].isalpha())


def support_of(scale: Scale) -> Support:
    cased = _cased(scale)
    return Support(
        {(token if cased else token.casefold()): value for token, value in _stripped_tokens(scale)},
        cased,
    )


def ambiguity(scale: Scale) -> str | None:
    """Why the first token does not distinguish the scale's values, None when it does.

    Numbers and single words are assumed to start with a token of their own, a minus sign aside; a value of several
    words or pieces starts with its first piece, which must not start another value.
    """
    seen: dict[str, Any] = {}
    for token, value in _stripped_tokens(scale):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        first = _PIECE.match(token)
        piece = token if first is None or (number and first[0] != "-") else first[0]
        key = piece if _cased(scale) else piece.casefold()
        if key in seen and seen[key] != value:
            return f"the values {seen[key]!r} and {value!r} begin with the same token {piece!r}"
        seen[key] = value
    return None


def _stripped_tokens(scale: Scale) -> list[tuple[str, Any]]:
    return [(token.strip(), value) for token, value in scale.tokens()]


def _cased(scale: Scale) -> bool:
    folded: dict[str, Any] = {}
    return any(
        folded.setdefault(token.casefold(), value) != value
        for token, value in _stripped_tokens(scale)
    )


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
    begin, end = 0, len(text)
    if after is not None:
        last = text.rfind(after)
        if last < 0:
            raise ReplyError(
                f"the reply does not contain {after!r}", hint="ask for it in the prompt"
            )
        begin = last + len(after)
    start, stop = _stripped(text, begin, end)
    period = True
    while start < stop:
        word = support.normal(text[start:stop])
        if word in support.exact:
            return FoundValue(support.exact[word], start)
        if period and text[stop - 1] == ".":
            period, stop = False, stop - 1
        elif text[start] in _AROUND:
            start += 1
        elif text[stop - 1] in _AROUND:
            stop -= 1
        else:
            break
        start, stop = _stripped(text, start, stop)
    rest = text[begin:].strip()
    shown = rest if len(rest) <= _SHOWN else rest[:_SHOWN] + "…"
    where = "the reply" if after is None else f"what follows {after!r}"
    raise ReplyError(
        f"{where} is not exactly one value of the scale: {shown!r}",
        hint="ask for the value alone, or use `after` where reasons come before it",
    )


def _stripped(text: str, start: int, stop: int) -> tuple[int, int]:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    return start, stop


def position_at(positions: Sequence[TokenPosition], text: str, start: int) -> tuple[int, str, str]:
    """The index of the position whose drawn token contains this place of the text, what that token has before it, and it.

    ReplyError where the drawn tokens do not spell the text.
    """
    if len(positions) == 1 and any(
        spelled(alternative.token).strip() == text.strip() for alternative in positions[0]
    ):
        return (
            0,
            text[:start],
            text,
        )  # recordings of one token often have its alternatives in another order
    pieces = [visible(spelled(position[0].token)) if position else "" for position in positions]
    # Some servers leave out the white space at the ends of the text, write reasoning before it, or a special token after it.
    while pieces and is_special(pieces[-1]) and not text.rstrip().endswith(pieces[-1].strip()):
        pieces.pop()
    written, wanted = "".join(pieces).rstrip(), text.strip()
    if not written.endswith(wanted):
        raise ReplyError("the reply's tokens do not spell its text", kind="no-logprobs")
    offset = len(written) - len(wanted) + start - (len(text) - len(text.lstrip()))
    for index, piece in enumerate(pieces):
        if offset < len(piece):
            return index, piece[:offset], piece
        offset -= len(piece)
    raise ReplyError("the reply's tokens end before its value", kind="no-logprobs")


def is_special(token: str) -> bool:
    """Whether a token is one of a tokenizer's own, such as `<|eot|>`."""
    return _SPECIAL.fullmatch(token.strip()) is not None


def spelled(token: str) -> str:
    """The token's text: some servers write a leading space as `▁` or `Ġ`."""
    return " " + token[1:] if token[:1] in ("▁", "Ġ") else token


def bare_token(token: str) -> str:
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
) -> tuple[dict[Any, float], float]:
    """The probability of each value, normalised over the token support and in its order; and the support's own mass.

    They are those at the position where the reply's value begins, with ``first_token`` at the first one.

    Raises:
        ReplyError: the model returned no log-probabilities, the reply is not exactly one value, the support's mass is
            below ``min_mass``, zero or NaN, or the value's first token does not identify it.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = support_of(scale)
    if first_token:
        position, lead, around = reply.logprobs[0], "", False
    else:
        written = find_value(reply.text, support, after)
        index, lead, drawn = position_at(reply.logprobs, reply.text, written.start)
        position = reply.logprobs[index]
        around = not _values(support, drawn, lead, around=False)
        if _values(support, drawn, lead, around=around) != (written.value,):
            raise _several_tokens(reply.text.strip())
    mass, unclear = _mass(support, position, lead, around=around)
    total = math.fsum(mass.values())
    if unclear > UNCLEAR_REPLY * total and unclear + total >= min_mass:
        raise _several_tokens(reply.text.strip())
    if total == 0 or total < min_mass:
        raise _low_mass(total, min_mass)
    values = dict.fromkeys(value for _, value in scale.tokens())
    return {value: mass.get(value, 0.0) / total for value in values}, min(total, 1.0)


def decided_distribution(
    reply: Reply, anchors: Sequence[tuple[str, Any]]
) -> tuple[dict[Any, float], float]:
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


def _mass(
    support: Support, position: TokenPosition, lead: str, *, around: bool
) -> tuple[dict[Any, float], float]:
    """The probability of each value, and of tokens that begin several values."""
    mass: dict[Any, float] = {}
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
    word = without_lead(spelled(token), lead)
    return support.values(word) or (support.values(bare_token(word)) if around else ())


def _probability(alternative: Alternative) -> float:
    if not is_logprob(alternative.logprob):
        raise ReplyError(f"{alternative.logprob!r} is not a log-probability", kind="no-logprobs")
    return math.exp(alternative.logprob)


def without_lead(word: str, lead: str) -> str:
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


def _several_tokens(written: str) -> ReplyError:
    return ReplyError(
        f"this model writes values in several tokens, here {written!r}",
        hint="use a scale whose values are single tokens, such as letters, or give the extractor `sequence: true`",
        kind="no-logprobs",
    )


def sequence_distribution(
    reply: Reply, scale: Scale, *, after: str | None = None, min_mass: float = 0.0
) -> tuple[dict[Any, float], float]:
    """The probability of each value as the product along its tokens, normalised over the values; and their mass.

    The reply's own tokens give the path: at each of its positions the alternatives either finish a value, can begin only
    one, which they then count for, or leave it open which value they begin. A value that no alternative begins has none.

    Raises:
        ReplyError: as `distribution`, or more than `UNCLEAR_REPLY` of the probability is open.
    """
    if not reply.logprobs:
        raise _no_logprobs()
    support = support_of(scale)
    written = find_value(reply.text, support, after)
    index, lead, _ = position_at(reply.logprobs, reply.text, written.start)
    path = _Path(support, written.value)
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
    total = math.fsum(products.values())
    if total == 0:
        raise ReplyError("no value of the scale has a probability", kind="low-mass")
    values = dict.fromkeys(value for _, value in scale.tokens())
    shares = {value: products.get(value, 0.0) / total for value in values}
    return shares, min(path.mass, 1.0)


class _Path:
    """The walk along a reply's tokens: what they have spelled so far, and with which probability."""

    def __init__(self, support: Support, value: Any) -> None:
        self.support, self.value = support, value
        self.text, self.reached, self.mass = "", 1.0, 0.0
        self.products: dict[Any, float] = {}
        self.open: list[tuple[Any, tuple[Any, ...], float]] = []
        """(value, longer values, probability) of texts that are a value, or None, and may continue as the longer ones."""

    def follow(self, position: TokenPosition, lead: str) -> bool:
        """Add one position's alternatives, of which the first was drawn. False where the value ends here."""
        complete, _ = _continuations(self.support, self.text)
        continues = False
        for rank, alternative in enumerate(position):
            word = without_lead(spelled(alternative.token), lead)
            p = self.reached * _probability(alternative)
            if self.text and complete is not None and _is_end(word):
                self._add(complete, p)
                continue
            value, longer = _continuations(self.support, self.text + word)
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
            self.text += without_lead(spelled(position[0].token), lead)
        return continues

    def _add(self, value: Any, p: float) -> None:
        if value is not None:
            self.products[value] = self.products.get(value, 0.0) + p

    def finished(self) -> tuple[dict[Any, float], float]:
        """The products, and the probability of texts that may become a value without one."""
        value, longer = _continuations(self.support, self.text)
        if self.value not in self.products and value == self.value:
            self.open.append(
                (value, longer, self.reached)
            )  # the reply ends here, or its next token is not known
        unclear = 0.0
        for value, longer, p in sorted(
            self.open, key=lambda entry: (entry[0] is None, len(entry[1]))
        ):
            if not all(other in self.products for other in longer):
                unclear += p
            elif (
                value is not None
            ):  # the longer values have tokens of their own, so this is the whole value
                self._add(value, p)
        return self.products, unclear


def _continuations(support: Support, text: str) -> tuple[Any, tuple[Any, ...]]:
    """The value that a text is, quotes and emphasis around it aside (None: no value), and the others that it begins."""
    word = support.normal(text)
    if word not in support.exact:
        word = support.normal(bare_token(word)) or word
    value = support.exact.get(word)
    begun = (
        other
        for known, other in support.exact.items()
        if known.startswith(word) and may_begin(word, known)
    )
    return value, tuple(dict.fromkeys(other for other in begun if other != value))


def _is_end(word: str) -> bool:
    """Whether a token ends the value before it: a special token, a line end, a quote, emphasis or a period."""
    return (
        not word or (not bare_token(word).strip(".") and bool(word.strip(" "))) or is_special(word)
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


class TokenReading(NamedTuple):
    """What an extractor makes of a distribution. ``kind`` gives the output's type from the response's, ``score(extractor,
    scale)`` the function of the probabilities and the request; ``field`` names the output, None: as the response's field."""

    kind: Callable[[FieldType], FieldType]
    score: Callable[[Any, Scale], Callable[[dict[Any, float], Request], Any]]
    field: str | None = None


def _draw(probabilities: dict[Any, float], request: Request) -> Any:
    key = f"{request.seed}|{request.row.draw_id}|{request.node}|{request.call}|{request.attempt}"
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
    return random.Random(seed).choices(list(probabilities), weights=list(probabilities.values()))[0]


def _log_of_best(_: Any, scale: Scale) -> Callable[[dict[Any, float], Request], float]:
    best = scale.best()
    return lambda probabilities, _: math.log(max(probabilities[best], LEAST_PROBABILITY))


def _expectation(
    extractor: WeightedSummedScoreExtractor, scale: Scale
) -> Callable[[dict[Any, float], Request], float]:
    number = scale.number if extractor.weights is None else extractor.numbers().__getitem__
    return lambda probabilities, _: math.fsum(
        p * (number(value) or 0.0) for value, p in probabilities.items()
    )


class _TokenExtractor(Extractor):
    reading: ClassVar[TokenReading]
    """What the extractor makes of the distribution."""
    key_rules: ClassVar[tuple[KeyRule, ...]] = (
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
        fields = _judged(response)
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
            values = list(dict.fromkeys(value for _, value in scale.tokens()))
            if len(values) != 2 or fitted.positive not in values:
                return Issue(
                    "calibration",
                    f"`{fitted.method}` maps the probability of {fitted.positive!r}, one of two values; the values are {scale.display()}",
                    "fit one to this scale, or use `--method temperature`",
                )
        return None

    def made_as(self) -> TokenReading:
        """What the extractor makes of the distribution."""
        return self.reading

    def for_decisions(self) -> Extractor:
        """The extractor without what concerns only written tokens: a decision model's values are whole ones."""
        return self.model_copy(update={"sequence": True, "after": None, "first_token": False})

    def bind(self, response: RecordType) -> BoundExtractor:
        """The extractor for a scale: what it makes of the distribution, beside the evidence for it."""
        ((field, own),) = _judged(response).items()
        scale, after, explains = _scale(response), self.after, EXPLANATION in response.fields
        anchors = scale.anchors()
        reading = self.made_as()
        name, kind, score = reading.field or field, reading.kind(own), reading.score(self, scale)

        def output(
            reply: Reply, request: Request, probabilities: dict[Any, float], mass: float
        ) -> dict[str, Any]:
            fitted = self.calibration
            assert fitted is None or isinstance(fitted, ProbabilityMap)
            explained = {EXPLANATION: _before(reply.text, after)} if explains else {}
            value = score(
                probabilities if fitted is None else apply_map(probabilities, fitted), request
            )
            return {**explained, name: value, MASS_FIELD: mass}

        def read(reply: Reply, request: Request) -> dict[str, Any]:
            least = self.min_mass
            if request.questions:
                return output(reply, request, *decided_distribution(reply, anchors))
            if not self.sequence:
                evidence = distribution(
                    reply, scale, after=after, min_mass=least, first_token=self.first_token
                )
                return output(reply, request, *evidence)
            return output(
                reply,
                request,
                *sequence_distribution(reply, scale, after=after, min_mass=least),
            )

        explained = {EXPLANATION: TEXT} if explains else {}
        worst_first = sorted(scale.tokens(), key=lambda pair: scale.values().index(pair[1]))
        tokens = tuple(token for token, _ in worst_first)
        longest = max(-(-len(token.encode()) // BYTES_A_TOKEN) for token in tokens)
        cap = longest + SPARE_TOKENS if after is None else 0
        return BoundExtractor(
            RecordType({**explained, name: kind, MASS_FIELD: MASS_TYPE}),
            read,
            top_logprobs=TOP_LOGPROBS,
            support=tokens,
            instruction=_instruction(after, explains=explains),
            token_cap=cap,
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


def _judged(response: RecordType) -> dict[str, FieldType]:
    """The response's fields without the explanation."""
    return {
        name: kind
        for name, kind in response.fields.items()
        if not (name == EXPLANATION and kind == TEXT)
    }


def _scale(response: RecordType) -> Scale:
    (field,) = _judged(response).values()
    assert isinstance(field, ScaleType)
    return field.scale


class TokenProbabilityExtractor(_TokenExtractor):
    """Field `distribution`: value → probability, normalised over the scale's token support."""

    type: Literal["token_probability"] = "token_probability"
    """The type of extractor."""
    reading: ClassVar[TokenReading] = TokenReading(
        lambda kind: DistributionType(cast(ScaleType, kind).scale),
        lambda _, __: lambda probabilities, _: probabilities,
        DISTRIBUTION_FIELD,
    )
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

    def made_as(self) -> TokenReading:
        """The distribution, or with `log` the logarithm."""
        return TokenReading(lambda _: NUMBER, _log_of_best) if self.log else self.reading


class ArgmaxScoreExtractor(_TokenExtractor):
    """The most probable value; of several, the first in the support's order."""

    type: Literal["argmax_score"] = "argmax_score"
    """The type of extractor."""
    reading: ClassVar[TokenReading] = TokenReading(
        lambda kind: kind,
        lambda _, __: lambda probabilities, _: max(probabilities, key=probabilities.__getitem__),
    )


class SampleScoreExtractor(_TokenExtractor):
    """A value drawn from the distribution, seeded by the run's seed, the row, the unit and the attempt."""

    type: Literal["sample_score"] = "sample_score"
    """The type of extractor."""
    reading: ClassVar[TokenReading] = TokenReading(lambda kind: kind, lambda _, __: _draw)


class WeightedSummedScoreExtractor(_TokenExtractor):
    """The distribution's expectation, as in G-Eval (Liu et al., 2023)."""

    type: Literal["weighted_summed_score"] = "weighted_summed_score"
    """The type of extractor."""
    reading: ClassVar[TokenReading] = TokenReading(lambda _: NUMBER, _expectation)
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
        values = list(dict.fromkeys(value for _, value in scale.tokens()))
        weights = self.numbers()
        for value in weights:
            if value not in values:
                return Issue(
                    "weights",
                    f"{value!r} is not a value of the scale",
                    f"its values are {scale.display()}",
                )
        missing = [value for value in values if value not in weights]
        return (
            Issue("weights", f"the value {missing[0]!r} has no weight", "give every value a number")
            if missing
            else None
        )

    def numbers(self) -> dict[Value, float]:
        """The weights, written out or fitted."""
        if isinstance(self.weights, ScoreWeights):
            return self.weights.weights
        assert isinstance(self.weights, dict)
        return self.weights
