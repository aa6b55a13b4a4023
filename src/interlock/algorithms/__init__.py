"""Producers of schedules, one file each; they never import a consumer."""
