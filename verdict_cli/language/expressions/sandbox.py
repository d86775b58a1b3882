"""The Jinja2 environment in which expressions and `jinja` prompts run, and the limits of what they may take.

Sandboxed and strict: undefined names fail, nothing can be changed, no attribute of a Python object is reached
except the methods of strings, lists and mappings that do not write.

The limits are of the text that an expression or a template builds, and of its processor time. Everything whose result is
larger than its input is charged before it runs; loops and calls check the clock. The account is per thread, which is enough
because rendering never awaits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any

from jinja2 import Environment, StrictUndefined, Undefined, nodes, pass_environment
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import do_format, make_attrgetter, sync_do_sum
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from verdict_cli.language.conversation import ConversationError, filter_messages
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.expressions.value_text import formattable, insert
from verdict_cli.regex import regex

LARGEST_TEXT = 32_000_000
"""The most characters that one rendering may build, including intermediate ones."""

LONGEST_RENDER_S = 3.0
"""The most processor time, in seconds, that one rendering may take."""

_WIDTH = regex(r"\d{5}")
_NESTED = regex(r"\{[^{}]*:[^{}]*\{")
_NOT_OFFERED = ("forceescape", "pprint", "urlencode", "urlize", "xmlattr")
"""Filters for web pages, and the one that writes a value as Python does."""
_SLOW = frozenset(
    ["striptags", "wordwrap", "title", "wordcount", "tojson", "escape", "e", "sort", "unique", "dictsort", "groupby"]
)  # fmt: skip
"""Filters that take a while for each character, or copy the whole value."""
_TEXT = frozenset(
    [
        "string", "upper", "lower", "capitalize", "title", "trim", "center", "wordwrap", "truncate",
        "striptags", "escape", "e", "safe", "wordcount", "indent",
    ]
)  # fmt: skip
"""Filters that work on the text of their value."""
_PYTHON_SPELLING = (
    regex(r"%(?:\([^)]*\))?[-#0 +]*\d*(?:\.\d+)?[ra]"),
    regex(r"\{[^{}]*![ra]"),
)


class _Account(threading.local):
    characters = 0
    deadline = 0.0


_account = _Account()


def begin_rendering() -> None:
    """Start the account of a new rendering."""
    _account.characters = 0
    _account.deadline = 0.0


def charge(characters: int) -> None:
    """Charge the rendering for characters. SecurityError beyond the limit."""
    _account.characters += characters
    if _account.characters > LARGEST_TEXT:
        raise SecurityError(f"it would build more than {LARGEST_TEXT:,} characters")
    tick()


def tick() -> None:
    """Check the clock. SecurityError beyond the limit."""
    # Processor time of this thread: other rows that render meanwhile, or a busy machine, must not end a rendering.
    now = time.thread_time()
    if not _account.deadline:
        _account.deadline = now + LONGEST_RENDER_S
    elif now > _account.deadline:
        raise SecurityError(f"it takes more than {LONGEST_RENDER_S:g} s")


def weight(value: Any) -> int:
    """About how many characters the value's text has; counting stops above LARGEST_TEXT."""
    if isinstance(value, str):
        return len(value)
    characters, todo = 0, [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, Mapping):
            todo += item.keys()
            todo += item.values()
        elif isinstance(item, list | tuple):
            todo += item
        characters += 20  # about what a number or a pair of brackets takes
        if characters > LARGEST_TEXT:
            break
    return characters


def concat(parts: Iterable[str]) -> str:
    """The parts as one text: the output of a template, a macro or a block."""
    charged = []
    for part in parts:
        charge(len(part))
        charged.append(part)
    return "".join(charged)


def join_texts(parts: tuple[Any, ...]) -> str:
    """`a ~ b`, each part as a prompt writes it."""
    charge(sum(map(weight, parts)))
    return "".join(map(value_text, parts))


def value_text(value: Any) -> str:
    """The value's text as a prompt writes it; a missing value raises its own error."""
    return str(value) if isinstance(value, Undefined) else insert(value)


def format_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a format string, each to be written as a prompt writes it."""
    return tuple(value if isinstance(value, Undefined) else formattable(value) for value in values)


def charge_literal(value: Any) -> Any:
    """A list or mapping literal of a template, charged for its content."""
    charge(weight(value))
    return value


def charge_format(template: str, values: Iterable[Any], mark: str) -> None:
    """Charge for a format string whose fields, each with a ``mark``, are replaced by the values."""
    if _WIDTH.search(template) or (mark == "%" and "*" in template) or _NESTED.search(template):
        raise SecurityError("a width in a format has at most four digits")
    if _PYTHON_SPELLING["%{".index(mark)].search(template.replace(mark * 2, "")):
        raise SecurityError(
            "`r` and `a` in a format write a value as Python does: use `s`, or the filter `tojson`"
        )
    charge(len(template) + template.count(mark) * max(map(weight, values), default=0))


def charge_method(text: str, name: str, args: tuple[Any, ...]) -> None:
    """Charge for a string method before it is called."""
    charge(len(text) + _padding(args))
    if name == "replace" and len(args) > 1:
        charge(text.count(str(args[0])) * weight(args[1]))
    elif name == "join" and args:
        charge(weight(args[0]) + len(text) * _length(args[0]))
    elif name == "expandtabs":
        charge(text.count("\t") * max(8, _padding(args)))
    elif name in ("translate", "maketrans"):
        raise SecurityError(f"`{name}` cannot be called here")


def bound_filter(name: str, jinja_filter: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, charged before it runs for its value and for what its arguments may add to each line, letter or slot,
    and for the text that it returns."""
    first = 1 if hasattr(jinja_filter, "jinja_pass_arg") else 0

    @wraps(jinja_filter)
    def charged(*args: Any, **keys: Any) -> Any:
        before, value, after = args[:first], args[first], args[first + 1 :]
        arguments = (*after, *keys.values())
        if name in _TEXT and not isinstance(value, str):
            value = value_text(value)
        if isinstance(value, str):
            texts = sum(len(argument) for argument in arguments if isinstance(argument, str))
            charge(texts * (len(value) + 1) + _padding(arguments) * (value.count("\n") + 1))
        else:  # each slot of `slice` is a list of its own, and `batch` fills one list
            charge(_padding(arguments) * 40)
        if name in _SLOW:
            charge(weight(value) * 8)
        result = jinja_filter(*before, value, *after, **keys)
        if isinstance(result, str):
            charge(len(result))
        return result

    return charged


def _padding(arguments: Iterable[Any]) -> int:
    return sum(abs(argument) for argument in arguments if isinstance(argument, int))


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    """Jinja2's `replace`, of texts as a prompt writes them."""
    text, old, new = value_text(value), value_text(old), value_text(new)
    charge(len(text) + text.count(old) * len(new))
    return text.replace(old, new, count)


@pass_environment
def _join(
    environment: Environment, value: Any, d: Any = "", attribute: str | int | None = None
) -> str:
    """Jinja2's `join`, of texts as a prompt writes them."""
    items = value
    if attribute is not None:
        items = map(make_attrgetter(environment, attribute), value)
    texts = [value_text(item) for item in items]
    separator = value_text(d)
    charge(weight(texts) + len(separator) * len(texts))
    return separator.join(texts)


def _format(value: Any, *args: Any, **keys: Any) -> str:
    """Jinja2's `format`: `'%s of %s' | format(a, b)`."""
    template = value_text(value)
    charge_format(template, (*args, *keys.values()), "%")
    keyword_values = dict(zip(keys, format_values(keys.values()), strict=True))
    return do_format(template, *format_values(args), **keyword_values)


def _number(name: str, jinja_filter: Callable[..., Any]) -> Callable[..., Any]:
    """Jinja2's own filter. Without a default, null stays null and other text than a number is an error: Jinja2 makes each 0."""

    @wraps(jinja_filter)
    def number(value: Any, default: Any = ..., *rest: Any, **keys: Any) -> Any:
        result = jinja_filter(value, None if default is ... else default, *rest, **keys)
        if result is None and value is not None and default is ...:
            raise SecurityError(
                f"`{name}` reads no number in {value!r:.80}: correct it, or name another value, as in `{name}(none)`"
            )
        return result

    return number


@pass_environment
def _sum(environment: Environment, values: Any, attribute: Any = None, start: Any = 0) -> Any:
    """Jinja2's `sum`, of numbers only: a sum of lists would fill the memory."""
    if not isinstance(start, int | float):
        raise SecurityError("`sum` adds numbers")
    return sync_do_sum(environment, values, attribute, start)


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
        # Jinja2 has no hook for a loop's body; this is the line that its code generator writes first in each.
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
    concat = staticmethod(concat)
    joined = staticmethod(join_texts)
    built = staticmethod(charge_literal)
    tick = staticmethod(tick)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The mapping's key, else an allowed method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods of strings, lists and mappings only, and the `loop` variable of a `for`."""
        is_value = isinstance(obj, LoopContext) or (
            isinstance(obj, str | list | tuple | Mapping) and callable(value)
        )
        return is_value and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`*`, `**`, `+` and `%`, rejected where the result would fill the memory."""
        if isinstance(left, int) and isinstance(right, int):
            bits = (
                left.bit_length() * right
                if operator == "**"
                else left.bit_length() + right.bit_length()
            )
            if operator in ("*", "**") and bits > LARGEST_BITS:
                raise SecurityError(f"a whole number of more than {LARGEST_BITS:,} bits")
        elif operator == "%" and isinstance(left, str):
            values = right if isinstance(right, tuple) else (right,)
            charge_format(left, values, "%")
            right = format_values(values) if isinstance(right, tuple) else format_values(values)[0]
        elif operator == "+" and isinstance(left, str | list | tuple):
            charge(weight(left) + weight(right))
        elif operator == "*":
            for text, times in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(times, int) and times > 0:
                    charge(weight(text) * times)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """The call's result; string methods are charged before they build anything."""
        tick()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str) and __obj.__name__ not in ("format", "format_map"):
            if args and __obj.__name__ == "join":
                args = (list(args[0]), *args[1:])
            charge_method(owner, __obj.__name__, (*args, *kwargs.values()))
        return super().call(__context, __obj, *args, **kwargs)

    def call_test(self, *args: Any, **keys: Any) -> Any:
        """A test of `select` or `reject`, which has many items."""
        tick()
        return super().call_test(*args, **keys)

    def wrap_str_format(self, value: Any) -> Any:
        """`format` and `format_map` of a string, whose widths are limited."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def charged(*args: Any, **kwargs: Any) -> str:
            charge_format(value.__self__, (*args, *kwargs.values()), "{")
            keyword_values = dict(zip(kwargs, format_values(kwargs.values()), strict=True))
            return str(wrapped(*format_values(args), **keyword_values))

        return charged


def sandbox_environment(finalize: Callable[[Any], str] | None = None) -> Sandbox:
    """A fresh environment with the language's own filters and no globals. `finalize` converts a value to text.

    Constants are not folded: Jinja2 cannot write all of them, such as NaN, into its code.
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
    sandbox.filters = {
        name: bound_filter(name, jinja_filter)
        for name, jinja_filter in sandbox.filters.items()
        if name not in _NOT_OFFERED
    }
    sandbox.filters |= {
        name: getattr(summary_statistics, name)
        for name in ("mean", "median", "mode", "variance", "stdev", "log", "exp", "sqrt")
    }
    sandbox.filters |= {
        "replace": _replace,
        "join": _join,
        "format": _format,
        "int": _number("int", sandbox.filters["int"]),
        "float": _number("float", sandbox.filters["float"]),
        "sum": _sum,
        "first": _last_or_filter("first", sandbox.filters["first"]),
        "last": _last_or_filter("last", sandbox.filters["last"]),
        "default": _default,
        "d": _default,
        "only": partial(_conversation_filter, "only"),
        "without": partial(_conversation_filter, "without"),
    }
    return sandbox


def _conversation_filter(name: str, value: Any, argument: int | str) -> Any:
    """Some messages of a conversation; a SecurityError says why the value is not one."""
    try:
        return filter_messages(value, name, argument)
    except (ConversationError, ValueError) as error:
        raise SecurityError(f"`{name}` takes a conversation: {error}") from None


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:
    """Jinja2's filter, for null too: a null column is as blank as one that is absent."""
    if isinstance(value, Undefined) or value is None or (boolean and not value):
        return default
    return value


def _last_or_filter(name: str, jinja_filter: Callable[..., Any]) -> Callable[..., Any]:
    """Jinja2's own filter without an argument; with a number, so many messages of a conversation."""

    @wraps(jinja_filter)
    def chosen(environment: Any, value: Any, count: int | None = None) -> Any:
        return (
            jinja_filter(environment, value)
            if count is None
            else _conversation_filter(name, value, count)
        )

    return chosen
