"""`validate`, `graph`, `schema`, `units`: the documents that other programs read, and what starting costs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shell import needs

from verdict_cli.cli.app import COMMANDS

HEAVY = (
    "litellm",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "numpy",
    "aiohttp",
    "jsonschema",
    "regex",
    "uvloop",
    "fastapi",
    "prometheus_client",
    "uvicorn",
)
ENSEMBLE = """
- {unit: CoTUnit, name: think, prompt: 'Think of {source.text}'}
- layer: [{unit: JudgeUnit, name: judge, prompt: 'Rate {previous.thinking}'}]
  repeat: 2
- {unit: MeanPoolUnit, name: mean}
"""


def test_a_valid_pipeline(shell):
    config = shell.config(ENSEMBLE)
    assert shell("validate", config).code == 0
    done = shell("validate", config, "--json")
    assert (done.code, done.json()) == (0, {"ok": True, "errors": [], "warnings": [], "hosts": []})


def test_a_url_behind_the_pipeline_is_a_dataset_and_before_it_an_error(shell):
    config, rows = shell.config(ENSEMBLE), shell.write("rows.jsonl", '{"text": "a"}\n')
    assert shell("validate", config, rows.as_uri()) == shell("validate", config, rows)
    done = shell("validate", "https://127.0.0.1:1/judge.yaml")
    assert done.code == 2
    assert "not read from a URL: download it, and give the path" in done.err


def test_validate_shows_every_host_that_a_run_calls(shell, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    steps = (
        "- {unit: JudgeUnit, name: a, prompt: Rate, model: [gpt-4o-mini, anthropic/claude-3-5-haiku-latest]}\n"
        "- {unit: JudgeUnit, name: b, prompt: Rate, extract: {type: post_hoc, model: own}}"
    )
    head = "model: baseline/lexical\nmodels: {own: {name: m, api_base: 'http://127.0.0.1:8000/v1'}}"
    config = shell.config(steps, head=head)
    hosts = ["127.0.0.1:8000", "api.anthropic.com", "api.openai.com"]
    assert shell("validate", config, "--json").json()["hosts"] == hosts
    assert shell("validate", config).out == f"{config}: valid\n" + "".join(
        f"calls {host}\n" for host in hosts
    )


def test_allow_host_lists_a_host_for_this_command(shell, monkeypatch):
    monkeypatch.setenv(
        "VERDICT_ALLOW_HOSTS", "first.example"
    )  # what the option adds is removed afterwards
    monkeypatch.setenv("BRANCH", "own.example")
    config = shell.config(
        "- {unit: JudgeUnit, prompt: Rate}",
        head="model: {name: m, api_base: 'https://${BRANCH}/v1'}",
    )
    for command in ("validate", "graph"):
        monkeypatch.setenv("VERDICT_ALLOW_HOSTS", "first.example")
        refused = shell(command, config)
        assert refused.code == 2 and "--allow-host" in refused.err
        assert (
            shell(command, config, "--allow-host", "own.example", "--allow-host", "x.example").code
            == 0
        )
    assert os.environ["VERDICT_ALLOW_HOSTS"] == "first.example,own.example,x.example"
    assert shell("validate", config, "--allow-host", "no host").code == 2


@pytest.mark.parametrize(
    "command",
    [
        "run", "judge", "estimate", "validate", "graph",
        *(pytest.param(name, marks=needs(name)) for name in ("sweep", "audit", "rank")),
        pytest.param("bench", marks=needs("benchmarks")),
    ],
)  # fmt: skip
def test_every_command_that_reads_addresses_takes_allow_host(shell, command):
    assert "--allow-host" in shell(command, "--help").out


def test_every_error_is_listed_with_all_its_parts(shell):
    done = shell(
        "validate",
        shell.config("- {unit: JudgeUnit, promt: Rate}\n- {unit: JudgeUnit, prompt: 3}"),
        "--json",
    )
    document = done.json()
    assert (done.code, document["ok"]) == (2, False)
    assert len(document["errors"]) >= 2
    for error in document["errors"]:
        assert list(error) == ["file", "line", "column", "path", "code", "message", "hint"]
        assert error["line"] in (5, 6)


def test_a_warning_leaves_the_pipeline_valid(shell):
    steps = "- {unit: CoTUnit, name: idle, prompt: 'Think of {source.text}'}\n- {unit: JudgeUnit, prompt: 'Rate {source.text}'}"
    done = shell("validate", shell.config(steps), "--json")
    assert (done.code, done.json()["ok"], len(done.json()["warnings"])) == (0, True, 1)
    assert "idle" in shell("validate", shell.config(steps)).err


def test_a_dataset_is_checked_against_the_pipeline(shell):
    config = shell.config("- {unit: JudgeUnit, prompt: 'Rate {source.text}'}")
    assert shell("validate", config, shell.rows(3)).code == 0
    data = shell.write("bad.jsonl", '{"text": "a"}\n{"other": 1}\n')
    done = shell("validate", config, data, "--json")
    assert (done.code, "1 of 2 rows have no 'text'" in done.json()["warnings"][0]["message"]) == (
        0,
        True,
    )
    wrong = shell.write("wrong.jsonl", '{"other": 1}\n')
    (error,) = shell("validate", config, wrong, "--json").json()["errors"]
    assert (error["message"], Path(error["file"]).name) == (
        "the data has no column 'text'",
        config.name,
    )


def test_the_graph_as_json(shell):
    done = shell("graph", shell.config(ENSEMBLE), "--format", "json")
    assert done.json() == {
        "nodes": [
            {"id": "think", "unit": "CoTUnit", "each": None, "when": None},
            {"id": "judge[0]", "unit": "JudgeUnit", "each": None, "when": None},
            {"id": "judge[1]", "unit": "JudgeUnit", "each": None, "when": None},
            {"id": "mean", "unit": "MeanPoolUnit", "each": None, "when": None},
        ],
        "edges": [
            ["judge[0]", "mean"],
            ["judge[1]", "mean"],
            ["think", "judge[0]"],
            ["think", "judge[1]"],
        ],
        "roots": ["think"],
        "leaves": ["mean"],
        "outputs": ["mean"],
    }
    assert shell("graph", "pipeline.yaml", "--json").json() == done.json()


@pytest.mark.parametrize("style", ["tree", "mermaid", "svg"])
def test_the_graph_for_people_needs_no_model(style, shell):
    done = shell("graph", shell.config(ENSEMBLE, head=""), "--format", style)
    assert done.code == 0
    assert "judge" in done.out


def test_the_schema_is_the_one_in_the_repository(shell, root):
    done = shell("schema")
    assert done.json()["$schema"].endswith("2020-12/schema")
    assert shell("schema", "--out", "sub/schema.json").code == 0
    assert json.loads((shell.folder / "sub" / "schema.json").read_text()) == done.json()


def test_units_are_listed_with_their_keys(shell):
    listed = shell("units", "--json").json()
    assert {"JudgeUnit", "MapUnit", "MeanPoolUnit"} <= {unit["unit"] for unit in listed}
    assert "scale" in shell("units", "JudgeUnit").out


def test_help_and_version(shell):
    assert "run" in shell("--help").out
    assert shell("--version").out.startswith("verdict ")
    for command in ("run", "validate", "graph", "report", "schema", "units"):
        assert shell(command, "--help").code == 0


@pytest.mark.parametrize(
    "arguments", [["--help"], ["validate", "configs/xstest.yaml"]], ids=["help", "validate"]
)
def test_starting_imports_nothing_heavy(arguments, root, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    code = (
        "import sys\nfrom verdict_cli.cli.app import main\n"
        f"sys.argv = ['verdict', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n'.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_validate_imports_only_the_units_extractors_and_commands_that_it_needs(root, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    code = (
        "import sys\nfrom verdict_cli.cli.app import main\n"
        "sys.argv = ['verdict', 'validate', 'configs/xstest.yaml']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stderr.split())
    assert {
        "verdict_cli.language.units.judges",
        "verdict_cli.language.extractors.structured",
    } <= loaded
    assert "verdict_cli.language.units.rubric" not in loaded
    assert loaded.isdisjoint(
        {
            "verdict_cli.language.extractors.regex",
            "verdict_cli.language.extractors.token_probability",
        }
    )
    assert loaded.isdisjoint(
        {"verdict_cli.cli.run", "verdict_cli.cli.cache", "verdict_cli.run.estimate", "asyncio"}
    )


def test_a_misspelled_command_gets_the_nearest_as_a_hint(shell):
    assert "Did you mean 'validate'" in shell("valdate").err


@needs("wizard", "viewer", "benchmarks", "audit")
def test_help_lists_the_commands_in_groups_and_imports_none_of_them():
    code = (
        "import sys; from typer.testing import CliRunner; from verdict_cli.cli.app import app, COMMANDS\n"
        "print(CliRunner().invoke(app, ['--help']).output)\n"
        "print('imported', [name for name in COMMANDS.names() if f'verdict_cli.cli.{name}' in sys.modules])"
    )
    help_text = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    first, *groups = help_text.partition("Commands:\n")[2].partition("\nimported")[0].split(":\n")
    assert [line.split()[0] for line in first.splitlines() if line.startswith("  ")] == [
        "init",
        "run",
        "view",
        "compare",
        "merge",
        "gate",
    ]
    listed = re.findall(r"^  ([a-z]+(?:, [a-z]+)*)  ", help_text, re.MULTILINE)
    assert (len(groups), sorted(", ".join(listed).split(", "))) == (5, sorted(COMMANDS.names()))
    assert help_text.rstrip().endswith("imported []")


def test_the_help_of_no_command_imports_a_heavy_library():
    code = (
        "import sys; from typer.testing import CliRunner; from verdict_cli.cli.app import app, COMMANDS\n"
        "for name in COMMANDS.names():\n"
        "    done = CliRunner().invoke(app, [name, '--help']); assert done.exit_code == 0, done.output\n"
        f"    loaded = [library for library in {HEAVY} if library in sys.modules]; assert not loaded, (name, loaded)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
