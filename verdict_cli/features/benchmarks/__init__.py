"""Data cards, downloads, recorded judges and the paper's tables: `verdict bench`, `datasets`, `reproduce`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {
        "bench": Entry(
            "bench_command.bench", "Judge a benchmark, or reproduce published results.", "Benchmarks and data"
        ),
        "datasets": Entry(
            "datasets_command.app", "List, download, import and check benchmarks.", "Benchmarks and data"
        ),
        "reproduce": Entry(
            "reproduce_command.reproduce", "Reproduce the paper's tables 1 to 3.", "Benchmarks and data"
        ),
    },
    "schemas": {"card": Entry("card.Card")},
    "data_sources": {"hf": Entry("hub_cache.hub_dataset")},
    "named_runs": {"benchmark": Entry("data_dir.benchmark_run")},
}
