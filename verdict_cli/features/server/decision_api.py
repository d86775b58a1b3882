"""A judge as a decision model: `POST /v1/decisions` in OpenAI's form, `POST /v1/systemone` in System One's.

The judge's own prompt is what is asked. A question's kind and options must be those of the judge's verdict; its instructions are the
column `question` of the row, for a judge whose prompt shows it. The fields of the state are the other columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any

from fastapi import FastAPI, Response
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from verdict_cli.errors import DataError, Problem
from verdict_cli.features.server.service import Service, paid_usage
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.questions import question_form
from verdict_cli.language.units.base import VERDICT_FIELDS
from verdict_cli.messages import JsonObject, NamedValues, Option, Question, Result, plain_text
from verdict_cli.plan.node import Plan

MOST_QUESTIONS = 400
TEXT_COLUMN, QUESTION_COLUMN = "input", "question"
"""The columns of a state that is a text, and of a question's instructions."""
_KINDS = {"predicate": "predicate", "noul": "predicate", "choice": "choice", "score": "score"}


class DecisionsRequest(BaseModel):
    """OpenAI's form: an input, and a list of questions."""

    model_config = ConfigDict(extra="allow")
    model: str
    input: Any
    questions: Annotated[list[JsonObject], Field(min_length=1, max_length=MOST_QUESTIONS)]


class SystemOneRequest(BaseModel):
    """System One's form: a state, and questions by name."""

    model_config = ConfigDict(extra="allow")
    model: str
    state: Any
    questions: Annotated[dict[str, JsonObject], Field(min_length=1, max_length=MOST_QUESTIONS)]


class Verdict(Struct, frozen=True):
    """What a judge says: the field of its verdict, the scale that it is on (None for a share of votes), and the question that it
    answers."""

    field: str
    scale: Scale | None
    question: Question

    @classmethod
    def of(cls, plan: Plan) -> Verdict | None:
        """The verdict of a judge that could be a decision; None where its output is another."""
        node = plan.output_node
        fields = {} if node is None else node.output.fields
        name = next((name for name in VERDICT_FIELDS if name in fields), None)
        if name is None:
            return None
        kind = fields[name]
        if isinstance(kind, ScaleType):
            return cls(name, kind.scale, question_form(kind.scale).question(""))
        options = (Option("true", "true"), Option("false", "false"))
        return cls(name, None, Question("predicate", "", options))

    @property
    def tokens(self) -> list[str]:
        """The options by their tokens."""
        return [option.token for option in self.question.options]

    def probabilities(self, result: Result) -> list[float] | None:
        """The probability of each option: the judge's own distribution, or its share of votes, else all on its verdict. None where
        the judge abstained."""
        output = next((output for output in reversed(result.outputs) if output is not None), None)
        if result.status != "ok" or output is None:
            return None
        value, distribution = output[self.field], output.get("distribution")
        if self.scale is None:
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise _bad_question(f"the judge's {self.field} {value!r:.40} is not a probability")
            return [float(value), 1 - float(value)]
        values = [self.scale.read(token) for token in self.tokens]
        if isinstance(distribution, Mapping) and set(values) <= set(distribution):
            return [float(distribution[other]) for other in values]
        p = output.get("p")
        sure = float(p) if isinstance(p, int | float) else 1.0
        other_count = max(1, len(values) - 1)
        return [sure if other == value else (1 - sure) / other_count for other in values]

    def check(self, question: NamedValues, options: Sequence[Any]) -> None:
        """Raise DataError for a question that the judge does not answer."""
        kind = _KINDS.get(str(question.get("type")))
        fits = kind == self.question.kind
        if kind == "choice":
            fits = fits and set(map(plain_text, options)) == set(self.tokens)
        elif kind == "score":
            fits = fits and len(options) == len(self.tokens)
        if not fits:
            raise _bad_question(
                f"the judge answers a {self.question.kind} of {', '.join(self.tokens)}: ask for that"
            )

    def summary(self, values: Sequence[Any], ps: Sequence[float]) -> JsonObject:
        """What both forms say of a score, or of a choice among these values."""
        kind = self.question.kind
        best = max(zip(values, ps, strict=True), key=itemgetter(1))[0]
        mean = math.fsum(index * p for index, p in enumerate(ps))
        return {
            "type": kind,
            kind: mean if kind == "score" else best,
            "confidence": _confidence(ps),
        }


def decision_endpoints(app: FastAPI, service: Service, respond: Callable[..., Response]) -> None:
    """Add the two endpoints; ``respond(document, status)`` makes a JSON response."""

    @app.post("/v1/decisions")
    async def decisions(body: DecisionsRequest) -> Response:
        """Judge a row for each question, as OpenAI's Decisions API answers."""
        verdict = _verdict(service, body.model)
        for question in body.questions:
            verdict.check(question, _values(question))
        results = await _judged(service, _columns_of_input(body.input), body.questions)
        answers = [
            {"name": question.get("name"), **_openai_answer(verdict, result, question)}
            for question, result in zip(body.questions, results, strict=True)
        ]
        return respond({"model": body.model, "answers": answers, "usage": _openai_usage(results)})

    @app.post("/v1/systemone")
    async def system_one(body: SystemOneRequest) -> Response:
        """Judge a row for each question, as System One answers."""
        verdict = _verdict(service, body.model)
        questions = [*body.questions.values()]
        for question in questions:
            criteria = question.get("criteria")
            verdict.check(question, [*criteria] if isinstance(criteria, list | dict) else [])
        results = await _judged(service, _columns(body.state), questions)
        answers = {}
        for name, result in zip(body.questions, results, strict=True):
            ps = verdict.probabilities(result)
            if ps is not None:
                answers[name] = _system_one_answer(verdict, ps)
        usage = paid_usage(results)
        tokens = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
        return respond({"model": body.model, "answers": answers, "usage": tokens})


def _bad_question(message: str) -> DataError:
    return DataError(Problem("bad-question", message, ""))


def _verdict(service: Service, model: str) -> Verdict:
    plan = service.active.plan
    if model != plan.name:
        raise _bad_question(f"the model {model!r:.80} does not exist; the judge is {plan.name!r}")
    verdict = Verdict.of(plan)
    if verdict is None:
        raise _bad_question(
            "the judge's output has no `score` and no `choice`, which could be a decision"
        )
    return verdict


def _values(question: NamedValues) -> list[Any]:
    """The options or levels of a question in OpenAI's form."""
    listed = question.get("choices", question.get("levels"))
    return [
        item.get("value", item.get("label")) if isinstance(item, Mapping) else item
        for item in (listed if isinstance(listed, list) else ())
    ]


def _columns(state: Any) -> JsonObject:
    return dict(state) if isinstance(state, Mapping) else {TEXT_COLUMN: state}


def _columns_of_input(request_input: Any) -> JsonObject:
    """The columns of OpenAI's input: the fields of its objects, and its texts."""
    columns: JsonObject = {}
    texts: list[str] = []
    for item in request_input if isinstance(request_input, list) else [{"content": request_input}]:
        content = item.get("content") if isinstance(item, Mapping) else item
        for part in content if isinstance(content, list) else [content]:
            data = part.get("data") if isinstance(part, Mapping) else None
            if isinstance(data, Mapping):
                columns |= data
            else:
                text = part.get("text") if isinstance(part, Mapping) else part
                texts += [text] if isinstance(text, str) else []
    return columns | ({TEXT_COLUMN: "\n\n".join(texts)} if texts else {})


async def _judged(
    service: Service, columns: NamedValues, questions: Sequence[NamedValues]
) -> list[Result]:
    """The results, in order. Raises DataError where a row failed."""
    rows = []
    for question in questions:
        text = question.get("instructions")
        rows.append({**columns, **({} if text is None else {QUESTION_COLUMN: text})})
    results = await service.results(rows, service.deadline(None))
    failure = next((result.failure for result in results if result.failure is not None), None)
    if failure is not None:
        raise _bad_question(f"{failure.node}: {failure.message}")
    return results


def _confidence(ps: Sequence[float]) -> float:
    """0 where all options are as probable, 1 where one has all."""
    return 1.0 if len(ps) < 2 else max(0.0, (len(ps) * max(ps) - 1) / (len(ps) - 1))


def _openai_answer(verdict: Verdict, result: Result, question: NamedValues) -> JsonObject:
    ps = verdict.probabilities(result)
    if ps is None:
        return {"type": "refusal"}
    kind, values = verdict.question.kind, _values(question)
    if kind == "predicate":
        return {"type": kind, "probability": ps[0]}
    if kind == "score":
        listed = [
            {"value": index, "label": str(value), "probability": ps[index]}
            for index, value in enumerate(values)
        ]
    else:
        by_token = dict(zip(verdict.tokens, ps, strict=True))
        ps = [by_token[plain_text(value)] for value in values]
        pairs = zip(values, ps, strict=True)
        listed = [{"value": value, "probability": p} for value, p in pairs]
    return {**verdict.summary(values, ps), "probabilities": listed}


def _system_one_answer(verdict: Verdict, ps: Sequence[float]) -> JsonObject:
    kind, tokens = verdict.question.kind, verdict.tokens
    if kind == "predicate":
        return {"type": "noul", "noul": ps[0]}
    legend: JsonObject = {}
    names = tokens
    if kind == "score":
        names = [str(index) for index in range(len(tokens))]
        legend = {"legend": dict(zip(names, tokens, strict=True))}
    probabilities = dict(zip(names, ps, strict=True))
    return {**verdict.summary(tokens, ps), **legend, "probabilities": probabilities}


def _openai_usage(results: Sequence[Result]) -> JsonObject:
    usage = paid_usage(results)
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
