"""The command line: its commands, and the place where an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from verdict_cli import __version__
from verdict_cli.cli.console import print_error
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.options import extensions, flatten_options
from verdict_cli.errors import UsageError, VerdictError
from verdict_cli.registry import PartSpec, Registry
from verdict_cli.removed import removed_from
from verdict_cli.run.process import open_standard_descriptors

COMMAND_HEADINGS = (
    "Commands",
    "Check a pipeline (no model is called)",
    "Judge live",
    "Study a judge",
    "Benchmarks and data",
    "Maintenance",
)
"""The groups of `verdict --help`, in order. A command under another heading is listed after them."""

_START, _CHECK, _LIVE, _MAINTENANCE = (
    COMMAND_HEADINGS[0],
    COMMAND_HEADINGS[1],
    COMMAND_HEADINGS[2],
    COMMAND_HEADINGS[5],
)

COMMANDS: Registry[Any] = Registry(
    "verdict_cli.cli",
    {
        "run": PartSpec("run.run", "Judge every row of a dataset and report the metrics.", _START),
        "compare": PartSpec(
            "compare.compare", "Compare runs row by row, metric by metric.", _START
        ),
        "merge": PartSpec("merge.merge", "Merge the shards of a run into one run.", _START),
        "gate": PartSpec(
            "gate.gate", "Re-evaluate a run's gates and regenerate the report.", _START
        ),
        "validate": PartSpec(
            "validate.validate", "Check a pipeline file, and a dataset against it.", _CHECK
        ),
        "graph": PartSpec("graph.graph", "Draw the graph of a pipeline.", _CHECK),
        "estimate": PartSpec(
            "estimate.estimate", "Estimate the calls, tokens and cost of a run.", _CHECK
        ),
        "explain": PartSpec("explain.explain", "Explain a unit, key, metric or exit code.", _CHECK),
        "units": PartSpec("explain.units", "List the unit types, or the keys of one.", _CHECK),
        "schema": PartSpec("explain.schema", "Print the JSON Schema of pipeline files.", _CHECK),
        "judge": PartSpec("judge.judge", "Judge one row, or rows from standard input.", _LIVE),
        "report": PartSpec(
            "report.report", "Recompute a run's metrics and rewrite its report.", _MAINTENANCE
        ),
        "verify": PartSpec(
            "verify.verify", "Check a run's files against its digests.", _MAINTENANCE
        ),
        "cache": PartSpec("cache.app", "Show or clear the cache of model replies.", _MAINTENANCE),
    },
    "verdict_cli.commands",
)
"""The commands by name: a function, or a Typer application with subcommands. Features and packages bring further ones."""


class Commands(TyperGroup):
    """The commands. The module of a command is imported when the command is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS.names())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        refuse_removed(args)
        refuse_other_encodings(args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Typer would give an unanswered question the exit code of a failed gate."""
        try:
            return super().invoke(ctx)
        except typer.Abort:
            print_error("interrupted")
            raise typer.Exit(130) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None if there is none. Then all are loaded, because click suggests the nearest name."""
        for name in (cmd_name,) if COMMANDS.get(cmd_name) is not None else COMMANDS.names():
            if name not in self.commands:
                self.add_command(_command(name), name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups. Their modules are not imported: that takes longer than everything else here."""
        entries = {name: COMMANDS.entry(name) for name in COMMANDS.names()}
        width = max(map(len, entries))
        for heading in dict.fromkeys(
            (*COMMAND_HEADINGS, *(entry.heading for entry in entries.values()))
        ):
            lines = [
                (name.ljust(width), entry.help)
                for name, entry in entries.items()
                if entry.heading == heading
            ]
            if lines:
                with formatter.section(heading or "Commands of installed packages"):
                    formatter.write_dl(lines)


def _command(name: str) -> Any:
    part = COMMANDS[name]
    if not isinstance(part, typer.Typer):
        function, part = part, typer.Typer(add_completion=False, rich_markup_mode=None)
        part.command(name, cls=HelpCommand)(flatten_options(function, name, extensions(name)))
    command = typer.main.get_command(part)
    command.short_help = COMMANDS.entry(name).help or command.short_help
    return command


app = typer.Typer(
    name="verdict",
    help="Judge LLM outputs with compound judges: small graphs of LLM calls described in a YAML file.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True
    ),
) -> None:
    if version:
        sys.stdout.write(f"verdict {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.Exit(2)


def main() -> None:
    """Run the command line. Every error becomes a message and an exit code here."""
    open_standard_descriptors()
    _use_utf8()
    try:
        _run()
    except VerdictError as error:
        print_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        if "_VERDICT_COMPLETE" not in os.environ:  # the shell asks, and shows what is printed
            print_error("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if error.errno is None:
            _exit_with_traceback()
        print_error(_system_message(error))
        sys.exit(2)
    except MemoryError:
        print_error("the memory is exhausted\n    use smaller files, or a machine with more memory")
        sys.exit(2)
    except Exception:
        _exit_with_traceback()
    finally:
        gc.freeze()  # otherwise the interpreter collects again while it exits


def _run() -> None:
    try:
        app(prog_name="verdict")
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None  # Typer ends with 1, the code of a failed gate
        is_usage = ended.code == 2 and not isinstance(ended.__context__, typer.Exit)
        hint = usage_hint(sys.argv[1:]) if is_usage else ""
        if hint:
            print_error(hint)
        raise
    finally:
        sys.stdout.flush()


def refuse_removed(words: Sequence[str]) -> None:
    """UsageError for a command or an option that this release no longer has."""
    removed = removed_from(words)
    if removed is not None:
        raise UsageError(f"`verdict {removed[0]}` was removed", hint=removed[1])


def refuse_other_encodings(words: Sequence[str]) -> None:
    """UsageError for a word whose bytes are not UTF-8, which run.json and the reports cannot name."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{word}: the argument is not valid UTF-8",
                hint="rename the file, or set PYTHONUTF8=1 where its name is UTF-8",
            ) from None


def _exit_with_traceback() -> NoReturn:
    import traceback
    from tempfile import NamedTemporaryFile

    from verdict_cli.llm.providers.secrets import environment_secrets, redact_text

    with NamedTemporaryFile(
        "w", prefix="verdict-error-", suffix=".log", encoding="utf-8", delete=False
    ) as log:
        log.write(redact_text(traceback.format_exc(), environment_secrets(os.environ)))
    print_error(
        f"internal error in verdict (please report it)\n    attach the traceback: {log.name}"
    )
    sys.exit(70)


def _system_message(error: OSError) -> str:
    """What the system refused, and what to do about the limits that are met most."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    hints = {
        errno.EMFILE: "raise the limit of open files, such as by `ulimit -n 1024`, or lower --concurrency",
        errno.ENFILE: "the whole system has too many open files; close some programs",
        errno.ENOSPC: "free some space, or choose another --out, VERDICT_CACHE_DIR or TMPDIR",
        errno.EROFS: "choose an --out, a VERDICT_CACHE_DIR and a TMPDIR that can be written",
        errno.EACCES: "check the permissions of the file and its folder",
    }
    hint = hints.get(error.errno or 0, "")
    return f"{' to '.join(names) or 'a file or standard output'}: {error.strerror}" + (
        f"\n    {hint}" if hint else ""
    )


def usage_hint(words: Sequence[str]) -> str:
    """Guess what is wrong with a command line: no command, or JSON or a glob that the shell expanded. Empty if unknown."""
    if words and Path(words[0]).suffix in (".yaml", ".yml"):
        return f"the command comes first: verdict run {shlex.join(words)}"
    if "--row" in words[:-1] and not words[words.index("--row") + 1].endswith("}"):
        return 'the shell split the row: put it in single quotes, --row \'{"question": "…"}\''
    files = [word for word in words if not word.startswith("-") and Path(word).is_file()]
    if len(files) > 2 and words[0] not in ("compare", "validate"):
        return "the shell expanded a glob: quote it, such as 'data/*.jsonl', or give the directory"
    return ""


def _use_utf8() -> None:
    """Write UTF-8 whatever the machine's own encoding is."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
