"""Compile a unit that calls a model: its prompt, models and extractor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from verdict_cli.errors import DataError, ReplyError, RowError, SpecError, UsageError
from verdict_cli.language.calibrations import FITTED, CalibrationFile, Fitted
from verdict_cli.language.citations import CITATIONS, Citations
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor, Extractor
from verdict_cli.language.fields.types import INTEGER, TEXT, ListType, RecordType
from verdict_cli.language.namespace import missing_prompt
from verdict_cli.language.prompts.few_shot import ExamplePool, LabelledExample, shown_value
from verdict_cli.language.prompts.prompt import CompiledPrompt, compile_prompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import MOST_EXAMPLES, Examples, LLMUnit
from verdict_cli.language.units.choice_base import ChoiceUnit
from verdict_cli.model import Model
from verdict_cli.plan.compile_context import PROMPT_ROOTS, CompileContext, CompiledUnit
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
    names, path = context.instance.names, context.instance.path
    if unit.prompt_key is not None:
        return names.prompt_text(unit.prompt_key, (*path, "prompt"))
    if missing := missing_prompt(names.spec, unit, path):
        names.tell(missing)
        return None
    return unit.default_prompt() or "", False


def compile_examples(
    context: CompileContext, unit: LLMUnit, prompt: CompiledPrompt, response: RecordType
) -> ExamplePool | None:
    """The pool of examples; None where the unit has none, or, reported, where it cannot be made."""
    key = unit.examples
    if key is None:
        return None
    field = unit.scaled_field()
    if field is None or field not in response.fields:
        context.problem(
            "no-scaled-field",
            f"a {unit.type_name} has no answer that examples could show",
            "leave `examples` out",
            "examples",
            key=True,
        )
        return None
    columns = key.columns or named_columns(prompt)
    if not columns:
        hint = "list them: `columns: [question, answer]`"
        context.problem("no-columns", "the prompt names no column whose examples could be shown", hint, "examples")
        return None
    rows = _rows(context, key)
    expressions = _expressions(context, key)
    if rows is None or expressions is None:
        return None
    _keep_used(context, key, rows, columns, expressions)
    labelled = []
    for number, row in enumerate(rows[:MOST_EXAMPLES]):
        example = _example(context, number, row, columns, expressions, response, field)
        if example is None:
            return None
        labelled += example
    if not labelled:
        hint = "`target` is null everywhere: check the column"
        context.problem("no-examples", "no row of the examples has a label", hint, "examples")
        return None
    return ExamplePool(
        tuple(labelled),
        columns,
        field,
        key.k,
        key.choose,
        key.seed,
        expressions.get("cluster"),
        context.instance.delimited,
    )


def named_columns(prompt: CompiledPrompt) -> tuple[str, ...]:
    """The columns of the row that a prompt names."""
    return tuple(dict.fromkeys(str(path[1]) for path in prompt.paths if path[0] == "source" and len(path) > 1))


def _rows(context: CompileContext, key: Examples) -> list[Mapping[str, Any]] | None:
    """The labelled rows; None, and reported, where they cannot be read."""
    if (key.file is None) == (key.rows is None):
        context.problem(
            "bad-examples", "`examples` needs either `file` or `rows`", "name the labelled rows", "examples"
        )
        return None
    if key.rows is not None:
        return list(key.rows)
    assert key.file is not None
    names = context.instance.names
    if (key.file, "rows") in names.examples:
        return names.examples[key.file, "rows"]
    file = names.inside(key.file, (*context.instance.path, "examples", "file"))
    if file is None:
        return None
    from verdict_cli.storage.datasets.dataset import Dataset  # here, because few pipelines have examples
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import stream_rows

    try:
        rows = [row.source for row in stream_rows(Dataset(find_files(str(file))))]
    except (DataError, UsageError, SpecError) as error:
        message = f"the examples cannot be read: {error}".splitlines()[0]
        context.problem("bad-examples", message, "give a dataset of labelled rows", "examples", "file")
        return None
    names.examples[key.file, "rows"] = rows
    return rows


def _expressions(context: CompileContext, key: Examples) -> dict[str, Expression] | None:
    texts = {name: getattr(key, name) for name in ("target", "prediction", "explanation", "cluster")}
    if texts["target"] is None:
        targets = {
            evaluation.target
            for evaluation in context.instance.names.spec.file.evaluate.values()
            if evaluation.target is not None
        }
        texts["target"] = targets.pop() if len(targets) == 1 else None
    if texts["target"] is None:
        hint = "such as `target: source.label`"
        context.problem("no-target", "nothing says which answer of an example is right", hint, "examples")
        return None
    if key.choose == "errors" and texts["prediction"] is None:
        hint = "such as `prediction: source.judged`"
        context.problem("no-prediction", "`choose: errors` needs the answers of a judge", hint, "examples")
        return None
    compiled: dict[str, Expression] = {}
    for name, text in texts.items():
        if text is None:
            continue
        try:
            compiled[name] = compile_expression(text, ("source",))
        except ExpressionError as error:
            context.problem("bad-expression", error.message, error.hint, "examples", name)
            return None
    return compiled


def _keep_used(
    context: CompileContext,
    key: Examples,
    rows: list[Mapping[str, Any]],
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
) -> None:
    """Note, for the resolved pipeline, the columns of the labelled rows that count."""
    if key.file is None:
        return
    paths = [path for expression in expressions.values() for path in expression.paths]
    used = {*columns, *(str(path[1]) for path in paths if len(path) > 1)}
    kept = [{name: row[name] for name in row if name in used} for row in rows[:MOST_EXAMPLES]]
    context.instance.names.examples[key.file, "kept"] = kept


def _example(
    context: CompileContext,
    number: int,
    row: Mapping[str, Any],
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
    response: RecordType,
    field: str,
) -> list[LabelledExample] | None:
    """The example of a row, none without a label; None, and reported, for a row that cannot be one."""
    lacks = next((name for name in columns if name not in row), None)
    if lacks is not None:
        known = ", ".join(row)
        message = f"example {number} has no column {lacks!r}"
        context.problem("no-column", message, f"it has {known}; name others with `columns`", "examples")
        return None
    try:
        values = {name: expression({"source": row}) for name, expression in expressions.items()}
    except RowError as error:
        context.problem("bad-examples", f"example {number}: {error.message}", error.hint, "examples")
        return None
    if values["target"] is None:
        return []
    try:
        answer = response.fields[field].read(values["target"])
    except ReplyError as error:
        hint = "a label must be a value of the unit's scale; convert it in `target`"
        context.problem("bad-examples", f"example {number}: the label {error.message}", hint, "examples")
        return None
    reasons = values.get("explanation")
    example = LabelledExample(
        tuple(shown_value(row.get(name)) for name in columns),
        shown_value(answer),
        "" if reasons is None else str(reasons),
        values.get("cluster"),
        "prediction" in values and values["prediction"] != values["target"],
    )
    return [example]
