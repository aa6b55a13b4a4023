"""Formats of equal chunks: bytes become chunks, schedules become programs of chunk moves, and back."""
