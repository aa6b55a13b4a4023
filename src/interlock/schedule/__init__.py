"""The one format in the middle: messages and pieces, its law, and how to build it."""

from interlock.schedule.aligned import VECTOR_BYTES, Aligned, align_rows, check_align
from interlock.schedule.build import Batch, assemble, empty_schedule, from_native, joined, make_pieces
from interlock.schedule.files import SavedSchedule, is_schedule_file, read_schedule, write_atomically, write_schedule
from interlock.schedule.layout import Layout, PairStarts, Region
from interlock.schedule.link_orders import follows, has_place, is_in_order, levels, ordered_links, resolved_paths
from interlock.schedule.loads import PortLoads
from interlock.schedule.model import (
    MAX_ROWS,
    CompactSchedule,
    Kind,
    Message,
    Phase,
    Pieces,
    Schedule,
    TaskRows,
    Wrapped,
    check_rows,
)
from interlock.schedule.program import Buffer, Program, lower
from interlock.schedule.reverse import backwards, reverse_copies
from interlock.schedule.scratch import ScratchSpans, scratch_spans
from interlock.schedule.slots import SlotSchedule, SlotTable, TranslatedSchedule, resting
from interlock.schedule.spec import check_form
from interlock.schedule.timeline import chrome_trace_lines
from interlock.schedule.transfers import Chunks, Routes, TransferSchedule, link_routes

__all__ = [
    "MAX_ROWS",
    "VECTOR_BYTES",
    "Aligned",
    "Batch",
    "Buffer",
    "Chunks",
    "CompactSchedule",
    "Kind",
    "Layout",
    "Message",
    "PairStarts",
    "Phase",
    "Pieces",
    "PortLoads",
    "Program",
    "Region",
    "Routes",
    "SavedSchedule",
    "Schedule",
    "ScratchSpans",
    "SlotSchedule",
    "SlotTable",
    "TaskRows",
    "TransferSchedule",
    "TranslatedSchedule",
    "Wrapped",
    "align_rows",
    "assemble",
    "backwards",
    "check_align",
    "check_form",
    "check_rows",
    "chrome_trace_lines",
    "empty_schedule",
    "follows",
    "from_native",
    "has_place",
    "is_schedule_file",
    "is_in_order",
    "levels",
    "link_routes",
    "lower",
    "joined",
    "make_pieces",
    "ordered_links",
    "read_schedule",
    "reverse_copies",
    "resolved_paths",
    "scratch_spans",
    "resting",
    "write_atomically",
    "write_schedule",
]
