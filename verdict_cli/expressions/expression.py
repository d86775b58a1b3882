"""Expressions: `output.score / 5`, `outputs | map(attribute='score') | max` (language.md, section 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.environment import Template
from jinja2.parser import Parser

from verdict_cli.errors import RowError
from verdict_cli.expressions import bounds
from verdict_cli.expressions.infer import infer
from verdict_cli.expressions.paths import ExpressionError, Path, Resolve, unresolved
from verdict_cli.expressions.plain import plain
from verdict_cli.expressions.sandbox import Sandbox, environment
from verdict_cli.expressions.tree import check, literal_path, rewrite
from verdict_cli.fields import FieldType, Unknown

FAULTS = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a row's values can make an expression or a template raise."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression. `paths` are the literal paths that it names, as written; `type` what it gives.

    `way` is the path that it is, where it is nothing more: followed without the template, which takes much longer.
    """

    text: str
    paths: tuple[Path, ...]
    type: FieldType
    template: Template
    way: Path | None = None

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The expression's value. RowError when it cannot be computed from these values."""
        try:
            if self.way is not None:
                here: Any = values
                for part in self.way:
                    if type(here) is not dict or part not in here:
                        break
                    here = here[part]
                else:
                    return plain(here)
            bounds.begin()
            context = self.template.new_context(dict(values))
            for _ in self.template.root_render_func(context):
                pass
            return plain(context.vars["result"])
        except RowError as error:
            raise RowError(f"`{self.text}`: {error.message}", kind=error.failure) from None
        except FAULTS as fault:
            raise RowError(f"`{self.text}`: {fault}") from None


def compile_expression(
    text: str, roots: Collection[str] | None = None, resolve: Resolve = unresolved
) -> Expression:
    """The expression, its paths replaced by what `resolve` says that they mean.

    Raises ExpressionError for bad syntax, a name outside `roots` (None: any), an unknown filter, or a path that
    `resolve` refuses.
    """
    sandbox = _sandbox()
    found: list[Path] = []

    def type_of(path: Path) -> FieldType:
        try:
            meant = resolve(path)
        except ExpressionError:
            return Unknown()
        return Unknown() if meant.many else meant.type

    try:
        parser = Parser(sandbox, text, state="variable")
        parsed = parser.parse_expression()
        if not parser.stream.eos:
            raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
        check(parsed, sandbox)
        kind = infer(parsed, type_of)
        meant = rewrite(parsed, resolve, roots, found, frozenset())
        assert isinstance(meant, nodes.Expr)
        body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), meant, lineno=1)]
        template = sandbox.from_string(nodes.Template(body, lineno=1))
    except TemplateSyntaxError as error:
        raise ExpressionError(f"`{text}` is no expression: {error.message}", _cure(text)) from None
    except (RecursionError, MemoryError):
        raise ExpressionError("the expression is nested too deeply", "compute it in several fields") from None
    except ExpressionError:
        raise
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(f"`{text:.200}` is no expression: {error}", _cure(text)) from None
    return Expression(text, tuple(found), kind, template, literal_path(meant))


@cache
def _sandbox() -> Sandbox:
    return environment()


def _cure(text: str) -> str:
    if "{{" in text or text.startswith("{"):
        return "an expression stands without braces: `output.score > 3`"
    return "expressions are Jinja2: `output.score / 5`, `'safe' if output.score > 0.5 else 'unsafe'`"
