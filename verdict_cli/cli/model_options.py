"""Options shared by commands that read a pipeline or call models, and the plan, recording and cache that they imply.

A command takes them as one keyword parameter of the type `PipelineOptions`, `ModelOptions` or `RowOptions`; `options.flatten_options` turns
that parameter into separate options for typer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli.cli.console import print_error, print_message
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
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.errors import Problem
    from verdict_cli.language.load import UnitTypes
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.build import Built
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.job import RunOptions
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
    from verdict_cli.storage.path_policy import PathPolicy


def is_dataset(path: Path) -> bool:
    """Whether the file's name is that of a dataset, and not of a pipeline file."""
    from verdict_cli.storage.datasets.files import format_of

    return format_of(path) not in (None, "json")


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

    def built(
        self, config: Path, *, off: Sequence[str] = (), else_model: str | None = None
    ) -> Built:
        """Load a pipeline file with these overrides, and build its plan; unknown unit types are those of installed packages.

        Args:
            config: The file, or the name of a pipeline shipped with verdict, such as `xstest`.
            off: Paths of the values to remove from the file.
            else_model: The model if neither the file nor `--model` names one.

        Raises:
            SpecError: The pipeline is not valid.
        """
        from verdict_cli.language.document.document import read_document
        from verdict_cli.language.document.overrides import (
            apply_override,
            override_model,
            remove_value,
        )
        from verdict_cli.language.package_files import configs, file_or_named
        from verdict_cli.plan.build import load_plan

        config = file_or_named(config, configs)
        if config.suffix not in (".yaml", ".yml") and is_dataset(config):
            raise UsageError(
                f"{config} is a dataset, not a pipeline file",
                hint="the pipeline file comes first, as in verdict run CONFIG DATA",
            )
        settings = self.settings or ()
        document = apply_override(read_document(config), settings)
        has_model = self.model is not None or document.data.get("model") is not None
        name = self.model if has_model else else_model
        if name is not None:
            document = override_model(document, name)
        document = remove_value(document, off)
        unit_types: UnitTypes = {}
        if self.allow_code:
            from verdict_cli.language.authoring.unit_step import import_unit_types

            unit_types = import_unit_types(self.allow_code)
        return load_plan(document, config.parent, self._path_policy(config), unit_types)

    def _path_policy(self, config: Path) -> PathPolicy:
        """Files in the pipeline file's folder, and those that the command line names."""
        from verdict_cli.language.model_address import ONLY
        from verdict_cli.storage.path_policy import PathPolicy

        named_files = {setting.partition("=")[2].strip("\"' ") for setting in self.settings or ()}
        if self.model is not None:
            named_files.add(self.model)
        folder = None if self.allow_outside else config.parent
        return PathPolicy(folder, frozenset(named_files), hidden=ONLY not in os.environ)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(PipelineOptions):
    """The options of a command that calls models: the source of replies, and the budget."""

    seed: Seed = 0
    replay: Replay = None
    budget: Budget = None
    no_cache: NoCache = False
    quiet: Quiet = False

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

        is_used = wanted and self.replay is None and not self.no_cache
        return opened_store(plan) if is_used else None

    @contextmanager
    def opened_store(self, plan: Plan, *, wanted: bool = True) -> Iterator[CacheStore | None]:
        """The shared cache of replies, which is closed at the end; None if it is not used."""
        store = self.store(plan, wanted=wanted)
        try:
            yield store
        finally:
            if store is not None:
                store.close()


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
        return (
            self
            if level is None
            else replace(self, settings=[*(self.settings or ()), f"level={level!r}"])
        )

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
