"""Which hosts the models of a plan are called at."""

from __future__ import annotations

import os

from verdict_cli.llm.model_families import host_called, is_local
from verdict_cli.plan.node import LLMNode, Plan


def hosts_called(plan: Plan) -> list[str]:
    """Every host that a run calls, in the order of the letters; none for built-in models and recordings."""
    models = {
        (model.name, model.api_base): model
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for model in (*(one for stage in node.stages for one in stage), *node.work.follow_up)
        if not is_local(model.name)
    }
    return sorted({host for model in models.values() if (host := host_called(model, os.environ))})
