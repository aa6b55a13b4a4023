"""Interlock plans, proves and runs the communication of GPU clusters."""
