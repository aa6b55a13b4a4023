"""Routing and expert loads from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.files import FilePath
from interlock.traffic.placement import MAX_EXPERTS, Placement, check_count, contiguous_placement
from interlock.traffic.readers import npz_names, read_array, read_npy, read_npz
from interlock.traffic.routing import Routing

__all__ = ["read_expert_loads", "read_routing"]


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
    check_count(layer, "layer", len(ids) - 1 if ids.ndim == 3 else 0, least=0)
    chosen = ids[layer] if ids.ndim == 3 else ids
    try:
        placed = placement or contiguous_placement(experts, num_ranks)
        return Routing(
            experts=np.ascontiguousarray(chosen, np.int32),
            rank_of_token=(np.arange(len(chosen)) * placed.num_ranks // len(chosen)).astype(np.int32),
            placement=placed,
            gate_weights=None if is_npy else _weights(path, chosen_name, ids.shape, layer),
            name=f"{Path(path).stem}/{chosen_name}" + (f", layer {layer}" if ids.ndim == 3 else ""),
        )
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


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
