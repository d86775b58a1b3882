"""Walk and rewrite Jinja2 syntax trees: find the paths in them and replace each by what it resolves to."""

from __future__ import annotations

import math
from collections.abc import Collection

from jinja2 import Environment, nodes

from verdict_cli.config_model import did_you_mean
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    ExpressionPaths,
    Resolve,
    format_expression_path,
)


def literal_path(node: nodes.Node) -> ExpressionPath | None:
    """The path that a chain of literal keys such as `a.b['c'][0]` means, None for any other node."""
    parts: list[str | int] = []
    while True:
        if isinstance(node, nodes.Name):
            return (node.name, *reversed(parts))
        if isinstance(node, nodes.Getattr):
            parts.append(node.attr)
        elif isinstance(node, nodes.Getitem) and (key := _literal(node.arg)) is not None:
            parts.append(key)
        else:
            return None
        node = node.node


def _literal(node: nodes.Node) -> str | int | None:
    if (
        isinstance(node, nodes.Neg)
        and isinstance(node.node, nodes.Const)
        and isinstance(node.node.value, int)
    ):
        return -node.node.value
    if (
        isinstance(node, nodes.Const)
        and isinstance(node.value, str | int)
        and not isinstance(node.value, bool)
    ):
        return node.value
    return None


def _meant_name(path: ExpressionPath, roots: Collection[str]) -> str:
    """What to write for a path whose first name is unknown."""
    names = sorted(roots)
    hint = f"the names are {', '.join(names)}"
    first, *tail = path
    if "source" in roots and not tail:
        hint = f"a column of the data is `source.{first}`; {hint}"
    if "nodes" in roots and tail:
        unit = tail if first in ("previous", "unit") else path
        hint = f"the output of a unit is `{format_expression_path(('nodes', *unit))}`; {hint}"
    return did_you_mean(str(first), names, hint, alike=0.8)


def rewrite(
    node: nodes.Node,
    resolve: Resolve,
    roots: Collection[str] | None,
    paths: list[ExpressionPath],
    local: frozenset[str],
) -> nodes.Node:
    """The node with every path replaced by what `resolve` returns; written paths are appended to `paths`.

    Raises ExpressionError for a name that is neither a root nor set in the template itself.
    """
    path = literal_path(node)
    if (
        isinstance(node, nodes.Test)
        and (tested := _field_of_unit(node, resolve, local)) is not None
    ):
        paths.append(literal_path(node.node) or ())
        return tested
    if path is not None and str(path[0]) not in local:
        if roots is not None and path[0] not in roots:
            raise ExpressionError(f"unknown name `{path[0]}`", _meant_name(path, roots))
        paths.append(path)
        resolved = resolve(path)
        if not resolved.many and resolved.paths == (path,):
            return node
        items = [_access(target) for target in resolved.paths]
        return nodes.List(items, lineno=1) if resolved.many else items[0]
    if (
        isinstance(node, nodes.Call)
        and isinstance(node.node, nodes.Getattr)
        and literal_path(node.node)
    ):
        node.node.node = _expr(rewrite(node.node.node, resolve, roots, paths, local))
        for child in list(node.iter_child_nodes(exclude=("node",))):
            _replace(node, child, rewrite(child, resolve, roots, paths, local))
        return node
    for child in list(node.iter_child_nodes()):
        new = rewrite(child, resolve, roots, paths, local)
        if new is not child:
            _replace(node, child, new)
    return node


def _field_of_unit(node: nodes.Test, resolve: Resolve, local: frozenset[str]) -> nodes.Expr | None:
    """The test whether a field of an earlier unit is defined, which asks first whether the unit is: it may be skipped."""
    path = literal_path(node.node)
    if (
        path is None
        or path[0] != "previous"
        or "previous" in local
        or node.name not in ("defined", "undefined")
    ):
        return None
    (target, *more_paths) = resolve(path).paths
    if more_paths or len(target) < 3:
        return None
    steps = [
        nodes.Test(_access(target[:end]), "defined", [], [], None, None, lineno=1)
        for end in range(2, len(target) + 1)
    ]
    both: nodes.Expr = steps[0]
    for step in steps[1:]:
        both = nodes.And(both, step, lineno=1)
    return both if node.name == "defined" else nodes.Not(both, lineno=1)


def tested_paths(tree: nodes.Node) -> ExpressionPaths:
    """The paths of which the tree tests whether they are defined, or for which it has a default."""
    tested = []
    for node in (tree, *tree.find_all((nodes.Test, nodes.Filter))):
        if isinstance(node, nodes.Test | nodes.Filter) and node.name in (
            "defined",
            "undefined",
            "default",
            "d",
        ):
            tested.append(literal_path(node.node) if node.node is not None else None)
    return tuple(path for path in tested if path is not None)


def check_ast(tree: nodes.Node, sandbox: Environment) -> None:
    """Raise ExpressionError for an unknown filter or test, and for a number too large for a float."""
    for node in (tree, *tree.find_all((nodes.Filter, nodes.Test, nodes.Const))):
        if isinstance(node, nodes.Filter):
            _known(node.name, "filter", sandbox.filters)
        elif isinstance(node, nodes.Test):
            _known(node.name, "test", sandbox.tests)
        elif (
            isinstance(node, nodes.Const)
            and isinstance(node.value, float)
            and not math.isfinite(node.value)
        ):
            raise ExpressionError("a number in it is too large", "numbers end at 1.8e308")


def _known(name: str, kind: str, names: Collection[str]) -> None:
    if name not in names:
        hint = f"there are Jinja2's own {kind}s, and the filters mean, median, mode, variance, stdev, log, exp, sqrt"
        raise ExpressionError(f"there is no {kind} `{name}`", did_you_mean(name, names, hint))


def assigned_names(template: nodes.Template) -> frozenset[str]:
    """The names that a template sets itself: loop variables, `set`, macro arguments."""
    return frozenset(
        str(name.name) for name in template.find_all(nodes.Name) if name.ctx in ("store", "param")
    ) | frozenset(
        {"loop", "caller", "varargs", "kwargs"}
        | {str(macro.name) for macro in template.find_all(nodes.Macro)}
    )


def _access(path: ExpressionPath) -> nodes.Expr:
    node: nodes.Expr = nodes.Name(str(path[0]), "load", lineno=1)
    for part in path[1:]:
        node = nodes.Getitem(node, nodes.Const(part, lineno=1), "load", lineno=1)
    return node


def _expr(node: nodes.Node) -> nodes.Expr:
    assert isinstance(node, nodes.Expr)
    return node


def _replace(parent: nodes.Node, old: nodes.Node, new: nodes.Node) -> None:
    for name, value in parent.iter_fields():
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if item is old else item for item in value])
