"""One part of fuzz.py under atheris, which looks for inputs that reach new code: fuzz_guided.py PART SECONDS."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["verdict_cli", "yaml", "jinja2"], enable_loader_override=False
):
    import fuzz


def main() -> None:
    """Ends the process by itself when the time is up: libFuzzer never returns."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    seeds, words = fuzz.CORPORA[name]
    folder = Path(tempfile.mkdtemp())
    (folder / "corpus").mkdir()
    for place, seed in enumerate(seeds):
        (folder / "corpus" / str(place)).write_bytes(seed)
    quoted = ("".join(f"\\x{letter:02x}" for letter in word) for word in words if word)
    (folder / "words").write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")
    watch = fuzz.Watch(name, seconds)

    def one(content: bytes) -> None:
        if watch.over:
            held = watch.held()
            shutil.rmtree(folder)
            sys.stdout.flush()
            os._exit(not held)
        if name != "scales":
            watch.give(content)
        else:
            with contextlib.suppress(ValueError, RecursionError):
                watch.give(json.loads(content))

    flags = [
        f"-dict={folder / 'words'}",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-max_len=8192",
        "-verbosity=0",
    ]
    flags.append(f"-artifact_prefix={folder}/")
    atheris.Setup([sys.argv[0], *flags, str(folder / "corpus")], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
