"""Pauses that double with each failure, up to a maximum.

Whose pauses these are:

* a unit, after a request that was refused: `refused_request.py`, with constants for submits in
  `execute/setback.py`, and for other requests in the module of the verb (`execute/update.py`,
  `execute/avoid.py`, `execute/tell.py`, `execute/untagged.py`)
* a unit, after a pass that ended with an error: `reconcile/workqueue.py`
* all submits, while Slurm accepts no jobs: `execute/gate.py`
* the next pod of a controller whose pods end too soon: `crash_pause.py`
* a node that a unit could not use: `state/exclusions.py`
* what is said on a PodGroup: `group_said.py`
* the pulse, while Slurm does not answer: `slurm/pulse_pace.py`
* Events: `kube/event_pauses.py`

Four have pauses of their own, because the next one follows from the last pause and not from a
number of failures: a binding that was refused (`refused_bind.py`), a watch (`kube/reflector.py`), a
watch of the command line (`view/watching.py`) and the search for an API version of slurmrestd
(`slurmapi/session.py`). Single requests are repeated within seconds by
`groundwork/retry.py` (those to Slurm for 5 s, as `slurmapi/client.py` says).
"""

from __future__ import annotations

from typing import Final

# With more doublings the pause has long reached its maximum, and a float would overflow.
_MOST_DOUBLINGS: Final = 64


def doubled(first_seconds: float, failures: int, *, longest_seconds: float) -> float:
    """The pause after `failures` earlier failures; with 0 it is `first_seconds`."""
    return min(first_seconds * 2.0 ** min(failures, _MOST_DOUBLINGS), longest_seconds)
