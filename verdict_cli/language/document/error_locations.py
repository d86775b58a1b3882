"""Locate a validation error: its path in the data, and the class whose keys are known there."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag
from typing_extensions import TypeAliasType

from verdict_cli.language.registry import LazyUnion

ErrorPath = tuple[str | int, ...]


def locate_error(root: type[BaseModel], loc: ErrorPath) -> tuple[ErrorPath, type[BaseModel] | None]:
    """The path in the data of a pydantic location (which also names union members), and the innermost class
    that the path enters."""
    here: Any = root
    path: list[str | int] = []
    owner: type[BaseModel] | None = root
    for part in loc:
        member = _member(here, part)
        if member is not None:
            here = member
        else:
            path.append(part)
            here = _inside(here, part)
        bare = _bare(here)
        if isinstance(bare, type) and issubclass(bare, BaseModel):
            owner = bare
    return tuple(path), owner


def known_keys(kind: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a class, as in a file."""
    return tuple(field.alias or name for name, field in kind.model_fields.items())


def _bare(annotation: Any) -> Any:
    while True:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        else:
            return annotation


def _members(annotation: Any) -> tuple[Any, ...]:
    bare = _bare(annotation)
    return get_args(bare) if get_origin(bare) in (Union, UnionType) else ()


def _look_up(annotation: Any, tag: str | int) -> Any:
    """What a `LazyUnion` in the annotation's marks looks up for the tag."""
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    members = (mark.member(tag) for mark in marks if isinstance(mark, LazyUnion))
    return next((member for member in members if member is not None), None)


def _member(annotation: Any, tag: str | int) -> Any:
    """The union member that the tag names, in an optional union also."""
    if (member := _look_up(annotation, tag)) is not None:
        return member
    for member in _members(annotation):
        if get_origin(member) is Annotated and any(
            isinstance(mark, Tag) and mark.tag == tag for mark in get_args(member)[1:]
        ):
            return member
        if get_origin(member) is Annotated and (inner := _member(member, tag)) is not None:
            return inner
    return None


def _inside(annotation: Any, part: str | int) -> Any:
    """The annotation of a key or an item."""
    bare = _bare(annotation)
    options = [option for option in _members(bare) if option is not NoneType] or [bare]
    for option in options:
        kind = _bare(option)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind.model_rebuild()
            for name, field in kind.model_fields.items():
                if part in (field.alias, name):
                    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        arguments = get_args(kind)
        if get_origin(kind) is dict:
            return arguments[1]
        if get_origin(kind) in (tuple, list) and isinstance(part, int):
            return arguments[0]
    return None
