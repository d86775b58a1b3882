"""Warnings of a plan's models before any call: retirement, capabilities, and prompts that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING

from verdict_cli.errors import Problem, Refused
from verdict_cli.llm.providers.model_checks import context_window, doubts, retirement_date
from verdict_cli.model import Model
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.hooks import hook_classes
from verdict_cli.run.preflight import SAMPLE, check_plan_model, models_in_use, models_of
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.datasets.read import stream_rows

if TYPE_CHECKING:
    from verdict_cli.run.estimate import DryRun, UnitModel

_NEEDS_KEY = "needs a key: the environment variable"
"""In the words of `endpoint` and `litellm` about a key that is not set here."""
NOTICE_DAYS = 30
"""How long before its retirement a model is warned of."""


def retirement_warnings(plan: Plan, today: date | None = None) -> list[Problem]:
    """A warning for each model that the price data knows to be retired, or to retire within 30 days."""
    today = today or datetime.now(UTC).date()
    problems = []
    for model in models_of(plan):
        retires = retirement_date(model)
        if retires is None or (retires - today).days > NOTICE_DAYS:
            continue
        days = (retires - today).days
        when = (
            f"was retired on {retires}"
            if days < 0
            else f"retires on {retires}, in {plural(days, 'day')}"
        )
        problems.append(
            Problem(
                "retired-model",
                f"model {model.name} {when}, by litellm's data",
                "choose its successor",
            )
        )
    return problems


def capability_warnings(plan: Plan) -> list[Problem]:
    """What would keep the plan's models from answering, and what they are not known to take; nothing is sent."""
    problems: dict[str, Problem] = {}
    for node, model, top_logprobs in models_in_use(plan):
        try:
            check_plan_model(node, model, top_logprobs, plan.fence)
        except Refused as error:
            message = error.message.removeprefix(f"{node.id}: ")
            is_key = _NEEDS_KEY in message
            code = "no-key" if is_key else "model-cannot-answer"
            hint = (
                "a run needs it" if is_key else error.hint or "a run is refused until this is fixed"
            )
            problems.setdefault(message, Problem(code, message, hint))
        for doubt in doubts(model, top_logprobs):
            problems.setdefault(
                doubt,
                Problem(
                    "model-capability",
                    doubt,
                    "see the provider's documentation, or choose another model",
                ),
            )
    for hooks in hook_classes().values():
        for problem in hooks().model_problems(plan):
            problems.setdefault(problem.message, problem)
    return list(problems.values())


def context_warnings(plan: Plan, longest: Mapping[UnitModel, int]) -> list[Problem]:
    """A warning for each unit with a prompt that its model's context window cannot hold. ``longest`` are the tokens of
    each unit's longest prompt."""
    models: dict[UnitModel, Model] = {
        (node.id, model.name): model for node, model, _ in models_in_use(plan)
    }
    problems = []
    for key, tokens in longest.items():
        model = models.get(key)
        window = None if model is None else context_window(model)
        if window is not None and tokens > window:
            message = f"{key[0]}: a prompt has about {tokens:,} tokens, but model {key[1]} reads {window:,} at most"
            problems.append(
                Problem("context-too-long", message, "shorten it, or choose another model")
            )
    return problems


def sampled_dry_run(plan: Plan, dataset: Dataset, facts: DatasetFacts, seed: int = 0) -> DryRun:
    """The prompts of at most 200 random rows, with tokens counted by script."""
    from verdict_cli.run.estimate import DryRun

    rows = facts.drawn or islice(stream_rows(dataset, facts.selection), SAMPLE)
    return DryRun(plan, seed, real=False).add(rows)
