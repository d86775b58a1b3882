"""Compile a unit that calls a model: its prompt, models and extractor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from verdict_cli.language.calibrations import FITTED, CalibrationFile, Fitted
from verdict_cli.language.citations import CITATIONS, Citations
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor, Extractor
from verdict_cli.language.fields.types import INTEGER, TEXT, ListType, RecordType
from verdict_cli.language.prompts.prompt import CompiledPrompt, compile_prompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.language.units.choice_base import ChoiceUnit
from verdict_cli.model import Model
from verdict_cli.plan.compile_context import PROMPT_ROOTS, CompileContext, CompiledUnit
from verdict_cli.plan.compile_examples import compile_examples
from verdict_cli.plan.node import LLMNode


def compile_llm_unit(context: CompileContext, unit: LLMUnit, scale: Scale | None) -> CompiledUnit | None:
    """Prompt, models and extractor of the unit; None, and reported, when its output cannot be known."""
    response = _response(context, unit, scale)
    reading = _reading(context, unit, response)
    models = context.instance.models
    if models == ():
        hint = "set `model:` at the top of the file or here, or give --model"
        context.problem("no-model", "the unit has no model", hint)
    letters = unit.letters() if isinstance(unit, ChoiceUnit) else ()
    options = _options(context, unit, letters)
    if letters:
        context.scope.input = {**(context.scope.input or {}), **dict.fromkeys(letters, TEXT)}
    prompt = _prompt(context, unit)
    if reading is None:
        return None
    if prompt is None or not models:
        return CompiledUnit(None, reading.output, unit.output_fields(reading.output))
    reading = replace(reading, kept_tags=reading.kept_tags | prompt.tags)
    work = LLMNode(
        unit=unit,
        prompt=prompt,
        scale=scale if unit.scale_instructions and unit.scaled_field() is not None else None,
        response=response,
        reading=reading,
        models=capped(models, reading.token_cap),
        follow_up=_follow_up(context, reading, models),
        options=options,
        letters=letters,
        kept=tuple(unit.output) if unit.output else None,
        cites=_cites(context, unit, reading.output),
        examples=compile_examples(context, unit, prompt, response),
    )
    output = unit.output_fields(reading.output)
    if unit.cites is not None:
        output = RecordType({**output.fields, CITATIONS: ListType(INTEGER)})
    return CompiledUnit(work, reading.output, output)


def _cites(context: CompileContext, unit: LLMUnit, response: RecordType) -> Citations | None:
    """The conversation that the unit cites; None, and reported, where it cannot."""
    if unit.cites is None:
        return None
    if EXPLANATION not in response.fields:
        context.problem(
            "no-explanation",
            "`cites` checks the explanation, and this unit has none",
            "add `explanation: true`",
            "cites",
            key=True,
        )
        return None
    expression = context.expression(unit.cites, PROMPT_ROOTS, context.scope, "cites")
    return None if expression is None else Citations(expression)


def _response(context: CompileContext, unit: LLMUnit, scale: Scale | None) -> RecordType:
    if unit.scale is not None and unit.scaled_field() is None:
        message = f"a {unit.type_name} has no field on a scale"
        hint = "leave `scale` out, or use a JudgeUnit"
        context.problem("no-scaled-field", message, hint, "scale", key=True)
    declared = context.fields(unit.response, "response")
    for name in set(declared) & set(unit.own_fields(scale)):
        message = f"the response field {name!r} is the unit's own"
        context.problem("field-used-twice", message, "choose another name", "response", name, key=True)
    return unit.response_record(scale, declared)


def _options(context: CompileContext, unit: LLMUnit, letters: tuple[str, ...]) -> tuple[tuple[str, Expression], ...]:
    texts = (unit.options or ()) if isinstance(unit, ChoiceUnit) else ()
    compiled = (
        (letters[index], context.expression(text, PROMPT_ROOTS, context.scope, "options", index))
        for index, text in enumerate(texts)
    )
    return tuple((letter, option) for letter, option in compiled if option is not None)


_CAPS = {"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict", "n_predict"}


def capped(models: tuple[Model, ...], most: int) -> tuple[Model, ...]:
    """The models with at most this many tokens a reply where they set no limit themselves; 0: as they are."""
    return tuple(
        model.model_copy(update={"max_tokens": most})
        if most and model.max_tokens is None and not _CAPS & model.params.keys()
        else model
        for model in models
    )


def _follow_up(context: CompileContext, reading: BoundExtractor, models: tuple[Model, ...]) -> tuple[Model, ...]:
    if reading.then is None:
        return ()
    if reading.then.model is None:
        return models
    return context.instance.names.policy(reading.then.model, (*context.instance.path, "extract", "model")) or ()


def _reading(context: CompileContext, unit: LLMUnit, response: RecordType) -> BoundExtractor | None:
    key: Any = unit.extract_key
    if key is None:
        key = "structured" if set(response.fields) == {"criteria"} else "verdict"
    if key == "raw" and list(response.fields.values()) != [TEXT] and "extract_key" not in unit.model_fields_set:
        key = "structured"
    chosen = _fitted(context, resolve_extractor(key))
    if chosen is None or not response.fields:
        return None
    issue = chosen.validation_error(response)
    if issue:
        where, message, hint = issue
        context.problem("bad-extractor", message, hint, "extract", *(part for part in where.split(".") if part))
        return None
    bound = chosen.bind(response)
    return replace(bound, thoughts=unit.raw_thoughts) if chosen.type == "raw" else bound


def _fitted(context: CompileContext, chosen: Extractor) -> Extractor | None:
    """The extractor with the content of its calibration files; None, and reported, for an invalid file."""
    read: dict[str, Any] = {}
    for key, kind in (("calibration", "probability"), ("weights", "score_weights")):
        named = getattr(chosen, key, None)
        if isinstance(named, CalibrationFile | Fitted):
            read[key] = context.fitted(named, FITTED[kind], "extract", key)
    return None if None in read.values() else chosen.model_copy(update=read)


def _prompt(context: CompileContext, unit: LLMUnit) -> CompiledPrompt | None:
    read = _text(context, unit)
    if read is None:
        return None
    text, jinja = read
    if not text.strip():
        context.problem("empty-prompt", "the prompt is empty", "write what the model is asked", "prompt")
        return None
    framed = unit.frame(text)
    if jinja and framed != text:
        context.problem(
            "bad-prompt",
            f"a {unit.type_name} adds its own words to the prompt, which a `jinja` prompt cannot take in",
            "write the prompt as a text with placeholders, or use a Unit that asks for all of it",
            "prompt",
        )
        return None
    errors: list[str] = []

    def tell(message: str, hint: str) -> None:
        errors.append(message)
        context.problem("bad-placeholder", message, hint, "prompt")

    def warn(message: str, hint: str) -> None:
        context.warn(message, hint, (*context.instance.path, "prompt"))

    resolve, delimit = context.scope.resolve, context.instance.delimited
    if jinja:
        from verdict_cli.language.prompts.jinja import compile_jinja  # here, because few prompts need it

        roots = (*PROMPT_ROOTS, *context.scope.entries)
        compiled: CompiledPrompt | None = compile_jinja(framed, roots, resolve, tell, delimit)
    else:
        compiled = compile_prompt(framed, resolve, tell, warn, delimit, tuple(context.scope.entries))
    if compiled is not None:
        context.scope.note_tested(compiled.tested)
    return None if errors else compiled


def _text(context: CompileContext, unit: LLMUnit) -> tuple[str, bool] | None:
    """(text, whether it is Jinja2) of the prompt before the type adds to it."""
    if unit.prompt_key is not None:
        return context.instance.names.prompt_text(unit.prompt_key, (*context.instance.path, "prompt"))
    default = unit.default_prompt()
    if default is None:
        hint = "write what the model is asked"
        context.problem("missing-key", f"a {unit.type_name} needs a `prompt`", hint)
        return None
    return default, False
