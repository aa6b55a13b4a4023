"""`interlock doctor --gpu` says what is missing, or runs a plan."""

from __future__ import annotations

from interlock.gpu.device import missing
from interlock.gpu.doctor import findings


def test_the_gpu_is_found_or_what_is_missing_is_said() -> None:
    said, words = findings(), missing()
    if words is not None:
        assert said == [("GPU", False, words)]
    else:
        assert {name for name, works, _ in said if works} >= {"GPU", "CUDA", "NCCL", "CUDA IPC", "a plan on the device"}
