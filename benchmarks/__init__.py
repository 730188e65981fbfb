"""Measures this project against simpler programs that do the same, in one run."""
