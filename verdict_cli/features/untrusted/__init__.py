"""A stranger's pipeline in a confined process: `--untrusted`."""

from verdict_cli.registry import Entry

_OPTION = {"untrusted": Entry("options.UntrustedOption")}
PARTS = {"run_options": _OPTION, "validate_options": _OPTION, "gate_options": _OPTION}
