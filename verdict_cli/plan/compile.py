"""Compile one unit into a node: input casts, prompt, models and extractor, escalation and everything else that it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from verdict_cli.config_model import Issue
from verdict_cli.errors import DataError, ReplyError, RowError, SpecError, UsageError
from verdict_cli.language.calibrations import FITTED, CalibrationFile, Fitted, Threshold
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, RowValues
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor, Extractor
from verdict_cli.language.fields.field_keys import (
    InputDefault,
    fits,
    input_types,
    is_path_key,
    plain_type,
)
from verdict_cli.language.fields.types import (
    INTEGER,
    TEXT,
    Fields,
    FieldType,
    ListType,
    RecordType,
    TranscriptType,
    UnknownType,
)
from verdict_cli.language.namespace import missing_prompt
from verdict_cli.language.prompts.few_shot import ExamplePool, LabelledExample, shown_value
from verdict_cli.language.prompts.prompt import CompiledPrompt, compile_prompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import (
    ABSTAIN,
    ANSWERED_BY,
    MOST_EXAMPLES,
    OPTIONS_HINT,
    Escalate,
    Examples,
    LLMUnit,
)
from verdict_cli.llm.model_families import is_decision_model
from verdict_cli.messages import JsonObject
from verdict_cli.model import Models
from verdict_cli.plan.compile_context import (
    PROMPT_ROOTS,
    CompileContext,
    CompiledUnit,
    code_at,
    compile_output,
    compile_output_function,
    compile_python_unit,
)
from verdict_cli.plan.compile_decisions import (
    check_decisions,
    check_images,
    compile_state_prompt,
    decision_models,
    escalation_models,
    only_decides,
    warn_of_alias,
)
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.link import Indices
from verdict_cli.plan.node import (
    CITATIONS,
    Cast,
    Citations,
    CompiledRule,
    Escalation,
    LLMNode,
    NamedExpressions,
    Node,
    OutputFunction,
)
from verdict_cli.plan.scope import NodeScope, Upstream
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError

_ROOTS = (*PROMPT_ROOTS, "response", "output")


def compile_escalation(context: CompileContext, scope: NodeScope) -> Escalation | None:
    """The unit's escalation; None where it has none, or, reported, where it is invalid.

    ``scope`` knows the response and the output as it is passed on.
    """
    unit = context.instance.unit
    if unit.escalate is None:
        return None
    issue = _escalation_issue(context, unit.escalate, scope)
    if issue is not None:
        context.place.issue("bad-escalate", issue, "escalate")
        return None
    text = unit.escalate.when
    if not isinstance(text, str):
        fitted = context.fitted(text, Threshold, "escalate", "when")
        if fitted is None:
            return None
        text = fitted.when()
    roots = _ROOTS if isinstance(unit, LLMUnit) else (*_ROOTS, "outputs")
    when = scope.expression(text, roots, "escalate", "when")
    stages = escalation_models(context)
    if when is None or not all(stages):
        return None
    return Escalation(
        when,
        tuple(models for models in stages if models),
        unit.escalate.chain()[-1] == ABSTAIN,
        unit.escalate.audit_share or 0.0,
    )


def _escalation_issue(
    context: CompileContext, escalate: Escalate, scope: NodeScope
) -> Issue | None:
    unit = context.instance.unit
    has_models = any(target != ABSTAIN for target in escalate.chain())
    issue = escalate.validation_error()
    if issue:
        return issue
    if has_models and not isinstance(unit, LLMUnit):
        message = f"a {unit.type_name} calls no model that another could replace"
        return Issue("to", message, "only `to: abstain` is possible here")
    if context.instance.pinned:
        message = "a pinned unit is asked once for all rows"
        return Issue("", message, "leave `pin` or `escalate` out")
    if has_models and ANSWERED_BY in scope.fixed["output"].fields:
        message = f"the output has a field {ANSWERED_BY!r} of its own"
        return Issue("", message, "give it another name")
    return None


_CODE_KEYS = ("class", "map", "validate", "process", "propagate")


def compile_node(
    instance: UnitInstance, position: Upstream, children: Indices, scope: NodeScope
) -> tuple[Node | None, RecordType | None]:
    """The node of a unit and its output's fields.

    The node is None, with its errors reported, when it cannot be compiled. The output is None only when it is unknown
    too, so that later units are checked as far as possible.
    """
    context = CompileContext(instance, instance.place, scope)
    unit = instance.unit
    issue = unit.validation_error()
    if issue:
        context.place.issue("bad-unit", issue)
        return None, None
    # Input fields first: the prompt, the options and the rules resolve `input` by them.
    casts = compile_input(context)
    settings = unit.settings() | {"name": instance.name}
    scale = None
    if isinstance(unit, LLMUnit):
        scale = context.scale(unit)
        if scale is None and unit.scale is not None:
            return None, None
        settings |= {} if scale is None else {"scale": scale.display()}
    scope.fixed = {"unit": RecordType(dict.fromkeys(settings, UnknownType()))}
    compiled = _compile_work(context, scale)
    if compiled is None:
        return None, None
    output = _declared_output(context, compiled.output)
    inside = scope.with_fields(response=compiled.response, output=output)
    # Rules see what the reply gave, before `propagate` replaces it; `escalate.when` sees what is passed on.
    rules = _rules(context, inside)
    propagate, output = _propagated(context, inside, output)
    passed_on = scope.with_fields(response=compiled.response, output=output)
    escalation = compile_escalation(context, passed_on)
    if escalation is not None and escalation.stages:
        output = RecordType({**output.fields, ANSWERED_BY: TEXT}, output.unknown)
    # Only now is known whether a prompt or an expression shows the options, and so whether they must come from somewhere.
    casts += compile_option_inputs(context)
    if isinstance(unit, LLMUnit):
        warn_of_alias(context, decision_models(context))
    if compiled.work is None:
        return None, output
    codes = [code_at(context, key) for key in _CODE_KEYS]
    node = Node(
        id=position.id,
        name=instance.name,
        index=position.index,
        unit=unit,
        parents=position.parents,
        children=children,
        work=compiled.work,
        casts=casts,
        settings=settings,
        rules=rules,
        propagate=propagate,
        output=output,
        pinned=instance.pinned,
        groups=instance.flow.groups,
        checked=instance.flow.checked,
        needs=scope.uses.needed,
        escalation=escalation,
        calibrations=tuple(context.calibrations),
        code=tuple(code for code in codes if code is not None),
    )
    return node, output


def _compile_work(context: CompileContext, scale: Scale | None) -> CompiledUnit | None:
    """What the unit does; None, and reported, when its output cannot be known."""
    unit = context.instance.unit
    if not isinstance(unit, LLMUnit):
        # Here, because it imports the pools, which many pipelines have none of.
        from verdict_cli.plan.compile_pool import compile_without_model

        return compile_without_model(context)
    compiled = compile_llm_unit(context, unit, scale)
    if compiled is None or not isinstance(compiled.work, LLMNode):
        return compiled
    # What a unit defined in Python makes of its response; where it declares no output, the response's fields.
    process = compile_output_function(context, "process", context.scope, compiled.output)
    if process is None:
        return compiled
    work = replace(compiled.work, process=process)
    return CompiledUnit(work, compiled.response, process.output_fields)


def _rules(context: CompileContext, scope: NodeScope) -> tuple[CompiledRule, ...]:
    rules = (
        scope.expression(text, _ROOTS, "validate", index)
        for index, text in enumerate(context.instance.unit.rules)
    )
    code = code_at(context, "validate")
    functions = () if code is None else (compile_python_unit(code, scope),)
    return (*(rule for rule in rules if rule is not None), *functions)


def _propagated(
    context: CompileContext, scope: NodeScope, output: RecordType
) -> tuple[OutputFunction | None, RecordType]:
    """What replaces the output, None where nothing does, and the fields that are then passed on."""
    function = compile_output_function(context, "propagate", scope)
    if function is not None:
        return function, function.output_fields
    propagation = context.instance.unit.propagation
    if propagation is None:
        return None, output
    return compile_output(scope, propagation, _ROOTS, "propagate")


def _declared_output(context: CompileContext, output: RecordType) -> RecordType:
    unit = context.instance.unit
    if unit.output is None:
        return output
    fields: Fields = {}
    for name, kind in context.fields(unit.output, "output").items():
        output_kind = output.kind_of(name)
        if output_kind is None and name in (unit.propagation or {}):
            continue
        if output_kind is None:
            hint = f"it gives {', '.join(output.fields)}; `propagate` makes new fields"
            context.problem(
                "unknown-field", f"the unit gives no {name!r}", hint, "output", name, key=True
            )
        elif not fits(output_kind, kind):
            message = f"{name!r} is to be {kind.type_name()}, but the unit gives {output_kind.type_name()}"
            context.problem("wrong-type", message, "declare the type that is given", "output", name)
        else:
            fields[name] = kind
    return RecordType(fields) if fields else output


def compile_input(context: CompileContext) -> tuple[Cast, ...]:
    """Where each input field comes from; the scope then knows all of them, filled or not."""
    unit = context.instance.unit
    keys = unit.input or {}
    required = unit.required_inputs() if isinstance(unit, LLMUnit) else {}
    if isinstance(unit, LLMUnit) and unit.letters():
        required = {name: kind for name, kind in required.items() if name in keys}
    types: Fields = {**required, **context.fields(input_types(keys), "input")}
    casts = []
    for name in dict.fromkeys([*required, *keys]):
        try:
            cast = _input_cast(context, name, keys.get(name), types.get(name))
        except ExpressionError as error:
            types.setdefault(name, UnknownType())
            path = ("input", name) if name in keys else ()
            context.problem("bad-input", error.message, error.hint, *path)
        else:
            types[name] = cast.type
            casts.append(cast)
    context.scope.input = types or None
    return tuple(casts)


def compile_option_inputs(context: CompileContext) -> tuple[Cast, ...]:
    """Where the texts of options come from that neither `options` nor `input` gives, where the unit needs them: its
    prompt or an expression shows them, or its output is made from them."""
    unit, uses = context.instance.unit, context.scope.uses
    if not isinstance(unit, LLMUnit) or not unit.letters():
        return ()
    wanted = unit.required_inputs().keys() - (unit.input or {}).keys()
    if not (unit.needs_letter() or uses.whole_input or not uses.inputs.isdisjoint(wanted)):
        return ()
    try:
        return tuple(
            _cast(context, name, kind, UNSET)
            for name, kind in unit.required_inputs().items()
            if name in wanted
        )
    except ExpressionError as error:
        context.problem("bad-input", error.message, OPTIONS_HINT)
        return ()


def _input_cast(context: CompileContext, name: str, key: Any, kind: FieldType | None) -> Cast:
    """Where an input field comes from by its key. ExpressionError where that is not known."""
    if kind is None or is_path_key(key):
        return _path_cast(context.scope, name, key, kind)
    default: Any = UNSET
    if isinstance(kind, TranscriptType):
        default = []  # a conversation that nobody started
    if isinstance(key, InputDefault):
        try:
            default = kind.read(key.default)
        except ReplyError as error:
            message = f"the default of the input field {name!r}: {error.message}"
            raise ExpressionError(message) from None
    return _cast(context, name, kind, default)


def _path_cast(scope: NodeScope, name: str, text: str, kind: FieldType | None) -> Cast:
    """The field from the path that `input` gives. ExpressionError where it is no path, or its value does not fit."""
    expression = compile_expression(text, ("source", "previous", *scope.entries), scope.resolve)
    if expression.path is None:
        raise ExpressionError(
            f"the input field {name!r}: {text!r} is not the path of one value",
            "a path is written `source.COLUMN` or `previous.UNIT.FIELD`, of several units `previous.UNIT[0].FIELD`",
        )
    if kind is not None:
        _check_fit(name, kind, expression.type, f"{text} is", "name a value of that type")
    return Cast(name, kind or expression.type, expression.path)


def _check_fit(name: str, kind: FieldType, value_kind: FieldType, source: str, hint: str) -> None:
    """ExpressionError where what is given is of another type than the field."""
    if not fits(value_kind, kind):
        message = f"the input field {name!r} is to be {kind.type_name()}, but {source} {value_kind.type_name()}"
        raise ExpressionError(message, hint)


def _cast(context: CompileContext, name: str, kind: FieldType, default: Any) -> Cast:
    """The source of one input field. ExpressionError when none or several could fill it.

    A field of the same name and a fitting type comes first, then the only field of the same type, then the only one on
    a scale whose values have that type. Without a unit before it that gives the field, it is the row's column of that
    name, then the default.
    """
    scope = context.scope
    upstream = scope.parent_units()
    givers = [unit for unit in upstream if unit.output.kind_of(name) is not None]
    if len(givers) > 1:
        raise ExpressionError(
            f"the input field {name!r} is in several outputs: {', '.join(unit.id for unit in givers)}",
            f"say which: `input: {{{name}: 'previous.NAME[0].{name}'}}`, or pool them first",
        )
    if givers:
        unit = givers[0]
        field_kind = scope.seen(unit).kind_of(name) or UnknownType()
        hint = "declare the type that is given, or convert it with `propagate`"
        _check_fit(name, kind, field_kind, f"{unit.id} gives", hint)
        path = scope.at(unit, (name,)).paths[0]
        if unit.output.unknown and default is not UNSET:
            return Cast(name, kind, path, optional=True, default=default)
        return Cast(name, kind, path)
    fields = [
        (unit, field, field_type)
        for unit in upstream
        for field, field_type in scope.seen(unit).fields.items()
    ]
    same = [(unit, field) for unit, field, field_type in fields if field_type == kind]
    same = same or [
        (unit, field) for unit, field, field_type in fields if plain_type(field_type) == kind
    ]
    if not upstream or (not same and default is not UNSET):
        return _column(context, name, kind, default)
    if len(same) != 1:
        message = f"nothing fills the input field {name!r} of type {kind.type_name()}"
        if same:
            candidates = ", ".join(f"{unit.id}.{field}" for unit, field in same)
            message = f"several fields could fill the input field {name!r}: {candidates}"
        hint = (
            f"name a path: `input: {{{name}: previous.UNIT.FIELD}}`, rename an upstream field with `propagate`, or leave "
            "`input` out"
        )
        raise ExpressionError(message, hint)
    unit, field = same[0]
    path = scope.at(unit, (field,)).paths[0]
    return Cast(name, kind, path, from_field=f"{unit.id}.{field}")


def _column(context: CompileContext, name: str, kind: FieldType, default: Any) -> Cast:
    """The row's column of that name. With a default the row need not have it, and a pinned unit, which runs without a
    row, takes the default."""
    scope = context.scope
    hint = "declare the type that `dataset.schema` gives"
    if default is UNSET:
        column_kind = scope.resolve(("source", name)).type
        _check_fit(name, kind, column_kind, "the column is", hint)
        return Cast(name, kind, ("source", name))
    if context.instance.pinned:
        return Cast(name, kind, None, default=default)
    _check_fit(name, kind, scope.columns.get(name, UnknownType()), "the column is", hint)
    return Cast(name, kind, ("source", name), optional=True, default=default)


def compile_llm_unit(
    context: CompileContext, unit: LLMUnit, scale: Scale | None
) -> CompiledUnit | None:
    """Prompt, models and extractor of the unit; None, and reported, when its output cannot be known."""
    response = _response(context, unit, scale)
    models = context.instance.models
    decides = decision_models(context)
    if decides and not check_decisions(context, unit, response, scale, decides):
        return CompiledUnit(None, response, unit.output_fields(response))
    reading = _reading(context, unit, response)
    if models == ():
        hint = "set `model:` at the top of the file or here, or give --model"
        context.problem("no-model", "the unit has no model", hint)
    letters = unit.letters()
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
    if decides:
        state_prompt = compile_state_prompt(context, unit, prompt, _text(context, unit))
        work = replace(work, state_prompt=state_prompt, judged=scale)
        check_images(context, prompt, decides)
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
    expression = context.scope.expression(unit.cites, PROMPT_ROOTS, "cites")
    return None if expression is None else Citations(expression)


def _response(context: CompileContext, unit: LLMUnit, scale: Scale | None) -> RecordType:
    if unit.scale is not None and unit.scaled_field() is None:
        message = f"a {unit.type_name} has no field on a scale"
        hint = "leave `scale` out, or use a JudgeUnit"
        context.problem("no-scaled-field", message, hint, "scale", key=True)
    declared = context.fields(unit.response, "response")
    for name in set(declared) & set(unit.own_fields(scale)):
        message = f"the response field {name!r} is the unit's own"
        context.problem(
            "field-used-twice", message, "choose another name", "response", name, key=True
        )
    return unit.response_record(scale, declared)


def _options(context: CompileContext, unit: LLMUnit, letters: tuple[str, ...]) -> NamedExpressions:
    compiled = (
        (letters[index], context.scope.expression(text, PROMPT_ROOTS, "options", index))
        for index, text in enumerate(unit.option_texts())
    )
    return tuple((letter, option) for letter, option in compiled if option is not None)


_CAPS = {
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "num_predict",
    "n_predict",
}


def capped(models: Models, most: int) -> Models:
    """The models with at most this many tokens a reply where they set no limit themselves; 0: as they are. Decision models take
    none."""
    return tuple(
        model.model_copy(update={"max_tokens": most})
        if most
        and model.max_tokens is None
        and not is_decision_model(model)
        and not _CAPS & model.params.keys()
        else model
        for model in models
    )


def _follow_up(context: CompileContext, reading: BoundExtractor, models: Models) -> Models:
    if reading.then is None:
        return ()
    if reading.then.model is None:
        return models
    return context.place.policy(reading.then.model, "extract", "model") or ()


def _reading(context: CompileContext, unit: LLMUnit, response: RecordType) -> BoundExtractor | None:
    models = context.instance.models or ()
    chosen = _fitted(context, resolve_extractor(_extractor_key(unit, response, models)))
    if chosen is None or not response.fields:
        return None
    if only_decides(context):
        # Here, because most pipelines ask no decision model.
        from verdict_cli.language.extractors.decision import DecidedValueExtractor

        decided = DecidedValueExtractor() if chosen.type == "structured" else chosen.for_decisions()
        if decided is None:
            names = ", ".join(model.name for model in models)
            message = f"`{chosen.type}` reads a written reply, and model {names} writes no text"
            context.problem("bad-extractor", message, "leave `extract` out", "extract")
            return None
        chosen = decided
    issue = chosen.validation_error(response)
    if issue:
        context.place.issue("bad-extractor", issue, "extract")
        return None
    bound = chosen.bind(response)
    return replace(bound, thoughts=unit.raw_thoughts) if chosen.type == "raw" else bound


def _extractor_key(unit: LLMUnit, response: RecordType, models: Models) -> Any:
    """The extractor that the unit names, or that suits its response and its first model."""
    key: Any = unit.extract_key
    is_default = "extract_key" not in unit.model_fields_set
    if is_default and any(map(is_decision_model, models[:1])):
        return "decision"
    if key is None:
        return "structured" if set(response.fields) == {"criteria"} else "verdict"
    is_text = list(response.fields.values()) == [TEXT]
    return "structured" if key == "raw" and is_default and not is_text else key


def _fitted(context: CompileContext, chosen: Extractor) -> Extractor | None:
    """The extractor with the content of its calibration files; None, and reported, for an invalid file."""
    read: JsonObject = {}
    for key, kind in (("calibration", "probability"), ("weights", "score_weights")):
        reference = getattr(chosen, key, None)
        if isinstance(reference, CalibrationFile | Fitted):
            read[key] = context.fitted(reference, FITTED[kind], "extract", key)
    return None if None in read.values() else chosen.model_copy(update=read)


def _prompt(context: CompileContext, unit: LLMUnit) -> CompiledPrompt | None:
    read = _text(context, unit)
    if read is None:
        return None
    text, jinja = read
    if not text.strip():
        context.problem(
            "empty-prompt", "the prompt is empty", "write what the model is asked", "prompt"
        )
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
        context.place.warn(message, hint, "prompt")

    resolve, delimit = context.scope.resolve, context.instance.delimited
    if jinja:
        from verdict_cli.language.prompts.jinja import (
            compile_jinja,  # here, because few prompts need it
        )

        roots = (*PROMPT_ROOTS, *context.scope.entries)
        compiled: CompiledPrompt | None = compile_jinja(framed, roots, resolve, tell, delimit)
    else:
        compiled = compile_prompt(
            framed, resolve, tell, warn, delimit, tuple(context.scope.entries)
        )
    if compiled is not None:
        context.scope.note_tested(compiled.tested)
    return None if errors else compiled


def _text(context: CompileContext, unit: LLMUnit) -> tuple[str, bool] | None:
    """(text, whether it is Jinja2) of the prompt before the type adds to it."""
    names, path = context.place.names, context.place.path
    if unit.prompt_key is not None:
        return names.prompt_text(unit.prompt_key, (*path, "prompt"))
    if missing := missing_prompt(names.spec, unit, path):
        names.tell(missing)
        return None
    return unit.default_prompt() or "", False


class _ExamplesError(ValueError):
    """Examples that cannot be shown: a code, a message, a hint, and the keys below the unit that are wrong."""

    def __init__(self, code: str, message: str, hint: str, *keys: str) -> None:
        super().__init__(message)
        self.problem = (code, message, hint, "examples", *keys)


def compile_examples(
    context: CompileContext, unit: LLMUnit, prompt: CompiledPrompt, response: RecordType
) -> ExamplePool | None:
    """The pool of examples; None where the unit has none, or, reported, where it cannot be made."""
    if unit.examples is None:
        return None
    field = unit.scaled_field()
    if field is None or field not in response.fields:
        message = f"a {unit.type_name} has no answer that examples could show"
        hint = "leave `examples` out"
        context.problem("no-scaled-field", message, hint, "examples", key=True)
        return None
    try:
        return _example_pool(context, unit.examples, prompt, field, response.fields[field])
    except _ExamplesError as error:
        context.problem(*error.problem)
        return None


def _example_pool(
    context: CompileContext, key: Examples, prompt: CompiledPrompt, field: str, kind: FieldType
) -> ExamplePool:
    """The pool of examples that show this field. _ExamplesError where it cannot be made."""
    columns = key.columns or named_columns(prompt)
    if not columns:
        message = "the prompt names no column whose examples could be shown"
        raise _ExamplesError("no-columns", message, "list them: `columns: [question, answer]`")
    rows = _rows(context, key)
    expressions = _expressions(context, key)
    _note_used(context, key, rows, columns, expressions)
    labelled = [
        _example(number, row, columns, expressions, kind)
        for number, row in enumerate(rows[:MOST_EXAMPLES])
    ]
    examples = tuple(example for example in labelled if example is not None)
    if not examples:
        hint = "`target` is null everywhere: check the column"
        raise _ExamplesError("no-examples", "no row of the examples has a label", hint)
    return ExamplePool(
        examples,
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
    paths = [path for path in prompt.paths if path[0] == "source" and len(path) > 1]
    return tuple(dict.fromkeys(str(path[1]) for path in paths))


def _rows(context: CompileContext, key: Examples) -> list[RowValues]:
    """The labelled rows. _ExamplesError where they cannot be read."""
    if (key.file is None) == (key.rows is None):
        message = "`examples` needs either `file` or `rows`"
        raise _ExamplesError("bad-examples", message, "name the labelled rows")
    if key.file is None:
        return list(key.rows or ())
    names = context.place.names
    if (key.file, "rows") in names.examples:
        return names.examples[key.file, "rows"]
    # Here, because few pipelines have examples.
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import stream_rows

    try:
        file = names.spec.fence.path(names.spec.folder, key.file)
        rows = [row.source for row in stream_rows(Dataset(find_files(str(file))))]
    except OutsideError as error:
        message = f"the file {error}"
        raise _ExamplesError("outside", message, ALLOW_OUTSIDE, "file") from None
    except (DataError, UsageError, SpecError) as error:
        message = f"the examples cannot be read: {error}".splitlines()[0]
        hint = "give a dataset of labelled rows"
        raise _ExamplesError("bad-examples", message, hint, "file") from None
    names.examples[key.file, "rows"] = rows
    return rows


def _expressions(context: CompileContext, key: Examples) -> dict[str, Expression]:
    """The expressions over an example, by key. _ExamplesError where one is missing or can never be evaluated."""
    names = ("target", "prediction", "explanation", "cluster")
    texts = {name: getattr(key, name) for name in names}
    if texts["target"] is None:
        evaluations = context.place.names.spec.file.evaluate.values()
        targets = {evaluation.target for evaluation in evaluations} - {None}
        texts["target"] = targets.pop() if len(targets) == 1 else None
    if texts["target"] is None:
        message = "nothing says which answer of an example is right"
        raise _ExamplesError("no-target", message, "such as `target: source.label`")
    if key.choose == "errors" and texts["prediction"] is None:
        message = "`choose: errors` needs the answers of a judge"
        raise _ExamplesError("no-prediction", message, "such as `prediction: source.judged`")
    compiled = {}
    for name, text in texts.items():
        try:
            if text is not None:
                compiled[name] = compile_expression(text, ("source",))
        except ExpressionError as error:
            raise _ExamplesError("bad-expression", error.message, error.hint, name) from None
    return compiled


def _note_used(
    context: CompileContext,
    key: Examples,
    rows: list[RowValues],
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
) -> None:
    """Note, for the resolved pipeline, the columns of the labelled rows that count."""
    if key.file is None:
        return
    paths = [path for expression in expressions.values() for path in expression.paths]
    used = {*columns, *(str(path[1]) for path in paths if len(path) > 1)}
    example_rows = [
        {name: row[name] for name in row if name in used} for row in rows[:MOST_EXAMPLES]
    ]
    context.place.names.examples[key.file, "kept"] = example_rows


def _example(
    number: int,
    row: RowValues,
    columns: tuple[str, ...],
    expressions: Mapping[str, Expression],
    kind: FieldType,
) -> LabelledExample | None:
    """The example of a row; None for a row without a label. _ExamplesError for a row that cannot be one."""
    lacks = next((name for name in columns if name not in row), None)
    if lacks is not None:
        message = f"example {number} has no column {lacks!r}"
        hint = f"it has {', '.join(row)}; name others with `columns`"
        raise _ExamplesError("no-column", message, hint)
    try:
        values = {name: expression({"source": row}) for name, expression in expressions.items()}
    except RowError as error:
        message = f"example {number}: {error.message}"
        raise _ExamplesError("bad-examples", message, error.hint) from None
    if values["target"] is None:
        return None
    try:
        answer = kind.read(values["target"])
    except ReplyError as error:
        message = f"example {number}: the label {error.message}"
        hint = "a label must be a value of the unit's scale; convert it in `target`"
        raise _ExamplesError("bad-examples", message, hint) from None
    reasons = values.get("explanation")
    return LabelledExample(
        tuple(shown_value(row.get(name)) for name in columns),
        shown_value(answer),
        "" if reasons is None else str(reasons),
        values.get("cluster"),
        "prediction" in values and values["prediction"] != values["target"],
    )
