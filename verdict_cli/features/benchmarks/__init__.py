"""Data cards, downloads, recorded judges and the paper's tables: `verdict bench`, `datasets`, `reproduce`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "bench": PartSpec(
            "bench_command.bench",
            "Judge a benchmark, or reproduce published results.",
            "Benchmarks and data",
        ),
        "datasets": PartSpec(
            "datasets_command.app",
            "List, download, import and check benchmarks.",
            "Benchmarks and data",
        ),
        "reproduce": PartSpec(
            "reproduce_command.reproduce",
            "Reproduce the paper's tables and figure 3.",
            "Benchmarks and data",
        ),
    },
}
