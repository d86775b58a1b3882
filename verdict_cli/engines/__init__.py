"""Engines run a plan over a dataset."""

from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.job import Job, Stop
from verdict_cli.engines.local import run
from verdict_cli.engines.tally import Progress

__all__ = ["Job", "Progress", "RunDirectory", "Stop", "run"]
