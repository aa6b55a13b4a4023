"""Runs a plan on the device in one launch, all its ranks in this process.

>>> import interlock as il, torch
>>> plan = il.plan(cluster, demand)  # doctest: +SKIP
>>> executor = il.gpu.Executor(plan)  # doctest: +SKIP
>>> outputs = executor(inputs)  # one tensor per rank, in and out  # doctest: +SKIP
>>> executor.wait()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interlock.errors import InterlockError, InvalidInput
from interlock.gpu.device import compile_kernel, require_device
from interlock.gpu.rows import NUM_BUFFERS, OUTPUT, SCRATCH
from interlock.gpu.work import CHUNK_BYTES, WorkList, landings, make_work

if TYPE_CHECKING:
    from interlock.planning import Plan

__all__ = ["ELEMENTS", "OPERATIONS", "BufferedPlan", "Executor", "Launcher", "Stuck", "check_elements"]

ELEMENTS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.int32: 3}  # as the kernel numbers them
OPERATIONS = {"sum": 0, "max": 1, "min": 2}
THREADS = 512  # of a block: 16 warps with 128 bytes of loads each in flight keep a multiprocessor's memory busy
TIMEOUT_S = 10.0


class Stuck(InterlockError):
    """A message on the device waited too long; the words name it, its ranks and what it waited for."""


class Launcher:
    """A work list on the device, launched any number of times on any stream, one launch at a time.

    Parameters
    ----------
    flags
        Address of every rank's flags, all zero.
    share_of_device
        Processes that run on this device at the same time: all their blocks must be resident.
    blocks
        Multiprocessors to use; None takes this process' share.
    memory
        What must live as long as it may be launched.
    """

    def __init__(
        self,
        work: WorkList,
        flags: Sequence[int],
        *,
        element: torch.dtype,
        operation: str,
        timeout_s: float,
        between_processes: bool,
        share_of_device: int = 1,
        blocks: int | None = None,
        memory: Sequence[torch.Tensor] = (),
    ) -> None:
        require_device()
        import cuda.core

        self._core: Any = cuda.core
        self._memory = tuple(memory)
        self.work, self.device = work, torch.device("cuda", torch.cuda.current_device())
        properties = torch.cuda.get_device_properties(self.device)
        cuda.core.Device(self.device.index).set_current()
        macros = (
            ("ELEMENT", str(ELEMENTS[element])),
            ("OPERATION", str(OPERATIONS[operation])),
            ("SCOPE", '"sys"' if between_processes else '"gpu"'),
        )
        architecture = f"sm_{properties.major}{properties.minor}"
        self._kernel: Any = compile_kernel("executor", architecture, macros).get_kernel("run_work")
        self._blocks = blocks or max(1, properties.multi_processor_count // share_of_device)
        self._config = cuda.core.LaunchConfig(grid=self._blocks, block=THREADS, is_cooperative=not between_processes)
        self._chunks, self._waits = self._upload(work.chunks), self._upload(work.waits)
        self._flags = torch.tensor(flags, dtype=torch.int64, device=self.device)
        self._limit_ns = int(timeout_s * 1e9)
        self._has_given_up = torch.zeros(1, dtype=torch.int32, device=self.device)
        self._told = torch.zeros(4, dtype=torch.int32, pin_memory=True)  # the device writes it when it gives up
        self._said = self._told.numpy().view(np.uint32)
        self._before = (self._chunks.data_ptr(), np.uint32(len(work.chunks)), self._waits.data_ptr())
        self._taken = torch.zeros(1, dtype=torch.int32, device=self.device)
        self._after = (
            self._taken.data_ptr(),
            np.uint64(self._limit_ns),
            self._has_given_up.data_ptr(),
            self._told.data_ptr(),
        )
        self._stream: tuple[int, Any] = (-1, None)
        self._is_done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.epoch = 0

    def _upload(self, rows: np.ndarray[Any, Any]) -> torch.Tensor:
        data = np.frombuffer(rows.tobytes() or bytes(64), np.uint8).copy()
        return torch.from_numpy(data).to(self.device)

    def upload_spaces(self, spaces: Sequence[int]) -> torch.Tensor:
        """Addresses of buffers, for `launch`; from pinned memory, so that the host does not wait for the stream."""
        return torch.tensor(spaces, dtype=torch.int64).pin_memory().to(self.device, non_blocking=True)

    def launch(self, spaces: torch.Tensor) -> None:
        """Run the list once on the current stream; returns at once."""
        self.check()
        self.epoch += 1
        stream = torch.cuda.current_stream(self.device)
        if stream.cuda_stream != self._stream[0]:
            stream.wait_event(self._is_done)  # one launch at a time: flags and scratch are the same
            self._stream = stream.cuda_stream, self._core.Stream.from_handle(stream.cuda_stream)
        self._core.launch(
            self._stream[1],
            self._config,
            self._kernel,
            *self._before,
            spaces.data_ptr(),
            self._flags.data_ptr(),
            np.uint32(self.epoch & 0xFFFFFFFF),
            *self._after,
        )
        spaces.record_stream(stream)  # it may have come by another one
        self._is_done.record(stream)

    def wait(self) -> None:
        """Return when the last launch is done; raise if it got stuck."""
        self._is_done.synchronize()
        self.check()

    def check(self) -> None:
        """Raise if a launch that has ended got stuck; nothing can be launched afterwards."""
        if self._said[0]:
            chunk, flag, seen, wanted = self._said.tolist()
            words = self.work.describe(chunk - 1, flag)
            limit_s = self._limit_ns / 1e9
            raise Stuck(f"{words} for more than {limit_s:g} s (signal {seen} of {wanted}, launch {self.epoch})")


@dataclass(frozen=True, slots=True, eq=False)
class BufferedPlan:
    """A plan with its buffers. Calling it launches the plan on the current stream and returns the outputs at once."""

    launcher: Launcher
    spaces: torch.Tensor
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]

    def __call__(self) -> Sequence[torch.Tensor]:
        """Launch."""
        self.launcher.launch(self.spaces)
        return self.outputs


class Executor:
    """All ranks of a plan on one device.

    Parameters
    ----------
    plan
        Any plan: copies or sums, of any algorithm.
    dtype
        What sums add: float32, bfloat16, float16 or int32. Plans that only copy move bytes of any type.
    operation
        "sum", "max" or "min".
    timeout_s
        How long a message may wait on the device before the launch is given up.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        dtype: torch.dtype = torch.float32,
        operation: str = "sum",
        timeout_s: float = TIMEOUT_S,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        require_device()
        check_elements(plan, dtype, operation)
        self.num_ranks = plan.problem.num_ranks
        programs = [plan.program(rank, rounds=True) for rank in range(self.num_ranks)]
        columns = [program.columns for program in programs]
        self.input_bytes = [program.input_bytes for program in programs]
        self.output_bytes = [program.output_bytes for program in programs]
        work = make_work(
            dict(enumerate(columns)), dict(enumerate(landings(columns))), self.num_ranks, chunk_bytes=chunk_bytes
        )
        device = torch.device("cuda", torch.cuda.current_device())
        sizes = [-(-program.scratch_bytes // 256) * 256 for program in programs]
        self._scratch = torch.empty(max(1, sum(sizes)), dtype=torch.uint8, device=device)
        self._scratch_at = [self._scratch.data_ptr() + sum(sizes[:rank]) for rank in range(self.num_ranks)]
        counts = [len(work.flags_by_rank[rank]) for rank in range(self.num_ranks)]
        self._flags = torch.zeros(max(1, sum(counts)), dtype=torch.int32, device=device)
        flags = [self._flags.data_ptr() + 4 * sum(counts[:rank]) for rank in range(self.num_ranks)]
        self.launcher = Launcher(
            work,
            flags,
            element=dtype,
            operation=operation,
            timeout_s=timeout_s,
            between_processes=False,
            memory=(self._scratch, self._flags),
        )

    def bind(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None) -> BufferedPlan:
        """The plan with these buffers, to be launched any number of times.

        `inputs` has what each rank contributes and `outputs` what it ends with, contiguous on the device, end to end in
        the order of the plan's items. Outputs that are not given are made, as bytes.
        """
        device = self._scratch.device
        if outputs is None:
            outputs = [torch.empty(size, dtype=torch.uint8, device=device) for size in self.output_bytes]
        spaces = [0] * (NUM_BUFFERS * self.num_ranks)
        for buffer, name, tensors, sizes in (
            (0, "inputs", inputs, self.input_bytes),
            (OUTPUT, "outputs", outputs, self.output_bytes),
        ):
            if len(tensors) != self.num_ranks:
                raise InvalidInput(f"{name} has {len(tensors)} tensors; the plan has {self.num_ranks} ranks")
            for rank, (tensor, size) in enumerate(zip(tensors, sizes, strict=True)):
                check_tensor(tensor, size, f"{name}[{rank}]", device)
                spaces[NUM_BUFFERS * rank + buffer] = tensor.data_ptr()
        spaces[SCRATCH::NUM_BUFFERS] = self._scratch_at
        return BufferedPlan(self.launcher, self.launcher.upload_spaces(spaces), tuple(inputs), tuple(outputs))

    def __call__(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> Sequence[torch.Tensor]:
        """Run the plan on the current stream; returns the outputs at once, complete when the stream gets there."""
        return self.bind(inputs, outputs)()

    def wait(self) -> None:
        """Return when the last launch is done; raise `Stuck` if it was given up."""
        self.launcher.wait()


def check_tensor(tensor: torch.Tensor, size_bytes: int, name: str, device: torch.device) -> None:
    """Raise unless a tensor is contiguous, on the device and of the plan's size."""
    has = tensor.numel() * tensor.element_size()
    if tensor.device != device:
        raise InvalidInput(f"{name} is on {tensor.device}; it must be on {device}")
    if not tensor.is_contiguous():
        raise InvalidInput(f"{name} must be contiguous")
    if has != size_bytes:
        raise InvalidInput(f"{name} has {has} bytes; the plan needs {size_bytes}")


def check_elements(plan: Plan, dtype: torch.dtype, operation: str) -> None:
    """Raise where a plan that sums would cut an element in two, or sums what the kernel does not."""
    if dtype not in ELEMENTS:
        names = ", ".join(str(name).removeprefix("torch.") for name in ELEMENTS)
        raise InvalidInput(f"dtype={dtype} is not one of {names}")
    if operation not in OPERATIONS:
        raise InvalidInput(f"operation={operation!r} is not one of {', '.join(OPERATIONS)}")
    if plan.problem.items.are_reduced:
        from interlock.execution import check_whole_elements

        check_whole_elements(plan, dtype.itemsize)
