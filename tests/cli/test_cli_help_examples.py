"""Every example of every `--help` is run as printed, in a folder that holds nothing but the demo's runs and a file of the
user's own. What cannot run here is listed with the reason; its command and options are checked."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from shell import needs

from verdict_cli.cli.app import COMMANDS as COMMANDS_BY_NAME
from verdict_cli.cli.app import app
from verdict_cli.cli.help_format import HEADINGS

OWN_ROWS = [
    ("1", "What is 2 + 2?", "4", "yes"),
    ("2", "What is 2 + 3?", "6", "no"),
    ("3", "What is 3 + 3?", "6", "yes"),
]
OWN_FILES = {
    "answers.csv": "".join(
        ",".join(row) + "\n" for row in [("id", "question", "answer", "label"), *OWN_ROWS]
    ),
    "answers.jsonl": "".join(
        f'{{"id": {number}, "question": "{question}", "answer": "{answer}", "label": "{label}"}}\n'
        for number, question, answer, label in OWN_ROWS
    ),
    "promptfooconfig.yaml": "prompts: ['{{question}}']\nproviders: [openai:gpt-4o-mini]\n"
    "tests:\n  - vars: {question: What is 2 + 2?}\n    assert: [{type: llm-rubric, value: is right}]\n",
    "results.json": '{"results": {"results": [{"vars": {"question": "What is 2 + 2?"}, "success": true, "testIdx": 0,'
    ' "promptIdx": 0, "prompt": {"raw": "What is 2 + 2?"}, "response": {"output": "4"}, "provider": {"id": "x"}}]}}',
}
NOT_RUN = {
    "align": "takes a minute",
    "batch cancel": "needs a run with batches",
    "batch export": "needs a server's address",
    "batch fetch": "needs a run with batches",
    "batch import": "needs a run with batches",
    "batch status": "needs a run with batches",
    "calibrate": "needs 20 labelled rows of a judge with probabilities; docs/recipes.md has one that runs",
    "datasets fetch": "needs the network",
    "datasets import": "needs a fetched file",
    "datasets check": "needs a file of the user's own",
    "datasets sample": "needs a fetched file",
    "import": "needs another tool's log",
    "merge": "needs shards; docs/scale.md has some that run",
    "reproduce": "needs a key and the network",
    "serve": "serves until Ctrl-C",
    "view": "serves until Ctrl-C",
}
ENDS = {"gate": 1, "report": 1}
"""Exit codes other than 0: the demo's precision gate fails."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words."""
    if not hasattr(command, "list_commands"):
        yield " ".join(words), command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*words, name))


def examples(command: Any) -> list[str]:
    """The command lines in a command's help, each on one line."""
    lines = [line.strip() for line in (command.help or "").replace("\\\n", " ").splitlines()]
    return [
        line.removeprefix("Example: ")
        for line in lines
        if line.removeprefix("Example: ").startswith("verdict ")
    ]


COMMANDS = dict(leaves(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `verdict demo`, made once."""
    run_demo = pytest.importorskip("verdict_cli.features.demo.command").demo

    folder = tmp_path_factory.mktemp("demo") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verdict_cli.features.demo.command.at_hand", lambda _: None)
        run_demo(folder)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_with_options_that_it_has(name):
    command_examples = examples(COMMANDS[name])
    assert command_examples, f"verdict {name} --help has no example"
    for example in command_examples:
        words, parsed = name.split(), shlex.split(example.split(" | ")[-1].split(" > ")[0])
        assert parsed[1 : 1 + len(words)] == words, example
        COMMANDS[name].make_context(name, parsed[1 + len(words) :], resilient_parsing=False).close()


def test_what_is_not_run_is_a_command():
    installed = {name for name in NOT_RUN if name.split()[0] in COMMANDS_BY_NAME.names()}
    assert installed <= COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NOT_RUN.keys()))
def test_the_examples_of_a_help_run_as_printed(name, shell, demo):
    shutil.copytree(demo, shell.folder / "runs" / "demo")
    for file, content in OWN_FILES.items():
        shell.write(file, content)
    for line in examples(COMMANDS[name]):
        words = shlex.split(line.partition(" > ")[0])[1:]
        if words[:1] == ["init"] and "--from" not in words and "--question" not in words:
            continue  # prompts on a terminal
        done = shell(*words)
        assert done.code == ENDS.get(name, 0), f"{line}\n{done.err}\n{done.out}"


@needs("batches", "tracing", "untrusted")
def test_the_help_of_a_run_shows_ten_common_options_first(shell):
    text = shell("run", "--help").out
    sections = dict(re.findall(r"^(\w[^\n]*):\n(.*?)(?=^\w|\Z)", text, re.MULTILINE | re.DOTALL))
    common = re.findall(r"^  (?:-\w, )?--([a-z-]+)", sections["Options"], re.MULTILINE)
    assert common == [
        "out", "model", "replay", "budget", "quiet", "limit", "concurrency", "retry-failed", "json", "yes", "help",
    ]  # fmt: skip
    assert list(sections)[2:] == [*HEADINGS, "Batches", "Ray", "Tracing", "Untrusted files"]
    assert "Usage: verdict run [OPTIONS] CONFIG DATA\n" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_names_values_instead_of_types_of_python(name, shell):
    text = shell(*name.split(), "--help").out
    assert not re.search(r"<(?:int|float|str|bool|path|list|Path)\b|\.{4}|\{\w+\}\s*$", text)


def test_each_command_has_one_line_in_the_list_and_no_command_is_a_usage_error(
    shell,
):
    text = shell("--help").out
    assert len(
        re.findall(r"^  [a-z]+(?:, [a-z]+)*  ", text.partition("Commands:")[2], re.MULTILINE)
    ) == len(COMMANDS_BY_NAME.names())
    assert shell().code == 2
