"""The times that decisions depend on: intervals, ages and limits."""

from __future__ import annotations

from typing import Final

# A bind must rely on a look at the job that is no older than this (I2).
FRESH_SECONDS: Final = 2.0
# While a node is made ready, the pulse shows when that ends, and it looks at a few such jobs each
# second, so that their pods can say where they are (`slurm/pulse.py`). Only after this time does a
# pod cause a look itself, and show its job even without one.
MADE_READY_SECONDS: Final = 60.0
# If waiting can help, an allocation on an unfit Node is released only after this time.
UNFIT_SECONDS: Final = 60.0
# The longest time that an allocation is kept while another pod leaves its Node: the guard's
# WAIT_SECONDS, which Slurm's hook scripts have as their default.
HANDOVER_SECONDS: Final = 300.0
# A safety net: anything that watches and pulses miss is found within this time.
SLOW_LOOK_SECONDS: Final = 300.0
# An accepted cancel without visible effect is repeated after this time, because a slurmctld that
# crashes forgets it.
CANCEL_AGAIN_SECONDS: Final = 10.0
# Nothing is written about a new job for this long: most pods are bound by then, and the Binding
# carries the same annotations.
UNTOLD_SECONDS: Final = 1.5
# Slurm's answer shows that a job waits if it was asked this long after the submit.
SHOWN_AFTER_SECONDS: Final = 1.0
# If Slurm has not said by then whether the job still waits, the pod shows the job nevertheless.
LONGEST_UNTOLD_SECONDS: Final = 5.0
# How soon an unconfirmed or unfinished matter is looked at again.
SOON_SECONDS: Final = 1.0
# How often we check whether the Node of a pod that vanished still exists.
LINGER_LOOK_SECONDS: Final = 5.0
