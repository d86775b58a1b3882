"""`verdict serve`: what it refuses before it listens."""

import re
import socket
import sys
import tomllib

STEPS = "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}"


def test_another_address_needs_a_token(shell, monkeypatch):
    monkeypatch.delenv("VERDICT_TOKEN", raising=False)
    done = shell("serve", shell.config(STEPS), "--host", "0.0.0.0")
    assert (done.code, "there is no token" in done.err and "set VERDICT_TOKEN" in done.err) == (
        2,
        True,
    )


def test_serve_and_view_need_no_extra(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {
        re.split(r"[<>=]", line)[0].replace("-", "_").lower() for line in project["dependencies"]
    }
    imports = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    folders = [root / "verdict_cli" / "features" / name for name in ("guard", "server", "viewer")]
    sources = [
        path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")
    ]
    imported = {name for source in sources for name in imports.findall(source)} - set(
        sys.stdlib_module_names
    )
    assert {"fastapi", "starlette", "uvicorn"} <= imported
    of_starlette = {"anyio"}
    assert imported - installed - of_starlette == {"verdict_cli"}


def test_an_address_in_use_and_a_wrong_rule_are_reported(shell):
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = str(occupied.getsockname()[1])
        done = shell("serve", shell.config(STEPS), "--port", port)
        assert (done.code, "cannot listen on" in done.err) == (2, True)
    done = shell("serve", shell.config(STEPS), "--port", "0", "--accept", "output.scor > 1")
    assert (done.code, "--accept `output.scor > 1`: output has no field 'scor'" in done.err) == (
        2,
        True,
    )
