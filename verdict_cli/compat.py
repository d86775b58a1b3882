"""The names of haizelabs' library (PyPI `verdict` 0.2.7): `from verdict_cli.compat import …` runs code written for it."""

from verdict_cli.features.compat.names import *  # noqa: F403
