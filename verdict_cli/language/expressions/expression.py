"""Expressions: compile, infer the type, check it, and evaluate to plain JSON values.

An operation that some values of its types allow is legal: an index, a division, a nullable number. Only what fails for every
value is an error before there is a value, so that it is found before a call is paid for.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from functools import cache, cached_property
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.environment import Template
from jinja2.parser import Parser
from msgspec import Struct

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import NumberedMessages
from verdict_cli.language.expressions.ast_check import (
    check_ast,
    literal_path,
    rewrite,
    tested_paths,
)
from verdict_cli.language.expressions.entry_lists import ENTRY_LIST_TYPES, Turns
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    ExpressionPaths,
    Resolve,
    RowValues,
    format_expression_path,
    unresolved,
)
from verdict_cli.language.expressions.sandbox import (
    LARGEST_BITS,
    begin_rendering,
    sandbox_environment,
)
from verdict_cli.language.fields.field_keys import plain_type
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    DistributionType,
    Fields,
    FieldType,
    ItemsType,
    ListType,
    OptionalType,
    PlainType,
    RecordType,
    TextListType,
    TranscriptType,
    UnknownType,
    without_null,
)
from verdict_cli.regex import regex

TypeOf = Callable[[ExpressionPath], FieldType]
"""Returns the type of a path."""

Types = tuple[FieldType, ...]
"""The types that a value may have."""

_UNKNOWN = UnknownType()
_FILTERS: Fields = {
    **dict.fromkeys(("mean", "median", "variance", "stdev", "float", "log", "exp", "sqrt"), NUMBER),
    **dict.fromkeys(("length", "count", "int", "wordcount"), INTEGER),
    **dict.fromkeys(
        ("upper", "lower", "trim", "join", "string", "title", "capitalize", "replace", "truncate"),
        TEXT,
    ),
}


def infer_type(node: nodes.Node, type_of: TypeOf) -> FieldType:
    """The type of an expression, `Unknown` where it depends on the values."""
    path = literal_path(node)
    if path is not None:
        return type_of(path)
    kind: FieldType = _UNKNOWN
    match node:
        case nodes.Const():
            kind = _CONSTANTS.get(type(node.value), _UNKNOWN)
        case nodes.Compare() | nodes.Not() | nodes.Test():
            kind = TRUTH
        case nodes.Concat():
            kind = TEXT
        case nodes.Call(node=nodes.Name(name=name)):
            kind = ENTRY_LIST_TYPES.get(name, _UNKNOWN)
        case nodes.Filter():
            kind = _FILTERS.get(node.name, _UNKNOWN)
        case nodes.CondExpr(expr2=nodes.Expr() as other):
            kind = _either(infer_type(node.expr1, type_of), infer_type(other, type_of))
        case nodes.Neg() | nodes.Pos():
            kind = _arithmetic([infer_type(node.node, type_of)], always_float=False)
        case nodes.BinExpr() if not isinstance(node, nodes.And | nodes.Or):
            kind = _binary(node, type_of)
    return kind


_CONSTANTS: dict[type, FieldType] = {bool: TRUTH, int: INTEGER, float: NUMBER, str: TEXT}


def _binary(node: nodes.BinExpr, type_of: TypeOf) -> FieldType:
    sides = [infer_type(node.left, type_of), infer_type(node.right, type_of)]
    if isinstance(node, nodes.Pow) and NUMBER not in map(plain_type, sides):
        return _UNKNOWN
    return _arithmetic(sides, always_float=isinstance(node, nodes.Div))


def _arithmetic(sides: Sequence[FieldType], *, always_float: bool) -> FieldType:
    kinds = [plain_type(side) for side in sides]
    if not all(isinstance(kind, PlainType) and kind.numeric() for kind in kinds):
        return _UNKNOWN
    return NUMBER if always_float or NUMBER in kinds else INTEGER


def _either(first: FieldType, second: FieldType) -> FieldType:
    if first == second:
        return first
    numbers = (INTEGER, NUMBER)
    return NUMBER if first in numbers and second in numbers else _UNKNOWN


_OPERATORS: dict[type[nodes.Node], str] = {
    nodes.Add: "+",
    nodes.Sub: "-",
    nodes.Mul: "*",
    nodes.Div: "/",
    nodes.FloorDiv: "//",
    nodes.Mod: "%",
    nodes.Pow: "**",
}
_NUMBERS = {("number", "number")}
_TIMES = {("number", "text"), ("text", "number"), ("number", "list"), ("list", "number")}
_SAME = {*_NUMBERS, ("text", "text"), ("list", "list")}
_ALLOWED = {
    "+": _SAME,
    "*": _NUMBERS | _TIMES,
    "%": _NUMBERS | {("text", other) for other in ("number", "text", "list", "mapping")},
    **dict.fromkeys(("-", "/", "//", "**"), _NUMBERS),
    **dict.fromkeys(("lt", "lteq", "gt", "gteq"), _SAME),
    **dict.fromkeys(
        ("in", "notin"),
        {
            (left, right)
            for left in ("number", "text", "list", "mapping")
            for right in ("list", "mapping")
        }
        | {("text", "text")},
    ),
}
"""The pairs of shapes that an operator takes. `==` and `!=` take all."""
_SIGNS = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
_OF_LISTS = frozenset(
    {
        "map", "select", "reject", "selectattr", "rejectattr", "max", "min", "sum", "list", "join", "first", "last",
        "length", "count", "sort", "unique", "groupby", "batch", "slice", "mean", "median", "mode", "variance", "stdev",
    }
)  # fmt: skip
"""Filters that no number has: they go through the items of a list, a mapping or a text."""
_OF_NUMBERS = frozenset({"mean", "median", "variance", "stdev", "sum"})
"""Filters whose items are numbers."""
_KEEP_ITEMS = frozenset(
    {"select", "reject", "selectattr", "rejectattr", "list", "sort", "unique", "reverse"}
)
_ONE_ITEM = frozenset({"first", "last", "max", "min", "random"})
_CONVERT = "convert a text with `| float` or `| int`, a list of them with `| map('float')`"
_METHODS: dict[str, type] = {"text": str, "list": list, "mapping": dict}


def type_error(node: nodes.Node, type_of: TypeOf) -> ExpressionError | None:
    """The error of an operation that no value of the types in it allows, else None. An expression of constants alone has no
    declared types; it fails where it is evaluated."""
    try:
        if isinstance(node, nodes.Name) or next(node.find_all(nodes.Name), None) is not None:
            _Checker(type_of).types(node)
    except ExpressionError as error:
        return error
    return None


class _Checker(Struct, frozen=True):
    type_of: TypeOf

    def types(self, node: nodes.Node) -> Types:
        """The types that the value of a checked node may have."""
        is_leaf = literal_path(node) is not None or isinstance(node, nodes.Const)
        is_test = isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
        if is_leaf or is_test:
            return (infer_type(node, self.type_of),)
        match node:
            case nodes.CondExpr():
                kinds = self._conditional(node)
            case nodes.And() | nodes.Or():
                kinds = self.types(node.left)
                if not _tests_a_type(node.left):
                    kinds += self.types(node.right)
            case nodes.Filter():
                kinds = self._filtered(node)
            case nodes.Getattr() | nodes.Getitem():
                kinds = self._part(node)
            case nodes.List() | nodes.Tuple():
                items = tuple(kind for item in node.items for kind in self.types(item))
                kinds = (ItemsType(items),)
            case _:
                self._check(node)
                kinds = (infer_type(node, self.type_of),)
        return kinds

    def _check(self, node: nodes.Node) -> None:
        """Check a node whose type its kind alone decides."""
        match node:
            case nodes.BinExpr():
                self._operator(_OPERATORS[type(node)], node.left, node.right)
            case nodes.Compare():
                self._comparison(node)
            case nodes.Neg() | nodes.Pos():
                if _excludes(_shapes(self.types(node.node)), {"number"}):
                    sign = "-" if isinstance(node, nodes.Neg) else "+"
                    raise self._error(sign, "a number", node.node)
            case nodes.Call():
                self._called(node)
            case _:
                for child in node.iter_child_nodes():
                    self.types(child)

    def _conditional(self, node: nodes.CondExpr) -> Types:
        self.types(node.test)
        if _tests_a_type(node.test):
            return (_UNKNOWN,)
        return (
            *self.types(node.expr1),
            *((_UNKNOWN,) if node.expr2 is None else self.types(node.expr2)),
        )

    def _operator(self, sign: str, left: nodes.Expr, right: nodes.Expr) -> None:
        sides = [_shapes(self.types(side)) for side in (left, right)]
        allowed = _ALLOWED[sign]
        for number, side in enumerate((left, right)):
            if _excludes(sides[number], {pair[number] for pair in allowed}):
                raise self._error(_SIGNS.get(sign, sign), _operands(sign), side)
        if None not in sides and not any(
            (first, second) in allowed for first in sides[0] or () for second in sides[1] or ()
        ):
            raise self._error(_SIGNS.get(sign, sign), _operands(sign), left, right)

    def _comparison(self, node: nodes.Compare) -> None:
        left = node.expr
        for operand in node.ops:
            if operand.op in _ALLOWED:
                self._operator(operand.op, left, operand.expr)
            else:
                for side in (left, operand.expr):
                    self.types(side)
            left = operand.expr

    def _filtered(self, node: nodes.Filter) -> Types:
        if node.node is None or node.name in ("default", "d"):
            return (_UNKNOWN,)
        kinds = self.types(node.node)
        for argument in [*node.args, *(pair.value for pair in node.kwargs)]:
            self.types(argument)
        shapes, items = _shapes(kinds), _items(kinds)
        if node.name in _OF_LISTS and _excludes(shapes, {"text", "list", "mapping"}):
            raise self._error(f"| {node.name}", "a list", node.node)
        if node.name in ("abs", "round") and _excludes(shapes, {"number"}):
            raise self._error(f"| {node.name}", "a number", node.node)
        attribute = _attribute(node)
        if attribute is not None:
            items = self._at(items, attribute, f"{node.name}(attribute={attribute!r})")
        if node.name in _OF_NUMBERS and _excludes(_shapes(items), {"number"}):
            word = " or ".join(dict.fromkeys(map(_type_name, items)))
            raise ExpressionError(
                f"`| {node.name}` takes numbers, not items of type {word}", _CONVERT
            )
        if node.name == "map":
            return (ItemsType(items if attribute is not None else (_mapped_type(node),)),)
        if node.name in _KEEP_ITEMS:
            return (ItemsType(_items(kinds)),)
        if node.name in _ONE_ITEM and not node.args:
            return _items(kinds)
        return (infer_type(node, self.type_of),)

    def _at(self, items: Sequence[FieldType], attribute: str, where: str) -> Types:
        """The types of an attribute of the items. ExpressionError where none of them has it."""
        for part in attribute.split("."):
            parts = [_part_of(kind, part) for kind in items]
            if items and all(kind is None for kind in parts):
                fields = dict.fromkeys(
                    name for kind in items if isinstance(kind, RecordType) for name in kind.fields
                )
                hint = f"they have {', '.join(fields)}" if fields else "they have no fields"
                raise ExpressionError(f"`{where}`: no item has a field {part!r}", hint)
            items = [kind for kind in parts if kind is not None]
        return tuple(items)

    def _part(self, node: nodes.Getattr | nodes.Getitem) -> Types:
        kinds = self.types(node.node)
        if isinstance(node, nodes.Getattr):
            return self._at(kinds, node.attr, f".{node.attr}")
        self.types(node.arg)
        if isinstance(node.arg, nodes.Slice):
            return kinds
        name = _constant_text(node.arg)
        if name is not None:
            return self._at(kinds, name, f".{name}")
        return _items(kinds) if _shapes(kinds) == {"list"} else (_UNKNOWN,)

    def _called(self, node: nodes.Call) -> None:
        for child in node.iter_child_nodes(exclude=("node",)):
            self.types(child)
        if not isinstance(node.node, nodes.Getattr):
            return
        kinds = self.types(node.node.node)
        shapes, name = _shapes(kinds), node.node.attr
        if shapes is None or any(_part_of(kind, name) is not None for kind in kinds):
            return
        if not any(hasattr(_METHODS.get(shape), name) for shape in shapes):
            raise ExpressionError(f"{_named(node.node.node, kinds)} has no method `{name}`", "")

    def _error(self, sign: str, operands: str, *sides: nodes.Node) -> ExpressionError:
        operands_text = " and ".join(_named(side, self.types(side)) for side in sides)
        text = any(_shapes(self.types(side)) == {"text"} for side in sides)
        return ExpressionError(
            f"`{sign}` takes {operands}, not {operands_text}", _CONVERT if text else ""
        )


def _operands(sign: str) -> str:
    if sign in ("in", "notin"):
        return "a list, a mapping or a text to look in"
    return "two values of one kind" if _ALLOWED[sign] == _SAME else "numbers"


def _named(node: nodes.Node, kinds: Sequence[FieldType]) -> str:
    path = literal_path(node)
    name = "the value" if path is None else f"`{format_expression_path(path)}`"
    return f"{name} of type {' or '.join(dict.fromkeys(map(_type_name, kinds)))}"


def _type_name(kind: FieldType) -> str:
    if isinstance(kind, ItemsType):
        return f"list[{' or '.join(dict.fromkeys(map(_type_name, kind.items)))}]"
    return kind.type_name()


def _tests_a_type(condition: nodes.Node) -> bool:
    """Whether a condition asks what kind of value there is, so that an operation behind it may never be reached."""
    return (
        isinstance(condition, nodes.Test) or next(condition.find_all(nodes.Test), None) is not None
    )


def _attribute(node: nodes.Filter) -> str | None:
    """The name of the attribute that a filter takes from each item, where it must have one."""
    arguments = [pair.value for pair in node.kwargs if pair.key == "attribute"]
    if node.name in ("selectattr", "rejectattr"):
        arguments = node.args[:1]
        if any("defined" in (_constant_text(argument) or "") for argument in node.args[1:2]):
            return None
    elif node.name == "groupby":
        arguments = arguments or node.args[:1]
    has_default = any(pair.key == "default" for pair in node.kwargs)
    return _constant_text(arguments[0]) if arguments and not has_default else None


def _mapped_type(node: nodes.Filter) -> FieldType:
    """The type of what the filter that `map` names gives."""
    name = _constant_text(node.args[0]) if node.args else None
    return _FILTERS.get(str(name), _UNKNOWN)


def _constant_text(node: nodes.Node) -> str | None:
    """The text that a node is; None for another node."""
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _part_of(kind: FieldType, part: str) -> FieldType | None:
    """The type of a field; None where no value of the type has it."""
    if isinstance(kind, OptionalType):
        return _part_of(kind.item, part)
    if isinstance(kind, RecordType):
        return kind.kind_of(part)
    shapes = _shapes([kind])
    if shapes is None or shapes == {"mapping"} or (shapes == {"list"} and part.isdigit()):
        return _UNKNOWN
    return None


def _items(kinds: Iterable[FieldType]) -> Types:
    """The types of the items of a list; unknown for other values."""
    items: list[FieldType] = []
    for kind in kinds:
        inner = without_null(kind)
        if isinstance(inner, ItemsType):
            items += inner.items
        else:
            items.append(inner.item if isinstance(inner, ListType | TextListType) else _UNKNOWN)
    return tuple(items)


def _shapes(kinds: Iterable[FieldType]) -> set[str] | None:
    """What kinds of JSON value these types have: number, text, list, mapping, null. None where that is not known."""
    shapes: set[str] = set()
    for kind in kinds:
        inner = without_null(kind)
        shape = _shape(plain_type(inner))
        if not shape:
            return None
        shapes |= {shape, "null"} if inner is not kind else {shape}
    return shapes or None


def _shape(kind: FieldType) -> str:
    if isinstance(kind, PlainType):
        return "number" if kind.numeric() else "text"
    if isinstance(kind, ItemsType | ListType | TextListType | TranscriptType):
        return "list"
    return "mapping" if isinstance(kind, RecordType | DistributionType) else ""


def _excludes(shapes: set[str] | None, wanted: set[str]) -> bool:
    """Whether no value has one of these shapes."""
    return shapes is not None and shapes.isdisjoint(wanted)


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

_PYTHON_TYPE = regex(r"""['"]?\b(NoneType|str|int|float|bool|list|dict)\b['"]?( object)?""")
_TYPE_WORDS = {
    "NoneType": "null",
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
    "list": "a list",
    "dict": "a mapping",
}


def fault_message(fault: BaseException) -> str:
    """What went wrong, with the words of pipeline files for Python's types."""
    if not isinstance(fault, TypeError):
        return str(fault)
    return _PYTHON_TYPE.sub(lambda name: _TYPE_WORDS[name[1]], str(fault))


class Expression(Struct, frozen=True, dict=True):
    """A compiled expression. `paths` are the literal paths in it, as written; `type` is the type of its value.

    `path` is set where the expression is a path and nothing more. It is then followed without the template, which takes
    much longer. `tested` are the written paths of which it tests whether they are defined.
    """

    text: str
    paths: ExpressionPaths
    type: FieldType
    tree: nodes.Template
    path: ExpressionPath | None = None
    tested: ExpressionPaths = ()

    @cached_property
    def template(self) -> Template:
        """What computes the value."""
        return _sandbox().from_string(self.tree)

    def __call__(self, values: RowValues) -> Any:
        """The expression's value. RowError when it cannot be computed from these values."""
        try:
            # A path whose parts are not all there goes through the template, which says what is missing and what there is.
            if self.path is not None:
                here: Any = values
                for part in self.path:
                    if type(here) is not dict or part not in here:
                        break
                    here = here[part]
                else:
                    return to_plain(here)
            begin_rendering()
            context = self.template.new_context(dict(values))
            for _ in self.template.root_render_func(context):
                pass
            return to_plain(context.vars["result"])
        except RowError as error:
            raise RowError(f"`{self.text}`: {error.message}", kind=error.failure) from None
        except FAULTS as fault:
            raise RowError(f"`{self.text}`: {fault_message(fault)}") from None


def compile_expression(
    text: str, roots: Collection[str] | None = None, resolve: Resolve = unresolved
) -> Expression:
    """The expression, its paths replaced by what `resolve` returns.

    Raises ExpressionError for bad syntax, a name outside `roots` (None: any), an unknown filter, or a path that
    `resolve` rejects.
    """
    sandbox = _sandbox()
    paths: list[ExpressionPath] = []

    def type_of(path: ExpressionPath) -> FieldType:
        try:
            target = resolve(path)
        except ExpressionError:
            return UnknownType()
        return target.type

    try:
        parser = Parser(sandbox, text, state="variable")
        parsed = parser.parse_expression()
        if not parser.stream.eos:
            raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
        check_ast(parsed, sandbox)
        kind = infer_type(parsed, type_of)
        wrong_type = type_error(parsed, type_of)
        tested = tested_paths(parsed)
        tree = rewrite(parsed, resolve, roots, paths, frozenset())
        if wrong_type is not None:  # later than errors of names, which are more likely its cause
            raise ExpressionError(f"`{text}`: {wrong_type.message}", wrong_type.hint)
        assert isinstance(tree, nodes.Expr)
        kind = UnknownType() if isinstance(kind, ItemsType) else kind
        result = nodes.Assign(nodes.Name("result", "store"), tree, lineno=1)
        template = nodes.Template([result], lineno=1)
        path = literal_path(tree)
        expression = Expression(text, tuple(paths), kind, template, path, tested)
        if path is None:  # a path needs its template only where a row lacks a part of it
            _ = expression.template
    except TemplateSyntaxError as error:
        raise ExpressionError(
            f"`{text}` is not an expression: {error.message}", _syntax_hint(text)
        ) from None
    except (RecursionError, MemoryError):
        raise ExpressionError(
            "the expression is nested too deeply", "compute it in several fields"
        ) from None
    except ExpressionError:
        raise
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(
            f"`{text:.200}` is not an expression: {error}", _syntax_hint(text)
        ) from None
    return expression


_sandbox = cache(sandbox_environment)


def _syntax_hint(text: str) -> str:
    if "{{" in text or text.startswith("{"):
        return "an expression has no braces: `output.score > 3`"
    return (
        "expressions are Jinja2: `output.score / 5`, `'safe' if output.score > 0.5 else 'unsafe'`"
    )
