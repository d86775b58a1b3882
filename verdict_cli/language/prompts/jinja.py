"""Prompts that Jinja2 renders, for loops and conditions."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from jinja2 import TemplateSyntaxError, Undefined, nodes
from jinja2.environment import Template

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.ast_check import (
    assigned_names,
    check_ast,
    literal_path,
    rewrite,
    tested_paths,
)
from verdict_cli.language.expressions.expression import FAULTS, fault_message
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    ExpressionPaths,
    Resolve,
    Resolved,
    RowValues,
    format_expression_path,
)
from verdict_cli.language.expressions.sandbox import (
    begin_rendering,
    bound_filter,
    charge,
    sandbox_environment,
    weight,
)
from verdict_cli.language.expressions.value_text import insert
from verdict_cli.language.extractors.answer_text import requested_tags
from verdict_cli.language.fields.types import ImageType, without_null
from verdict_cli.language.prompts.placeholders import (
    BraceText,
    brace_error,
    find_brace_texts,
    unescape,
)
from verdict_cli.language.prompts.prompt import CompiledPrompt, Rendered, Tell
from verdict_cli.language.prompts.sections import (
    MARKER,
    ROLES,
    Delimited,
    append_data_notice,
    boundary,
    dedent,
    row_content,
    system_first,
    trim_blank_lines,
    wrap_in_tags,
)
from verdict_cli.messages import Message

_BEGINS, _ENDS = "89"
_DELIMITED = "delimited text"
_NAMED = "named value"
"""Names of filters that no template can use, because of the space."""
_ELSEWHERE = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class JinjaTemplate(CompiledPrompt, frozen=True):
    """A compiled Jinja2 prompt, whose output is text. `sign` and the index of a role replace a section marker, so that a
    marker in the data has no effect; `sign` and _BEGINS or _ENDS are around a delimited text."""

    template: Template
    sign: str
    paths: ExpressionPaths
    tested: ExpressionPaths

    def render(self, values: RowValues) -> Rendered:
        """The messages for these values. A marker in a loop starts a section at each turn."""
        try:
            begin_rendering()
            text = self.template.render(dict(values))
        except RowError as error:
            raise RowError(
                f"the jinja prompt: {error.message}", hint=error.hint, kind=error.failure
            ) from None
        except FAULTS as fault:
            raise RowError(f"the jinja prompt: {fault_message(fault)}") from None
        first, *parts = re.split(f"{self.sign}([0-{len(ROLES) - 1}])", text)
        sections = [("user", trim_blank_lines(first))] if first.strip() or not parts else []
        for role, body in zip(parts[::2], parts[1::2], strict=True):
            sections.append((ROLES[int(role)], trim_blank_lines(body)))
        sections = system_first(sections)
        pieces = [(role, self._pieces(body)) for role, body in sections]
        mark = ""
        if self.delimited:
            content = row_content(values.get("source") or {}, self.columns)
            mark = boundary((text for _, texts in pieces for text in texts), content)
        messages = [
            Message(role, "".join(wrap_in_tags(text, mark) for text in texts))
            for role, texts in pieces
        ]
        return Rendered(append_data_notice(messages, mark), ())

    def _pieces(self, body: str) -> list[str]:
        """The section's texts in order, delimited ones as `Delimited`: of nested ones, the outer one."""
        depth = 0
        first, *parts = re.split(f"{self.sign}([{_BEGINS}{_ENDS}])", body)
        pieces = [first]
        for sign, text in zip(parts[::2], parts[1::2], strict=True):
            before, depth = depth, depth + (1 if sign == _BEGINS else -1)
            if depth < 0:
                break
            if before and depth:
                pieces[-1] = Delimited(pieces[-1] + text)
            else:
                pieces.append(Delimited(text) if depth else text)
        if depth:
            raise RowError(
                "the jinja prompt cuts a delimited text, or starts a section in it; use `delimit: false`"
            )
        return pieces


def _text_only(resolve: Resolve) -> Resolve:
    """``resolve``, which rejects images."""

    def resolved(path: ExpressionPath) -> Resolved:
        target = resolve(path)
        if isinstance(without_null(target.type), ImageType):
            raise ExpressionError(
                f"`{format_expression_path(path)}` is an image",
                "write a prompt with placeholders: `{source.photo}`",
            )
        return target

    return resolved


def compile_jinja(
    text: str, roots: tuple[str, ...], resolve: Resolve, problem: Tell, delimit: bool = False
) -> JinjaTemplate | None:
    """The Jinja2 prompt; None, and `problem` told, when it is not one. With ``delimit``, a boundary around each text
    that is printed and not the author's own."""
    import secrets

    sign = f"{secrets.randbits(128):039d}"
    marked = MARKER.sub(lambda marker: f"{sign}{ROLES.index(marker[1])}", dedent(text))
    sandbox = sandbox_environment(finalize=_written)
    paths: list[ExpressionPath] = []
    try:
        tree = sandbox.parse(marked)
        if next(tree.find_all(_ELSEWHERE), None) is not None:
            hint = "write its text here: there are no other templates"
            raise ExpressionError("the jinja prompt includes another template", hint)
        check_ast(tree, sandbox)
        if delimit:
            sandbox.filters[_DELIMITED] = partial(_signed, sign)
            _delimit(tree)
        sandbox.filters["tojson"] = bound_filter("tojson", _json)
        sandbox.filters[_NAMED] = _not_null
        _name_values(tree)
        braces = _brace_texts(tree, roots, problem)
        tested = tested_paths(tree)
        rewrite(tree, _text_only(resolve), roots, paths, assigned_names(tree))
        template = sandbox.from_string(tree)
    except TemplateSyntaxError as error:
        message = f"line {error.lineno} of the jinja prompt: {error.message}"
        problem(message, "it is a Jinja2 template")
    except ExpressionError as error:
        problem(error.message, error.hint)
    except (RecursionError, MemoryError):
        hint = "compute parts of it in units before this one"
        problem("the jinja prompt is nested too deeply", hint)
    except (SyntaxError, ValueError) as error:
        problem(f"the jinja prompt: {error}", "it is a Jinja2 template")
    else:
        return JinjaTemplate(
            template,
            sign,
            tuple(paths),
            tested,
            delimited=delimit,
            braces=braces,
            tags=requested_tags(text),
        )
    return None


def _brace_texts(
    tree: nodes.Template, roots: tuple[str, ...], problem: Tell
) -> tuple[BraceText, ...]:
    """The braces in the literal text that may name a column; those that name a root are told."""
    braces: list[BraceText] = []
    for literal in tree.find_all(nodes.TemplateData):
        for text in find_brace_texts(literal.data, roots):
            if text.kind == "root":
                problem(*brace_error(text, jinja=True))
            else:
                braces.append(text)
        literal.data = unescape(literal.data, roots)
    return tuple(braces)


def _name_values(tree: nodes.Template) -> None:
    """Has every printed path, also behind filters, checked for null, with its name for the message."""
    for output in tree.find_all(nodes.Output):
        output.nodes = [
            _filtered(node, _NAMED, nodes.Const(format_expression_path(path)))
            if (path := _first_path(node)) is not None
            else node
            for node in output.nodes
        ]


def _first_path(node: nodes.Expr) -> ExpressionPath | None:
    """The path of a value, before any filters."""
    while isinstance(node, nodes.Filter) and node.node is not None:
        node = node.node
    return literal_path(node)


def _not_null(value: Any, name: str) -> Any:
    if value is None:
        hint = f"`{name} | default('none', true)` writes a text in its place"
        raise RowError(f"`{name}` is null; a prompt needs a value", hint=hint, kind="missing-value")
    return value


def _json(value: Any, indent: int | None = None) -> str:
    """JSON as a judge reads it: Jinja2's own filter escapes it for HTML pages and sorts the keys."""
    if isinstance(value, Undefined):
        return str(value)  # raises what is missing
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=dict)
    except (TypeError, ValueError, RecursionError) as fault:
        raise RowError(f"`tojson`: {fault}") from None


def _delimit(tree: nodes.Template) -> None:
    """Has every expression that is printed signed, but for those that can only print the author's own words."""
    for output in tree.find_all(nodes.Output):
        output.nodes = [
            part if _own(part) else _filtered(part, _DELIMITED) for part in output.nodes
        ]


def _filtered(node: nodes.Expr, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [*arguments], [], None, None, lineno=node.lineno)


def _own(node: nodes.Expr | None) -> bool:
    """Whether it prints only what the template and the unit say. What a macro or `loop` prints is signed in there."""
    if isinstance(node, nodes.CondExpr):
        return _own(node.expr1) and _own(node.expr2)
    if isinstance(node, nodes.Call):
        return isinstance(node.node, nodes.Name)
    path = None if node is None else literal_path(node)
    return (
        node is None
        or isinstance(node, nodes.TemplateData | nodes.Const)
        or (path or ("",))[0] == "unit"
    )


def _signed(sign: str, value: Any) -> Any:
    """The value's text between signs; a number, and what is not there, as it is."""
    if isinstance(value, int | float | Undefined):
        return value
    return f"{sign}{_BEGINS}{_written(value)}{sign}{_ENDS}"


def _written(value: Any) -> str:
    """The value's text, as a placeholder would insert it; one that is not there says so."""
    if isinstance(value, Undefined):
        return str(value)
    if not isinstance(value, str):
        charge(weight(value))
    return insert(value)
