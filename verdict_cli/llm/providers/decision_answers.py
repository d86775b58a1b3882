"""What decision models answer: one checked distribution for each question, or why it cannot be used.

Servers differ in what `confidence` is, may name a `choice` that is not the most probable, and round. So only the probabilities
count, and they must fit the question: every option once, each a probability, and together 1 up to rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.errors import Rejected
from verdict_cli.llm.providers.decision_protocols import question_name
from verdict_cli.llm.providers.http_errors import Source, broken_reply, stated_error
from verdict_cli.llm.providers.wire_protocol import WireProtocol
from verdict_cli.messages import (
    Alternative,
    Answer,
    JsonObject,
    NamedValues,
    Question,
    Request,
    is_number,
)
from verdict_cli.regex import regex

LEAST_LOGPROB = -700.0
"""In place of the logarithm of 0, which JSON cannot express."""
_OUTSIDE = 0.01
"""How far from 0 or 1 a rounded probability may be."""
_SUM_ERROR, _SUM_ERROR_OF_OPTION = 0.02, 0.005
"""How far from 1 rounded probabilities may add up, in all and for each option: some servers round to two digits."""
_CONTRADICTION = 0.01


def read_answers(envelope: Any, request: Request, source: Source) -> tuple[Answer, ...]:
    """An answer, or an error, for each of the request's questions.

    Raises Retryable or ValueError for a body that is not one of the protocol, Rejected where the server cut the state, and what
    `stated_error` gives for an error in the body.
    """
    answers = envelope.get("answers") if isinstance(envelope, dict) else None
    if not isinstance(answers, list | dict):
        raise stated_error(envelope, source) or broken_reply("it has no `answers`", source)
    _check_whole_state(envelope, source.model)
    names = [question_name(number) for number in range(len(request.questions))]
    is_list = isinstance(answers, list)
    by_name = _by_name(answers, names) if isinstance(answers, list) else answers
    pairs = zip(names, request.questions, strict=True)
    return tuple(
        _answer(by_name, name, question, source, is_list=is_list) for name, question in pairs
    )


_WANTS_STATE = regex(rb'"body"\s*,\s*"state"|missing[^"]{0,40}\bstate\b', re.IGNORECASE)
_WANTS_INPUT = regex(rb'"param"\s*:\s*"input"|missing[^"]{0,40}\binput\b', re.IGNORECASE)


def other_form(content: bytes, protocol: WireProtocol) -> str:
    """The prefix of the form that a server asks for in an error to the other one; "" where it asks for neither."""
    is_list = protocol.name == "decisions"
    wanted = _WANTS_STATE if is_list else _WANTS_INPUT
    return ("systemone" if is_list else "decisions") if wanted.search(content) else ""


def _check_whole_state(envelope: NamedValues, name: str) -> None:
    """Raise Rejected where a gateway cut the state: the answers are about another one."""
    usage = envelope.get("usage")
    for stated in (usage if isinstance(usage, Mapping) else {}, envelope):
        dropped = stated.get("state_tokens_dropped")
        if stated.get("truncated") or dropped:
            count = f" ({dropped:,} tokens dropped)" if isinstance(dropped, int) else ""
            message = f"model {name}: the server cut the state{count}"
            raise Rejected(message, hint="shorten the prompt or the row", kind="context-too-long")


def _by_name(answers: list[Any], names: Sequence[str]) -> JsonObject:
    """The answers by the names of their questions. Raises ValueError where one has none that was sent: an answer might else be
    taken for that of another question."""
    stated_names = [answer.get("name") if isinstance(answer, dict) else None for answer in answers]
    are_known = all(isinstance(name, str) and name in names for name in stated_names)
    if not are_known or len(set(stated_names)) < len(stated_names):
        asked = ", ".join(names)
        raise ValueError(f"its answers name {stated_names!r:.100}, and {asked!r:.100} were asked")
    return dict(zip(map(str, stated_names), answers, strict=True))


def _answer(
    answers: NamedValues, name: str, question: Question, source: Source, *, is_list: bool
) -> Answer:
    """The answer to a question, or why there is none."""
    answer = answers.get(name)
    kind = answer.get("type") if isinstance(answer, dict) else None
    if kind == "refusal" or (is_list and name not in answers):
        message = f"model {source.model} declined to answer this question"
        return Answer("", failure="refused", error=message)
    try:
        if not isinstance(answer, dict):
            raise ValueError(f"the reply of {source.address} has no answer to `{name}`")
        accepted = ("noul", "predicate") if question.kind == "predicate" else (question.kind,)
        if kind not in accepted:
            expected = question.kind if is_list else accepted[0]
            raise ValueError(
                f"its answer to `{name}` is a {kind!r:.40} where a {expected} was asked"
            )
        return checked_answer(answer, name, question)
    except ValueError as error:
        return Answer("", failure="invalid", error=str(error))


def checked_answer(answer: NamedValues, name: str, question: Question) -> Answer:
    """The answer with its distribution. Raises ValueError for numbers that are none."""
    stated = _stated(answer, name, question)
    labels = _keys(question)
    ps = []
    for key, option in zip(labels, question.options, strict=True):
        if key not in stated:
            raise ValueError(f"the answer to `{name}` has no probability of {option.token!r:.80}")
        ps.append(_probability(stated[key], name))
    for key, p in stated.items():
        if key not in labels and _probability(p, name) > _OUTSIDE:
            raise ValueError(
                f"the answer to `{name}` has the option {key!r:.80}, which was not asked"
            )
    total = math.fsum(ps)
    if abs(total - 1) > _SUM_ERROR + _SUM_ERROR_OF_OPTION * len(ps):
        raise ValueError(f"the probabilities of `{name}` add up to {total:.2f}")
    if abs(total - 1) > 1e-9:
        ps = [p / total for p in ps]
    return _of_distribution(ps, answer, question)


def _stated(answer: NamedValues, name: str, question: Question) -> dict[Any, Any]:
    """The probabilities as the answer has them, by option or by the number of the level."""
    if question.kind == "predicate":
        p = _probability(answer.get("probability", answer.get("noul")), name)
        return {True: p, False: 1 - p}
    listed = answer.get("probabilities")
    if isinstance(listed, Mapping):
        return dict(listed)
    stated: dict[Any, Any] = {}
    for item in listed if isinstance(listed, list) else ():
        key = item.get("value") if isinstance(item, Mapping) else None
        key = str(key) if question.kind == "score" and isinstance(key, int) else key
        if not isinstance(key, str) or key in stated:
            raise ValueError(
                f"an option {key!r:.80} in its probabilities is unknown or a duplicate"
            )
        stated[key] = item.get("probability")
    return stated


def _keys(question: Question) -> list[Any]:
    if question.kind == "predicate":
        return [True, False]
    if question.kind == "score":
        return [str(number) for number in range(len(question.options))]
    return [option.label for option in question.options]


def _probability(value: Any, name: str) -> float:
    if not is_number(value) or not -_OUTSIDE <= value <= 1 + _OUTSIDE:
        raise ValueError(f"{value!r:.40} in the answer to `{name}` is not a probability")
    return min(1.0, max(0.0, float(value)))


def _of_distribution(ps: Sequence[float], answer: NamedValues, question: Question) -> Answer:
    pairs = list(zip(question.options, ps, strict=True))
    best, p_best = max(pairs, key=lambda pair: pair[1])
    chosen = answer.get("choice") if question.kind == "choice" else None
    p_chosen = next((p for option, p in pairs if option.label == chosen), p_best)
    note = (
        ""
        if p_best - p_chosen <= _CONTRADICTION
        else f"the server chose {chosen!r:.80}, the less probable"
    )
    alternatives = [Alternative(option.token, _logarithm(p)) for option, p in pairs]
    alternatives.sort(
        key=lambda alternative: alternative.token != best.token
    )  # the chosen one first
    return Answer(best.token, tuple(alternatives), note)


def _logarithm(p: float) -> float:
    return math.log(p) if p > 1e-300 else LEAST_LOGPROB
