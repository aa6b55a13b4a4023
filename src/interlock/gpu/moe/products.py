"""The kernel of the experts: its source, tensor maps of the weights and the launch."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interlock.gpu.device import compile_kernel
from interlock.gpu.moe.tables import CHANNELS_DOWN, CHANNELS_UP, TILE_GRAIN, TILE_TOKENS, Tables

if TYPE_CHECKING:
    from cuda.core import ObjectCode

__all__ = ["ARCHITECTURE", "compile_experts", "launch_experts", "why_not"]

ARCHITECTURE = "sm_90a"
BLOCKS = 2  # that share a tile
BLOCK_TOKENS, GRAIN = TILE_TOKENS // BLOCKS, TILE_GRAIN // BLOCKS
SHARED_BYTES = 4 * (256 + BLOCK_TOKENS) * 128 + 8 * 1280 + 1024  # stages, what leaves, alignment
THREADS = 384


def why_not(x: torch.Tensor, gate_up: torch.Tensor) -> str | None:
    """Why the kernel cannot take this layer; None where it can."""
    hidden, inner = x.shape[1], gate_up.shape[1] // 2
    if not x.is_cuda:
        return "x is not on a GPU"
    if torch.cuda.get_device_capability(x.device) != (9, 0):
        return "the GPU is no Hopper (compute capability 9.0)"
    if x.dtype != torch.bfloat16:
        return f"x is {x.dtype}, not bfloat16"
    if hidden % CHANNELS_DOWN or inner % CHANNELS_UP:
        return f"hidden {hidden} is no multiple of {CHANNELS_DOWN}, or inner {inner} none of {CHANNELS_UP}"
    return None


def compile_experts() -> ObjectCode:
    """The kernel, compiled for Hopper."""
    return compile_kernel("experts", ARCHITECTURE, (), _prelude())


def _prelude() -> str:
    """The tensor cores' instruction: 64 rows by so many columns, 16 deep, in half as many registers.

    Columns are tokens, or where these are the rows, the weights of a tile.
    """
    return "".join(_instruction(columns) for columns in (*range(GRAIN, BLOCK_TOKENS + 1, GRAIN), CHANNELS_DOWN))


def _instruction(columns: int) -> str:
    count = columns // 2
    names = ", ".join(f"%{i}" for i in range(count))
    values = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return (
        f"__device__ __forceinline__ void wgmma(float (&d)[{count}], unsigned long long a, unsigned long long b) {{\n"
        f'asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 '
        f'{{{names}}}, %{count}, %{count + 1}, 1, 1, 1, 0, 0;" : {values} : "l"(a), "l"(b));\n}}\n'
    )


def launch_experts(
    tables: Tables,
    tokens: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    *,
    outputs: torch.Tensor,
    inner_rows: torch.Tensor,
    results: torch.Tensor | None,
    gate_up: torch.Tensor | None = None,
    multiprocessors: int | None = None,
    limit_s: float = 10.0,
) -> None:
    """Run the list of `tables` on the current stream; `tables.counters` must be zero. Returns at once.

    Without `results` sums are atomic, into `outputs`, which must be zero.
    """
    import cuda.core

    device = tokens.device
    _, hidden, inner = down_weight.shape
    kernel, pairs = _kernel(device.index)
    if multiprocessors is not None:
        pairs = min(pairs, multiprocessors // BLOCKS)
    config = cuda.core.LaunchConfig(grid=pairs, cluster=BLOCKS, block=THREADS, shmem_size=SHARED_BYTES)
    cuda.core.launch(
        cuda.core.Stream.from_handle(torch.cuda.current_stream(device).cuda_stream),
        config,
        kernel,
        _maps(gate_up_weight, down_weight, inner_rows).data_ptr(),
        tokens.data_ptr(),
        tables.token_of.data_ptr(),
        inner_rows.data_ptr(),
        gate_up.data_ptr() if gate_up is not None else 0,
        results.data_ptr() if results is not None else 0,
        outputs.data_ptr(),
        tables.out_first.data_ptr(),
        tables.out_row.data_ptr(),
        tables.out_weight.data_ptr(),
        tables.row_output.data_ptr(),
        tables.row_weight.data_ptr(),
        tables.items.data_ptr(),
        np.int32(len(tables.items)),
        tables.finished_of.data_ptr(),
        np.int32(len(tables.finished_of)),
        np.int32(hidden),
        np.int32(inner),
        tables.counters.data_ptr(),
        np.uint64(int(limit_s * 1e9)),
    )


@cache
def _kernel(device: int) -> tuple[Any, int]:
    """The kernel and how many pairs of blocks run at the same time."""
    import cuda.core
    from cuda.bindings import driver

    here = cuda.core.Device(device)
    here.set_current()
    kernel = compile_experts().get_kernel("experts")
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = driver.CUkernel(int(kernel.handle))
    (error,) = driver.cuKernelSetAttribute(attribute, SHARED_BYTES, handle, driver.CUdevice(device))
    if error:
        raise RuntimeError(f"the device gives no {SHARED_BYTES} bytes of shared memory: {error}")
    one = cuda.core.LaunchConfig(grid=1, cluster=BLOCKS, block=THREADS, shmem_size=SHARED_BYTES)
    return kernel, int(kernel.occupancy.max_active_clusters(one, stream=here.default_stream))


_made_maps: dict[tuple[int, ...], torch.Tensor] = {}


def _maps(gate_up: torch.Tensor, down: torch.Tensor, inner_rows: torch.Tensor) -> torch.Tensor:
    """Tensor maps of weights and rows in device memory, kept by address and shape: they hold nothing else."""
    tensors = gate_up, down, inner_rows
    key = *(tensor.data_ptr() for tensor in tensors), *down.shape, len(inner_rows), gate_up.device.index or 0
    if key not in _made_maps:
        if len(_made_maps) > 1000:
            _made_maps.clear()
        num_experts, hidden, inner = down.shape
        row = hidden * 2  # bytes
        made = [
            # Sixteen channels of gate, the same of up, and so on: SwiGLU's halves lie side by side in a tile.
            _encode(
                gate_up,
                [hidden, 16, 2, inner // 16, num_experts],
                [row, inner * row, 16 * row, 2 * inner * row],
                [64, 16, 2, 4, 1],
            ),
            _encode(down, [inner, num_experts * hidden], [inner * 2], [64, 128]),
            *(_encode(inner_rows, [inner, len(inner_rows)], [inner * 2], [64, rows]) for rows in (GRAIN, 128)),
        ]
        _made_maps[key] = torch.from_numpy(np.concatenate(made)).to(gate_up.device)
    return _made_maps[key]


def _encode(tensor: torch.Tensor, extents: list[int], strides: list[int], box: list[int]) -> np.ndarray[Any, Any]:
    from cuda.bindings import driver

    error, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        len(extents),
        tensor.data_ptr(),
        [driver.cuuint64_t(n) for n in extents],
        [driver.cuuint64_t(n) for n in strides],
        [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1)] * len(extents),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error:
        raise RuntimeError(f"no tensor map for {tuple(tensor.shape)}: {error}")
    return np.array([int(word) for word in made.opaque], np.uint64).view(np.int64)
