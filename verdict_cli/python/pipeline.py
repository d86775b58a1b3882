"""`Pipeline`: steps under a name, the same thing as a pipeline file, run from Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from msgspec import structs

from verdict_cli.config_model import checked_arguments
from verdict_cli.errors import Problem, SpecError, UsageError
from verdict_cli.language.authoring.arguments import (
    ModelKeys,
    ModelLike,
    model_key,
    optional_path,
    path_argument,
)
from verdict_cli.language.authoring.functions import FunctionsByPath
from verdict_cli.language.authoring.schema import unwrap_views
from verdict_cli.language.authoring.step import (
    FileStep,
    Step,
    chained_steps,
    check_step,
    step_documents,
)
from verdict_cli.language.authoring.unit_step import check_class_names
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.overrides import replace_model
from verdict_cli.language.document.source_positions import Document, Position, ValueNode
from verdict_cli.language.load import Spec, validate_document
from verdict_cli.messages import NamedValues
from verdict_cli.model import PLACEHOLDER_MODEL
from verdict_cli.storage.path_policy import PathPolicy

if TYPE_CHECKING:
    import pandas

    from verdict_cli.plan.build import Built
    from verdict_cli.plan.node import Plan
    from verdict_cli.python.judged import Judged


class Pipeline:
    """A compound judge. `Pipeline("jury") >> Layer(JudgeUnit().prompt("…"), 3) >> MeanPoolUnit()`.

    Immutable, as all that it is made of: `>>` and `via` give new pipelines.
    """

    __slots__ = ("_built", "_document", "_folder", "_head", "_path_policy", "steps")

    _built: dict[str, Built]
    _document: Document | None
    _path_policy: PathPolicy
    _folder: Path
    _head: NamedValues
    steps: tuple[Step, ...]

    @checked_arguments
    def __init__(
        self,
        name: str = "pipeline",
        *,
        description: str | None = None,
        model: ModelLike | None = None,
        delimit: bool | None = None,
        dataset: NamedValues | None = None,
        evaluate: NamedValues | None = None,
        gates: Sequence[NamedValues] | None = None,
    ) -> None:
        head = {
            "name": _name(name),
            "description": description,
            "model": None if model is None else model_key("Pipeline", model),
            "delimit": delimit,
            "dataset": dataset,
            "evaluate": evaluate,
            "gates": gates,
        }
        keys = {key: unwrap_views(value) for key, value in head.items() if value is not None}
        self._set(keys, (), Path(), PathPolicy())

    def __setattr__(self, name: str, value: Any) -> None:
        raise UsageError(
            f"{name!r} of a Pipeline cannot be set: pipelines are immutable",
            hint="`pipeline = pipeline >> …` makes a new one",
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        functions: FunctionsByPath = {}
        step_documents(self.steps, ("pipeline",), functions)
        if functions:
            raise UsageError(
                f"the pipeline {self.name!r} cannot be pickled: it holds Python functions",
                hint="make it in each process, in a function of the module that the worker imports",
            )
        parts = (self._head, self.steps, self._folder, self._path_policy, self._document)
        return _restored, (type(self), *parts)

    @classmethod
    def from_yaml(cls, source: str | Path, *, allow_outside: bool = False) -> Pipeline:
        """The pipeline of a file, or of a YAML text (a string of several lines). SpecError with every problem.

        It may name files of its own folder only, unless `allow_outside`; so may a dataset that it judges.
        """
        if isinstance(source, str) and "\n" in source:
            document, folder = (
                parse_document(source.encode("utf-8", "surrogatepass"), "the YAML text"),
                Path(),
            )
        else:
            document, folder = (
                read_document(path := path_argument("the pipeline file", source)),
                path.parent,
            )
        path_policy = PathPolicy(None if allow_outside else folder)
        validate_document(document, folder, fence=path_policy)
        head = {
            key: value for key, value in document.data.items() if key not in ("verdict", "pipeline")
        }
        return cls.__new__(cls)._set(
            head, tuple(map(FileStep, document.data["pipeline"])), folder, path_policy, document
        )

    def _set(
        self,
        head: NamedValues,
        steps: tuple[Step, ...],
        folder: Path,
        path_policy: PathPolicy,
        document: Document | None = None,
    ) -> Self:
        parts = {
            "_head": head,
            "steps": steps,
            "_folder": folder,
            "_path_policy": path_policy,
            "_document": document,
        }
        for name, value in {**parts, "_built": {}}.items():
            object.__setattr__(self, name, value)
        return self

    def _changed(self, head: NamedValues, steps: tuple[Step, ...]) -> Self:
        """A copy with this head and these steps. They are written out: the document of a file no longer says them."""
        return self.__new__(type(self))._set(head, steps, self._folder, self._path_policy)

    @property
    def name(self) -> str:
        """The name as the language writes it: lower case."""
        return str(self._head["name"])

    def __rshift__(self, other: Any) -> Pipeline:
        if isinstance(other, Pipeline):
            raise UsageError(
                "`>>` adds a step to a pipeline, not a pipeline",
                hint="put what both share into a Block",
            )
        return self._changed(
            self._head, (*self.steps, *chained_steps(check_step(other, "`>>` adds")))
        )

    @checked_arguments
    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Pipeline:
        """The model of every unit that sets none."""
        return self._changed(
            {**self._head, "model": model_key("Pipeline.via", model, dict(keys))}, self.steps
        )

    def spec(self, model: ModelLike | None = None) -> Spec:
        """The validated pipeline. A name as `model` replaces the name alone. SpecError when it is invalid."""
        functions: FunctionsByPath = {}
        if self._document is not None:
            data = dict(self._document.data)
            document = self._document
        else:
            check_class_names(self.steps)
            steps = step_documents(self.steps, ("pipeline",), functions)
            data = {"verdict": 1, **self._head, "pipeline": steps}
            document = Document(f"Pipeline({self.name!r})", data, ValueNode(data, Position(0, 0)))
        if model is not None:
            data["model"] = (
                replace_model(data, model) if isinstance(model, str) else model_key("model", model)
            )
        policy = self._path_policy
        path_policy = (
            structs.replace(policy, given=policy.given | {model})
            if isinstance(model, str)
            else policy
        )
        return validate_document(replace(document, data=data), self._folder, functions, path_policy)

    def plan(self, model: ModelLike | None = None) -> Plan:
        """The graph, wired, typed and checked. SpecError with every problem."""
        return self._plan(model).plan

    def validate(self, model: ModelLike | None = None) -> tuple[Problem, ...]:
        """What the author is warned of, a unit without a model among it. SpecError with every problem."""
        built, no_model = self._checked_plan(model)
        return (*built.warnings, *no_model)

    @property
    def fingerprint(self) -> str:
        """32 hex digits over everything that affects the model calls: equal for the same pipeline in YAML."""
        return self._checked_plan(None)[0].plan.fingerprint

    def graph(self, format: Literal["tree", "mermaid", "svg", "json"] = "tree") -> Any:  # noqa: A002
        """The graph as text; with `json` the mapping that `verdict graph --format json` prints."""
        from verdict_cli.report.plan_graph import as_mapping, as_mermaid, as_svg, as_tree

        draws = {"tree": as_tree, "mermaid": as_mermaid, "svg": as_svg, "json": as_mapping}
        if format not in draws:
            raise UsageError(f"unknown format {format!r}", hint=f"it is one of {', '.join(draws)}")
        return draws[format](self._checked_plan(None)[0].plan)

    def to_yaml(self) -> str:
        """The pipeline as a file, its prompt files inlined: text that loads as the same pipeline.

        UsageError names a unit that holds a Python function: that has no YAML form.
        """
        from verdict_cli.plan.resolve import as_yaml

        built, no_model = self._checked_plan(None)
        for node in built.plan.nodes:
            for code in node.code:
                raise UsageError(
                    f"the unit {node.id!r} has no YAML form: {code.name} is a Python function",
                    hint="write it as an expression: `.propagate(score='output.score / 5')`",
                )
        data = dict(built.plan.resolved)
        if no_model:
            del data["model"]
        return as_yaml(data)

    @checked_arguments
    def run(
        self,
        row: NamedValues,
        *,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        seed: int = 0,
    ) -> Judged:
        """The pipeline's output for one row; pinned units run once for it. Works inside a running event loop too.

        Raises the failure of the row: ReplyError, Retryable, Rejected, Refused, PinnedError or RowError.
        """
        from verdict_cli.python.judged import judged_once, run_sync

        return run_sync(
            lambda: judged_once(self.plan(model), row, optional_path("replay", replay), seed)
        )

    async def arun(
        self,
        row: NamedValues,
        *,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        seed: int = 0,
    ) -> Judged:
        """The same, awaited in the running event loop."""
        from verdict_cli.python.judged import judged_once

        return await judged_once(self.plan(model), row, optional_path("replay", replay), seed)

    @checked_arguments
    def run_dataset(
        self,
        data: pandas.DataFrame | str | Path | Sequence[NamedValues],
        out: str | Path | None = None,
        *,
        model: ModelLike | None = None,
        replay: str | Path | None = None,
        concurrency: int = 64,
        limit: int | None = None,
        seed: int = 0,
        reuse: str | Path | None = None,
        retry_failed: bool = False,
        cache: bool = False,
    ) -> pandas.DataFrame:
        """The scored table, one row a row of the data, with the columns of `results.parquet`.

        `data` is a DataFrame, a list of rows, or a path as `verdict run` takes it. `out` keeps the run's directory,
        and resumes an unfinished one. `reuse` is the directory of another run, whose replies answer equal requests, such as
        one of an earlier version of the pipeline or the data. `retry_failed` repeats the failed calls of failed rows; `cache` shares replies with
        other runs, as `verdict run` does. A failed row has `status` "failed" and its failure in columns of its own.
        """
        from verdict_cli.python.dataset_run import DatasetRunOptions, run_dataset

        where, replies = optional_path("out", out), optional_path("replay", replay)
        reuse_path = optional_path("reuse", reuse)
        options = DatasetRunOptions(
            where, replies, concurrency, limit, seed, reuse_path, retry_failed, cache
        )
        return run_dataset(self.plan(model), data, options)

    def _plan(self, model: ModelLike | None) -> Built:
        from verdict_cli.plan.build import build_plan

        key = repr(model)
        if key not in self._built:
            try:
                self._built[key] = build_plan(self.spec(model))
            except SpecError as error:
                raise SpecError(
                    [_with_python_hint(problem) for problem in error.problems]
                ) from None
        return self._built[key]

    def _checked_plan(self, model: ModelLike | None) -> tuple[Built, tuple[Problem, ...]]:
        """The plan, made with a stand-in where no model is named, and the warnings that say so."""
        try:
            return self._plan(model), ()
        except SpecError as error:
            if model is not None or any(problem.code != "no-model" for problem in error.problems):
                raise
            return self._plan(PLACEHOLDER_MODEL), error.problems

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.graph('tree'))}</pre>"

    def __repr__(self) -> str:
        return " >> ".join([f"Pipeline({self.name!r})", *map(repr, self.steps)])


def _restored(kind: type[Pipeline], *parts: Any) -> Pipeline:
    """A pipeline that was pickled."""
    return kind.__new__(kind)._set(*parts)


def _with_python_hint(problem: Problem) -> Problem:
    if problem.code != "no-model":
        return problem
    return structs.replace(
        problem,
        hint="give it one: `.via('gpt-4o-mini')`, `Pipeline(…, model=…)` or `run(row, model=…)`",
    )


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise UsageError(
            f"a pipeline's name is a text, not {name!r:.80}", hint="steps follow by `>>`"
        )
    text = re.sub(r"[^a-z0-9_-]+", "_", name.strip().lower()).strip("_-")
    if not text:
        raise UsageError(
            f"{name!r} is not a valid name of a pipeline", hint="use letters and digits"
        )
    return text
