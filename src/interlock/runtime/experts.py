"""Tokens to experts and back with one copy per server.

A token travels once to each server that holds one of its experts, to the GPU of its own index there, and from that GPU
once to each GPU that needs it. Results are weighted where they are made and summed on the way back: at the GPU the
token came through, then at home. Everything is built of differentiable gathers and All-to-Alls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.runtime.placement import Placement

__all__ = ["Dispatched", "Experts", "Mover"]


class Mover(Protocol):
    """An All-to-All with gradients, such as `interlock.torch.AllToAll`."""

    rank: int
    placement: Placement

    def share_rows(self, input_split_sizes: Sequence[int]) -> NDArray[np.int64]:
        """Rows that every rank has for every rank, ``[num_ranks, num_ranks]``."""
        ...

    def move_rows(self, output: torch.Tensor, input: torch.Tensor, rows: NDArray[np.int64]) -> object:  # noqa: A002
        """Move rows of `input` into `output`; `rows` are those that all ranks shared."""
        ...


@dataclass(frozen=True, slots=True)
class _Hop:
    """Rows picked from a tensor, in the order of the ranks they go to, with what goes between all ranks."""

    picked: torch.Tensor  # [sent]
    rows: NDArray[np.int64]  # [num_ranks, num_ranks]
    rank: int

    def forth(self, mover: Mover, values: torch.Tensor) -> torch.Tensor:
        """Rows of the others, in the order of their ranks."""
        sent = values.index_select(0, self.picked)
        received = values.new_empty((int(self.rows[:, self.rank].sum()), *values.shape[1:]))
        mover.move_rows(received, sent, self.rows)
        return received

    def back(self, mover: Mover, results: torch.Tensor, num_rows: int) -> torch.Tensor:
        """Results of the others for the rows they were sent, summed by row."""
        returned = results.new_empty((len(self.picked), *results.shape[1:]))
        mover.move_rows(returned, results, np.ascontiguousarray(self.rows.T))
        return results.new_zeros((num_rows, *results.shape[1:])).index_add(0, self.picked, returned)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Tokens at the rank of their experts, sorted by expert, and the way they came."""

    x: torch.Tensor  # [rows, hidden]
    weights: torch.Tensor  # [rows] gate weight of each row
    tokens_per_expert: list[int]  # of this rank's experts
    _order: torch.Tensor  # token of each row, among those that arrived
    _num_arrived: int
    _num_carried: int
    _num_tokens: int
    _across: _Hop
    _inside: _Hop


class Experts:
    """Expert parallelism over a group: rank r holds experts ``r * per_rank`` to ``(r + 1) * per_rank - 1``.

    Parameters
    ----------
    mover
        An All-to-All with gradients over the group.
    num_experts
        A multiple of the number of ranks.
    """

    def __init__(self, mover: Mover, num_experts: int) -> None:
        placement, rank = mover.placement, mover.rank
        self._num_ranks = len(placement.server_of)
        if num_experts < 1 or num_experts % self._num_ranks:
            raise InvalidInput(f"num_experts={num_experts} must be a multiple of the group's {self._num_ranks} ranks")
        self._mover, self._rank = mover, rank
        self._per_rank = num_experts // self._num_ranks
        self._server_of = torch.tensor(placement.server_of)
        self._carrier_of = torch.tensor(_carriers(placement, rank))

    def dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor) -> Dispatched:
        """Send tokens to their experts.

        Parameters
        ----------
        x
            Tokens of this rank, ``[tokens, hidden]``.
        topk_idx, topk_weights
            Experts of each token and their gate weights, ``[tokens, k]``; index -1 is no expert.
        """
        if topk_idx.shape != topk_weights.shape or topk_idx.shape[0] != x.shape[0]:
            raise InvalidInput(
                f"topk_idx {tuple(topk_idx.shape)} and topk_weights {tuple(topk_weights.shape)} must be [tokens, k] "
                f"for the {x.shape[0]} tokens of x"
            )
        server_of, carrier_of = self._server_of.to(x.device), self._carrier_of.to(x.device)
        rank_of_choice = torch.where(topk_idx >= 0, topk_idx // self._per_rank, -1)
        known = rank_of_choice.clamp(min=0)
        across = self._hop(torch.where(rank_of_choice >= 0, carrier_of[server_of[known]], -1))
        carried = across.forth(self._mover, x)
        carried_weights = across.forth(self._mover, topk_weights)
        carried_idx = self._forth_plain(across, topk_idx)
        here = server_of[self._rank]
        ranks = torch.where(carried_idx >= 0, carried_idx // self._per_rank, -1)
        ranks = torch.where((ranks >= 0) & (server_of[ranks.clamp(min=0)] == here), ranks, -1)
        inside = self._hop(ranks)
        arrived = inside.forth(self._mover, carried)
        arrived_weights = inside.forth(self._mover, carried_weights)
        arrived_idx = self._forth_plain(inside, carried_idx)
        token, choice = torch.nonzero(arrived_idx // self._per_rank == self._rank, as_tuple=True)
        expert = arrived_idx[token, choice] - self._rank * self._per_rank
        order = torch.argsort(expert, stable=True)
        token, choice = token[order], choice[order]
        return Dispatched(
            x=arrived.index_select(0, token),
            weights=arrived_weights[token, choice],
            tokens_per_expert=torch.bincount(expert, minlength=self._per_rank).tolist(),
            _order=token,
            _num_arrived=arrived.shape[0],
            _num_carried=carried.shape[0],
            _num_tokens=x.shape[0],
            _across=across,
            _inside=inside,
        )

    def combine(self, y: torch.Tensor, dispatched: Dispatched) -> torch.Tensor:
        """Weighted sum of the experts' results by token of this rank; `y` has a row for each of `dispatched.x`."""
        if y.shape[0] != dispatched.x.shape[0]:
            raise InvalidInput(f"y has {y.shape[0]} rows; {dispatched.x.shape[0]} were dispatched")
        weighted = y * dispatched.weights.to(y.dtype).unsqueeze(1)
        summed = y.new_zeros((dispatched._num_arrived, *y.shape[1:])).index_add(0, dispatched._order, weighted)
        carried = dispatched._inside.back(self._mover, summed, dispatched._num_carried)
        return dispatched._across.back(self._mover, carried, dispatched._num_tokens)

    def _hop(self, ranks: torch.Tensor) -> _Hop:
        """Each row once to each rank its choices name."""
        wanted = torch.zeros((self._num_ranks, ranks.shape[0]), dtype=torch.bool, device=ranks.device)
        row, choice = torch.nonzero(ranks >= 0, as_tuple=True)
        wanted[ranks[row, choice], row] = True
        sends: list[int] = wanted.sum(dim=1).tolist()
        return _Hop(torch.nonzero(wanted, as_tuple=True)[1], self._mover.share_rows(sends), self._rank)

    def _forth_plain(self, hop: _Hop, values: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return hop.forth(self._mover, values.contiguous())


def _carriers(placement: Placement, rank: int) -> list[int]:
    """The rank through which a rank's tokens enter each server: the one of its own index, or the server's first."""
    width = placement.ranks_per_server
    carriers = []
    for server in range(max(placement.server_of) + 1):
        members = [member for member, home in enumerate(placement.server_of) if home == server]
        index = placement.rank_of[rank] % width
        carriers.append(next((m for m in members if placement.rank_of[m] % width == index), members[0]))
    return carriers
