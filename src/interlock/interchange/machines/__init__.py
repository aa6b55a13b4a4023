"""Topologies in: files that describe servers or networks."""
