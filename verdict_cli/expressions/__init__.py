"""Paths, expressions and the sandbox that they run in (language.md, section 2)."""

from verdict_cli.expressions.expression import Expression, compile_expression
from verdict_cli.expressions.paths import ExpressionError, Path, Resolve, Resolved, follow, spell

__all__ = [
    "Expression",
    "ExpressionError",
    "Path",
    "Resolve",
    "Resolved",
    "compile_expression",
    "follow",
    "spell",
]
