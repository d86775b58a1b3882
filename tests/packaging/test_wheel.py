"""A wheel installed into a fresh environment does everything in an empty folder, without the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow  # `make test-all`


OUTSIDE = ("schemas", "configs", "datasets")


@dataclass(frozen=True)
class Installed:
    """A wheel, the environment in which it is installed, and an empty folder to work in."""

    wheel: Path
    command: Path
    folder: Path

    def __call__(self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> str:
        """What the command says on both streams; it must end with `code`. With `python -m verdict_cli` as the first argument by
        that."""
        python = arguments[:1] == ("python -m verdict_cli",)
        command = (
            [self.command.with_name("python"), "-m", "verdict_cli", *arguments[1:]]
            if python
            else [self.command, *arguments]
        )
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VERDICT_"))
        }
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={
                **environ,
                "VERDICT_CACHE_DIR": str(self.folder / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1",
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.stderr}{done.stdout}"
        assert str(ROOT) not in done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built from the tree as it stands; the environment shares the dependencies of this one, not this project."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    place = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", place, ROOT],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = place.glob("*.whl")
    venv.create(place / "env", with_pip=False, symlinks=os.name != "nt")
    bin_ = place / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = bin_ / ("python.exe" if os.name == "nt" else "python")
    subprocess.run(
        [*pip, "--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel],
        check=True,
    )
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    shared = [path for path in sys.path if Path(path).name == "site-packages"]
    Path(purelib.stdout.strip(), "shared.pth").write_text(
        "\n".join(shared) + "\n", encoding="utf-8"
    )
    folder = place / "empty"
    folder.mkdir()
    return Installed(wheel, bin_ / "verdict", folder)


def test_the_wheel_holds_every_file_that_the_program_reads(installed):
    files = set(ZipFile(installed.wheel).namelist())
    wanted = {
        f"verdict_cli/{path.relative_to(ROOT).as_posix()}"
        for name in OUTSIDE
        for path in (ROOT / name).rglob("*")
        if path.is_file()
    }
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "verdict_cli").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted | package <= files
    assert not [name for name in files if name.startswith(("tests/", "docs/", "benchmarks/"))]


def test_a_first_session_needs_nothing_but_the_wheel(installed):
    (installed.folder / "answers.csv").write_text(
        "id,answer,label\n1,a,yes\n2,b,no\n", encoding="utf-8"
    )
    columns = ("--columns", "answer", "--target", "label", "--model", "gpt-4o-mini")
    output = installed("init", "answers.csv", "--question", "Is it right?", *columns)
    assert "rows 2 · failed 0" in output
    assert "judge.yaml: valid\ncalls api.openai.com\n" in installed(
        "validate", "judge.yaml", "answers.csv"
    )
    ran = installed(
        "run", "judge.yaml", "answers.csv", "--model", "baseline/lexical", "--out", "run"
    )
    assert "rows 2 · failed 0" in ran
    assert "<html" in (installed.folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "rows 2" in installed("report", "run")


def test_what_comes_with_the_program_is_found(installed):
    assert "rows 5 · failed 0" in installed("init", "--from", "xstest")
    assert "example, which judges" in installed("explain", "JudgeUnit")
    assert len(json.loads(installed("datasets", "list", "--json"))) > 10
    assert "xstest" in installed("datasets", "info", "xstest")
    assert "rows 96" in installed("bench", "xstest", "--model", "baseline/lexical")
    assert json.loads(installed("schema"))["$schema"]
    assert "did you mean 'JudgeUnit'?" in installed("explain", "JugdeUnit", code=2)


def test_the_demo_and_the_names_of_shipped_files_need_nothing_but_the_wheel(
    installed,
):
    assert "✗ failed  safety.precision 0.822" in installed("demo", "--out", "demo")
    assert (installed.folder / "demo" / "judge" / "report.html").is_file()
    ran = installed(
        "run", "xstest", "xstest_sample", "--model", "baseline/lexical", "--out", "named"
    )
    assert "rows 96 · failed 0" in ran


def test_every_command_starts(installed):
    assert installed("--version") == "verdict 0.1.0\n"
    assert installed("python -m verdict_cli", "--version") == "verdict 0.1.0\n"
    for command in ("serve", "view", "rank", "compare"):
        assert "Example" in installed(command, "--help")


def test_the_shell_completes_commands_and_options(installed):
    environ = {"_VERDICT_COMPLETE": "complete_bash", "COMP_WORDS": "verdict exp", "COMP_CWORD": "1"}
    assert installed(env=environ).split() == ["explain", "export"]
    environ = {
        "_VERDICT_COMPLETE": "complete_bash",
        "COMP_WORDS": "verdict run --rep",
        "COMP_CWORD": "2",
    }
    assert "--replay" in installed(env=environ).split()


def test_the_extra_all_has_every_extra_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (every,) = extras["all"]
    assert every == f"verdict-cli[{','.join(sorted(extras.keys() - {'all', 'dev', 'docs'}))}]"


def test_every_dependency_has_its_one_version_in_the_constraints():
    import re

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies = {
        re.split(r"[\[<>=!;~ ]", line)[0].lower().replace("_", "-")
        for lines in (project["dependencies"], *project["optional-dependencies"].values())
        for line in lines
    } - {"verdict-cli"}
    pinned = [
        re.split("==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    assert dependencies - set(pinned) == set()
    assert len(pinned) == len(set(pinned))


def test_every_dependency_has_bounds_and_a_reason():
    import re

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: lines for name, lines in project["optional-dependencies"].items() if name != "all"
    }
    for line in (*project["dependencies"], *(line for lines in extras.values() for line in lines)):
        operators = {bound.operator for bound in Requirement(line).specifier}
        assert operators == {">=", "<"} or Requirement(line).name in {
            "chartkick",
            "jsonschema-rs",
        }, line
    rows = re.findall(
        r"^\| (.+?) \| ", (ROOT / "docs" / "portability.md").read_text(encoding="utf-8"), re.M
    )
    reasons = {name.replace(" -", "opentelemetry-") for row in rows for name in row.split(",")}
    for lines in (
        project["dependencies"],
        *(extras[name] for name in extras if name not in ("dev", "docs")),
    ):
        for line in lines:
            assert Requirement(line).name in {name.strip() for name in reasons} | {
                "chartkick",
                "jsonschema-rs",
            }, line
