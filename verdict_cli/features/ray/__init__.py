"""The Ray engine: partitions of the dataset as tasks on this machine or a cluster."""
