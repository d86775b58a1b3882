"""Compile one unit into a node: input casts, prompt, models and extractor, escalation and everything else that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from verdict_cli.config_model import Issue
from verdict_cli.errors import DataError, ReplyError, RowError, SpecError, UsageError
from verdict_cli.language.calibrations import FITTED, CalibrationFile, Fitted, Threshold
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import (
    ExpressionError,
)
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor, Extractor
from verdict_cli.language.fields.field_keys import InputDefault, fits, is_path_key, plain_type
from verdict_cli.language.fields.types import (
    INTEGER,
    TEXT,
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
from verdict_cli.language.units.base import ABSTAIN, ANSWERED_BY, MOST_EXAMPLES, Examples, LLMUnit
from verdict_cli.language.units.choice import OPTIONS_HINT, ChoiceUnit
from verdict_cli.language.units.pools import MapUnit, Pool
from verdict_cli.llm.model_families import is_decision_model
from verdict_cli.model import Model
from verdict_cli.plan.compile_context import (
    PROMPT_ROOTS,
    CompileContext,
    CompiledUnit,
    code_at,
    compile_output_function,
    compile_python_unit,
)
from verdict_cli.plan.compile_decisions import (
    check_decisions,
    check_images,
    compile_state_prompt,
    decision_models,
    only_decides,
    warn_of_alias,
)
from verdict_cli.plan.compile_pool import compile_map, compile_pool
from verdict_cli.plan.expand import InstancePath, UnitInstance
from verdict_cli.plan.node import (
    CITATIONS,
    Cast,
    Citations,
    CompiledRule,
    Escalation,
    LLMNode,
    Node,
    OutputFields,
    OutputFunction,
)
from verdict_cli.plan.scope import NodeScope, Upstream

_ROOTS = (*PROMPT_ROOTS, "response", "output")


def compile_escalation(context: CompileContext, scope: NodeScope) -> Escalation | None:
    """The unit's escalation; None where it has none, or, reported, where it is invalid.

    ``scope`` knows the response and the output as it is passed on.
    """
    unit = context.instance.unit
    if unit.escalate is None:
        return None
    asks = isinstance(unit, LLMUnit)
    issue = unit.escalate.validation_error()
    chain = [target for target in unit.escalate.chain() if target != ABSTAIN]
    if not issue and chain and not asks:
        message = f"a {unit.type_name} calls no model that another could replace"
        issue = Issue("to", message, "only `to: abstain` is possible here")
    if not issue and context.instance.pinned:
        issue = Issue(
            "", "a pinned unit is asked once for all rows", "leave `pin` or `escalate` out"
        )
    if not issue and chain and ANSWERED_BY in scope.fixed["output"].fields:
        issue = Issue(
            "", f"the output has a field {ANSWERED_BY!r} of its own", "give it another name"
        )
    if issue:
        key, message, hint = issue
        context.problem("bad-escalate", message, hint, "escalate", *([key] if key else []))
        return None
    text = unit.escalate.when
    if not isinstance(text, str):
        fitted = context.fitted(text, Threshold, "escalate", "when")
        if fitted is None:
            return None
        text = fitted.when()
    when = context.expression(
        text, _ROOTS if asks else (*_ROOTS, "outputs"), scope, "escalate", "when"
    )
    stages: list[tuple[Model, ...] | None] = [
        context.instance.names.policy(target, (*context.instance.path, "escalate", "to"))
        for target in chain
    ]
    model_stages = tuple(models for models in stages if models)
    if when is None or len(model_stages) < len(chain):
        return None
    return Escalation(
        when, model_stages, unit.escalate.chain()[-1] == ABSTAIN, unit.escalate.audit_share or 0.0
    )


_CODE_KEYS = ("class", "map", "validate", "process", "propagate")


def compile_node(
    instance: UnitInstance,
    position: Upstream,
    children: tuple[int, ...],
    scope: NodeScope,
    warn: Callable[[str, str, InstancePath], None],
) -> tuple[Node | None, RecordType | None]:
    """The node of a unit and its output's fields.

    The node is None, with its errors reported, when it cannot be compiled. The output is None only when it is unknown
    too, so that later units are checked as far as possible.
    """
    context = CompileContext(instance, scope, warn)
    unit = instance.unit
    issue = unit.validation_error()
    if issue:
        key, message, hint = issue
        context.problem("bad-unit", message, hint, *([key] if key else []))
        return None, None
    # Input fields first: the prompt, the options and the rules resolve `input` by them.
    casts = compile_input(context)
    settings = unit.settings() | {"name": instance.name}
    if isinstance(unit, LLMUnit):
        scale = context.scale(unit)
        if scale is None and unit.scale is not None:
            return None, None
        settings |= {} if scale is None else {"scale": scale.display()}
        scope.fixed = {"unit": _known(settings)}
        compiled = compile_llm_unit(context, unit, scale)
    else:
        scope.fixed = {"unit": _known(settings)}
        assert isinstance(unit, MapUnit | Pool)
        compiled = (
            compile_map(context, unit) if isinstance(unit, MapUnit) else compile_pool(context, unit)
        )
    if compiled is None:
        return None, None
    compiled = _processed(context, compiled)
    output = _declared_output(context, compiled.output)
    inside = scope.with_fields(response=compiled.response, output=output)
    # Rules see what the reply gave, before `propagate` replaces it; `escalate.when` sees what is passed on.
    rules = _rules(context, inside)
    propagate, output = _propagated(context, inside, output)
    escalation = compile_escalation(
        context, scope.with_fields(response=compiled.response, output=output)
    )
    if escalation is not None and escalation.stages:
        output = RecordType({**output.fields, ANSWERED_BY: TEXT}, output.unknown)
    # Only now is known whether a prompt or an expression shows the options, and so whether they must come from somewhere.
    casts += compile_option_inputs(context)
    if isinstance(unit, LLMUnit):
        warn_of_alias(context, decision_models(context, unit))
    if instance.pinned:
        _check_pinned(context)
    if compiled.work is None:
        return None, output
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
        needs=frozenset(scope.uses.needs - scope.uses.tested),
        escalation=escalation,
        calibrations=tuple(context.calibrations),
        code=tuple(code for key in _CODE_KEYS if (code := code_at(context, key)) is not None),
    )
    return node, output


def _known(settings: dict[str, Any]) -> RecordType:
    return RecordType(dict.fromkeys(settings, UnknownType()))


def _processed(context: CompileContext, compiled: CompiledUnit) -> CompiledUnit:
    """What a unit defined in Python makes of its response; where it declares no output, the response's fields."""
    code = code_at(context, "process")
    if code is None or not isinstance(compiled.work, LLMNode):
        return compiled
    process = compile_output_function(context, code, context.scope, "process", compiled.output)
    return CompiledUnit(
        replace(compiled.work, process=process), compiled.response, process.output_fields
    )


def _rules(context: CompileContext, scope: NodeScope) -> tuple[CompiledRule, ...]:
    rules = (
        context.expression(text, _ROOTS, scope, "validate", at)
        for at, text in enumerate(context.instance.unit.rules)
    )
    code = code_at(context, "validate")
    functions = () if code is None else (compile_python_unit(code, scope),)
    return (*(rule for rule in rules if rule is not None), *functions)


def _propagated(
    context: CompileContext, scope: NodeScope, output: RecordType
) -> tuple[OutputFunction | None, RecordType]:
    """What replaces the output, None where nothing does, and the fields that are then passed on."""
    code = code_at(context, "propagate")
    if code is not None:
        function = compile_output_function(context, code, scope, "propagate")
        return function, function.output_fields
    if context.instance.unit.propagation is None:
        return None, output
    expressions = {
        name: context.expression(text, _ROOTS, scope, "propagate", name)
        for name, text in context.instance.unit.propagation.items()
    }
    passed = OutputFields(
        tuple(
            (name, expression) for name, expression in expressions.items() if expression is not None
        )
    )
    return passed, RecordType(
        {
            name: expression.type if expression else UnknownType()
            for name, expression in expressions.items()
        }
    )


def _declared_output(context: CompileContext, output: RecordType) -> RecordType:
    unit = context.instance.unit
    if unit.output is None:
        return output
    kept: dict[str, FieldType] = {}
    for name, kind in context.fields(unit.output, "output").items():
        given = output.kind_of(name)
        if given is None and unit.propagation is not None and name in unit.propagation:
            continue
        if given is None:
            hint = f"it gives {', '.join(output.fields)}; `propagate` makes new fields"
            context.problem(
                "unknown-field", f"the unit gives no {name!r}", hint, "output", name, key=True
            )
        elif not fits(given, kind):
            message = (
                f"{name!r} is to be {kind.type_name()}, but the unit gives {given.type_name()}"
            )
            context.problem("wrong-type", message, "declare the type that is given", "output", name)
        else:
            kept[name] = kind
    return RecordType(kept) if kept else output


def _check_pinned(context: CompileContext) -> None:
    uses = context.scope.uses
    for column in sorted(uses.columns)[:1] or (["…"] if uses.whole_row else []):
        source = f"`source.{column}`" if uses.columns else "`source`"
        context.problem(
            "pinned-uses-row",
            f"a pinned unit runs once, but this one uses {source}",
            "take the row out of it, or leave `pin` out",
        )


_REQUIRED: Any = object()
"""In place of a default: the field has none."""


def compile_input(context: CompileContext) -> tuple[Cast, ...]:
    """Where each input field comes from; the scope then knows all of them, filled or not."""
    unit = context.instance.unit
    keys = dict(unit.input or {})
    paths: dict[str, str] = {
        name: key for name, key in keys.items() if isinstance(key, str) and is_path_key(key)
    }
    defaults = {name: key.default for name, key in keys.items() if isinstance(key, InputDefault)}
    typed = {
        name: key.type if isinstance(key, InputDefault) else key
        for name, key in keys.items()
        if name not in paths
    }
    required = unit.required_inputs() if isinstance(unit, LLMUnit) else {}
    if isinstance(unit, ChoiceUnit):
        required = {name: kind for name, kind in required.items() if name in keys}
    types: dict[str, FieldType] = {**required, **context.fields(typed, "input")}
    casts = []
    for name in dict.fromkeys([*required, *keys]):
        try:
            if name in paths:
                cast = _path_cast(name, types.get(name), paths[name], context.scope)
                types[name] = cast.type
            else:
                default = defaults.get(name, _REQUIRED)
                if isinstance(types[name], TranscriptType) and default is _REQUIRED:
                    default = []  # a conversation that nobody started
                cast = _cast(
                    name, types[name], context.scope, default, pinned=context.instance.pinned
                )
            casts.append(cast)
        except ExpressionError as error:
            types.setdefault(name, UnknownType())
            path = ("input", name) if name in keys else ()
            context.problem("bad-input", error.message, error.hint, *path)
    context.scope.input = types or None
    return tuple(casts)


def compile_option_inputs(context: CompileContext) -> tuple[Cast, ...]:
    """Where the texts of options come from that neither `options` nor `input` gives, where the unit needs them: its
    prompt or an expression shows them, or its output is made from them."""
    unit, uses = context.instance.unit, context.scope.uses
    if not isinstance(unit, ChoiceUnit):
        return ()
    wanted = {
        name: kind
        for name, kind in unit.required_inputs().items()
        if name not in (unit.input or {})
    }
    if not (unit.needs_letter() or uses.whole_input or not uses.inputs.isdisjoint(wanted)):
        return ()
    casts = []
    for name, kind in wanted.items():
        try:
            casts.append(
                _cast(name, kind, context.scope, _REQUIRED, pinned=context.instance.pinned)
            )
        except ExpressionError as error:
            context.problem("bad-input", error.message, OPTIONS_HINT)
            break
    return tuple(casts)


def _path_cast(name: str, kind: FieldType | None, text: str, scope: NodeScope) -> Cast:
    """The field from the path that `input` gives. ExpressionError where it is no path, or its value does not fit."""
    expression = compile_expression(text, ("source", "previous", *scope.entries), scope.resolve)
    if expression.path is None:
        raise ExpressionError(
            f"the input field {name!r}: {text!r} is not the path of one value",
            "a path is written `source.COLUMN` or `previous.UNIT.FIELD`, of several units `previous.UNIT[0].FIELD`",
        )
    if kind is not None and not fits(expression.type, kind):
        raise ExpressionError(
            f"the input field {name!r} is to be {kind.type_name()}, but {text} is {expression.type.type_name()}",
            "name a value of that type",
        )
    return Cast(name, kind or expression.type, expression.path)


def _cast(name: str, kind: FieldType, scope: NodeScope, default: Any, *, pinned: bool) -> Cast:
    """The source of one input field. ExpressionError when none or several could fill it.

    A field of the same name and a fitting type comes first, then the only field of the same type, then the only one on
    a scale whose values have that type. Without a unit before it that gives the field, it is the row's column of that
    name, then the default.
    """
    if default is not _REQUIRED:
        try:
            default = kind.read(default)
        except ReplyError as error:
            raise ExpressionError(
                f"the default of the input field {name!r}: {error.message}", ""
            ) from None
    upstream = scope.parent_units()
    if not upstream:
        return _column(name, kind, scope, default, pinned=pinned)
    named = [unit for unit in upstream if unit.output.kind_of(name) is not None]
    if len(named) > 1:
        raise ExpressionError(
            f"the input field {name!r} is in several outputs: {', '.join(unit.id for unit in named)}",
            f"say which: `input: {{{name}: 'previous.NAME[0].{name}'}}`, or pool them first",
        )
    if named:
        given_type = scope.seen(named[0]).kind_of(name)
        assert given_type is not None
        if not fits(given_type, kind):
            raise ExpressionError(
                f"the input field {name!r} is to be {kind.type_name()}, but {named[0].id} gives {given_type.type_name()}",
                "declare the type that is given, or convert it with `propagate`",
            )
        path = scope.at(named[0], (name,)).paths[0]
        if named[0].output.unknown and default is not _REQUIRED:
            return Cast(name, kind, path, optional=True, default=default)
        return Cast(name, kind, path)
    given = [
        (unit, field, given_type)
        for unit in upstream
        for field, given_type in scope.seen(unit).fields.items()
    ]
    same = [(unit, field) for unit, field, given_type in given if given_type == kind]
    same = same or [
        (unit, field) for unit, field, given_type in given if plain_type(given_type) == kind
    ]
    if not same and default is not _REQUIRED:
        return _column(name, kind, scope, default, pinned=pinned)
    return _only(name, kind, same, scope)


def _only(name: str, kind: FieldType, same: list[tuple[Upstream, str]], scope: NodeScope) -> Cast:
    """The only field of the same type."""
    if len(same) != 1:
        candidates = ", ".join(f"{unit.id}.{field}" for unit, field in same)
        raise ExpressionError(
            f"nothing fills the input field {name!r} of type {kind.type_name()}"
            if not same
            else f"several fields could fill the input field {name!r}: {candidates}",
            f"name a path: `input: {{{name}: previous.UNIT.FIELD}}`, rename an upstream field with `propagate`, or leave "
            "`input` out",
        )
    unit, field = same[0]
    return Cast(name, kind, scope.at(unit, (field,)).paths[0], from_field=f"{unit.id}.{field}")


def _column(name: str, kind: FieldType, scope: NodeScope, default: Any, *, pinned: bool) -> Cast:
    """The row's column of that name. With a default the row need not have it, and a pinned unit, which runs without a
    row, takes the default."""
    if default is not _REQUIRED and pinned:
        return Cast(name, kind, None, default=default)
    optional = default is not _REQUIRED
    column = (
        scope.columns.get(name, UnknownType()) if optional else scope.resolve(("source", name)).type
    )
    if not fits(column, kind):
        raise ExpressionError(
            f"the input field {name!r} is to be {kind.type_name()}, but the column is {column.type_name()}",
            "declare the type that `dataset.schema` gives",
        )
    return Cast(
        name, kind, ("source", name), optional=optional, default=default if optional else None
    )


def compile_llm_unit(
    context: CompileContext, unit: LLMUnit, scale: Scale | None
) -> CompiledUnit | None:
    """Prompt, models and extractor of the unit; None, and reported, when its output cannot be known."""
    response = _response(context, unit, scale)
    models = context.instance.models
    decides = decision_models(context, unit)
    if decides and not check_decisions(context, unit, response, scale, decides):
        return CompiledUnit(None, response, unit.output_fields(response))
    reading = _reading(context, unit, response)
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
    reading = structs.replace(reading, kept_tags=reading.kept_tags | prompt.tags)
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
        context.problem(
            "field-used-twice", message, "choose another name", "response", name, key=True
        )
    return unit.response_record(scale, declared)


def _options(
    context: CompileContext, unit: LLMUnit, letters: tuple[str, ...]
) -> tuple[tuple[str, Expression], ...]:
    texts = (unit.options or ()) if isinstance(unit, ChoiceUnit) else ()
    compiled = (
        (letters[index], context.expression(text, PROMPT_ROOTS, context.scope, "options", index))
        for index, text in enumerate(texts)
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


def capped(models: tuple[Model, ...], most: int) -> tuple[Model, ...]:
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


def _follow_up(
    context: CompileContext, reading: BoundExtractor, models: tuple[Model, ...]
) -> tuple[Model, ...]:
    if reading.then is None:
        return ()
    if reading.then.model is None:
        return models
    return (
        context.instance.names.policy(
            reading.then.model, (*context.instance.path, "extract", "model")
        )
        or ()
    )


def _reading(context: CompileContext, unit: LLMUnit, response: RecordType) -> BoundExtractor | None:
    key: Any = unit.extract_key
    if "extract_key" not in unit.model_fields_set and any(
        map(is_decision_model, (context.instance.models or ())[:1])
    ):
        key = "decision"
    if key is None:
        key = "structured" if set(response.fields) == {"criteria"} else "verdict"
    if (
        key == "raw"
        and list(response.fields.values()) != [TEXT]
        and "extract_key" not in unit.model_fields_set
    ):
        key = "structured"
    chosen = _fitted(context, resolve_extractor(key))
    if chosen is None or not response.fields:
        return None
    if only_decides(context, unit):
        # Here, because most pipelines ask no decision model.
        from verdict_cli.language.extractors.decision import DecidedValueExtractor

        decided = DecidedValueExtractor() if chosen.type == "structured" else chosen.for_decisions()
        if decided is None:
            name = ", ".join(model.name for model in context.instance.models or ())
            message = f"`{chosen.type}` reads a written reply, and model {name} writes no text"
            context.problem("bad-extractor", message, "leave `extract` out", "extract")
            return None
        chosen = decided
    issue = chosen.validation_error(response)
    if issue:
        where, message, hint = issue
        context.problem(
            "bad-extractor", message, hint, "extract", *(part for part in where.split(".") if part)
        )
        return None
    bound = chosen.bind(response)
    return structs.replace(bound, thoughts=unit.raw_thoughts) if chosen.type == "raw" else bound


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
        context.warn(message, hint, (*context.instance.path, "prompt"))

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
        message = "the prompt names no column whose examples could be shown"
        context.problem(
            "no-columns", message, "list them: `columns: [question, answer]`", "examples"
        )
    rows = _rows(context, key)
    expressions = _expressions(context, key)
    if not columns or rows is None or expressions is None:
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
    return tuple(
        dict.fromkeys(
            str(path[1]) for path in prompt.paths if path[0] == "source" and len(path) > 1
        )
    )


def _rows(context: CompileContext, key: Examples) -> list[Mapping[str, Any]] | None:
    """The labelled rows; None, and reported, where they cannot be read."""
    if (key.file is None) == (key.rows is None):
        context.problem(
            "bad-examples",
            "`examples` needs either `file` or `rows`",
            "name the labelled rows",
            "examples",
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
    from verdict_cli.storage.datasets.dataset import (
        Dataset,  # here, because few pipelines have examples
    )
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import stream_rows

    try:
        rows = [row.source for row in stream_rows(Dataset(find_files(str(file))))]
    except (DataError, UsageError, SpecError) as error:
        message = f"the examples cannot be read: {error}".splitlines()[0]
        context.problem(
            "bad-examples", message, "give a dataset of labelled rows", "examples", "file"
        )
        return None
    names.examples[key.file, "rows"] = rows
    return rows


def _expressions(context: CompileContext, key: Examples) -> dict[str, Expression] | None:
    texts = {
        name: getattr(key, name) for name in ("target", "prediction", "explanation", "cluster")
    }
    if texts["target"] is None:
        targets = {
            evaluation.target
            for evaluation in context.instance.names.spec.file.evaluate.values()
            if evaluation.target is not None
        }
        texts["target"] = targets.pop() if len(targets) == 1 else None
    if texts["target"] is None:
        hint = "such as `target: source.label`"
        context.problem(
            "no-target", "nothing says which answer of an example is right", hint, "examples"
        )
        return None
    if key.choose == "errors" and texts["prediction"] is None:
        hint = "such as `prediction: source.judged`"
        context.problem(
            "no-prediction", "`choose: errors` needs the answers of a judge", hint, "examples"
        )
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
        context.problem(
            "no-column", message, f"it has {known}; name others with `columns`", "examples"
        )
        return None
    try:
        values = {name: expression({"source": row}) for name, expression in expressions.items()}
    except RowError as error:
        context.problem(
            "bad-examples", f"example {number}: {error.message}", error.hint, "examples"
        )
        return None
    if values["target"] is None:
        return []
    try:
        answer = response.fields[field].read(values["target"])
    except ReplyError as error:
        hint = "a label must be a value of the unit's scale; convert it in `target`"
        context.problem(
            "bad-examples", f"example {number}: the label {error.message}", hint, "examples"
        )
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
