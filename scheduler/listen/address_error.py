"""What to say when an address to listen on cannot be bound."""

from __future__ import annotations

import errno

from scheduler.config.settings import Address, SettingsError


def address_error(flag: str, address: Address | None, error: OSError) -> SettingsError:
    """The error for the person who started the process: one line with flag, address and cause."""
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = (
            "this port is in use, perhaps by another scheduler on this machine; choose another port"
        )
    return SettingsError(f"{flag}: {address}: {why}")
