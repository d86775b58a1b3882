"""Files for the world outside: the container, the citation, the CI matrix."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any

import yaml
from paths import ROOT

from verdict_cli import __version__


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_container_copies_what_exists_and_what_the_build_needs():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M)
        for word in shlex.split(line)[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    needed = {*included, "verdict_cli", "pyproject.toml", "README.md", "LICENSE"}
    assert needed <= set(copied)
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} <= set(patterns)
    assert re.search(r"^USER (?!root)", text, re.M)


def test_the_container_has_no_root_and_checks_the_health_of_its_server():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    final = text[text.rindex("FROM ") :]
    users = [int(number) for number in re.findall(r"^USER (\d+):\d+$", final, re.M)]
    assert users and users[-1] > 0
    assert "RUN" not in final[final.index("USER") :]
    (words,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", final, re.M)
    program, option, code = json.loads(words)
    assert (program, option) == ("python", "-c")
    compile(code, "healthcheck", "exec")
    port, path = re.findall(r"127\.0\.0\.1:(\d+)(/[a-z/]+)", code)[0]
    served = (ROOT / "verdict_cli" / "features" / "server" / "app.py").read_text(encoding="utf-8")
    assert f'@app.get("{path}"' in served and f"EXPOSE {port}" in final


def test_every_action_is_pinned_by_its_commit():
    files = [ROOT / "action.yml", ROOT / "examples" / "github-workflow.yml"]
    for file in [*files, *(ROOT / ".github" / "workflows").iterdir()]:
        for used in re.findall(r"uses: *(.*)$", file.read_text(encoding="utf-8"), re.M):
            # The action's own release is named by its tag.
            if not used.startswith("OWNER/verdict-cli@v"):
                assert re.fullmatch(r"[a-z/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", used), used


def test_the_security_policy_says_what_a_report_needs():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for part in ("What happens", "Who can do it", "How", "With what", "docs/security.md"):
        assert part in text


def test_the_citation_names_the_version_and_the_paper_s_authors():
    cited = read("CITATION.cff")
    assert cited["version"] == __version__
    authors = cited["preferred-citation"]["authors"]
    assert [author["family-names"] for author in authors] == ["Kalra", "Tang"]


def test_the_workflow_runs_what_ci_runs_on_every_system_and_python():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert jobs["check"]["steps"][-1]["run"] == "bash .ci/run"
    assert jobs["systems"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    assert jobs["systems"]["steps"][-1]["run"] == "make test"


def test_the_changelog_has_a_section_for_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## (Unreleased|{re.escape(__version__)})", text, re.M)
    assert f"## {__version__}" in text


def test_every_file_of_the_project_is_read_as_utf_8():
    """What ruff's rule cannot see: texts of processes."""
    places = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "verdict_cli").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\b(text|universal_newlines)=True", line) and "encoding=" not in line
    ]
    assert places == []
