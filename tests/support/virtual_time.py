"""What is common to the tests that looptime plays in virtual time."""

from __future__ import annotations

from typing import Final

POLLS: Final = 2
"""How often the loop polls before it steps ahead in time, because I/O may arrive from outside.

By default looptime polls 42 times, which is most of the work of such a test. Data on the loopback
arrives at the first poll, and looptime does not step at all while a thread works.
"""
