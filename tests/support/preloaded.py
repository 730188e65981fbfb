"""What the fork server imports: the scheduler, and garbage collections have nothing to visit."""

import gc

import scheduler.__main__  # noqa: F401

gc.collect()
gc.freeze()
