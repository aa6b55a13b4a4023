"""`interlock doctor --gpu` says what is missing, or runs a plan."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from interlock.gpu.device import missing
from interlock.gpu.doctor import findings


def test_the_gpu_is_found_or_what_is_missing_is_said() -> None:
    said, words = findings(), missing()
    if words is not None:
        assert said == [("GPU", False, words)]
    else:
        assert {name for name, works, _ in said if works} >= {"GPU", "CUDA", "NCCL", "CUDA IPC", "a plan on the device"}


@pytest.mark.parametrize(
    ("absent", "capability", "says"),
    [
        ("torch", (9, 0), "torch is not installed; pip install 'interlock[gpu]' brings it"),
        ("cuda.core", (9, 0), "cuda-core is not installed; pip install 'interlock[gpu]' brings it"),
        ("", None, "torch finds no NVIDIA GPU here (torch.cuda.is_available() is False)"),
        ("", (7, 5), "the GPU has compute capability 7.5; 8.0 (A100) or later is needed"),
        ("", (8, 0), None),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    absent: str, capability: tuple[int, int] | None, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(is_available=lambda: capability is not None, get_device_capability=lambda: capability)
    for name, module in (("torch", SimpleNamespace(cuda=cuda)), ("cuda.core", SimpleNamespace())):
        monkeypatch.setitem(sys.modules, name, None if name == absent else module)
    assert missing() == says
