"""`--untrusted`: what a stranger's pipeline or dataset cannot reach, by attacks on the command and on its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from jsonl import jsonl
from paths import ROOT

from verdict_cli.storage.tables.reader import read_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform == "win32", reason="--untrusted needs the limits of a POSIX system"
    ),
]
JUDGE = "- {unit: JudgeUnit, name: judge, prompt: '%s'}"
LIMITED = """
import sys
from verdict_cli.cli import app
from verdict_cli.features.untrusted import untrusted
untrusted.CPU_S, untrusted.MEMORY_BYTES = {cpu_s}, {memory}
sys.argv = ["verdict", *sys.argv[1:]]
app.main()
"""
CONFINED = """
import ctypes, os, socket, subprocess, sys
from pathlib import Path
from verdict_cli.features.untrusted import untrusted
if {hook}:
    untrusted._restrict_by_kernel = lambda _: False
system = (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/proc/self", "/dev/null")
untrusted.Confinement((*system, "in"), ("out",), (443,), {memory}, 20).apply()
try:
    {attack}
except (OSError, MemoryError, PermissionError) as refused:
    print("refused:", type(refused).__name__)
else:
    print("done")
"""


def ended(process: Any) -> tuple[int, str]:
    """The exit code, and what was said."""
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, out + err


def requests(url: str) -> int:
    with urlopen(f"{url.removesuffix('/v1')}/stats") as answer:
        return int(json.load(answer)["requests"])


def words(
    shell: Any, *more: str, prompt: str = "Rate {source.text}", head: str = "name: u"
) -> list[str]:
    config = shell.write("judge/p.yaml", f"verdict: 1\n{head}\npipeline:\n{JUDGE % prompt}\n")
    return ["run", str(config), str(shell.rows(8)), "--untrusted", "--out", "out", *more]


def test_a_run_gives_what_it_gives_without_it(shell, loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.start())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    command = words(shell, "--model", "openai/m", "--budget", "1", "--no-cache")
    shell.write(
        "judge/p.yaml",
        "verdict: 1\nname: u\nmodel: {name: openai/m, cost: {input_per_million: 1, output_per_million: 1}}\n"
        f"pipeline:\n{JUDGE % 'Rate {source.text}'}\n",
    )
    code, output = ended(shell.start(*command))
    assert code == 0, output
    assert shell("verify", "out").code == 0
    plain = [word for word in command if word != "--untrusted"]
    plain[plain.index("out")] = "plain"
    assert ended(shell.start(*plain))[0] == 0
    tables = [
        list(read_table(shell.folder / name / "results.parquet")) for name in ("out", "plain")
    ]
    judged = [
        [
            {name: values for name, values in batch.items() if "latency" not in name}
            for batch in table
        ]
        for table in tables
    ]
    assert judged[0] == judged[1]


def test_a_budget_is_required(shell):
    done = shell(*words(shell))
    assert (done.code, "--untrusted needs --budget" in done.err) == (2, True)
    assert not (shell.folder / "out").exists()


@pytest.mark.parametrize(
    "more",
    [["--allow-outside"], ["--allow-code", "a.py"], ["--trace"], ["--out", "s3://bucket/run"]],
    ids=lambda more: str(more[0]),
)
def test_options_that_would_let_the_files_have_more_are_refused(more, shell):
    done = shell(*words(shell, "--budget", "1", *more))
    assert (done.code, "cannot be combined" in done.err) == (2, True), done.err


def test_only_hosts_that_the_command_names_are_called(shell, loopback, monkeypatch):
    url = loopback.start()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    models = (
        f"{{name: openai/m, api_base: '{url}'}}",
        f"{{name: hosted_vllm/m, api_base: '{url}'}}",
    )
    for model in (*models, "bedrock/anthropic.claude", f"{{name: replicate/m, api_base: '{url}'}}"):
        command = words(shell, "--budget", "1", head=f"name: u\nmodel: {model}")
        code, output = ended(shell.start(*command))
        assert code == 4 and "--untrusted" in output, (model, output)
    assert requests(url) == 0
    host = url.split("/")[2]
    free = "cost: {input_per_million: 0, output_per_million: 0}"
    command = words(
        shell,
        "--budget",
        "1",
        head=f"name: u\nmodel: {{name: openai/m, api_base: '{url}', {free}}}",
    )
    assert ended(shell.start(*command, "--allow-host", host.partition(":")[0]))[0] == 4
    assert ended(shell.start(*command, "--allow-host", host))[0] == 0
    assert requests(url) == 8


def test_the_process_has_the_key_of_the_named_provider_and_no_other_variable(
    shell, loopback, monkeypatch
):
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.start("--latency-ms", "1500"))
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "MY_BASE_URL",
    ):
        monkeypatch.setenv(name, f"planted-{name}")
    command = words(shell, "--model", "openai/m", "--budget", "1")
    shell.write(
        "judge/p.yaml",
        "verdict: 1\nname: u\nmodel: {name: x, cost: {input_per_million: 1, output_per_million: 1}}\n"
        f"pipeline:\n{JUDGE % 'Rate {source.text}'}\n",
    )
    process = shell.start(*command)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    environ: dict[str, str] = {}
    while process.poll() is None and "VERDICT_ONLY_HOSTS" not in environ:
        for child in children.read_text(encoding="utf-8").split():
            entries = Path(f"/proc/{child}/environ").read_bytes().decode().split("\0")
            environ = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    assert [value for value in environ.values() if value.startswith("planted")] == [
        "planted-OPENAI_API_KEY"
    ]
    assert "PYTHONPATH" not in environ and environ["VERDICT_ONLY_HOSTS"].startswith("127.0.0.1:")
    code, output = ended(process)
    assert code == 0, output


@pytest.mark.parametrize(
    "file", [".git/config", ".env", "../outside.txt", "link.txt", "/etc/hostname"]
)
def test_no_prompt_is_taken_from_a_hidden_file_or_one_outside(file, shell):
    for name in ("judge/.git/config", "judge/.env", "outside.txt"):
        shell.write(name, "the token")
    (shell.folder / "judge" / "link.txt").symlink_to(shell.folder / "outside.txt")
    config = shell.write(
        "judge/p.yaml",
        f"verdict: 1\nname: u\nmodel: baseline/lexical\npipeline:\n- {{unit: JudgeUnit, prompt: {{file: '{file}'}}}}\n",
    )
    code, output = ended(shell.start("validate", config, "--untrusted"))
    assert code == 2 and ("is a hidden file" in output or "is outside" in output), output


@pytest.mark.parametrize("data", ["-", "xstest_sample", "none.jsonl", "data/*.jsonl", "data"])
def test_only_the_folders_of_named_files_are_read(data, shell, monkeypatch):
    from verdict_cli.features.untrusted import untrusted

    rules_of_children: list[Any] = []
    monkeypatch.setattr(
        untrusted, "_run_child", lambda rules, _: rules_of_children.append(rules) or 0
    )
    shell.write("data/d.jsonl", '{"text": "a"}')
    config = shell.write("judge/p.yaml", "")
    assert shell("validate", config, data, "--untrusted").code == 0
    folders = {
        str(Path(path).relative_to(shell.folder))
        for path in rules_of_children[0].read
        if path.startswith(str(shell.folder))
    }
    assert folders == ({"judge", "data"} if data.startswith("data") else {"judge"})
    assert not (shell.folder / "runs").exists()
    assert not [path for path in rules_of_children[0].write if Path(path) == shell.folder]


def test_a_module_in_the_working_directory_is_not_imported(shell, monkeypatch):
    monkeypatch.setenv(
        "PYTHONSAFEPATH", "1"
    )  # as with the command `verdict`, which does not import from there
    for name in ("yaml", "orjson", "sitecustomize", "usercustomize"):
        shell.write(f"{name}.py", "open('imported', 'w').close()")
    code, output = ended(
        shell.start(*words(shell, "--budget", "1", head="name: u\nmodel: baseline/lexical"))
    )
    assert code == 0, output
    assert not (shell.folder / "imported").exists()


def test_no_installed_package_is_looked_up(monkeypatch):
    import importlib.metadata

    from verdict_cli.language.units import TYPES

    monkeypatch.setenv("VERDICT_ONLY_HOSTS", "")
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **_: pytest.fail("it was looked up")
    )
    assert TYPES.get("StrangersUnit") is None


def test_a_bomb_of_processor_time_ends_the_process_and_is_reported(shell):
    config = shell.write(
        "p.yaml",
        "verdict: 1\nname: u\nmodel: baseline/echo\npipeline:\n- unit: JudgeUnit\n  prompt: '{source.text}'\n"
        "  extract: {type: regex, pattern: '(a|aa)+$'}\n",
    )
    data = shell.write(
        "d.jsonl",
        jsonl({"text": f"{row} " + "a" * 200 + "b"} for row in range(40)),
    )
    code, output = ended(
        limited(shell, "run", config, data, "--untrusted", "--budget", "1", "--out", "out", cpu_s=3)
    )
    assert (
        code == 2 and "took more than the 3 s of processor time that --untrusted allows" in output
    ), output


def test_a_bomb_of_memory_is_reported(shell):
    import pyarrow as pa
    import pyarrow.parquet

    data = shell.folder / "d.parquet"  # some MB on the disk, 2 GB in memory
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), ["a" * 50_000_000])
    pyarrow.parquet.write_table(pa.table({"text": words}), data)
    assert data.stat().st_size < 10_000_000
    config = shell.config(JUDGE % "Rate {source.text}")
    command = ["run", str(config), str(data), "--untrusted", "--budget", "1", "--out", "out"]
    code, output = ended(limited(shell, *command, memory=1500 << 20))
    assert code == 2 and "memory" in output, output


def limited(shell: Any, *arguments: str | Path, cpu_s: int = 60, memory: int = 4 << 30) -> Any:
    """The command, with other limits."""
    process = subprocess.Popen(
        [sys.executable, "-c", LIMITED.format(cpu_s=cpu_s, memory=memory), *map(str, arguments)],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    shell.processes.append(process)
    return process


ATTACKS = {
    "Path('secret').read_text()": "PermissionError",
    "Path('in/link').read_text()": "PermissionError",
    "Path('in/new').write_text('x')": "PermissionError",
    "Path('new').write_text('x')": "PermissionError",
    "Path(f'/proc/{os.getppid()}/environ').read_bytes()": "PermissionError",
    "subprocess.run(['true'])": "PermissionError",
    "os.system('true')": "PermissionError",
    "socket.create_connection(('127.0.0.1', 9))": "PermissionError",
    "socket.getaddrinfo('example.org', 443)": "PermissionError",
    "bytearray(2 << 30)": "MemoryError",
}
NATIVE = {
    "import pyarrow.csv; pyarrow.csv.read_csv('secret')": "PermissionError",
    "import pyarrow; pyarrow.OSFile('new', 'wb')": "PermissionError",
    "ctypes.CDLL(None).fopen(b'secret', b'r') or open('secret')": "PermissionError",
}


def attacked(folder: Path, attack: str, *, hook: bool) -> str:
    """What came of Python code in a confined process."""
    for name in ("in", "out"):
        (folder / name).mkdir()
    (folder / "secret").write_text("a,b\n1,2\n")
    (folder / "in" / "link").symlink_to(folder / "secret")
    (folder / "in" / "data").write_text("x")
    code = CONFINED.format(hook=hook, memory=1 << 30, attack=attack)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("hook", [False, True], ids=["kernel", "audit hook"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_the_process_may_not_do_is_refused(attack, hook, tmp_path):
    assert attacked(tmp_path, attack, hook=hook) == f"refused: {ATTACKS[attack]}\n"


@pytest.mark.parametrize("hook", [False, True], ids=["kernel", "audit hook"])
def test_what_the_process_may_do_works(hook, tmp_path):
    attack = "Path('in/data').read_text(); Path('out/a').mkdir(); Path('out/a/b').write_text('x')"
    assert attacked(tmp_path, attack, hook=hook) == "done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's rules are Linux's")
@pytest.mark.parametrize("attack", NATIVE)
def test_the_kernel_refuses_what_native_code_opens(attack, tmp_path):
    output = attacked(tmp_path, attack, hook=False)
    if "done" in output:
        pytest.skip("this kernel has no Landlock")
    assert output == f"refused: {NATIVE[attack]}\n"


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_s2_a_run_directory_that_exists_is_refused_whatever_replies_it_brings(kind, shell):
    config = shell.write(
        "p.yaml",
        "verdict: 1\nname: t\nmodel: baseline/lexical\npipeline:\n- {unit: JudgeUnit, name: j, prompt: 'Rate {source.text}'}\n",
    )
    brought = shell.folder / "brought"
    assert shell("run", config, shell.rows(3), "--out", "brought").code == 0
    if kind == "link":
        (shell.folder / "out").symlink_to(brought)
    out = "brought" if kind == "directory" else "out"
    done = shell("run", config, "data.jsonl", "--untrusted", "--budget", "1", "--out", out)
    assert (done.code, "--untrusted starts a new run" in done.err) == (2, True), done.err
    fresh = shell("run", config, "data.jsonl", "--untrusted", "--budget", "1", "--out", "new")
    assert fresh.code == 0, fresh.err
