"""What is common to the tests that looptime plays in virtual time."""

from __future__ import annotations

from typing import Final

POLLS: Final = 2
"""How often the loop polls before a step in time, for something may come from outside. By default
it does so 42 times, most of the work of such a test. What comes over the loopback is there at the
first poll, and while a thread works looptime does not step at all.
"""
