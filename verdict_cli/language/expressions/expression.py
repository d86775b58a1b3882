"""Expressions: compile, infer the type, and evaluate to plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.environment import Template
from jinja2.parser import Parser

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import NumberedMessages
from verdict_cli.language.expressions import resource_limits
from verdict_cli.language.expressions.ast_check import check_ast, literal_path, rewrite, tested_paths
from verdict_cli.language.expressions.paths import ExpressionError, ExpressionPath, Resolve, unresolved
from verdict_cli.language.expressions.sandbox import LARGEST_BITS, Sandbox, sandbox_environment
from verdict_cli.language.expressions.turns import Turns
from verdict_cli.language.expressions.type_check import check_types, infer_type
from verdict_cli.language.fields.types import FieldType, ItemsType, UnknownType


def to_plain(value: Any) -> Any:
    """The value with mappings as dicts, and with tuples and iterators of filters such as `map` as lists.

    RowError for a missing value, and for one that JSON does not have: a method that was not called, a complex number.
    """
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        raise RowError("the result is too large a whole number")
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Undefined):
        raise RowError(value._undefined_message, kind="missing-value")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, NumberedMessages | Turns):
        return value
    if isinstance(value, list | tuple | Iterator | KeysView | ValuesView | ItemsView):
        return [to_plain(item) for item in value]
    if callable(value):
        raise RowError(f"`{getattr(value, '__name__', value)}` is a method: call it with `()`")
    raise RowError(f"the result is a {type(value).__name__}, which JSON does not have")


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
"""The exceptions that an expression or a template can raise because of a row's values."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression. `paths` are the literal paths in it, as written; `type` is the type of its value.

    `path` is set where the expression is a path and nothing more. It is then followed without the template, which takes
    much longer. `tested` are the written paths of which it tests whether they are defined.
    """

    text: str
    paths: tuple[ExpressionPath, ...]
    type: FieldType
    template: Template
    path: ExpressionPath | None = None
    tested: tuple[ExpressionPath, ...] = ()

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The expression's value. RowError when it cannot be computed from these values."""
        try:
            if self.path is not None:
                here: Any = values
                for part in self.path:
                    if type(here) is not dict or part not in here:
                        break
                    here = here[part]
                else:
                    return to_plain(here)
            resource_limits.begin()
            context = self.template.new_context(dict(values))
            for _ in self.template.root_render_func(context):
                pass
            return to_plain(context.vars["result"])
        except RowError as error:
            raise RowError(f"`{self.text}`: {error.message}", kind=error.failure) from None
        except FAULTS as fault:
            raise RowError(f"`{self.text}`: {fault}") from None


def compile_expression(text: str, roots: Collection[str] | None = None, resolve: Resolve = unresolved) -> Expression:
    """The expression, its paths replaced by what `resolve` returns.

    Raises ExpressionError for bad syntax, a name outside `roots` (None: any), an unknown filter, or a path that
    `resolve` rejects.
    """
    sandbox = _sandbox()
    paths: list[ExpressionPath] = []

    def type_of(path: ExpressionPath) -> FieldType:
        try:
            meant = resolve(path)
        except ExpressionError:
            return UnknownType()
        return meant.type

    try:
        parser = Parser(sandbox, text, state="variable")
        parsed = parser.parse_expression()
        if not parser.stream.eos:
            raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
        check_ast(parsed, sandbox)
        kind = infer_type(parsed, type_of)
        wrong_type = _type_error(parsed, type_of)
        tested = tested_paths(parsed)
        meant = rewrite(parsed, resolve, roots, paths, frozenset())
        if wrong_type is not None:  # later than errors of names, which are more likely its cause
            raise ExpressionError(f"`{text}`: {wrong_type.message}", wrong_type.hint)
        assert isinstance(meant, nodes.Expr)
        body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), meant, lineno=1)]
        template = sandbox.from_string(nodes.Template(body, lineno=1))
    except TemplateSyntaxError as error:
        raise ExpressionError(f"`{text}` is not an expression: {error.message}", _syntax_hint(text)) from None
    except (RecursionError, MemoryError):
        raise ExpressionError("the expression is nested too deeply", "compute it in several fields") from None
    except ExpressionError:
        raise
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(f"`{text:.200}` is not an expression: {error}", _syntax_hint(text)) from None
    kind = UnknownType() if isinstance(kind, ItemsType) else kind
    return Expression(text, tuple(paths), kind, template, literal_path(meant), tested)


def _type_error(node: nodes.Node, type_of: Callable[[ExpressionPath], FieldType]) -> ExpressionError | None:
    try:
        check_types(node, type_of)
    except ExpressionError as error:
        return error
    return None


@cache
def _sandbox() -> Sandbox:
    return sandbox_environment()


def _syntax_hint(text: str) -> str:
    if "{{" in text or text.startswith("{"):
        return "an expression has no braces: `output.score > 3`"
    return "expressions are Jinja2: `output.score / 5`, `'safe' if output.score > 0.5 else 'unsafe'`"
