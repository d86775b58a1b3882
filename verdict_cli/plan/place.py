"""A place in a pipeline file, to which problems and warnings are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from verdict_cli.config_model import Issue
from verdict_cli.errors import Problem
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, Resolve
from verdict_cli.language.namespace import Namespace
from verdict_cli.model import Models

InstancePath = tuple[str | int, ...]


class Place(Struct, frozen=True):
    """A part of a file: the names that it sees, and its path."""

    names: Namespace
    path: InstancePath = ()

    def below(self, *keys: str | int) -> Place:
        """The place of a part of this one."""
        return Place(self.names, (*self.path, *keys))

    def located(self, code: str, message: str, hint: str, *keys: str | int) -> Problem:
        """A problem at a key, which nobody is told of."""
        return self.names.spec.document.problem(code, message, hint, (*self.path, *keys))

    def problem(
        self, code: str, message: str, hint: str, *keys: str | int, key: bool = False
    ) -> None:
        """Report a problem at a key, or at the name of the key."""
        self.names.problem(code, message, hint, (*self.path, *keys), key=key)

    def issue(self, code: str, issue: Issue, *keys: str | int) -> None:
        """Report what makes no sense in the part at a key."""
        self.problem(code, issue.message, issue.hint, *keys, *issue.path)

    def warn(self, message: str, hint: str, *keys: str | int, code: str = "suspicious") -> None:
        """Warn the author of what is at a key."""
        self.names.warn(self.located(code, message, hint, *keys))

    def policy(self, key: Any, *keys: str | int) -> Models | None:
        """The models of a key, in the order in which they are tried; None, and reported, for a bad one."""
        return self.names.policy(key, (*self.path, *keys))

    def expression(
        self, text: str, roots: Sequence[str], resolve: Resolve, *keys: str | int
    ) -> Expression | None:
        """The compiled expression at a key; None, and reported, when it can never be evaluated."""
        try:
            return compile_expression(text, roots, resolve)
        except ExpressionError as error:
            self.problem("bad-expression", error.message, error.hint, *keys)
            return None


UseColumn = Callable[[str, Place], None]
"""Notes a column that something names."""
