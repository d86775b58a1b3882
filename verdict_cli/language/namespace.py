"""Resolve the names in one pipeline file: scales, models, unit types, blocks, prompt files, and the models that `models` declares."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from verdict_cli.config_model import ConfigModel, HintedError, known_keys
from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import MAX_BYTES, read_document
from verdict_cli.language.document.error_messages import explain_error, nearest_spelling
from verdict_cli.language.document.source_positions import Document, KeyPath, format_path
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.fields.field_keys import PLAIN, map_parts
from verdict_cli.language.fields.types import FieldType, ScaleType, UnknownType
from verdict_cli.language.load import Spec, load
from verdict_cli.language.model_address import (
    ALLOWED,
    FORM,
    AddressError,
    is_user_host,
    parse_address,
)
from verdict_cli.language.pipeline_file import Block, CustomStep, Layer
from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptFile
from verdict_cli.language.scales import (
    SCALES,
    Scale,
    named_scales,
    named_without_keys,
    scale_of_type,
    written_range,
)
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import LLMUnit, UnitBase, snake
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.model import Model, Models
from verdict_cli.regex import regex
from verdict_cli.storage.path_policy import ALLOW_OUTSIDE, OutsideError

if TYPE_CHECKING:
    from verdict_cli.language.authoring.unit_step import LLMUnitStep, UnitClass
    from verdict_cli.registry import Registry


class UnknownNameError(HintedError):
    """A name that means nothing, or nothing that can be used; ``path`` is where it is written, empty where whoever looks
    the name up knows it."""

    def __init__(
        self, message: str, hint: str = "", code: str = "unknown-scale", path: KeyPath = ()
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.path = path


class MergedType(Struct, frozen=True):
    """What a type means: the built-in one that it ends at, the keys it sets, which declared type set each (a Python class
    set the others), and that class."""

    base: str
    keys: NamedValues
    set_by: Mapping[str, str]
    imported: type[LLMUnitStep] | None = None

    def language_class(self) -> type[UnitBase]:
        """The class that reads the type's keys."""
        return TYPES[self.base] if self.imported is None else self.imported.written_class()


MOST_FALLBACK_MODELS = 100
"""The most models that a selection policy may try."""

_VARIABLE = regex(r"\$\{([^}]*)\}")


def _expanded(text: str, path: KeyPath) -> str:
    """The address with each `${VAR}` replaced from the environment. UnknownNameError when one is not set, when the result is
    not a plain address, and when a variable is part of an address whose host is not the user's own."""

    def value(match: re.Match[str]) -> str:
        setting = os.environ.get(match[1])
        if setting is None:
            message = f"the environment variable {match[1]!r} is not set"
            hint = f"export {match[1]}=…, or write the value"
            raise UnknownNameError(message, hint, "unset-variable", path)
        return setting

    address = _VARIABLE.sub(value, text)
    try:
        parse_address(address)
    except AddressError as fault:
        raise UnknownNameError(f"the address {fault}", FORM, "bad-address", path) from None
    if address != text and not is_user_host(address, os.environ):
        message = (
            "a variable of the environment would be sent to a host that the pipeline file chose"
        )
        hint = f"name the variable ..._BASE_URL or ..._API_BASE, or list the host in {ALLOWED} or with --allow-host"
        raise UnknownNameError(message, hint, "foreign-host", path)
    return address


def _package_units() -> Registry[type[LLMUnitStep]]:
    """The unit types of installed packages, imported here because few files need them."""
    from verdict_cli.language.authoring.unit_step import PACKAGE_UNITS

    return PACKAGE_UNITS


class Namespace(Struct, eq=False, dict=True):
    """The names of one file; `tell` receives their problems, `warn` what their author is warned of. `files` are those that `use` has loaded, None for one that
    cannot be used; `prompts` has the texts of prompt files, `calibrations` the content of calibration files,
    `examples` the `rows` of files of examples and what is `kept` of them."""

    spec: Spec
    tell: Callable[[Problem], None]
    warn: Callable[[Problem], None]
    files: dict[Path, Namespace | None] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    calibrations: dict[str, JsonObject] = field(default_factory=dict)
    examples: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remembers itself among the files that `use: FILE#name` may reach."""
        self.code = dict(self.spec.code)
        self._presets: dict[str, Models] = {}
        self.files.setdefault(self._reached(Path(self.spec.document.file).name), self)

    def problem(
        self, code: str, message: str, hint: str, path: KeyPath, *, key: bool = False
    ) -> None:
        """Report a problem at a path of this file."""
        self.tell(self.spec.document.problem(code, message, hint, path, key=key))

    def check(self) -> None:
        """Check all named declarations, used or not."""
        for name, scale in self.spec.file.scales.items():
            if name in named_scales() or name in PLAIN:
                self._built_in(f"the name {name!r}", ("scales", name))
            self.check_scale(scale, ("scales", name))
        for name in self.spec.file.units:
            if name in TYPES:
                self._built_in(f"the unit type {name!r}", ("units", name))
            else:
                self._check_type(name)
        for name in self.spec.file.models:
            self.policy(name, ("models", name))
        for name, steps in self.spec.file.blocks.items():
            self._check_names(steps, ("blocks", name))

    def _check_names(self, steps: Sequence[Any], path: KeyPath) -> None:
        """Check the types and scales that steps name. Those of a block that is not used are checked here alone."""
        for index, step in enumerate(steps):
            step_path = (*path, index)
            if isinstance(step, Layer | Block):
                key = "layer" if isinstance(step, Layer) else "block"
                self._check_names(getattr(step, key), (*step_path, key))
            elif isinstance(step, CustomStep):
                self._type_or_problem(step.unit, (*step_path, "unit"))
            elif isinstance(step, LLMUnit) and isinstance(step.scale, str):
                try:
                    self.scale_named(step.scale)
                except UnknownNameError as error:
                    self._unknown(error, (*step_path, "scale"))

    def _unknown(self, error: UnknownNameError, path: KeyPath) -> None:
        self.problem(error.code, error.message, error.hint, error.path or path)

    def _built_in(self, subject: str, path: KeyPath) -> None:
        self.problem(
            "name-used-twice", f"{subject} is built in", "choose another name", path, key=True
        )

    def unused_problems(self) -> Iterator[Problem]:
        """What is wrong in parts of this file, and of those that it uses, that the plan does not look at."""
        for names in self.files.values():
            if names is not None:
                yield from _unused_problems(names.spec)

    def check_scale(self, scale: Scale, path: KeyPath) -> bool:
        """Whether a scale makes sense. Reports one that does not; a declared one only at its declaration."""
        issue = scale.validation_error()
        if issue is None:
            return True
        declared = any(scale is other for other in self.spec.file.scales.values())
        if not declared or path[0] == "scales":
            keys = issue.path
            if keys[:1] == ("values",) and self.spec.document.has((*path, "enum")):
                keys = ("enum", *keys[1:])
            self.problem("bad-scale", issue.message, issue.hint, (*path, *keys))
        return False

    def sound(self, kind: FieldType, path: KeyPath) -> FieldType:
        """The type, with `UnknownType` for each scale that makes no sense, which is reported."""

        def checked(kind: FieldType, names: tuple[str, ...]) -> FieldType:
            is_bad = isinstance(kind, ScaleType) and not self.check_scale(
                kind.scale, (*path, *names)
            )
            return UnknownType() if is_bad else kind

        return map_parts(kind, checked)

    def scale_named(self, name: str, types: Collection[str] = ()) -> Scale:
        """The scale of that name: declared in the file, built in, or a registered type that needs no keys.

        Raises UnknownNameError when there is none. ``types`` are other names that are possible where it stands.
        """
        noun = "type or scale" if types else "scale"
        scale = self.spec.file.scales.get(name) or named_scales().get(name) or written_range(name)
        if scale is not None:
            return scale
        if SCALES.get(name) is None:
            registered = named_without_keys() if types else SCALES.names()
            names = {*types, *named_scales(), *self.spec.file.scales, *registered, "1-5"}
            ends = re.fullmatch(r"(\d+)\s*(?:to|\.\.|,|:|/)\s*(\d+)", name)
            hint = f"write `{ends[1]}-{ends[2]}`" if ends else nearest_spelling(name, names)
            raise UnknownNameError(f"unknown {noun} {name!r}", hint)
        scale = scale_of_type(name)
        if scale is None:
            raise UnknownNameError(
                f"the {noun} {name!r} needs keys", f"write it out: `{{type: {name}, …}}`"
            )
        return scale

    def policy(self, key: Any, path: KeyPath) -> Models | None:
        """The models of a key, in the order in which they are tried. Reports a bad one and returns None."""
        try:
            return self._models(key, path)
        except UnknownNameError as error:
            self._unknown(error, path)
            return None

    def _models(self, key: Any, path: KeyPath, chain: tuple[str, ...] = ()) -> Models:
        """The models of a key; each of the file's own is resolved once. Raises UnknownNameError."""
        if isinstance(key, list | tuple):
            models: Models = ()
            for index, item in enumerate(key):
                models += self._models(item, (*path, index), chain)
                if len(models) > MOST_FALLBACK_MODELS:
                    message = (
                        f"more than {MOST_FALLBACK_MODELS} models would be tried one after another"
                    )
                    raise UnknownNameError(message, "name fewer", "too-many-models", path)
            return models
        if isinstance(key, str) and key in self.spec.file.models:
            if key in chain:
                message, hint = f"the model {key!r} names itself", "name a model of a provider"
                raise UnknownNameError(message, hint, "model-cycle", path)
            if key not in self._presets:
                self._presets[key] = self._models(
                    self.spec.file.models[key], ("models", key), (*chain, key)
                )
            return self._presets[key]
        model = Model(name=key) if isinstance(key, str) else key
        if model.api_base is None:
            return (model,)
        base = _expanded(model.api_base, (*path, "api_base"))
        return (model.model_copy(update={"api_base": base}),)

    def unit(self, step: UnitBase | CustomStep, path: KeyPath) -> UnitBase | None:
        """The unit of a step; the keys of a declared type are merged with the step's. Reports an unknown one and returns None."""
        if isinstance(step, UnitBase):
            declaration = self.code.get((*path, "class"))
            if declaration is None:
                return step
            return self._unit_of_class(cast("UnitClass", declaration), step, path)
        merged = self._type_or_problem(step.unit, (*path, "unit"))
        if merged is None:
            return None
        own_keys = dict(step.model_extra or {})

        def to_document(inside: KeyPath) -> KeyPath:
            owner = None if inside[0] in own_keys else merged.set_by.get(str(inside[0]))
            return (*path, *inside) if owner is None else ("units", owner, *inside)

        keys = {"name": snake(step.unit), **merged.keys, **own_keys, "unit": merged.base}
        return self._validated(merged, keys, path, to_document)

    def _unit_of_class(
        self, declaration: UnitClass, step: UnitBase, path: KeyPath
    ) -> UnitBase | None:
        """A unit of Python code whose class decides more than its document."""
        merged = MergedType(step.type_name, declaration.keys(step), {}, declaration.unit_class)
        return self._validated(
            merged, merged.keys, path, lambda inside: (*path, *inside), declaration.unit
        )

    def _validated(
        self,
        merged: MergedType,
        keys: NamedValues,
        path: KeyPath,
        to_document: Callable[[KeyPath], KeyPath],
        like: LLMUnitStep | None = None,
    ) -> UnitBase | None:
        """The unit of these keys. Reports those that its type does not accept and returns None."""
        kind = merged.language_class()
        try:
            if merged.imported is None:
                return kind.model_validate(keys)
            unit, functions = merged.imported.from_keys(keys, path, like)
        except ValidationError as error:
            for problem in explain_error(error, kind, self.spec.document, to_document).values():
                self.tell(problem)
            return None
        self.code |= functions
        return unit

    def merged_type(self, name: str) -> MergedType:
        """What the name of a unit type means; its own keys win over those of its base. Built-in names come first, then those
        that the file declares, then the classes that were imported, then those of installed packages.

        Raises UnknownNameError for a type that leads to none.
        """
        keys: JsonObject = {}
        set_by: dict[str, str] = {}
        chain: list[str] = []
        while name not in TYPES:
            path: KeyPath = ("units", chain[-1], "base") if chain else ()
            declared = self.spec.file.units.get(name)
            if name in chain:
                message = f"the unit type {name!r} builds on itself"
                hint = "name a built-in type, or one that does not lead back to it"
                raise UnknownNameError(message, hint, "unknown-unit", path)
            if declared is None:
                kind = self._class_of(name, path)
                document = kind.default().document((), {})
                if chain:
                    del document["name"]  # a declared type has a name of its own
                return MergedType(str(document.pop("unit")), {**document, **keys}, set_by, kind)
            chain.append(name)
            for key, value in (declared.model_extra or {}).items():
                keys.setdefault(key, value)
                set_by.setdefault(key, name)
            name = declared.base
        return MergedType(name, keys, set_by)

    def _class_of(self, name: str, path: KeyPath) -> type[LLMUnitStep]:
        """The Python class of a unit type. Raises UnknownNameError where there is none."""
        kind = self.spec.unit_types.get(name) or _package_units().get(name)
        if kind is None:
            names = (
                *TYPES,
                *_package_units().names(),
                *self.spec.file.units,
                *self.spec.unit_types,
            )
            hint = nearest_spelling(name, names)
            raise UnknownNameError(f"unknown unit type {name!r}", hint, "unknown-unit", path)
        return kind

    def _type_or_problem(self, name: str, path: KeyPath) -> MergedType | None:
        """What the name of a unit type means. Reports an unknown one and returns None."""
        try:
            return self.merged_type(name)
        except UnknownNameError as error:
            self._unknown(error, path)
            return None

    def _check_type(self, name: str) -> None:
        """Check the keys that a declared type sets. Those that it leaves to the step may be missing."""
        merged = self._type_or_problem(name, ("units", name, "base"))
        if merged is None:
            return
        if "unit" in merged.keys:
            hint = "a type names what it builds on with `base`"
            path = ("units", merged.set_by["unit"], "unit")
            self.problem("unknown-key", "unknown key 'unit'", hint, path, key=True)
        kind = merged.language_class()
        left_out = {
            format_path(("units", name, key)) for key in known_keys(kind) if key not in merged.keys
        }
        try:
            kind.model_validate({**merged.keys, "unit": merged.base})
        except ValidationError as error:
            to_document = lambda inside: ("units", merged.set_by.get(str(inside[0]), name), *inside)  # noqa: E731
            for problem in explain_error(error, kind, self.spec.document, to_document).values():
                if problem.code != "missing-key" or problem.path not in left_out:
                    self.tell(problem)

    def prompt_text(
        self, key: str | PromptFile | JinjaPrompt, path: KeyPath
    ) -> tuple[str, bool] | None:
        """(text, whether it is Jinja2) of a prompt. Reports an unreadable file and returns None."""
        if isinstance(key, str):
            return key, False
        if isinstance(key, JinjaPrompt):
            return key.jinja, True
        if key.file not in self.prompts:
            text = self._read(key.file, (*path, "file"))
            if text is None:
                return None
            self.prompts[key.file] = text
        return self.prompts[key.file], False

    def inside(self, file: str, path: KeyPath) -> Path | None:
        """The path of a file that this one uses. Reports one outside the allowed folders and returns None."""
        try:
            return self.spec.fence.path(self.spec.folder, file)
        except OutsideError as error:
            self.problem("outside", f"the file {error}", ALLOW_OUTSIDE, path)
            return None

    def used_document(self, file: str, path: KeyPath) -> Document | None:
        """The document of a file that this one uses. Reports one that cannot be read and returns None."""
        inside = self.inside(file, path)
        try:
            return None if inside is None else read_document(inside)
        except SpecError as error:
            self.bad_file(file, error, path)
            return None

    def _read(self, file: str, path: KeyPath) -> str | None:
        inside = self.inside(file, path)
        if inside is None:
            return None
        try:
            with inside.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
            if len(content) <= MAX_BYTES:
                return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
            message = f"the prompt file {file!r} is larger than {MAX_BYTES // 1024**2} MiB"
            self.problem("too-large", message, "data belongs into a dataset", path)
        except UnicodeDecodeError:
            self.problem(
                "bad-encoding", f"the prompt file {file!r} is not UTF-8", "save it as UTF-8", path
            )
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or str(fault)
            message = f"the prompt file {file!r} cannot be read: {reason}"
            self.problem(
                "file-not-found", message, "the path is relative to the pipeline file", path
            )
        return None

    def block(self, name: str, path: KeyPath) -> tuple[Namespace, tuple[Any, ...], KeyPath] | None:
        """The namespace, steps and path of a named block of this file or of `FILE#name`. Reports an unknown one and
        returns None."""
        file, mark, block = name.rpartition("#")
        if mark and not file:
            hint = f"write `{block}` for a block of this file" if block else "write `FILE#name`"
            self.problem("bad-file", f"no file is named before the # of {name!r}", hint, path)
            return None
        owner = self._file(file, path) if mark else self
        if owner is None:
            return None
        steps = owner.spec.file.blocks.get(block)
        if steps is None:
            hint = nearest_spelling(block, owner.spec.file.blocks) or "declare it under `blocks:`"
            self.problem("unknown-block", f"unknown block {name!r}", hint, path)
            return None
        return owner, steps, ("blocks", block)

    def _file(self, file: str, path: KeyPath) -> Namespace | None:
        target = self._reached(file)
        if target not in self.files:
            if self.inside(file, path) is None:
                return None
            try:
                spec = replace(load(target, fence=self.spec.fence), unit_types=self.spec.unit_types)
            except SpecError as error:
                self.bad_file(file, error, path)
                self.files[target] = None
            else:
                Namespace(spec, self.tell, self.warn, self.files).check()
        return self.files[target]

    def bad_file(self, file: str, error: SpecError, path: KeyPath) -> None:
        """Report a file that this one uses: here, and its own problems at their positions in it."""
        whole = next((problem for problem in error.problems if not problem.line), None)
        reason = f": {whole.message}" if whole is not None else ""
        hint = whole.hint if whole is not None else "its own problems follow"
        self.problem("bad-file", f"{file!r} cannot be used{reason}", hint, path)
        for problem in error.problems:
            if problem.line:
                self.tell(problem)

    def _reached(self, file: str) -> Path:
        """The normalized path of a file, so that one file is one key."""
        # Not `resolve`: a file reached by a link keeps the folder in which it was written, to which its own paths are relative.
        return Path(os.path.normpath(self.spec.folder / file))


def missing_prompt(spec: Spec, unit: LLMUnit, path: KeyPath) -> Problem | None:
    """The problem of a unit that has no prompt and whose type has none by default."""
    if unit.prompt_key is not None or unit.default_prompt() is not None:
        return None
    return spec.document.problem(
        "missing-key", f"a {unit.type_name} needs a `prompt`", "write what the model is asked", path
    )


_WITH_PARTS = (ConfigModel, dict, tuple, list)
_CODES = {UnitBase: "bad-unit", Scale: "bad-scale", Extractor: "bad-extractor"}


def _unused_problems(spec: Spec) -> Iterator[Problem]:
    """Wrong combinations of keys in parts that the plan does not look at, such as a block that nobody uses."""
    parts: list[tuple[KeyPath, Any]] = [((), spec.file)]
    for path, part in parts:
        items: Iterable[tuple[str | int, Any]]
        if isinstance(part, ConfigModel):
            code = next((code for kind, code in _CODES.items() if isinstance(part, kind)), None)
            if code is not None and (issue := part.broken_rule()):
                yield spec.document.problem(code, issue.message, issue.hint, (*path, *issue.path))
            if isinstance(part, LLMUnit) and (missing := missing_prompt(spec, part, path)):
                yield missing
            fields = type(part).model_fields
            items = [(field.alias or name, getattr(part, name)) for name, field in fields.items()]
        else:
            items = part.items() if isinstance(part, dict) else enumerate(part)
        parts += [((*path, key), value) for key, value in items if isinstance(value, _WITH_PARTS)]
