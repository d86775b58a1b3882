"""The Jinja2 environment in which expressions and `jinja` prompts run.

Sandboxed and strict: undefined names fail, nothing can be changed, no attribute of a Python object is reached
except the methods of strings, lists and mappings that do not write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from verdict_cli.expressions import statistics

LARGEST = 1_000_000
"""The longest text or list that `*` may build."""

LARGEST_BITS = 14_000
"""The most bits of a whole number: Python writes no more than 4,300 digits."""


class Absent(StrictUndefined):
    """A value that is not there; using it says which fields there are instead."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        owner = self._undefined_obj
        if self._undefined_hint is None and owner is None:
            return f"there is no {self._undefined_name!r}: what it is asked of has no value"
        if self._undefined_hint is None and isinstance(owner, Mapping):
            return f"there is no {self._undefined_name!r} among the fields: {', '.join(map(str, owner)) or 'none'}"
        return str(super()._undefined_message)

    def __repr__(self) -> str:
        return f"nothing ({self._undefined_message})"


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
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > LARGEST_BITS:
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


def environment(finalize: Callable[[Any], str] | None = None) -> Sandbox:
    """A fresh environment with the language's own filters and no globals. `finalize` writes a value into a text.

    Constants are not computed beforehand: Jinja2 cannot write all of them, such as NaN, into its code.
    """
    sandbox = Sandbox(
        undefined=Absent,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        optimized=False,
    )
    sandbox.globals.clear()
    sandbox.filters.update(
        {name: getattr(statistics, name) for name in ("mean", "median", "mode", "variance", "stdev")}
    )
    return sandbox
