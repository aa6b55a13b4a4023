"""What a scale-out fabric does when several senders meet at one receiver."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InvalidInput

__all__ = ["Fabric"]


@dataclass(frozen=True, slots=True)
class Fabric:
    """How many concurrent senders a receiver tolerates, and how goodput falls beyond that.

    `fan_in` is None where any number is fine (credit-based or trimming fabrics). Beyond it a receiving port with
    `f` concurrent senders delivers ``1 / (1 + loss_per_sender * (f - fan_in))`` of its rate.
    """

    name: str = "none"
    fan_in: int | None = None
    loss_per_sender: float = 0.0

    def __post_init__(self) -> None:
        if self.fan_in is not None and (not isinstance(self.fan_in, int) or self.fan_in < 1):
            raise InvalidInput(f"fan_in={self.fan_in!r} must be a whole number of at least 1, or None for no limit")
        if not 0.0 <= self.loss_per_sender <= 100.0:
            raise InvalidInput(f"loss_per_sender={self.loss_per_sender!r} must be between 0 and 100")
