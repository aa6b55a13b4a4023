"""What can be said of the GPU at hand, and a self-test of a few seconds."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from interlock.gpu.device import missing

__all__ = ["findings", "nccl_version"]


def findings() -> list[tuple[str, bool, str]]:
    """(what, whether it works, detail) of device, software and a plan that is run on it."""
    why = missing()
    if why is not None:
        return [("GPU", False, why)]
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    memory = f"{properties.total_memory / 2**30:.0f} GiB, {properties.multi_processor_count} multiprocessors"
    return [
        ("GPU", True, f"{properties.name}, {memory}, compute capability {properties.major}.{properties.minor}"),
        ("CUDA", True, f"driver {_driver()}, torch {torch.__version__} for CUDA {torch.version.cuda}"),
        ("cuda-core", True, _version("cuda-core")),
        ("NCCL", *_nccl()),
        ("CUDA IPC", *_ipc()),
        ("MPS", *_mps()),
        ("a plan on the device", *_self_test()),
    ]


def _driver() -> str:
    from cuda.bindings import driver

    _, number = driver.cuDriverGetVersion()
    return f"{number // 1000}.{number % 1000 // 10}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "version unknown"


def _nccl() -> tuple[bool, str]:
    number = nccl_version()
    if number is None:
        return False, "torch was built without it"
    number_text = ".".join(str(part) for part in number)
    return True, number_text + ("" if number >= (2, 30) else "; several ranks on one GPU need 2.30 or later")


def nccl_version() -> tuple[int, ...] | None:
    """Of a library that was loaded before torch, or else of the one that torch was built with; None without any."""
    import torch

    number = ctypes.c_int(0)
    try:
        ctypes.CDLL(None).ncclGetVersion(ctypes.byref(number))
    except AttributeError:
        if not torch.distributed.is_nccl_available():
            return None
        return tuple(torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
    return number.value // 10000, number.value % 10000 // 100, number.value % 100


def _ipc() -> tuple[bool, str]:
    """Whether memory of this process can be opened by others."""
    import torch
    from cuda.bindings import driver

    torch.cuda.synchronize()  # makes the context that the driver asks for
    error, address = driver.cuMemAlloc(1 << 20)
    if error != driver.CUresult.CUDA_SUCCESS:
        return False, str(error)
    error, _ = driver.cuIpcGetMemHandle(address)
    driver.cuMemFree(address)
    works = error == driver.CUresult.CUDA_SUCCESS
    return works, "processes of a server can share memory" if works else f"refused: {error}"


def _mps() -> tuple[bool, str]:
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or Path(tempfile.gettempdir()) / "nvidia-mps"
    is_up = (Path(folder) / "control").exists()
    return is_up, "running" if is_up else "not running; only needed for several processes on one GPU at full speed"


def _self_test() -> tuple[bool, str]:
    import torch

    import interlock as il

    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    plan = il.plan(cluster, il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="16 MB", seed=0), algorithm="adaptive")
    executor = il.gpu.Executor(plan)
    inputs = [torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda") for size in executor.input_bytes]
    run = executor.bind(inputs)
    run()
    executor.wait()
    start_s = time.perf_counter()
    outputs = run()
    executor.wait()
    took_us = 1e6 * (time.perf_counter() - start_s)
    right = sum(int(tensor.to(torch.int64).sum()) for tensor in outputs)
    given = sum(int(tensor.to(torch.int64).sum()) for tensor in inputs)
    measured = f"8 virtual ranks, {sum(executor.input_bytes) / 1e6:.0f} MB in {took_us:.0f} us"
    return right == given, measured if right == given else f"{measured}, and bytes are WRONG"
