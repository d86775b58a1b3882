"""What the names of one pipeline file mean: scales, models, unit types, blocks, prompt files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from verdict_cli.errors import Problem, SpecError
from verdict_cli.models import Model
from verdict_cli.scales import NAMED, Scale
from verdict_cli.spec.load import Spec, load
from verdict_cli.spec.problems import explain, nearest
from verdict_cli.spec.steps import CustomStep
from verdict_cli.templates import JinjaPrompt, PromptFile
from verdict_cli.units import TYPES, Common

Path_ = tuple[str | int, ...]
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class UnknownNameError(ValueError):
    """A name that nothing in the file bears."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass
class Namespace:
    """The names of one file; `tell` collects what is wrong with them."""

    spec: Spec
    tell: Callable[[Problem], None]
    files: dict[Path, Namespace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remembers itself among the files that `use: FILE#name` may reach."""
        self.files.setdefault(self.spec.folder / Path(self.spec.document.file).name, self)

    def problem(self, code: str, message: str, hint: str, path: Path_, *, key: bool = False) -> None:
        """Tells of a problem at a path of this file."""
        self.tell(self.spec.problem(code, message, hint, path, key=key))

    def check(self) -> None:
        """Checks what is declared by name, whether it is used or not."""
        for name, scale in self.spec.file.scales.items():
            if name in NAMED:
                self.problem(
                    "name-used-twice",
                    f"the scale {name!r} is built in",
                    "choose another name",
                    ("scales", name),
                    key=True,
                )
            self.check_scale(scale, ("scales", name))
        for name, custom in self.spec.file.units.items():
            path: Path_ = ("units", name)
            if name in TYPES:
                self.problem(
                    "name-used-twice",
                    f"the unit type {name!r} is built in",
                    "choose another name",
                    path,
                    key=True,
                )
            elif custom.base not in TYPES and custom.base not in self.spec.file.units:
                self.problem(
                    "unknown-unit",
                    f"unknown unit type {custom.base!r}",
                    nearest(custom.base, self.unit_types()),
                    (*path, "base"),
                )
        for name, key in self.spec.file.models.items():
            self.policy(key, ("models", name))

    def check_scale(self, scale: Scale, path: Path_) -> None:
        """Tells when a scale makes no sense."""
        trouble = scale.problem()
        if trouble:
            key, message, hint = trouble
            self.problem("bad-scale", message, hint, (*path, key) if key else path)

    def scale_named(self, name: str) -> Scale:
        """The scale of that name. UnknownNameError when there is none."""
        scale = self.spec.file.scales.get(name) or NAMED.get(name)
        if scale is None:
            known = [*NAMED, *self.spec.file.scales]
            raise UnknownNameError(f"unknown scale {name!r}", nearest(name, known))
        return scale

    def unit_types(self) -> list[str]:
        """Every unit type that a step of this file can name."""
        return [*TYPES, *self.spec.file.units]

    def policy(self, key: Any, path: Path_, seen: tuple[str, ...] = ()) -> tuple[Model, ...]:
        """The models that a spelling means, in the order in which they are tried."""
        if isinstance(key, list | tuple):
            return tuple(
                model for place, one in enumerate(key) for model in self.policy(one, (*path, place), seen)
            )
        if isinstance(key, str) and key in self.spec.file.models:
            if key in seen:
                self.problem(
                    "model-cycle", f"the model {key!r} names itself", "name a model of a provider", path
                )
                return ()
            return self.policy(self.spec.file.models[key], ("models", key), (*seen, key))
        model = Model(name=key) if isinstance(key, str) else key
        if model.api_base is None:
            return (model,)
        return (model.model_copy(update={"api_base": self._expanded(model.api_base, (*path, "api_base"))}),)

    def _expanded(self, text: str, path: Path_) -> str:
        def value(match: re.Match[str]) -> str:
            found = os.environ.get(match[1])
            if found is None:
                self.problem(
                    "unset-variable",
                    f"the environment variable {match[1]!r} is not set",
                    f"export {match[1]}=…, or write the value",
                    path,
                )
                return ""
            return found

        return _VARIABLE.sub(value, text)

    def unit(self, step: Common | CustomStep, path: Path_) -> Common | None:
        """The unit of a step; a custom type's keys merged with the step's. None, and told, when there is none."""
        if isinstance(step, Common):
            return step
        merged: dict[str, Any] = {}
        name, seen = step.unit, []
        given = dict(step.model_extra or {})
        while name not in TYPES:
            custom = self.spec.file.units.get(name)
            if custom is None or name in seen:
                where = (*path, "unit") if not seen else ("units", seen[-1], "base")
                message = (
                    f"unknown unit type {name!r}"
                    if custom is None
                    else f"the unit type {name!r} builds on itself"
                )
                self.problem("unknown-unit", message, nearest(name, self.unit_types()), where)
                return None
            merged = {**(custom.model_extra or {}), **merged}
            seen.append(name)
            name = custom.base
        kind = TYPES[name]
        try:
            return kind.model_validate(
                {"name": None, **merged, **given, "unit": name} | self._default_name(step.unit, merged, given)
            )
        except ValidationError as error:
            for problem in explain(error, kind, self.spec.document, path):
                self.tell(problem)
            return None

    def _default_name(self, type_name: str, merged: dict[str, Any], given: dict[str, Any]) -> dict[str, str]:
        from verdict_cli.units import snake

        return {} if "name" in merged or "name" in given else {"name": snake(type_name)}

    def prompt_text(self, key: str | PromptFile | JinjaPrompt, path: Path_) -> tuple[str, bool] | None:
        """(text, whether it is Jinja2) of a prompt; None, and told, when its file cannot be read."""
        if isinstance(key, str):
            return key, False
        if isinstance(key, JinjaPrompt):
            return key.jinja, True
        try:
            return (self.spec.folder / key.file).read_text(encoding="utf-8-sig"), False
        except UnicodeDecodeError:
            self.problem(
                "bad-encoding",
                f"the prompt file {key.file!r} is not UTF-8",
                "save it as UTF-8",
                (*path, "file"),
            )
        except OSError as fault:
            self.problem(
                "file-not-found",
                f"the prompt file {key.file!r} cannot be read: {fault.strerror}",
                "the path is relative to the pipeline file",
                (*path, "file"),
            )
        return None

    def block(self, name: str, path: Path_) -> tuple[Namespace, tuple[Any, ...], Path_] | None:
        """The namespace, steps and path of a named block of this file or of `FILE#name`."""
        file, mark, block = name.rpartition("#")
        if not mark:
            return self._own_block(name, self, path)
        target = self.spec.folder / file
        known = self.files.get(target)
        if known is None:
            try:
                spec = load(target)
            except SpecError as error:
                self.problem("bad-file", f"{file!r} cannot be used", "its own problems follow", path)
                for problem in error.problems:
                    self.tell(problem)
                return None
            known = Namespace(spec, self.tell, self.files)
            known.check()
        return known._own_block(block, self, path)

    def _own_block(
        self, name: str, user: Namespace, path: Path_
    ) -> tuple[Namespace, tuple[Any, ...], Path_] | None:
        steps = self.spec.file.blocks.get(name)
        if steps is None:
            hint = nearest(name, self.spec.file.blocks) or "declare it under `blocks:`"
            user.problem("unknown-block", f"unknown block {name!r}", hint, path)
            return None
        return self, steps, ("blocks", name)
