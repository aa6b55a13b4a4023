"""DySHARP's addressing, executable: packets, switch and tables on real values. Functional, not timed."""

from interlock.moe.functional.layer import moe_layer, reference_layer
from interlock.moe.functional.packets import MAX_TARGETS, Packet, Stage, decode, encode
from interlock.moe.functional.switch import Switch
from interlock.moe.functional.tables import AddressTable, TableFull

__all__ = [
    "MAX_TARGETS",
    "AddressTable",
    "Packet",
    "Stage",
    "Switch",
    "TableFull",
    "decode",
    "encode",
    "moe_layer",
    "reference_layer",
]
