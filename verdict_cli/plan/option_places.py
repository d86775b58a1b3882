"""Whether a prompt shows an option where its place changes: while the order of the options is drawn, or both orders are asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from verdict_cli.language.expressions.paths import ExpressionPath, format_expression_path, overlap
from verdict_cli.language.prompts.prompt import JinjaPrompt
from verdict_cli.plan.node import CompiledNodes, LLMNode, MapNode, Node, OutputFields
from verdict_cli.plan.place import Place


def check_option_places(node: Node, place: Place, nodes: CompiledNodes) -> None:
    """Report a prompt that shows an option by its own path, or by an earlier unit's copy of it, while its place changes: the text
    would keep its place, and the reply would be read as if it had moved. Report an option that the prompt does not show."""
    work = node.work
    if not isinstance(work, LLMNode) or not work.unit.changes_order():
        return
    message = _kept_place(node, work, nodes) or _hidden_option(work)
    if message is None:
        return
    placeholders = [f"{{input.{letter}}}" for letter in work.letters]
    if isinstance(work.unit.prompt_key, JinjaPrompt):
        placeholders = [f"{{{placeholder}}}" for placeholder in placeholders]
    *head, last = (f"`{placeholder}`" for placeholder in placeholders)
    hint = f"write {', '.join(head)} and {last} where the options are shown"
    place.problem("option-keeps-place", message, hint, "prompt")


def _kept_place(node: Node, work: LLMNode, nodes: CompiledNodes) -> str | None:
    """What is wrong with a prompt that shows an option by a path of its own."""
    option_paths = work.option_paths
    option_paths += [cast.path for cast in node.casts if cast.field in work.letters and cast.path]
    options = set(_origins(option_paths, nodes))
    fields: dict[ExpressionPath, ExpressionPath] = {
        ("input", cast.field): cast.path
        for cast in node.casts
        if cast.path and cast.field not in work.letters
    }
    for path in work.prompt.paths:
        field_path = fields.get(path[:2]) or path
        origins = _origins([field_path], nodes)
        if any(overlap(origin, option) for origin in origins for option in options):
            path_text = format_expression_path(path)
            return f"the prompt shows `{path_text}`, which keeps its place when the order changes"
    return None


def _hidden_option(work: LLMNode) -> str | None:
    """What is wrong with a prompt that does not show each option by its letter."""
    prompt_letters = {
        path[1] if len(path) > 1 else "" for path in work.prompt.paths if path[0] == "input"
    }
    hidden = [letter for letter in work.letters if letter not in prompt_letters]
    if "" in prompt_letters or not hidden:
        return None
    if len(hidden) == len(work.letters):
        return "the prompt shows no option, so every order asks the same"
    return f"the prompt does not show option {hidden[0]}, which may be chosen"


def _origins(paths: Iterable[ExpressionPath], nodes: CompiledNodes) -> Iterator[ExpressionPath]:
    """The paths, and those that expressions of earlier units make the named texts from."""
    for path in paths:
        yield path
        if path[0] != "previous":
            continue
        for node in nodes:
            if node is not None and path[1:2] in ((), (node.id,)):
                yield from _origins(_made_from(node, path[2:3]), nodes[: node.index])


def _made_from(node: Node, field: ExpressionPath) -> Iterator[ExpressionPath]:
    """The paths of the expressions that make the texts of an output; of all of them where no field is named."""
    mapping = node.propagate
    if mapping is None and isinstance(node.work, MapNode):
        mapping = node.work.map
    if not isinstance(mapping, OutputFields):
        return
    for name, expression in mapping.expressions:
        if field in ((), (name,)) and not expression.type.numeric():
            yield from expression.paths
