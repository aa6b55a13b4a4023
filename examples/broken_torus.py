"""A collective for a broken torus: remove a link, synthesize an all-reduce around it, save and check it.

python examples/broken_torus.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import interlock as il


def main() -> None:
    """A 4x4 torus, whole and less one cable; the schedule is proven, and so is the least time."""
    whole = il.topology.torus(4, 4, bandwidth="50 GB/s", message_overhead="0.5 us")
    broken = whole.without_link(5, 6)
    for graph in (whole, broken):
        for name in ("ring", "guided"):
            try:
                proof = il.synthesize(graph, il.all_reduce("64 MiB"), name).certificate()
            except il.InvalidInput as error:
                print(f"{graph.name}, {name}: {error}")
                continue
            print(f"{graph.name}, {name}: {1e3 * proof.makespan_s:.3f} ms simulated, {1 + proof.gap:.3f} of the bound")
    plan = il.synthesize(broken, il.all_reduce("64 MiB"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "all_reduce.ilk")
        plan.save(file)
        print("read back, valid:", il.load(file).certificate().valid)


if __name__ == "__main__":
    main()
