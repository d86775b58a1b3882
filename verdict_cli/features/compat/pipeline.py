"""Pipelines, datasets and the table of agreement as haizelabs' library has them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.features.compat.graph import Block, Node, own_pipeline, plot, unit_prefixes
from verdict_cli.features.compat.schema import Conversation, Schema, plain, shown
from verdict_cli.python.pipeline import Pipeline as OwnPipeline

if TYPE_CHECKING:
    import pandas

    from verdict_cli.plan.node import Plan


class Pipeline:
    """Units, layers and blocks that run in turn. `>>` changes the pipeline and returns it."""

    def __init__(self, name: str = "Pipeline", tracer: Any = None) -> None:
        if tracer is not None:
            raise UsageError("a pipeline takes no tracer", hint="`verdict run --trace` writes OpenTelemetry traces")
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
            column.add_fields(name.removeprefix(home) for name in map(str, results) if name.startswith(home))
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
        table = dataset if isinstance(dataset, pandas.DataFrame) else pandas.DataFrame(list(dataset))
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
    def from_hf(dataset: Mapping[str, Any], *arguments: Any, **keys: Any) -> dict[str, DatasetWrapper]:
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
        parts = {"all": df} if split_column is None else {str(split): part for split, part in df.groupby(split_column)}
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
    return {name: value for name, value in values.items() if not isinstance(value, Conversation)}, images


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
    prefixes = [f"{pipeline.name}_{'.'.join(parts)}" for parts in unit_prefixes(pipeline.block.steps, ("root",))]
    parents = {parent for node in plan.nodes for parent in node.parents}
    return [
        _Column(node.id, prefix, list(node.output.fields), node.index not in parents)
        for node, prefix in zip(plan.nodes, prefixes, strict=True)
    ]


def _leaf_names(columns: Sequence[_Column]) -> list[str]:
    return sorted(f"{column.prefix}_{name}" for column in columns if column.is_leaf for name in column.fields)


HEADERS = ("Ground Truth", "Prediction", "Acc.", "Cohen (κ)", "Kendall (τ)", "Spearman (ρ)")


@dataclass
class ExperimentConfig:
    """The columns of labels and of predictions, in pairs, and columns whose values are shown one by one."""

    ground_truth_cols: list[str]
    prediction_cols: list[str]
    pivot_cols: list[str] | None = None


def display_stats(df: pandas.DataFrame, experiment_config: ExperimentConfig) -> list[tuple[Any, ...]]:
    """Print accuracy, Cohen's kappa, Kendall's tau and Spearman's rho of each pair of columns, and return them."""
    from rich.console import Console
    from rich.table import Table

    pivoted = bool(experiment_config.pivot_cols)
    rows = [row if pivoted else row[2:] for row in _rows(df, experiment_config)]
    table = Table(title=f"Agreement (N={len(df)} samples)")
    for header in (*(("Pivot", "N") if pivoted else ()), *HEADERS):
        table.add_column(header)
    for row in rows:
        table.add_row(*(_text(value, share=index == len(row) - 4) for index, value in enumerate(row)))
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


def _agreement(truth: Sequence[Any], prediction: Sequence[Any]) -> tuple[float, float, float, float]:
    """Accuracy, kappa, tau and rho; NaN where one is undefined."""
    import numpy as np
    import pandas

    from verdict_cli.stats.metrics.confusion import cohen_kappa

    labels = list(dict.fromkeys([*truth, *prediction]))
    counts = np.zeros((1, len(labels), len(labels)))
    for one, other in zip(truth, prediction, strict=True):
        counts[0, labels.index(one), labels.index(other)] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = float(cohen_kappa(counts)[0])
    accuracy = sum(one == other for one, other in zip(truth, prediction, strict=True)) / max(len(truth), 1)
    if any(isinstance(label, str) for label in labels):
        return accuracy, kappa, math.nan, math.nan
    first, second = pandas.Series(truth, dtype=float), pandas.Series(prediction, dtype=float)
    if first.nunique() < 2 or second.nunique() < 2:
        return accuracy, kappa, math.nan, math.nan
    return accuracy, kappa, float(first.corr(second, method="kendall")), float(first.corr(second, method="spearman"))
