"""To and from other tools: schedules out and in, topologies and traces in."""

from interlock.interchange.foreign import ForeignSchedule, Intent
from interlock.interchange.registry import FORMATS, Format, export_schedule, format_of, get_format, read_foreign
from interlock.interchange.report import ExportReport
from interlock.interchange.topologies import import_topology

__all__ = [
    "FORMATS",
    "ExportReport",
    "ForeignSchedule",
    "Format",
    "Intent",
    "export_schedule",
    "format_of",
    "get_format",
    "import_topology",
    "read_foreign",
]
