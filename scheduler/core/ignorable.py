"""Names, for settings and policies, of pod requirements that cannot always be honoured."""

from __future__ import annotations

from typing import Final, Literal, get_args

Ignorable = Literal[
    "pod-affinity", "topology-spread", "host-ports", "volumes", "resource-claims", "resources"
]

IGNORABLE: Final[tuple[Ignorable, ...]] = get_args(Ignorable)
