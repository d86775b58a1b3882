"""The names of haizelabs' library over the Python API: `verdict_cli.compat`."""
