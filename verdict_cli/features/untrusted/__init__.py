"""A stranger's pipeline in a confined process: `--untrusted`."""
