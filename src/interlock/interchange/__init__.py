"""To and from other tools: schedules out and in, topologies and traces in. One module per format."""

from interlock.interchange.contract import ExportReport, ForeignSchedule, Format, Intent
from interlock.interchange.machines.recognise import import_topology
from interlock.interchange.registry import FORMATS, export_schedule, format_of, get_format, read_foreign

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
