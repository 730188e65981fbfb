"""Compares the time of a gang with a bare loop that starts the same pods by one job."""
