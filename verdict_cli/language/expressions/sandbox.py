"""The Jinja2 environment in which expressions and `jinja` prompts run.

Sandboxed and strict: undefined names fail, nothing can be changed, no attribute of a Python object is reached
except the methods of strings, lists and mappings that do not write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from verdict_cli.language.conversation import ConversationError, filtered
from verdict_cli.language.expressions import resource_limits, summary_statistics

LARGEST_BITS = 14_000
"""The most bits of a whole number: Python writes no more than 4,300 digits."""


class Absent(StrictUndefined):
    """A missing value; using it raises an error with the existing fields."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        owner = self._undefined_obj
        if self._undefined_hint is None and owner is None:
            return f"there is no {self._undefined_name!r}: the value before it is missing"
        if self._undefined_hint is None and isinstance(owner, Mapping):
            return f"there is no {self._undefined_name!r} among the fields: {', '.join(map(str, owner)) or 'none'}"
        return str(super()._undefined_message)

    def __repr__(self) -> str:
        return f"nothing ({self._undefined_message})"


class Generator(CodeGenerator):
    """Compiles `~`, lists, mappings and loops so that the resource limits apply to them."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """`a ~ b`."""
        self.write("environment.joined((")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        """`[a, b]`."""
        self._built(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        """`{a: b}`."""
        self._built(super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        """`(a, b)`, which in a loop or `set` may be names to assign to."""
        if node.ctx == "load":
            self._built(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def writeline(self, x: str, node: nodes.Node | None = None, extra: int = 0) -> None:
        """A line of code; the first one of a loop's body checks the clock."""
        super().writeline(x, node, extra)
        if x == "_loop_vars = {}":
            super().writeline("environment.tick()")

    def _built(self, visit: Any, node: nodes.Node, frame: Frame) -> None:
        self.write("environment.built(")
        visit(node, frame)
        self.write(")")


class Sandbox(ImmutableSandboxedEnvironment):
    """Keys of a mapping come before its methods: `source.items` is the column `items`."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    code_generator_class = Generator
    concat = staticmethod(resource_limits.concat)
    joined = staticmethod(resource_limits.limited_join)
    built = staticmethod(resource_limits.built)
    tick = staticmethod(resource_limits.tick)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The mapping's key, else an allowed method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods of strings, lists and mappings only, and the `loop` variable of a `for`."""
        known = isinstance(obj, LoopContext) or (isinstance(obj, str | list | tuple | Mapping) and callable(value))
        return known and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`*`, `**`, `+` and `%`, rejected where the result would fill the memory."""
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if operator in ("*", "**") and bits > LARGEST_BITS:
                raise SecurityError(f"a whole number of more than {LARGEST_BITS:,} bits")
        elif operator == "%" and isinstance(left, str):
            resource_limits.formatted(left, right if isinstance(right, tuple) else (right,), "%")
            printed = resource_limits.printed(right if isinstance(right, tuple) else (right,))
            right = printed if isinstance(right, tuple) else printed[0]
        elif operator == "+" and isinstance(left, str | list | tuple):
            resource_limits.charge(resource_limits.weight(left) + resource_limits.weight(right))
        elif operator == "*":
            for text, times in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(times, int) and times > 0:
                    resource_limits.charge(resource_limits.weight(text) * times)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """The call's result; string methods are charged before they build anything."""
        resource_limits.tick()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str) and __obj.__name__ not in ("format", "format_map"):
            if args and __obj.__name__ == "join":
                args = (list(resource_limits.counted(args[0])), *args[1:])
            resource_limits.limited_method(owner, __obj.__name__, (*args, *kwargs.values()))
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Any:
        """`format` and `format_map` of a string, whose widths are limited."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def charged(*args: Any, **kwargs: Any) -> str:
            resource_limits.formatted(value.__self__, (*args, *kwargs.values()), "{")
            named = dict(zip(kwargs, resource_limits.printed(kwargs.values()), strict=True))
            return str(wrapped(*resource_limits.printed(args), **named))

        return charged


def sandbox_environment(finalize: Callable[[Any], str] | None = None) -> Sandbox:
    """A fresh environment with the language's own filters and no globals. `finalize` converts a value to text.

    Constants are not folded: Jinja2 cannot write all of them, such as NaN, into its code.
    """
    sandbox = Sandbox(
        undefined=Absent, finalize=finalize, trim_blocks=True, lstrip_blocks=True, autoescape=False, optimized=False
    )
    sandbox.globals.clear()
    sandbox.filters = {name: resource_limits.bounded(name, own) for name, own in sandbox.filters.items()}
    sandbox.filters.update(
        {name: getattr(summary_statistics, name) for name in ("mean", "median", "mode", "variance", "stdev")}
    )
    sandbox.filters["last"] = _last_or_filter("last", sandbox.filters["last"])
    sandbox.filters["first"] = _last_or_filter("first", sandbox.filters["first"])
    sandbox.filters["only"] = partial(_conversation_filter, "only")
    sandbox.filters["without"] = partial(_conversation_filter, "without")
    return sandbox


def _conversation_filter(name: str, value: Any, argument: int | str) -> Any:
    """Some messages of a conversation; a SecurityError says why the value is not one."""
    try:
        return filtered(value, name, argument)
    except (ConversationError, ValueError) as error:
        raise SecurityError(f"`{name}` takes a conversation: {error}") from None


def _last_or_filter(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """Jinja2's own filter without an argument; with a number, so many messages of a conversation."""

    @wraps(own)
    def chosen(environment: Any, value: Any, count: int | None = None) -> Any:
        return own(environment, value) if count is None else _conversation_filter(name, value, count)

    return chosen
