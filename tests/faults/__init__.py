"""Faults between the scheduler and its servers: a proxy plays them, all must outlive them."""
