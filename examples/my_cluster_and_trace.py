"""My cluster and my trace: describe the machines, read what they send, see what there is to gain.

python examples/my_cluster_and_trace.py [--cluster cluster.toml] [--traffic bytes.txt] [--html report.html]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import interlock as il

CLUSTER = """
preset = "h200"
servers = 2
scale_out_bandwidth = "400 Gb/s"

[[faults]]
kind = "slow-nic"
server = 1
gpu = 3
bandwidth = "200 Gb/s"
"""


def main() -> None:
    """Without options, both files are written first: a stand-in for yours."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cluster", type=Path)
    parser.add_argument("--traffic", type=Path, help="bytes from each rank (row) to each rank (column)")
    parser.add_argument("--html", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster_file, traffic_file = given.cluster, given.traffic
        if cluster_file is None:
            cluster_file = Path(folder, "cluster.toml")
            cluster_file.write_text(CLUSTER)
        cluster = il.topology.read_cluster(cluster_file)
        if traffic_file is None:
            traffic_file = Path(folder, "bytes.txt")
            drawn = il.traffic.hot_expert(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=1)
            np.savetxt(traffic_file, drawn.bytes_matrix, fmt="%d")
        traffic = il.traffic.read_demand(traffic_file)
    made = il.compare(cluster, traffic, ["direct", "pxn", "fast", "rails-split", "adaptive"], baseline="direct")
    print(made)
    best = made.best()
    print(f"{best.algorithm} is {made.times_faster(best):.2f} times as fast as direct")
    if given.html is not None:
        made.to_html(given.html)


if __name__ == "__main__":
    main()
