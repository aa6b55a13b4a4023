"""Runs a plan on the device with a process per rank: peers write into each other's memory by CUDA IPC.

All ranks must be on one server. Each owns a block of memory that the others have mapped: what lands there is put by the
sender's kernel, which raises a flag beside it. Ranks may have a GPU each, or share one.
"""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.gpu.device import require_device
from interlock.gpu.executor import TIMEOUT_S, Launcher, check_elements, check_tensor
from interlock.gpu.rows import NUM_BUFFERS, OUTPUT, SCRATCH, Columns, Flags, Landing
from interlock.gpu.work import make_work
from interlock.runtime.placement import group_or_default

if TYPE_CHECKING:
    from interlock.planning import Plan

__all__ = ["Neighbours", "RankExecutor"]

ALIGN_BYTES = 256
HANDLE_BYTES = 64  # of cuIpcGetMemHandle


class Neighbours:
    """Memory of every rank of a group on one server, mapped into this process. All ranks must make and use it alike."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        require_device()
        self.group = group_or_default(group)
        self.rank, self.num_ranks = self.group.rank(), self.group.size()
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        here = [_number(socket.gethostname().encode()), _number(str(properties.uuid).encode())]
        hosts, devices = self.share(here).T
        if (hosts != hosts[0]).any():
            other = int(np.argmax(hosts != hosts[0]))
            raise InvalidInput(f"rank {other} is on another server than rank 0; CUDA IPC reaches one server only")
        self.ranks_on_device = int((devices == devices[self.rank]).sum())
        self._size_bytes = 0
        self.addresses: list[int] = []

    def share(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """As many numbers of every rank, ``[num_ranks, numbers]``."""
        mine = torch.from_numpy(np.array(numbers, np.int64))
        rows = [torch.empty_like(mine) for _ in range(self.num_ranks)]
        dist.all_gather(rows, mine, group=self.group)
        return torch.stack(rows).numpy()

    def share_lists(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Any number of rows of every rank; rows are equally long everywhere."""
        counts = self.share([len(rows)])[:, 0]
        padded = np.zeros((int(counts.max()), rows.shape[1]), np.int64)
        padded[: len(rows)] = rows
        shared = self.share(padded.reshape(-1)).reshape(self.num_ranks, *padded.shape)
        return [one[:count] for one, count in zip(shared, counts.tolist(), strict=True)]

    def reserve(self, size_bytes: int) -> None:
        """At least this much memory of every rank, at `addresses`; what was there may be gone."""
        most = int(self.share([size_bytes]).max())
        if most <= self._size_bytes:
            return
        from cuda.bindings import driver

        self.close()
        self._size_bytes = most
        mine = int(_checked(driver.cuMemAlloc(most)))
        handle = _checked(driver.cuIpcGetMemHandle(driver.CUdeviceptr(mine)))
        # What a handle holds has no name in newer bindings, but an address in all.
        handles = self.share(np.frombuffer(ctypes.string_at(handle.getPtr(), HANDLE_BYTES), np.int64))
        self.addresses = []
        for rank in range(self.num_ranks):
            if rank == self.rank:
                self.addresses.append(mine)
                continue
            theirs = driver.CUipcMemHandle()
            ctypes.memmove(theirs.getPtr(), handles[rank].tobytes(), HANDLE_BYTES)
            lazily = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
            self.addresses.append(int(_checked(driver.cuIpcOpenMemHandle(theirs, int(lazily)))))

    def view(self, start: int, size_bytes: int) -> torch.Tensor:
        """Bytes of this rank's own memory as a tensor."""
        return torch.as_tensor(_DeviceBytes(self.addresses[self.rank] + start, size_bytes), device="cuda")

    def meet(self) -> None:
        """Return when every rank has come here with nothing left to do on its device."""
        torch.cuda.synchronize()
        self.share([0])

    def close(self) -> None:
        """Give the memory back. Every rank must call it."""
        if not self.addresses:
            return
        from cuda.bindings import driver

        self.meet()
        for rank, address in enumerate(self.addresses):
            if rank != self.rank:
                _checked(driver.cuIpcCloseMemHandle(driver.CUdeviceptr(address)))
        self.share([0])
        _checked(driver.cuMemFree(driver.CUdeviceptr(self.addresses[self.rank])))
        self.addresses, self._size_bytes = [], 0


class RankExecutor:
    """One rank of a plan, in a group of processes on one server. Every rank must make and call it alike.

    Parameters
    ----------
    neighbours
        The group's memory. Only the executor made last may run.
    blocks
        Multiprocessors to use; None takes this rank's share of its device.
    """

    def __init__(
        self,
        plan: Plan,
        neighbours: Neighbours,
        *,
        dtype: torch.dtype = torch.float32,
        operation: str = "sum",
        timeout_s: float = TIMEOUT_S,
        blocks: int | None = None,
        program: Any = None,
    ) -> None:
        check_elements(plan, dtype, operation)
        rank, num_ranks = neighbours.rank, neighbours.num_ranks
        if plan.problem.num_ranks != num_ranks:
            raise InvalidInput(f"the plan has {plan.problem.num_ranks} ranks and the group {num_ranks}")
        self.program = plan.program(rank, rounds=True) if program is None else program
        self.neighbours = neighbours
        columns = self.program.columns
        landing = _exchange_landings(columns, neighbours)
        work = make_work({rank: columns}, {rank: landing}, num_ranks)
        sizes = self.program.output_bytes, self.program.scratch_bytes, 4 * len(work.flags_by_rank[rank])
        starts = np.cumsum([0] + [-(-size // ALIGN_BYTES) * ALIGN_BYTES for size in sizes])
        neighbours.reserve(int(starts[-1]))
        self.output = neighbours.view(0, self.program.output_bytes)
        flags = neighbours.view(int(starts[2]), sizes[2])
        neighbours.meet()  # nobody runs an earlier plan any more
        flags.zero_()
        places = neighbours.share(starts)
        neighbours.meet()  # everybody's flags are down
        addresses = np.array(neighbours.addresses)
        self._spaces = [0] * (NUM_BUFFERS * num_ranks)
        self._spaces[OUTPUT::NUM_BUFFERS] = (addresses + places[:, 0]).tolist()
        self._spaces[SCRATCH::NUM_BUFFERS] = (addresses + places[:, 1]).tolist()
        self.launcher = Launcher(
            work,
            (addresses + places[:, 2]).tolist(),
            element=dtype,
            operation=operation,
            timeout_s=timeout_s,
            between_processes=True,
            share_of_device=neighbours.ranks_on_device,
            blocks=blocks,
        )
        self._uploaded = self.launcher.upload_spaces(self._spaces)

    def __call__(self, source: torch.Tensor, target: torch.Tensor | None = None) -> torch.Tensor:
        """Run this rank's part on the current stream; returns at once.

        Without a `target` the result is `output`, which the next launch overwrites.
        """
        check_tensor(source, self.program.input_bytes, "source", self.output.device)
        if target is not None:
            check_tensor(target, self.program.output_bytes, "target", self.output.device)
        place = NUM_BUFFERS * self.neighbours.rank
        if self._spaces[place] != source.data_ptr():
            self._spaces[place] = source.data_ptr()
            self._uploaded = self.launcher.upload_spaces(self._spaces)
        self.launcher.launch(self._uploaded)
        if target is None:
            return self.output
        target.view(-1).view(torch.uint8).copy_(self.output)
        return target

    def wait(self) -> None:
        """Return when the last launch is done; raise `Stuck` if it was given up."""
        self.launcher.wait()


def _exchange_landings(columns: Columns, neighbours: Neighbours) -> Landing:
    """Where this rank's sends land, told by their receivers."""
    first_flag = Flags(0, len(columns["receive_peer"]), 0, neighbours.num_ranks).arrived
    names = ("receive_peer", "receive_tag", "receive_buffer", "receive_start")
    expected = np.stack([np.asarray(columns[name]).astype(np.int64) for name in names], axis=1)
    told = neighbours.share_lists(np.column_stack([expected, first_flag + np.arange(len(expected))]))
    peer, tag = (np.asarray(columns[name]).astype(np.int64) for name in ("send_peer", "send_tag"))
    buffer, start, flag = np.zeros((3, len(peer)), np.int64)
    for other in np.unique(peer).tolist():
        mine = np.flatnonzero(peer == other)
        rows = told[other][told[other][:, 0] == neighbours.rank]
        rows = rows[np.argsort(rows[:, 1])]
        place = np.searchsorted(rows[:, 1], tag[mine])
        if len(rows) == 0 or place.max(initial=0) >= len(rows) or (rows[place, 1] != tag[mine]).any():
            raise InvalidInput(f"rank {neighbours.rank} sends to rank {other}, which does not expect it")
        buffer[mine], start[mine], flag[mine] = rows[place, 2], rows[place, 3], rows[place, 4]
    return Landing(buffer, start, flag)


class _DeviceBytes:
    """Device memory as torch wants to be told of it."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _number(data: bytes) -> int:
    from interlock._native import _core

    return int(_core.digest64(np.frombuffer(data, np.uint8), 0) >> 1)


def _checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver returned, unless it failed."""
    from cuda.bindings import driver

    if result[0] != driver.CUresult.CUDA_SUCCESS:
        _, words = driver.cuGetErrorString(result[0])
        raise InvalidInput(f"the CUDA driver refused: {words.decode() if words else result[0]}")
    return result[1] if len(result) > 1 else None
