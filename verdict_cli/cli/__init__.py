"""The command line: one command a file."""

import gc
import os

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Else pydantic looks through every installed package for plugins, which takes as long as reading a pipeline."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Else numpy starts a thread for each processor, which only ever waits, and spins while it does."""

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Else Arrow's tables take a fifth more memory, and their pages are cleared again and again."""

gc.set_threshold(50_000, 20, 100)
"""Reading a pipeline makes classes, not garbage, and a run hardly any cycles: looking for them took a quarter of its time."""
