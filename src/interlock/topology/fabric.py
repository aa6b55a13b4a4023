"""What a scale-out fabric does when several senders meet at one receiver."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InvalidInput

__all__ = ["Fabric"]


@dataclass(frozen=True, slots=True)
class Fabric:
    """How many concurrent senders a receiver tolerates, and how goodput falls beyond that.

    `fan_in` is None where any number is fine (credit-based or trimming fabrics). Beyond it a receiving port with f
    concurrent senders, whose messages in flight hold b bytes per sender, delivers ``1 / (1 + loss)`` of its rate:
    ``loss = loss_per_sender * (f - fan_in)**sender_exponent * (b / reference_bytes)**size_exponent``, at most
    `max_loss`.
    """

    name: str = "none"
    fan_in: int | None = None
    loss_per_sender: float = 0.0
    sender_exponent: float = 1.0
    reference_bytes: float = 1e6
    size_exponent: float = 0.0
    max_loss: float = 1000.0

    def __post_init__(self) -> None:
        if self.fan_in is not None and (not isinstance(self.fan_in, int) or self.fan_in < 1):
            raise InvalidInput(f"fan_in={self.fan_in!r} must be a whole number of at least 1, or None for no limit")
        limits = {"loss_per_sender": 100.0, "sender_exponent": 4.0, "size_exponent": 4.0, "max_loss": 1e6}
        for name, most in limits.items():
            if not 0.0 <= getattr(self, name) <= most:
                raise InvalidInput(f"{name}={getattr(self, name)!r} must be between 0 and {most:g}")
        if not 1.0 <= self.reference_bytes <= 1e18:
            raise InvalidInput(f"reference_bytes={self.reference_bytes!r} must be between 1 and 1e18")
