"""What machines have to move: routing traces and workloads of other tools."""
