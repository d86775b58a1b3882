"""The command line."""

import gc
import os

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Otherwise pydantic searches every installed package for plugins, which takes as long as reading a pipeline."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Otherwise numpy starts a thread per processor. The threads get no work here, and spin while they wait."""

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Arrow's own pool needs a fifth more memory for tables, and clears pages again and again."""

gc.set_threshold(200_000, 20, 100)
"""Reading a pipeline creates classes, not garbage, and a run creates few cycles. A collection visits all that is new, and takes
20 to 40 ms of a run's time after its first 50,000 objects."""
