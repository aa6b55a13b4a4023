"""`guided` for process groups: ranks outside of the group relay where that helps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import interlock as il
from interlock.collectives import collective

LINK = {"bandwidth": "50 GB/s", "message_overhead": "0.5 us"}


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "scatter"])
@pytest.mark.parametrize("group", [(0, 1), (2, 1)])
def test_neighbours_use_ways_around_their_link(kind: str, group: tuple[int, int]) -> None:
    """The link between them alone would take two or three times as long as all their links."""
    made = il.synthesize(il.topology.mesh(3, 4, **LINK), collective(kind, "100 MB", group, root=group[0]), "guided")
    proof = made.certificate()
    assert proof.valid
    assert proof.gap <= 0.25


@pytest.mark.parametrize(
    ("topology", "group"),
    [
        (il.topology.fully_connected(8, **LINK), (5, 4, 1, 6, 7)),
        (il.topology.torus(3, 4, **LINK), (7, 8, 1, 5)),
    ],
)
def test_members_of_an_all_to_all_serve_each_other_in_turn(topology: il.Topology, group: tuple[int, ...]) -> None:
    """If all began with the same destination, what relays lead to the others would rest."""
    proof = il.synthesize(topology, il.all_to_all("100 MB", group), "guided").certificate()
    assert proof.valid
    assert proof.gap <= 0.2


def test_group_of_two_on_a_graph_of_two_is_the_whole_graph() -> None:
    ring = il.topology.ring(2, **LINK)
    group = il.synthesize(ring, il.all_gather("2 MB", (0, 1)), "guided").certificate()
    whole = il.synthesize(ring, il.all_gather("2 MB"), "guided").certificate()
    assert group.valid and group.makespan_s == whole.makespan_s


@pytest.mark.parametrize("algorithm", ["guided", "tacos"])
@pytest.mark.parametrize(
    "parameters",
    [{"parts": 0}, {"parts": 1.5}, {"parts": True}, {"threads": 0}, {"threads": "two"}, {"threads": 10**9}],
)
def test_counts_out_of_range_are_refused(algorithm: str, parameters: dict[str, object]) -> None:
    with pytest.raises(il.InvalidInput, match=f"{next(iter(parameters))}={next(iter(parameters.values()))} must be"):
        il.synthesize(il.topology.ring(4, **LINK), il.all_gather("4 MB"), algorithm, **parameters)


@pytest.mark.parametrize("algorithm", ["guided", "tacos"])
@pytest.mark.parametrize("collective", [il.all_gather, il.all_reduce])
def test_largest_seed_is_a_seed(algorithm: str, collective: Callable[[str], il.Collective]) -> None:
    made = il.synthesize(il.topology.mesh(3, 4, **LINK), collective("4 MB"), algorithm, seed=2**64 - 1)
    assert made.certificate().valid


@pytest.mark.parametrize("collective", [il.all_gather, il.reduce_scatter, il.all_reduce, il.broadcast])
@pytest.mark.parametrize(
    "topology", [il.topology.mesh(3, 4, **LINK), il.topology.dgx1(), il.topology.switch(5, **LINK)]
)
@pytest.mark.parametrize("size_bytes", [2**62, 2**62 - 1, 2_000_000_000_000_000_001])
def test_largest_sizes_are_cut_to_the_byte(
    collective: Callable[[int], il.Collective], topology: il.Topology, size_bytes: int
) -> None:
    """Above 2^53 bytes floats no longer tell one from the next."""
    assert il.synthesize(topology, collective(size_bytes), "guided").certificate().valid


def test_largest_all_to_all_counts_what_all_ranks_send() -> None:
    assert il.synthesize(il.topology.dgx1(), il.all_to_all(2**59), "guided").certificate().valid
    with pytest.raises(il.InvalidInput, match="from each of 8 ranks is more than 2\\^62 bytes in all"):
        il.synthesize(il.topology.dgx1(), il.all_to_all(2**59 + 1), "guided")


@pytest.mark.parametrize("algorithm", ["guided", "auto"])
def test_unknown_parameter_is_named(algorithm: str) -> None:
    with pytest.raises(il.InvalidInput, match="takes no 'thread'; did you mean 'threads'"):
        il.synthesize(il.topology.ring(4, **LINK), il.all_gather("4 MB"), algorithm, thread=2)


def test_rates_too_far_apart_for_the_linear_program_leave_other_ways() -> None:
    """Eleven orders of magnitude: its pivots vanish."""
    topology = il.topology.from_edges(
        [0, 0, 1, 1, 2, 2],
        [1, 2, 0, 2, 0, 1],
        [5e10, 5e10, 5e10, 1e14, 5e10, 1e3],
        [0, 1e-3, 1e-6, 1e-3, 1e-6, 1e-6],
        [1e-3, 0, 5e-7, 0, 0, 5e-7],
    )
    assert il.synthesize(topology, il.reduce(1, (2, 0, 1), root=2), "guided").certificate().valid
