"""Compares the scheduler's main path with a bare loop, on the same servers in the same run."""
