"""Routing: the experts each token goes to, and what that makes each rank owe each rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, at, check_whole
from interlock.files import FilePath
from interlock.ragged import Ragged
from interlock.traffic.demand import MAX_TOTAL_BYTES, Demand
from interlock.traffic.placement import MAX_EXPERTS, Placement, contiguous_placement
from interlock.traffic.readers import npz_names, read_array, read_npy, read_npz

__all__ = ["Copies", "Routing", "RoutingStatistics", "read_expert_loads", "read_routing"]


Copies = Literal["expert", "rank", "server"]


@dataclass(frozen=True, slots=True)
class RoutingStatistics:
    """How uneven a routing is; ratios are largest over mean."""

    hottest_expert: float  # token-expert pairs of the hottest expert
    expert_variation: float  # standard deviation over mean of the same
    pairs_per_rank: float  # token-expert pairs received by the fullest rank
    copies_per_rank: float  # the same with one copy of a token per rank
    ranks_per_token: float  # distinct ranks a token goes to, mean


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Top-k experts of every token, where the token is, and where the experts are.

    A replicated expert serves token t at its replica number ``t mod replicas``, so that they share the load.
    """

    experts: NDArray[np.int32]  # [num_tokens, top_k], all different within a token
    rank_of_token: NDArray[np.int32]  # [num_tokens]
    placement: Placement
    gate_weights: NDArray[np.float32] | None = None  # [num_tokens, top_k]
    name: str = "routing"
    seed: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        for column in (self.experts, self.rank_of_token, self.gate_weights):
            if column is not None:
                column.flags.writeable = False

    @property
    def num_tokens(self) -> int:
        """Rows."""
        return len(self.experts)

    @property
    def top_k(self) -> int:
        """Experts per token."""
        return int(self.experts.shape[1])

    @property
    def num_ranks(self) -> int:
        """Ranks that hold tokens or experts."""
        return self.placement.num_ranks

    def expert_loads(self) -> NDArray[np.int64]:
        """Tokens that each expert serves, ``[num_experts]``."""
        return np.bincount(self.experts.ravel(), minlength=self.placement.num_experts)

    def targets(self) -> NDArray[np.int32]:
        """Rank that serves each choice, ``[num_tokens, top_k]``."""
        ranks = self.placement.ranks_of_expert
        if not self.placement.is_replicated:
            return ranks.values[self.experts]
        replica = np.arange(self.num_tokens)[:, None] % ranks.counts[self.experts]
        return ranks.values[ranks.offsets[:-1][self.experts] + replica]

    def ranks_of_token(self) -> Ragged:
        """The distinct ranks each token goes to, ascending; its own may be among them."""
        ordered = np.sort(self.targets(), axis=1)
        is_new = np.ones_like(ordered, np.bool_)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        return Ragged.from_counts(is_new.sum(axis=1), ordered[is_new])

    def with_placement(self, placement: Placement) -> Routing:
        """The same choices with the experts somewhere else."""
        return replace(self, placement=placement)

    def to_demand(self, bytes_per_token: int, copies: Copies = "expert", ranks_per_server: int | None = None) -> Demand:
        """Dispatch as bytes between ranks.

        Parameters
        ----------
        bytes_per_token
            Hidden size times bytes per element.
        copies
            "expert": one per chosen expert; "rank": one per rank that holds any of them; "server": one per other
            server, to the GPU of the sender's own index there (`fan_out` says what goes on from it), and one per rank
            inside the sender's server.
        ranks_per_server
            Needed for "server".
        """
        check_whole(bytes_per_token, "bytes_per_token", 1, 2**40)
        if copies == "expert":
            src, dst = np.repeat(self.rank_of_token, self.top_k), self.targets().ravel()
        elif copies == "rank":
            src, dst = self._pairs()
        elif copies == "server":
            src, entry, _ = self._entries(ranks_per_server)
            # Tokens that enter a server at one rank do so once, however many of its ranks they go to.
            token = self.ranks_of_token().row_of_value
            once = np.unique(np.stack([token, entry]), axis=1, return_index=True)[1]
            src, dst = src[once], entry[once]
        else:
            raise InvalidInput(f"copies={copies!r} must be expert, rank or server")
        return self._count(src, dst, bytes_per_token, f"{self.name}, one copy per {copies}")

    def fan_out(self, bytes_per_token: int, ranks_per_server: int) -> Demand:
        """What goes on inside servers after ``to_demand(copies="server")``: from where a copy entered to its ranks."""
        check_whole(bytes_per_token, "bytes_per_token", 1, 2**40)
        src, entry, dst = self._entries(ranks_per_server)
        is_outside = src // ranks_per_server != dst // ranks_per_server
        return self._count(entry[is_outside], dst[is_outside], bytes_per_token, f"{self.name}, fan-out")

    def statistics(self) -> RoutingStatistics:
        """How uneven this routing is."""
        loads = self.expert_loads()
        pairs = np.bincount(self.targets().ravel(), minlength=self.num_ranks)
        distinct = self.ranks_of_token()
        copies = np.bincount(distinct.values, minlength=self.num_ranks)
        return RoutingStatistics(
            hottest_expert=float(loads.max() / loads.mean()),
            expert_variation=float(loads.std() / loads.mean()),
            pairs_per_rank=float(pairs.max() / pairs.mean()),
            copies_per_rank=float(copies.max() / copies.mean()),
            ranks_per_token=float(distinct.counts.mean()),
        )

    def _pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rank of the token and each distinct rank it goes to."""
        distinct = self.ranks_of_token()
        return self.rank_of_token[distinct.row_of_value], distinct.values

    def _entries(self, ranks_per_server: int | None) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """For each distinct (token, rank): where the token is, where its copy enters the rank's server, the rank."""
        if ranks_per_server is None or self.num_ranks % ranks_per_server:
            raise InvalidInput(f"ranks_per_server={ranks_per_server!r} must divide the {self.num_ranks} ranks")
        width = np.int32(ranks_per_server)
        src, dst = self._pairs()
        is_inside = src // width == dst // width
        return src, np.where(is_inside, dst, dst // width * width + src % width), dst

    def _count(self, src: NDArray[np.int32], dst: NDArray[np.int32], bytes_per_token: int, name: str) -> Demand:
        ranks = self.num_ranks
        copies = np.bincount(src.astype(np.int64) * ranks + dst, minlength=ranks * ranks).reshape(ranks, ranks)
        if len(src) * int(bytes_per_token) > MAX_TOTAL_BYTES:
            raise InvalidInput(f"{len(src)} copies of bytes_per_token={bytes_per_token} are more than 2^62 bytes")
        return Demand(copies * np.int64(bytes_per_token), name, self.seed)


def _check(routing: Routing) -> None:
    experts, ranks = routing.experts, routing.rank_of_token
    if experts.ndim != 2 or experts.dtype != np.int32 or 0 in experts.shape:
        raise InvalidInput(f"experts must be int32 of shape [num_tokens, top_k], not {experts.dtype} {experts.shape}")
    num_experts = routing.placement.num_experts
    bad = (experts < 0) | (experts >= num_experts)
    if bad.any():
        token, place = map(int, np.argwhere(bad)[0])
        raise InvalidInput(f"experts[{token}, {place}]={experts[token, place]} must be between 0 and {num_experts - 1}")
    ordered = np.sort(experts, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        token = int(np.flatnonzero(twice)[0])
        raise InvalidInput(f"token {token} names an expert twice ({experts[token].tolist()}); its experts must differ")
    if ranks.shape != (len(experts),) or ranks.dtype != np.int32:
        raise InvalidInput(f"rank_of_token must be int32 of shape ({len(experts)},), not {ranks.dtype} {ranks.shape}")
    if ranks.min() < 0 or ranks.max() >= routing.num_ranks:
        raise InvalidInput(f"rank_of_token holds {ranks.min()}..{ranks.max()}; ranks end at {routing.num_ranks - 1}")
    weights = routing.gate_weights
    if weights is not None:
        if weights.shape != experts.shape or weights.dtype != np.float32:
            raise InvalidInput(f"gate_weights must be float32 of shape {experts.shape}")
        if not (np.isfinite(weights) & (weights >= 0)).all():
            token, place = map(int, np.argwhere(~(np.isfinite(weights) & (weights >= 0)))[0])
            raise InvalidInput(f"gate_weights[{token}, {place}]={weights[token, place]} must be finite and at least 0")


def read_routing(
    path: FilePath,
    num_ranks: int,
    array: str | None = None,
    layer: int = 0,
    num_experts: int | None = None,
    placement: Placement | None = None,
) -> Routing:
    """Routing of one layer from an npy or npz of expert ids, ``[tokens, top_k]`` or ``[layers, tokens, top_k]``.

    Tokens are dealt to the ranks in contiguous, nearly equal blocks. Gate weights are read from an array called
    ``ARRAY_weights`` (or ``weights``) where there is one of the same shape.

    Parameters
    ----------
    array
        Which array of the file; a file of several tasks has one per task. By default ``experts``, or the only one.
    num_experts
        By default one more than the highest id in the array.
    placement
        Where the experts are; contiguous by default.
    """
    is_npy = Path(path).suffix.lower() == ".npy"
    if is_npy and array is not None:
        raise InvalidInput(f"{path} holds one array without a name; {array!r} is not in it")
    held = [] if is_npy else npz_names(path)
    chosen_name = array or (held[0] if len(held) == 1 else "experts")
    ids = read_npy(path) if is_npy else read_npz(path, (chosen_name,), or_only=False)
    where = f"{path}: {chosen_name}"
    if ids.dtype.kind not in "iu" or ids.ndim not in (2, 3) or 0 in ids.shape:
        raise InvalidInput(
            f"{where} is {ids.dtype} of shape {ids.shape}; expert ids are whole numbers [layers, tokens, k]"
        )
    if int(ids.min()) < 0 or int(ids.max()) >= MAX_EXPERTS:
        raise InvalidInput(
            f"{where} holds {ids.min()}..{ids.max()}; expert ids must be between 0 and {MAX_EXPERTS - 1}"
        )
    experts = int(ids.max()) + 1 if num_experts is None else num_experts
    check_whole(layer, "layer", 0, len(ids) - 1 if ids.ndim == 3 else 0)
    chosen = ids[layer] if ids.ndim == 3 else ids
    with at(where):
        placed = placement or contiguous_placement(experts, num_ranks)
        return Routing(
            experts=np.ascontiguousarray(chosen, np.int32),
            rank_of_token=(np.arange(len(chosen)) * placed.num_ranks // len(chosen)).astype(np.int32),
            placement=placed,
            gate_weights=None if is_npy else _weights(path, chosen_name, ids.shape, layer),
            name=f"{Path(path).stem}/{chosen_name}" + (f", layer {layer}" if ids.ndim == 3 else ""),
        )


def _weights(path: FilePath, array: str, shape: tuple[int, ...], layer: int) -> NDArray[np.float32] | None:
    held = npz_names(path)
    name = next((name for name in (f"{array}_weights", "weights") if name in held), None)
    if name is None:
        return None
    weights = read_npz(path, (name,))
    if weights.shape != shape or weights.dtype.kind != "f":
        raise InvalidInput(f"{name} is {weights.dtype} of shape {weights.shape}; gate weights must match {shape}")
    return np.ascontiguousarray(weights[layer] if len(shape) == 3 else weights, np.float32)


def read_expert_loads(path: FilePath) -> NDArray[np.int64]:
    """Tokens per layer and expert, ``[layers, experts]``, as EPLB takes them: text (one layer per line) or npz."""
    loads = np.atleast_2d(read_array(path, names=("loads", "weight", "expert_load")))
    if loads.ndim != 2 or loads.dtype.kind not in "iu" or loads.shape[1] > MAX_EXPERTS or 0 in loads.shape:
        raise InvalidInput(f"{path} is {loads.dtype} of shape {loads.shape}; loads are whole numbers [layers, experts]")
    if loads.dtype.kind == "i" and (loads < 0).any():
        layer, expert = map(int, np.argwhere(loads < 0)[0])
        raise InvalidInput(f"{path}: layer {layer}, expert {expert}: {loads[layer, expert]} must be at least 0")
    if float(loads.sum(dtype=np.float64)) > 2**62:
        raise InvalidInput(f"{path}: the loads add up to more than 2^62")
    return loads.astype(np.int64)
