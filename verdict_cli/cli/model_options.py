"""How a command judges: the options that all commands have which ask models, and what follows from them.

A command takes them as one keyword parameter, `how: How` or `how: OverRows`; `expanded` shows them to typer one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from verdict_cli.cli.console import print_error
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
    from verdict_cli.llm.middleware.cache_store import CacheStore
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.build import Built
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.job import RunOptions
    from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which values and model the pipeline has, who answers, and what it may cost."""

    model: ModelOption = None
    settings: SetOption = None
    seed: Seed = 0
    replay: Replay = None
    budget: Budget = None
    no_cache: NoCache = False
    allow_code: AllowCode = None
    allow_outside: AllowOutside = False
    quiet: Quiet = False

    def plan(self, config: Path) -> Plan:
        """The plan of the pipeline file; its warnings are printed. Raises SpecError."""
        built = self.built(config)
        for warning in built.warnings:
            print_error(f"warning: {warning}")
        return built.plan

    def built(self, config: Path, *, off: Sequence[str] = ()) -> Built:
        """The same without what stands at the paths `off`, and with its warnings. Raises SpecError."""
        from verdict_cli.cli.load_pipeline import load_plan_for_command

        return load_plan_for_command(
            config,
            self.settings or (),
            self.model,
            allow_code=self.allow_code or (),
            allow_outside=self.allow_outside,
            warn=False,
            off=off,
        )

    def recording(self, plan: Plan) -> Recording | None:
        """The recording that answers, None where models do, each of which is then checked."""
        from verdict_cli.run.preflight import open_recording

        return open_recording(self.replay, plan, priced=self.budget is not None)

    def warn_of_floors(self, plan: Plan) -> None:
        """Says which models are no judges, where models are asked."""
        from verdict_cli.run.outcome import floors

        if self.replay is None:
            for floor in floors(plan):
                print_error(f"warning: {floor} is a floor to beat, not a judge")

    def store(self, plan: Plan, *, wanted: bool = True) -> CacheStore | None:
        """The replies that runs share; None where they are neither used nor kept."""
        from verdict_cli.cli.cache import opened_store

        return opened_store(plan, wanted=wanted and self.replay is None and not self.no_cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions(ModelOptions):
    """The same over a dataset: which rows, and how many calls at once."""

    limit: Limit = None
    sample: SampleOption = None
    concurrency: Concurrency = 64
    fresh: Fresh = False
    allow_host: AllowHost = None

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
            **more,
        )


def flatten_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer reads it: in place of a parameter of a class of options stand that class's options."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            of = get_type_hints(groups[name], include_extras=True)
            shown += [
                inspect.Parameter(
                    each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=of[each.name]
                )
                for each in fields(groups[name])
            ]
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints.get(name, Any)))

    @wraps(command)
    def taken(**given: Any) -> Any:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()
        }
        return command(**given, **made)

    del taken.__wrapped__
    taken.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    taken.__annotations__ = {one.name: one.annotation for one in shown}
    return taken
