"""Take the pictures of docs/images from `verdict demo`, the viewer and a queue of rows to label.

`python docs/tools/screenshots.py` writes them; `make screenshots` runs it. It needs Chromium and Playwright (extra `dev`). A page
that shows an error, or loads anything from the network, stops it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH, TALLEST = 1200, 1000
"""Pixels of a picture. A shorter page gives a shorter picture."""
SEED = "5"
"""Of the queue's draw."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
VERDICT = (sys.executable, "-m", "verdict_cli")


def main() -> None:
    """Make the runs, then one picture of each page."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        sys.exit("there is no Chromium: `make browser` installs it where apt can")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verdict-") as folder, sync_playwright() as playwright:
        runs = Path(folder) / "runs"
        run("demo", "--out", runs / "demo", folder=Path(folder))
        run(
            "queue",
            runs / "demo" / "judge",
            "--n",
            "20",
            "--choose",
            "stratified",
            "--by",
            "source.type",
            "--seed",
            SEED,
            folder=Path(folder),
        )
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        context = browser.new_context(
            viewport={"width": WIDTH, "height": TALLEST},
            color_scheme="light",
            reduced_motion="reduce",
            locale="en-GB",
        )
        take(
            context,
            "report",
            (runs / "demo" / "judge" / "report.html").as_uri(),
            "table.rows tbody tr",
        )
        with viewer(runs, "--as", "ann") as address:
            judge, baseline = quote("demo/judge", safe=""), quote("demo/baseline", safe="")
            take(context, "viewer-runs", f"{address}/", "table tbody tr")
            take(context, "viewer-run", f"{address}/run?run={judge}", "table tbody tr")
            take(
                context,
                "viewer-compare",
                f"{address}/compare?a={baseline}&b={judge}",
                "table tbody tr",
            )
            take(context, "viewer-queue", f"{address}/queue?run={judge}", "button")
        browser.close()


def run(*arguments: str | Path, folder: Path) -> None:
    """Run a command of verdict. Exits with its output where it fails."""
    done = subprocess.run(
        [*VERDICT, *map(str, arguments)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"verdict {arguments[0]} failed: {done.stderr}")


def environment() -> dict[str, str]:
    """This environment without keys, so that the demo's output does not depend on them."""
    return {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")} | {
        "PYTHONPATH": str(ROOT)
    }


@contextmanager
def viewer(runs: Path, *options: str) -> Iterator[str]:
    """The address of a viewer over the runs, until the end of the block."""
    command = [*VERDICT, "view", runs.name, "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=runs.parent, env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if ": serving at " not in line:
            sys.exit(f"verdict view did not start: {line}")
        yield line.split(": serving at ")[1].split()[0].rstrip("/")
    finally:
        process.terminate()
        process.communicate()


def take(context: Any, name: str, address: str, wait: str) -> None:
    """Write `docs/images/NAME.png`: the top of the page, once the selector is there and nothing is loading."""
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(request.url))
    page.goto(address)
    page.locator(f"{wait} >> visible=true").first.wait_for(timeout=20_000)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(300)  # charts are drawn in the next frames
    if faults:
        sys.exit(f"{name}: {faults}")
    end = page.evaluate(
        "Math.max(...[...document.querySelectorAll('main, body > *')].map((e) => e.getBoundingClientRect().bottom))"
    )
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": min(TALLEST, round(end) + 24)}
    page.screenshot(path=IMAGES / f"{name}.png", clip=clip, animations="disabled", caret="hide")
    page.close()
    sys.stdout.write(f"docs/images/{name}.png\n")


if __name__ == "__main__":
    main()
