"""Collectives as items: who contributes what, who must end with it, and sizes as nccl-tests count them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.collectives import CollectiveKind, collective
from interlock.problem import Items, collective_problem

KINDS = [kind.value for kind in CollectiveKind]


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, int, list[int] | None, int, int, int]:
    """Kind, size, group, root, chunks, ranks of the topology."""
    ranks = draw(st.integers(2, 7))
    members = st.lists(st.integers(0, ranks - 1), min_size=1, unique=True)
    group = draw(st.none() | members)
    root = draw(st.sampled_from(group or list(range(ranks))))
    size = draw(st.sampled_from([0, 1, 3, 100, 4096, 1_000_003]))
    return draw(st.sampled_from(KINDS)), size, group, root, draw(st.integers(1, 4)), ranks


def received(items: Items, ranks: int) -> tuple[list[int], list[int]]:
    """Bytes that each rank contributes, and that each must end with."""
    given_bytes, ended = [0] * ranks, [0] * ranks
    for item in range(len(items)):
        for rank in items.contributors[item].tolist():
            given_bytes[rank] += int(items.size_bytes[item])
        for rank in items.destinations[item].tolist():
            ended[rank] += int(items.size_bytes[item])
    return given_bytes, ended


@given(case=cases())
def test_every_rank_gives_and_gets_what_the_collective_says(
    case: tuple[str, int, list[int] | None, int, int, int],
) -> None:
    kind, size, group, root, chunks, ranks = case
    problem = collective_problem(il.topology.ring(ranks, bandwidth=1e9), collective(kind, size, group, root), chunks)
    members = list(range(ranks)) if group is None else group
    count = len(members)
    share = [size // count + (place < size % count) for place in range(count)]
    gives, gets = dict.fromkeys(range(ranks), 0), dict.fromkeys(range(ranks), 0)
    for place, rank in enumerate(members):
        whole, own, here = size, share[place], rank == root
        gives[rank], gets[rank] = {
            "all-gather": (own, whole),
            "reduce-scatter": (whole, own),
            "all-reduce": (whole, whole),
            "all-to-all": (whole - own, own * (count - 1)),
            "broadcast": (whole if here else 0, whole),
            "reduce": (whole, whole if here else 0),
            "gather": (0 if here else own, whole - own if here else 0),
            "scatter": (whole - own if here else 0, 0 if here else own),
        }[kind]

    items = problem.items
    assert received(items, ranks) == (list(gives.values()), list(gets.values()))
    assert (items.size_bytes > 0).all()
    assert items.are_reduced == (kind in ("reduce-scatter", "all-reduce", "reduce") and count > 1)


@given(case=cases())
def test_chunks_of_a_share_differ_by_at_most_a_byte(case: tuple[str, int, list[int] | None, int, int, int]) -> None:
    kind, size, group, root, chunks, ranks = case
    made = collective(kind, size, group, root)
    topology = il.topology.ring(ranks, bandwidth=1e9)
    whole, cut = (collective_problem(topology, made, k).items for k in (1, chunks))

    assert len(cut) <= chunks * len(whole) and cut.size_bytes.sum() == whole.size_bytes.sum()
    if len(cut) == chunks * len(whole) > 0:
        parts = cut.size_bytes.reshape(-1, chunks)
        assert np.array_equal(parts.sum(axis=1), whole.size_bytes)
        assert (parts.max(axis=1) - parts.min(axis=1)).max() <= 1


def test_all_to_all_items_are_pairs_row_by_row() -> None:
    items = collective_problem(il.topology.ring(4, bandwidth=1e9), il.all_to_all(40, group=[3, 0, 2])).items
    pairs = list(zip(items.contributors.to_ragged().values, items.destinations.to_ragged().values, strict=True))

    assert pairs == [(3, 0), (3, 2), (0, 3), (0, 2), (2, 3), (2, 0)]
    assert items.size_bytes.tolist() == [13, 13, 14, 13, 14, 13]


def test_a_large_all_to_all_has_every_pair_once() -> None:
    items = collective_problem(il.topology.torus(8, 8, 8, bandwidth=1e9), il.all_to_all("1 GiB")).items
    src, dst = items.contributors.to_ragged().values, items.destinations.to_ragged().values

    assert len(items) == 512 * 511 and (items.size_bytes == 2**21).all()
    assert np.array_equal(np.unique(src.astype(np.int64) * 512 + dst), np.flatnonzero(~np.eye(512, dtype=bool)))


def test_too_many_items_are_refused_before_any_is_made() -> None:
    mesh = il.topology.mesh(200, 200, bandwidth=1e9)
    with pytest.raises(il.InvalidInput, match="1599960000 items; at most"):
        collective_problem(mesh, il.all_to_all("1 GiB"))


@pytest.mark.parametrize(
    ("made", "factor"),
    [
        (il.all_reduce(8), 2 * 7 / 8),
        (il.all_gather(8), 7 / 8),
        (il.reduce_scatter(8), 7 / 8),
        (il.all_to_all(8), 7 / 8),
        (il.broadcast(8), 1.0),
        (il.reduce(8), 1.0),
    ],
)
def test_bus_bandwidth_is_counted_as_nccl_tests_do(made: il.Collective, factor: float) -> None:
    assert made.bus_factor(8) == factor


def test_sizes_carry_units_and_names_are_matched() -> None:
    assert il.all_gather("1 GiB").size_bytes == 2**30
    with pytest.raises(il.InvalidInput, match="did you mean 'all-gather'"):
        collective("all-gathr", 1)
