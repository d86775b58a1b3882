"""Options shared by commands that read a pipeline or call models, and the plan, recording and cache that they imply.

A command takes them as one keyword parameter of the type `PipelineOptions`, `ModelOptions` or `RowOptions`; `flatten_options` turns that
parameter into separate options for typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.extensions import Extension, call_extended
from verdict_cli.cli.options import (
    AllowCode,
    AllowHost,
    AllowOutside,
    Budget,
    Concurrency,
    Fresh,
    Limit,
    ModelOption,
    NoCache,
    Quiet,
    Replay,
    SampleOption,
    Seed,
    SetOption,
)

if TYPE_CHECKING:
    from verdict_cli.errors import Problem
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.build import Built
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.job import RunOptions
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """Overrides of the pipeline, and the files that it may use."""

    model: ModelOption = None
    settings: SetOption = None
    allow_code: AllowCode = None
    allow_outside: AllowOutside = False

    def plan(self, config: Path, *, warn: bool = True, else_model: str | None = None) -> Plan:
        """Build the plan of the pipeline file and print its warnings. Raises SpecError."""
        built = self.built(config, else_model=else_model)
        for warning in (*built.warnings, *self.retirements(built.plan)) if warn else ():
            print_error(f"warning: {warning}")
        return built.plan

    def retirements(self, plan: Plan) -> Sequence[Problem]:
        """Warnings of models that are retired, or will be soon."""
        from verdict_cli.run.model_warnings import retirement_warnings

        return retirement_warnings(plan)

    def built(self, config: Path, *, off: Sequence[str] = (), else_model: str | None = None) -> Built:
        """Build the plan without the values at the paths `off`; return it with its warnings. Raises SpecError."""
        from verdict_cli.cli.load_pipeline import load_plan_for_command

        return load_plan_for_command(
            config,
            self.settings or (),
            self.model,
            allow_code=self.allow_code or (),
            allow_outside=self.allow_outside,
            warn=False,
            else_model=else_model,
            off=off,
        )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(PipelineOptions):
    """The options of a command that calls models: the source of replies, and the budget."""

    seed: Seed = 0
    replay: Replay = None
    budget: Budget = None
    no_cache: NoCache = False
    quiet: Quiet = False

    def plan(self, config: Path, *, warn: bool = True, else_model: str | None = None) -> Plan:
        return super().plan(config, warn=warn, else_model=else_model)

    def retirements(self, plan: Plan) -> Sequence[Problem]:
        return super().retirements(plan) if self.replay is None else ()

    def recording(self, plan: Plan) -> Recording | None:
        """The recording of `--replay`; None if models are called. Checks that they can be. Raises VerdictError."""
        from verdict_cli.run.preflight import open_recording

        return open_recording(self.replay, plan, priced=self.budget is not None)

    def warn_of_baselines(self, plan: Plan) -> None:
        """Warn of models that are baselines, unless a recording answers."""
        from verdict_cli.run.outcome import floors

        if self.replay is None:
            for name in floors(plan):
                print_error(f"warning: {name} is a baseline, not an LLM judge")

    def store(self, plan: Plan, *, wanted: bool = True) -> CacheStore | None:
        """Open the shared cache of replies; None if it is not used."""
        from verdict_cli.cli.cache import opened_store

        return opened_store(plan, wanted=wanted and self.replay is None and not self.no_cache)


@dataclass(frozen=True, kw_only=True)
class RowOptions(ModelOptions):
    """The options of a command that judges a dataset."""

    limit: Limit = None
    sample: SampleOption = None
    concurrency: Concurrency = 64
    fresh: Fresh = False
    allow_host: AllowHost = None

    def with_level(self, level: float | None) -> RowOptions:
        """The options with the level of `--level`, which replaces the file's and is kept with the run."""
        return self if level is None else replace(self, settings=[*(self.settings or ()), f"level={level!r}"])

    def run_options(
        self,
        plan: Plan,
        dataset: Dataset,
        data: DatasetFacts,
        names: tuple[str, str],
        recording: Recording | None,
        **more: Any,
    ) -> RunOptions:
        """The options of a run; ``names`` are the pipeline file and the dataset as the user gave them."""
        from verdict_cli.run.job import RunOptions

        return RunOptions(
            plan=plan,
            dataset=dataset,
            data=data,
            config=names[0],
            source=names[1],
            seed=self.seed,
            replay=self.replay,
            recording=recording,
            concurrency=self.concurrency,
            budget_usd=self.budget,
            fresh=self.fresh,
            warn=print_message,
            **more,
        )


EXTRAS = "extras"
"""The parameter by which a command takes what its extensions add; it is no option."""


def flatten_options(
    command: Callable[..., Any], name: str = "", added: Mapping[str, type[Extension]] | None = None
) -> Callable[..., Any]:
    """Return the command with each parameter of an options class replaced by the fields of that class, for typer.

    The options of the classes ``added`` follow; the command runs inside of what they do.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    extensions: dict[str, Any] = dict(added or {})
    flattened: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            flattened += _options(groups[parameter.name])
        elif parameter.name != EXTRAS:
            annotation = hints.get(parameter.name, Any)
            flattened.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
    for extension in extensions.values():
        flattened += _options(extension)

    @wraps(command)
    def flat_command(**values: Any) -> Any:
        options = dict(values)

        def filled(kind: Any) -> Any:
            return kind(**{field.name: values.pop(field.name) for field in fields(kind)})

        opened = [filled(kind) for kind in extensions.values()]
        parameters = {group: filled(kind) for group, kind in groups.items()}
        return call_extended(name, command, {**values, **parameters}, options, opened)

    del flat_command.__wrapped__
    flat_command.__signature__ = inspect.Signature(flattened)  # type: ignore[attr-defined]
    flat_command.__annotations__ = {parameter.name: parameter.annotation for parameter in flattened}
    return flat_command


def _options(kind: Any) -> list[inspect.Parameter]:
    """The fields of an options class as parameters."""
    types = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
        )
        for field in fields(kind)
    ]
