"""Reading a pipeline file for a command: loaded, overridden, planned, its warnings printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verdict_cli.cli.streams import complain
from verdict_cli.errors import Refused, UsageError
from verdict_cli.plan import Asked, Built, Plan, build
from verdict_cli.spec.code import Codes
from verdict_cli.spec.document import read_document
from verdict_cli.spec.load import validated
from verdict_cli.spec.override import overridden
from verdict_cli.units import TYPES


def planned(
    config: Path,
    settings: Sequence[str],
    model: str | None,
    *,
    allow_code: Sequence[Path] = (),
    warn: bool = True,
) -> Built:
    """The plan of the file with `--set` and `--model` applied. SpecError when it cannot be run.

    Python is imported only from the files of `allow_code` and, for unit types that nobody else knows, from packages.
    """
    chosen = [*settings, *([f"model={_quoted(model)}"] if model is not None else [])]
    document = overridden(read_document(config), chosen)
    code: Codes = {}
    if allow_code or not _types(document.data) <= TYPES.keys():
        from verdict_cli.api.foreign import expanded, foreign_types

        document, code = expanded(document, foreign_types(allow_code))
    built = build(validated(document, config.parent, code))
    for warning in built.warnings if warn else ():
        complain(f"warning: {warning}")
    return built


def check_models(plan: Plan, *, priced: bool = False) -> None:
    """Refused when something known beforehand keeps a model of the plan from answering.

    `priced`: a model without a price is a UsageError, because no budget can be kept with it.
    """
    from verdict_cli.providers import check, is_local, sees_images
    from verdict_cli.providers.prices import cost_usd
    from verdict_cli.values import Usage

    for node in plan.nodes:
        if isinstance(node.work, Asked):
            for model in (*node.work.models, *node.work.follow_up):
                trouble = check(
                    model, top_logprobs=node.work.reading.top_logprobs if model in node.work.models else 0
                )
                if trouble:
                    raise Refused(f"{node.id}: {trouble}")
                if node.work.prompt.shows_images and sees_images(model) is False:
                    raise Refused(
                        f"{node.id}: the prompt shows an image, but model {model.name} reads text only",
                        hint="choose a model that takes images",
                    )
                if priced and not is_local(model.name) and cost_usd(model, Usage()) is None:
                    raise UsageError(
                        f"{node.id}: the price of model {model.name} is not known, so no budget can be kept",
                        hint="give it `cost: {input_per_million: …, output_per_million: …}`, or leave --budget out",
                    )


def _types(data: Any) -> set[str]:
    """Every text that stands as a `unit` anywhere in a document."""
    if isinstance(data, list):
        return {name for item in data for name in _types(item)}
    if not isinstance(data, dict):
        return set()
    own = {data["unit"]} if isinstance(data.get("unit"), str) else set()
    return own | {name for value in data.values() for name in _types(value)}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
