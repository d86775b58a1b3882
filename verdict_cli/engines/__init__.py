"""Engines run a plan over a dataset."""

from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.job import Job, Stop
from verdict_cli.engines.local import run, run_part
from verdict_cli.engines.part import Part, PartDone, join
from verdict_cli.engines.tally import Progress

__all__ = ["Job", "Part", "PartDone", "Progress", "RunDirectory", "Stop", "join", "run", "run_part"]
