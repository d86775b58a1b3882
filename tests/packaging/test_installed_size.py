"""What an installation takes, and what is left of it where models of other providers are not called.

Installs the project and its requirements from the package index into a new environment, which takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import venv
from pathlib import Path

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow  # `make test-all`

# Of a new environment with the versions of constraints.txt: megabytes of files without bytecode, and packages beside verdict;
# then without what the line of docs/portability.md removes. What was measured is in docs/portability.md.
CEILINGS = {
    "installed_mb": 665,
    "installed_packages": 80,
    "installed_mb_without_litellm": 475,
    "installed_packages_without_litellm": 40,
}
_LINE = re.compile(r"&& pip uninstall --yes ([^`]*)```")


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """What a command prints; it must end well."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VERDICT_"))
    }
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which only the project is installed."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=True, symlinks=os.name != "nt")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile")
    constraints = ("--constraint", ROOT / "constraints.txt")
    done = subprocess.run([*pip, *constraints, ROOT], capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" in done.stderr + done.stdout:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    return python


def size(python: Path) -> tuple[float, int]:
    """Megabytes of the environment's packages without bytecode, and their number, without pip and what came with it."""
    folder = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    files = (path for path in Path(folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
    tools = {"pip", "setuptools", "wheel", "verdict-cli"}
    listed = json.loads(
        run(python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json")
    )
    return sum(path.stat().st_size for path in files) / 1e6, len(
        {package["name"] for package in listed} - tools
    )


def test_an_installation_is_below_its_ceilings_and_works_without_litellms_packages(
    python, tmp_path
):
    megabytes, packages = size(python)
    assert megabytes <= CEILINGS["installed_mb"]
    assert packages <= CEILINGS["installed_packages"]
    packages_line = _LINE.search((ROOT / "docs" / "portability.md").read_text(encoding="utf-8"))
    assert packages_line is not None
    run(python, "-m", "pip", "uninstall", "--yes", *packages_line[1].replace("\\", "").split())
    megabytes, packages = size(python)
    assert megabytes <= CEILINGS["installed_mb_without_litellm"]
    assert packages <= CEILINGS["installed_packages_without_litellm"]
    verdict = (python, "-m", "verdict_cli")
    run(*verdict, "demo", "--out", "demo", folder=tmp_path)
    run(
        *verdict,
        "run",
        "xstest",
        "xstest_sample",
        "--model",
        "baseline/lexical",
        "--quiet",
        folder=tmp_path,
    )
