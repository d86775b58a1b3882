"""The charting library, Chart.js, as an installed package has it, and the licences that go with it."""

from __future__ import annotations

from importlib.resources import files

_SCRIPT = "django/static/chartkick/Chart.bundle.js"
_LICENCES = ("chart.js", "kurkle-color", "chartjs-adapter-date-fns", "date-fns")


def chart_script() -> str:
    """The library's text."""
    return files("chartkick").joinpath(_SCRIPT).read_text("utf-8")


def licences() -> str:
    """The notices of everything in it."""
    folder = files("chartkick").joinpath("licenses")
    return "\n\n".join(
        f"{name}\n{folder.joinpath(f'LICENSE-{name}.txt').read_text('utf-8').strip()}" for name in _LICENCES
    )
