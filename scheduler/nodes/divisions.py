"""How topology spread constraints divide the Nodes: kept for each template, and kept true.

With 5000 Nodes a division takes 20 ms, and some hundred where the pod's node affinity is long. So
it is made in steps, and a Node that changes is put anew, instead of all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.core.node_suitability import Wishes
from scheduler.core.spread import Constraint, Domains
from scheduler.nodes.candidates import Nodes

# Divisions that are kept: up to 2 MB each with 5000 Nodes. Whoever asks for ever new ones has
# others' made anew.
_MOST: Final = 32
# Nodes that are looked at in one step.
_STEP: Final = 50

_Template = tuple[tuple[Constraint, ...], Wishes]


@dataclass(slots=True)
class _Division:
    """`stale` has the names of the Nodes that must be looked at: all of them at first."""

    domains: Domains
    stale: set[str]


class Divisions:
    """Domains by the constraints and the wishes of a template."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._kept: OrderedDict[_Template, _Division] = OrderedDict()
        nodes.follow(self._changed)

    def knows(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> bool:
        """Whether `of` answers at once, or after a look at a few Nodes."""
        found = self._kept.get((constraints, wishes))
        return not constraints or (found is not None and len(found.stale) <= _STEP)

    def of(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> Domains:
        """The division of all Nodes as they are now."""
        found = self._division(constraints, wishes)
        for _ in self._look(found):
            pass
        return found.domains

    def dividing(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> Iterator[int]:
        """Make it in steps, which say how many Nodes each looked at. Nodes may come, go and change
        between two steps.
        """
        yield from self._look(self._division(constraints, wishes))

    def _division(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> _Division:
        template = constraints, wishes
        found = self._kept.get(template)
        if found is None:
            found = _Division(Domains(constraints, wishes), set(self._nodes.all_facts()))
            self._kept[template] = found
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(template)
        return found

    def _look(self, found: _Division) -> Iterator[int]:
        while found.stale:
            looked = min(len(found.stale), _STEP)
            for _ in range(looked):
                name = found.stale.pop()
                found.domains.put(name, self._nodes.all_facts().get(name))
            yield looked

    def _changed(self, name: str) -> None:
        for found in self._kept.values():
            found.stale.add(name)
