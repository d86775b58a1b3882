"""A Ray of two processors on this machine, until standard input ends. Prints its address."""

from __future__ import annotations

import sys

import ray

if __name__ == "__main__":
    context = ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=100_000_000,
    )
    sys.stdout.write(f"{context.address_info['gcs_address']}\n")
    sys.stdout.flush()
    sys.stdin.read()
    ray.shutdown()
