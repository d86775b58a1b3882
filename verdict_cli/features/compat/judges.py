"""The ready-made units and judges of haizelabs' library (`verdict.common`), its pipelines, datasets and table of agreement."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.features.compat.graph import (
    Block,
    Layer,
    MaxPoolUnit,
    MeanPoolUnit,
    Node,
    Unit,
    own_pipeline,
    plot,
    unit_prefixes,
)
from verdict_cli.features.compat.schema import (
    ContinuousScale,
    Conversation,
    DiscreteScale,
    LikertScale,
    Scale,
    Schema,
    plain,
    shown,
)
from verdict_cli.language.document.document import read_document
from verdict_cli.language.package_files import named_config
from verdict_cli.python.pipeline import Pipeline as OwnPipeline

if TYPE_CHECKING:
    import pandas

    from verdict_cli.plan.node import Plan


class Pipeline:
    """Units, layers and blocks that run in turn. `>>` changes the pipeline and returns it."""

    def __init__(self, name: str = "Pipeline", tracer: Any = None) -> None:
        if tracer is not None:
            raise UsageError(
                "a pipeline takes no tracer",
                hint="`verdict run --trace` writes OpenTelemetry traces",
            )
        self.name, self.block = name, Block()

    def __rshift__(self, other: Node) -> Pipeline:
        self.block = self.block >> other
        return self

    def via(self, policy_or_name: Any, retries: int = 1, **inference_parameters: Any) -> Pipeline:
        """The model of the units so far that have none."""
        self.block.via(policy_or_name, retries, **inference_parameters)
        return self

    def own(self, images: Sequence[str] = ()) -> OwnPipeline:
        """The pipeline of this project that runs."""
        return own_pipeline(self.name, self.block, images)

    def plot(self, display: bool = False) -> str:
        """The graph as text."""
        return plot(self.name, self.block, display)

    def run(
        self,
        input_data: Mapping[str, Any] | None = None,
        max_workers: int = 128,
        display: bool = False,
        graceful: bool = False,
    ) -> tuple[dict[str, Any], list[str]]:
        """Every unit's output by the library's names, and the names of those that nothing follows."""
        row, images = _row(input_data or {})
        own = self.own(images)
        columns = _columns(self, own.plan())
        try:
            nodes = own.run(row).nodes
        except VerdictError:
            if not graceful:
                raise
            nodes = {}
        response: dict[str, Any] = {}
        for column in columns:
            output = plain(nodes[column.id]) if nodes and nodes[column.id] is not None else {}
            column.add_fields(output)
            response |= {f"{column.prefix}_{name}": shown(value) for name, value in output.items()}
        return response, _leaf_names(columns)

    def run_from_dataset(
        self,
        dataset: DatasetWrapper,
        max_workers: int = 128,
        experiment_config: Any = None,
        display: bool = False,
        graceful: bool = False,
    ) -> tuple[pandas.DataFrame, list[str]]:
        """The rows with every unit's output, and the columns of those that nothing follows. A failed row has no outputs."""
        rows, inputs = dataset.drawn()
        read = [_row(given) for given in inputs]
        own = self.own(sorted({name for _, images in read for name in images}))
        results = own.run_dataset([row for row, _ in read], concurrency=max_workers)
        columns = _columns(self, own.plan())
        table = rows.reset_index(drop=True)
        for column in columns:
            home = f"{column.id}."
            column.add_fields(
                name.removeprefix(home) for name in map(str, results) if name.startswith(home)
            )
            for name in column.fields:
                table[f"{column.prefix}_{name}"] = results[f"{column.id}.{name}"]
        return table, _leaf_names(columns)

    def run_from_list(
        self,
        dataset: Sequence[Mapping[str, Any]],
        max_workers: int = 128,
        experiment_config: Any = None,
        display: bool = False,
        graceful: bool = False,
    ) -> tuple[pandas.DataFrame, list[str]]:
        """The same for a list of schemas."""
        rows = DatasetWrapper([dict(plain(row)) for row in dataset])
        return self.run_from_dataset(rows, max_workers, experiment_config, display, graceful)


class DatasetWrapper:
    """Rows, and the function that makes a schema of each. `max_samples` are drawn at random."""

    def __init__(
        self,
        dataset: Any,
        input_fn: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        columns: Sequence[str] | None = None,
        max_samples: int | None = None,
    ) -> None:
        import pandas

        if input_fn is not None and columns is not None:
            raise UsageError("a DatasetWrapper takes either `input_fn` or `columns`")
        table = (
            dataset if isinstance(dataset, pandas.DataFrame) else pandas.DataFrame(list(dataset))
        )
        chosen = range(len(table))
        if max_samples:
            chosen = sorted(random.sample(chosen, min(int(max_samples), len(table))))  # type: ignore[assignment]
        self.samples = table.iloc[list(chosen)]
        names = list(columns or table.columns)
        self.input_fn = input_fn or (lambda row: Schema(**{name: row[name] for name in names}))

    def drawn(self) -> tuple[pandas.DataFrame, list[Mapping[str, Any]]]:
        """The rows, and the schema of each."""
        rows: list[Any] = self.samples.to_dict(orient="records")
        return self.samples, [self.input_fn(dict(row)) for row in rows]

    def __len__(self) -> int:
        return len(self.samples)

    @staticmethod
    def from_hf(
        dataset: Mapping[str, Any], *arguments: Any, **keys: Any
    ) -> dict[str, DatasetWrapper]:
        """A wrapper for each split of a dataset."""
        return {split: DatasetWrapper(rows, *arguments, **keys) for split, rows in dataset.items()}

    @staticmethod
    def from_pandas(
        df: pandas.DataFrame,
        input_fn: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        columns: Sequence[str] | None = None,
        split_column: str | None = None,
        max_samples: int | None = None,
    ) -> dict[str, DatasetWrapper]:
        """A wrapper for each value of `split_column`; without one, of all rows, under `all`."""
        parts = (
            {"all": df}
            if split_column is None
            else {str(split): part for split, part in df.groupby(split_column)}
        )
        return DatasetWrapper.from_hf(parts, input_fn, columns, max_samples)


class Image(str):
    """An image of a prompt: a path, or base64 text with its media type."""

    def __new__(cls, file: Any = None, mime: str | None = None, blob: str | None = None) -> Image:
        if (file is None) == (mime is None or blob is None):
            raise UsageError("an Image takes either `file`, or `mime` and `blob`")
        return super().__new__(cls, f"data:{mime};base64,{blob}" if file is None else str(file))


def _row(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row with plain values, and the names of its images."""
    values = plain(given)
    images = [name for name in values if isinstance(given[name], Image)]
    return {
        name: value for name, value in values.items() if not isinstance(value, Conversation)
    }, images


@dataclass
class _Column:
    """Where a unit's output is: its id in the plan, the library's name for it, its fields."""

    id: str
    prefix: str
    fields: list[str]
    is_leaf: bool

    def add_fields(self, names: Iterable[str]) -> None:
        """Note fields that only a row shows: a function that raises on made-up values has them."""
        self.fields += [name for name in names if name not in self.fields]


def _columns(pipeline: Pipeline, plan: Plan) -> list[_Column]:
    prefixes = [
        f"{pipeline.name}_{'.'.join(parts)}"
        for parts in unit_prefixes(pipeline.block.steps, ("root",))
    ]
    parents = {parent for node in plan.nodes for parent in node.parents}
    return [
        _Column(node.id, prefix, list(node.output.fields), node.index not in parents)
        for node, prefix in zip(plan.nodes, prefixes, strict=True)
    ]


def _leaf_names(columns: Sequence[_Column]) -> list[str]:
    return sorted(
        f"{column.prefix}_{name}" for column in columns if column.is_leaf for name in column.fields
    )


HEADERS = ("Ground Truth", "Prediction", "Acc.", "Cohen (κ)", "Kendall (τ)", "Spearman (ρ)")


@dataclass
class ExperimentConfig:
    """The columns of labels and of predictions, in pairs, and columns whose values are shown one by one."""

    ground_truth_cols: list[str]
    prediction_cols: list[str]
    pivot_cols: list[str] | None = None


def display_stats(
    df: pandas.DataFrame, experiment_config: ExperimentConfig
) -> list[tuple[Any, ...]]:
    """Print accuracy, Cohen's kappa, Kendall's tau and Spearman's rho of each pair of columns, and return them."""
    from rich.console import Console
    from rich.table import Table

    pivoted = bool(experiment_config.pivot_cols)
    rows = [row if pivoted else row[2:] for row in _rows(df, experiment_config)]
    table = Table(title=f"Agreement (N={len(df)} samples)")
    for header in (*(("Pivot", "N") if pivoted else ()), *HEADERS):
        table.add_column(header)
    for row in rows:
        table.add_row(
            *(_text(value, share=index == len(row) - 4) for index, value in enumerate(row))
        )
    Console().print(table)
    return rows


def _text(value: Any, *, share: bool) -> str:
    if not isinstance(value, float):
        return str(value)
    return "—" if math.isnan(value) else f"{value:.2%}" if share else f"{value:.2f}"


def _rows(df: pandas.DataFrame, config: ExperimentConfig) -> Iterator[tuple[Any, ...]]:
    for truth, prediction in zip(config.ground_truth_cols, config.prediction_cols, strict=True):
        yield ("*", len(df), truth, prediction, *_agreement(list(df[truth]), list(df[prediction])))
        for column in config.pivot_cols or ():
            for value, part in df.groupby(column):
                agreement = _agreement(list(part[truth]), list(part[prediction]))
                yield (f"{column}={value}", len(part), truth, prediction, *agreement)


def _agreement(
    truth: Sequence[Any], prediction: Sequence[Any]
) -> tuple[float, float, float, float]:
    """Accuracy, kappa, tau and rho; NaN where one is undefined."""
    import numpy as np
    import pandas

    from verdict_cli.stats.metrics.confusion import cohen_kappa

    labels = list(dict.fromkeys([*truth, *prediction]))
    counts = np.zeros((1, len(labels), len(labels)))
    for label, answer in zip(truth, prediction, strict=True):
        counts[0, labels.index(label), labels.index(answer)] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = float(cohen_kappa(counts)[0])
    accuracy = sum(label == answer for label, answer in zip(truth, prediction, strict=True)) / max(
        len(truth), 1
    )
    if any(isinstance(label, str) for label in labels):
        return accuracy, kappa, math.nan, math.nan
    first, second = pandas.Series(truth, dtype=float), pandas.Series(prediction, dtype=float)
    if first.nunique() < 2 or second.nunique() < 2:
        return accuracy, kappa, math.nan, math.nan
    return (
        accuracy,
        kappa,
        float(first.corr(second, method="kendall")),
        float(first.corr(second, method="spearman")),
    )


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
            raise ValueError(
                f"there are {len(input.options)} options, expected {len(self.scale.values)}"
            )

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
        self,
        k: int = 3,
        options: Scale | None = None,
        explanation: bool = False,
        original: bool = False,
        **keys: Any,
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
        ranked = [
            self.text_of(input.options, self.scale.value_mapping_fn(rank))
            for rank in response.ranking
        ]
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
    return _shipped_prompts("paper/table3_expertqa_as_run")[index].replace(
        "{source.document}", "{source.doc}"
    )


def _geval_prompt(index: int) -> str:
    written = _shipped_prompts("paper/figure5_geval_as_run")[index].replace(
        '"', "\N{RIGHT DOUBLE QUOTATION MARK}"
    )
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
        self.pipeline = (
            Pipeline() >> Layer(Block() >> judge >> verify, self.repeat) >> MaxPoolUnit()
        )


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
        think.via(
            self.cot_model, retries=self.retries, temperature=self.cot_temperature, **self.kwargs
        )
        judge.via(
            self.judge_model,
            retries=self.retries,
            temperature=self.judge_temperature,
            **self.kwargs,
        )
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
        judges = [
            JudgeUnit(scale=scale).prompt(self.judge_prompt).via(model, **self.kwargs)
            for model in self.models
        ]
        self.pipeline = Pipeline() >> Layer(judges) >> MeanPoolUnit()
