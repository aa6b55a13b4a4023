"""Tokens to experts and back with one copy per server and per rank.

A token travels once to each server that holds one of its experts, to the GPU of its own index there, and from that GPU
once to each GPU that needs it; or straight to each of these where two hops are not estimated to be faster than one.
Experts weight their results and sum them by token, and sums are added on the way back: at the GPU the token came
through, then at home, always in the order of ranks. A token goes in one row with its choices and their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.ragged import Ragged
from interlock.runtime.placement import GroupPlacement
from interlock.traffic import Placement as ExpertPlacement
from interlock.traffic import contiguous_placement

__all__ = ["Dispatched", "ExpertRows", "TokenDispatch", "DispatchLayout", "Mover"]


class Mover(Protocol):
    """An All-to-All of rows, such as `interlock.torch.AllToAll`."""

    rank: int
    placement: GroupPlacement

    def share_rows(self, input_split_sizes: Sequence[int]) -> NDArray[np.int64]:
        """Rows that every rank has for every rank, ``[num_ranks, num_ranks]``."""
        ...

    def move_rows(self, output: torch.Tensor, input: torch.Tensor, rows: NDArray[np.int64]) -> object:  # noqa: A002
        """Move rows of `input` into `output`; `rows` are those that all ranks shared."""
        ...

    def native_s(self, bytes_matrix: NDArray[np.int64]) -> float:
        """An estimate of what moving so many bytes between all ranks takes, the same on every rank."""
        ...


@dataclass(frozen=True, slots=True)
class DispatchLayout:
    """Where the tokens of this rank go."""

    tokens_per_rank: torch.Tensor  # [num_ranks], a token once for each rank it goes to
    tokens_per_expert: torch.Tensor  # [num_experts]
    is_token_in_rank: torch.Tensor  # [tokens, num_ranks]


@dataclass(frozen=True, slots=True)
class _Hop:
    """Rows picked from a tensor, in the order of the ranks they go to, with what goes between all ranks."""

    mover: Mover
    picked: torch.Tensor  # [sent] row of each
    places: torch.Tensor  # [num_rows, most copies] where a row's copies are among those sent, `sent` for none
    rows: NDArray[np.int64]  # [num_ranks, num_ranks]

    def forth(self, *columns: torch.Tensor) -> list[torch.Tensor]:
        """Rows of the others, in the order of their ranks; all columns in one exchange."""
        sent = [column.index_select(0, self.picked) for column in columns]
        return self._move(sent, int(self.rows[:, self.mover.rank].sum()), self.rows)

    def back(self, *columns: torch.Tensor) -> list[torch.Tensor]:
        """What the others made of the rows they were sent, summed by row in the order of ranks."""
        returned = self._move(columns, len(self.picked), np.ascontiguousarray(self.rows.T))
        return [self._sum(column) for column in returned]

    def _sum(self, returned: torch.Tensor) -> torch.Tensor:
        padded = torch.cat([returned, returned.new_zeros((1, *returned.shape[1:]))]).to(_sums_in(returned.dtype))
        total = padded.new_zeros((len(self.places), *returned.shape[1:]))
        for copy in self.places.unbind(1):
            total += padded.index_select(0, copy)
        return total.to(returned.dtype)

    def _move(self, columns: Sequence[torch.Tensor], num_received: int, rows: NDArray[np.int64]) -> list[torch.Tensor]:
        """Rows of several tensors side by side, as bytes."""
        flat = [column.contiguous().view(len(column), -1).view(torch.uint8) for column in columns]
        widths = [column.shape[1] for column in flat]
        padding = -sum(widths) % ROW_BYTES
        packed = torch.cat([*flat, flat[0].new_zeros(len(flat[0]), padding)], dim=1)
        received = packed.new_empty(num_received, packed.shape[1])
        self.mover.move_rows(received, packed, rows)
        parts = torch.split(received, [*widths, padding], dim=1)[: len(columns)]
        return [
            part.contiguous().view(column.dtype).view(num_received, *column.shape[1:])
            for part, column in zip(parts, columns, strict=True)
        ]


COUNT_BITS = 31  # of a count of rows; two of them travel in one number
ROW_BYTES = 16  # rows are multiples of this, so that any type fits behind any other and a GPU copies whole vectors


def _sums_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


class _Forth(torch.autograd.Function):
    """Tokens, weights and choices along a hop; gradients of the first two come back summed."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, hop: _Hop, x: torch.Tensor, weights: torch.Tensor | None, slots: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.hop, ctx.has_weights = hop, weights is not None
        if weights is None or slots is None:
            return hop.forth(x)[0], None, None
        moved, moved_weights, moved_slots = hop.forth(x, weights, slots)
        ctx.mark_non_differentiable(moved_slots)
        return moved, moved_weights, moved_slots

    @staticmethod
    def backward(ctx, x_grad: torch.Tensor, weights_grad: torch.Tensor, *_: Any) -> tuple[Any, ...]:  # type: ignore[no-untyped-def]
        back = ctx.hop.back(x_grad, weights_grad) if ctx.has_weights else [*ctx.hop.back(x_grad), None]
        return None, *back, None


class _Back(torch.autograd.Function):
    """Results back along a hop, summed; their gradients go forth again."""

    @staticmethod
    def forward(ctx, hop: _Hop, y: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
        ctx.hop = hop
        return hop.back(y)[0]

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[no-untyped-def]
        return None, ctx.hop.forth(gradient)[0]


@dataclass(frozen=True, slots=True)
class ExpertRows:
    """A row for every (received token, expert of this rank) pair, sorted by expert."""

    x: torch.Tensor  # [rows, hidden]
    weights: torch.Tensor  # [rows]
    _token: torch.Tensor  # of each row
    _num_tokens: int

    def sum(self, y: torch.Tensor) -> torch.Tensor:
        """Weighted sum by received token of the experts' results; `y` has a row for each of `x`."""
        if y.shape[0] != self.x.shape[0]:
            raise InvalidInput(f"y has {y.shape[0]} rows; the experts got {self.x.shape[0]}")
        weighted = y * self.weights.to(y.dtype).unsqueeze(1)
        return y.new_zeros((self._num_tokens, *y.shape[1:])).index_add(0, self._token, weighted)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Tokens at the rank of their experts, and the way they came: the handle for `combine` and for more tokens.

    Every token is there once, whatever the number of its experts here.
    """

    x: torch.Tensor  # [received, hidden]
    topk_idx: torch.Tensor  # [received, k] number among this rank's experts, -1 for choices elsewhere
    topk_weights: torch.Tensor  # [received, k]
    num_tokens_per_expert: torch.Tensor  # [held]
    _hops: tuple[_Hop, ...]
    _num_tokens: int

    @property
    def tokens_per_expert(self) -> list[int]:
        """Of this rank's experts."""
        counts: list[int] = self.num_tokens_per_expert.tolist()
        return counts

    def by_expert(self) -> ExpertRows:
        """The tokens sorted by expert, for experts that are run one after the other."""
        token, choice = torch.nonzero(self.topk_idx >= 0, as_tuple=True)
        order = torch.argsort(self.topk_idx[token, choice], stable=True)
        token, choice = token[order], choice[order]
        return ExpertRows(self.x.index_select(0, token), self.topk_weights[token, choice], token, len(self.x))


class TokenDispatch:
    """Expert parallelism over a group.

    Parameters
    ----------
    mover
        An All-to-All of rows over the group.
    experts
        Their number: rank r of n holds those from ``r / n`` to ``(r + 1) / n`` of them, of which every rank must have
        as many. Or a placement, such as `interlock.traffic.eplb_placement` makes, in which experts may have replicas.

    A token goes to the replica on its own rank; else to one on a rank that it visits anyway; else replicas take turns.
    """

    def __init__(self, mover: Mover, experts: int | ExpertPlacement) -> None:
        placement, rank = mover.placement, mover.rank
        self._num_ranks = len(placement.server_of)
        if isinstance(experts, int):
            if experts < 1 or experts % self._num_ranks:
                raise InvalidInput(f"experts={experts} must be a multiple of the group's {self._num_ranks} ranks")
            experts = contiguous_placement(experts, self._num_ranks)
        if experts.num_ranks != self._num_ranks:
            raise InvalidInput(f"experts are placed on {experts.num_ranks} ranks; the group has {self._num_ranks}")
        self._mover, self._rank, self.placement = mover, rank, experts
        held = _held(experts)
        self.held: list[int] = held[rank].tolist()
        self._width = int(held.counts.max())  # slots of a rank; slot r * width + i is the i-th expert of rank r
        self._slots_of = _slots_of(experts, held, self._width)
        self._server_of = torch.tensor(placement.server_of)
        self._carriers = np.array([_carriers(placement, member) for member in range(self._num_ranks)])
        self._carrier_of = torch.from_numpy(self._carriers[rank])
        servers = max(placement.server_of) + 1
        self._is_two_tier = 1 < servers < self._num_ranks
        self._least_s = mover.native_s(np.zeros((self._num_ranks,) * 2, np.int64))

    def layout(self, topk_idx: torch.Tensor) -> DispatchLayout:
        """Where tokens would go, without sending any."""
        ranks = self._ranks_of(self._choose(topk_idx))
        wanted = self._wanted(ranks).T
        known = topk_idx[topk_idx >= 0]
        return DispatchLayout(wanted.sum(0), torch.bincount(known, minlength=self.placement.num_experts), wanted)

    def dispatch(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor | None = None,
        topk_weights: torch.Tensor | None = None,
        *,
        handle: Dispatched | None = None,
    ) -> Dispatched:
        """Send tokens to their experts. Every rank must call it.

        Parameters
        ----------
        x
            Tokens of this rank, ``[tokens, hidden]``.
        topk_idx, topk_weights
            Experts of each token and their gate weights, ``[tokens, k]``; index -1 is no expert.
        handle
            Instead of these two: what an earlier dispatch returned. The same tokens go the same way with other values,
            and nothing is exchanged beforehand.
        """
        if handle is not None:
            return self._dispatch_again(x, topk_idx, topk_weights, handle)
        if topk_idx is None or topk_weights is None:
            raise InvalidInput("dispatch needs topk_idx and topk_weights, or a handle")
        if topk_idx.shape != topk_weights.shape or topk_idx.dim() != 2 or topk_idx.shape[0] != x.shape[0]:
            raise InvalidInput(
                f"topk_idx {tuple(topk_idx.shape)} and topk_weights {tuple(topk_weights.shape)} must be [tokens, k] "
                f"for the {x.shape[0]} tokens of x"
            )
        num_tokens, hops = x.shape[0], []
        weights, slots = topk_weights, self._choose(topk_idx)
        row_bytes = sum(v.shape[1] * v.element_size() for v in (x, weights, slots))
        server_of, carrier_of = self._server_of.to(x.device), self._carrier_of.to(x.device)
        ranks = self._ranks_of(slots)
        wanted = self._wanted(ranks)
        if self._is_two_tier:
            entering = self._wanted(torch.where(ranks >= 0, carrier_of[server_of[ranks.clamp(min=0)]], -1))
            straight, between_servers, inside = self._share(wanted, entering)
            if self._two_hops_pay(straight, between_servers, inside, row_bytes):
                hops.append(self._hop(entering, between_servers))
                x, weights, slots = _Forth.apply(hops[0], x, weights, slots)  # type: ignore[no-untyped-call]
                ranks = self._ranks_of(slots)
                is_here = (ranks >= 0) & (server_of[ranks.clamp(min=0)] == server_of[self._rank])
                wanted, straight = self._wanted(torch.where(is_here, ranks, -1)), inside
        else:
            straight = self._mover.share_rows(wanted.sum(1).tolist())
        hops.append(self._hop(wanted, straight))
        x, weights, slots = _Forth.apply(hops[-1], x, weights, slots)  # type: ignore[no-untyped-call]
        here = torch.where(self._ranks_of(slots) == self._rank, slots - self._rank * self._width, -1).to(torch.int64)
        counts = torch.bincount(here[here >= 0], minlength=len(self.held))
        return Dispatched(x, here, weights, counts, tuple(hops), num_tokens)

    def combine(self, y: torch.Tensor, handle: Dispatched) -> torch.Tensor:
        """Sums by token of this rank; `y` has a row for each of `handle.x`: its experts' weighted results, summed."""
        if y.shape[0] != handle.x.shape[0]:
            raise InvalidInput(f"y has {y.shape[0]} rows; {handle.x.shape[0]} tokens were dispatched here")
        for hop in reversed(handle._hops):
            y = _Back.apply(hop, y)  # type: ignore[no-untyped-call]
        return y

    def sum_replicas(self, gradient: torch.Tensor) -> None:
        """Replace the gradient of every replicated expert by the sum over its replicas. Every rank must call it.

        `gradient` is ``[held, ...]``, in the order of `held`. All replicas end with the same bits.
        """
        if gradient.shape[0] != len(self.held):
            raise InvalidInput(f"gradient has {gradient.shape[0]} rows; this rank holds {len(self.held)} experts")
        ranks_of = self.placement.ranks_of_expert
        shared = np.zeros((self._num_ranks, self._num_ranks), np.int64)
        picked: list[list[int]] = [[] for _ in range(self._num_ranks)]
        for expert in np.flatnonzero(ranks_of.counts > 1).tolist():
            holders = sorted(ranks_of[expert].tolist())
            for one in holders:
                for other in holders:
                    shared[one, other] += 1
                    if one == self._rank:
                        picked[other].append(self.held.index(expert))
        if not shared.any():
            return
        mine = torch.tensor([row for rows in picked for row in rows], dtype=torch.int64, device=gradient.device)
        flat = gradient.detach().reshape(len(gradient), -1)
        received = flat.new_empty(int(shared[:, self._rank].sum()), flat.shape[1])
        self._mover.move_rows(received, flat.index_select(0, mine), shared)
        # What comes from a rank is in the order of experts, as is what goes there: the two lists name the same ones.
        total, parts = torch.zeros_like(flat), [len(rows) for rows in picked]
        for rows, part in zip(torch.split(mine, parts), torch.split(received, parts), strict=True):
            total[rows] += part
        replicated = torch.unique(mine)
        gradient.view(len(gradient), -1)[replicated] = total[replicated]

    def _dispatch_again(
        self,
        x: torch.Tensor,
        topk_idx: torch.Tensor | None,
        topk_weights: torch.Tensor | None,
        handle: Dispatched,
    ) -> Dispatched:
        if topk_idx is not None or topk_weights is not None:
            raise InvalidInput("a handle says where tokens go: give it or topk_idx and topk_weights, not both")
        if x.shape[0] != handle._num_tokens:
            raise InvalidInput(f"x has {x.shape[0]} tokens; the handle is of {handle._num_tokens}")
        for hop in handle._hops:
            x = _Forth.apply(hop, x, None, None)[0]  # type: ignore[no-untyped-call]
        weights = handle.topk_weights.detach()
        return Dispatched(x, handle.topk_idx, weights, handle.num_tokens_per_expert, handle._hops, handle._num_tokens)

    def _choose(self, topk_idx: torch.Tensor) -> torch.Tensor:
        """Slot of every choice, -1 for none."""
        slots_of = self._slots_of.to(topk_idx.device)
        if topk_idx.numel() and int(topk_idx.max()) >= len(slots_of):
            raise InvalidInput(f"topk_idx names expert {int(topk_idx.max())}; they end at {len(slots_of) - 1}")
        offered = slots_of[topk_idx.clamp(min=0)]  # [tokens, k, most replicas]
        most = offered.shape[2]
        if most == 1:
            return torch.where(topk_idx >= 0, offered[..., 0], -1)
        ranks, is_offered = self._ranks_of(offered), offered >= 0
        count = is_offered.sum(2, keepdim=True)
        visited = self._wanted(torch.where((topk_idx >= 0) & (count[..., 0] == 1), ranks[..., 0], -1)).T
        visits = visited.gather(1, ranks.clamp(min=0).flatten(1)).view(ranks.shape)
        token = torch.arange(len(topk_idx), device=topk_idx.device).view(-1, 1, 1)
        turn = (torch.arange(most, device=topk_idx.device) - token) % count
        worth = torch.where(ranks == self._rank, 2, visits.to(torch.int64)) * most - turn
        best = torch.where(is_offered, worth, -most).argmax(dim=2, keepdim=True)
        return torch.where(topk_idx >= 0, offered.gather(2, best)[..., 0], -1)

    def _ranks_of(self, slots: torch.Tensor) -> torch.Tensor:
        return torch.where(slots >= 0, slots // self._width, -1)

    def _wanted(self, ranks: torch.Tensor) -> torch.Tensor:
        """Whether each rank is among those a row names, ``[num_ranks, rows]``."""
        wanted = torch.zeros((self._num_ranks, ranks.shape[0]), dtype=torch.bool, device=ranks.device)
        row, choice = torch.nonzero(ranks >= 0, as_tuple=True)
        wanted[ranks[row, choice], row] = True
        return wanted

    def _share(
        self, wanted: torch.Tensor, entering: torch.Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows between all ranks straight, and across and inside servers, by one exchange."""
        told = self._mover.share_rows((wanted.sum(1) + (entering.sum(1) << COUNT_BITS)).tolist())
        straight, between_servers = told & ((1 << COUNT_BITS) - 1), told >> COUNT_BITS
        inside = np.zeros_like(straight)  # what enters a server at a rank goes on from there
        source, target = np.nonzero(straight)
        carrier = self._carriers[source, np.array(self._mover.placement.server_of)[target]]
        np.add.at(inside, (carrier, target), straight[source, target])
        return straight, between_servers, inside

    def _two_hops_pay(
        self, straight: NDArray[np.int64], between_servers: NDArray[np.int64], inside: NDArray[np.int64], row_bytes: int
    ) -> bool:
        """Whether two hops are estimated to be faster than one."""
        one_s = self._mover.native_s(straight * row_bytes)
        if one_s <= 2 * self._least_s:
            return False
        return sum(self._mover.native_s(rows * row_bytes) for rows in (between_servers, inside)) < one_s

    def _hop(self, wanted: torch.Tensor, rows: NDArray[np.int64]) -> _Hop:
        """Each row once to each rank that wants it."""
        picked = torch.nonzero(wanted, as_tuple=True)[1]
        order = torch.argsort(picked, stable=True)  # copies of a row, in the order of ranks
        copies = wanted.sum(dim=0)
        row = picked[order]
        number = torch.arange(len(order), device=row.device) - (torch.cumsum(copies, 0) - copies)[row]
        most = int(copies.max()) if len(row) else 0
        places = torch.full((wanted.shape[1], most), len(picked), device=row.device)
        places[row, number] = order
        return _Hop(self._mover, picked, places, rows)


def _held(experts: ExpertPlacement) -> Ragged:
    """Experts of each rank, ascending."""
    ranks = experts.ranks_of_expert
    return Ragged.from_pairs(ranks.values.astype(np.int64), ranks.row_of_value, experts.num_ranks)


def _slots_of(experts: ExpertPlacement, held: Ragged, width: int) -> torch.Tensor:
    """Slots of each expert in the order of its replicas, ``[num_experts, most replicas]``, -1 behind the last."""
    rank = held.row_of_value
    slot = rank * width + np.arange(len(held.values)) - held.offsets[rank]
    by_expert = Ragged.from_pairs(held.values.astype(np.int64), slot, experts.num_experts)
    made = np.full((experts.num_experts, int(by_expert.counts.max())), -1, np.int64)
    row = by_expert.row_of_value
    made[row, np.arange(len(row)) - by_expert.offsets[row]] = by_expert.values
    return torch.from_numpy(made)


def _carriers(placement: GroupPlacement, rank: int) -> list[int]:
    """The rank through which a rank's tokens enter each server: the one of its own index, or the server's first."""
    width = placement.ranks_per_server
    carriers = []
    for server in range(max(placement.server_of) + 1):
        members = [member for member, home in enumerate(placement.server_of) if home == server]
        index = placement.rank_of[rank] % width
        carriers.append(next((m for m in members if placement.rank_of[m] % width == index), members[0]))
    return carriers
