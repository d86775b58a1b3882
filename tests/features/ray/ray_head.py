"""A Ray cluster of two nodes, one processor each, on this machine, until standard input ends. Prints its address.

The line `lose` on standard input kills the second node, with its workers; a new one has taken its place when `lost` is printed.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100_000_000}


def told(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    told(cluster.address)
    for line in sys.stdin:
        if line.strip() == "lose":
            cluster.remove_node(node, allow_graceful=False)
            node = cluster.add_node(**NODE)
            told("lost")
    cluster.shutdown()
