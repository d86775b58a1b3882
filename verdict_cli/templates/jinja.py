"""Prompts that Jinja2 renders, for loops and conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateSyntaxError, Undefined, nodes
from jinja2.environment import Template

from verdict_cli.errors import RowError
from verdict_cli.expressions import ExpressionError, Path, Resolve, Resolved, bounds, spell
from verdict_cli.expressions.expression import FAULTS
from verdict_cli.expressions.sandbox import environment
from verdict_cli.expressions.tree import assigned_names, check, rewrite
from verdict_cli.fields import Image
from verdict_cli.templates.insert import insert
from verdict_cli.templates.prompt import Rendered, Tell
from verdict_cli.templates.sections import MARKER, ROLES, dedented, trimmed

_ELSEWHERE = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


@dataclass(frozen=True)
class JinjaTemplate:
    """A compiled Jinja2 prompt. `boundary` and a role's place stand for a marker, so that none in the data counts."""

    template: Template
    boundary: str
    paths: tuple[Path, ...]

    @property
    def shows_images(self) -> bool:
        """False: what a Jinja2 template prints is text."""
        return False

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The messages for these values. A marker in a loop starts a section at each turn."""
        from verdict_cli.values import Message  # here, because no message is made before a run

        try:
            bounds.begin()
            text = self.template.render(dict(values))
        except RowError as error:
            raise RowError(f"the jinja prompt: {error.message}", kind=error.failure) from None
        except FAULTS as fault:
            raise RowError(f"the jinja prompt: {fault}") from None
        first, *others = re.split(f"{self.boundary}([0-{len(ROLES) - 1}])", text)
        messages = [Message("user", trimmed(first))] if first.strip() or not others else []
        for role, body in zip(others[::2], others[1::2], strict=True):
            messages.append(Message(ROLES[int(role)], trimmed(body)))
        return Rendered(tuple(messages), ())


def _text_only(resolve: Resolve) -> Resolve:
    """``resolve``, which refuses pictures."""

    def resolved(path: Path) -> Resolved:
        meant = resolve(path)
        if isinstance(meant.type, Image):
            raise ExpressionError(
                f"`{spell(path)}` is an image", "write a prompt with placeholders: `{source.photo}`"
            )
        return meant

    return resolved


def compile_jinja(text: str, roots: tuple[str, ...], resolve: Resolve, problem: Tell) -> JinjaTemplate | None:
    """The Jinja2 prompt; None, and `problem` told, when it is not one."""
    import secrets

    boundary = f"{secrets.randbits(128):039d}"
    marked = MARKER.sub(lambda marker: f"{boundary}{ROLES.index(marker[1])}", dedented(text))
    sandbox = environment(finalize=_written)
    found: list[Path] = []
    try:
        tree = sandbox.parse(marked)
        if next(tree.find_all(_ELSEWHERE), None) is not None:
            problem(
                "the jinja prompt takes in another template", "write its text here: there is only this one"
            )
            return None
        check(tree, sandbox)
        rewrite(tree, _text_only(resolve), roots, found, assigned_names(tree))
        template = sandbox.from_string(tree)
    except TemplateSyntaxError as error:
        problem(f"line {error.lineno} of the jinja prompt: {error.message}", "it is a Jinja2 template")
        return None
    except ExpressionError as error:
        problem(error.message, error.hint)
        return None
    except (RecursionError, MemoryError):
        problem("the jinja prompt is nested too deeply", "compute parts of it in units before this one")
        return None
    except (SyntaxError, ValueError) as error:
        problem(f"the jinja prompt: {error}", "it is a Jinja2 template")
        return None
    return JinjaTemplate(template, boundary, tuple(found))


def _written(value: Any) -> str:
    """The value's text, as a placeholder would insert it; one that is not there says so."""
    if isinstance(value, Undefined):
        return str(value)
    if not isinstance(value, str):
        bounds.charge(bounds.weight(value))
    return insert(value)
