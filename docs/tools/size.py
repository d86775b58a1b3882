"""Print what the package is made of: syntax nodes, nodes a line, the longest functions, keys, commands and doors."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "verdict_cli"
_LONGEST = 10


def nodes_of(tree: ast.AST) -> int:
    """The syntax nodes of a tree."""
    return sum(1 for _ in ast.walk(tree))


def main() -> None:
    nodes = lines = doors = 0
    functions: list[tuple[int, str]] = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        nodes += nodes_of(tree)
        lines += text.count("\n")
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append((nodes_of(node), f"{name}:{node.name}"))
        doors += len(re.findall(r"= Registry\(|: Registry\[.*\] = ", text))
    from verdict_cli.cli.app import COMMANDS
    from verdict_cli.language.json_schema import pipeline_schema

    commands = len(list(COMMANDS.names()))
    keys = len({key for part in _objects(pipeline_schema()) for key in part.get("properties", {})})
    output = [f"{nodes:,} syntax nodes, {lines:,} lines, {nodes / lines:.2f} nodes a line"]
    output.append(f"{keys} keys of the language, {commands} commands, {doors} doors")
    output.append("longest functions, in nodes:")
    for size, place in sorted(functions, reverse=True)[:_LONGEST]:
        output.append(f"  {size:6,} {place}")
    sys.stdout.write("\n".join(output) + "\n")


def _objects(part: object) -> list[dict[str, dict[str, object]]]:
    """Every mapping in a JSON Schema."""
    if isinstance(part, dict):
        return [part, *(inner for value in part.values() for inner in _objects(value))]
    if isinstance(part, list):
        return [inner for value in part for inner in _objects(value)]
    return []


if __name__ == "__main__":
    main()
