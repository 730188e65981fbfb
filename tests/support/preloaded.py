"""Imported by the fork server: loads the scheduler, and exempts it from garbage collection."""

import gc

import scheduler.commands.every  # noqa: F401

gc.collect()
gc.freeze()
