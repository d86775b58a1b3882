"""Units that ask decision models: their prompt as a question about a state, and what such models cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from verdict_cli.config_model import Issue
from verdict_cli.language.expressions.paths import ExpressionError, ExpressionPath
from verdict_cli.language.fields.types import RecordType, ScaleType
from verdict_cli.language.prompts.prompt import CompiledPrompt, compile_prompt
from verdict_cli.language.prompts.sections import MARKER
from verdict_cli.language.prompts.state_prompt import StatePrompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.questions import question_form
from verdict_cli.language.units.base import ABSTAIN, LLMUnit
from verdict_cli.llm.model_families import DecisionLimits, family, is_decision_model
from verdict_cli.llm.providers.decision_protocols import absent_settings, takes_images
from verdict_cli.messages import is_number
from verdict_cli.model import Model, Models
from verdict_cli.plan.compile_context import CompileContext


def escalation_models(context: CompileContext) -> list[Models | None]:
    """The models of each stage of the unit's escalation; None, and reported, for a bad one."""
    escalate = context.instance.unit.escalate
    chain = escalate.chain() if escalate is not None else ()
    targets = [target for target in chain if target != ABSTAIN]
    return [context.place.policy(target, "escalate", "to") for target in targets]


def all_models(context: CompileContext) -> list[Model]:
    """The unit's models, and those that it escalates to."""
    stages = [context.instance.models, *escalation_models(context)]
    return [model for models in stages for model in models or ()]


def decision_models(context: CompileContext) -> list[Model]:
    """The decision models among `all_models`."""
    return [model for model in all_models(context) if is_decision_model(model)]


def only_decides(context: CompileContext) -> bool:
    """Whether no other model answers: what concerns written replies is then of no concern."""
    models = all_models(context)
    return bool(models) and all(map(is_decision_model, models))


def compile_state_prompt(
    context: CompileContext, unit: LLMUnit, prompt: CompiledPrompt, text: tuple[str, bool] | None
) -> StatePrompt:
    """The unit's prompt, split into instructions and state."""
    resolve = context.scope.resolve
    entries = [name for name in context.scope.entries if name != "index"]
    template, is_jinja = text or ("", False)
    if is_jinja and not MARKER.search(template):
        hint = "begin it with a line `@system` and the question; the rest is the state"
        context.problem(
            "bad-prompt", "a `jinja` prompt does not say what the question is", hint, "prompt"
        )
    if unit.letters() and not is_jinja and "@system" not in template:
        framed = unit.frame_fields(template)
        prompt = compile_prompt(
            framed,
            resolve,
            _ignore,
            _ignore,
            context.instance.delimited,
            tuple(context.scope.entries),
        )

    def is_inline(path: ExpressionPath) -> bool:
        if path[0] in ("unit", "index", *entries[-1:]):
            return True
        try:
            return resolve(path).trusted
        except ExpressionError:  # reported where the prompt is compiled
            return False

    names = zip(unit.letters(), unit.option_labels(), strict=False)
    labels: dict[ExpressionPath, str] = {("input", letter): label for letter, label in names}
    split = StatePrompt.of(prompt, is_inline, labels)
    if split.names is not None and not split.names:
        message = "the prompt shows nothing to judge"
        context.problem(
            "bad-prompt", message, "name what is judged, such as {source.answer}", "prompt"
        )
    elif (
        split.names is None and not is_jinja and entries and _is_only_in_state(prompt, entries[-1])
    ):
        context.place.warn(
            f"{{{entries[-1]}}} is in the state, so that every entry needs a request of its own",
            "name it in the `@system` part",
            "prompt",
        )
    return split


def _ignore(_: str, __: str) -> None:
    """The same problem was reported for the prompt as chat models get it."""


def _is_only_in_state(prompt: CompiledPrompt, entry: str) -> bool:
    sections = getattr(prompt, "sections", ())
    roles = {
        role
        for role, parts in sections
        for part in parts
        if not isinstance(part, str) and part.written[0] == entry
    }
    return bool(roles) and "system" not in roles


def check_decisions(
    context: CompileContext,
    unit: LLMUnit,
    response: RecordType,
    scale: Scale | None,
    models: Sequence[Model],
) -> bool:
    """Report what the unit needs and the decision models do not have. Whether there is nothing."""
    fits = True
    for name in dict.fromkeys(model.name for model in models):
        model = next(other for other in models if other.name == name)
        for issue in _issues(unit, response, scale, model):
            fits = False
            message = f"model {name} {issue.message}"
            context.problem("decision-model", message, issue.hint, *issue.path)
    if len({is_decision_model(model) for model in context.instance.models or ()}) > 1:
        message = "decision models and chat models are not tried one after another"
        hint = "ask another model where the answer is in doubt: `escalate: {when: output.p < 0.8, to: …}`"
        context.problem("decision-model", message, hint, "model")
    values = () if scale is None or not scale.ordered or scale.descriptions else scale.values()
    if values and all(map(is_number, values)):
        message = f"model {models[0].name} reads the levels' texts, and these are bare numbers"
        context.place.warn(message, "add `descriptions` to the scale", "scale")
    return fits


def warn_of_alias(context: CompileContext, models: Sequence[Model]) -> None:
    """Warn of a calibrated judge whose model is an alias."""
    alias = next((model.name for model in models if model.name.endswith("-latest")), None)
    if context.calibrations and alias is not None:
        message = f"the calibration holds for the version that answered, and {alias} moves"
        hint = "name the version that was calibrated, such as typesafe/jev-1.13.0"
        context.place.warn(message, hint)


def check_images(context: CompileContext, prompt: CompiledPrompt, models: Sequence[Model]) -> None:
    """Report a prompt with images for a model that takes none."""
    blind = next((model.name for model in models if not takes_images(model)), None)
    if prompt.shows_images and blind is not None:
        hint = "use another model, or leave them out of the prompt"
        context.problem("decision-model", f"model {blind} takes no images", hint, "prompt")


def _issues(
    unit: LLMUnit, response: RecordType, scale: Scale | None, model: Model
) -> Iterator[Issue]:
    """Everything that the model cannot do; each message follows the model's name."""
    for setting in absent_settings(model):
        yield Issue("", f"takes no {setting}", f"remove `{setting}` from the model")
    if unit.streamed:
        yield Issue("stream", "streams nothing", "leave `stream` out")
    if unit.explanation:
        message = f"writes no text: unit `{unit.node_name}` asks for an `explanation`"
        yield Issue("explanation", message, "leave it out, or let another unit explain")
        return
    kinds = list(response.fields.values())
    if len(kinds) != 1 or not isinstance(kinds[0], ScaleType) or scale is None:
        fields = ", ".join(response.fields)
        message = f"answers one question on a scale: unit `{unit.node_name}` asks for {fields}"
        yield Issue(
            "", message, "use one unit for each scale, and another model for texts and lists"
        )
        return
    entry = family(model)
    yield from _scale_issues(scale, DecisionLimits() if entry is None else entry.limits)


def _scale_issues(scale: Scale, limits: DecisionLimits) -> Iterator[Issue]:
    form = question_form(scale)
    count = len(form.options)
    most = limits.levels if form.kind == "score" else limits.options
    if form.kind != "predicate" and not max(2, limits.fewest_options) <= count <= most:
        message = f"takes 2 to {most} options, and the scale has {count}"
        yield Issue("scale", message, "use a scale of fewer values")
    strange = [option.token for option in form.options if option.token[:1] in ("▁", "Ġ")]
    if strange:
        message = f"cannot be read on a scale with the value {strange[0]!r}"
        yield Issue("scale", message, "give the value another name")
