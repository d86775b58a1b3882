"""Options that features and packages add to a command of the core, and what these options do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

from verdict_cli.registry import Registry

NO_EXTRAS: Mapping[str, Any] = MappingProxyType({})


@dataclass
class CommandCall:
    """One call of a command, as the command line gave it."""

    command: str
    options: Mapping[str, Any]
    """Every option and argument by its parameter's name, those of extensions among them."""
    extras: dict[str, Any] = field(default_factory=dict)
    """What extensions add to the call, by a name of their own: the command passes it on as its `extras`."""


class Extension(Protocol):
    """A frozen dataclass whose fields are options for typer, as those of `model_options.RowOptions`."""

    def applied(self, call: CommandCall) -> AbstractContextManager[None]:
        """Do what the options say; the command runs inside of the context manager. Raises VerdictError."""
        ...


@lru_cache(maxsize=8)
def extensions(command: str) -> Registry[type[Extension]]:
    """The classes of options that others add to a command: the entry-point group is `verdict_cli.COMMAND_options`."""
    return Registry("verdict_cli.cli", {}, f"verdict_cli.{command}_options")


def call_extended(
    command: str,
    call: Callable[..., Any],
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
    added: list[Extension],
) -> Any:
    """Call the command inside of its extensions. It gets their `extras` if it has a parameter of that name."""
    context = CommandCall(command, options)
    with ExitStack() as stack:
        for extension in added:
            stack.enter_context(extension.applied(context))
        return call(**parameters, **({"extras": context.extras} if "extras" in call.__annotations__ else {}))
