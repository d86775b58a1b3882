"""`Step`: the base of units, layers and blocks. Python code constructs them and links them with `>>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from verdict_cli.config_model import ConfigModel, Uncounted, Whole, checked_arguments
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from pydantic import ConfigDict
    from pydantic.fields import FieldInfo

    from verdict_cli.language.authoring.arguments import ModelLike
    from verdict_cli.language.authoring.functions import Function
    from verdict_cli.language.steps import Block

    class _Model:
        """`ConfigModel` as type checkers see it here. For a pydantic model they make up a constructor of each subclass
        from its fields, keyword-only, in place of the `__init__` that is written below."""

        model_config: ClassVar[ConfigDict]
        model_fields: ClassVar[dict[str, FieldInfo]]
        model_fields_set: set[str]

        @classmethod
        def model_construct(cls, **values: Any) -> Any: ...
        @classmethod
        def model_validate(cls: type[S], obj: Any) -> S: ...
        def model_copy(self: S, *, update: Mapping[str, Any] | None = None) -> S: ...
        def model_dump(self, **options: Any) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[Any, Any]) -> None: ...
else:
    _Model = ConfigModel

S = TypeVar("S", bound="Any")
StepType = TypeVar("StepType", bound="Step")

StepPath = tuple[str | int, ...]
FunctionsByPath = dict[StepPath, "Function"]
"""Python functions by the path at which a pipeline file would have expressions."""


ENTRY = "item"
"""The name of an entry of `each` by default."""
MOST_ENTRIES = 100
"""The most entries of a list by default."""


_AROUND = Uncounted("the compiled `each` and `when` around a unit count")


class RowKeys(_Model):
    """The keys by which a step follows the row: it runs for every entry of a list, or only where a condition holds."""

    each: Annotated[Annotated[str, Field(min_length=1)] | None, _AROUND] = None
    """An expression that gives a list of the row, such as `source.claims`: the step runs once for every entry."""
    entry_name: Annotated[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None, _AROUND] = Field(
        default=None, alias="as"
    )
    """The entry's name in prompts and expressions, `item` by default."""
    most: Annotated[Annotated[int, Field(ge=1, le=1_000_000), Whole] | None, _AROUND] = Field(default=None, alias="max")
    """The most entries of the list, 100 by default; a longer list fails the row before its first call there."""
    per_call: Annotated[Annotated[int, Field(ge=2, le=1000), Whole] | None, _AROUND] = None
    """How many entries one call judges: fewer calls, but less accurate than a call for each entry."""
    condition: Annotated[Annotated[str, Field(min_length=1)] | None, _AROUND] = Field(default=None, alias="when")
    """An expression: where it is false for the row (or the entry), the step is skipped."""


class Step(RowKeys):
    """An entry of a pipeline. `a >> b` runs b after a; every method returns a changed copy."""

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        if "__init__" in cls.__dict__:
            setattr(cls, "__init__", checked_arguments(cls.__dict__["__init__"]))  # noqa: B010 - mypy refuses the attribute

    def __init__(self, **keys: Any) -> None:
        """Raises UsageError for an unknown key. Values are validated with the whole pipeline, which reports every
        problem at once and where it is."""
        from verdict_cli.language.authoring.arguments import check_known

        kind = type(self)
        fields = [field.alias or name for name, field in kind.model_fields.items() if name != "unit"]
        check_known(kind.__name__, keys, fields)
        state = kind.model_construct(**{key: value for key, value in keys.items() if value is not None}).__getstate__()
        # A subclass may have set attributes of its own before it calls this.
        self.__setstate__({**state, "__dict__": {**state["__dict__"], **self.__dict__}})

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        # Without this pydantic would read files through `__init__`, which does not validate.
        cls.__pydantic_custom_init__ = False  # type: ignore[attr-defined]

    @classmethod
    def language_class(cls) -> type[Step]:
        """The class of the language that this class is or that it subclasses."""
        return next(kind for kind in cls.__mro__ if kind.__module__.startswith("verdict_cli."))

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        """The step as a pipeline file has it at `path`. Python functions are added to `functions`."""
        from verdict_cli.language.authoring.schema import unwrap_views

        values = {
            field.alias or name: getattr(self, name)
            for name, field in self.language_class().model_fields.items()
            if name in self.model_fields_set
        }
        return {key: unwrap_views(value) for key, value in values.items() if value is not None}

    def when(self: StepType, condition: str) -> StepType:
        """Run the step only for rows, or entries, for which the expression is true; it is skipped for all others."""
        if not isinstance(condition, str):
            raise UsageError(
                f"{type(self).__name__}.when takes an expression, not {condition!r:.80}",
                hint="such as `.when('previous.triage.score > 3')`",
            )
        return self._with(condition=condition)

    def __rshift__(self, other: Step) -> Block:
        from verdict_cli.language.steps import Block, chained_steps

        return Block([*chained_steps(self), *chained_steps(check_step(other, "`>>` links"))])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).model_fields or hasattr(type(self), name):
            raise UsageError(
                f"{name!r} of a {type(self).__name__} cannot be set: steps are immutable",
                hint="every method returns a new value: `unit = unit.named('judge')`",
            )
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return repr(self)

    def _with(self: StepType, **values: Any) -> StepType:
        """A copy with these values, by field name."""
        return self.model_copy(update=values)

    def _via(self: StepType, model: ModelLike, keys: Mapping[str, Any]) -> StepType:
        from verdict_cli.language.authoring.arguments import model_key

        return self._with(model=model_key(f"{type(self).__name__}.via", model, keys))


def check_step(value: Any, what: str) -> Step:
    """The value, when it is a step. UsageError begins with `what`."""
    if isinstance(value, type) and issubclass(value, Step):
        raise UsageError(f"{what} units, not their class", hint=f"write `{value.__name__}()`")
    if not isinstance(value, Step):
        raise UsageError(f"{what} units, layers and blocks, not {value!r:.80}")
    return value


def check_steps(values: Any, what: str) -> tuple[Step, ...]:
    """One step or several as a tuple. UsageError begins with `what`."""
    items = [values] if isinstance(values, Step) or not isinstance(values, Sequence) else list(values)
    if not items:
        raise UsageError(f"{what} at least one unit, layer or block")
    return tuple(check_step(value, what) for value in items)


def step_documents(steps: Sequence[Step], path: StepPath, functions: FunctionsByPath) -> list[dict[str, Any]]:
    """The steps as a pipeline file has them below `path`."""
    return [step.to_document((*path, index), functions) for index, step in enumerate(steps)]
