"""The strategies that a site can name to find the Kubernetes Node behind a Slurm node.

`nodes/node_map.py` applies them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final


@unique
class Way(StrEnum):
    """What connects the two."""

    NAME = "name"
    """Both have the same name."""
    COMMENT = "comment"
    """The Slurm node's comment is the Node's name, as in SUNK."""
    EXTRA = "extra"
    """The Slurm node's `extra` is the Node's name."""
    INSTANCE_ID = "instance-id"
    """The Slurm node's instance id is the Node's name, or the last part of its providerID."""
    LABEL = "label"
    """A label of the Node has the Slurm node's name."""
    ANNOTATION = "annotation"
    """An annotation of the Node has the Slurm node's name."""
    SLURMD_POD = "slurmd-pod"
    """The Node runs a slurmd pod whose name or hostname is the Slurm node's name."""
    ADDRESS = "address"
    """The Slurm node's NodeAddr is an InternalIP of the Node."""
    FILE = "file"
    """A file lists them."""


# The ways that need Slurm's own record of a node.
OF_SLURM: Final = frozenset({Way.COMMENT, Way.EXTRA, Way.INSTANCE_ID, Way.ADDRESS})
# The ways that need read access to Nodes.
OF_NODES: Final = frozenset({Way.LABEL, Way.ANNOTATION, Way.ADDRESS})

SLURMD_PODS: Final = "app.kubernetes.io/name=slurmd"

_KEYED: Final = frozenset({Way.LABEL, Way.ANNOTATION, Way.FILE})
_ACCEPTED: Final = (
    "name, comment, extra, instance-id, label:KEY, annotation:KEY, "
    "slurmd-pod, slurmd-pod:SELECTOR, slurmd-pod:NAMESPACE:SELECTOR, address, file:PATH"
)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way with its key: a label, an annotation, a path, or a selector of pods."""

    way: Way
    key: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        parts = (self.way.value, self.namespace, self.key)
        return ":".join(part for part in parts if part)

    @classmethod
    def parse(cls, text: str) -> Strategy:
        """Parse a setting. Raises ValueError, which says what is accepted."""
        word, _, key = text.strip().partition(":")
        try:
            way = Way(word)
        except ValueError:
            raise ValueError(f"{text!r} is no mapping; expected {_ACCEPTED}") from None
        if (way in _KEYED) is not bool(key) and way is not Way.SLURMD_POD:
            raise ValueError(f"{text!r}: expected {_ACCEPTED}")
        return _slurmd_pods(key) if way is Way.SLURMD_POD else cls(way, key)


def _slurmd_pods(key: str) -> Strategy:
    """Parse SELECTOR or NAMESPACE:SELECTOR. In it `&` stands for the selector's comma, since commas
    separate strategies. Raises ValueError, which says what is accepted.
    """
    namespace, colon, selector = key.partition(":") if ":" in key else ("", "", key)
    if colon and not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"{key!r}: {namespace!r} is no namespace; expected NAMESPACE:SELECTOR")
    return Strategy(Way.SLURMD_POD, selector.replace("&", ",") or SLURMD_PODS, namespace)
