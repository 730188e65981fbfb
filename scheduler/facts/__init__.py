"""Collects the facts of one unit from caches and memory. `decide` sees nothing else."""
