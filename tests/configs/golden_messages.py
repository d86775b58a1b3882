"""The exact messages that every shipped pipeline sends for one row.

`python tests/configs/golden_messages.py` writes them to `tests/configs/messages`. Read a changed file before it is committed: no
sentence may be false, direct the judge to a label, or contradict the schema or the pattern by which the reply is read.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.language.load import load
from verdict_cli.llm.providers.baseline import lexical_reply
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_pinned, run_row

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = Path(__file__).parent / "messages"
RECIPES = ROOT / "docs" / "recipes.md"
_DATA = re.compile(r"^# Data: (datasets/\w+\.jsonl)", re.MULTILINE)
_BLOCK = re.compile(
    r"^## (.+?)\n(?:(?!^## ).*\n)*?```yaml.*\n((?:(?!```).*\n)*?pipeline:(?:(?!```).*\n)*)```",
    re.MULTILINE,
)


def texts() -> Iterator[tuple[str, str | Path]]:
    """(name, file or text) of every shipped pipeline that calls a model."""
    for path in sorted((ROOT / "configs").glob("**/*.yaml")):
        if path.parent.name not in ("published", "studies"):
            yield path.relative_to(ROOT / "configs").with_suffix("").as_posix(), path
    for title, block in _BLOCK.findall(RECIPES.read_text(encoding="utf-8")):
        yield f"recipes/{title.lower().replace(' ', '_')}", block


def messages(source: str | Path) -> str:
    """The requests of one row, in the order of the graph; equal ones once, with the units that send them."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    plan = build_plan(load(source if isinstance(source, Path) else _file(text))).plan
    requests: list[Request] = []

    async def ask(request: Request) -> Reply:
        requests.append(request)
        (node,) = (node for node in plan.nodes if node.id == request.node)
        is_text = isinstance(node.work, LLMNode) and node.work.unit.extract_key == "raw"
        return Reply(f"[the reply of {request.node}]") if is_text else lexical_reply(request)

    async def run() -> None:
        context = Context(ask)
        context.pinned, _ = await run_pinned(plan, context)
        await run_row(plan, Row(0, _identity(row, plan), row, "golden"), context)

    row = _row(plan, text)
    asyncio.run(run())
    order = {node.id: node.index for node in plan.nodes}
    requests.sort(key=lambda request: (order[request.node], request.call, request.attempt))
    sent: dict[str, list[str]] = {}
    for request in requests:
        if not request.attempt:
            sent.setdefault(_body(request, plan), []).append(f"{request.node} call {request.call}" if request.call else request.node)  # fmt: skip
    return "\n".join(f"######## {', '.join(units)}\n{body}" for body, units in sent.items())


def _file(text: str) -> Path:
    """A recipe as a file, with the keys that the page leaves out."""
    path = Path(tempfile.mkdtemp()) / "recipe.yaml"
    missing = {"verdict": "1", "name": "recipe", "model": "gpt-4o-mini"}
    head = "".join(
        f"{key}: {value}\n"
        for key, value in missing.items()
        if not re.search(f"^{key}:", text, re.MULTILINE)
    )
    path.write_text(head + text, encoding="utf-8")
    return path


def _row(plan: Plan, text: str) -> dict[str, Any]:
    """The first row of the file's sample, else a row that names its columns."""
    reference = _DATA.search(text)
    if reference is not None:
        with (ROOT / reference[1]).open(encoding="utf-8") as file:
            row: dict[str, Any] = json.loads(file.readline())
            return row
    return {column.column: f"[the column {column.column}]" for column in plan.columns}


def _identity(row: dict[str, Any], plan: Plan) -> str:
    return str(row.get((plan.resolved.get("dataset") or {}).get("id") or "id", 0))


def _body(request: Request, plan: Plan) -> str:
    """A request as text: the model and its settings, how the reply is read, and the messages."""
    (node,) = (node for node in plan.nodes if node.id == request.node)
    assert isinstance(node.work, LLMNode)
    reading = node.work.reading
    settings = json.dumps(request.model.sampling(), sort_keys=True)
    lines = [f"model: {request.model.name} {settings}"]
    if request.json_schema is not None:
        lines.append(f"reply: JSON {json.dumps(request.json_schema, ensure_ascii=False)}")
    elif reading.top_logprobs:
        lines.append(f"reply: one of the tokens {', '.join(reading.support)}")
    else:
        lines.append(
            f"reply: text, read by {json.dumps(node.work.unit.model_dump(by_alias=True, mode='json')['extract'])}"
        )
    return "\n".join([*lines, *map(_written, request.messages)]) + "\n"


def _written(message: Message) -> str:
    return f"-------- {message.role}\n{message.content}"


def main() -> None:
    """Write every file, and delete those of pipelines that are gone."""
    paths = set()
    for name, source in texts():
        text = messages(source)
        if text:
            path = MESSAGES / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.add(path)
    for path in set(MESSAGES.glob("**/*.txt")) - paths:
        path.unlink()


if __name__ == "__main__":
    main()
