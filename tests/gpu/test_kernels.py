"""Kernels compile for every GPU generation we support; no GPU is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.gpu.device import compile_kernel

pathfinder = pytest.importorskip("cuda.pathfinder", reason="needs cuda-core (extra: gpu)")
pytest.importorskip("cuda.core", reason="needs cuda-core (extra: gpu)")


pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_CACHE", str(tmp_path))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_the_executor_compiles_for_every_element(architecture: str, tmp_path: Path) -> None:
    try:
        pathfinder.load_nvidia_dynamic_lib("nvrtc")
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("needs NVRTC (package nvidia-cuda-nvrtc)")
    for element, operation, scope in [(0, 0, "gpu"), (1, 0, "sys"), (2, 1, "gpu"), (3, 2, "sys")]:
        macros = (("ELEMENT", str(element)), ("OPERATION", str(operation)), ("SCOPE", f'"{scope}"'))
        assert len(compile_kernel("executor", architecture, macros).code) > 1000
    assert any(path.is_file() for path in (tmp_path / "interlock").rglob("*")), "nothing was kept on disk"
