"""Traces of real models in: expert-distribution dumps of sglang and vLLM, EPLB loads, routing in parquet.

`.pt` files are opened with ``torch.load(weights_only=True)`` only, which builds tensors and plain containers and
nothing else; parquet needs the extra `traces`.
"""

from __future__ import annotations

import importlib
import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, MissingDependency, at
from interlock.files import FilePath, check_file
from interlock.traffic import (
    Demand,
    Routing,
    contiguous_placement,
    eplb_placement,
    matrix,
    read_expert_loads,
    read_routing,
)
from interlock.traffic.readers import npz_names, read_npz
from interlock.units import parse_bytes

__all__ = [
    "ExpertCounts",
    "TraceText",
    "demand_of_routing",
    "parse_trace",
    "read_expert_counts",
    "read_routing_trace",
]

MAX_PT_BYTES = 4 << 30
TRACES = (".npz", ".npy", ".parquet", ".pt")
MAX_TOKENS = 1 << 22
MAX_EXPERTS = 1 << 16
LOGICAL = ("logical_count", "logical_expert_load", "expert_load", "weight", "loads")
PHYSICAL = ("global_physical_count", "physical_count", "expert_load_pass", "expert_load_window", "physical_load")
MAPS = ("physical_to_logical_map", "last_physical_to_logical_map")


@dataclass(frozen=True, slots=True, eq=False)
class ExpertCounts:
    """Tokens that each expert of each layer served, over everything the file recorded."""

    counts: NDArray[np.int64]  # [layers, experts]
    source: str


def read_expert_counts(path: FilePath) -> ExpertCounts:
    """Expert loads from a `.pt` dump (sglang's recorder, vLLM's EPLB), or from text or npz as EPLB takes them."""
    file = Path(path)
    if file.suffix != ".pt":
        return ExpertCounts(read_expert_loads(file), "EPLB loads")
    dump = _load_pt(file)
    if not isinstance(dump, Mapping):
        return ExpertCounts(_counts(file, _array(file, "the tensor", dump)), "a tensor of loads")
    if "records" in dump:
        return ExpertCounts(_record_counts(file, dump), "sglang's recorder, per pass or token")
    for name in LOGICAL:
        if name in dump:
            source = "sglang's recorder" if name == "logical_count" else "EPLB loads"
            return ExpertCounts(_counts(file, _array(file, name, dump[name])), source)
    for name in PHYSICAL:
        if name in dump:
            counts = _counts(file, _array(file, name, dump[name]))
            return ExpertCounts(_to_logical(file, counts, dump), f"{name} of replicas")
    raise InvalidInput(f"{file} holds {_names(dump)}; none of them are expert loads")


def read_routing_trace(
    path: FilePath, num_ranks: int, layer: int = 0, num_experts: int | None = None, max_tokens: int = 1 << 20
) -> Routing:
    """Top-k experts of every token from parquet (FLAME-MoE's layout), sglang's per-token dumps, or npz.

    Tokens are dealt to the ranks in contiguous, nearly equal blocks, experts likewise.

    Parameters
    ----------
    layer
        Which layer of a dump; a parquet file holds one.
    max_tokens
        Only so many tokens are read.
    """
    file = Path(path)
    if not 1 <= max_tokens <= MAX_TOKENS:
        raise InvalidInput(f"max_tokens={max_tokens} must be between 1 and {MAX_TOKENS}")
    weights: NDArray[np.float32] | None = None
    if file.suffix == ".parquet":
        experts, weights = _read_parquet(file, max_tokens)
    elif file.suffix == ".pt":
        experts = _recorded_tokens(file, layer)[:max_tokens]
    else:
        return read_routing(file, num_ranks, layer=layer, num_experts=num_experts)
    if experts.ndim != 2 or 0 in experts.shape:
        raise InvalidInput(f"{file} holds no routed tokens")
    known = experts >= 0
    if not known.all():
        experts = experts[known.all(axis=1)]  # padded tokens carry -1
        weights = None
    if not len(experts) or int(experts.max()) >= MAX_EXPERTS:
        raise InvalidInput(f"{file}: expert ids must be between 0 and {MAX_EXPERTS - 1}")
    count = int(experts.max()) + 1 if num_experts is None else num_experts
    with at(file):
        return Routing(
            experts=np.ascontiguousarray(experts, np.int32),
            rank_of_token=(np.arange(len(experts)) * num_ranks // len(experts)).astype(np.int32),
            placement=contiguous_placement(count, num_ranks),
            gate_weights=weights,
            name=file.stem if file.suffix == ".parquet" else f"{file.stem}, layer {layer}",
        )


@dataclass(frozen=True, slots=True)
class TraceText:
    """A routing trace as the command line names it: ``FILE[:ARRAY[:LAYER]][,token=BYTES][,placement=KIND]``.

    ARRAY is a task of an npz; `.npy`, parquet and `.pt` take ``FILE:LAYER``. A placement is "contiguous", or "eplb:N"
    for EPLB with N extra slots per GPU.
    """

    file: str
    array: str | None = None
    layer: int = 0
    token_bytes: int | None = None  # None: scaled to bytes per GPU
    extra_slots: int | None = None  # of EPLB; None: contiguous

    def demand(self, num_ranks: int, bytes_per_gpu: int) -> Demand:
        """Its dispatch, every token at its size or all of them scaled to `bytes_per_gpu`."""
        if self.file.lower().endswith(".npz"):
            routing = read_routing(self.file, num_ranks, self.array, self.layer)
        else:
            routing = read_routing_trace(self.file, num_ranks, self.layer)
        if self.extra_slots is not None:
            routing = routing.with_placement(eplb_placement(routing.expert_loads(), num_ranks, self.extra_slots))
        if self.token_bytes is not None:
            return routing.to_demand(self.token_bytes)
        return demand_of_routing(routing, bytes_per_gpu)


def parse_trace(text: str) -> TraceText | None:
    """The trace that a text names; None where it names something else, as a byte matrix."""
    place, *options = text.split(",")
    file, array, layer = _split_place(place)
    if file is None or (file.lower().endswith(".npz") and not array and not options and _holds_a_matrix(file)):
        return None
    token_bytes = extra_slots = None
    for option in options:
        key, _, value = option.partition("=")
        if key == "token":
            token_bytes = parse_bytes(value, "token")
        elif key == "placement" and value == "contiguous":
            extra_slots = None
        elif key == "placement" and (found := re.fullmatch(r"eplb:([0-9]{1,6})", value)):
            extra_slots = int(found[1])
        else:
            raise InvalidInput(
                f"traffic {text[:80]!r}: {option[:40]!r} is none of token=BYTES, placement=contiguous and "
                "placement=eplb:EXTRA_SLOTS"
            )
    return TraceText(file, array, layer, token_bytes, extra_slots)


def _split_place(place: str) -> tuple[str | None, str | None, int]:
    """File, array and layer; no file where the words do not name a trace."""
    for ending in TRACES:
        at = place.lower().find(ending)
        if at < 0 or place[at + len(ending) : at + len(ending) + 1] not in ("", ":"):
            continue
        file, rest = place[: at + len(ending)], place[at + len(ending) + 1 :].split(":")
        array = rest[0] if ending == ".npz" else ""
        number = (rest[1] if len(rest) > 1 else "") if ending == ".npz" else rest[0]
        if len(rest) > 2 or not re.fullmatch(r"[0-9]{0,6}", number):
            raise InvalidInput(f"traffic {place[:80]!r}: after the file comes {'ARRAY:' * (ending == '.npz')}LAYER")
        return file, array or None, int(number or 0)
    return None, None, 0


def _holds_a_matrix(file: str) -> bool:
    """Whether an npz is a byte matrix: one by its name, or one square array."""
    names = npz_names(file)
    if any(name in names for name in ("demand", "bytes_matrix", "matrix")):
        return True
    array = read_npz(file, (names[0],)) if len(names) == 1 else None
    return array is not None and array.ndim == 2 and array.shape[0] == array.shape[1]


def demand_of_routing(routing: Routing, bytes_per_gpu: int) -> Demand:
    """Dispatch of a routing, scaled so that a GPU sends `bytes_per_gpu` on average (at least a byte per choice)."""
    tokens = routing.to_demand(1).bytes_matrix
    total = int(tokens.sum())
    per_choice = max(1, bytes_per_gpu * routing.num_ranks // max(1, total))
    return matrix(tokens * np.int64(per_choice), routing.name)


def _load_pt(file: Path) -> Any:
    """The contents of a `.pt` file; tensors, numbers, strings and containers only."""
    check_file(file, MAX_PT_BYTES)
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise MissingDependency(f"{file}: .pt files need torch (pip install 'interlock[torch]')") from None
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(f"{file} is no .pt file of plain tensors: {reason}") from None
    except Exception as error:
        # A corrupted archive can make the unpickler raise anything.
        raise InvalidInput(f"{file} is no .pt file of plain tensors ({type(error).__name__})") from None


def _array(file: Path, name: str, value: object) -> NDArray[Any]:
    """A tensor as an array of whole numbers."""
    if not hasattr(value, "numpy") or not hasattr(value, "dim"):
        raise InvalidInput(f"{file}: {name} is {type(value).__name__}, not a tensor")
    array: NDArray[Any] = np.asarray(value.detach().cpu().numpy())  # type: ignore[attr-defined]
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InvalidInput(f"{file}: {name} holds {array.dtype}, not finite numbers")
    return array


def _counts(file: Path, array: NDArray[Any]) -> NDArray[np.int64]:
    """``[..., layers, experts]`` summed to ``[layers, experts]``."""
    if array.ndim < 1 or array.ndim > 4 or 0 in array.shape or array.shape[-1] > MAX_EXPERTS:
        raise InvalidInput(f"{file}: loads have shape {array.shape}; [steps, layers, experts] is needed")
    table = np.atleast_2d(array)
    table = table.reshape(-1, *table.shape[-2:]).astype(np.float64).sum(axis=0)
    if (table < 0).any() or table.sum() > 2**62:
        raise InvalidInput(f"{file}: loads must be at least 0 and add up to at most 2^62")
    counts: NDArray[np.int64] = np.rint(table).astype(np.int64)
    return counts


def _to_logical(file: Path, counts: NDArray[np.int64], dump: Mapping[str, object]) -> NDArray[np.int64]:
    """Loads of replicas added up by the expert they are of; without a map, replicas are experts."""
    name = next((name for name in MAPS if name in dump), None)
    if name is None:
        return counts
    table = np.atleast_2d(_array(file, name, dump[name])).astype(np.int64)
    if table.shape != counts.shape or table.min() < 0 or table.max() >= MAX_EXPERTS:
        raise InvalidInput(f"{file}: {name} of shape {table.shape} does not fit loads of shape {counts.shape}")
    logical = np.zeros((len(counts), int(table.max()) + 1), np.int64)
    for layer in range(len(counts)):
        np.add.at(logical[layer], table[layer], counts[layer])
    return logical


def _records(file: Path, dump: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    records = dump.get("records")
    if not isinstance(records, list) or not records or not all(isinstance(r, Mapping) for r in records):
        raise InvalidInput(f"{file}: 'records' is no list of recorded passes")
    return records


def _record_counts(file: Path, dump: Mapping[str, Any]) -> NDArray[np.int64]:
    """Loads over all passes of sglang's detailed recorder."""
    total: NDArray[np.int64] | None = None
    for record in _records(file, dump):
        name = next((name for name in PHYSICAL if name in record), None)
        if name is None:
            raise InvalidInput(f"{file}: a pass holds {_names(record)}; none of them are expert loads")
        counts = _counts(file, _array(file, name, record[name]))
        if total is not None and total.shape != counts.shape:
            raise InvalidInput(f"{file}: passes have loads of different shapes")
        total = counts if total is None else total + counts
    assert total is not None
    return _to_logical(file, total, dump)


def _recorded_tokens(file: Path, layer: int) -> NDArray[np.int64]:
    """Experts of one layer's tokens, pass after pass."""
    dump = _load_pt(file)
    if not isinstance(dump, Mapping):
        raise InvalidInput(f"{file} holds one tensor; routing needs sglang's per-token records")
    loads = next((name for name in (*LOGICAL, *PHYSICAL) if name in dump), None)
    if "records" not in dump and loads is not None:
        raise InvalidInput(
            f"{file} holds {loads}, the loads of experts, not which expert each token chose; traffic needs a recording "
            "in mode per_token"
        )
    parts = []
    for record in _records(file, dump):
        if "topk_ids_of_layer" not in record:
            raise InvalidInput(f"{file}: a pass holds {_names(record)}; record with mode per_token for routing")
        ids = _array(file, "topk_ids_of_layer", record["topk_ids_of_layer"])
        if ids.ndim != 3 or not 0 <= layer < len(ids):
            raise InvalidInput(f"{file}: layer={layer} is not in expert ids of shape {ids.shape}")
        parts.append(ids[layer].astype(np.int64))
    if len({part.shape[1] for part in parts}) != 1:
        raise InvalidInput(f"{file}: passes choose different numbers of experts per token")
    return np.concatenate(parts)


def _read_parquet(file: Path, max_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Columns `indices` (expert ids) and, where there is one, `scores`."""
    check_file(file, 1 << 40)
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        raise MissingDependency(f"{file}: parquet needs pyarrow (pip install 'interlock[traces]')") from None
    try:
        with parquet.ParquetFile(file) as opened:
            names = set(opened.schema_arrow.names)
            column = next((name for name in ("indices", "experts", "topk_ids") if name in names), None)
            if column is None:
                raise InvalidInput(f"{file} has columns {', '.join(sorted(names))[:120]}; 'indices' is needed")
            wanted = [column] + (["scores"] if "scores" in names else [])
            ids: list[NDArray[np.int64]] = []
            scores: list[NDArray[np.float32]] = []
            taken = 0
            for batch in opened.iter_batches(batch_size=1 << 16, columns=wanted):
                ids.append(_rectangle(file, batch.column(0)).astype(np.int64))
                if len(wanted) == 2:
                    scores.append(_rectangle(file, batch.column(1)).astype(np.float32))
                taken += len(ids[-1])
                if taken >= max_tokens:
                    break
    except (arrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file} is no readable parquet file: {' '.join(str(error).split())[:120]}") from None
    if not ids or len({part.shape[1] for part in ids}) != 1:
        raise InvalidInput(f"{file} holds no tokens, or rows of different lengths")
    weights = np.concatenate(scores)[:max_tokens] if scores else None
    return np.concatenate(ids)[:max_tokens], weights


def _rectangle(file: Path, column: Any) -> NDArray[Any]:
    """A column of lists of one length as ``[rows, length]``."""
    if column.null_count:
        raise InvalidInput(f"{file}: a row of {column.type} is empty")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if len(column) == 0 or len(flat) % len(column) or flat.dtype.kind not in "iuf":
        raise InvalidInput(f"{file}: rows must be lists of numbers of one length")
    if (np.diff(np.asarray(_offsets(column))) != len(flat) // len(column)).any():
        raise InvalidInput(f"{file}: rows must be lists of numbers of one length")
    rectangle: NDArray[Any] = flat.reshape(len(column), -1)
    return rectangle


def _offsets(column: Any) -> NDArray[Any]:
    if hasattr(column, "offsets"):
        offsets: NDArray[Any] = column.offsets.to_numpy(zero_copy_only=False)
        return offsets
    fixed: NDArray[Any] = np.arange(len(column) + 1) * column.type.list_size
    return fixed


def _names(table: Mapping[Any, Any]) -> str:
    return ", ".join(sorted(str(name)[:40] for name in table))[:160] or "nothing"
