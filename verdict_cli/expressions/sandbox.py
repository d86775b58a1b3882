"""The Jinja2 environment in which expressions and `jinja` prompts run.

Sandboxed and strict: undefined names fail, nothing can be changed, no attribute of a Python object is reached
except the methods of strings, lists and mappings that do not write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from verdict_cli.expressions import statistics

LARGEST = 1_000_000
"""The longest text or list that `*` may build, and the largest exponent's digits that `**` may give."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Keys of a mapping come before its methods: `source.items` is the column `items`."""

    intercepted_binops = frozenset({"*", "**"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The mapping's key, else the permitted method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods of strings, lists and mappings only, and what a `for` knows of its turn."""
        known = isinstance(obj, LoopContext) or (
            isinstance(obj, str | list | tuple | Mapping) and callable(value)
        )
        return known and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`*` and `**`, refused where the result would fill the memory."""
        if operator == "**":
            if abs(right) > 1000 or (abs(left) > 1 and abs(right) * len(str(left)) > 4000):
                raise SecurityError(f"{left!r:.40} ** {right!r:.40} is too large")
        else:
            for text, times in ((left, right), (right, left)):
                if (
                    isinstance(text, str | list | tuple)
                    and isinstance(times, int)
                    and len(text) * times > LARGEST
                ):
                    raise SecurityError(f"a result of more than {LARGEST} items")
        return super().call_binop(context, operator, left, right)


def environment() -> Sandbox:
    """A fresh environment with the language's own filters and no globals."""
    sandbox = Sandbox(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    sandbox.globals.clear()
    sandbox.filters.update(
        {name: getattr(statistics, name) for name in ("mean", "median", "mode", "variance", "stdev")}
    )
    return sandbox
