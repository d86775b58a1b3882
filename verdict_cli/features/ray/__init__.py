"""The engine `ray`: partitions of the dataset as tasks on this machine or a cluster."""

from verdict_cli.registry import PartSpec

PARTS = {
    "engines": {"ray": PartSpec("ray_engine.RayEngine")},
    "run_hooks": {"ray": PartSpec("run_hooks.RayOptions")},
    "run_options": {"ray": PartSpec("run_options.RayRunOptions")},
}
