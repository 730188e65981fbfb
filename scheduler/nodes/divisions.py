"""How topology spread constraints divide the Nodes: computed once for each pod template.

With 5000 Nodes a division takes 20 ms, or some hundred if the pod's node affinity is long. So it is
computed in steps, and when a Node changes, only that Node is placed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.core.node_suitability import Wishes
from scheduler.core.spread import Constraint, Domains
from scheduler.nodes.candidates import Nodes

# How many divisions are kept, of up to 2 MB each with 5000 Nodes. If somebody uses more templates,
# others' divisions are computed again.
_MOST: Final = 32
# How many Nodes are looked at in one step.
_STEP: Final = 50

_Template = tuple[tuple[Constraint, ...], Wishes]


@dataclass(slots=True)
class _Division:
    """`stale` has the names of Nodes that must still be looked at: at first all of them."""

    domains: Domains
    stale: set[str]


class Divisions:
    """Divisions by a template's constraints and requirements."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._kept: OrderedDict[_Template, _Division] = OrderedDict()
        nodes.follow(self._changed)

    def knows(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> bool:
        """Whether `of` answers at once, or after a look at a few Nodes."""
        found = self._kept.get((constraints, wishes))
        return not constraints or (found is not None and len(found.stale) <= _STEP)

    def of(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> Domains:
        """The division of all present Nodes."""
        found = self._division(constraints, wishes)
        for _ in self._look(found):
            pass
        return found.domains

    def dividing(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> Iterator[int]:
        """Compute the division in steps, and yield how many Nodes each step looked at. Nodes may be
        added, removed and changed between two steps.
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
        """Look at the Node again later. One that is gone is taken out at once: if nobody asks for
        the division any more, the names of former Nodes would stay for ever.
        """
        gone = name not in self._nodes.all_facts()
        for found in self._kept.values():
            if gone:
                found.stale.discard(name)
                found.domains.put(name, None)
            else:
                found.stale.add(name)
