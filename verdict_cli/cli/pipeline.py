"""Reading a pipeline file for a command: loaded, overridden, planned, its warnings printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verdict_cli.cli.streams import complain
from verdict_cli.errors import Refused
from verdict_cli.plan import Asked, Built, Plan, build
from verdict_cli.spec import load


def planned(config: Path, settings: Sequence[str], model: str | None, *, warn: bool = True) -> Built:
    """The plan of the file with `--set` and `--model` applied. SpecError when it cannot be run."""
    chosen = [*settings, *([f"model={_quoted(model)}"] if model is not None else [])]
    built = build(load(config, chosen))
    for warning in built.warnings if warn else ():
        complain(f"warning: {warning}")
    return built


def check_models(plan: Plan) -> None:
    """Refused when something known beforehand keeps a model of the plan from answering."""
    from verdict_cli.providers import check

    for node in plan.nodes:
        if isinstance(node.work, Asked):
            for model in (*node.work.models, *node.work.follow_up):
                trouble = check(model)
                if trouble:
                    raise Refused(f"{node.id}: {trouble}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
