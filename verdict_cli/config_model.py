"""The class that everything written in a pipeline file derives from.

Its fields are the YAML keys. It is strict (no silent conversion), frozen, and refuses unknown keys, so that
the JSON Schema made from it and the program itself say the same about every file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, Strict
from pydantic_core import CoreSchema, PydanticKnownError, core_schema


class ConfigModel(BaseModel):
    """A mapping of the pipeline language: strict, frozen, no unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Stands as `met` in the fields of other classes, so that only the classes that a file uses are built."""
        return handler(source) if handler.field_name is None else lazy_schema(lambda: cls)


def lazy_schema(kind: Callable[[], type[ConfigModel]]) -> CoreSchema:
    """The schema of a class that is looked up, and built, when a value for it is met."""
    return core_schema.no_info_plain_validator_function(
        lambda value: kind().model_validate(value), metadata={"kind": kind}
    )


@cache
def described(kind: type[ConfigModel]) -> dict[str, str]:
    """What each key of a class is for: the text below its field. Read from the source when it is asked for, because
    reading it for every class would take longer than all else that `verdict validate` does.
    """
    import ast
    import inspect
    import itertools
    import textwrap

    texts: dict[str, str] = {}
    for owner in reversed([each for each in kind.__mro__ if issubclass(each, ConfigModel) and each is not ConfigModel]):
        try:
            source = inspect.getsource(owner)
        except OSError:  # an installed package without sources, or the class that gives one its `type`
            continue
        (tree,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    texts[name] = inspect.cleandoc(said)
    return {field.alias or name: texts[name] for name, field in kind.model_fields.items() if name in texts}


def _whole(value: Any) -> Any:
    """An integral float as an int: JSON Schema counts 3.0 as an integer, and so do we."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
"""Stands last in ``Annotated[int, …, Whole]``, behind the constraints."""


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return value


One = Annotated[Literal[1], BeforeValidator(_number)]
"""The number 1, which `true` equals but is not."""

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Strict(False)]
"""A YAML list, kept as a tuple."""
