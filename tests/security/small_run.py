"""A small judged dataset, of which tests damage what a run leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

CONFIG = """\
verdict: 1
name: damage
model: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', explanation: true}
evaluate:
  score: {prediction: output.score, target: source.label, metrics: [mae, spearman]}
"""
RUN = ("run", "p.yaml", "d.jsonl", "--out", "out", "--no-cache", "--quiet")
Command = Callable[..., tuple[int, dict[str, Any]]]


def number_of(request: Any) -> int:
    """Which row of the dataset is asked about."""
    return int(request.row.source["text"].split()[1])


def reply_to(request: Any) -> str:
    """What the model answers."""
    number = number_of(request)
    return json.dumps({"explanation": f"because of {number}", "score": 1 + number * 7 % 5})


def measured_by(call: Command) -> Command:
    """The command, which gives what its JSON document measures alone."""

    def measured(*words: str) -> tuple[int, dict[str, Any]]:
        code, document = call(*words)
        return code, {name: document[name] for name in ("evaluations", "gates") if name in document}

    return measured
