"""The `--help` of a command: common options first, the others under headings, values by what they are."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperArgument, TyperCommand

from verdict_cli.errors import UsageError
from verdict_cli.regex import regex

FEW = 20
"""Commands with at most so many options list them under one heading."""

HEADINGS = {
    "Pipeline": ("set", "level", "allow-code", "allow-outside"),
    "Rows": ("sample", "seed", "shard", "skip-bad-rows"),
    "Run directory": ("fresh", "reuse", "format"),
    "Calls and hosts": ("no-cache", "allow-host"),
    "Gates": ("inconclusive",),
}
"""Heading -> its options, where a command has many. An option that a feature adds names its heading as `rich_help_panel`.
All other options are common ones and precede the headings."""

VALUES = {
    "int": "N",
    "float": "NUMBER",
    "str": "TEXT",
    "path": "PATH",
    "file": "PATH",
    "list[Path]": "PATHS",
}
"""What typer writes for the type of a value, without ` range`, and what the help says."""

_TYPE = regex(r" <([^<>]+?)(?: range)?>$")


class HelpCommand(TyperCommand):
    """A command whose help groups its options, and names values as `N` or `PATH` instead of Python's types."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for parameter in self.params:
            if (
                isinstance(parameter, TyperArgument)
                and parameter.metavar is None
                and parameter.name is not None
            ):
                parameter.metavar = parameter.name.upper()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an empty value, such as of a shell variable that is not set: an empty path would be the current folder."""
        if not ctx.resilient_parsing:
            words, _, _ = self.make_parser(ctx).parse_args(args=[*args])
            for parameter in self.get_params(ctx):
                word = words.get(parameter.name)
                if "" in (word if isinstance(word, list | tuple) else [word]):
                    name = parameter.opts[0]
                    name = name if name.startswith("-") else name.upper()
                    hint = "give one, or leave it out; is a variable of the shell not set?"
                    raise UsageError(f"the value of {name} is empty", hint=hint)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        plain = (re.sub(r"^(?:\{(.*)\}|\[(\[.*\])\])", r"\1\2", piece) for piece in pieces)
        return [piece.replace("......", "...") for piece in plain]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under their headings."""
        arguments, options = [], {}
        headings = {heading: [*names] for heading, names in HEADINGS.items()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(
                    (_TYPE.sub("", record[0]), record[1].removesuffix("[required]").rstrip())
                )
            else:
                usage = _TYPE.sub(lambda match: f" {VALUES.get(match[1], match[1])}", record[0])
                name = parameter.opts[0].lstrip("-")
                options[name] = (usage, record[1])
                if heading := getattr(parameter, "rich_help_panel", None):
                    headings.setdefault(heading, []).append(name)
        if len(options) <= FEW:
            headings = {}
        sections = {
            heading: [options.pop(name) for name in names if name in options]
            for heading, names in headings.items()
        }
        for heading, lines in {
            "Arguments": arguments,
            "Options": [*options.values()],
            **sections,
        }.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)
