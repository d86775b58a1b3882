"""A first pipeline for somebody's own data: `verdict init`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "init": PartSpec(
            "command.init",
            "Write a first pipeline for your own data, and try it.",
            "Commands",
            before="run",
        )
    }
}
