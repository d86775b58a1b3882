"""Samples of the LM Evaluation Harness (`lm_eval --log_samples`, `samples_TASK_TIME.jsonl`): one row a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.features.imports.tool_logs import (
    LogRow,
    conversation_or_text,
    known_shape,
    log_row,
    not_in_format,
    required,
)
from verdict_cli.features.imports.tool_logs.json_stream import log_objects

_KNOWN = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
}
_TASK = re.compile(r"samples_(.+?)_\d{4}-\d{2}-\d{2}T")


def lm_eval_samples(path: Path) -> Iterator[LogRow]:
    """The documents. `output` is the filtered response; of a multiple-choice task, the index of the likeliest choice.
    Raises DataError for a line without a document or responses."""
    task = _TASK.match(path.name)
    for place, sample in log_objects(path, "samples"):
        with known_shape(path, place):
            identity = required(path, place, sample, "doc_id", int)
            responses = (
                required(path, place, sample, "filtered_resps", list)
                if "filtered_resps" in sample
                else sample.get("resps")
            )
            if not isinstance(responses, list):
                raise not_in_format(path, f"{place}: it has no responses", "run lm_eval with --log_samples")
            asked, text = conversation_or_text(_parsed(_first_argument(sample.get("arguments"))))
            output = _output(responses)
            flt = sample.get("filter")
            names = sample.get("metrics") or sample.keys() - _KNOWN
            yield log_row(
                path,
                place,
                identity=identity if flt in (None, "none") else f"{identity}/{flt}",
                input=text,
                output=output,
                messages=[*asked, {"role": "assistant", "content": str(output)}] if asked else None,
                target=sample.get("target"),
                scores={name: sample[name] for name in sorted(names) if name in sample},
                metadata={"doc": sample.get("doc"), **({"task": task[1]} if task else {})},
            )


def _first_argument(arguments: Any) -> Any:
    """The prompt: `arguments` is a list of lists in old versions, a mapping `gen_args_0: {arg_0: …}` in newer ones."""
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else arguments[0] if arguments else None
    if isinstance(first, dict):
        return first.get("arg_0")
    return first[0] if isinstance(first, list) and first else first


def _output(responses: list[Any]) -> Any:
    first = responses[0] if responses else None
    if isinstance(first, str) or first is None:
        return first
    likelihoods = [each[0] if isinstance(each, list) and each else each for each in responses]
    try:
        numbers = [float(each) for each in likelihoods]
    except (TypeError, ValueError):
        return first[0] if isinstance(first, list) and len(first) == 1 else first
    return max(range(len(numbers)), key=numbers.__getitem__) if len(numbers) > 1 else first


def _parsed(prompt: Any) -> Any:
    """With `--apply_chat_template` to an API model, the prompt is a list of messages as JSON."""
    text = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str) else prompt
    if isinstance(text, str) and text.lstrip().startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text
