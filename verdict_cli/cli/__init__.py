"""The command line: one command a file."""

import os

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Else pydantic looks through every installed package for plugins, which takes as long as reading a pipeline."""
