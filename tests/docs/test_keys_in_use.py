"""Each key of the language is written in a shipped configuration or on a page."""

import subprocess
import sys

from paths import ROOT

SCRIPT = ROOT / "docs" / "tools" / "unused_keys.py"


def test_each_key_has_an_example():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "", "write an example of these keys on a page of docs/"
