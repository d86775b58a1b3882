"""A stranger's pipeline in a confined process: `--untrusted`."""

from verdict_cli.registry import PartSpec

_OPTION = {"untrusted": PartSpec("untrusted_option.UntrustedOption")}
PARTS = {"run_options": _OPTION, "validate_options": _OPTION, "gate_options": _OPTION}
