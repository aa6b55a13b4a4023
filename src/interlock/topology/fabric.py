"""What a scale-out fabric does when several senders meet at one receiver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, named

__all__ = ["DEFAULT_LOSS_PER_SENDER", "FABRICS", "Fabric", "fabric"]

# What a limit costs beyond it where nothing is known of the fabric but the limit: five percent per extra sender.
DEFAULT_LOSS_PER_SENDER = 0.05


@dataclass(frozen=True, slots=True)
class Fabric:
    """How many concurrent senders a receiver tolerates, and how goodput falls beyond that.

    A receiving port passes `efficiency` of its rate. `fan_in` is None where any number of senders is fine
    (credit-based or trimming fabrics). Beyond it a port with f concurrent senders, whose messages in flight hold b
    bytes per sender, delivers ``1 / (1 + loss)`` of that: ``loss = loss_per_sender * (f - fan_in)**sender_exponent
    * (b / reference_bytes)**size_exponent``, at most `max_loss`. Where congestion control gives up, a second term of
    the same form is added beyond `collapse_fan_in`.

    With `ecmp_radix` the fabric is a two-level Clos: leaves of that many NICs (of one rail on rail-spine, in rank order
    on flat), `ecmp_uplinks` uplinks each, to as many spines (None: one per NIC), all of the mean NIC's rate. A flow is
    hashed to an uplink for good, by a hash seeded with `ecmp_seed`; messages of a pair of NICs take turns on
    `ecmp_flows` flows, the entropy that a hash sees. Rail-only clusters have no uplinks.
    """

    name: str = "none"
    fan_in: int | None = None
    loss_per_sender: float = 0.0
    sender_exponent: float = 1.0
    reference_bytes: float = 1e6
    size_exponent: float = 0.0
    collapse_fan_in: int | None = None
    collapse_loss: float = 0.0
    collapse_sender_exponent: float = 1.0
    collapse_size_exponent: float = 0.0
    max_loss: float = 1000.0
    efficiency: float = 1.0
    ecmp_radix: int | None = None
    ecmp_uplinks: int | None = None
    ecmp_flows: int = 1
    ecmp_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("fan_in", 1), ("collapse_fan_in", 1), ("ecmp_radix", 2)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InvalidInput(f"{name}={value!r} must be a whole number of at least {least}, or None")
        for name, least, limit in (("ecmp_uplinks", 1, 4096), ("ecmp_flows", 1, 1024), ("ecmp_seed", 0, 2**32)):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not (is_whole and least <= value <= limit) and not (value is None and name == "ecmp_uplinks"):
                raise InvalidInput(f"{name}={value!r} must be a whole number from {least} to {limit}")
        losses = {"loss_per_sender": 100.0, "collapse_loss": 100.0, "max_loss": 1e6}
        exponents = ("sender_exponent", "size_exponent", "collapse_sender_exponent", "collapse_size_exponent")
        for name, most in (losses | dict.fromkeys(exponents, 4.0)).items():
            if not 0.0 <= getattr(self, name) <= most:
                raise InvalidInput(f"{name}={getattr(self, name)!r} must be between 0 and {most:g}")
        if not 1.0 <= self.reference_bytes <= 1e18:
            raise InvalidInput(f"reference_bytes={self.reference_bytes!r} must be between 1 and 1e18")
        if not 0.01 <= self.efficiency <= 1.0:
            raise InvalidInput(f"efficiency={self.efficiency!r} must be between 0.01 and 1")

    def slowdown(self, senders: NDArray[np.float64], bytes_per_sender: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many times longer a port takes with so many senders at once."""
        terms = (
            (self.fan_in, self.loss_per_sender, self.sender_exponent, self.size_exponent),
            (self.collapse_fan_in, self.collapse_loss, self.collapse_sender_exponent, self.collapse_size_exponent),
        )
        size = bytes_per_sender / self.reference_bytes
        loss = np.zeros(np.broadcast(senders, size).shape)
        for limit, each, sender_exponent, size_exponent in terms:
            if limit is not None:
                beyond = np.maximum(senders - limit, 0.0)
                loss += np.where(beyond > 0, each * beyond**sender_exponent * size**size_exponent, 0.0)
        return np.asarray(1.0 + np.minimum(loss, self.max_loss), np.float64)

    def with_fan_in(self, fan_in: int | None) -> Fabric:
        """The fabric with another limit; a limit on a fabric that lost nothing brings the default loss."""
        if fan_in is None:
            return replace(self, fan_in=None, loss_per_sender=0.0, collapse_fan_in=None, collapse_loss=0.0)
        return replace(self, fan_in=fan_in, loss_per_sender=self.loss_per_sender or DEFAULT_LOSS_PER_SENDER)


# docs/reference/fabrics.md says where each comes from; benchmarks/fit_dcqcn.py fits the one of that name.
FABRICS = {
    made.name: made
    for made in (
        Fabric("none"),
        Fabric("infiniband"),
        Fabric("trimming"),
        Fabric("roce-pfc", ecmp_radix=4),
        Fabric("clos", ecmp_radix=8),
        Fabric(
            "roce-dcqcn",
            fan_in=1,
            loss_per_sender=0.0323,
            sender_exponent=0.3,
            size_exponent=0.2,
            collapse_fan_in=20,
            collapse_loss=0.00355,
            collapse_sender_exponent=3.39,
            collapse_size_exponent=1.97,
            max_loss=47.0,
            efficiency=0.84,
        ),
        Fabric("lossy", fan_in=1, loss_per_sender=2.0),
    )
}


def fabric(name: str) -> Fabric:
    """A fabric by name.

    >>> fabric("lossy").fan_in
    1
    """
    return named(FABRICS, name, "fabric")
