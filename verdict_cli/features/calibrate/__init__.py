"""Fit a judge's probabilities, weights or threshold to labelled rows: `verdict calibrate`."""

from verdict_cli.registry import PartSpec

PARTS = {
    "commands": {
        "calibrate": PartSpec(
            "command.calibrate", "Fit a judge to the labelled rows of a run.", "Study a judge"
        )
    }
}
