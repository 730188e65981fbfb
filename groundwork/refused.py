"""Whether a connection could not be made because nothing listens at the address."""

from __future__ import annotations

import errno


def nothing_listens(error: OSError) -> bool:
    """Whether the connection was refused. If a name has several addresses, asyncio raises one error
    whose text joins the errors of all.
    """
    refused = isinstance(error, ConnectionRefusedError)
    return refused or f"[Errno {errno.ECONNREFUSED}]" in str(error)
