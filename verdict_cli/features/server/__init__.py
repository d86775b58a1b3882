"""A judge over HTTP: `verdict serve`."""

from verdict_cli.registry import Entry

PARTS = {
    "commands": {"serve": Entry("command.serve", "Serve a judge over HTTP: verdicts, rewards, batches.", "Judge live")}
}
