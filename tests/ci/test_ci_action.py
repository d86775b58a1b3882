"""The GitHub action and the examples: what they name exists, and their shell steps do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT
from typer.testing import CliRunner

from verdict_cli.cli.app import COMMANDS, app

pytestmark = pytest.mark.slow  # `make test-all`


ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SHELL = {name: step["run"] for name, step in STEPS.items() if "run" in step}
BASH = shutil.which("bash")
GATES = "gates:\n  - {metric: safety.accuracy, min: LIMIT}\n"
GH = """#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
folder = os.environ["FAKE"]
with open(os.path.join(folder, "asked"), "a") as log:
    log.write(json.dumps(arguments) + "\\n")
assert arguments[0] == "api"
if os.path.exists(os.path.join(folder, "refuse")):
    sys.exit("HTTP 403")
if "--jq" in arguments:
    assert "startswith(env.MARK)" in arguments[arguments.index("--jq") + 1]
    comments = json.load(open(os.path.join(folder, "comments")))
    print("\\n".join(str(one["id"]) for one in comments if one["body"].startswith(os.environ["MARK"])))
else:
    (body,) = [each for each in arguments if each.startswith("body=@")]
    with open(os.path.join(folder, "body"), "w") as kept:
        kept.write(open(body[6:]).read())
"""


def test_every_input_is_used_and_every_one_that_is_used_is_declared():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\binputs\.([a-z-]+)", text)) == set(ACTION["inputs"])
    assert all(declared["description"] for declared in ACTION["inputs"].values())


@pytest.mark.parametrize("name", SHELL)
def test_no_script_holds_what_github_would_write_into_it(name):
    script = SHELL[name]
    assert "${{" not in script
    passed = set(STEPS[name].get("env", {}))
    assigned = set(re.findall(r"\b([A-Za-z_]+)=", script)) | {"word", "words"}
    variables = set(re.findall(r"\$\{?([A-Za-z_]+)", script))
    assert variables - assigned - {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} <= passed


@pytest.mark.parametrize("name", SHELL)
def test_every_script_is_bash(name):
    if BASH is None:
        pytest.skip("there is no bash")
    done = subprocess.run(
        [BASH, "-n"], input=SHELL[name], text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text", [SHELL["Judge"], (ROOT / "examples" / "gitlab-ci.yml").read_text(encoding="utf-8")]
)
def test_the_options_are_those_of_the_commands(text):
    lines = [line for line in text.splitlines() if "--" in line and "pip" not in line]
    commands = re.findall(r"(?:verdict |words=\(|gate=\()([a-z]+) ", text)
    assert commands and set(commands) <= set(COMMANDS.names())
    help_texts = "".join(CliRunner().invoke(app, [name, "--help"]).stdout for name in set(commands))
    for option in re.findall(r"(--[a-z-]+)", "\n".join(lines)):
        assert option in help_texts, option


@dataclass
class Job:
    """A runner's environment, and steps run in it as GitHub runs them."""

    folder: Path
    log: str = ""

    def run(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        assert BASH is not None
        bin_ = self.folder / "bin"
        return subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", SHELL[name]],
            cwd=self.folder,
            env={
                "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.folder),
                "PYTHONPATH": str(ROOT),
                "FAKE": str(self.folder),
                "GITHUB_OUTPUT": str(self.folder / "output"),
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
                "VERDICT_CACHE_DIR": str(self.folder / "cache"),
                **environment,
            },
            text=True,
            capture_output=True,
            check=False,
        )

    def judge(
        self,
        gates: str = "",
        arguments: str = "",
        data: str = "",
        event: str = "push",
        budget: str = "",
        out: str = "out dir",
        model: str = "baseline/lexical",
    ) -> dict[str, str]:
        """What the step puts out."""
        (self.folder / "output").unlink(missing_ok=True)
        done = self.run(
            "Judge",
            CONFIG=str(ROOT / "configs" / "xstest.yaml"),
            DATA=data or str(ROOT / "datasets" / "xstest_sample.jsonl"),
            MODEL=model,
            BUDGET=budget,
            UNTRUSTED="auto",
            EVENT=event,
            GATES=gates,
            INCONCLUSIVE="fail",
            ARGUMENTS=arguments,
            OUT=out,
        )
        self.log = done.stdout
        assert done.returncode == 0, done.stderr
        lines = (self.folder / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def requests(self) -> list[list[str]]:
        """The calls of `gh`."""
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    if BASH is None:
        pytest.skip("there is no bash")
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "verdict": f'#!{BASH}\nexec {shlex.quote(sys.executable)} -m verdict_cli "$@"\n',
        "gh": GH.replace("/usr/bin/env python3", sys.executable),
        "python": f'#!{BASH}\nprintf "%s\\n" "$*" >> "$FAKE/python"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return Job(tmp_path)


def test_it_judges_writes_the_summary_once_and_says_whether_all_passed(job):
    passed = {"exit-code": "0", "passed": "true", "reports": "out dir"}
    assert job.judge(arguments="--limit=5\n\n--seed=3") == passed
    assert {"report.html", "report.md", "report.json", "junit.xml"} <= {
        path.name for path in (job.folder / "out dir").iterdir()
    }
    facts = json.loads((job.folder / "out dir" / "run.json").read_text())
    assert (facts["rows"], facts["seed"]) == (5, 3)
    gates = job.folder / "gates.yaml"
    gates.write_text(GATES.replace("LIMIT", "0.9"))
    (job.folder / "summary").unlink()
    failed = job.judge(gates=str(gates), arguments="--limit=5\n--seed=3", out="second")
    assert failed == {"exit-code": "1", "passed": "false", "reports": "second"}
    summary = (job.folder / "summary").read_text()
    assert ("safety.accuracy" in summary, summary.count("# xstest")) == (True, 1)


def test_a_mistake_in_the_inputs_is_the_exit_code(job):
    assert job.judge(data="none.jsonl") == {"exit-code": "2", "passed": "false"}
    assert job.run("Pass or fail", CODE="2").returncode == 2
    assert job.run("Pass or fail", CODE="0").returncode == 0
    assert job.run("Pass or fail", CODE="").returncode == 1


@pytest.mark.skipif(
    sys.platform == "win32", reason="--untrusted needs the limits of a POSIX system"
)
@pytest.mark.parametrize("event", ["pull_request", "pull_request_target"])
def test_a_pull_request_is_judged_as_untrusted(job, event):
    assert job.judge(event=event)["exit-code"] == "2"
    gates = job.folder / "gates.yaml"
    gates.write_text(GATES.replace("LIMIT", "0.9"))
    (job.folder / "bin" / "verdict").write_text(
        f'#!{BASH}\necho "$*" >> "$FAKE/called"\nexec {shlex.quote(sys.executable)} -m verdict_cli "$@"\n'
    )
    assert job.judge(event=event, budget="1", gates=str(gates), out="gated")["exit-code"] == "1"
    called = (job.folder / "called").read_text().splitlines()
    assert [line.split()[0] for line in called] == ["run", "gate"] and all(
        "--untrusted" in line for line in called
    )
    assert "# xstest" in (job.folder / "summary").read_text()


def comment(job: Job) -> subprocess.CompletedProcess[str]:
    return job.run(
        "Comment on the pull request",
        REPOSITORY="o/r",
        NUMBER="7",
        MARK="<!-- verdict a -->",
        OUT="out",
        GH_TOKEN="t",
    )


def test_the_comment_is_written_once_and_then_updated(job):
    assert comment(job).returncode == 0
    assert not (job.folder / "asked").exists()
    (job.folder / "out").mkdir()
    (job.folder / "out" / "report.md").write_text("# figures `$(touch broken)`\n")
    (job.folder / "comments").write_text('[{"id": 1, "body": "<!-- verdict b -->"}]')
    assert comment(job).returncode == 0
    assert job.requests()[-1][:4] == ["api", "--method", "POST", "repos/o/r/issues/7/comments"]
    assert (job.folder / "body").read_text() == "<!-- verdict a -->\n# figures `$(touch broken)`\n"
    comments = [{"id": number, "body": "<!-- verdict a -->\nold"} for number in (5, 6)]
    (job.folder / "comments").write_text(json.dumps(comments))
    assert comment(job).returncode == 0
    assert job.requests()[-1][:4] == ["api", "--method", "PATCH", "repos/o/r/issues/comments/5"]
    assert not (job.folder / "broken").exists()


def test_a_comment_that_may_not_be_written_is_a_warning(job):
    (job.folder / "out").mkdir()
    (job.folder / "out" / "report.md").write_text("# figures\n")
    (job.folder / "refuse").touch()
    done = comment(job)
    assert (done.returncode, "::warning::" in done.stdout) == (0, True)


def test_it_installs_its_own_checkout(job):
    assert job.run("Install", SOURCE="/somewhere/action").returncode == 0
    assert (job.folder / "python").read_text().split()[-1] == "/somewhere/action"


def test_the_examples_name_what_is_there():
    workflow = yaml.safe_load(
        (ROOT / "examples" / "github-workflow.yml").read_text(encoding="utf-8")
    )
    step = workflow["jobs"]["judge"]["steps"][-1]
    assert re.fullmatch(r"OWNER/verdict-cli@v\d+\.\d+\.\d+", step["uses"])
    inputs: dict[str, Any] = step["with"]
    assert set(inputs) <= set(ACTION["inputs"])
    assert {name for name, declared in ACTION["inputs"].items() if declared.get("required")} <= set(
        inputs
    )
    gitlab = yaml.safe_load((ROOT / "examples" / "gitlab-ci.yml").read_text(encoding="utf-8"))
    line = next(line for line in gitlab["judge"]["script"] if line.startswith("verdict run"))
    for path in (inputs["config"], inputs["data"], *shlex.split(line)[2:4]):
        assert (ROOT / path).exists()
    assert gitlab["judge"]["artifacts"]["reports"]["junit"] == "verdict-run/junit.xml"


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_fc13_a_red_build_says_what_failed_for_each_exit_code(code, job):
    message = "judge.yaml:7:3: first, with 100%\\n    second\\n"
    (job.folder / "bin" / "verdict").write_text(
        f"#!{BASH}\nprintf '{message.replace('%', '%%')}' >&2\nexit {code}\n"
    )
    assert job.judge()["exit-code"] == str(code)
    assert job.run("Pass or fail", CODE=str(code)).returncode == code
    errors = [line for line in job.log.splitlines() if line.startswith("::error ")]
    if code == 0:
        assert (errors, (job.folder / "summary").exists()) == ([], False)
        return
    (error,) = errors
    assert f"title=verdict%3A exit {code},file=judge.yaml,line=7::" in error
    assert "first, with 100%25%0A    second" in error
    assert "second" in (job.folder / "summary").read_text()


def test_s1_a_run_directory_that_exists_or_is_a_link_is_refused_and_nothing_is_posted(
    job,
):
    secret = job.folder / "secret"
    secret.write_text("the key")
    (job.folder / "brought").mkdir()
    (job.folder / "brought" / "report.md").symlink_to(secret)
    (job.folder / "dangling").symlink_to("nowhere")
    for out in ("brought", "dangling"):
        assert job.judge(out=out) == {"exit-code": "2", "passed": "false"}
    posted = job.run(
        "Comment on the pull request",
        REPOSITORY="o/r",
        NUMBER="7",
        MARK="m",
        OUT="brought",
        GH_TOKEN="t",
    )
    assert (posted.returncode, (job.folder / "asked").exists()) == (0, False)


def test_s1_later_steps_take_the_run_in_the_runners_folder_from_the_judge_step():
    assert STEPS["Judge"]["env"]["OUT"].startswith("${{ runner.temp }}/")
    assert (
        STEPS["Comment on the pull request"]["env"]["OUT"] == "${{ steps.judge.outputs.reports }}"
    )
    paths = STEPS["Upload the reports"]["with"]["path"].split("\n")
    assert all(path.startswith("${{ steps.judge.outputs.reports }}/") for path in paths if path)


def test_s2_a_pull_request_never_saves_a_cache_that_main_restores():
    save, restore = (
        STEPS[name]["with"] for name in ("Save the reply cache", "Restore cached replies")
    )
    assert save["key"] == restore["key"] and "|| 'verdict-pull' }}-" in save["key"]
    assert "pull_request" not in save["key"] and "workflow_run" not in save["key"]
    assert restore["restore-keys"] == "verdict-${{ runner.os }}-"


def test_s1_no_module_of_the_checkout_is_imported_by_the_installation():
    assert SHELL["Install"].startswith("# ") or SHELL["Install"].startswith("python -I -m pip ")


def test_fc14_the_example_is_red_with_a_judge_that_guesses(job):
    workflow = yaml.safe_load(
        (ROOT / "examples" / "github-workflow.yml").read_text(encoding="utf-8")
    )
    gates = ROOT / workflow["jobs"]["judge"]["steps"][-1]["with"]["gates"]
    assert job.judge(gates=str(gates), model="baseline/random")["exit-code"] == "1"
    (error,) = [line for line in job.log.splitlines() if line.startswith("::error ")]
    assert "the gate failed: safety.accuracy" in error and "&#" not in error


def test_fc15_a_push_warns_of_what_a_pull_request_would_lack(job):
    job.judge(arguments="--limit=5")
    assert "::warning::" in job.log and "budget" in job.log
    job.judge(arguments="--limit=5", budget="1", out="second")
    assert "::warning::" not in job.log
