"""The ready-made units and judges of haizelabs' library: `verdict.common`."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from verdict_cli.features.compat.graph import Block, Layer, MaxPoolUnit, MeanPoolUnit, Unit
from verdict_cli.features.compat.pipeline import Pipeline
from verdict_cli.features.compat.schema import ContinuousScale, DiscreteScale, LikertScale, Scale, Schema
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import named_config


class CoTUnit(Unit):
    """Thinks."""

    _char = "CoT"

    class ResponseSchema(Schema):
        """The thoughts."""

        thinking: str


class ConversationalUnit(Unit):
    """The next turn of a conversation. In a layer the roles are numbered: `Proponent #1`."""

    step_type: ClassVar[str] = "ConversationalUnit"

    class ResponseSchema(Schema):
        """The turn."""

        response: str

    def __init__(self, role_name: str, number: bool = True, **keys: Any) -> None:
        super().__init__(**keys)
        self.role_name, self.number = role_name, number

    @property
    def _char(self) -> str:  # type: ignore[override]
        return self.role_name

    def idx(self, value: int) -> None:
        """Number the role, unless it has a number."""
        if self.number and "#" not in self.role_name:
            self.role_name = f"{self.role_name} #{value}"

    def own_inputs(self) -> tuple[str, ...]:
        return ("conversation",)

    def document(self, *, root: bool) -> Any:
        keys, functions = super().document(root=root)
        return {**keys, "role_name": self.role_name}, functions


class JudgeUnit(Unit):
    """A score on a scale."""

    _char = "DirectScoreJudge"

    class ResponseSchema(Schema):
        """The score."""

        score: Scale = LikertScale()

    def __init__(self, scale: Scale | None = None, explanation: bool = False, **keys: Any) -> None:
        super().__init__(**keys)
        if scale is not None:
            self.respond_with(Schema.infer(score=scale))
        self.scale = self.ResponseSchema.get_scale("score")
        if explanation:
            self.respond_with(self.ResponseSchema.prepend(explanation=str))


class _OptionsUnit(Unit):
    """What units with `options` have in common: with `original`, the output has the options' texts."""

    original = False
    explanation = False
    scale: Scale

    class InputSchema(Schema):
        """The options' texts; none by default, as in the library."""

        options: list[str] = [""]  # noqa: RUF012 - the default of a field

    def input_fields(self) -> dict[str, Any]:
        """`options`, where the prompt or the output uses them."""
        used = self.original or "input.options" in str(self._prompt)
        return super().input_fields() if used else {}

    def validate(self, input: Any, response: Any) -> None:  # noqa: A002
        """As many options as letters, where their texts are needed."""
        if self.original and len(input.options) != len(self.scale.values):
            raise ValueError(f"there are {len(input.options)} options, expected {len(self.scale.values)}")

    def output_fields(self) -> dict[str, Any] | None:
        if not self.original:
            return None
        return self.OutputSchema.declared() | ({"explanation": "str"} if self.explanation else {})

    def text_of(self, options: Sequence[str], value: Any) -> str:
        """The text of the option that a value of the scale means."""
        return options[self.scale.values.index(value)]


class BestOfKJudgeUnit(_OptionsUnit):
    """The best of k options, by its letter."""

    _char = "BestOfKJudge"

    class OutputSchema(Schema):
        """The text of the best option."""

        chosen: str

    def __init__(
        self,
        k: int = 2,
        response_options: Scale | None = None,
        explanation: bool = False,
        original: bool = False,
        **keys: Any,
    ) -> None:
        super().__init__(**keys)
        self.k, self.explanation, self.original = k, explanation, original
        self.scale = response_options or DiscreteScale(list(string.ascii_uppercase[:k]))
        self.respond_with(Schema.infer(choice=self.scale))
        if explanation:
            self.respond_with(self.ResponseSchema.prepend(explanation=str))

    def process(self, input: Any, response: Any) -> Mapping[str, Any]:  # noqa: A002
        """The chosen option's text."""
        more = {"explanation": response.explanation} if self.explanation else {}
        return {"chosen": self.text_of(input.options, response.choice), **more}


class PairwiseJudgeUnit(BestOfKJudgeUnit):
    """The better of two options."""

    _char = "PairwiseJudge"

    def __init__(self, response_options: Scale | None = None, **keys: Any) -> None:
        super().__init__(2, response_options, **keys)


class CategoricalJudgeUnit(BestOfKJudgeUnit):
    """One of some categories."""

    _char = "CategoricalJudge"

    def __init__(self, categories: Scale | None = None, **keys: Any) -> None:
        super().__init__(2, categories, **keys)


class RankerUnit(_OptionsUnit):
    """The options in order, by their letters."""

    _char = "Ranker"

    class ResponseSchema(Schema):
        """The letters in order."""

        ranking: list[str]

    class OutputSchema(Schema):
        """The options' texts in that order."""

        ranked_options: list[str]

    def __init__(
        self, k: int = 3, options: Scale | None = None, explanation: bool = False, original: bool = False, **keys: Any
    ) -> None:
        super().__init__(**keys)
        self.k, self.explanation, self.original = k, explanation, original
        self.scale = options or DiscreteScale(list(string.ascii_uppercase[:k]))
        if explanation:
            self.respond_with(self.ResponseSchema.prepend(explanation=str))

    def validate(self, input: Any, response: Any) -> None:  # noqa: A002
        """Each option once."""
        super().validate(input, response)
        if sorted(response.ranking) != sorted(map(str, self.scale.values)):
            raise ValueError(f"{response.ranking} does not rank each of {self.scale} exactly once")

    def process(self, input: Any, response: Any) -> Mapping[str, Any]:  # noqa: A002
        """The options' texts in order."""
        more = {"explanation": response.explanation} if self.explanation else {}
        ranked = [self.text_of(input.options, self.scale.value_mapping_fn(rank)) for rank in response.ranking]
        return {"ranked_options": ranked, **more}


class _ReadyJudge:
    """A pipeline whose one output is a judgement."""

    pipeline: Pipeline

    def run(self, dataset: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The judgement of each row."""
        table, leaves = self.pipeline.run_from_list(dataset)
        return list(table[leaves[0]])


def _shipped_prompts(config: str) -> list[str]:
    """The prompts of a pipeline that comes with verdict, in order."""
    prompts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, Mapping):
            prompts.extend([value["prompt"]] if isinstance(value.get("prompt"), str) else [])
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                collect(item)

    collect(read_document(named_config(config)).data["pipeline"])
    return prompts


def _expertqa_prompt(index: int) -> str:
    return _shipped_prompts("paper/table3_expertqa_as_run")[index].replace("{source.document}", "{source.doc}")


def _geval_prompt(index: int) -> str:
    written = _shipped_prompts("paper/figure5_geval_as_run")[index].replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}")
    return written.replace("{source.source}", "{source.document}")


@dataclass
class EnsembleVerifyJudge(_ReadyJudge):
    """Judges that are each verified; the most frequent answer counts. Columns: `doc`, `claim`."""

    judge_prompt: str = field(default_factory=lambda: _expertqa_prompt(0))
    verify_prompt: str = field(default_factory=lambda: _expertqa_prompt(1))
    output_categories: Scale = field(default_factory=lambda: DiscreteScale(["yes", "no"]))
    model: str = "gpt-4o"
    repeat: int = 3
    retries: int = 3
    judge_temperature: float = 0.7
    verify_temperature: float = 0.0
    judge_explanation: bool = True
    pipeline: Pipeline = field(init=False)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        judge = CategoricalJudgeUnit(
            name="judge", categories=self.output_categories, explanation=self.judge_explanation
        )
        verify = CategoricalJudgeUnit(name="verify", categories=self.output_categories)
        judge.prompt(self.judge_prompt).via(
            self.model, retries=self.retries, temperature=self.judge_temperature, **self.kwargs
        )
        verify.prompt(self.verify_prompt).via(
            self.model, retries=self.retries, temperature=self.verify_temperature, **self.kwargs
        )
        self.pipeline = Pipeline() >> Layer(Block() >> judge >> verify, self.repeat) >> MaxPoolUnit()


@dataclass
class GEvalJudge(_ReadyJudge):
    """G-Eval: thoughts, then a score from 1 to 5. Columns: `document`, `summary`."""

    cot_prompt: str = field(default_factory=lambda: _geval_prompt(0))
    cot_model: str = "gpt-4o"
    cot_temperature: float = 0.5
    judge_prompt: str = field(default_factory=lambda: _geval_prompt(1))
    judge_model: str = "gpt-4o-mini"
    judge_temperature: float = 0.0
    retries: int = 3
    kwargs: dict[str, Any] = field(default_factory=dict)
    pipeline: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        think = CoTUnit(name="GEval-CoT").prompt(self.cot_prompt)
        judge = JudgeUnit(name="GEval-Judge", scale=DiscreteScale((1, 5))).prompt(self.judge_prompt)
        think.via(self.cot_model, retries=self.retries, temperature=self.cot_temperature, **self.kwargs)
        judge.via(self.judge_model, retries=self.retries, temperature=self.judge_temperature, **self.kwargs)
        self.pipeline = Pipeline() >> think >> judge


@dataclass
class ModelEnsembleJudge(_ReadyJudge):
    """The mean of several models' scores from 1 to 5."""

    judge_prompt: str
    models: list[str]
    pipeline: Pipeline = field(init=False)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scale = ContinuousScale(1, 5)
        judges = [JudgeUnit(scale=scale).prompt(self.judge_prompt).via(model, **self.kwargs) for model in self.models]
        self.pipeline = Pipeline() >> Layer(judges) >> MeanPoolUnit()
