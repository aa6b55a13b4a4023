"""The addressing scheme on real values: equal to the plain layer, nothing lost or doubled, nothing silent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.moe.dysharp_packets import (
    MAX_TARGETS,
    AddressTable,
    Packet,
    Stage,
    Switch,
    TableFull,
    decode,
    encode,
    moe_layer,
)

from interlock.errors import InvalidInput

HIDDEN = 64
Values = NDArray[np.float32]
Experts = Callable[[int, Values], Values]


def reference_layer(
    x: Values, experts: NDArray[np.int32], weights: Values, run: Experts, num_gpus: int, num_experts: int
) -> Values:
    """The plain layer, with the documented order of summation."""
    per_gpu, tokens_per_gpu = num_experts // num_gpus, len(x) // num_gpus
    out = np.zeros_like(x)
    for token in range(len(x)):
        home = token // tokens_per_gpu
        partials: dict[int, Values] = {}
        for place in np.argsort(experts[token], kind="stable"):
            expert = int(experts[token, place])
            value = (run(expert, x[token][None])[0] * weights[token, place]).astype(np.float32)
            gpu = expert // per_gpu
            partials[gpu] = partials[gpu] + value if gpu in partials else value
        for gpu in sorted(set(partials) - {home}):
            out[token] += partials[gpu]
        if home in partials:
            out[token] += partials[home]
    return out


@st.composite
def layers(draw: st.DrawFn, *, whole: bool) -> dict[str, object]:
    """Routing of any shape; `whole` draws small integers, which add up exactly in any order."""
    gpus = draw(st.integers(1, 4))
    per_gpu = draw(st.integers(1, 3))
    top_k = draw(st.integers(1, min(4, gpus * per_gpu)))
    tokens = gpus * draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_experts = gpus * per_gpu
    experts = np.stack([rng.permutation(num_experts)[:top_k] for _ in range(tokens)]).astype(np.int32)
    x = rng.integers(-8, 9, (tokens, HIDDEN)) if whole else rng.standard_normal((tokens, HIDDEN))
    weights = rng.integers(0, 4, (tokens, top_k)) if whole else rng.random((tokens, top_k))
    matrices = (
        rng.integers(-3, 4, (num_experts, HIDDEN)) if whole else rng.standard_normal((num_experts, HIDDEN))
    ).astype(np.float32)
    return {
        "x": x.astype(np.float32),
        "experts": experts,
        "weights": weights.astype(np.float32),
        "run": lambda expert, rows: rows * matrices[expert],
        "num_gpus": gpus,
        "num_experts": num_experts,
    }


@settings(max_examples=40)
@given(layers(whole=False))
def test_the_layer_equals_the_plain_one_bit_for_bit(layer: dict) -> None:
    assert np.array_equal(moe_layer(**layer), reference_layer(**layer))


@settings(max_examples=40)
@given(layers(whole=True), st.integers(0, 2**32))
def test_no_packet_is_lost_or_doubled_in_any_order_of_arrival(layer: dict, seed: int) -> None:
    shuffled = moe_layer(**layer, arrivals=np.random.default_rng(seed))
    assert np.array_equal(shuffled, reference_layer(**layer))


@given(
    st.integers(0, 2**48 - 1),
    st.sampled_from(Stage),
    st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=40),
    st.binary(max_size=128).map(lambda b: b + bytes(-len(b) % 16)),
)
def test_packets_survive_the_wire(address: int, stage: Stage, targets: list[int], payload: bytes) -> None:
    packet = Packet(address, stage, tuple(targets), payload)
    assert decode(encode(packet)) == packet
    assert len(encode(packet)) == 16 * (1 + -(-len(targets) // 8) + len(payload) // 16)


def test_eight_targets_leave_eighty_percent_payload() -> None:
    flits = len(encode(Packet(0, Stage.DISPATCH, tuple(range(8)), bytes(128)))) // 16
    assert 8 / flits == 0.8


@pytest.mark.parametrize(
    ("packet", "rule"),
    [
        (Packet(2**48, Stage.DISPATCH, (1,)), "must fit 48 bits"),
        (Packet(-1, Stage.DISPATCH, (1,)), "must fit 48 bits"),
        (Packet(0, Stage.DISPATCH, ()), "there must be between 1 and"),
        (Packet(0, Stage.DISPATCH, (2**16,)), "must fit 16 bits each"),
        (Packet(0, Stage.DISPATCH, tuple([1] * (MAX_TARGETS + 1))), "there must be between 1 and"),
        (Packet(0, Stage.DISPATCH, (1,), b"123"), "is not whole flits"),
    ],
)
def test_packets_that_do_not_fit_are_refused(packet: Packet, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        encode(packet)


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        packet = decode(data)
    except InvalidInput:
        return
    assert decode(encode(packet)) == packet


def test_the_switch_copies_once_per_port_and_trims_the_list() -> None:
    copies = Switch(4, 2).replicate(Packet(0, Stage.DISPATCH, (0, 1, 5, 7)))
    assert [(port, copy.targets) for port, copy in copies] == [(0, (0, 1)), (2, (5,)), (3, (7,))]


def test_a_doubled_reply_is_an_error() -> None:
    switch = Switch(2, 1)
    ask = Packet(64, Stage.COMBINE, (1,))
    switch.request(0, ask, 16)
    assert switch.reply(0, 64, np.ones(4, np.float32)) is not None
    with pytest.raises(InvalidInput, match="twice or unasked"):
        switch.reply(0, 64, np.ones(4, np.float32))


def test_a_full_reduction_buffer_makes_the_request_wait() -> None:
    switch = Switch(2, 1, buffer_bytes=32)
    switch.request(0, Packet(0, Stage.COMBINE, (1,)), 32)
    assert not switch.can_open(0, 16) and switch.can_open(1, 16)
    with pytest.raises(Exception, match="open sums"):
        switch.request(0, Packet(64, Stage.COMBINE, (1,)), 16)


def test_a_full_table_is_never_silent() -> None:
    table = AddressTable(num_experts=1, num_tokens=10, rows_per_expert=2, tlb_entries=1)
    assert [table.touch(0, 7), table.touch(0, 3), table.touch(0, 7)] == [0, 1, 0]
    with pytest.raises(TableFull, match="no row left for token 5"):
        table.touch(0, 5)
    assert table.find(0, 3) == 1
    with pytest.raises(InvalidInput, match="never dispatched"):
        table.find(0, 9)
    assert table.misses > 0 and table.rows(0) == 2
