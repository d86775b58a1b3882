"""`verdict serve`: what it refuses before it listens."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest

STEPS = "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}"


def test_another_address_needs_a_token(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn")
    monkeypatch.delenv("VERDICT_TOKEN", raising=False)
    done = shell("serve", shell.config(STEPS), "--host", "0.0.0.0")
    assert (done.code, "there is no token" in done.err and "set VERDICT_TOKEN" in done.err) == (2, True)


def test_without_the_extra_it_says_how_to_install_it(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("verdict_cli.http.api")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = shell("serve", shell.config(STEPS))
    assert (done.code, "pip install '.[serve]'" in done.err) == (2, True)


def test_an_address_that_is_taken_and_a_wrong_rule_are_told(shell: Any) -> None:
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = shell("serve", shell.config(STEPS), "--port", port)
        assert (done.code, "cannot listen on" in done.err) == (2, True)
    done = shell("serve", shell.config(STEPS), "--port", "0", "--accept", "output.scor > 1")
    assert (done.code, "--accept `output.scor > 1`: output has no field 'scor'" in done.err) == (2, True)
